//! Lanes on their way to being fit to work in, and what becomes of their nodes where they do not.

use std::collections::BTreeSet;

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

/// How often a lane is provisioned anew before anything is done in it.
const RENEWALS_MAX: u32 = 3;

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
        let of_node = match act {
            Act::ProvisionFor(_, node) => Some(node),
            Act::Acquire(_) | Act::Overlay(_) | Act::Provision(_) | Act::Node(_) => None,
        };
        let stopped = failure.ended_by_us && (self.state.stop.is_some() || self.state.halted);
        let own =
            !stopped && failure.edited && of_node.is_some_and(|node| self.waiting_in(ix, node).len() == 1);
        // A node whose earlier attempt left them at odds is to mend that; nobody else may begin there.
        let mender = self.mender_of(ix).filter(|_| !stopped && failure.edited && of_node.is_none());
        let to_mend = mender.is_some() && failure.kept;
        let halted = of_node.is_some_and(|node| self.state.halted && !self.exempt(node));
        let again = !stopped && !own && !to_mend && !halted && self.may_try_again(ix, failure);
        let fault = if stopped {
            Fault::new(FaultClass::Interrupted, "the leg ended before it did")
        } else if own || to_mend {
            let detail = format!("it left manifest and lockfile at odds: {}", failure.detail);
            Fault::new(FaultClass::LockfileOutOfSync, detail)
        } else {
            let since =
                if failure.edited { "; nodes changed manifest or lockfile since the base" } else { "" };
            Fault::new(FaultClass::WorkspaceProvisionFailed, format!("{}{since}", failure.detail))
                .with_cause(failure.cause.clone())
        };
        self.note_provision_failed(ix, intent, failure, again || stopped, &fault)?;
        match of_node {
            Some(node) if again => self.provision(ix, Some(node), "retry")?,
            Some(node) => {
                self.not_renewed(ix, node, &fault)?;
                if !stopped && !own {
                    self.block_lane(ix, &fault)?;
                }
            }
            None if again || stopped || to_mend => {}
            None => {
                // With what was installed before gone too, there is nothing that it could mend them in.
                if let Some(node) = mender {
                    let detail = format!("it left manifest and lockfile at odds: {}", failure.detail);
                    let own = Fault::new(FaultClass::LockfileOutOfSync, detail);
                    self.finish(node, EndState::Failed, Some(own))?;
                }
                self.block_lane(ix, &fault)?;
            }
        }
        Ok(())
    }

    /// Returns whether a failed try is repeated, once.
    fn may_try_again(&self, lane: LaneIx, failure: &ProvisionFailure) -> bool {
        self.state.lane(lane).failures == 0
            && match self.graph.provision(lane).retry {
                ProvisionRetry::Always => true,
                ProvisionRetry::Transient => failure.may_differ,
                ProvisionRetry::Never => false,
            }
    }

    /// Returns the node that left manifest and lockfile of a lane at odds, where it will run again.
    fn mender_of(&self, lane: LaneIx) -> Option<NodeIx> {
        let record = self.state.lane(lane);
        let node = record.out_of_sync.or(record.last_writer)?;
        (self.state.node(node).phase == NodePhase::Waiting
            && nodes_needed(self.graph, self.state).contains(&node))
        .then_some(node)
    }

    fn note_provision_failed(
        &mut self,
        ix: LaneIx,
        intent: &IntentId,
        failure: &ProvisionFailure,
        again: bool,
        fault: &Fault,
    ) -> Result<(), IllegalFact> {
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
            again,
            fault: fault.clone(),
        })
    }

    /// Ends what waited in a lane for its installation to be renewed, which failed or came to no end. One without
    /// a `verify` was done: it passes, unless the fault is its own.
    fn not_renewed(&mut self, lane: LaneIx, node: NodeIx, fault: &Fault) -> Result<(), IllegalFact> {
        for ix in self.waiting_in(lane, node) {
            let Some(flight) = self.flight(ix).cloned() else { continue };
            let done =
                self.graph.node(ix).check.verify.is_none() && fault.class != FaultClass::LockfileOutOfSync;
            let fault = (!done).then(|| fault.clone());
            self.checked(ix, &flight.intent, fault)?;
        }
        Ok(())
    }

    /// Returns the nodes in flight that wait for a lane to be renewed, the one in whose slot it is among them.
    fn waiting_in(&self, lane: LaneIx, node: NodeIx) -> Vec<NodeIx> {
        let others = self.state.live.stale.iter().copied();
        let mut waiting: Vec<NodeIx> =
            others.filter(|other| *other != node && self.graph.node(*other).lane == Some(lane)).collect();
        waiting.insert(0, node);
        waiting
    }

    /// Goes on with the checks of what waited for a lane that is renewed.
    pub(super) fn renewed(&mut self, lane: LaneIx, node: NodeIx) -> Result<(), IllegalFact> {
        for ix in self.waiting_in(lane, node) {
            self.state.live.stale.remove(&ix);
            self.verify(ix)?;
        }
        Ok(())
    }

    /// Gives a lane up that can't be made fit, as is known without trying.
    pub(super) fn give_up(
        &mut self,
        lane: LaneIx,
        reason: &str,
        failure: &ProvisionFailure,
    ) -> Result<(), IllegalFact> {
        let intent = self.mint();
        self.note(Fact::ProvisionRequested {
            lane: self.graph.lane(lane).name.clone(),
            intent: intent.clone(),
            reason: reason.into(),
            r#try: self.state.lane(lane).tries,
            node: None,
        })?;
        let fault = Fault::new(FaultClass::WorkspaceProvisionFailed, failure.detail.clone())
            .with_cause(failure.cause.clone());
        self.note_provision_failed(lane, &intent, failure, false, &fault)?;
        self.block_lane(lane, &fault)
    }

    pub(super) fn lane_stale(
        &mut self,
        intent: &IntentId,
        reason: &str,
        overlay_gone: bool,
    ) -> Result<(), IllegalEvent> {
        let Some(act) = self.act("LaneStale", intent)? else { return Ok(()) };
        let (Act::Node(ix), Some(lane)) = (act, self.lane_ix_of(act)) else {
            return Err(IllegalEvent::NoSuchAct { what: "LaneStale", intent: intent.clone() });
        };
        let name = self.graph.lane(lane).name.clone();
        if self.state.lane(lane).phase == LanePhase::Ready {
            self.note(Fact::ProvisionStale { lane: name, reason: reason.to_string() })?;
        }
        if overlay_gone && self.state.live.exits.contains_key(intent) {
            // Local files are not copied under a node: it comes again, and meets a lane that has them.
            let fault = Fault::new(FaultClass::Unknown, format!("its lane changed under it: {reason}"));
            self.checked(ix, intent, Some(fault))?;
        } else if self.state.live.exits.contains_key(intent) {
            // Nothing is installed under another node of the lane: `renew_stale` waits for it to leave.
            self.state.live.stale.insert(ix);
        } else {
            self.close_kill(ix, intent)?;
            let id = self.graph.node(ix).id.clone();
            self.note(Fact::DispatchFailed { node: id, intent: intent.clone(), reason: reason.to_string() })?;
        }
        if self.state.lane(lane).renewals > RENEWALS_MAX {
            let failure = ProvisionFailure {
                cmd: None,
                exit_code: None,
                cause: "unknown".into(),
                detail: format!("it is stale again each time it is provisioned: {reason}"),
                log_tail: String::new(),
                may_differ: false,
                ended_by_us: false,
                edited: false,
                kept: false,
            };
            self.give_up(lane, "given-up", &failure)?;
        }
        Ok(())
    }

    /// Renews each lane that stands in the way of a `verify`, once all who use it wait for that. It takes the
    /// slot of one of them.
    pub(super) fn renew_stale(&mut self) -> Result<(), IllegalFact> {
        for ix in self.state.live.stale.clone() {
            let (Some(flight), Some(lane)) = (self.flight(ix).cloned(), self.graph.node(ix).lane) else {
                continue;
            };
            let is_ended = self.state.stop.is_some() || flight.ending.is_some();
            if is_ended && !matches!(self.state.lane(lane).phase, LanePhase::Provisioning(_)) {
                // It takes note of that itself.
                self.verify(ix)?;
            }
        }
        let lanes: BTreeSet<LaneIx> =
            self.state.live.stale.iter().filter_map(|ix| self.graph.node(*ix).lane).collect();
        for lane in lanes {
            let waiting: Vec<NodeIx> = self
                .state
                .live
                .stale
                .iter()
                .copied()
                .filter(|ix| self.graph.node(*ix).lane == Some(lane))
                .collect();
            let all = waiting.len() as u32 == self.state.lane(lane).users();
            match (&self.state.lane(lane).phase, waiting.first()) {
                (LanePhase::Bare, Some(first)) if all && self.provisioning_has_room(lane) => {
                    self.provision(lane, Some(*first), "stale")?;
                }
                (LanePhase::Broken(fault), Some(first)) if all => {
                    let fault = fault.clone();
                    self.not_renewed(lane, *first, &fault)?;
                }
                // Another has had it renewed meanwhile.
                (LanePhase::Ready, Some(first)) => self.renewed(lane, *first)?,
                _ => {}
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
        let intent = self.mint();
        let number = self.state.lane(lane).tries + 1;
        self.note(Fact::ProvisionRequested {
            lane: self.graph.lane(lane).name.clone(),
            intent: intent.clone(),
            reason: reason.to_string(),
            r#try: number,
            node: inside.map(|node| self.graph.node(node).id.clone()),
        })?;
        self.decision.actions.push(Action::Provision { intent, lane, number });
        Ok(())
    }

    /// Returns whether one more provisioning may begin beside those in progress.
    pub(super) fn provisioning_has_room(&self, lane: LaneIx) -> bool {
        let is_one = |act: &&Act| matches!(act, Act::Provision(_) | Act::ProvisionFor(..));
        let running = self.state.live.acts.values().filter(is_one).count();
        self.graph.provision(lane).max_parallel.is_none_or(|most| running < most.get() as usize)
    }

    /// Prepares the lanes that come before the first node. Returns whether all are done with.
    pub(super) fn prepare_early(&mut self) -> Result<bool, IllegalFact> {
        let early: Vec<LaneIx> = self.state.live.early.clone();
        for lane in early {
            let needed = !matches!(self.state.lane(lane).phase, LanePhase::Ready | LanePhase::Broken(_));
            if !needed {
                self.state.live.early.retain(|other| *other != lane);
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
