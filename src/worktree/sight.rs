//! What provisioning asks of git: which marker files are tracked, what a checkout holds besides, and what the
//! base commit has.
#![expect(clippy::disallowed_methods, reason = "hashes changed files")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::git::{Git, GitError, items, path_of};
use super::{Repository, WorktreeError};
use crate::ids::CommitId;
use crate::ids::sha256;

/// A file as a commit has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedFile {
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether it is executable.
    pub executable: bool,
}

/// Returns the files that git tracks in the checkout at `root`, of those that `patterns` name: paths, or
/// patterns in which `*` stays inside a folder and `**/` crosses them.
pub fn tracked(git: &Git, root: &Path, patterns: &[String]) -> Result<BTreeSet<String>, WorktreeError> {
    if patterns.is_empty() {
        return Ok(BTreeSet::new());
    }
    let call = git.at(root, ["--glob-pathspecs", "ls-files", "-z", "--"]).reading().args(patterns);
    let listed = call.output()?;
    Ok(items(&listed).map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// What a checkout holds besides its commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeState {
    /// Tracked files that differ from the commit, each with what it is now: git's two letters for it, and
    /// the SHA-256 of a plain file's content.
    pub changed: BTreeMap<PathBuf, String>,
    /// Files and folders that git neither tracks nor ignores; a folder stands for all in it.
    pub untracked: BTreeSet<PathBuf>,
    /// Files and folders that git ignores; a folder stands for all in it.
    pub ignored: BTreeSet<PathBuf>,
}

/// Returns what the checkout at `root` holds besides its commit.
pub fn tree_state(git: &Git, root: &Path) -> Result<TreeState, WorktreeError> {
    let listing = git
        .at(root, ["status", "--porcelain=v2", "-z", "--untracked-files=normal", "--ignored=matching"])
        .args(["--ignore-submodules=all", "--no-renames"])
        .unblinded()
        .output()?;
    let mut state = TreeState::default();
    for item in items(&listing) {
        let of_fields = |count: usize| item.splitn(count, |byte| *byte == b' ').last().map(path_of);
        match item.first() {
            Some(b'1') => {
                let Some(path) = of_fields(9) else { continue };
                let now = String::from_utf8_lossy(&item[2..4]).into_owned();
                let now = format!("{now} {}", content(&root.join(&path)));
                state.changed.insert(path, now);
            }
            Some(b'u') => {
                let Some(path) = of_fields(11) else { continue };
                let now = format!("unmerged {}", content(&root.join(&path)));
                state.changed.insert(path, now);
            }
            Some(kind @ (b'?' | b'!')) => {
                let path = item.get(2..).unwrap_or_default();
                let path = path_of(path.strip_suffix(b"/").unwrap_or(path));
                if *kind == b'?' {
                    state.untracked.insert(path)
                } else {
                    state.ignored.insert(path)
                };
            }
            _ => {}
        }
    }
    Ok(state)
}

fn content(path: &Path) -> String {
    let is_plain = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    let bytes = if is_plain { fs::read(path).ok() } else { None };
    bytes.map_or_else(|| "-".into(), |bytes| sha256(&bytes))
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
    let mut wanted = Vec::new();
    for entry in items(&listing) {
        let entry = String::from_utf8_lossy(entry);
        let Some((meta, name)) = entry.split_once('\t') else { continue };
        let mut words = meta.split(' ');
        let (Some(mode), Some("blob"), Some(object)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        // 120000 is a symbolic link, whose blob is a path.
        if mode == "100644" || mode == "100755" {
            wanted.push((name.to_string(), object.to_string(), mode == "100755"));
        }
    }
    if wanted.is_empty() {
        return Ok(BTreeMap::new());
    }
    let ids: String = wanted.iter().map(|(_, object, _)| format!("{object}\n")).collect();
    let answer = inside(&["cat-file", "--batch"]).feed(ids.into_bytes()).output()?;
    let mut rest = answer.as_slice();
    let mut files = BTreeMap::new();
    for (name, object, executable) in wanted {
        let (bytes, after) = next_object(rest, &object)
            .ok_or_else(|| WorktreeError::io(Path::new(&name), &io::ErrorKind::InvalidData.into()))?;
        files.insert(name, CommittedFile { bytes: bytes.to_vec(), executable });
        rest = after;
    }
    Ok(files)
}

/// Splits the first answer off what `cat-file --batch` wrote: `<id> <type> <size>`, the content, a line break.
fn next_object<'a>(answer: &'a [u8], object: &str) -> Option<(&'a [u8], &'a [u8])> {
    let line = answer.iter().position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&answer[..line]).ok()?;
    let size: usize = head.strip_prefix(object)?.strip_prefix(" blob ")?.parse().ok()?;
    let content = answer.get(line + 1..)?;
    Some((content.get(..size)?, content.get(size + 1..)?))
}

/// Returns whether git knows who commits here.
pub fn has_identity(git: &Git, repository: &Repository) -> Result<bool, WorktreeError> {
    match git.at(repository.folder(), ["var", "GIT_COMMITTER_IDENT"]).reading().output() {
        Ok(_) => Ok(true),
        Err(GitError::Failed { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
