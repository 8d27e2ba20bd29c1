//! The beginning of a leg: what a dead one left open is closed, and what may run is counted.

use super::event::LegStart;
use super::fact::Fact;
use super::ready::lanes_needed;
use super::settling::{OpenAct, ProcessSeen, Seen};
use super::state::{Edge, edge};
use super::step::{IllegalEvent, Turn};
use crate::graph::model::ProvisionWhen;
use crate::ids::{IntentId, LaneIx};

impl Turn<'_> {
    pub(super) fn leg_started(&mut self, start: &LegStart) -> Result<(), IllegalEvent> {
        let mut open: Vec<(IntentId, OpenAct)> = self.state.open.iter().cloned().collect();
        (self.state.leg, self.state.generation) = (start.leg, start.generation);
        self.note(Fact::RunStarted {
            format: start.format,
            concurrency: start.concurrency,
            on_fail: start.on_fail,
            provision_when: start.provision_when,
            retry_failed: start.retry_failed,
            retry_blocked: start.retry_blocked,
            pid: start.pid,
            build: start.build.clone(),
        })?;
        self.decide_gates(&start.gates)?;
        let seen = |intent: &IntentId, act: OpenAct| {
            start.seen.iter().find(|(of, what, _)| of == intent && *what == act).map(|(_, _, seen)| seen)
        };
        // What lives comes last: it takes its place in a lane that the others have left.
        let lives = |seen: Option<&Seen>| matches!(seen, Some(Seen::Process(ProcessSeen::Living { .. })));
        open.sort_by_key(|(intent, act)| (lives(seen(intent, *act)), *act));
        for (intent, act) in open {
            self.settle(&intent, act, seen(&intent, act))?;
        }
        self.count_dependencies();
        self.propagate(self.graph.node_ixs().collect())?;
        let needed = lanes_needed(self.graph, self.state);
        for (lane, failure) in start.unfit.iter().filter(|(lane, _)| needed.contains(lane)) {
            self.give_up(*lane, "preflight", failure)?;
        }
        if start.lanes_that_fit < lanes_needed(self.graph, self.state).len() {
            self.state.live.fit = Some(start.lanes_that_fit);
        }
        if start.provision_when == ProvisionWhen::RunStart {
            let needed = lanes_needed(self.graph, self.state);
            // One that a node lives in is in use.
            let is_free = |lane: &LaneIx| self.state.lane(*lane).users() == 0;
            let mut early: Vec<LaneIx> =
                needed.into_iter().filter(is_free).take(start.lanes_that_fit).collect();
            // The longest first, or all wait for it in the end; what is not known comes before that.
            let took = |lane: &LaneIx| start.learned.iter().find(|(of, _)| of == lane).map(|(_, ms)| *ms);
            early.sort_by_key(|lane| std::cmp::Reverse(took(lane).unwrap_or(u64::MAX)));
            self.state.live.early = early;
        }
        Ok(())
    }

    pub(super) fn count_dependencies(&mut self) {
        let unmet = self
            .graph
            .node_ixs()
            .map(|ix| {
                let edges = &self.graph.node(ix).depends_on;
                edges
                    .iter()
                    .filter(|dependency| {
                        edge(self.graph, self.state, dependency.node, dependency.on) != Edge::Met
                    })
                    .count() as u32
            })
            .collect();
        self.state.live.unmet = unmet;
    }
}
