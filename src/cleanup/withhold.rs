//! What a rescue keeps out of git: local files that the overlay copied in, edited or not, under whatever name.
//!
//! A commit is for what a node made. An edited copy, or one under another name, goes to `rescued/` as a file.
#![expect(
    clippy::disallowed_methods,
    reason = "reads files of a lane, and narrows who may read rescued ones"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::OverlayFile;
use super::guard::{TELLING_BYTES, telling};
use super::look::status;
use crate::ids::CommitId;
use crate::ids::sha256;
use crate::worktree::git::{items, path_of};
use crate::worktree::overlay::blob_names;
use crate::worktree::rescue::{LeftOut, Seat};
use crate::worktree::{Entry, Git, GitError};

/// What is kept out of git, and what only a file can save.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    /// What no commit of a rescue may have.
    pub left_out: LeftOut,
    /// Files with the content of a copy under another name, below the tree.
    pub strangers: Vec<PathBuf>,
    /// Staged contents of copies that are neither what was copied nor a commit's: path and object.
    staged: Vec<(PathBuf, String)>,
}

/// Returns `copies`, and each once more as it is now: a node may have put either content elsewhere.
/// `like`: a name as the repository has them.
pub(super) fn as_they_are(tree: &Path, copies: &[OverlayFile], like: &CommitId) -> Vec<OverlayFile> {
    let now = copies.iter().filter_map(|copy| {
        let file = tree.join(&copy.path);
        let metadata = fs::symlink_metadata(&file).ok()?;
        if !metadata.is_file() || metadata.len() > READ_MAX {
            return None;
        }
        let bytes = fs::read(&file).ok()?;
        Some(OverlayFile {
            sha256: sha256(&bytes),
            size: bytes.len() as u64,
            blobs: blob_names(&bytes, like),
            ..copy.clone()
        })
    });
    now.chain(copies.iter().cloned()).collect()
}

/// Bytes of an edited copy above which it is not looked for under other names: 64 MiB.
const READ_MAX: u64 = 64 << 20;

/// Returns what a rescue of the lane in `tree` keeps out of git. To be asked before anything is moved.
pub(super) fn withheld(
    git: &Git,
    tree: &Path,
    entry: &Entry,
    copies: &[OverlayFile],
) -> Result<Withheld, GitError> {
    let mut found = Withheld::default();
    if copies.is_empty() {
        return Ok(found);
    }
    let by_path: BTreeSet<&Path> = copies.iter().map(|file| file.path.as_path()).collect();
    let blobs: BTreeSet<&str> = telling(copies).collect();
    let listing = status(git, tree).output()?;
    let mut deleted = BTreeSet::new();
    for item in items(&listing) {
        let Some(path) = path_in(item) else { continue };
        if by_path.contains(path.as_path()) {
            // A deletion that git sees is a node's work, and holds nothing.
            if item[0] == b'1' && item.get(3) == Some(&b'D') {
                deleted.insert(path);
            }
        } else if is_copy(&tree.join(&path), copies) {
            found.strangers.push(path);
        }
    }
    // A flag goes along with a rename, and hides the content from `status`.
    let listing = git.at(tree, ["ls-files", "-v", "-z"]).reading().output()?;
    for item in items(&listing).filter(|item| item[0].is_ascii_lowercase() || item[0] == b'S') {
        let path = path_of(&item[2..]);
        if !by_path.contains(path.as_path()) && is_copy(&tree.join(&path), copies) {
            found.strangers.push(path);
        }
    }
    let copied = copies.iter().map(|file| file.path.clone()).filter(|path| !deleted.contains(path));
    found.left_out.in_tree = copied.chain(found.strangers.iter().cloned()).collect();
    let head = crate::worktree::rescue::commits_at(git, Seat::Tree(tree), &["HEAD"])?;
    // An index that was never written holds nothing.
    if !entry.git_dir.join("index").exists() {
        return Ok(found);
    }
    let mut words = vec!["diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev"];
    // A branch without a commit: all that is staged is new.
    let is_sha256 = copies.iter().flat_map(|file| &file.blobs).any(|name| name.len() == 64);
    let empty_tree = if is_sha256 { EMPTY_TREE_SHA256 } else { EMPTY_TREE };
    words.push(head[0].as_ref().map_or(empty_tree, |commit| commit.as_str()));
    let listing = git.at(tree, words).reading().output()?;
    let mut listing = items(&listing);
    while let (Some(change), Some(path)) = (listing.next(), listing.next()) {
        let change = String::from_utf8_lossy(change);
        let mut words = change.split(' ').skip(3);
        let object = words.next().unwrap_or_default().to_string();
        let how = words.next().unwrap_or_default();
        let path = path_of(path);
        let is_copied = by_path.contains(path.as_path());
        let is_known = copies.iter().any(|file| file.path == path && file.blobs.contains(&object));
        if is_copied && !is_known && !matches!(how, "D" | "U") {
            found.staged.push((path.clone(), object.clone()));
        }
        if is_copied && how != "D" || blobs.contains(object.as_str()) {
            found.left_out.in_index.push(path);
        }
    }
    Ok(found)
}

