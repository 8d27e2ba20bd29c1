//! A run that is held for being put in order: lanes get their verdict as at a leg's end, each announced in the
//! journal before anything of it is done.

use super::disk;
use super::survey::{Known, Place, Surveyor, first};
use crate::api::leg::mask;
use crate::api::{Complaint, Refusal};
use crate::cleanup::{GitSweeper, Policy, SweepRequest, TreeFate};
use crate::fence::Fence;
use crate::ids::{IntentId, LaneIx, Leg, RunId};
use crate::journal::store::Journal;
use crate::journal::{Record, RunDir};
use crate::run::environment::of_git;
use crate::run::seams::{Clock, SystemClock};
use crate::run::settle::exits_of_their_own;
use crate::run::sweep::{SWEEP_TIME, Terms, ignored_is_needed, performed, policy_of, request_for, sweep_now};
use crate::run::{RunError, leg};
use crate::schedule::Fact;
use crate::schedule::fact::{Cleanup, EndState, RunStatus};
use crate::schedule::settling::closed_by_a_claim;
use crate::schedule::state::{LanePhase, NodePhase, RunState};
use crate::settings::Settings;
use crate::view::gc::TidiedLane;
use crate::worktree::{GitWorktrees, LaneHistory, LaneRequest, Repository, Tidied};

/// A run that is held.
pub struct Held<'a> {
    settings: &'a Settings,
    dir: RunDir,
    /// What is known of it, read under the claim.
    pub known: Known,
    /// What it had left running, and what was ended.
    pub ended: Vec<String>,
    claim: leg::Claim,
    /// Asked right before each step that can't be taken back.
    pub fence: Fence,
    journal: Journal,
    next: u64,
}

/// Why a run was not held.
pub enum NotHeld {
    /// A living process has it, or nobody can tell.
    Held(String),
    /// Its files can't be used.
    Unusable(Complaint),
}

impl<'a> Held<'a> {
    /// Claims a run, ends what a dead leg of it left running, and reads it anew.
    pub fn claim(
        settings: &'a Settings,
        surveyor: &Surveyor<'_>,
        id: &RunId,
        dir: &RunDir,
        records: &[Record],
    ) -> Result<Held<'a>, NotHeld> {
        let claim = claim(dir, id, records)?;
        let unusable = |error: RunError| NotHeld::Unusable(first(Refusal::from(error)));
        let file = leg::load(dir).map_err(unusable)?;
        let ended = leg::end_leftovers(dir, Some(&file.graph)).map_err(unusable)?;
        // The last leg may have written until it was gone.
        let known = surveyor.known(dir).map_err(NotHeld::Unusable)?;
        let generation = claim.generation;
        let fence = claim.fence(dir).map_err(unusable)?;
        // It is no leg of its own: it runs nothing.
        let (journal, _) = Journal::open(
            &dir.events(),
            |records| (leg::last_leg(records).max(Leg(1)), generation),
            mask(settings, &known.file),
            fence.clone(),
        )
        .map_err(|error| unusable(error.into()))?;
        let open = closed_by_a_claim(&known.file.graph, &known.state);
        let mut held = Held { settings, dir: dir.clone(), known, ended, claim, fence, journal, next: 1 };
        held.append(open).map_err(unusable)?;
        Ok(held)
    }

    /// Gives `lanes` their verdict, and returns it. `policy`: what happens to work; by default what the graph
    /// says. Errors: the journal can't be written, and nothing more was done.
    pub fn sweep(&mut self, lanes: &[LaneIx], policy: Option<Policy>) -> Result<Vec<TidiedLane>, RunError> {
        let Place::Here(repository) = self.known.repository.clone() else { return Ok(Vec::new()) };
        let root = self.known.file.repository.as_ref().map(|of_run| &of_run.worktree_root);
        if let Some(root) = root.filter(|root| root.starts_with(self.dir.root())) {
            // Deleted by hand, it is not away: what it held is gone.
            disk::make(root).map_err(|source| RunError::Io { path: root.clone(), source })?;
        }
        let mut announced = Vec::new();
        for lane in lanes {
            let Some(request) = sweep_request(&self.known, &self.dir, *lane, policy) else { continue };
            let intent = IntentId::new(self.claim.generation, self.next);
            self.next += 1;
            announced.push((*lane, request, intent));
        }
        let requested = announced.iter().map(|(_, request, intent)| Fact::CleanupRequested {
            lane: request.lane.clone(),
            intent: intent.clone(),
            reason: "gc".into(),
        });
        self.append(requested.collect())?;
        let environment = of_git(&self.settings.environment, &self.known.file.run_id, &self.dir);
        let worktrees = GitWorktrees::new(&environment).fenced(self.fence.clone());
        let sweeper = GitSweeper::new(&environment).fenced(self.fence.clone());
        let mut tidied = Vec::new();
        for (lane, request, intent) in announced {
            let entry = worktrees.tidy(&repository, &lane_request(&self.known.state, lane, &request));
            let outcome = sweep_now(&sweeper, &worktrees, &repository, &request);
            let name = request.lane.clone();
            let fact = performed(name.clone(), intent, outcome);
            if let Fact::CleanupPerformed { cleanup, .. } = &fact {
                tidied.push(told(name.as_str(), cleanup.clone(), entry.map_err(|error| error.to_string())));
            }
            self.append(vec![fact])?;
        }
        Ok(tidied)
    }

    /// Writes how the run stands, where its last leg was killed before it could.
    pub fn finish(&mut self) -> Result<(), RunError> {
        if !self.known.was_killed() {
            return Ok(());
        }
        let status = standing(&self.known.state);
        self.append(vec![Fact::RunFinished { status }])
    }

    /// Gives the run free.
    pub fn release(self) {
        self.claim.release();
    }

    fn append(&mut self, facts: Vec<Fact>) -> Result<(), RunError> {
        self.journal.append(facts, SystemClock.now()).map_err(RunError::from).map(|_| ())
    }
}

