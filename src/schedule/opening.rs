//! The beginning of a leg: what a dead one left open is closed, and what may run is counted.

use super::event::LegStart;
use super::fact::{EndState, Fact};
use super::fault::{Fault, FaultClass, judge_exit};
use super::ready::lanes_needed;
use super::resolver::{Next, resolve};
use super::state::{Edge, Flight, IllegalFact, LanePhase, edge};
use super::step::{IllegalEvent, Turn};
use crate::graph::model::ProvisionWhen;
use crate::ids::{LaneIx, NodeIx};

impl Turn<'_> {
    pub(super) fn leg_started(&mut self, start: &LegStart) -> Result<(), IllegalEvent> {
        let open: Vec<(NodeIx, Flight)> = self
            .graph
            .node_ixs()
            .filter_map(|ix| self.flight(ix).map(|flight| (ix, flight.clone())))
            .collect();
        let open_lanes: Vec<(LaneIx, LanePhase)> =
            self.graph.lane_ixs().map(|ix| (ix, self.state.lane(ix).phase.clone())).collect();
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
        for (ix, phase) in open_lanes {
            self.settle_lane(ix, &phase)?;
        }
        for (ix, flight) in open {
            self.settle_node(ix, &flight, start)?;
        }
        self.count_dependencies();
        self.propagate(self.graph.node_ixs().collect())?;
        let needed = lanes_needed(self.graph, self.state);
        for (lane, failure) in start.unfit.iter().filter(|(lane, _)| needed.contains(lane)) {
            self.give_up(*lane, "preflight", failure)?;
        }
        if start.provision_when == ProvisionWhen::RunStart {
            let needed = lanes_needed(self.graph, self.state);
            let mut early: Vec<LaneIx> = needed.into_iter().take(start.lanes_that_fit).collect();
            // The longest first, or all wait for it in the end; what is not known comes before that.
            let took = |lane: &LaneIx| start.learned.iter().find(|(of, _)| of == lane).map(|(_, ms)| *ms);
            early.sort_by_key(|lane| std::cmp::Reverse(took(lane).unwrap_or(u64::MAX)));
            self.state.live.early = early;
        }
        Ok(())
    }

    /// Closes a lane's act that a killed leg left open. What it made is looked at by the next acquire.
    pub(super) fn settle_lane(&mut self, ix: LaneIx, phase: &LanePhase) -> Result<(), IllegalFact> {
        let lane = self.graph.lane(ix).name.clone();
        let fault = Fault::new(FaultClass::Interrupted, "its leg ended before it did");
        match phase {
            LanePhase::Acquiring(intent) => {
                self.note(Fact::AcquireFailed { lane, intent: intent.clone(), fault })?;
            }
            LanePhase::Overlaying(intent) => self.note_overlay_failed(ix, intent, fault)?,
            LanePhase::Provisioning(intent) => {
                self.note(Fact::ProvisionFailed {
                    lane,
                    intent: intent.clone(),
                    nodes: Vec::new(),
                    cmd: None,
                    exit_code: None,
                    cause: "killed".into(),
                    log_tail: String::new(),
                    again: true,
                    fault,
                })?;
            }
            LanePhase::Pending | LanePhase::Bare | LanePhase::Ready | LanePhase::Broken(_) => return Ok(()),
        }
        Ok(())
    }

    /// Closes a node's act that a killed leg left open: by its exit where that is on disk and was
    /// the process's own, else it runs again.
    pub(super) fn settle_node(
        &mut self,
        ix: NodeIx,
        flight: &Flight,
        start: &LegStart,
    ) -> Result<(), IllegalFact> {
        let found = start.exits.iter().find(|(intent, _)| *intent == flight.intent).map(|(_, exit)| exit);
        let node = self.graph.node(ix);
        let judged = found.filter(|exit| !exit.ended_by_us && flight.ending.is_none());
        let (exit, fault) = match judged {
            // Its checks were not all made, so it has not passed.
            Some(exit) if node.check.verify.is_some() => {
                (exit.clone(), Some(Fault::new(FaultClass::Interrupted, "its leg ended before its `verify`")))
            }
            Some(exit) => (exit.clone(), judge_exit(exit, node.check.exit_zero, false)),
            None => (
                found.cloned().unwrap_or_default(),
                Some(Fault::new(FaultClass::Interrupted, "its leg ended before it did")),
            ),
        };
        let next = fault.as_ref().map(|fault| resolve(fault, &node.retry, self.state.node(ix).spent));
        self.note(Fact::AttemptFinished {
            node: node.id.clone(),
            attempt: flight.attempt,
            intent: flight.intent.clone(),
            fault: fault.clone(),
            next,
            exit_code: exit.code,
            signal: exit.signal,
            leftovers: Vec::new(),
            delivered: flight.delivered || found.is_some_and(|exit| exit.not_started.is_none()),
        })?;
        // A pause of before is over by now.
        self.state.live.parked.remove(&ix);
        match (fault, next) {
            (None, _) => self.finish(ix, EndState::Passed, None)?,
            (Some(fault), Some(Next::Fail)) => self.finish(ix, EndState::Failed, Some(fault))?,
            (Some(fault), Some(Next::Block)) => self.finish(ix, EndState::Blocked, Some(fault))?,
            (Some(_), Some(Next::Retry(_) | Next::Redispatch(_) | Next::NextLeg) | None) => {}
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
