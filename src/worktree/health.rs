//! What `gc` and `doctor` ask of a repository. Nothing here changes anything.
#![expect(
    clippy::disallowed_methods,
    reason = "looks which folders of worktree entries are there, and how old they are"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::git::GitError;
use super::observe::{Entry, entries, gone_aside, set_aside};
use super::{GitWorktrees, Repository, WorktreeError, receipt, retire};
use crate::ids::CommitId;

/// A worktree entry of a repository, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntrySight {
    /// Its folder in the repository's git folder.
    pub git_dir: PathBuf,
    /// The worktree that it names; `None` where it names none.
    pub path: Option<PathBuf>,
    /// Whether git can read it.
    pub whole: bool,
    /// Whether it does not say which repository it is of, and nobody is amid making it: that fails every
    /// `git worktree` of the repository.
    pub has_no_common_dir: bool,
    /// The run that it bears the name of, by its lock or its receipt; `None` where it is not ours.
    pub run: Option<String>,
    /// Whether its worktree is gone, and nobody has it on its way elsewhere.
    pub is_missing: bool,
    /// Whether somebody locked it.
    pub is_locked: bool,
}

impl EntrySight {
    /// Returns whether it is the entry of the worktree at `path`.
    pub fn is_at(&self, path: &Path) -> bool {
        let Some(named) = &self.path else { return false };
        let real = super::discover::real;
        named == path
            || named.file_name() == path.file_name()
                && matches!((real(named), real(path)), (Ok(named), Ok(path)) if named == path)
    }
}

impl GitWorktrees {
    /// Returns every worktree entry of the repository, read as files.
    pub fn entries(&self, repository: &Repository) -> Result<Vec<EntrySight>, WorktreeError> {
        let found = entries(repository).map_err(|error| WorktreeError::io(&repository.common_dir, &error))?;
        Ok(found.into_iter().map(sight).collect())
    }

    /// Returns whether a ref other than the branch itself reaches its tip, rescue refs among them; `None`
    /// where there is no such branch.
    pub fn is_reached_elsewhere(
        &self,
        repository: &Repository,
        branch: &str,
    ) -> Result<Option<bool>, WorktreeError> {
        let name = format!("refs/heads/{branch}");
        let common = &repository.common_dir;
        let Some(tip) = super::observe::tip(&self.git, common, &name)? else { return Ok(None) };
        let words = ["for-each-ref", "--format=%(refname)", "--contains", tip.as_str()];
        let listed = self.git.inside(common, words).reading().line()?;
        Ok(Some(listed.lines().any(|other| other != name)))
    }

    /// Returns the branches whose tips HEAD of the checkout does not reach, with these tips.
    pub fn unmerged(&self, repository: &Repository) -> Result<BTreeMap<String, CommitId>, WorktreeError> {
        let words =
            ["for-each-ref", "--format=%(objectname) %(refname)", "--no-merged", "HEAD", "refs/heads/"];
        let listed = self.git.at(repository.folder(), words).reading().line()?;
        let branch = |line: &str| {
            let (commit, name) = line.split_once(' ')?;
            Some((name.strip_prefix("refs/heads/")?.to_string(), CommitId::parse(commit)?))
        };
        Ok(listed.lines().filter_map(branch).collect())
    }

    /// Returns every branch of the repository.
    pub fn branches(&self, repository: &Repository) -> Result<BTreeSet<String>, WorktreeError> {
        let words = ["for-each-ref", "--format=%(refname)", "refs/heads/"];
        let listed = self.git.inside(&repository.common_dir, words).reading().line()?;
        Ok(listed.lines().filter_map(|name| name.strip_prefix("refs/heads/")).map(str::to_string).collect())
    }

    /// Returns the value that a setting has in the checkout, or in `file` alone; `None` where it has none.
    pub fn setting(
        &self,
        repository: &Repository,
        file: Option<&Path>,
        name: &str,
    ) -> Result<Option<String>, WorktreeError> {
        let call = self.git.at(repository.folder(), ["config"]).reading();
        let call = match file {
            Some(file) => call.arg("--file").arg(file),
            None => call,
        };
        match call.args(["--get", name]).line() {
            Ok(value) => Ok(Some(value)),
            Err(GitError::Failed { code: Some(1), .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the version of the git that is found, as it says it.
    pub fn version(&self) -> Result<String, WorktreeError> {
        Ok(self.git.at(Path::new("/"), ["version"]).reading().line()?)
    }
}

fn sight(entry: Entry) -> EntrySight {
    let by_lock = entry.locked.as_deref().and_then(|reason| reason.strip_prefix("omg run "));
    let run = by_lock.map(str::to_string).or_else(|| receipt::run_of(&entry.git_dir));
    let is_missing = entry.path.as_deref().is_some_and(is_gone) && !retire::is_on_its_way(&entry);
    EntrySight {
        has_no_common_dir: entry.common_dir_is_empty && is_old(&entry.git_dir),
        is_missing,
        run,
        is_locked: entry.locked.is_some(),
        git_dir: entry.git_dir,
        path: entry.path,
        whole: entry.whole,
    }
}

/// Returns whether a folder was last changed so long ago that nobody is amid making it.
fn is_old(folder: &Path) -> bool {
    const MAKING: Duration = Duration::from_secs(60);
    let changed = folder.symlink_metadata().and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| SystemTime::now().duration_since(changed).is_ok_and(|age| age > MAKING))
}

/// Returns whether nothing is at `path`, nor beside it under a name that a sweep gives.
fn is_gone(path: &Path) -> bool {
    let none = |path: &Path| path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let beside = [set_aside(path), gone_aside(path)];
    none(path) && beside.into_iter().all(|other| other.is_ok_and(|other| none(&other)))
}
