//! What may be deleted at leg end, and what was.
//!
//! Observe (`look`) → decide (`verdict`) → look again → act (`sweep`). Knows one lane at a time;
//! nothing of graphs or journals.

pub mod fake;
mod guard;
mod look;
mod rebuildable;
mod record;
mod save;
mod submodule;
mod sweep;
pub mod verdict;
mod walk;
mod withhold;

pub use guard::Carried;
pub use sweep::delete as delete_tree;

use std::path::PathBuf;
use std::time::Duration;

use crate::fence::Fence;
use crate::ids::{CommitId, LaneName, RunId};
use crate::process::environment::Environment;
use crate::worktree::{Git, LaneHistory, LaneRequest, Repository};

/// What happens to a lane that holds work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// It is kept.
    Safe,
    /// Its content is rescued; then it is removed.
    Discard,
}

/// A file that provisioning made: as long as it is what it was, it is nobody's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownFile {
    /// Its path in the lane.
    pub path: PathBuf,
    /// By what it is known again (`worktree::known_by`).
    pub sha256: String,
}

/// A file that the overlay copied into the lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayFile {
    /// Its path in the lane.
    pub path: PathBuf,
    /// The SHA-256 of what was copied, lower-case hex.
    pub sha256: String,
    /// Its length in bytes.
    pub size: u64,
    /// Whether the lane's index has the path, and hides changes of it from git.
    pub tracked: bool,
    /// The names that git would store the content under.
    pub blobs: Vec<String>,
}

/// One lane to sweep, and all that the run knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepRequest {
    /// The run.
    pub run: RunId,
    /// The lane.
    pub lane: LaneName,
    /// Where its worktree belongs. Absolute.
    pub path: PathBuf,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
    /// The commit it began at.
    pub base: CommitId,
    /// Whether the journal says that this run made the branch. The branch's own mark says so too.
    pub branch_made_by_run: bool,
    /// Where files go that only the lane has; on the lane's file system, or the tree is kept.
    pub rescued: PathBuf,
    /// What happens to work.
    pub policy: Policy,
    /// Folders that provisioning made and can make again; relative to the lane.
    pub rebuildable: Vec<PathBuf>,
    /// Other files that it made, sorted by path.
    pub provisioned: Vec<KnownFile>,
    /// What the overlay copied in; `None` where that could not be read.
    pub overlay: Option<Vec<OverlayFile>>,
    /// Whether a node of the lane passed while another is yet to pass.
    pub ignored_is_needed: bool,
    /// Longest time for this lane. What is not judged by then is kept.
    pub time: Duration,
}

impl SweepRequest {
    /// Returns whether the overlay copied anything in, or may have.
    pub fn may_have_copies(&self) -> bool {
        self.overlay.as_ref().is_none_or(|copies| !copies.is_empty())
    }

    /// Returns what the overlay copied in, as far as known.
    fn copies(&self) -> &[OverlayFile] {
        self.overlay.as_deref().unwrap_or_default()
    }

    /// Returns the lane as `worktree` knows it.
    pub fn lane_request(&self) -> LaneRequest {
        LaneRequest {
            run: self.run.clone(),
            lane: self.lane.clone(),
            path: self.path.clone(),
            branch: self.branch.clone(),
            base: self.base.clone(),
            history: LaneHistory { branch_made_by_run: self.branch_made_by_run, ..LaneHistory::default() },
        }
    }
}

/// What became of a lane's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeFate {
    /// It is where it was.
    Kept,
    /// It is not there any more.
    Removed,
}

/// What became of a lane's branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BranchFate {
    /// It is as it was.
    Kept,
    /// It is not there any more.
    Deleted,
}

/// The channels through which work could be lost, in the order of the record (DESIGN.md section 10).
pub const CHANNELS: [&str; 13] = [
    "tracked",
    "staged",
    "untracked",
    "ignored",
    "flagged",
    "nested",
    "submodule",
    "operation",
    "detached",
    "reflog",
    "branches",
    "stash",
    "overlay",
];

/// What a sweep did with one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanupOutcome {
    /// Its tree.
    pub tree: TreeFate,
    /// Its branch.
    pub branch: BranchFate,
    /// Why: a short stable code.
    pub reason: String,
    /// One line for people; `None` where nothing was there to speak of.
    pub note: Option<String>,
    /// Each of [`CHANNELS`] with `none`, `saved: where` or `kept`.
    pub channels: Vec<(&'static str, String)>,
    /// Commits of the lane that carry a file of the overlay.
    pub carried: Vec<Carried>,
    /// Why that is not known, where it is not.
    pub unchecked: Option<String>,
}

/// Sweeps lanes. Every call blocks, for the request's time at most, deletions aside.
pub trait Sweeper: Send + Sync {
    /// Judges one lane, removes what may go, and returns what was done.
    ///
    /// Never fails: what goes wrong is a reason to keep. Idempotent; killed anywhere, nothing is
    /// lost and the next sweep goes on.
    fn sweep(&self, repository: &Repository, request: &SweepRequest) -> CleanupOutcome;

    /// Returns whether the lane's tree holds anything but commits and what can be made again, seen as a
    /// sweep sees it; `true` also where that could not be read. Call it under the lane's lock.
    fn holds_work(&self, repository: &Repository, request: &SweepRequest) -> bool;
}

/// The real one.
#[derive(Clone, Debug)]
pub struct GitSweeper {
    git: Git,
}

impl GitSweeper {
    /// Returns the real thing for a process that was started with `environment`.
    pub fn new(environment: &Environment) -> GitSweeper {
        GitSweeper { git: Git::new(environment) }
    }

    /// Returns what a sweep would come to, by one look that leaves everything as it is. It may have changed
    /// by the time of the sweep.
    pub fn foresee(&self, repository: &Repository, request: &SweepRequest) -> CleanupOutcome {
        sweep::foresee(&self.git, repository, request)
    }

    /// Returns this with `fence` asked right before each step that can't be taken back.
    pub fn fenced(self, fence: Fence) -> GitSweeper {
        GitSweeper { git: self.git.fenced(fence) }
    }
}

impl Sweeper for GitSweeper {
    fn sweep(&self, repository: &Repository, request: &SweepRequest) -> CleanupOutcome {
        sweep::sweep(&self.git, repository, request)
    }

    fn holds_work(&self, repository: &Repository, request: &SweepRequest) -> bool {
        sweep::holds_work(&self.git, repository, request)
    }
}

/// Keeps everything, and says that nothing stands behind it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefusingSweeper;

impl Sweeper for RefusingSweeper {
    fn sweep(&self, _: &Repository, request: &SweepRequest) -> CleanupOutcome {
        CleanupOutcome {
            tree: TreeFate::Kept,
            branch: BranchFate::Kept,
            reason: "refused".into(),
            note: Some(format!("bug: lane `{}` was swept, and nothing stands behind it", request.lane)),
            channels: CHANNELS.iter().map(|channel| (*channel, "kept".to_string())).collect(),
            carried: Vec::new(),
            unchecked: None,
        }
    }

    fn holds_work(&self, _: &Repository, _: &SweepRequest) -> bool {
        true
    }
}
