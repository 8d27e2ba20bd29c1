//! Takes out of a repository what is left of a lane and holds nothing: an entry whose folder is gone, a
//! half-made one. What such an entry knows of commits and staged files is given a ref first.
//!
//! One entry at a time, and only one that bears the run's name: not `git worktree prune`, which also drops
//! those of others, and a half-made one at once (measured with git 2.47).
#![expect(clippy::disallowed_methods, reason = "looks what is left of a lane and its entry; bounds its wait")]

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use super::acquire::{AcquirePlan, decide};
use super::git::Git;
use super::lane::{LaneHistory, OPERATIONS};
use super::lock::{LaneLock, RepositoryLock};
use super::make::Act;
use super::observe::{entry_for, observe};
use super::{GitWorktrees, LaneRequest, Repository, WorktreeError, retire};

/// Most rounds of look and act: more than any state needs.
const ROUNDS: u32 = 5;

/// Longest wait for a lane that somebody works on.
const PATIENCE: Duration = Duration::from_secs(60);

/// What became of a lane's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tidied {
    /// There was none to take out.
    AsItWas,
    /// It is gone; what it held has a ref.
    Dropped,
    /// It holds what could not be saved, or its place is away: it stays. Why, in words.
    Left(String),
}

impl GitWorktrees {
    /// Takes the entry of a lane out of its repository where the lane's folder is gone, or where a killed
    /// acquire left it without content. Ends a setting aside that was cut short.
    ///
    /// Idempotent; killed anywhere, the next call goes on. Only for the holder of the run's lock. Errors:
    /// git or the system failed; what is not done is as it was.
    pub fn tidy(&self, repository: &Repository, lane: &LaneRequest) -> Result<Tidied, WorktreeError> {
        tidy(&self.git, repository, lane)
    }
}

fn tidy(git: &Git, repository: &Repository, request: &LaneRequest) -> Result<Tidied, WorktreeError> {
    let io = |error: std::io::Error| WorktreeError::io(&request.path, &error);
    if entry_for(repository, &request.path).map_err(io)?.is_some()
        && let Some(place) = request.path.parent().filter(|place| !place.is_dir())
    {
        // A disk that is not mounted, for one: the lane may come back with it.
        return Ok(Tidied::Left(format!("{} is away, and the lane perhaps with it", place.display())));
    }
    let failed = |detail: String| WorktreeError::Io { path: request.path.clone(), detail };
    // Whether its branch is still there decides nothing here.
    let history = LaneHistory { kept_by_earlier_leg: false, ..request.history };
    let request = &LaneRequest { history, ..request.clone() };
    let act = Act { git, repository, request };
    let _lane = LaneLock::take(&request.path, Some(Instant::now() + PATIENCE)).map_err(io)?;
    let mut tidied = Tidied::AsItWas;
    for _ in 0..ROUNDS {
        let lock = RepositoryLock::take(&repository.common_dir).map_err(io)?;
        act.clear_debris().map_err(io)?;
        retire::settle_all(git, repository, request, &lock).map_err(failed)?;
        match decide(&observe(git, repository, request), request) {
            AcquirePlan::DropStale => {
                if let Some(why) = unsaved(repository, &request.path).map_err(io)? {
                    return Ok(Tidied::Left(why));
                }
                act.drop_stale(&lock).map_err(|fault| failed(fault.detail))?;
            }
            AcquirePlan::Redo => act.redo().map_err(io)?,
            AcquirePlan::Refuse(_)
            | AcquirePlan::PutBack
            | AcquirePlan::Create
            | AcquirePlan::Reattach { .. }
            | AcquirePlan::Finish
            | AcquirePlan::RunHook
            | AcquirePlan::Reuse => return Ok(tidied),
        }
        tidied = Tidied::Dropped;
    }
    Err(failed("it did not settle; another program works in its folder".into()))
}

/// Returns what the entry of the lane at `path` holds that no ref can: it may be that the folder was moved
/// and not deleted.
fn unsaved(repository: &Repository, path: &Path) -> std::io::Result<Option<String>> {
    let Some(entry) = entry_for(repository, path)? else { return Ok(None) };
    let shown = entry.git_dir.display();
    let is_there = |name: &&&str| entry.git_dir.join(name).exists();
    if let Some(operation) = OPERATIONS.iter().find(is_there) {
        return Ok(Some(format!("{shown} holds an operation under way ({operation})")));
    }
    match fs::read_dir(entry.git_dir.join("modules")) {
        Ok(mut items) => Ok(items.next().map(|_| format!("{shown} holds repositories of submodules"))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
