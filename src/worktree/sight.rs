//! What provisioning asks of git: which marker files are tracked, what a checkout holds besides, and what the
//! base commit has.
#![expect(clippy::disallowed_methods, reason = "hashes changed files")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::git::{Git, GitError, items, path_of};
use super::{Repository, WorktreeError};
use crate::ids::CommitId;
use crate::ids::hex;

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
    let specs = patterns.iter().map(|pattern| format!(":(top,glob){pattern}"));
    let call = git.at(root, ["ls-files", "-z", "--"]).reading().args(specs);
    let listed = call.output()?;
    Ok(items(&listed).map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// What a checkout holds besides its commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeState {
    /// Tracked files that differ from the commit, each with what it is now: git's two letters for it, and
    /// the SHA-256 of a plain file's content.
    pub changed: BTreeMap<PathBuf, String>,
    /// What is checked out: the branch, and the commit.
    pub head: String,
    /// Files and folders that git neither tracks nor ignores; a folder stands for all in it.
    pub untracked: BTreeSet<PathBuf>,
    /// Files and folders that git ignores; a folder stands for all in it.
    pub ignored: BTreeSet<PathBuf>,
}

/// Returns what the checkout at `root` holds besides its commit.
pub fn tree_state(git: &Git, root: &Path) -> Result<TreeState, WorktreeError> {
    let listing = git
        .at(
            root,
            ["status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignored=matching"],
        )
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
            Some(b'#') => {
                let line = String::from_utf8_lossy(item);
                if line.starts_with("# branch.oid") || line.starts_with("# branch.head") {
                    state.head.push_str(&line);
                }
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
    known_by(path).unwrap_or_else(|_| "-".into())
}

/// Returns by what a file is known again: the SHA-256 of its content, lower-case hex; of a symbolic link, where it
/// leads. Nothing is held in memory. Errors: it can't be read, or is neither.
pub fn known_by(path: &Path) -> io::Result<String> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Ok(format!("link to {}", fs::read_link(path)?.display()));
    }
    if !meta.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = fs::File::open(path)?;
    let mut hash = Sha256::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&chunk[..read]),
        }
    }
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
