//! The bodies of feedback arcs: which nodes a round runs again.

use super::dependents::Dependents;
use super::model::{FeedbackArc, GraphParts};
use crate::ids::NodeIx;

/// The body of each arc, and each node's arc.
#[derive(Clone, Debug, Default)]
pub(super) struct Bodies {
    /// For each arc its nodes in file order, the one that judges and the one that is re-run from among them.
    pub of_arc: Vec<Vec<NodeIx>>,
    /// For each node that is in a body: where its arc stands among the arcs.
    arc_of: std::collections::BTreeMap<NodeIx, usize>,
}

impl Bodies {
    /// Returns the bodies of a graph's arcs. `order` has each node after those it waits for.
    pub(super) fn of(parts: &GraphParts, dependents: &Dependents, order: &[NodeIx]) -> Bodies {
        let mut bodies = Bodies::default();
        if parts.feedback.is_empty() {
            return bodies;
        }
        let mut place = vec![0_usize; parts.nodes.len()];
        for (at, ix) in order.iter().enumerate() {
            place[ix.at()] = at;
        }
        for (at, arc) in parts.feedback.iter().enumerate() {
            let body = between(parts, dependents, &place, *arc);
            bodies.arc_of.extend(body.iter().map(|ix| (*ix, at)));
            bodies.of_arc.push(body);
        }
        bodies
    }

    /// Returns the place of the arc that runs `ix` again.
    pub(super) fn arc_of(&self, ix: NodeIx) -> Option<usize> {
        self.arc_of.get(&ix).copied()
    }
}

/// Returns the nodes on paths from the one that is re-run to the one that judges, in file order. Nothing is looked
/// at that comes before the former or after the latter.
fn between(parts: &GraphParts, dependents: &Dependents, place: &[usize], arc: FeedbackArc) -> Vec<NodeIx> {
    let (first, last) = (place[arc.rerun.at()], place[arc.node.at()]);
    let mut above = std::collections::BTreeSet::from([arc.node]);
    let mut open = vec![arc.node];
    while let Some(ix) = open.pop() {
        for edge in &parts.nodes[ix.at()].depends_on {
            if place[edge.node.at()] >= first && above.insert(edge.node) {
                open.push(edge.node);
            }
        }
    }
    let mut body = std::collections::BTreeSet::from([arc.rerun]);
    let mut open = vec![arc.rerun];
    while let Some(ix) = open.pop() {
        for edge in dependents.after(ix) {
            if place[edge.node.at()] <= last && above.contains(&edge.node) && body.insert(edge.node) {
                open.push(edge.node);
            }
        }
    }
    body.into_iter().collect()
}
