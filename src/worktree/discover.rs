//! Finds the repository and answers what is asked before any lane is made.
//!
//! git2 reads first, as it needs no process; any error of it, of whatever kind, is settled by git:
//! git2 does not open reftable, sha256 or sparse-index repositories (measured with libgit2 1.9.7).
#![expect(clippy::disallowed_methods, reason = "asks the system which folders exist")]

use std::path::{Path, PathBuf};

use super::git::{Git, GitError, items};
use super::{Footprint, NotInLanes, Repository, Room, WorktreeError};
use crate::ids::CommitId;

/// What files occupy at least, whatever their size; exact on ext4 and xfs as they are made.
const BLOCK: u64 = 4096;

/// One entry of an index, as measured.
const INDEX_ENTRY: u64 = 89;

/// Returns the repository that holds `from`.
pub fn discover(git: &Git, from: &Path) -> Result<Repository, WorktreeError> {
    if !from.is_dir() {
        return Err(WorktreeError::Away { at: from.to_path_buf() });
    }
    let repository = match by_library(from) {
        // Git may be told to use no bare repository that it merely finds; the library is not.
        Ok(repository) if !repository.bare => repository,
        Ok(_) | Err(_) => by_git(git, from)?,
    };
    if resolve_head(git, &repository)?.is_none() && is_without_commits(git, &repository)? {
        return Err(WorktreeError::NoCommit { at: repository.folder().to_path_buf() });
    }
    Ok(repository)
}

fn by_library(from: &Path) -> Result<Repository, git2::Error> {
    let none: [&Path; 0] = [];
    let found = git2::Repository::open_ext(from, git2::RepositoryOpenFlags::empty(), none)?;
    let absolute =
        |path: &Path| std::fs::canonicalize(path).map_err(|error| git2::Error::from_str(&error.to_string()));
    Ok(Repository {
        top: found.workdir().map(absolute).transpose()?,
        git_dir: absolute(found.path())?,
        common_dir: absolute(found.commondir())?,
        bare: found.config()?.get_bool("core.bare").unwrap_or(found.is_bare()),
    })
}

fn by_git(git: &Git, from: &Path) -> Result<Repository, WorktreeError> {
    let ask = |question: &[&str]| {
        git.at(from, ["rev-parse", "--path-format=absolute"]).reading().args(question).path()
    };
    let git_dir = ask(&["--git-dir"]).map_err(|error| explained(git, from, error))?;
    let bare = git.at(from, ["rev-parse", "--is-bare-repository"]).reading().line()? == "true";
    let inside = git.at(from, ["rev-parse", "--is-inside-work-tree"]).reading().line()? == "true";
    Ok(Repository {
        top: if inside { Some(ask(&["--show-toplevel"])?) } else { None },
        common_dir: ask(&["--git-common-dir"])?,
        git_dir,
        bare,
    })
}

/// Returns why git does not work at `from`, where it said `error`.
pub(super) fn explained(git: &Git, from: &Path, error: GitError) -> WorktreeError {
    let from = from.to_path_buf();
    let words = || error.words().trim_start_matches("fatal: ").replace('\n', " ").replace('\t', "");
    if error.is_unsafe_directory() {
        return WorktreeError::Unsafe { at: from, words: error.words().to_string() };
    }
    if error.is_unknown_format() {
        let version = git.at(Path::new("/"), ["version"]).line().unwrap_or_else(|_| "git".into());
        return WorktreeError::UnknownFormat { at: from, git: version, words: words() };
    }
    match &error {
        GitError::Failed { code: Some(128), stderr, .. } if stderr.contains("not a git repository") => {
            WorktreeError::NotARepository { from }
        }
        GitError::Failed { .. } => WorktreeError::Broken { at: from, error },
        _ => WorktreeError::Git(error),
    }
}

fn is_without_commits(git: &Git, repository: &Repository) -> Result<bool, WorktreeError> {
    let refs = git.inside(&repository.common_dir, ["for-each-ref", "--count=1"]).reading();
    refs.output().map(|out| out.is_empty()).map_err(|error| explained(git, repository.folder(), error))
}

