//! What can be seen of one lane, as plain data.
//!
//! `Option::None` always means "could not be read". Knows nothing of how it was read, nor what to
//! do about it.

use std::path::PathBuf;

use crate::ids::{CommitId, LaneName, RunId};

/// What the run wants of one lane, and what its journal knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneRequest {
    /// The run.
    pub run: RunId,
    /// The lane.
    pub lane: LaneName,
    /// Where its worktree belongs. Absolute.
    pub path: PathBuf,
    /// Its branch, without `refs/heads/`.
    pub branch: String,
    /// The commit it begins at.
    pub base: CommitId,
    /// What the journal knows.
    pub history: LaneHistory,
}

/// What the journal of a run knows of one of its lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneHistory {
    /// A receipt says that this run made the branch.
    pub branch_made_by_run: bool,
    /// An earlier leg's cleanup kept the tree or the branch.
    pub kept_by_earlier_leg: bool,
    /// An earlier acquire of this run began and has no receipt.
    pub acquire_open: bool,
}

impl LaneRequest {
    /// Returns the full name of the lane's branch.
    pub fn branch_ref(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }
}

/// Returns the reason with which a lane of `run` is locked while its leg lives.
pub fn lock_reason(run: &RunId) -> String {
    format!("omg run {run}")
}

/// Returns the words with which an acquire of this very lane begins the reflog of the branch that it
/// makes, and which it leaves in the one of the lane's HEAD. They prove whose they are even where the
/// process died before its receipt, or a node deleted that.
pub fn branch_mark(run: &RunId, lane: &LaneName) -> String {
    format!("omg: lane {lane} of run {run}")
}

/// Returns the ref that holds commits of a lane which nothing else would.
pub fn rescue_ref(run: &RunId, lane: &LaneName) -> String {
    format!("refs/omg/rescued/{run}/{lane}")
}

/// What marks an operation under way, in a lane's git folder.
pub const OPERATIONS: [&str; 9] = [
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "BISECT_START",
    "MERGE_AUTOSTASH",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
];

/// All that was observed about one lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneState {
    /// What is at the managed path.
    pub place: Option<Place>,
    /// Whether a tree that a sweep set aside, and never judged, waits beside the path.
    pub aside: Option<bool>,
    /// The entry of this repository for the managed path.
    pub registration: Option<Registration>,
    /// The lane's branch.
    pub branch: Option<BranchState>,
    /// What an unfinished lane holds. Looked at only where that decides something; unread elsewhere.
    pub content: Option<Content>,
}

/// What is at the managed path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing.
    Absent,
    /// A folder without content.
    Empty,
    /// A folder whose `.git` file leads to the very entry that names this path.
    Lane,
    /// A folder whose `.git` file leads into this repository, to no entry that names this path.
    Unlinked,
    /// A folder with content and no `.git`.
    Folder,
    /// A file, socket, device….
    File,
    /// A symbolic link, wherever it leads.
    Symlink,
    /// A repository of its own, or a worktree of another one.
    OtherRepository,
}

/// The entry of a repository for one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registration {
    /// There is none.
    None,
    /// There is one.
    Entry {
        /// Whether git can read it: it has a HEAD and knows its common folder.
        whole: bool,
        /// Who locked it.
        lock: Lock,
        /// The receipt in it.
        receipt: Receipt,
        /// What its HEAD says of whose it is.
        head: HeadSign,
    },
}

/// What the HEAD of an entry says of whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSign {
    /// Nothing.
    Other,
    /// It stands on the lane's branch.
    OnBranch,
    /// Its reflog has the words of an acquire of this very lane.
    Marked,
}

/// Who locked a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Nobody.
    None,
    /// This run.
    Ours,
    /// Git, amid `git worktree add`, or killed in it.
    Initializing,
    /// Somebody else, in these words.
    Foreign(String),
}

/// The receipt that an acquire leaves in the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// There is none.
    None,
    /// It is of this run and lane.
    Ours(Phase),
    /// It is of another run or lane.
    Foreign,
    /// It is there and cannot be read.
    Damaged,
}

/// How far an acquire came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Registered; its files are being written. No node was ever in it.
    Creating,
    /// Its files are there; the user's hook has not yet said yes.
    CheckedOut,
    /// Handed out at least once.
    Ready,
}

/// The lane's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchState {
    /// There is none of that name.
    Absent,
    /// It is at `tip`.
    At {
        /// Its commit.
        tip: CommitId,
        /// Whether its reflog begins with [`branch_mark`].
        marked: bool,
        /// Another worktree that has it checked out.
        elsewhere: Option<PathBuf>,
    },
}

/// What a lane holds that was never handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// No more than its `.git` file.
    Nothing,
    /// Files of the commit, whole, missing or torn off.
    OnlyCheckout,
    /// This path, which no checkout of the commit writes.
    Foreign(PathBuf),
}
