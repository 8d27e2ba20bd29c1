//! Who came before a node: the lanes of its ancestors, worked out once, and its nearest ancestors.

use std::collections::{BTreeSet, VecDeque};

use super::Graph;
use super::model::Node;
use crate::ids::{LaneIx, NodeIx};

/// The lanes that ancestors of each node work in, a bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lineage {
    words: usize,
    bits: Vec<u64>,
}

impl Lineage {
    /// Returns the lineage of `nodes`; `order` has each node after those it waits for.
    pub(super) fn of(nodes: &[Node], lanes: usize, order: impl Iterator<Item = NodeIx>) -> Lineage {
        let words = lanes.div_ceil(64);
        let mut bits = vec![0; words * nodes.len()];
        if words > 0 {
            for ix in order {
                let mut row = vec![0; words];
                for dependency in &nodes[ix.at()].depends_on {
                    let before = dependency.node.at();
                    for (word, inherited) in row.iter_mut().zip(&bits[before * words..]) {
                        *word |= inherited;
                    }
                    if let Some(lane) = nodes[before].lane {
                        row[lane.at() / 64] |= 1 << (lane.at() % 64);
                    }
                }
                bits[ix.at() * words..][..words].copy_from_slice(&row);
            }
        }
        Lineage { words, bits }
    }

    fn lanes(&self, ix: NodeIx) -> impl Iterator<Item = LaneIx> + '_ {
        let row = &self.bits[ix.at() * self.words..][..self.words];
        row.iter().enumerate().flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| LaneIx((at * 64 + bit) as u32))
        })
    }
}

impl Graph {
    /// Returns the lanes that ancestors of `ix` work in, in order of first mention.
    pub fn lanes_before(&self, ix: NodeIx) -> impl Iterator<Item = LaneIx> + '_ {
        self.lineage.lanes(ix)
    }

    /// Returns every node that `ix` waits for, directly or through others, each once, nearest first.
    pub fn ancestors(&self, ix: NodeIx) -> Vec<NodeIx> {
        self.nearest_ancestors(ix, usize::MAX)
    }

    /// Returns the first `max` of [`Graph::ancestors`], without looking for the others.
    pub fn nearest_ancestors(&self, ix: NodeIx, max: usize) -> Vec<NodeIx> {
        let mut seen = BTreeSet::new();
        let mut queue = VecDeque::from([ix]);
        let mut found = Vec::new();
        while let Some(next) = queue.pop_front() {
            for dependency in &self.node(next).depends_on {
                if found.len() == max {
                    return found;
                }
                if seen.insert(dependency.node) {
                    found.push(dependency.node);
                    queue.push_back(dependency.node);
                }
            }
        }
        found
    }
}
