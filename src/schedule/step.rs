//! One event in; facts and actions out.

use std::cmp::Reverse;
use std::ops::Bound;
use std::time::Duration;

use super::action::Action;
use super::agents::brief;
use super::event::{Event, Timer};
use super::fact::{EndReason, EndState, Fact};
use super::fault::{Fault, FaultClass, judge_verify};
use super::ready::{Gate, gate};
use super::state::{Act, Edge, Flight, IllegalFact, LanePhase, Names, NodePhase, RunState, edge};
use crate::graph::Graph;
use crate::graph::model::{On, OnFail};
use crate::ids::{IntentId, NodeIx};

/// What follows from an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// What has become true, in order; already applied to the state.
    pub facts: Vec<Fact>,
    /// What to do once the facts are durable, in order.
    pub actions: Vec<Action>,
}

/// An event that can't have happened in the state it came to.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum IllegalEvent {
    /// It answers an act that is not in progress as that.
    #[error("{what} for act `{intent}`, which is not in progress")]
    NoSuchAct {
        /// The event.
        what: &'static str,
        /// The act.
        intent: IntentId,
    },
    /// A fact of ours does not fit our own graph.
    #[error(transparent)]
    Fact(#[from] IllegalFact),
}

/// Returns what follows from `event`, with `state` changed accordingly.
///
/// Events of acts of an older generation are dropped without effect. Errors: an event that can't
/// have happened; the state is then as before the offending part.
pub fn step(
    state: &mut RunState,
    graph: &Graph,
    names: &Names,
    event: &Event,
) -> Result<Decision, IllegalEvent> {
    let mut turn = Turn { state, graph, names, decision: Decision::default() };
    match event {
        Event::LegStarted(start) => turn.leg_started(start)?,
        Event::Acquired { intent, lane } => {
            let Some(Act::Acquire(ix)) = turn.act("Acquired", intent)? else { return Ok(turn.decision) };
            turn.note(Fact::AcquirePerformed {
                lane: graph.lane(ix).name.clone(),
                intent: intent.clone(),
                how: lane.how.clone(),
                path: lane.path.clone(),
                branch: lane.branch.clone(),
                base: lane.base.clone(),
                branch_made: lane.branch_made,
                git_dir: lane.git_dir.clone(),
                set_aside: lane.set_aside.clone(),
            })?;
        }
        Event::NotAcquired { intent, fault } => {
            let Some(Act::Acquire(ix)) = turn.act("NotAcquired", intent)? else { return Ok(turn.decision) };
            // One that was ended by the leg's own end says nothing about the lane.
            let fault = match turn.state.stop {
                Some(_) => Fault::new(FaultClass::Interrupted, "the leg ended before it did"),
                None => fault.clone(),
            };
            turn.note(Fact::AcquireFailed {
                lane: graph.lane(ix).name.clone(),
                intent: intent.clone(),
                fault: fault.clone(),
            })?;
            if turn.state.stop.is_none() {
                turn.block_lane(ix, &fault)?;
            }
        }
        Event::Provisioning { intent, cmd } => {
            let Some(act) = turn.act("Provisioning", intent)? else { return Ok(turn.decision) };
            if let Act::Provision(ix) | Act::ProvisionFor(ix, _) = act {
                let lane = graph.lane(ix).name.clone();
                turn.note(Fact::ProvisionStarted { lane, intent: intent.clone(), cmd: cmd.clone() })?;
            }
        }
        Event::Overlaid { intent, files } => turn.overlaid(intent, files)?,
        Event::NotOverlaid { intent, fault } => turn.not_overlaid(intent, fault)?,
        Event::Provisioned { intent, receipt } => {
            let Some(act) = turn.act("Provisioned", intent)? else { return Ok(turn.decision) };
            let (Act::Provision(ix) | Act::ProvisionFor(ix, _)) = act else {
                return Err(IllegalEvent::NoSuchAct { what: "Provisioned", intent: intent.clone() });
            };
            let lane = graph.lane(ix).name.clone();
            turn.note(if receipt.skipped {
                let reason = receipt.reason.clone().unwrap_or_default();
                Fact::ProvisionSkipped { lane, intent: intent.clone(), reason }
            } else {
                Fact::ProvisionPerformed {
                    lane,
                    intent: intent.clone(),
                    cmd: receipt.cmd.clone(),
                    exit_code: receipt.exit_code,
                    duration_ms: receipt.duration_ms,
                    fingerprint: receipt.fingerprint.clone(),
                    receipt: receipt.receipt.clone(),
                    notes: receipt.notes.clone(),
                    reason: receipt.reason.clone(),
                }
            })?;
            if let Act::ProvisionFor(_, node) = act {
                turn.renewed(ix, node)?;
            }
        }
        Event::NotProvisioned { intent, failure } => turn.not_provisioned(intent, failure)?,
        Event::LaneStale { intent, reason, overlay_gone } => {
            turn.lane_stale(intent, reason, *overlay_gone)?
        }
        Event::LaneFit { intent } => {
            let Some(Act::Node(ix)) = turn.act("LaneFit", intent)? else { return Ok(turn.decision) };
            turn.checked(ix, intent, None)?;
        }
        Event::Started { intent, pid, start_time } => {
            let Some(Act::Node(ix)) = turn.act("Started", intent)? else { return Ok(turn.decision) };
            let attempt = turn.flight(ix).map_or(1, |flight| flight.attempt);
            turn.note(Fact::NodeStarted {
                node: graph.node(ix).id.clone(),
                attempt,
                intent: intent.clone(),
                pid: *pid,
                start_time: *start_time,
                lane: turn.lane_of(ix),
            })?;
            if let Some(timeout) = graph.node(ix).timeout {
                turn.arm(Timer::Timeout(intent.clone()), timeout);
            }
        }
        Event::Exited { intent, exit, leftovers } => {
            let Some(Act::Node(ix)) = turn.act("Exited", intent)? else { return Ok(turn.decision) };
            turn.exited(ix, intent, exit, leftovers)?;
        }
        Event::Verified { intent, outcome } => {
            let Some(Act::Node(ix)) = turn.act("Verified", intent)? else { return Ok(turn.decision) };
            let expect = graph.node(ix).check.verify.as_ref().map_or(0, |verify| verify.expect_exit);
            let ending = turn.flight(ix).and_then(|flight| flight.ending);
            let fault = match ending {
                Some(EndReason::Halt | EndReason::Signal) => {
                    Some(Fault::new(FaultClass::Interrupted, "ended while it was being verified"))
                }
                Some(EndReason::Timeout | EndReason::Silence) | None => judge_verify(outcome, expect),
            };
            if !turn.verifies_again(ix, intent, fault.as_ref())? {
                turn.checked(ix, intent, fault)?;
            }
        }
        Event::TimerFired(timer) => turn.timer_fired(timer)?,
        Event::Swept { intent, cleanup } => turn.swept(intent, cleanup)?,
        Event::Overdue { intent, act, times, after } => turn.act_overdue(intent, *act, *times, *after)?,
        Event::Silent { intent, lasted, seen } => turn.silent(intent, *lasted, seen)?,
        Event::StopRequested(reason) => {
            if turn.state.stop.is_none() {
                turn.note(Fact::Stopping { reason: *reason })?;
                turn.end_flights(EndReason::Signal)?;
                turn.end_acts(|act| !matches!(act, Act::Node(_) | Act::Sweep(_)));
            }
        }
        Event::StopNow => {
            let acts: Vec<IntentId> = turn.state.live.acts.keys().cloned().collect();
            for intent in acts {
                turn.decision.actions.push(Action::End { intent, now: true });
            }
        }
    }
    turn.fill()?;
    Ok(turn.decision)
}

