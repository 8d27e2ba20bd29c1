//! The end of a leg: each lane gets its verdict, on a time of its own.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::perform::Stage;
use crate::cleanup::{BranchFate, CleanupOutcome, KnownFile, Policy, SweepRequest, Sweeper, TreeFate};
use crate::graph::Graph;
use crate::graph::model::CleanupPolicy;
use crate::ids::{IntentId, LaneIx, LaneName};
use crate::journal::{RunDir, RunFile};
use crate::provision::receipt;
use crate::schedule::fact::{Carried, Cleanup, EndState, Fact};
use crate::schedule::state::{LanePhase, LaneRecord, RunState};
use crate::worktree::{Repository, Worktrees};

/// Longest time for judging all lanes of a leg (DESIGN.md section 10).
pub const SWEEP_TIME: Duration = Duration::from_secs(60);

/// Returns the lanes that this leg touched, or that a killed one may have.
pub fn lanes_to_sweep(state: &RunState) -> Vec<LaneIx> {
    (0..state.lanes.len() as u32)
        .map(LaneIx)
        .filter(|ix| {
            let lane = state.lane(*ix);
            lane.acquire_open || (lane.made.is_some() && lane.cleanup.is_none())
        })
        .collect()
}

/// Returns the lanes that a leg which is dead left without a verdict: those of [`lanes_to_sweep`], and those
/// that it was about to make.
pub fn lanes_left_unswept(state: &RunState) -> Vec<LaneIx> {
    let being_made = |lane: LaneIx| matches!(state.lane(lane).phase, LanePhase::Acquiring(_));
    let swept_by_now = |lane: LaneIx| state.finished.is_some() && state.lane(lane).cleanup.is_some();
    let to_sweep = lanes_to_sweep(state);
    (0..state.lanes.len() as u32)
        .map(LaneIx)
        .filter(|lane| to_sweep.contains(lane) || being_made(*lane))
        .filter(|lane| !swept_by_now(*lane))
        .collect()
}

/// Returns whether ignored files of a lane are still needed: a node of it passed, and another is
/// neither passed nor skipped.
pub fn ignored_is_needed(graph: &Graph, state: &RunState, lane: LaneIx) -> bool {
    let ends = || graph.node_ixs().filter(|ix| graph.node(*ix).lane == Some(lane)).map(|ix| state.end_of(ix));
    ends().any(|end| end == Some(EndState::Passed))
        && ends().any(|end| !matches!(end, Some(EndState::Passed | EndState::Skipped)))
}

/// Returns what is asked of the sweeper for a lane.
pub fn request(
    stage: &Stage,
    state: &RunState,
    lane: LaneIx,
    policy: Policy,
    time: Duration,
) -> Option<SweepRequest> {
    let needed = ignored_is_needed(&stage.file.graph, state, lane);
    request_of(stage, state.lane(lane), lane, policy, needed, time)
}

/// Returns the same of a lane's record.
pub fn request_of(
    stage: &Stage,
    record: &LaneRecord,
    lane: LaneIx,
    policy: Policy,
    ignored_is_needed: bool,
    time: Duration,
) -> Option<SweepRequest> {
    request_for(&stage.file, &stage.dir, record, lane, Terms { policy, ignored_is_needed, time })
}

/// Under which terms a lane is swept.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// What happens to work.
    pub policy: Policy,
    /// Whether its ignored files are needed.
    pub ignored_is_needed: bool,
    /// Longest time for it.
    pub time: Duration,
}

/// Returns what is asked of the sweeper for a lane of a run that no leg holds.
pub fn request_for(
    file: &RunFile,
    dir: &RunDir,
    record: &LaneRecord,
    lane: LaneIx,
    terms: Terms,
) -> Option<SweepRequest> {
    let Terms { policy, ignored_is_needed, time } = terms;
    let of_run = file.repository.as_ref()?;
    let name = file.graph.lane(lane).name.clone();
    let (rebuildable, provisioned) = installed(dir, &name, record);
    let overlay = super::overlay::copies(dir, &name).ok();
    Some(SweepRequest {
        rescued: dir.rescued(&name),
        run: file.run_id.clone(),
        path: of_run.path_of(&name),
        branch: of_run.branch_of(&file.run_id, &name),
        base: of_run.base_of(&name).clone(),
        lane: name,
        branch_made_by_run: record.branch_made,
        policy,
        rebuildable,
        provisioned,
        overlay,
        ignored_is_needed,
        time,
    })
}

