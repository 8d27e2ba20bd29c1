//! What git does not show: folders it cannot open, repositories inside, processes at work.
#![expect(clippy::disallowed_methods, reason = "walks lanes and /proc")]

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::worktree::Git;

/// Lists every file at or below `path`, itself below `tree`, links not followed.
pub(super) fn list_files(tree: &Path, path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let full = tree.join(path);
    if !fs::symlink_metadata(&full)?.is_dir() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    for item in fs::read_dir(&full)? {
        list_files(tree, &path.join(item?.file_name()), files)?;
    }
    Ok(())
}

/// All folders of a lane, walked: git looks neither below a `.git` nor into what it cannot open.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Roots of repositories inside, and stray `.git` folders that hold something.
    pub nested: Vec<PathBuf>,
    /// Files in folders of submodules that were never filled: git shows none of them (measured).
    pub strays: Vec<PathBuf>,
}

impl Walk {
    /// Walks `tree`, whose submodules are at `gitlinks`. A folder that cannot be opened is an error, and so
    /// is another file system: what lies there is not the lane's to delete.
    pub fn of(git: &Git, tree: &Path, gitlinks: &[PathBuf]) -> io::Result<Walk> {
        let device = fs::symlink_metadata(tree)?.dev();
        let mut walk = Walk::default();
        let mut open = vec![PathBuf::new()];
        while let Some(folder) = open.pop() {
            if git.is_over() {
                return Err(io::Error::new(ErrorKind::TimedOut, "the time was over"));
            }
            let in_tree = |error: io::Error| {
                io::Error::new(error.kind(), format!("{}: {error}", tree.join(&folder).display()))
            };
            for item in fs::read_dir(tree.join(&folder)).map_err(in_tree)? {
                let item = item.map_err(in_tree)?;
                let path = folder.join(item.file_name());
                if item.file_name() == ".git" {
                    if !folder.as_os_str().is_empty() && holds_something(&item.path()).map_err(in_tree)? {
                        walk.nested.push(folder.clone());
                    }
                } else if !item.file_type().map_err(in_tree)?.is_dir() {
                    continue;
                } else if item.metadata().map_err(in_tree)?.dev() != device {
                    let words = format!("{}: another file system is mounted there", item.path().display());
                    return Err(io::Error::other(words));
                } else if gitlinks.contains(&path) {
                    if item.path().join(".git").symlink_metadata().is_err() {
                        list_files(tree, &path, &mut walk.strays).map_err(in_tree)?;
                    }
                } else {
                    open.push(path);
                }
            }
        }
        walk.nested.sort();
        Ok(walk)
    }
}

fn holds_something(dot_git: &Path) -> io::Result<bool> {
    if fs::symlink_metadata(dot_git)?.is_dir() {
        return Ok(fs::read_dir(dot_git)?.next().is_some());
    }
    Ok(true)
}
