//! `omg lanes discard`: removes a lane that a run kept, after rescuing what is in it.

use std::sync::Arc;

use super::find::Found;
use super::leg::mask;
use super::ready::{find_again, lanes_in_reach};
use super::{Refusal, exit};
use crate::cleanup::{GitSweeper, Policy, Sweeper};
use crate::ids::{IntentId, Leg};
use crate::journal::replay::replay;
use crate::journal::store::{self, Journal};
use crate::run::environment::of_git;
use crate::run::seams::{Clock, SystemClock};
use crate::run::sweep::{SWEEP_TIME, Terms, performed, request_for};
use crate::run::{RunError, leg};
use crate::schedule::Fact;
use crate::schedule::fact::Cleanup;
use crate::schedule::settling::closed_by_a_claim;
use crate::schedule::state::Names;
use crate::settings::Settings;
use crate::worktree::{GitWorktrees, Worktrees};

/// Discards one lane of a run and returns what was done. Its content is rescued first.
///
/// Errors: no such lane, the run is held by a living process, or its files can't be used.
pub fn discard(settings: &Settings, found: Found, lane: &str) -> Result<Cleanup, Refusal> {
    let Found { file, dir } = found;
    let graph = &file.graph;
    let Some(ix) = graph.lane_ixs().find(|ix| graph.lane(*ix).name.as_str() == lane) else {
        let names: Vec<&str> = graph.lanes().iter().map(|lane| lane.name.as_str()).collect();
        let hint = match names.as_slice() {
            [] => "it has none".to_string(),
            names => format!("it has {}", names.join(", ")),
        };
        return Err(Refusal::new(
            exit::USAGE,
            format!("run `{}` has no lane `{lane}`", file.run_id),
            Some(hint),
        ));
    };
    let Some(of_run) = &file.repository else {
        return Err(Refusal::usage(format!("run `{}` has no repository", file.run_id)));
    };
    let before = store::read(&dir.events()).map_err(RunError::from)?;
    let claim = leg::claim(&dir, &file.run_id, &before, leg::Purpose::Discard)?;
    for ended in leg::end_leftovers(&dir, Some(graph))? {
        tracing::warn!(%ended, "ended what an earlier leg left running");
    }
    let generation = claim.generation;
    let fence = claim.fence(&dir)?;
    // It is no leg of its own: it runs nothing.
    let (mut journal, records) = Journal::open(
        &dir.events(),
        |records| (leg::last_leg(records).max(Leg(1)), generation),
        mask(settings, &file),
        fence.clone(),
    )
    .map_err(RunError::from)?;
    let state = replay(graph, &Names::of(graph), &records)
        .map_err(|(seq, error)| RunError::Unfit { seq, reason: error.to_string() })?;
    let record = state.lane(ix);
    let environment = of_git(&settings.environment, &file.run_id, &dir);
    let worktrees: Arc<dyn Worktrees> = Arc::new(GitWorktrees::new(&environment));
    let repository = find_again(&*worktrees, of_run)?;
    lanes_in_reach(&file, &dir, &state)?;
    let name = graph.lane(ix).name.clone();
    let terms = Terms { policy: Policy::Discard, ignored_is_needed: false, time: SWEEP_TIME };
    let request = request_for(&file, &dir, record, ix, terms)
        .ok_or_else(|| Refusal::new(exit::BUG, "a run with lanes has no repository", None))?;
    let intent = IntentId::new(generation, 1);
    let clock = SystemClock;
    let requested =
        Fact::CleanupRequested { lane: name.clone(), intent: intent.clone(), reason: "discard".into() };
    let mut facts = closed_by_a_claim(graph, &state);
    facts.push(requested);
    journal.append(facts, clock.now()).map_err(RunError::from)?;
    let outcome = GitSweeper::new(&environment).fenced(fence).sweep(&repository, &request);
    let fact = performed(name, intent, outcome);
    journal.append(vec![fact.clone()], clock.now()).map_err(RunError::from)?;
    claim.release();
    match fact {
        Fact::CleanupPerformed { cleanup, .. } => Ok(cleanup),
        _ => Err(Refusal::new(exit::BUG, "a cleanup came to something else", None)),
    }
}
