//! Names of a graph's nodes and lanes → their places.

use std::collections::BTreeMap;

use super::state::IllegalFact;
use crate::graph::Graph;
use crate::ids::{LaneIx, LaneName, NodeId, NodeIx};

/// Names to places, made once for a graph.
#[derive(Clone, Debug)]
pub struct Names {
    nodes: BTreeMap<NodeId, NodeIx>,
    lanes: BTreeMap<LaneName, LaneIx>,
}

impl Names {
    /// Returns the names of `graph`.
    pub fn of(graph: &Graph) -> Names {
        Names {
            nodes: graph.node_ixs().map(|ix| (graph.node(ix).id.clone(), ix)).collect(),
            lanes: graph.lane_ixs().map(|ix| (graph.lane(ix).name.clone(), ix)).collect(),
        }
    }

    /// Returns the place of a node.
    pub fn node(&self, id: &NodeId) -> Result<NodeIx, IllegalFact> {
        self.nodes.get(id).copied().ok_or_else(|| IllegalFact::UnknownNode(id.clone()))
    }

    /// Returns the place of a lane.
    pub fn lane(&self, name: &LaneName) -> Result<LaneIx, IllegalFact> {
        self.lanes.get(name).copied().ok_or_else(|| IllegalFact::UnknownLane(name.clone()))
    }
}
