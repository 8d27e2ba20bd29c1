//! Lanes on their way to being fit to work in, and what becomes of their nodes where they do not.

use super::action::Action;
use super::event::ProvisionFailure;
use super::fact::{EndState, Fact};
use super::fault::{Fault, FaultClass};
use super::overlaying::needs_overlay;
use super::ready::nodes_needed;
use super::state::{Act, IllegalFact, LanePhase, NodePhase};
use super::step::{IllegalEvent, Turn};
use crate::graph::model::ProvisionRetry;
use crate::ids::{IntentId, LaneIx, NodeIx};

impl Turn<'_> {
    pub(super) fn not_provisioned(
        &mut self,
        intent: &IntentId,
        failure: &ProvisionFailure,
    ) -> Result<(), IllegalEvent> {
        let Some(act) = self.act("NotProvisioned", intent)? else { return Ok(()) };
        let (Act::Provision(ix) | Act::ProvisionFor(ix, _)) = act else {
            return Err(IllegalEvent::NoSuchAct { what: "NotProvisioned", intent: intent.clone() });
        };
        let stopped = failure.ended_by_us && (self.state.stop.is_some() || self.state.halted);
        let again = !stopped
            && self.state.lane(ix).failures == 0
            && match self.graph.provision(ix).retry {
                ProvisionRetry::Always => true,
                ProvisionRetry::Transient => failure.may_differ,
                ProvisionRetry::Never => false,
            };
        let fault = if stopped {
            Fault::new(FaultClass::Interrupted, "the leg ended before it did")
        } else if failure.cause == "disk-full" {
            Fault::new(FaultClass::WorkspaceProvisionFailed, failure.detail.clone()).with_cause("disk-full")
        } else {
            Fault::new(FaultClass::WorkspaceProvisionFailed, failure.detail.clone())
                .with_cause(failure.cause.clone())
        };
        let nodes = nodes_needed(self.graph, self.state)
            .into_iter()
            .filter(|node| self.graph.node(*node).lane == Some(ix))
            .map(|node| self.graph.node(node).id.clone())
            .collect();
        self.note(Fact::ProvisionFailed {
            lane: self.graph.lane(ix).name.clone(),
            intent: intent.clone(),
            nodes,
            cmd: failure.cmd.clone(),
            exit_code: failure.exit_code,
            cause: failure.cause.clone(),
            log_tail: failure.log_tail.clone(),
            again: again || stopped,
            fault: fault.clone(),
        })?;
        match act {
            Act::ProvisionFor(_, node) if again => self.provision(ix, Some(node), "retry")?,
            Act::ProvisionFor(_, node) => {
                if let Some(flight) = self.flight(node).cloned() {
                    let exit = self.state.live.exits.get(&flight.intent).cloned().unwrap_or_default();
                    self.attempt_finished(node, &flight.intent, &exit, Some(fault.clone()), Vec::new())?;
                }
                if !stopped {
                    self.block_lane(ix, &fault)?;
                }
            }
            _ if !again && !stopped => self.block_lane(ix, &fault)?,
            _ => {}
        }
        Ok(())
    }

    pub(super) fn lane_stale(&mut self, intent: &IntentId, reason: &str) -> Result<(), IllegalEvent> {
        let Some(act) = self.act("LaneStale", intent)? else { return Ok(()) };
        let (Act::Node(ix), Some(lane)) = (act, self.lane_ix_of(act)) else {
            return Err(IllegalEvent::NoSuchAct { what: "LaneStale", intent: intent.clone() });
        };
        let name = self.graph.lane(lane).name.clone();
        let id = self.graph.node(ix).id.clone();
        let before_verify = self.state.live.exits.contains_key(intent);
        if !before_verify {
            self.note(Fact::DispatchFailed { node: id, intent: intent.clone(), reason: reason.to_string() })?;
            if self.state.lane(lane).phase == LanePhase::Ready {
                self.note(Fact::ProvisionStale { lane: name, reason: reason.to_string() })?;
            }
        } else if self.state.lane(lane).writer == Some(ix) {
            self.note(Fact::ProvisionStale { lane: name, reason: reason.to_string() })?;
            self.provision(lane, Some(ix), "stale")?;
        } else {
            // A reader may share its lane, so nothing can be installed under it; it comes again.
            let fault = Fault::new(FaultClass::Unknown, format!("its lane changed under it: {reason}"));
            let exit = self.state.live.exits.get(intent).cloned().unwrap_or_default();
            self.attempt_finished(ix, intent, &exit, Some(fault), Vec::new())?;
            if self.state.lane(lane).phase == LanePhase::Ready {
                self.note(Fact::ProvisionStale { lane: name, reason: reason.to_string() })?;
            }
        }
        Ok(())
    }

    pub(super) fn lane_ix_of(&self, act: Act) -> Option<LaneIx> {
        match act {
            Act::Node(ix) => self.graph.node(ix).lane,
            Act::Acquire(lane) | Act::Overlay(lane) | Act::Provision(lane) | Act::ProvisionFor(lane, _) => {
                Some(lane)
            }
        }
    }

    /// Blocks the nodes of a lane that can't be used: those that this leg would have run. The rest
    /// meet it when they are due.
    pub(super) fn block_lane(&mut self, lane: LaneIx, fault: &Fault) -> Result<(), IllegalFact> {
        for ix in nodes_needed(self.graph, self.state) {
            if self.graph.node(ix).lane == Some(lane) && self.state.node(ix).phase == NodePhase::Waiting {
                self.finish(ix, EndState::Blocked, Some(fault.clone()))?;
            }
        }
        Ok(())
    }

    pub(super) fn acquire(&mut self, lane: LaneIx) -> Result<(), IllegalFact> {
        let intent = self.mint();
        // What a passed node committed is on the branch, so the branch stays; else it begins anew.
        let passed = self.graph.node_ixs().any(|ix| {
            self.graph.node(ix).lane == Some(lane) && self.state.end_of(ix) == Some(EndState::Passed)
        });
        let fresh = self.state.lane(lane).fresh.then_some(!passed);
        self.note(Fact::AcquireRequested {
            lane: self.graph.lane(lane).name.clone(),
            intent: intent.clone(),
            reason: if fresh.is_some() { "fresh" } else { "needed" }.to_string(),
        })?;
        self.decision.actions.push(Action::Acquire { intent, lane, fresh });
        Ok(())
    }

    pub(super) fn provision(
        &mut self,
        lane: LaneIx,
        inside: Option<NodeIx>,
        reason: &str,
    ) -> Result<(), IllegalFact> {
        debug_assert!(inside.is_none() || self.state.lane(lane).writer == inside);
        let intent = self.mint();
        let number = self.state.lane(lane).tries + 1;
        self.note(Fact::ProvisionRequested {
            lane: self.graph.lane(lane).name.clone(),
            intent: intent.clone(),
            reason: reason.to_string(),
            r#try: number,
        })?;
        self.decision.actions.push(Action::Provision { intent, lane, number });
        Ok(())
    }

    /// Returns whether one more provisioning may begin beside those in progress.
    pub(super) fn provisioning_has_room(&self, lane: LaneIx) -> bool {
        let running = self.state.live.acts.values().filter(|act| matches!(act, Act::Provision(_))).count();
        self.graph.provision(lane).max_parallel.is_none_or(|most| running < most.get() as usize)
    }

    /// Prepares the lanes that come before the first node. Returns whether all are done with.
    pub(super) fn prepare_early(&mut self) -> Result<bool, IllegalFact> {
        let early: Vec<LaneIx> = self.state.live.early.iter().copied().collect();
        for lane in early {
            let needed = !matches!(self.state.lane(lane).phase, LanePhase::Ready | LanePhase::Broken(_));
            if !needed {
                self.state.live.early.remove(&lane);
                continue;
            }
            if self.state.slots_held() >= self.state.slots {
                continue;
            }
            match self.state.lane(lane).phase {
                LanePhase::Pending => self.acquire(lane)?,
                LanePhase::Bare if needs_overlay(self.graph, self.state, lane) => self.overlay(lane)?,
                LanePhase::Bare if self.provisioning_has_room(lane) => {
                    let reason = if self.state.lane(lane).failures > 0 { "retry" } else { "first" };
                    self.provision(lane, None, reason)?;
                }
                LanePhase::Bare
                | LanePhase::Acquiring(_)
                | LanePhase::Overlaying(_)
                | LanePhase::Provisioning(_)
                | LanePhase::Ready
                | LanePhase::Broken(_) => {}
            }
        }
        Ok(self.state.live.early.is_empty())
    }

    /// Asks for the end of acts in progress.
    pub(super) fn end_acts(&mut self, which: impl Fn(&Act) -> bool) {
        for (intent, act) in &self.state.live.acts {
            if which(act) {
                self.decision.actions.push(Action::End { intent: intent.clone(), now: false });
            }
        }
    }
}