/// One event being taken in: the state it changes and what follows. `opening` and `preparing` hold what
/// concerns a leg's beginning and its lanes.
pub(super) struct Turn<'a> {
    pub(super) state: &'a mut RunState,
    pub(super) graph: &'a Graph,
    names: &'a Names,
    pub(super) decision: Decision,
}

impl Turn<'_> {
    /// Makes a fact true and part of the decision.
    pub(super) fn note(&mut self, fact: Fact) -> Result<(), IllegalFact> {
        let (leg, generation) = (self.state.leg, self.state.generation);
        self.state.apply(self.graph, self.names, leg, generation, &fact)?;
        self.decision.facts.push(fact);
        Ok(())
    }

    pub(super) fn arm(&mut self, timer: Timer, after: Duration) {
        self.decision.actions.push(Action::Arm { timer, after });
    }

    pub(super) fn mint(&mut self) -> IntentId {
        IntentId::new(self.state.generation, self.state.next_intent)
    }

    /// Returns what the act is on; `None` where its generation is over, so that the event of a
    /// straggler has no effect.
    pub(super) fn act(&self, what: &'static str, intent: &IntentId) -> Result<Option<Act>, IllegalEvent> {
        if intent.generation() != Some(self.state.generation) && !generations_are_ignored() {
            return Ok(None);
        }
        match self.state.live.acts.get(intent) {
            Some(act) => Ok(Some(*act)),
            None => Err(IllegalEvent::NoSuchAct { what, intent: intent.clone() }),
        }
    }

    pub(super) fn flight(&self, node: NodeIx) -> Option<&Flight> {
        match &self.state.node(node).phase {
            NodePhase::InFlight(flight) => Some(flight),
            NodePhase::Waiting | NodePhase::Over(_) => None,
        }
    }

    pub(super) fn lane_of(&self, node: NodeIx) -> Option<crate::ids::LaneName> {
        self.graph.node(node).lane.map(|lane| self.graph.lane(lane).name.clone())
    }

    /// Looks at each node of `queue`: ready, or skipped and then its dependents too. No recursion.
    pub(super) fn propagate(&mut self, mut queue: Vec<NodeIx>) -> Result<(), IllegalFact> {
        queue.reverse();
        while let Some(ix) = queue.pop() {
            if self.state.node(ix).phase != NodePhase::Waiting {
                continue;
            }
            let unmet = self.state.live.unmet[ix.at()];
            let mut open =
                self.graph.node(ix).depends_on.iter().take(if unmet == 0 { 0 } else { usize::MAX });
            let never = open.find_map(|dependency| {
                match edge(self.graph, self.state, dependency.node, dependency.on) {
                    Edge::Never(because) => Some(because),
                    Edge::Met | Edge::Open => None,
                }
            });
            if let Some(because) = never {
                let node = self.graph.node(ix).id.clone();
                self.note(Fact::NodeSkipped { node, because })?;
                self.note_end(ix, EndState::Skipped, None)?;
                self.met(ix, EndState::Skipped, &mut queue);
            } else if unmet == 0 && self.graph.is_gate(ix) {
                self.state.live.gates.insert(ix);
            } else if unmet == 0 && !self.state.live.parked.contains(&ix) {
                self.state.live.ready.insert((Reverse(self.graph.rank(ix)), ix));
            }
        }
        Ok(())
    }

    /// Counts down the edges that `ix`'s ending met and queues the dependents for which it decides
    /// something: the last open edge is met, or one can't be any more.
    pub(super) fn met(&mut self, ix: NodeIx, end: EndState, queue: &mut Vec<NodeIx>) {
        for (next, on) in self.graph.dependents(ix) {
            match (end, on) {
                (EndState::Passed, On::Passed | On::Finished)
                | (EndState::Failed, On::Failed | On::Finished)
                | (EndState::Skipped, On::Finished) => {
                    let unmet = &mut self.state.live.unmet[next.at()];
                    *unmet = unmet.saturating_sub(1);
                    if *unmet == 0 {
                        queue.push(next);
                    }
                }
                (EndState::Passed | EndState::Skipped, On::Failed)
                | (EndState::Failed | EndState::Skipped, On::Passed) => queue.push(next),
                (
                    EndState::Blocked
                    | EndState::Paused
                    | EndState::Waiting
                    | EndState::Cancelled
                    | EndState::Interrupted,
                    On::Passed | On::Finished | On::Failed,
                ) => {}
            }
        }
    }

    pub(super) fn note_finished(
        &mut self,
        ix: NodeIx,
        state: EndState,
        fault: Option<Fault>,
    ) -> Result<(), IllegalFact> {
        self.note(Fact::NodeFinished {
            node: self.graph.node(ix).id.clone(),
            attempts: self.state.node(ix).attempts,
            state,
            fault,
        })
    }

    /// Ends a node: for this leg, or for this round of the arc that another node judges.
    fn note_end(&mut self, ix: NodeIx, end: EndState, fault: Option<Fault>) -> Result<(), IllegalFact> {
        let Some(judge) = self.judge_after(ix, end) else {
            self.note_finished(ix, end, fault)?;
            return match self.graph.arc_at(ix) {
                Some(_) => self.settle_rounds(Some(ix)),
                None => Ok(()),
            };
        };
        self.note(Fact::RoundFinished {
            node: self.graph.node(ix).id.clone(),
            judge: self.graph.node(judge).id.clone(),
            round: self.state.node(judge).rounds + 1,
            state: end,
        })
    }

    /// Ends a node for this leg, with all that follows for others.
    pub(super) fn finish(
        &mut self,
        ix: NodeIx,
        end: EndState,
        fault: Option<Fault>,
    ) -> Result<(), IllegalFact> {
        self.note_end(ix, end, fault)?;
        if self.state.live.unmet.is_empty() {
            // The leg is being settled; dependencies are counted when that is done.
            return Ok(());
        }
        let mut queue = Vec::new();
        self.met(ix, end, &mut queue);
        self.propagate(queue)?;
        if end == EndState::Failed && self.state.on_fail == OnFail::Halt && !self.graph.is_gate(ix) {
            self.end_flights(EndReason::Halt)?;
            // Not acquires: they are short, and one that is ended leaves no git for what still comes.
            let ending: Vec<NodeIx> = self.graph.node_ixs().filter(|ix| !self.exempt(*ix)).collect();
            self.end_acts(|act| match act {
                Act::Provision(_) => true,
                Act::ProvisionFor(_, node) => ending.binary_search(node).is_ok(),
                Act::Acquire(_) | Act::Overlay(_) | Act::Node(_) | Act::Sweep(_) => false,
            });
        }
        Ok(())
    }

    pub(super) fn timer_fired(&mut self, timer: &Timer) -> Result<(), IllegalFact> {
        match timer {
            Timer::Timeout(intent) => {
                // Its process may be over and its `verify` running: that has a time of its own.
                let Some(Act::Node(ix)) = self.state.live.acts.get(intent).copied() else { return Ok(()) };
                if self.state.live.exits.contains_key(intent) {
                    return Ok(());
                }
                self.end(ix, EndReason::Timeout)
            }
            Timer::Backoff(ix) => {
                // What it needs may have been opened again since it began.
                let is_due = self.state.live.unmet.get(ix.at()) == Some(&0);
                if self.state.live.parked.remove(ix) && is_due {
                    self.state.live.ready.insert((Reverse(self.graph.rank(*ix)), *ix));
                }
                Ok(())
            }
        }
    }

    /// Asks for the end of a node in flight, once.
    pub(super) fn end(&mut self, ix: NodeIx, reason: EndReason) -> Result<(), IllegalFact> {
        let Some(flight) = self.flight(ix).filter(|flight| flight.ending.is_none()).cloned() else {
            return Ok(());
        };
        self.note(Fact::KillRequested {
            node: self.graph.node(ix).id.clone(),
            intent: flight.intent.clone(),
            reason,
        })?;
        self.decision.actions.push(Action::End { intent: flight.intent, now: false });
        Ok(())
    }

    pub(super) fn end_flights(&mut self, reason: EndReason) -> Result<(), IllegalFact> {
        let nodes: Vec<NodeIx> = self
            .state
            .live
            .acts
            .values()
            .filter_map(|act| match act {
                Act::Node(ix) => Some(*ix),
                Act::Acquire(_)
                | Act::Overlay(_)
                | Act::Provision(_)
                | Act::ProvisionFor(..)
                | Act::Sweep(_) => None,
            })
            .filter(|ix| reason != EndReason::Halt || !self.exempt(*ix))
            .collect();
        for ix in nodes {
            self.end(ix, reason)?;
        }
        Ok(())
    }

    /// Returns whether a halted run still launches this node: its `failed` or `finished` edge is
    /// what the failure satisfied.
    pub(super) fn exempt(&self, ix: NodeIx) -> bool {
        self.graph.node(ix).depends_on.iter().any(|dependency| {
            dependency.on != On::Passed && self.state.end_of(dependency.node) == Some(EndState::Failed)
        })
    }

    pub(super) fn dispatch(&mut self, ix: NodeIx) -> Result<(), IllegalFact> {
        let intent = self.mint();
        let attempt = self.state.node(ix).attempts + 1;
        let brief = Box::new(brief(self.graph, self.state, ix));
        self.note(Fact::DispatchRequested {
            node: self.graph.node(ix).id.clone(),
            attempt,
            intent: intent.clone(),
            reason: if attempt == 1 { "ready" } else { "again" }.to_string(),
            lane: self.lane_of(ix),
            job: None,
            runtime: brief.runtime.clone(),
            session: brief.session.clone(),
            budget_usd: brief.budget,
        })?;
        let despite_inputs =
            self.graph.node(ix).lane.is_some_and(|lane| self.state.lane(lane).out_of_sync == Some(ix));
        self.decision.actions.push(Action::Dispatch { intent, node: ix, attempt, despite_inputs, brief });
        Ok(())
    }

    /// Begins what may begin, and says so when nothing more will happen.
    pub(super) fn fill(&mut self) -> Result<(), IllegalFact> {
        if self.state.leg.0 == 0 || self.state.live.unmet.is_empty() {
            return Ok(());
        }
        self.renew_stale()?;
        if self.state.stop.is_none() {
            if !self.state.halted && !self.prepare_early()? {
                return Ok(());
            }
            self.pass_gates()?;
            if self.state.limited.is_none() {
                self.make_place()?;
                self.launch()?;
            }
        }
        if self.state.live.acts.is_empty() && !self.pause_pending() {
            self.close()?;
            self.state.live.unmet.clear();
            self.decision.actions.push(Action::Settled);
        }
        Ok(())
    }

    /// Returns whether a node will come back from a pause and may then run.
    pub(super) fn pause_pending(&self) -> bool {
        self.state.stop.is_none()
            && self.state.limited.is_none()
            && self.state.live.parked.iter().any(|ix| !self.state.halted || self.exempt(*ix))
    }

    pub(super) fn launch(&mut self) -> Result<(), IllegalFact> {
        let mut cursor = Bound::Unbounded;
        let mut without_place = None;
        while self.state.slots_held() < self.state.slots {
            let Some(place) = self.state.live.ready.range((cursor, Bound::Unbounded)).next().copied() else {
                break;
            };
            cursor = Bound::Excluded(place);
            let ix = place.1;
            if self.state.node(ix).phase != NodePhase::Waiting || (self.state.halted && !self.exempt(ix)) {
                continue;
            }
            match gate(self.graph, self.state, ix) {
                Gate::Open if self.is_out_of_money(ix)? => {}
                Gate::Open => self.dispatch(ix)?,
                Gate::Acquire(lane) if self.has_place() => self.acquire(lane)?,
                Gate::Acquire(lane) => without_place = without_place.or(Some(lane)),
                Gate::Overlay(lane) => self.overlay(lane)?,
                Gate::Provision(lane) if self.provisioning_has_room(lane) => {
                    let reason = match self.state.lane(lane) {
                        record if record.failures > 0 => "retry",
                        record if record.tries > 0 => "stale",
                        _ => "first",
                    };
                    self.provision(lane, None, reason)?;
                }
                Gate::Provision(_) | Gate::Later => {}
                Gate::Broken(lane) => {
                    if let LanePhase::Broken(fault) = self.state.lane(lane).phase.clone() {
                        self.finish(ix, EndState::Blocked, Some(fault))?;
                    }
                }
            }
        }
        // Nothing is in the way that will go: it is tried, and says itself what is wanting.
        if self.state.live.acts.is_empty()
            && let Some(lane) = without_place
        {
            self.acquire(lane)?;
        }
        Ok(())
    }

    /// Gives every node that did not end in this leg its ending.
    pub(super) fn close(&mut self) -> Result<(), IllegalFact> {
        self.settle_rounds(None)?;
        let cut_short = self.state.stop.is_some() || self.state.halted;
        for ix in self.graph.node_ixs() {
            if self.state.node(ix).phase == NodePhase::Waiting {
                let end = if cut_short { EndState::Cancelled } else { EndState::Waiting };
                let fault = self.state.node(ix).fault.clone();
                self.note_finished(ix, end, fault)?;
            }
        }
        Ok(())
    }
}

/// The simulation takes the check out to show that it would notice.
#[cfg(test)]
fn generations_are_ignored() -> bool {
    super::sim::mutant() == Some(super::sim::Mutant::NoGenerationCheck)
}

#[cfg(not(test))]
fn generations_are_ignored() -> bool {
    false
}
