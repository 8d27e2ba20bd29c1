//! Reads one lane into [`LaneState`].
//!
//! Worktree entries are read as files, not with `git worktree list`: one half-made entry makes every
//! such command of the repository fail (measured with git 2.47), and that entry may be ours.
#![expect(clippy::disallowed_methods, reason = "reads worktree entries, and folders of lanes")]

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::git::{Git, GitError, items, path_of};
use super::lane::{
    BranchState, Content, HeadSign, LaneRequest, LaneState, Lock, Phase, Place, Receipt, Registration,
    branch_mark, lock_reason,
};
use super::lock::beside;
use super::{Repository, receipt};
use crate::ids::{CommitId, LaneName, RunId};

/// One worktree entry of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its folder.
    pub git_dir: PathBuf,
    /// The worktree that it names; `None` where a kill came before that.
    pub path: Option<PathBuf>,
    /// Whether git can read it: the files that git writes last are there.
    pub whole: bool,
    /// Whether it does not say which repository it is of.
    pub common_dir_is_empty: bool,
    /// What it has checked out, as the file says: `ref: …` or a commit.
    pub head: String,
    /// The reason it is locked for.
    pub locked: Option<String>,
}

/// Returns the folder where a sweep puts a tree that is yet to be judged a second time.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    beside(path, ".omg-aside-")
}

/// Returns the folder of a tree that was judged twice, and only waits to be deleted.
pub fn gone_aside(path: &Path) -> io::Result<PathBuf> {
    beside(path, ".omg-gone-")
}

/// Returns the entry of `repository` for the worktree at `path`.
pub fn entry_for(repository: &Repository, path: &Path) -> io::Result<Option<Entry>> {
    let path = super::discover::real(path)?;
    Ok(entries(repository)?.into_iter().find(|entry| {
        entry.path.as_deref().is_some_and(|named| {
            named == path || super::discover::real(named).is_ok_and(|named| named == path)
        })
    }))
}

