//! What may begin: dependencies, slots, lane access, and which lanes a leg needs.

use std::collections::BTreeSet;

use super::overlaying::needs_overlay;
use super::state::{Edge, LanePhase, NodePhase, RunState, edge};
use crate::graph::Graph;
use crate::graph::model::{Access, On};
use crate::ids::{LaneIx, NodeIx};

/// Returns the lanes of the nodes that this leg will run if all goes well, in order of first
/// mention: nothing is needed for a node that only a failure would start.
pub fn lanes_needed(graph: &Graph, state: &RunState) -> Vec<LaneIx> {
    let needed = nodes_needed(graph, state);
    let lanes: BTreeSet<LaneIx> = needed.iter().filter_map(|ix| graph.node(*ix).lane).collect();
    lanes.into_iter().collect()
}

/// Returns the nodes that this leg will run if all goes well, in file order.
pub fn nodes_needed(graph: &Graph, state: &RunState) -> Vec<NodeIx> {
    // A node is out if one of its edges can only be met by a failure that has not happened, or by
    // a node that is out itself; work through the graph from those.
    let mut out = vec![false; graph.nodes().len()];
    let mut queue: Vec<NodeIx> = Vec::new();
    for ix in graph.node_ixs() {
        let node = graph.node(ix);
        let never = node.depends_on.iter().any(|dependency| {
            dependency.on == On::Failed && edge(graph, state, dependency.node, On::Failed) != Edge::Met
        });
        if never && !std::mem::replace(&mut out[ix.at()], true) {
            queue.push(ix);
        }
    }
    while let Some(ix) = queue.pop() {
        for (next, on) in graph.dependents(ix) {
            if on == On::Passed && !std::mem::replace(&mut out[next.at()], true) {
                queue.push(next);
            }
        }
    }
    graph
        .node_ixs()
        .filter(|ix| !out[ix.at()] && !matches!(state.node(*ix).phase, NodePhase::Over(_)))
        .collect()
}

/// What a node whose dependencies are met still needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Nothing: it may be dispatched.
    Open,
    /// Its lane has to be made.
    Acquire(LaneIx),
    /// Its lane needs its local files.
    Overlay(LaneIx),
    /// Its lane has to be provisioned.
    Provision(LaneIx),
    /// Others have to leave its lane first, or its lane is being prepared.
    Later,
    /// Its lane can't be used.
    Broken(LaneIx),
}

/// Returns what `node`, whose dependencies are met, still needs besides a slot.
pub fn gate(graph: &Graph, state: &RunState, node: NodeIx) -> Gate {
    let Some(lane) = graph.node(node).lane else { return Gate::Open };
    let record = state.lane(lane);
    match &record.phase {
        LanePhase::Broken(_) => Gate::Broken(lane),
        LanePhase::Pending => Gate::Acquire(lane),
        LanePhase::Acquiring(_) | LanePhase::Overlaying(_) | LanePhase::Provisioning(_) => Gate::Later,
        LanePhase::Bare if record.users() == 0 && needs_overlay(graph, state, lane) => Gate::Overlay(lane),
        LanePhase::Bare if record.users() == 0 => Gate::Provision(lane),
        LanePhase::Bare => Gate::Later,
        LanePhase::Ready => match graph.node(node).access {
            Access::Write if record.users() == 0 => Gate::Open,
            Access::Read if record.writer.is_none() => Gate::Open,
            Access::Write | Access::Read => Gate::Later,
        },
    }
}
