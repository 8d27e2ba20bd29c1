//! The end of an attempt: its process is over, its checks are made, and something follows.

use super::action::Action;
use super::agents::{brief, evidence_of, judge, record_of};
use super::fact::{EndReason, EndState, Fact};
use super::fault::{Exit, Fault, FaultClass};
use super::resolver::Next;
use super::settling::OpenAct;
use super::state::{IllegalFact, NodePhase};
use super::step::Turn;
use crate::graph::model::Access;
use crate::ids::{IntentId, NodeIx};

impl Turn<'_> {
    pub(super) fn exited(
        &mut self,
        ix: NodeIx,
        intent: &IntentId,
        exit: &Exit,
        leftovers: &[String],
    ) -> Result<(), IllegalFact> {
        let node = self.graph.node(ix);
        let ending = self.flight(ix).and_then(|flight| flight.ending).filter(|_| exit.ended_by_us);
        if !exit.survivors.is_empty() {
            self.note(Fact::KillFailed {
                node: node.id.clone(),
                intent: intent.clone(),
                executed: false,
                survivors: exit.survivors.clone(),
            })?;
        } else {
            self.close_kill(ix, intent)?;
        }
        if let Some(EndReason::Halt | EndReason::Signal) = ending {
            let fault = Some(Fault::new(FaultClass::Interrupted, "ended by omg"));
            return self.attempt_finished(ix, intent, exit, fault, leftovers.to_vec());
        }
        let fault = if exit.ended_by_us && ending.is_none() && !exit.output_overflow && !exit.disk_full {
            Some(Fault::new(FaultClass::Interrupted, "ended with its supervisor"))
        } else {
            judge(self.graph, ix, exit, ending, self.flight(ix).and_then(|flight| flight.budget))
        };
        let is_ending = matches!(
            self.flight(ix).and_then(|flight| flight.ending),
            Some(EndReason::Halt | EndReason::Signal)
        );
        match (fault, &node.check.verify) {
            (None, Some(_)) if is_ending => {
                let fault = Fault::new(FaultClass::Interrupted, "the leg ended before its `verify`");
                self.attempt_finished(ix, intent, exit, Some(fault), leftovers.to_vec())
            }
            (None, verify) if !is_ending && (verify.is_some() || self.needs_a_look(ix)) => {
                self.state.live.exits.insert(intent.clone(), (exit.clone(), leftovers.to_vec()));
                self.verify(ix)
            }
            (fault, _) => self.attempt_finished(ix, intent, exit, fault, leftovers.to_vec()),
        }
    }

    /// Returns whether the lane of a node without a `verify` is looked at before it passes: what it did to
    /// manifest and lockfile is its own.
    fn needs_a_look(&self, ix: NodeIx) -> bool {
        let node = self.graph.node(ix);
        let stopping = self.state.stop.is_some() || self.state.halted;
        node.lane.is_some() && node.access == Access::Write && !stopping
    }

    /// Returns whether another node of its lane is to come after `ix`.
    fn is_followed(&self, ix: NodeIx) -> bool {
        let lane = self.graph.node(ix).lane;
        self.graph.node_ixs().any(|other| {
            other != ix
                && self.graph.node(other).lane == lane
                && matches!(self.state.node(other).phase, NodePhase::Waiting)
        })
    }

    pub(super) fn verify(&mut self, ix: NodeIx) -> Result<(), IllegalFact> {
        let Some(flight) = self.flight(ix).cloned() else { return Ok(()) };
        if self.state.stop.is_some() || flight.ending.is_some() {
            // One without a `verify` was done.
            let fault = self
                .graph
                .node(ix)
                .check
                .verify
                .is_some()
                .then(|| Fault::new(FaultClass::Interrupted, "the leg ended before its `verify`"));
            return self.checked(ix, &flight.intent, fault);
        }
        self.decision.actions.push(Action::Verify {
            intent: flight.intent,
            node: ix,
            attempt: flight.attempt,
            is_followed: self.is_followed(ix),
            feedback: brief(self.graph, self.state, ix).feedback,
        });
        Ok(())
    }

    /// Ends an attempt whose process is over and whose checks are made, or will not be. What was asked to end
    /// since has ended.
    pub(super) fn checked(
        &mut self,
        ix: NodeIx,
        intent: &IntentId,
        fault: Option<Fault>,
    ) -> Result<(), IllegalFact> {
        let (exit, leftovers) = self.state.live.exits.get(intent).cloned().unwrap_or_default();
        self.attempt_finished(ix, intent, &exit, fault, leftovers)
    }

    /// Nothing of a node's act runs any more: where its end was asked for, that is done.
    pub(super) fn close_kill(&mut self, ix: NodeIx, intent: &IntentId) -> Result<(), IllegalFact> {
        if self.state.open.contains(&(intent.clone(), OpenAct::Kill(ix))) {
            self.note(Fact::KillPerformed { node: self.graph.node(ix).id.clone(), intent: intent.clone() })?;
        }
        Ok(())
    }

    pub(super) fn attempt_finished(
        &mut self,
        ix: NodeIx,
        intent: &IntentId,
        exit: &Exit,
        fault: Option<Fault>,
        leftovers: Vec<String>,
    ) -> Result<(), IllegalFact> {
        let node = self.graph.node(ix);
        let Some(flight) = self.flight(ix).cloned() else { return Ok(()) };
        self.close_kill(ix, intent)?;
        let mut next = fault.as_ref().map(|fault| self.next_after(ix, fault));
        let stopping = self.state.stop.is_some() || (self.state.halted && !self.exempt(ix));
        if stopping && matches!(next, Some(Next::Retry(_) | Next::Redispatch(_) | Next::Fallback(_))) {
            next = Some(Next::NextLeg);
        }
        self.note(Fact::AttemptFinished {
            node: node.id.clone(),
            attempt: flight.attempt,
            intent: intent.clone(),
            fault: fault.clone(),
            next,
            exit_code: exit.code,
            signal: exit.signal,
            leftovers,
            delivered: flight.delivered,
            agent: record_of(self.graph, ix, &flight, exit),
            evidence: fault.is_none().then(|| evidence_of(self.graph, ix)),
        })?;
        match (fault, next) {
            (None, _) => self.finish(ix, EndState::Passed, None),
            (Some(fault), Some(Next::Fail) | None) => self.finish(ix, EndState::Failed, Some(fault)),
            (Some(fault), Some(Next::Block)) => self.finish(ix, EndState::Blocked, Some(fault)),
            (Some(fault), Some(Next::NextLeg)) => {
                let end = if self.state.stop.is_some() { EndState::Interrupted } else { EndState::Cancelled };
                self.finish(ix, end, Some(fault))
            }
            (Some(fault), Some(Next::Pause)) => {
                let fault = self.paused_for(ix, fault);
                self.finish(ix, EndState::Paused, Some(fault))
            }
            (Some(_), Some(Next::Feedback)) => self.begin_round(ix),
            (Some(_), Some(Next::Retry(after) | Next::Redispatch(after) | Next::Fallback(after))) => {
                self.park(ix, after);
                Ok(())
            }
        }
    }
}
