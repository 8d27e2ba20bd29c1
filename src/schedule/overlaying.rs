//! The overlay of a lane: between its making and its provisioning, for lanes whose graph names local files.

use super::action::Action;
use super::fact::{Fact, Overlaid};
use super::fault::{Fault, FaultClass};
use super::ready::nodes_needed;
use super::settling::OpenAct;
use super::state::{Act, IllegalFact, LanePhase, RunState};
use super::step::{IllegalEvent, Turn};
use crate::graph::Graph;
use crate::ids::{IntentId, LaneIx, NodeId};

/// Returns whether a lane that was made still lacks its local files.
pub fn needs_overlay(graph: &Graph, state: &RunState, lane: LaneIx) -> bool {
    graph.overlay(lane).is_some() && !state.lane(lane).overlaid
}

impl RunState {
    pub(super) fn overlay_requested(&mut self, lane: LaneIx, intent: &IntentId) {
        self.minted(intent);
        self.lanes[lane.at()].phase = LanePhase::Overlaying(intent.clone());
        self.open.insert((intent.clone(), OpenAct::Overlay(lane)));
        self.live.acts.insert(intent.clone(), Act::Overlay(lane));
    }

    pub(super) fn overlay_performed(&mut self, lane: LaneIx, intent: &IntentId) {
        let record = &mut self.lanes[lane.at()];
        record.phase = LanePhase::Bare;
        record.overlaid = true;
        self.closed(intent, OpenAct::Overlay(lane));
    }

    pub(super) fn no_overlay(&mut self, lane: LaneIx, intent: &IntentId, fault: &Fault) {
        self.lanes[lane.at()].phase = match fault.class {
            FaultClass::Interrupted => LanePhase::Pending,
            _ => LanePhase::Broken(fault.clone()),
        };
        self.closed(intent, OpenAct::Overlay(lane));
    }
}

impl Turn<'_> {
    pub(super) fn overlay(&mut self, lane: LaneIx) -> Result<(), IllegalFact> {
        let intent = self.mint();
        self.note(Fact::OverlayRequested {
            lane: self.graph.lane(lane).name.clone(),
            intent: intent.clone(),
            reason: "needed".into(),
        })?;
        self.decision.actions.push(Action::Overlay { intent, lane });
        Ok(())
    }

    pub(super) fn overlaid(&mut self, intent: &IntentId, files: &[Overlaid]) -> Result<(), IllegalEvent> {
        let Some(lane) = self.lane_of_overlay("Overlaid", intent)? else { return Ok(()) };
        let lane = self.graph.lane(lane).name.clone();
        self.note(Fact::OverlayPerformed { lane, intent: intent.clone(), files: files.to_vec() })?;
        Ok(())
    }

    pub(super) fn not_overlaid(&mut self, intent: &IntentId, fault: &Fault) -> Result<(), IllegalEvent> {
        let Some(lane) = self.lane_of_overlay("NotOverlaid", intent)? else { return Ok(()) };
        let fault = match self.state.stop {
            Some(_) => Fault::new(FaultClass::Interrupted, "the leg ended before it did"),
            None => fault.clone(),
        };
        self.note_overlay_failed(lane, intent, fault.clone())?;
        if fault.class != FaultClass::Interrupted {
            self.block_lane(lane, &fault)?;
        }
        Ok(())
    }

    pub(super) fn note_overlay_failed(
        &mut self,
        lane: LaneIx,
        intent: &IntentId,
        fault: Fault,
    ) -> Result<(), IllegalFact> {
        let needed = nodes_needed(self.graph, self.state).into_iter();
        let nodes: Vec<NodeId> = needed
            .filter(|node| self.graph.node(*node).lane == Some(lane))
            .map(|node| self.graph.node(node).id.clone())
            .collect();
        let lane = self.graph.lane(lane).name.clone();
        self.note(Fact::OverlayFailed { lane, intent: intent.clone(), nodes, fault })
    }

    fn lane_of_overlay(&self, what: &'static str, intent: &IntentId) -> Result<Option<LaneIx>, IllegalEvent> {
        match self.act(what, intent)? {
            None => Ok(None),
            Some(Act::Overlay(lane)) => Ok(Some(lane)),
            Some(Act::Acquire(_) | Act::Provision(_) | Act::ProvisionFor(..) | Act::Node(_)) => {
                Err(IllegalEvent::NoSuchAct { what, intent: intent.clone() })
            }
        }
    }
}