/// The tree without files, which git has in every repository.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
const EMPTY_TREE_SHA256: &str = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321";

impl Withheld {
    /// Returns whether a change that git shows of `path` is none that a commit would have to save.
    pub fn covers(&self, tree: &Path, path: &Path) -> bool {
        let has = |paths: &[PathBuf]| paths.iter().any(|left_out| left_out == path);
        has(&self.left_out.in_tree)
            || has(&self.left_out.in_index) && fs::symlink_metadata(tree.join(path)).is_err()
    }

    /// Writes staged contents that would be lost beside the rescued files: `<name>.staged`.
    pub fn save_staged(&self, git: &Git, tree: &Path, rescued: &Path) -> Result<(), String> {
        for (path, object) in &self.staged {
            let bytes = git
                .at(tree, ["cat-file", "blob", object])
                .reading()
                .output()
                .map_err(|error| error.to_string())?;
            write_private(&rescued.join(path), &bytes)
                .map_err(|error| format!("the staged {}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// Returns the path of an item of `git status --porcelain=v2 -z`; `None` where it is of no tracked or
/// untracked file.
pub(super) fn path_in(item: &[u8]) -> Option<PathBuf> {
    let fields = match item[0] {
        b'1' => 9,
        b'u' => 11,
        b'?' => 2,
        _ => return None,
    };
    item.splitn(fields, |byte| *byte == b' ').nth(fields - 1).map(path_of)
}

/// Makes a rescued file readable to its owner alone, and the folder of all of them too.
pub(super) fn make_private(rescued: &Path, file: &Path) -> io::Result<()> {
    fs::set_permissions(rescued, fs::Permissions::from_mode(0o700))?;
    let metadata = fs::symlink_metadata(file)?;
    if metadata.is_file() {
        let mode = if metadata.permissions().mode() & 0o100 == 0 { 0o600 } else { 0o700 };
        fs::set_permissions(file, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Writes `<name>.staged` beside `path`, durably. Nothing is overwritten: a name that is taken gets a number.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    for number in 0u32.. {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".staged");
        if number > 0 {
            name.push(format!(".{number}"));
        }
        let place = path.with_file_name(name);
        match fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(mut file) => {
                file.write_all(bytes)?;
                file.sync_all()?;
                return fs::File::open(folder)?.sync_all();
            }
        }
    }
    Ok(())
}

/// Returns whether the file has the content of one of `copies`, a content that tells.
fn is_copy(file: &Path, copies: &[OverlayFile]) -> bool {
    let Ok(metadata) = fs::symlink_metadata(file) else { return false };
    let may_be = |copy: &&OverlayFile| copy.size >= TELLING_BYTES && copy.size == metadata.len();
    if !metadata.is_file() || !copies.iter().any(|copy| may_be(&copy)) {
        return false;
    }
    let Ok(bytes) = fs::read(file) else { return false };
    let sha256 = sha256(&bytes);
    copies.iter().filter(may_be).any(|copy| copy.sha256 == sha256)
}
