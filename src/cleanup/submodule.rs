//! Whether a submodule of a lane holds work of its own. Its repository lies in the lane's git folder
//! and goes with it, so a commit on a branch of it is in no other place (measured with git 2.47).
#![expect(clippy::disallowed_methods, reason = "finds repositories of submodules")]

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::look::{GIT_LOCKS, status};
use crate::worktree::git::{Call, items, path_of};
use crate::worktree::{Git, GitError, OPERATIONS};

/// Returns the submodules in a listing of `ls-files --stage -z`.
pub(super) fn gitlinks_in(listing: &[u8]) -> Vec<PathBuf> {
    items(listing)
        .filter(|item| item.starts_with(b"160000 "))
        .filter_map(|item| item.splitn(2, |byte| *byte == b'\t').nth(1))
        .map(path_of)
        .collect()
}

/// Returns whether the submodule holds work that no remote of it has.
///
/// Asked with both places given: a submodule's own settings name the place where the lane was when
/// it was filled, and git fails there once the lane is set aside (measured with git 2.47).
pub(super) fn has_work(git: &Git, submodule: &Path) -> Result<bool, GitError> {
    let unreadable = |detail: String| GitError::Unreadable { command: "submodule".into(), detail };
    let git_dir =
        git_dir_of(submodule).map_err(|error| unreadable(format!("{}: {error}", submodule.display())))?;
    let placed = |call: Call| call.env("GIT_DIR", &git_dir).env("GIT_WORK_TREE", submodule);
    let listing = placed(status(git, submodule)).output()?;
    if items(&listing).any(|item| item[0] != b'#') {
        return Ok(true);
    }
    let flags = placed(git.at(submodule, ["ls-files", "-v", "-z"]).unblinded()).output()?;
    if items(&flags).any(|item| item[0].is_ascii_lowercase() || item[0] == b'S') {
        return Ok(true);
    }
    let own = ["rev-list", "--max-count=1", "--all", "--reflog", "--not", "--remotes"];
    if !placed(git.at(submodule, own).reading()).output()?.is_empty() {
        return Ok(true);
    }
    if OPERATIONS.iter().chain(&GIT_LOCKS).any(|name| git_dir.join(name).exists()) {
        return Ok(true);
    }
    let listing = placed(git.at(submodule, ["ls-files", "--stage", "-z"]).reading()).output()?;
    for inner in gitlinks_in(&listing) {
        let inner = submodule.join(inner);
        if inner.join(".git").symlink_metadata().is_ok() && has_work(git, &inner)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn git_dir_of(submodule: &Path) -> io::Result<PathBuf> {
    let link = submodule.join(".git");
    if fs::symlink_metadata(&link)?.is_dir() {
        return Ok(link);
    }
    let text = fs::read(&link)?;
    let target = text.trim_ascii_end().strip_prefix(b"gitdir: ").ok_or(ErrorKind::InvalidData)?;
    fs::canonicalize(submodule.join(path_of(target)))
}

/// Returns how many repositories lie in `modules`: one a submodule, folders between them aside.
pub(super) fn repositories_in(modules: &Path) -> usize {
    if modules.join("HEAD").exists() {
        return 1;
    }
    let Ok(items) = fs::read_dir(modules) else { return 0 };
    items
        .flatten()
        .map(|item| item.path())
        .filter(|path| path.is_dir())
        .map(|path| repositories_in(&path))
        .sum()
}
