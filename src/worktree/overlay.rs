//! What the overlay asks of git: how the places of local files stand in a lane, and which files of the
//! user's tree `.worktreeinclude` names. Changes nothing but a flag in a lane's own index.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use git2::{ObjectFormat, ObjectType, Oid};
use sha2::{Digest, Sha256};

use super::fake::FakeWorktrees;
use super::git::{Git, GitError, items, path_of};
use super::{GitWorktrees, RefusingWorktrees, WorktreeError};
use crate::ids::CommitId;

/// The file of patterns in the user's tree (gitignore(5)), read where the graph asks for it.
pub const INCLUDE_FILE: &str = ".worktreeinclude";

/// How the place of one local file stands in a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Whether the lane's index has it.
    pub tracked: bool,
    /// Whether the index has what the lane's base has: both the same file, or both none.
    pub as_in_base: bool,
    /// Whether a flag hides changes of it from git.
    pub hidden: bool,
    /// Whether git sees no change of it.
    pub clean: bool,
    /// Whether git ignores it.
    pub ignored: bool,
}

/// How the places of local files stand in a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// By path.
    pub of: BTreeMap<String, Place>,
    /// Where the lane's submodules are.
    pub submodules: Vec<PathBuf>,
}

/// What the overlay needs of git. Every call blocks.
pub trait LocalFiles: Send + Sync {
    /// Returns how each of `paths` stands in the lane at `lane`, which began at `base`; of none where one lies
    /// in a submodule.
    fn places(&self, lane: &Path, base: &CommitId, paths: &[String]) -> Result<Places, WorktreeError>;

    /// Hides changes of tracked files from git in the lane at `lane` alone: its own index keeps the flag.
    fn hide(&self, lane: &Path, paths: &[String]) -> Result<(), WorktreeError>;

    /// Returns the file of patterns that the user's git ignores everywhere, whether or not it is there.
    fn excludes_file(&self, lane: &Path) -> Result<Option<PathBuf>, WorktreeError>;

    /// Returns the files below `top` that [`INCLUDE_FILE`] names, and that git ignores there.
    fn included(&self, top: &Path) -> Result<Vec<PathBuf>, WorktreeError>;
}

impl LocalFiles for GitWorktrees {
    fn places(&self, lane: &Path, base: &CommitId, paths: &[String]) -> Result<Places, WorktreeError> {
        places(&self.git, lane, base, paths)
    }

    fn hide(&self, lane: &Path, paths: &[String]) -> Result<(), WorktreeError> {
        if paths.is_empty() {
            return Ok(());
        }
        let call =
            self.git.at(lane, ["update-index", "--skip-worktree", "-z", "--stdin"]).feed(listed(paths));
        call.output().map(|_| ()).map_err(Into::into)
    }

    fn excludes_file(&self, lane: &Path) -> Result<Option<PathBuf>, WorktreeError> {
        excludes_file(&self.git, lane)
    }

    fn included(&self, top: &Path) -> Result<Vec<PathBuf>, WorktreeError> {
        included(&self.git, top)
    }
}

impl LocalFiles for RefusingWorktrees {
    fn places(&self, _: &Path, _: &CommitId, _: &[String]) -> Result<Places, WorktreeError> {
        Err(WorktreeError::Refused { call: "LocalFiles::places" })
    }

    fn hide(&self, _: &Path, _: &[String]) -> Result<(), WorktreeError> {
        Err(WorktreeError::Refused { call: "LocalFiles::hide" })
    }

    fn excludes_file(&self, _: &Path) -> Result<Option<PathBuf>, WorktreeError> {
        Err(WorktreeError::Refused { call: "LocalFiles::excludes_file" })
    }

    fn included(&self, _: &Path) -> Result<Vec<PathBuf>, WorktreeError> {
        Err(WorktreeError::Refused { call: "LocalFiles::included" })
    }
}

/// Nothing is tracked, nothing ignored, nothing included.
impl LocalFiles for FakeWorktrees {
    fn places(&self, _: &Path, _: &CommitId, paths: &[String]) -> Result<Places, WorktreeError> {
        let nowhere = Place { as_in_base: true, clean: true, ..Place::default() };
        let of = paths.iter().map(|path| (path.clone(), nowhere.clone())).collect();
        Ok(Places { of, submodules: Vec::new() })
    }