/// Returns every worktree entry of `repository`.
pub(crate) fn entries(repository: &Repository) -> io::Result<Vec<Entry>> {
    let folder = repository.common_dir.join("worktrees");
    let listing = match fs::read_dir(&folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for item in listing {
        let git_dir = item?.path();
        if git_dir.is_dir() {
            found.push(read_entry(git_dir)?);
        }
    }
    found.sort_by(|a, b| a.git_dir.cmp(&b.git_dir));
    Ok(found)
}

fn read_entry(git_dir: PathBuf) -> io::Result<Entry> {
    let named = read_if_there(&git_dir.join("gitdir"))?.unwrap_or_default();
    let head = read_if_there(&git_dir.join("HEAD"))?.unwrap_or_default();
    let common = read_if_there(&git_dir.join("commondir"))?.unwrap_or_default();
    let locked = read_if_there(&git_dir.join("locked"))?;
    let dot_git = git_dir.join(path_of(named.trim_ascii_end()));
    Ok(Entry {
        path: match named.trim_ascii_end() {
            b"" => None,
            _ => dot_git.parent().map(Path::to_path_buf),
        },
        common_dir_is_empty: common.trim_ascii().is_empty(),
        whole: !common.trim_ascii().is_empty() && !head.trim_ascii().is_empty(),
        head: String::from_utf8_lossy(head.trim_ascii()).into_owned(),
        locked: locked.map(|reason| String::from_utf8_lossy(reason.trim_ascii()).into_owned()),
        git_dir,
    })
}

fn read_if_there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns who locked the entry, as `run` sees it.
pub fn lock_of(entry: &Entry, run: &RunId) -> Lock {
    match entry.locked.as_deref() {
        None => Lock::None,
        Some("initializing") => Lock::Initializing,
        Some(reason) if reason == lock_reason(run) => Lock::Ours,
        Some(reason) => Lock::Foreign(reason.to_string()),
    }
}

/// Returns all that can be seen of a lane. Call it under the lane's lock, and the repository's.
pub(super) fn observe(git: &Git, repository: &Repository, request: &LaneRequest) -> LaneState {
    let entry = entry_for(repository, &request.path);
    let place = entry.as_ref().ok().and_then(|entry| place(repository, &request.path, entry.as_ref()).ok());
    let registration = entry.as_ref().ok().and_then(|entry| registration(git, entry.as_ref(), request).ok());
    let content = match (&entry, &place, &registration) {
        (Ok(Some(entry)), Some(Place::Lane), Some(registration)) if !was_finished(registration) => {
            content(git, request, entry).ok()
        }
        (_, Some(Place::Unlinked), _) if holds_a_link_alone(repository, &request.path) => {
            Some(Content::Nothing)
        }
        _ => None,
    };
    LaneState {
        aside: set_aside(&request.path).ok().and_then(|aside| aside.try_exists().ok()),
        branch: branch(git, repository, request, entry.ok().flatten().as_ref()).ok(),
        place,
        registration,
        content,
    }
}

/// Returns whether the folder holds a `.git` file and nothing else, and what that names holds no index and is no
/// other worktree's.
fn holds_a_link_alone(repository: &Repository, path: &Path) -> bool {
    let Ok(items) = fs::read_dir(path).and_then(|items| items.collect::<io::Result<Vec<_>>>()) else {
        return false;
    };
    let is_alone = items.iter().all(|item| item.file_name() == ".git");
    is_alone && linked(repository, path).is_none_or(|entry| is_remnant(&entry, path))
}

/// Returns the entry of the repository that the `.git` file of a worktree names, where it is there.
pub(super) fn linked(repository: &Repository, path: &Path) -> Option<PathBuf> {
    let text = fs::read(path.join(".git")).ok()?;
    let target = text.trim_ascii_end().strip_prefix(b"gitdir:")?.trim_ascii_start();
    let entry = fs::canonicalize(path.join(OsStr::from_bytes(target))).ok()?;
    (entry.parent()? == fs::canonicalize(repository.common_dir.join("worktrees")).ok()?).then_some(entry)
}

/// Returns whether an entry holds nothing and names no other worktree than the one at `path`.
pub(super) fn is_remnant(entry: &Path, path: &Path) -> bool {
    let names_another = match fs::read(entry.join("gitdir")) {
        Ok(text) => Path::new(OsStr::from_bytes(text.trim_ascii_end())) != path.join(".git"),
        Err(error) => error.kind() != ErrorKind::NotFound,
    };
    !names_another && fs::symlink_metadata(entry.join("index")).is_err()
}

fn was_finished(registration: &Registration) -> bool {
    matches!(
        registration,
        Registration::Entry { receipt: Receipt::Ours(Phase::Ready | Phase::CheckedOut), .. }
    )
}

fn registration(git: &Git, entry: Option<&Entry>, request: &LaneRequest) -> Result<Registration, GitError> {
    let Some(entry) = entry else { return Ok(Registration::None) };
    let receipt = receipt::read(&entry.git_dir, request);
    let wanted = entry.whole && receipt == Receipt::None;
    let head = if wanted { head_sign(git, entry, request)? } else { HeadSign::Other };
    Ok(Registration::Entry { whole: entry.whole, lock: lock_of(entry, &request.run), receipt, head })
}

/// Returns whether the worktree of `entry` is this very lane's, and not one that somebody put in its
/// place.
pub(crate) fn is_of_lane(
    git: &Git,
    repository: &Repository,
    entry: &Entry,
    request: &LaneRequest,
) -> Result<bool, GitError> {
    match receipt::read(&entry.git_dir, request) {
        Receipt::Ours(_) => return Ok(true),
        Receipt::Foreign | Receipt::Damaged => return Ok(false),
        Receipt::None if lock_of(entry, &request.run) == Lock::Ours => return Ok(true),
        Receipt::None if !entry.whole => return Ok(false),
        Receipt::None => {}
    }
    match head_sign(git, entry, request)? {
        HeadSign::Marked => Ok(true),
        HeadSign::OnBranch if request.history.branch_made_by_run => Ok(true),
        HeadSign::OnBranch => {
            marked(git, &repository.common_dir, &request.run, &request.lane, &request.branch)
        }
        HeadSign::Other => Ok(false),
    }
}

/// Asks git, not the file: HEAD may be a stub (reftable).
fn head_sign(git: &Git, entry: &Entry, request: &LaneRequest) -> Result<HeadSign, GitError> {
    let call = |words: &[&str]| git.inside(&entry.git_dir, words).reading();
    if call(&["reflog", "exists", "HEAD"]).asks()? {
        let mark = branch_mark(&request.run, &request.lane);
        match call(&["log", "-g", "-z", "--format=%gs", "HEAD", "--"]).output() {
            Ok(log) if items(&log).any(|words| words == mark.as_bytes()) => return Ok(HeadSign::Marked),
            // A branch without a commit has a log that git does not print.
            Ok(_) | Err(GitError::Failed { code: Some(128), .. }) => {}
            Err(error) => return Err(error),
        }
    }
    match call(&["symbolic-ref", "--quiet", "HEAD"]).line() {
        Ok(name) if name == request.branch_ref() => Ok(HeadSign::OnBranch),
        Ok(_) | Err(GitError::Failed { code: Some(1 | 128), .. }) => Ok(HeadSign::Other),
        Err(error) => Err(error),
    }
}

fn place(repository: &Repository, path: &Path, entry: Option<&Entry>) -> io::Result<Place> {
    let kind = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound) => return Ok(Place::Absent),
        Err(error) => return Err(error),
    };
    if kind.is_symlink() {
        return Ok(Place::Symlink);
    }
    if !kind.is_dir() {
        return Ok(Place::File);
    }
    if fs::read_dir(path)?.next().is_none() {
        return Ok(Place::Empty);
    }
    let link = path.join(".git");
    match fs::symlink_metadata(&link) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Place::Folder),
        Err(error) => return Err(error),
        Ok(metadata) if !metadata.is_file() => return Ok(Place::OtherRepository),
        Ok(_) => {}
    }
    let text = fs::read(&link)?;
    let Some(target) = text.trim_ascii_end().strip_prefix(b"gitdir:") else {
        return Ok(Place::Unlinked);
    };
    let target = path.join(OsStr::from_bytes(target.trim_ascii_start()));
    let target = super::discover::real(&target)?;
    Ok(match entry {
        Some(entry) if fs::canonicalize(&entry.git_dir)? == target => Place::Lane,
        _ if entry.is_some() || target.starts_with(repository.common_dir.join("worktrees")) => {
            Place::Unlinked
        }
        _ => Place::OtherRepository,
    })
}