/// Claims a run for being put in order.
pub fn claim(dir: &RunDir, id: &RunId, records: &[Record]) -> Result<leg::Claim, NotHeld> {
    leg::claim(dir, id, records, leg::Purpose::Gc).map_err(|error| match error {
        RunError::Held { .. } => NotHeld::Held(error.to_string()),
        // A file system without locks, for one: who can't be asked may live.
        error => NotHeld::Held(format!("whether it lives is not known: {error}")),
    })
}

/// Returns how a run stands whose last leg was killed: as its nodes do, if all are over.
fn standing(state: &RunState) -> RunStatus {
    let is_over = |phase: &NodePhase| matches!(phase, NodePhase::Over(_));
    match state.nodes.iter().all(|node| is_over(&node.phase)) {
        true => state.status(),
        false => RunStatus::Interrupted,
    }
}

fn sweep_request(known: &Known, dir: &RunDir, lane: LaneIx, policy: Option<Policy>) -> Option<SweepRequest> {
    let (graph, state) = (&known.file.graph, &known.state);
    let terms = Terms {
        policy: policy.unwrap_or_else(|| policy_of(graph, lane)),
        ignored_is_needed: policy != Some(Policy::Discard)
            && ignored_is_needed(graph, &as_exits_have_it(known, dir), lane),
        time: SWEEP_TIME,
    };
    request_for(&known.file, dir, state.lane(lane), lane, terms)
}

/// Returns where a run stands once the exits on disk are heeded, as the next leg will: a node that had ended well
/// when both its runner and its supervisor died has passed.
fn as_exits_have_it(known: &Known, dir: &RunDir) -> RunState {
    let mut state = known.state.clone();
    for node in exits_of_their_own(&known.file.graph, dir, &known.state) {
        state.nodes[node.at()].phase = NodePhase::Over(EndState::Passed);
    }
    state
}

fn lane_request(state: &RunState, lane: LaneIx, request: &SweepRequest) -> LaneRequest {
    let record = state.lane(lane);
    let history = LaneHistory {
        branch_made_by_run: record.branch_made,
        kept_by_earlier_leg: record.branch_kept,
        acquire_open: record.acquire_open || matches!(record.phase, LanePhase::Acquiring(_)),
    };
    LaneRequest { history, ..request.lane_request() }
}

/// Returns what would become of the lanes that are due. Nothing is made, claimed or written.
pub fn foresee(settings: &Settings, known: &Known, dir: &RunDir) -> Vec<TidiedLane> {
    let Place::Here(repository) = &known.repository else { return Vec::new() };
    let sweeper = GitSweeper::new(&settings.environment);
    let tell = |lane: &LaneIx| foresee_lane(&sweeper, repository, known, dir, *lane);
    known.due.iter().filter_map(tell).collect()
}

fn foresee_lane(
    sweeper: &GitSweeper,
    repository: &Repository,
    known: &Known,
    dir: &RunDir,
    lane: LaneIx,
) -> Option<TidiedLane> {
    let request = sweep_request(known, dir, lane, None)?;
    let outcome = sweeper.foresee(repository, &request);
    let is_missing = outcome.reason == "folder-missing";
    let kept = outcome.tree == TreeFate::Kept;
    let fact = performed(request.lane.clone(), IntentId::new(crate::ids::Generation(0), 0), outcome);
    let Fact::CleanupPerformed { cleanup, .. } = fact else { return None };
    // What is said of a tree that is gone is not so yet; what of it would be saved shows once it is.
    let mut told_now = Cleanup { note: cleanup.note.clone().filter(|_| kept), ..cleanup };
    told_now.channels.clear();
    let entry = if is_missing { Tidied::Dropped } else { Tidied::AsItWas };
    Some(told(request.lane.as_str(), told_now, Ok(entry)))
}

fn told(lane: &str, cleanup: Cleanup, entry: Result<Tidied, String>) -> TidiedLane {
    let mut saved: Vec<String> = cleanup
        .channels
        .values()
        .filter_map(|value| value.strip_prefix("saved: "))
        .map(str::to_string)
        .collect();
    saved.sort();
    saved.dedup();
    let (entry_dropped, entry_kept) = match entry {
        Ok(Tidied::AsItWas) => (false, None),
        Ok(Tidied::Dropped) => (true, None),
        Ok(Tidied::Left(why)) | Err(why) => (false, Some(why)),
    };
    TidiedLane {
        name: lane.to_string(),
        tree: cleanup.tree,
        branch: cleanup.branch,
        reason: cleanup.reason,
        note: cleanup.note,
        saved,
        entry_dropped,
        entry_kept,
    }
}