/// Returns what the installation in a lane left, as its receipt says: folders that can be made again, and
/// files. Nothing, where the receipt is not the one that was written.
pub fn installed(dir: &RunDir, lane: &LaneName, record: &LaneRecord) -> (Vec<PathBuf>, Vec<KnownFile>) {
    let path = dir.lane(lane).join(receipt::NAME);
    let Some(receipt) = receipt::load(&path, record.receipt.as_deref()) else { return Default::default() };
    let files = receipt::load_files(&receipt, &dir.lane(lane))
        .into_iter()
        .map(|file| KnownFile { path: file.path, sha256: file.sha256 });
    let mut files: Vec<KnownFile> = files.collect();
    files.sort_by(|one, two| one.path.cmp(&two.path));
    (receipt.made, files)
}

/// Returns the policy for a lane at leg end.
pub fn policy(stage: &Stage, lane: LaneIx) -> Policy {
    policy_of(&stage.file.graph, lane)
}

/// Returns the policy that a graph has for a lane.
pub fn policy_of(graph: &Graph, lane: LaneIx) -> Policy {
    match graph.cleanup(lane) {
        CleanupPolicy::Safe => Policy::Safe,
        CleanupPolicy::Discard => Policy::Discard,
    }
}

/// Sweeps one lane and returns the fact of it. Unlocks a lane that is kept.
pub async fn sweep(stage: &Rc<Stage>, request: SweepRequest, intent: IntentId) -> Fact {
    let lane = request.lane.clone();
    stage.tell_of_drift(&lane, &request.path).await;
    let Some(repository) = stage.repository.clone() else {
        return performed(lane, intent, kept("no-repository", &request));
    };
    let broken = kept("bug", &request);
    let (sweeper, worktrees) = (Arc::clone(&stage.seams.sweeper), Arc::clone(&stage.seams.worktrees));
    let outcome =
        tokio::task::spawn_blocking(move || sweep_now(&*sweeper, &*worktrees, &repository, &request)).await;
    let outcome = outcome.unwrap_or(broken);
    performed(lane, intent, outcome)
}

/// Sweeps one lane, and unlocks it where it is kept. Blocks.
pub fn sweep_now(
    sweeper: &dyn Sweeper,
    worktrees: &dyn Worktrees,
    repository: &Repository,
    request: &SweepRequest,
) -> CleanupOutcome {
    let outcome = sweeper.sweep(repository, request);
    if outcome.tree == TreeFate::Kept {
        // What can't be unlocked stays protected; that loses nothing.
        let _ = worktrees.release(repository, &request.lane_request());
    }
    outcome
}

fn kept(reason: &str, request: &SweepRequest) -> CleanupOutcome {
    CleanupOutcome {
        tree: TreeFate::Kept,
        branch: BranchFate::Kept,
        reason: reason.into(),
        note: Some(format!("kept without a look: {reason}")),
        channels: Vec::new(),
        carried: Vec::new(),
        unchecked: request.may_have_copies().then(|| "it was not looked at".to_string()),
    }
}

/// Returns the fact of a cleanup.
pub fn performed(lane: crate::ids::LaneName, intent: IntentId, outcome: CleanupOutcome) -> Fact {
    let tree = match outcome.tree {
        TreeFate::Kept => "kept",
        TreeFate::Removed => "removed",
    };
    let branch = match outcome.branch {
        BranchFate::Kept => "kept",
        BranchFate::Deleted => "deleted",
    };
    Fact::CleanupPerformed {
        lane,
        intent,
        cleanup: Cleanup {
            tree: tree.into(),
            branch: branch.into(),
            reason: outcome.reason,
            note: outcome.note,
            overlay_in_commits: outcome
                .carried
                .into_iter()
                .map(|found| Carried {
                    path: found.path.to_string_lossy().into_owned(),
                    commit: found.commit,
                })
                .collect(),
            overlay_unchecked: outcome.unchecked,
            channels: outcome.channels.into_iter().map(|(name, text)| (name.to_string(), text)).collect(),
        },
    }
}
