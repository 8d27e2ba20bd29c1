//! What provisioning asks of git: which marker files are tracked, and what the base commit holds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::git::{Git, GitError, items};
use super::{Repository, WorktreeError};
use crate::ids::CommitId;

/// A file as a commit has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedFile {
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether it is executable.
    pub executable: bool,
}

/// Returns which of `names` git tracks in the checkout at `root`.
pub fn tracked(git: &Git, root: &Path, names: &[String]) -> Result<BTreeSet<String>, WorktreeError> {
    let call = git.at(root, ["--literal-pathspecs", "ls-files", "-z", "--"]).reading().args(names);
    let listed = call.output()?;
    Ok(items(&listed).map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// Returns those of `names` that `commit` has as plain files, with their content.
pub fn files_at(
    git: &Git,
    repository: &Repository,
    commit: &CommitId,
    names: &[String],
) -> Result<BTreeMap<String, CommittedFile>, WorktreeError> {
    let inside = |words: &[&str]| git.inside(&repository.common_dir, words).reading();
    let listing = inside(&["--literal-pathspecs", "ls-tree", "-z", "--full-tree", commit.as_str(), "--"])
        .args(names)
        .output()?;
    let mut files = BTreeMap::new();
    for entry in items(&listing) {
        let entry = String::from_utf8_lossy(entry);
        let Some((meta, name)) = entry.split_once('\t') else { continue };
        let mut words = meta.split(' ');
        let (Some(mode), Some("blob"), Some(object)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        // 120000 is a symbolic link, whose blob is a path.
        if mode == "100644" || mode == "100755" {
            let bytes = inside(&["cat-file", "blob", object]).output()?;
            files.insert(name.to_string(), CommittedFile { bytes, executable: mode == "100755" });
        }
    }
    Ok(files)
}

/// Returns whether git knows who commits here.
pub fn has_identity(git: &Git, repository: &Repository) -> Result<bool, WorktreeError> {
    match git.at(repository.folder(), ["var", "GIT_COMMITTER_IDENT"]).reading().output() {
        Ok(_) => Ok(true),
        Err(GitError::Failed { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