    fn hide(&self, _: &Path, _: &[String]) -> Result<(), WorktreeError> {
        Ok(())
    }

    fn excludes_file(&self, _: &Path) -> Result<Option<PathBuf>, WorktreeError> {
        Ok(None)
    }

    fn included(&self, _: &Path) -> Result<Vec<PathBuf>, WorktreeError> {
        Ok(Vec::new())
    }
}

/// Returns the names under which git would store `bytes` in a repository whose names look `like` this: as
/// they are, and with line ends as text files are stored. Computed here: git is handed nothing.
pub fn blob_names(bytes: &[u8], like: &CommitId) -> Vec<String> {
    let mut names = vec![blob_name(bytes, like)];
    if bytes.windows(2).any(|pair| pair == b"\r\n") {
        let mut stored = Vec::with_capacity(bytes.len());
        for (at, byte) in bytes.iter().enumerate() {
            if !(*byte == b'\r' && bytes.get(at + 1) == Some(&b'\n')) {
                stored.push(*byte);
            }
        }
        names.push(blob_name(&stored, like));
    }
    names
}

fn blob_name(bytes: &[u8], like: &CommitId) -> String {
    if like.as_str().len() == 64 {
        let mut hash = Sha256::new();
        hash.update(format!("blob {}\0", bytes.len()));
        hash.update(bytes);
        return hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    }
    Oid::hash_object_ext(ObjectType::Blob, bytes, ObjectFormat::Sha1)
        .map(|name| name.to_string())
        .unwrap_or_default()
}

fn listed(paths: &[String]) -> Vec<u8> {
    paths.iter().flat_map(|path| path.bytes().chain([0])).collect()
}

fn places(git: &Git, lane: &Path, base: &CommitId, paths: &[String]) -> Result<Places, WorktreeError> {
    let asked: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
    let mut places = Places::default();
    let mut index: BTreeMap<String, (String, bool)> = BTreeMap::new();
    // The whole index: a submodule may be anywhere above a path.
    let listing = git.at(lane, ["ls-files", "--stage", "-v", "-z"]).reading().output()?;
    for item in items(&listing) {
        let Some((entry, name)) = split_once(item, b'\t') else { continue };
        let entry = String::from_utf8_lossy(entry);
        let words: Vec<&str> = entry.split(' ').collect();
        let [tag, mode, object, _] = words[..] else { continue };
        if mode == "160000" {
            places.submodules.push(path_of(name));
        }
        let name = String::from_utf8_lossy(name);
        if asked.contains(name.as_ref()) {
            let hidden = tag == "S" || tag.chars().all(|c| c.is_ascii_lowercase());
            index.insert(name.into_owned(), (format!("{mode} {object}"), hidden));
        }
    }
    // Git answers nothing about what lies in a submodule.
    if paths.iter().any(|path| places.submodules.iter().any(|place| Path::new(path).starts_with(place))) {
        return Ok(places);
    }
    let mut in_base: BTreeMap<String, String> = BTreeMap::new();
    let words = ["--literal-pathspecs", "ls-tree", "-z", "--full-tree", base.as_str(), "--"];
    let listing = git.at(lane, words).reading().args(paths).output()?;
    for item in items(&listing) {
        let Some((entry, name)) = split_once(item, b'\t') else { continue };
        let entry = String::from_utf8_lossy(entry);
        let words: Vec<&str> = entry.split(' ').collect();
        let [mode, _, object] = words[..] else { continue };
        in_base.insert(String::from_utf8_lossy(name).into_owned(), format!("{mode} {object}"));
    }
    let tracked: Vec<String> = index.keys().cloned().collect();
    let untracked: Vec<String> = paths.iter().filter(|path| !index.contains_key(*path)).cloned().collect();
    let changed = changed(git, lane, &tracked)?;
    let ignored = ignored(git, lane, &untracked)?;
    for path in paths {
        let entry = index.get(path);
        let place = Place {
            tracked: entry.is_some(),
            as_in_base: entry.map(|(entry, _)| entry) == in_base.get(path),
            hidden: entry.is_some_and(|(_, hidden)| *hidden),
            clean: !changed.contains(path),
            ignored: ignored.contains(path),
        };
        places.of.insert(path.clone(), place);
    }
    Ok(places)
}

fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|byte| *byte == at)?;
    Some((&bytes[..place], &bytes[place + 1..]))
}

/// Returns which of `paths`, all tracked, git sees a change of.
fn changed(git: &Git, lane: &Path, paths: &[String]) -> Result<BTreeSet<String>, WorktreeError> {
    if paths.is_empty() {
        return Ok(BTreeSet::new());
    }
    let words = [
        "--literal-pathspecs",
        "status",
        "--porcelain=v2",
        "-z",
        "--untracked-files=no",
        "--no-renames",
        "--ignore-submodules=all",
        "--",
    ];
    let listing = git.at(lane, words).args(paths).unblinded().output()?;
    let named = |item: &[u8]| {
        let fields = if item[0] == b'u' { 11 } else { 9 };
        let name = item.splitn(fields, |byte| *byte == b' ').nth(fields - 1)?;
        Some(String::from_utf8_lossy(name).into_owned())
    };
    Ok(items(&listing).filter_map(named).collect())
}

/// Returns which of `paths`, none tracked, git ignores.
fn ignored(git: &Git, folder: &Path, paths: &[String]) -> Result<BTreeSet<String>, WorktreeError> {
    if paths.is_empty() {
        return Ok(BTreeSet::new());
    }
    let call = git.at(folder, ["check-ignore", "-z", "--stdin"]).reading().feed(listed(paths));
    match call.output() {
        Ok(listing) => Ok(items(&listing).map(|name| String::from_utf8_lossy(name).into_owned()).collect()),
        Err(GitError::Failed { code: Some(1), .. }) => Ok(BTreeSet::new()),
        Err(error) => Err(error.into()),
    }
}

/// Where git looks unless its configuration names another file (gitignore(5)).
fn excludes_file(git: &Git, lane: &Path) -> Result<Option<PathBuf>, WorktreeError> {
    let asked = git.at(lane, ["config", "--type=path", "--get", "core.excludesFile"]).reading().path();
    match asked {
        Ok(file) if file.as_os_str().is_empty() => Ok(None),
        Ok(file) => Ok(Some(lane.join(file))),
        Err(GitError::Failed { code: Some(1), .. }) => {
            let of = |name: &str| git.variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
            let folder = of("XDG_CONFIG_HOME").or_else(|| Some(of("HOME")?.join(".config")));
            Ok(folder.map(|folder| folder.join("git/ignore")))
        }
        Err(error) => Err(error.into()),
    }
}

fn included(git: &Git, top: &Path) -> Result<Vec<PathBuf>, WorktreeError> {
    let words = ["ls-files", "-z", "--others", "--ignored", &format!("--exclude-from={INCLUDE_FILE}")];
    let named = git.at(top, words).reading().output()?;
    let mut texts = Vec::new();
    let mut paths: Vec<PathBuf> = Vec::new();
    for name in items(&named) {
        match std::str::from_utf8(name) {
            Ok(text) => texts.push(text.to_string()),
            // Told of by the caller, who copies none of another name.
            Err(_) => paths.push(path_of(name)),
        }
    }
    let ignored = ignored(git, top, &texts)?;
    paths.extend(texts.into_iter().filter(|text| ignored.contains(text)).map(PathBuf::from));
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_is_named_as_git_names_it() {
        let (sha1, sha256) = (CommitId::from("a".repeat(40)), CommitId::from("a".repeat(64)));
        // `printf 'abc\n' | git hash-object --stdin`, and the same in a repository of the other format.
        assert_eq!(blob_names(b"abc\n", &sha1), ["8baef1b4abc478178b004d62031cf7fe6db6f903"]);
        assert_eq!(
            blob_names(b"abc\n", &sha256),
            ["e0ef420a1a0d1453326d2a2f9ee85d802dd9e8a69162e8d8bfd7a43836b2430c"]
        );
        let both = blob_names(b"abc\r\n", &sha1);
        assert_eq!((both.len(), both[1].as_str()), (2, "8baef1b4abc478178b004d62031cf7fe6db6f903"));
    }
}