fn resolve_head(git: &Git, repository: &Repository) -> Result<Option<CommitId>, WorktreeError> {
    match resolve(git, repository, "HEAD") {
        Ok(commit) => Ok(Some(commit)),
        Err(WorktreeError::UnknownBase { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the commit that `revision` names.
pub fn resolve(git: &Git, repository: &Repository, revision: &str) -> Result<CommitId, WorktreeError> {
    if let Ok(commit) = resolve_by_library(repository, revision) {
        return Ok(commit);
    }
    let question = format!("{revision}^{{commit}}");
    let call = git
        .inside(&repository.git_dir, ["rev-parse", "--verify", "--quiet", "--end-of-options"])
        .arg(&question)
        .reading();
    match call.commit() {
        Ok(commit) => Ok(commit),
        Err(error) if error.is_unsafe_directory() || error.is_unknown_format() => {
            Err(explained(git, repository.folder(), error))
        }
        Err(GitError::Failed { code: Some(1 | 128), .. }) => Err(WorktreeError::UnknownBase {
            revision: revision.to_string(),
            at: repository.folder().to_path_buf(),
        }),
        Err(error) => Err(error.into()),
    }
}

fn resolve_by_library(repository: &Repository, revision: &str) -> Result<CommitId, git2::Error> {
    let found = git2::Repository::open(&repository.git_dir)?;
    let commit = found.revparse_single(revision)?.peel_to_commit()?.id().to_string();
    CommitId::parse(&commit).ok_or_else(|| git2::Error::from_str("not a full object name"))
}

/// Returns what of the user's checkout no lane begins with.
pub fn not_in_lanes(git: &Git, repository: &Repository) -> Result<Option<NotInLanes>, WorktreeError> {
    let Some(top) = &repository.top else { return Ok(None) };
    let status = git
        .at(top, ["status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames"])
        .reading()
        .output()?;
    let count = |kinds: &[u8]| items(&status).filter(|item| kinds.contains(&item[0])).count();
    let found = NotInLanes { modified: count(b"1u"), untracked: count(b"?") };
    Ok((found != NotInLanes { modified: 0, untracked: 0 }).then_some(found))
}

/// Returns what one checkout of `commit` takes.
///
/// Sizes rounded up to blocks came within 3 % of `du` (measured, 10k and 100k files). A partial
/// clone prints `BAD` for what it lacks, and fetches nothing.
pub fn footprint(git: &Git, repository: &Repository, commit: &CommitId) -> Result<Footprint, WorktreeError> {
    let listing = git
        .inside(&repository.common_dir, ["ls-tree", "-r", "-t", "-l", "-z", commit.as_str()])
        .reading()
        .output()?;
    let mut footprint = Footprint { bytes: 0, inodes: 0, exact: true };
    for item in items(&listing) {
        let fields = item.split(|byte| *byte == b'\t').next().unwrap_or(item);
        let fields = String::from_utf8_lossy(fields);
        let mut fields = fields.split_whitespace().skip(1);
        let (kind, size) = (fields.next(), fields.nth(1));
        footprint.inodes += 1;
        footprint.bytes += match (kind, size.map(str::parse::<u64>)) {
            (Some("blob"), Some(Ok(size))) => INDEX_ENTRY + size.div_ceil(BLOCK) * BLOCK,
            (Some("blob"), _) => {
                footprint.exact = false;
                INDEX_ENTRY + BLOCK
            }
            (_, _) => BLOCK,
        };
    }
    Ok(footprint)
}

/// Returns what is left where `path` is, or would be.
pub fn room(path: &Path) -> Result<Room, WorktreeError> {
    let place = existing(path);
    let found = rustix::fs::statvfs(&place)
        .map_err(|error| WorktreeError::io(&place, &std::io::Error::from(error)))?;
    Ok(Room {
        bytes: found.f_bavail.saturating_mul(found.f_frsize),
        inodes: if found.f_files == 0 { u64::MAX } else { found.f_favail },
    })
}

/// Returns whether a folder is at `path`.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.is_dir()
}

/// Returns an error where things can't be made in the folder at `path`. What is not there, is no folder
/// or can't be asked for is none.
pub(super) fn writable(path: &Path) -> std::io::Result<()> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    use rustix::io::Errno;
    if !path.is_dir() {
        return Ok(());
    }
    match accessat(CWD, path, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
        Err(error @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => Err(error.into()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns `path`, or its nearest parent that exists.
pub(super) fn existing(path: &Path) -> PathBuf {
    path.ancestors().find(|place| place.exists()).unwrap_or(Path::new("/")).to_path_buf()
}

/// Returns `path` with every link in the part that exists resolved.
pub(super) fn real(path: &Path) -> std::io::Result<PathBuf> {
    let place = existing(path);
    let rest = path.strip_prefix(&place).unwrap_or(Path::new(""));
    let place = std::fs::canonicalize(place)?;
    Ok(if rest.as_os_str().is_empty() { place } else { place.join(rest) })
}
