//! Rounds of feedback arcs, and gates: where a run goes back, and where it waits for a person.

use super::event::Gate;
use super::fact::{EndState, Fact};
use super::fault::{Fault, FaultClass};
use super::state::IllegalFact;
use super::step::Turn;
use crate::ids::NodeIx;

impl Turn<'_> {
    /// Takes note of what a person said of gates.
    pub(super) fn decide_gates(&mut self, gates: &[Gate]) -> Result<(), IllegalFact> {
        for Gate { node, approved, note } in gates {
            let node = self.graph.node(*node).id.clone();
            self.note(Fact::GateDecided { node, approved: *approved, note: note.clone() })?;
        }
        Ok(())
    }

    /// Passes, rejects, or waits at, each gate whose turn has come. Gates take no slot.
    pub(super) fn pass_gates(&mut self) -> Result<(), IllegalFact> {
        while let Some(ix) = self.gate_due() {
            self.state.live.gates.remove(&ix);
            let decided = self.state.node(ix).decision.clone();
            match decided {
                Some(decided) if decided.approved => self.finish(ix, EndState::Passed, None)?,
                Some(decided) => {
                    let detail = decided.note.unwrap_or_else(|| "a person said no".into());
                    self.finish(ix, EndState::Failed, Some(Fault::new(FaultClass::GateRejected, detail)))?;
                }
                None => self.finish(ix, EndState::Paused, None)?,
            }
        }
        Ok(())
    }

    fn gate_due(&self) -> Option<NodeIx> {
        if self.state.limited.is_some() {
            return None;
        }
        self.state.live.gates.iter().copied().find(|ix| !self.state.halted || self.exempt(*ix))
    }

    /// Goes on with the next round of the arc at `judge`, whose body is open again.
    pub(super) fn begin_round(&mut self, judge: NodeIx) -> Result<(), IllegalFact> {
        if self.state.live.unmet.is_empty() {
            // The leg is being settled; dependencies are counted when that is done.
            return Ok(());
        }
        self.count_dependencies();
        self.propagate(self.graph.body(judge).to_vec())
    }

    /// Returns whether a round of the arc at `judge` came to its end: one in which a node failed was over before it was
    /// judged.
    pub(super) fn is_whole(&self, judge: NodeIx) -> bool {
        let others = self.graph.body(judge).iter().filter(|ix| **ix != judge);
        others
            .map(|ix| self.state.end_of(*ix))
            .all(|end| matches!(end, Some(EndState::Passed | EndState::Skipped)))
    }

    /// Returns the node that judges the arc in whose round `ix` ends, where another round may follow it.
    pub(super) fn judge_after(&self, ix: NodeIx, end: EndState) -> Option<NodeIx> {
        let arc = self.graph.arc_of(ix).filter(|arc| arc.node != ix)?;
        matches!(end, EndState::Passed | EndState::Skipped).then_some(arc.node)
    }

    /// Ends for the leg what was over for a round: all of an arc whose judge is over, or of every arc.
    pub(super) fn settle_rounds(&mut self, judge: Option<NodeIx>) -> Result<(), IllegalFact> {
        let judge_of = |ix: &NodeIx| self.graph.arc_of(*ix).map(|arc| arc.node);
        let is_of = |ix: &NodeIx| judge.is_none_or(|judge| judge_of(ix) == Some(judge));
        let over: Vec<NodeIx> = self.state.unsettled.iter().copied().filter(is_of).collect();
        for ix in over {
            if let Some(end) = self.state.end_of(ix) {
                let fault = self.state.node(ix).fault.clone();
                self.note_finished(ix, end, fault)?;
            }
        }
        Ok(())
    }
}
