//! What is known of one lane: its history, and where it stands.

use super::fact::Cleanup;
use super::fault::Fault;
use crate::ids::{CommitId, IntentId, NodeIx};

/// A lane's history and standing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneRecord {
    /// Where it stands in this leg.
    pub phase: LanePhase,
    /// What is known of its worktree, once there was one.
    pub made: Option<MadeLane>,
    /// Whether this run made its branch.
    pub branch_made: bool,
    /// Whether an earlier acquire began that has no receipt: it may have made anything.
    pub acquire_open: bool,
    /// Whether an earlier leg kept its branch.
    pub branch_kept: bool,
    /// Whether it has its local files, in this leg.
    pub overlaid: bool,
    /// Provisioning tries so far; names logs.
    pub tries: u32,
    /// Provisioning failures in a row.
    pub failures: u32,
    /// How often it was found stale since a node last did anything in it.
    pub renewals: u32,
    /// The hash of its receipt.
    pub receipt: Option<String>,
    /// The node that wrote in it last.
    pub last_writer: Option<NodeIx>,
    /// The node that left manifest and lockfile at odds.
    pub out_of_sync: Option<NodeIx>,
    /// Whether the next acquire sets a tree of before aside.
    pub fresh: bool,
    /// The node that writes in it.
    pub writer: Option<NodeIx>,
    /// How many nodes read in it.
    pub readers: u32,
    /// What the last cleanup did.
    pub cleanup: Option<Cleanup>,
    /// Trees of before that were set aside whole, oldest first.
    pub set_aside: Vec<std::path::PathBuf>,
}

/// What is known of a lane's worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeLane {
    /// Its root.
    pub path: std::path::PathBuf,
    /// Its branch.
    pub branch: String,
    /// The commit it began at.
    pub base: CommitId,
    /// The lane's own git folder.
    pub git_dir: std::path::PathBuf,
}

/// Where a lane stands in a leg. The world as seen is `worktree::LaneState`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LanePhase {
    /// Not asked for yet.
    #[default]
    Pending,
    /// Being made.
    Acquiring(IntentId),
    /// Made, not provisioned, or no more.
    Bare,
    /// Getting its local files.
    Overlaying(IntentId),
    /// Being provisioned.
    Provisioning(IntentId),
    /// Fit to work in.
    Ready,
    /// Not usable in this leg.
    Broken(Fault),
}

impl LaneRecord {
    /// Returns how many nodes are in it.
    pub fn users(&self) -> u32 {
        self.readers + u32::from(self.writer.is_some())
    }
}
