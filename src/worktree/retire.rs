//! Sets a lane's tree aside whole, so that the lane can begin anew. Nothing of it is lost.
#![expect(clippy::disallowed_methods, reason = "looks for a free name beside the lane")]

use std::path::{Path, PathBuf};

use super::git::{Git, GitError};
use super::lock::{LaneLock, RepositoryLock};
use super::make::unlock;
use super::observe::{entry_for, lock_of};
use super::{AcquireClass, AcquireFault, LaneRequest, Repository};
use crate::worktree::lane::Lock;

/// Moves the tree of a lane to `<lane>.old-<n>` with its HEAD detached, and, where `anew`, gives its
/// branch free: at base it is deleted, past base it becomes `<branch>.old-<n>`.
///
/// Where the branch stays and the tree holds uncommitted work, later nodes need that work: the tree
/// stays where it is, to be provisioned anew in place.
///
/// Returns where the tree is now; `None` where none was moved. Idempotent. Errors: the tree is not
/// this run's, or git could not move it; it is then where it was.
pub fn retire(
    git: &Git,
    repository: &Repository,
    request: &LaneRequest,
    anew: bool,
) -> Result<Option<PathBuf>, AcquireFault> {
    let act = Act { git, repository, request };
    let _lane = LaneLock::take(&request.path, None).map_err(|error| act.failed(&error.to_string()))?;
    if !anew && act.holds_work()? {
        return Ok(None);
    }
    let number = act.free_number()?;
    let lock =
        RepositoryLock::take(&repository.common_dir).map_err(|error| act.failed(&error.to_string()))?;
    let moved = act.move_tree(number, &lock)?;
    drop(lock);
    if anew {
        act.free_branch(number).map_err(|error| act.failed(&error.to_string()))?;
    }
    Ok(moved)
}

struct Act<'a> {
    git: &'a Git,
    repository: &'a Repository,
    request: &'a LaneRequest,
}

impl Act<'_> {
    fn failed(&self, detail: &str) -> AcquireFault {
        AcquireFault {
            class: AcquireClass::AcquireFailed,
            detail: format!("the old tree of lane `{}` could not be set aside: {detail}", self.request.lane),
            hint: format!("move {} away yourself, then resume", self.request.path.display()),
        }
    }

    fn old_path(&self, number: u32) -> PathBuf {
        self.request.path.with_file_name(format!("{}.old-{number}", self.request.lane))
    }

    fn old_branch(&self, number: u32) -> String {
        format!("{}.old-{number}", self.request.branch_ref())
    }

    fn reference(&self, name: &str) -> Result<Option<crate::ids::CommitId>, GitError> {
        let call =
            self.git.inside(&self.repository.common_dir, ["rev-parse", "--verify", "--quiet"]).arg(name);
        match call.reading().commit() {
            Ok(commit) => Ok(Some(commit)),
            Err(GitError::Failed { code: Some(1), .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the first number that neither a tree nor a branch of before has.
    fn free_number(&self) -> Result<u32, AcquireFault> {
        for number in 1..10_000 {
            let taken = self
                .reference(&self.old_branch(number))
                .map_err(|error| self.failed(&error.to_string()))?
                .is_some();
            if !taken && std::fs::symlink_metadata(self.old_path(number)).is_err() {
                return Ok(number);
            }
        }
        Err(self.failed("there are too many old trees of it"))
    }

    /// Returns whether the tree holds anything that is in no commit, whatever the user's configuration
    /// hides.
    fn holds_work(&self) -> Result<bool, AcquireFault> {
        if !self.request.path.is_dir() {
            return Ok(false);
        }
        let words = ["status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=none"];
        let status = self.git.at(&self.request.path, words).config("core.fsmonitor=false").reading().output();
        status.map(|status| !status.is_empty()).map_err(|error| self.failed(&error.to_string()))
    }

    fn move_tree(&self, number: u32, lock: &RepositoryLock) -> Result<Option<PathBuf>, AcquireFault> {
        let failed = |error: GitError| self.failed(&error.to_string());
        let path = &self.request.path;
        let entry = entry_for(self.repository, path).map_err(|error| self.failed(&error.to_string()))?;
        let (Some(entry), true) = (entry, path.is_dir()) else { return Ok(None) };
        match lock_of(&entry, &self.request.run) {
            Lock::Ours => unlock(self.git, self.repository, path, lock).map_err(failed)?,
            Lock::None => {}
            Lock::Initializing | Lock::Foreign(_) => return Err(self.failed("somebody else has locked it")),
        }
        if let Some(head) = self.head(path).map_err(failed)? {
            // Not `checkout --detach`: that runs a hook, and refuses amid a merge.
            let detach = self.git.at(path, ["update-ref", "--no-deref", "HEAD", head.as_str()]);
            detach.output().map_err(failed)?;
        }
        let old = self.old_path(number);
        let call = self.git.inside(&self.repository.common_dir, ["worktree", "move"]).arg(path).arg(&old);
        let call = match lock.share() {
            Ok(file) => call.holding(file),
            Err(_) => call,
        };
        call.output_despite_races().map_err(failed)?;
        Ok(Some(old))
    }

    fn head(&self, root: &Path) -> Result<Option<crate::ids::CommitId>, GitError> {
        match self.git.at(root, ["rev-parse", "--verify", "--quiet", "HEAD"]).reading().commit() {
            Ok(commit) => Ok(Some(commit)),
            Err(GitError::Failed { code: Some(1), .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn free_branch(&self, number: u32) -> Result<(), GitError> {
        let name = self.request.branch_ref();
        let Some(tip) = self.reference(&name)? else { return Ok(()) };
        let update = |words: &[&str]| {
            self.git.inside(&self.repository.common_dir, ["update-ref"]).args(words).output().map(|_| ())
        };
        if tip != self.request.base {
            let none = super::git::no_object(&tip);
            update(&[&self.old_branch(number), tip.as_str(), &none])?;
        }
        update(&["-d", &name, tip.as_str()])
    }
}
