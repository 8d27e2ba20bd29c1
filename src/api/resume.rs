//! `omg resume`: the next leg of a run.
#![expect(clippy::disallowed_methods, reason = "looks whether the graph file has changed")]

use std::rc::Rc;

use super::Refusal;
use super::find::Found;
use super::leg::{Claimed, Ended, LegOptions, Link, exit_code, find_again, readiness, run_leg};
use crate::ids::sha256;
use crate::journal::replay::replay;
use crate::journal::store;
use crate::run::{Observer, RunError, leg};
use crate::schedule::fact::{EndState, RunStatus, StopReason};
use crate::schedule::state::{Names, NodePhase, RunState};
use crate::settings::Settings;
use crate::worktree::GitWorktrees;

/// What `omg resume` came to.
#[derive(Debug)]
pub enum Resumed {
    /// A leg was run.
    Leg(Ended),
    /// A supervisor that outlives this process goes on with it; its first runner's process.
    Detached(u32),
    /// There was nothing to run; the run's own code, and what would open something again.
    NothingToDo {
        /// The code to end with.
        exit: i32,
        /// What to say.
        message: String,
    },
}

/// Runs the next leg of a run to its end. `notes` is told what a person should know first.
///
/// What a dead leg left running is ended before anything else.
pub fn resume(
    settings: &Settings,
    found: Found,
    options: &LegOptions,
    is_detached: bool,
    observer: Rc<dyn Observer>,
) -> Result<Resumed, Refusal> {
    let Found { file, dir } = found;
    let before = store::read(&dir.events()).map_err(RunError::from)?;
    let claim = leg::claim(&dir, &file.run_id, &before, leg::Purpose::Leg)?;
    for ended in leg::end_leftovers(&dir, Some(&file.graph))? {
        observer.warn(&format!("ended what an earlier leg left running: {ended}"));
    }
    // Read again under the claim: the last leg may have written until it was gone.
    let records = store::read(&dir.events()).map_err(RunError::from)?;
    let names = Names::of(&file.graph);
    let state = replay(&file.graph, &names, &records)
        .map_err(|(seq, error)| RunError::Unfit { seq, reason: error.to_string() })?;
    if !has_work(&state, options) {
        let stop = stop_of(&state);
        return Ok(Resumed::NothingToDo {
            exit: exit_code(state.finished.unwrap_or_else(|| state.status()), stop),
            message: nothing_to_do(&file.run_id, &state),
        });
    }
    if let Ok(bytes) = std::fs::read(&file.graph_path)
        && sha256(&bytes) != file.graph_sha256
    {
        observer.warn(&format!(
            "{} has changed since the run began; the run goes on with the graph it began with",
            file.graph_path.display()
        ));
    }
    let mut repository = None;
    let mut lanes_that_fit = 0;
    if let Some(of_run) = &file.repository {
        let worktrees = GitWorktrees::new(&settings.environment);
        let found = find_again(&worktrees, of_run)?;
        let mut opened = state.clone();
        open(&mut opened, options);
        let ready = readiness(&worktrees, &found, &file, &opened)?;
        for note in ready.notes {
            observer.warn(&note);
        }
        lanes_that_fit = ready.lanes_that_fit;
        repository = Some(found);
    }
    if is_detached {
        let lock = claim.share().map_err(|source| RunError::Io { path: dir.lock(), source })?;
        let pid = super::detach::detach(settings, &dir, &file.run_id, lock, options, super::detach::STARTED)?;
        return Ok(Resumed::Detached(pid));
    }
    let claimed = Claimed { file, dir, claim, repository, lanes_that_fit, link: Link::Own };
    run_leg(settings, claimed, options, observer).map(Resumed::Leg)
}

fn stop_of(state: &RunState) -> Option<StopReason> {
    match state.finished {
        Some(RunStatus::Interrupted | RunStatus::Cancelled) => state.stop,
        _ => None,
    }
}

/// Returns whether a leg with these options would find anything to do: a node to run, or the end of a
/// leg that was killed before it had cleaned up.
fn has_work(state: &RunState, options: &LegOptions) -> bool {
    state.finished.is_none()
        || state.nodes.iter().any(|node| match &node.phase {
            NodePhase::Waiting | NodePhase::InFlight(_) => true,
            NodePhase::Over(EndState::Cancelled | EndState::Interrupted) => true,
            NodePhase::Over(EndState::Failed) => options.retry_failed,
            NodePhase::Over(EndState::Blocked) => options.retry_blocked,
            // Behind something that is blocked, so it waits on unless that is opened again.
            NodePhase::Over(EndState::Waiting | EndState::Skipped | EndState::Passed) => false,
        })
}

/// Opens what the leg will open, so that readiness is judged for what will run.
pub(super) fn open(state: &mut RunState, options: &LegOptions) {
    for node in &mut state.nodes {
        let opened = match &node.phase {
            NodePhase::Waiting | NodePhase::InFlight(_) => true,
            NodePhase::Over(end) => match end {
                EndState::Passed => false,
                EndState::Failed => options.retry_failed,
                EndState::Blocked => options.retry_blocked,
                EndState::Skipped => options.retry_failed || options.retry_blocked,
                EndState::Waiting | EndState::Cancelled | EndState::Interrupted => true,
            },
        };
        if opened {
            node.phase = NodePhase::Waiting;
        }
    }
}

fn nothing_to_do(run: &crate::ids::RunId, state: &RunState) -> String {
    let count = |end| state.nodes.iter().filter(|node| node.phase == NodePhase::Over(end)).count();
    let (failed, blocked) = (count(EndState::Failed), count(EndState::Blocked));
    let mut message = format!("nothing to do in run {run}");
    if failed > 0 {
        message.push_str(&format!("; {failed} failed: `omg resume {run} --retry-failed` opens them again"));
    }
    if blocked > 0 {
        message
            .push_str(&format!("; {blocked} blocked: `omg resume {run} --retry-blocked` opens them again"));
    }
    message
}
