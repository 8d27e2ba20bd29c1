//! How long agents have been silent, and how long the ones before them were. What follows is the scheduler's to say.
#![expect(clippy::disallowed_methods, reason = "asks how much attempts have written")]

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use tokio::time::Instant;

use super::RunDir;
use crate::graph::Graph;
use crate::ids::IntentId;
use crate::schedule::Event;
use crate::schedule::state::{Flight, NodePhase, RunState};

/// Most silences that are remembered of a runtime: the longest.
const SEEN_MAX: usize = 32;

/// An attempt that is watched.
struct Watched {
    runtime: String,
    written: u64,
    since: Instant,
    /// How long suspensions had taken by then.
    away: Duration,
    longest: Duration,
}

/// The silences of the agents of a leg.
#[derive(Default)]
pub struct Silences {
    watched: BTreeMap<IntentId, Watched>,
    seen: BTreeMap<String, Vec<Duration>>,
}

impl Silences {
    /// Looks at every agent in flight. Returns how long each has been silent; `away` is how long suspensions took so
    /// far, which does not count.
    pub fn look(&mut self, graph: &Graph, state: &RunState, dir: &RunDir, away: Duration) -> Vec<Event> {
        let in_flight = graph.node_ixs().filter(|ix| graph.agent(*ix).is_some()).filter_map(|ix| {
            match &state.node(ix).phase {
                // One whose process is over waits for its checks.
                NodePhase::InFlight(flight) if state.live.exits.contains_key(&flight.intent) => None,
                NodePhase::InFlight(flight) if flight.delivered => Some((ix, flight)),
                NodePhase::InFlight(_) | NodePhase::Waiting | NodePhase::Over(_) => None,
            }
        });
        let mut events = Vec::new();
        for (ix, flight) in in_flight {
            let log = dir.attempt_log(&graph.node(ix).id, flight.attempt);
            let written = fs::metadata(log).map_or(0, |found| found.len());
            let watched =
                self.watched.entry(flight.intent.clone()).or_insert_with(|| begin(flight, written, away));
            let lasted = watched.since.elapsed().saturating_sub(away.saturating_sub(watched.away));
            if written == watched.written {
                let seen = self.seen.get(&watched.runtime).cloned().unwrap_or_default();
                events.push(Event::Silent { intent: flight.intent.clone(), lasted, seen });
            } else {
                let longest = watched.longest.max(lasted);
                *watched = Watched { longest, ..begin(flight, written, away) };
            }
        }
        events
    }

    /// Takes note of attempts that gave a reply: how long they were silent says what is usual.
    pub fn learn(&mut self, events: &[Event], away: Duration) {
        for event in events {
            let Event::Exited { intent, exit, .. } = event else { continue };
            let Some(watched) = self.watched.remove(intent) else { continue };
            let has_replied =
                exit.told.as_ref().is_some_and(|told| told.reply == crate::runtime::ReplySeen::Good);
            if has_replied {
                let lasted = watched.since.elapsed().saturating_sub(away.saturating_sub(watched.away));
                let seen = self.seen.entry(watched.runtime).or_default();
                seen.push(watched.longest.max(lasted));
                seen.sort_by(|a, b| b.cmp(a));
                seen.truncate(SEEN_MAX);
            }
        }
    }
}

fn begin(flight: &Flight, written: u64, away: Duration) -> Watched {
    Watched {
        runtime: flight.runtime.clone().unwrap_or_default(),
        written,
        since: Instant::now(),
        away,
        longest: Duration::ZERO,
    }
}
