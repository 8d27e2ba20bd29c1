//! A scripted stand-in: lanes in memory, no repository behind them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::lane::LaneRequest;
use super::{
    AcquireFault, Acquired, CommittedFile, Footprint, How, Installing, NotInLanes, Obstacle, Repository,
    Room, Shared, Standing, TreeState, WorktreeError, Worktrees,
};
use crate::ids::{CommitId, LaneName};

/// Lanes in memory.
#[derive(Debug, Default)]
pub struct FakeWorktrees {
    /// The one repository; `None` answers as outside of any.
    pub repository: Option<Repository>,
    /// The revisions it knows.
    pub revisions: BTreeMap<String, CommitId>,
    /// What the user's checkout holds besides.
    pub not_in_lanes: Option<NotInLanes>,
    /// What one checkout takes.
    pub footprint: Option<Footprint>,
    /// What the disk has.
    pub room: Option<Room>,
    /// What preflight finds.
    pub obstacles: Vec<Obstacle>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    faults: BTreeMap<LaneName, Vec<AcquireFault>>,
    lanes: BTreeMap<PathBuf, bool>,
    calls: Vec<String>,
}

impl FakeWorktrees {
    /// Makes the next acquires of `lane` fail with `faults`, in order; later ones succeed.
    pub fn fail(&self, lane: &LaneName, faults: Vec<AcquireFault>) {
        self.state().faults.insert(lane.clone(), faults);
    }

    /// Returns the acquires and releases so far, in order: `acquire a`, `release a`.
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    /// Returns whether the lane at `path` is locked; `None` where there is none.
    pub fn locked(&self, path: &Path) -> Option<bool> {
        self.state().lanes.get(path).copied()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Worktrees for FakeWorktrees {
    fn discover(&self, from: &Path) -> Result<Repository, WorktreeError> {
        let none = || WorktreeError::NotARepository { from: from.to_path_buf() };
        self.repository.clone().ok_or_else(none)
    }

    fn resolve(&self, repository: &Repository, revision: &str) -> Result<CommitId, WorktreeError> {
        let unknown = || WorktreeError::UnknownBase {
            revision: revision.to_string(),
            at: repository.folder().to_path_buf(),
        };
        self.revisions.get(revision).cloned().ok_or_else(unknown)
    }

    fn not_in_lanes(&self, _: &Repository) -> Result<Option<NotInLanes>, WorktreeError> {
        Ok(self.not_in_lanes)
    }

    fn footprint(&self, _: &Repository, _: &CommitId) -> Result<Footprint, WorktreeError> {
        Ok(self.footprint.unwrap_or(Footprint { bytes: 4096, inodes: 1, exact: true }))
    }

    fn room(&self, _: &Path) -> Result<Room, WorktreeError> {
        Ok(self.room.unwrap_or(Room { bytes: u64::MAX, inodes: u64::MAX }))
    }

    fn preflight(&self, _: &Repository, _: &[LaneRequest]) -> Result<Vec<Obstacle>, WorktreeError> {
        Ok(self.obstacles.clone())
    }

    fn standing(&self, _: &Repository, _: &LaneRequest) -> Standing {
        Standing::Nothing
    }

    fn acquire(&self, repository: &Repository, lane: &LaneRequest) -> Result<Acquired, AcquireFault> {
        let mut state = self.state();
        state.calls.push(format!("acquire {}", lane.lane));
        if let Some(faults) = state.faults.get_mut(&lane.lane)
            && !faults.is_empty()
        {
            return Err(faults.remove(0));
        }
        let known = state.lanes.insert(lane.path.clone(), true).is_some();
        Ok(Acquired {
            path: lane.path.clone(),
            git_dir: repository.common_dir.join("worktrees").join(lane.lane.as_str()),
            how: if known { How::Reused } else { How::Created },
            branch_made: true,
            head: Some(lane.base.clone()),
        })
    }

    fn stop(&self, _: bool) {
        self.state().calls.push("stop".into());
    }

    fn retire(
        &self,
        _: &Repository,
        lane: &LaneRequest,
        _: bool,
        _: &dyn Fn() -> bool,
    ) -> Result<Option<PathBuf>, AcquireFault> {
        let mut state = self.state();
        state.calls.push(format!("retire {}", lane.lane));
        Ok(state.lanes.remove(&lane.path).map(|_| lane.path.with_extension("old-1")))
    }

    fn tracked(&self, _: &Path, _: &[String]) -> Result<BTreeSet<String>, WorktreeError> {
        Ok(BTreeSet::new())
    }

    fn tree_state(&self, _: &Path) -> Result<TreeState, WorktreeError> {
        Ok(TreeState::default())
    }

    fn shared(&self, _: &Repository) -> Result<Shared, WorktreeError> {
        Ok(Shared::default())
    }

    fn begin_install(&self, _: &Repository) -> Result<Installing, WorktreeError> {
        Ok(Installing {
            before: Shared::default(),
            original: None,
            among_others: false,
            left_over: None,
            held: None,
        })
    }

    fn end_install(&self, _: &Repository, _: Installing) -> Result<(), WorktreeError> {
        Ok(())
    }

    fn put_back_hooks_path(
        &self,
        _: &Repository,
        _: Option<&str>,
        _: Option<&str>,
    ) -> Result<bool, WorktreeError> {
        Ok(false)
    }

    fn files_at(
        &self,
        _: &Repository,
        _: &CommitId,
        _: &[String],
    ) -> Result<BTreeMap<String, CommittedFile>, WorktreeError> {
        Ok(BTreeMap::new())
    }

    fn has_identity(&self, _: &Repository) -> Result<bool, WorktreeError> {
        Ok(true)
    }

    fn release(&self, _: &Repository, lane: &LaneRequest) -> Result<(), WorktreeError> {
        let mut state = self.state();
        state.calls.push(format!("release {}", lane.lane));
        if let Some(locked) = state.lanes.get_mut(&lane.path) {
            *locked = false;
        }
        Ok(())
    }
}
