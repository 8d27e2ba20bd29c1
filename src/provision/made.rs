//! What an installation left in a lane besides its own folders, so that cleanup can tell it from work.
#![expect(clippy::disallowed_methods, reason = "lists and hashes what an installation made")]

use std::fs;
use std::path::{Path, PathBuf};

use super::mark::is_real_below;
use super::receipt::MadeFile;

/// Most files that are listed one by one; what is beyond is moved to `rescued/` at cleanup, as work is.
const FILES_MAX: usize = 20_000;
/// Most bytes that are hashed for that.
const BYTES_MAX: u64 = 512 << 20;

/// What an installation left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Folders that can be made again.
    pub folders: Vec<PathBuf>,
    /// Files outside folders that nothing but a package manager writes into: a node may put its own beside them.
    pub files: Vec<MadeFile>,
}

/// Returns what of `appeared`, paths in the lane at `root` that git does not track and that were not there
/// before, was made. `folders` are those that were not there before either, or that an installation had made.
pub fn made(root: &Path, folders: &[String], appeared: &[PathBuf]) -> Made {
    let mut made = Made::default();
    for folder in folders {
        if is_real_below(root, Path::new(folder)) {
            made.folders.push(PathBuf::from(folder));
        }
    }
    let mut bytes = 0;
    let mut queue: Vec<PathBuf> = appeared.to_vec();
    while let Some(path) = queue.pop() {
        // A name that is no text has no place in a receipt.
        if is_made_again(&path) || path.to_str().is_none() {
            continue;
        }
        let place = root.join(&path);
        let Ok(meta) = fs::symlink_metadata(&place) else { continue };
        if meta.is_dir() {
            // A repository inside is nobody's to drop.
            let Ok(entries) = fs::read_dir(&place) else { continue };
            if !place.join(".git").exists() {
                queue.extend(entries.flatten().map(|entry| path.join(entry.file_name())));
            }
            continue;
        }
        bytes += meta.len();
        if made.files.len() < FILES_MAX && bytes <= BYTES_MAX {
            made.files.extend(MadeFile::of(root, path));
        }
    }
    made.files.sort_by(|one, two| one.path.cmp(&two.path));
    made
}

/// Returns whether a path lies where nobody puts work: nothing but package managers and interpreters writes there.
pub fn is_made_again(path: &Path) -> bool {
    let names = ["node_modules", "__pycache__", ".venv"];
    path.components().any(|part| names.iter().any(|name| part.as_os_str() == *name))
}
