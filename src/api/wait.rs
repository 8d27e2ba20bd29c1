//! `--wait`: a run that a provider's limit paused goes on by itself once that is over.
#![expect(clippy::disallowed_methods, reason = "sleeps until a limit is over")]

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::Refusal;
use super::find::Found;
use super::gates;
use super::leg::{GateChoice, now};
use crate::journal::replay::replay;
use crate::journal::store;
use crate::run::{RunError, leg};
use crate::schedule::fact::EndState;
use crate::schedule::state::{Limited, Names, NodePhase};

/// How long a limit is waited for that does not say when it is over.
const UNKNOWN: SignedDuration = SignedDuration::from_mins(15);

/// Waited beyond what a provider says: clocks differ.
const MARGIN: SignedDuration = SignedDuration::from_secs(5);

/// Longest sleep between two looks at the clock: it can be set, and the machine suspended.
const NAP: Duration = Duration::from_secs(30);

/// Returns the limit that a run is paused for, and nothing else: with a gate in its way too of which nobody has said
/// anything, now or before, it waits for a person.
pub fn limit(found: &Found, gates: &[GateChoice]) -> Result<Option<Limited>, Refusal> {
    let Found { file, dir } = found;
    let records = store::read(&dir.events()).map_err(RunError::from)?;
    let state = replay(&file.graph, &Names::of(&file.graph), &records)
        .map_err(|(seq, error)| RunError::Unfit { seq, reason: error.to_string() })?;
    let graph = &file.graph;
    let at_gate = graph
        .node_ixs()
        .filter(|ix| graph.is_gate(*ix) && state.node(*ix).phase == NodePhase::Over(EndState::Paused))
        .any(|ix| !gates::is_decided(graph, &state, ix, gates));
    Ok(state.limited.filter(|_| !at_gate))
}

/// Returns when a run that is paused for `limited` goes on.
pub fn until(limited: &Limited, now: Timestamp) -> Timestamp {
    let over = match limited.resets_at {
        Some(at) => at.saturating_add(MARGIN),
        None => now.saturating_add(UNKNOWN),
    };
    over.unwrap_or(now).max(now.saturating_add(MARGIN).unwrap_or(now))
}

/// Sleeps until a moment of the system's clock, and holds the run meanwhile: nobody else begins a leg of it, and
/// `omg cancel` ends the wait. A signal ends the program as any other would; the run stays paused.
///
/// Errors: somebody else holds the run.
pub fn sleep_until(found: &Found, at: Timestamp) -> Result<(), Refusal> {
    let records = store::read(&found.dir.events()).map_err(RunError::from)?;
    let claim = leg::claim(&found.dir, &found.file.run_id, &records, leg::Purpose::Wait)?;
    loop {
        let left = at.duration_since(now());
        if left <= SignedDuration::ZERO {
            claim.release();
            return Ok(());
        }
        std::thread::sleep(NAP.min(left.unsigned_abs()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_waited_for_until_it_says_that_it_is_over() {
        let now: Timestamp = "2026-03-01T10:00:00Z".parse().unwrap();
        let limited = |resets_at: Option<&str>| Limited {
            runtime: "claude".into(),
            detail: String::new(),
            resets_at: resets_at.map(|at| at.parse().unwrap()),
        };
        for (resets_at, expected) in [
            (Some("2026-03-01T15:00:00Z"), "2026-03-01T15:00:05Z"),
            (Some("2026-03-01T09:00:00Z"), "2026-03-01T10:00:05Z"),
            (None, "2026-03-01T10:15:00Z"),
        ] {
            assert_eq!(until(&limited(resets_at), now), expected.parse().unwrap(), "{resets_at:?}");
        }
    }
}
