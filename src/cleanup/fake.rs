//! A scripted stand-in.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::{BranchFate, CHANNELS, CleanupOutcome, SweepRequest, Sweeper, TreeFate};
use crate::ids::LaneName;
use crate::worktree::Repository;

/// Answers as told; a lane that was not told of was clean.
#[derive(Debug, Default)]
pub struct FakeSweeper {
    outcomes: BTreeMap<LaneName, CleanupOutcome>,
    requests: Mutex<Vec<SweepRequest>>,
}

impl FakeSweeper {
    /// Returns this with `outcome` for `lane`.
    pub fn with(mut self, lane: &LaneName, outcome: CleanupOutcome) -> FakeSweeper {
        self.outcomes.insert(lane.clone(), outcome);
        self
    }

    /// Returns what was asked so far, in order.
    pub fn requests(&self) -> Vec<SweepRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sweeper for FakeSweeper {
    fn sweep(&self, _: &Repository, request: &SweepRequest) -> CleanupOutcome {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        self.outcomes.get(&request.lane).cloned().unwrap_or_else(|| CleanupOutcome {
            tree: TreeFate::Removed,
            branch: BranchFate::Deleted,
            reason: "clean".into(),
            note: None,
            channels: CHANNELS.iter().map(|channel| (*channel, "none".to_string())).collect(),
            carried: Vec::new(),
            unchecked: None,
        })
    }

    fn holds_work(&self, _: &Repository, request: &SweepRequest) -> bool {
        self.outcomes.get(&request.lane).is_some_and(|outcome| outcome.tree == TreeFate::Kept)
    }
}
