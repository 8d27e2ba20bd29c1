//! Lanes where the disk has not room for all of them at once: as many stand as fit, and one whose nodes are all over
//! gets its verdict early.

use super::action::Action;
use super::fact::{Cleanup, EndState, Fact};
use super::ready::lanes_needed;
use super::state::{Act, IllegalFact, LanePhase, NodePhase};
use super::step::{IllegalEvent, Turn};
use crate::ids::{IntentId, LaneIx, NodeIx};

/// Why a lane is judged before its leg ends.
pub(super) const SPACE: &str = "space";

impl Turn<'_> {
    /// Returns whether one more lane fits beside those that stand.
    pub(super) fn has_place(&self) -> bool {
        let Some(fit) = self.state.live.fit else { return true };
        let stands = |lane: &LaneIx| {
            let record = self.state.lane(*lane);
            let is_gone = record.cleanup.as_ref().is_some_and(|cleanup| cleanup.tree == "removed")
                // An acquire that failed since may have left something.
                && !record.acquire_open;
            match record.phase {
                LanePhase::Pending => false,
                // What became of it in an earlier leg says nothing about this one.
                LanePhase::Acquiring(_) => true,
                LanePhase::Bare
                | LanePhase::Overlaying(_)
                | LanePhase::Provisioning(_)
                | LanePhase::Ready
                | LanePhase::Broken(_) => !is_gone,
            }
        };
        self.graph.lane_ixs().filter(stands).count() < fit.max(1)
    }

    /// Gives lanes their verdict that nobody needs any more, where others wait for their place.
    pub(super) fn make_place(&mut self) -> Result<(), IllegalFact> {
        if self.state.live.fit.is_none() || self.has_place() {
            return Ok(());
        }
        let waiting = lanes_needed(self.graph, self.state);
        if !waiting.iter().any(|lane| self.state.lane(*lane).phase == LanePhase::Pending) {
            return Ok(());
        }
        let done: Vec<LaneIx> = self.graph.lane_ixs().filter(|lane| self.is_done_with(*lane)).collect();
        for lane in done {
            if self.state.slots_held() >= self.state.slots {
                break;
            }
            let intent = self.mint();
            self.note(Fact::CleanupRequested {
                lane: self.graph.lane(lane).name.clone(),
                intent: intent.clone(),
                reason: SPACE.into(),
            })?;
            let ends = || self.graph.node_ixs().filter(|ix| self.graph.node(*ix).lane == Some(lane));
            let is = |end| ends().any(|ix| self.state.end_of(ix) == Some(end));
            // A failed or blocked node may run again, and need what another has left.
            let ignored_is_needed = is(EndState::Passed) && (is(EndState::Failed) || is(EndState::Blocked));
            self.decision.actions.push(Action::Sweep { intent, lane, ignored_is_needed });
        }
        Ok(())
    }

    /// Returns whether every node of a lane is over for good in this leg, and no other is still to run that may look
    /// at its tree or its branch.
    fn is_done_with(&self, lane: LaneIx) -> bool {
        let record = self.state.lane(lane);
        let at_rest = matches!(record.phase, LanePhase::Bare | LanePhase::Ready | LanePhase::Broken(_));
        if record.made.is_none() || record.cleanup.is_some() || !at_rest || record.users() > 0 {
            return false;
        }
        let in_hand = |act: &Act| matches!(act, Act::Sweep(other) if *other == lane);
        if self.state.live.acts.values().any(in_hand) {
            return false;
        }
        self.graph.node_ixs().all(|ix| match (&self.state.node(ix).phase, self.graph.node(ix).lane) {
            (NodePhase::Over(end), Some(of)) if of == lane && !self.may_come_again(ix) => {
                matches!(end, EndState::Passed | EndState::Failed | EndState::Skipped | EndState::Blocked)
            }
            (NodePhase::Over(_), _) if !self.may_come_again(ix) => true,
            (NodePhase::Waiting | NodePhase::InFlight(_) | NodePhase::Over(_), of) => {
                of != Some(lane) && !self.graph.lanes_before(ix).any(|before| before == lane)
            }
        })
    }

    /// Returns whether a node that is over may run in a further round of its arc.
    fn may_come_again(&self, ix: NodeIx) -> bool {
        self.graph.arc_of(ix).is_some_and(|arc| self.state.end_of(arc.node).is_none())
    }

    /// A lane got its verdict early.
    pub(super) fn swept(&mut self, intent: &IntentId, cleanup: &Cleanup) -> Result<(), IllegalEvent> {
        let Some(act) = self.act("Swept", intent)? else { return Ok(()) };
        let Act::Sweep(lane) = act else {
            return Err(IllegalEvent::NoSuchAct { what: "Swept", intent: intent.clone() });
        };
        let lane = self.graph.lane(lane).name.clone();
        self.note(Fact::CleanupPerformed { lane, intent: intent.clone(), cleanup: cleanup.clone() })?;
        Ok(())
    }
}
