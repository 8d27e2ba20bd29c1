//! What only the living leg knows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::fault::Exit;
use crate::ids::{IntentId, LaneIx, NodeIx};

/// What only the living leg knows; equal to any other, so that replay can be compared with it.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Nodes whose dependencies are satisfied, in the order of launch.
    pub ready: BTreeSet<(Reverse<u32>, NodeIx)>,
    /// Gates that a person is to be asked of, or was.
    pub gates: BTreeSet<NodeIx>,
    /// Nodes in a pause between attempts.
    pub parked: BTreeSet<NodeIx>,
    /// Unsatisfied dependencies, one number a node.
    pub unmet: Vec<u32>,
    /// Acts in progress and what they act on.
    pub acts: BTreeMap<IntentId, Act>,
    /// Lanes to prepare before the first node.
    pub early: Vec<LaneIx>,
    /// How many lanes fit on the disk at once, where not all do that are needed.
    pub fit: Option<usize>,
    /// Nodes in flight whose lane has to be installed anew before their `verify`, once its other users are gone.
    pub stale: BTreeSet<NodeIx>,
    /// How often the `verify` of an act did not end in its time, where that alone is made again.
    pub verified: BTreeMap<IntentId, u32>,
    /// Exits that were seen while something else had to come first, each with what was left running.
    pub exits: BTreeMap<IntentId, (Exit, Vec<String>)>,
}

impl PartialEq for Live {
    fn eq(&self, _: &Live) -> bool {
        true
    }
}

/// What an act in progress acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The making of a lane.
    Acquire(LaneIx),
    /// The copying of local files into a lane.
    Overlay(LaneIx),
    /// The provisioning of a lane, with a slot of its own.
    Provision(LaneIx),
    /// The provisioning of a lane in the slot of a node that waits for it before its `verify`.
    ProvisionFor(LaneIx, NodeIx),
    /// A node, from its dispatch to the end of its checks.
    Node(NodeIx),
    /// The early verdict of a lane.
    Sweep(LaneIx),
}
