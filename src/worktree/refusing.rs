//! The implementation behind which nothing stands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{
    AcquireClass, AcquireFault, Acquired, CommittedFile, Footprint, Installing, LaneRequest, NotInLanes,
    Obstacle, Repository, Room, Shared, Standing, TreeState, WorktreeError, Worktrees,
};
use crate::ids::CommitId;

/// Answers every call with a refusal: what a test did not provide was not to be called.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefusingWorktrees;

impl Worktrees for RefusingWorktrees {
    fn discover(&self, _: &Path) -> Result<Repository, WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::discover" })
    }

    fn resolve(&self, _: &Repository, _: &str) -> Result<CommitId, WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::resolve" })
    }

    fn not_in_lanes(&self, _: &Repository) -> Result<Option<NotInLanes>, WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::not_in_lanes" })
    }

    fn footprint(&self, _: &Repository, _: &CommitId) -> Result<Footprint, WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::footprint" })
    }

    fn room(&self, _: &Path) -> Result<Room, WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::room" })
    }

    fn preflight(&self, _: &Repository, _: &[LaneRequest]) -> Result<Vec<Obstacle>, WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::preflight" })
    }

    fn standing(&self, _: &Repository, lane: &LaneRequest) -> Standing {
        Standing::Taken(format!("bug: lane `{}` was looked at, and nothing stands behind it", lane.lane))
    }

    fn acquire(&self, _: &Repository, _: &LaneRequest) -> Result<Acquired, AcquireFault> {
        Err(AcquireFault {
            class: AcquireClass::Bug,
            detail: WorktreeError::Refused { call: "Worktrees::acquire" }.to_string(),
            hint: "report this".into(),
        })
    }

    fn retire(
        &self,
        _: &Repository,
        _: &LaneRequest,
        _: bool,
        _: &dyn Fn() -> bool,
    ) -> Result<Option<PathBuf>, AcquireFault> {
        Err(AcquireFault {
            class: AcquireClass::Bug,
            detail: WorktreeError::Refused { call: "Worktrees::retire" }.to_string(),
            hint: "report this".into(),
        })
    }

    fn tracked(&self, _: &Path, _: &[String]) -> Result<BTreeSet<String>, WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::tracked" })
    }

    fn tree_state(&self, _: &Path) -> Result<TreeState, WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::tree_state" })
    }

    fn shared(&self, _: &Repository) -> Result<Shared, WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::shared" })
    }

    fn begin_install(&self, _: &Repository) -> Result<Installing, WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::begin_install" })
    }

    fn end_install(&self, _: &Repository, _: Installing) -> Result<(), WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::end_install" })
    }

    fn put_back_hooks_path(
        &self,
        _: &Repository,
        _: Option<&str>,
        _: Option<&str>,
    ) -> Result<bool, WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::put_back_hooks_path" })
    }

    fn files_at(
        &self,
        _: &Repository,
        _: &CommitId,
        _: &[String],
    ) -> Result<BTreeMap<String, CommittedFile>, WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::files_at" })
    }

    fn has_identity(&self, _: &Repository) -> Result<bool, WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::has_identity" })
    }

    fn stop(&self, _: bool) {}

    fn release(&self, _: &Repository, _: &LaneRequest) -> Result<(), WorktreeError> {
        Err(WorktreeError::Refused { call: "Worktrees::release" })
    }
}