fn branch(
    git: &Git,
    repository: &Repository,
    request: &LaneRequest,
    own: Option<&Entry>,
) -> Result<BranchState, GitError> {
    let name = request.branch_ref();
    // Nothing is deleted for want of it, and git makes it only where it is not there.
    if is_absent_to_library(&repository.common_dir, &name) {
        return Ok(BranchState::Absent);
    }
    let Some(tip) = tip(git, &repository.common_dir, &name)? else { return Ok(BranchState::Absent) };
    Ok(BranchState::At {
        marked: marked(git, &repository.common_dir, &request.run, &request.lane, &request.branch)?,
        elsewhere: checked_out_at(git, repository, &name, own)?,
        tip,
    })
}

/// Returns whether git2 lists no ref `name`. An error of it is no answer.
fn is_absent_to_library(common_dir: &Path, name: &str) -> bool {
    let listed = git2::Repository::open(common_dir)
        .and_then(|found| found.references_glob(name).map(|mut names| names.next().is_none()));
    listed.unwrap_or(false)
}

/// Returns the commit that the ref `name` is at. git2 reads; any error of it is settled by git.
pub(crate) fn tip(git: &Git, common_dir: &Path, name: &str) -> Result<Option<CommitId>, GitError> {
    let by_library = git2::Repository::open(common_dir)
        .and_then(|found| found.find_reference(name)?.peel_to_commit().map(|commit| commit.id().to_string()));
    if let Some(commit) = by_library.ok().as_deref().and_then(CommitId::parse) {
        return Ok(Some(commit));
    }
    let call = git.inside(common_dir, ["rev-parse", "--verify", "--quiet"]).arg(format!("{name}^{{commit}}"));
    match call.reading().commit() {
        Ok(commit) => Ok(Some(commit)),
        Err(GitError::Failed { code: Some(1), .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether the reflog of `branch` begins with the words of an acquire of this very lane.
pub fn marked(
    git: &Git,
    common_dir: &Path,
    run: &RunId,
    lane: &LaneName,
    branch: &str,
) -> Result<bool, GitError> {
    let name = format!("refs/heads/{branch}");
    if !git.inside(common_dir, ["reflog", "exists", &name]).reading().asks()? {
        return Ok(false);
    }
    let log = git.inside(common_dir, ["log", "-g", "-z", "--format=%gs", &name, "--"]).reading().output()?;
    Ok(items(&log).last().is_some_and(|words| words == branch_mark(run, lane).as_bytes()))
}

/// Returns the worktree other than `own` that has the branch `name` checked out.
pub(crate) fn checked_out_at(
    git: &Git,
    repository: &Repository,
    name: &str,
    own: Option<&Entry>,
) -> Result<Option<PathBuf>, GitError> {
    let unreadable = |error: io::Error| GitError::Unreadable {
        command: "worktree".into(),
        detail: format!("{}: {error}", repository.common_dir.display()),
    };
    let wanted = format!("ref: {name}");
    let main = read_if_there(&repository.common_dir.join("HEAD")).map_err(unreadable)?.unwrap_or_default();
    if main.trim_ascii() == b"ref: refs/heads/.invalid" {
        return listed_at(git, repository, name, own);
    }
    let in_main =
        main.trim_ascii() == wanted.as_bytes() || in_operation(&repository.common_dir, name).is_some();
    if !repository.bare && in_main {
        return Ok(Some(repository.common_dir.parent().unwrap_or(&repository.common_dir).to_path_buf()));
    }
    let others = entries(repository).map_err(unreadable)?;
    Ok(others
        .into_iter()
        .filter(|entry| own.is_none_or(|own| own.git_dir != entry.git_dir))
        .find(|entry| entry.head == wanted || in_operation(&entry.git_dir, name).is_some())
        .map(|entry| entry.path.unwrap_or(entry.git_dir)))
}

/// Returns what is under way in `git_dir` that will come back to the branch `name`, though HEAD is
/// elsewhere: git holds such a branch to be checked out there.
pub(super) fn in_operation(git_dir: &Path, name: &str) -> Option<&'static str> {
    let holds = |file: &str, wanted: &str| {
        fs::read(git_dir.join(file)).is_ok_and(|text| text.trim_ascii() == wanted.as_bytes())
    };
    if holds("rebase-merge/head-name", name) || holds("rebase-apply/head-name", name) {
        return Some("rebase");
    }
    holds("BISECT_START", name.strip_prefix("refs/heads/").unwrap_or(name)).then_some("bisect")
}

/// The same for a repository whose HEAD files are stubs (reftable).
fn listed_at(
    git: &Git,
    repository: &Repository,
    name: &str,
    own: Option<&Entry>,
) -> Result<Option<PathBuf>, GitError> {
    let listing = git
        .inside(&repository.common_dir, ["worktree", "list", "--porcelain", "-z"])
        .reading()
        .output_despite_races()?;
    let (wanted, mut path) = (format!("branch {name}"), PathBuf::new());
    for item in items(&listing) {
        if let Some(found) = item.strip_prefix(b"worktree ") {
            path = path_of(found);
        } else if item == wanted.as_bytes() && own.and_then(|own| own.path.as_ref()) != Some(&path) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Returns the first path in a half-made lane that no checkout of its commit writes.
pub(crate) fn half_made(git: &Git, path: &Path, entry: &Entry) -> Result<Option<PathBuf>, GitError> {
    Gaps::of(git, path, entry).map(|gaps| gaps.foreign)
}

/// Returns what a lane holds that was never handed out.
fn content(git: &Git, request: &LaneRequest, entry: &Entry) -> Result<Content, GitError> {
    let only_git = fs::read_dir(&request.path)
        .and_then(|items| items.collect::<io::Result<Vec<_>>>())
        .map_err(|error| GitError::Unreadable { command: "ls".into(), detail: error.to_string() })?
        .iter()
        .all(|item| item.file_name() == ".git");
    if only_git && !entry.git_dir.join("index").exists() {
        return Ok(Content::Nothing);
    }
    if !entry.whole {
        return Ok(Content::OnlyCheckout);
    }
    let gaps = Gaps::of(git, &request.path, entry)?;
    Ok(gaps.foreign.map_or(Content::OnlyCheckout, Content::Foreign))
}

/// How a half-made checkout differs from its commit.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Files that are not there.
    pub missing: Vec<PathBuf>,
    /// Files that hold a beginning of what the commit has, as a killed checkout leaves them.
    pub torn: Vec<PathBuf>,
    /// The first path that no checkout of the commit writes.
    pub foreign: Option<PathBuf>,
}

impl Gaps {
    /// Reads them, through an index of its own: the lane's may be missing, locked or half.
    pub(super) fn of(git: &Git, path: &Path, entry: &Entry) -> Result<Gaps, GitError> {
        let index = entry.git_dir.join("omg-index");
        let call = |words: &[&str]| git.at(path, words).env("GIT_INDEX_FILE", &index);
        let result = (|| {
            call(&["read-tree", "HEAD"]).output()?;
            // Status 1 where a file differs, which is the question of the next command.
            call(&["update-index", "-q", "--refresh"]).asks()?;
            let changed = call(&["diff-files", "--name-status", "-z", "--no-renames"]).output()?;
            let strange = call(&["ls-files", "--others", "-z"]).output()?;
            let mut gaps = Gaps { foreign: items(&strange).next().map(path_of), ..Gaps::default() };
            let mut changed = items(&changed);
            while let (Some(how), Some(name)) = (changed.next(), changed.next()) {
                let name = path_of(name);
                match how {
                    b"D" => gaps.missing.push(name),
                    b"M" if is_beginning(git, path, &name)? => gaps.torn.push(name),
                    _ => gaps.foreign = gaps.foreign.or(Some(name)),
                }
            }
            Ok(gaps)
        })();
        let _ = fs::remove_file(&index);
        let _ = fs::remove_file(index.with_extension("lock"));
        result
    }
}

fn is_beginning(git: &Git, lane: &Path, name: &Path) -> Result<bool, GitError> {
    let mut object = std::ffi::OsString::from("HEAD:");
    object.push(name);
    let whole = git.at(lane, ["cat-file", "--filters"]).arg(object).reading().output()?;
    let file = lane.join(name);
    let is_file = fs::symlink_metadata(&file).is_ok_and(|metadata| metadata.is_file());
    Ok(is_file && fs::read(&file).is_ok_and(|part| whole.starts_with(&part)))
}
