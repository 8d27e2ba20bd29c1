//! Edges as petgraph walks them, without a copy: a graph of a million edges has them once.

use petgraph::Direction;
use petgraph::visit::{
    GraphBase, GraphRef, IntoNeighbors, IntoNeighborsDirected, IntoNodeIdentifiers, VisitMap, Visitable,
};

/// Edges that can be looked up from either end. Nodes are numbers from 0.
pub(super) trait Adjacency {
    /// What is kept of an edge at one of its ends.
    type Edge;

    /// Returns how many nodes there are.
    fn count(&self) -> usize;

    /// Returns the edges of `node` that lead this way.
    fn edges(&self, node: u32, way: Direction) -> &[Self::Edge];

    /// Returns the node at an edge's other end.
    fn end(edge: &Self::Edge) -> u32;
}

/// Edges, for petgraph to walk.
#[derive(Debug)]
pub(super) struct View<'a, A>(pub &'a A);

impl<A> Clone for View<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for View<'_, A> {}

impl<A> GraphBase for View<'_, A> {
    type EdgeId = ();
    type NodeId = u32;
}

impl<A> GraphRef for View<'_, A> {}

impl<'a, A: Adjacency> IntoNeighbors for View<'a, A> {
    type Neighbors = std::iter::Map<std::slice::Iter<'a, A::Edge>, fn(&'a A::Edge) -> u32>;

    fn neighbors(self, node: u32) -> Self::Neighbors {
        self.neighbors_directed(node, Direction::Outgoing)
    }
}

impl<'a, A: Adjacency> IntoNeighborsDirected for View<'a, A> {
    type NeighborsDirected = Self::Neighbors;

    fn neighbors_directed(self, node: u32, way: Direction) -> Self::Neighbors {
        self.0.edges(node, way).iter().map(A::end)
    }
}

impl<A: Adjacency> IntoNodeIdentifiers for View<'_, A> {
    type NodeIdentifiers = std::ops::Range<u32>;

    fn node_identifiers(self) -> Self::NodeIdentifiers {
        0..self.0.count() as u32
    }
}

impl<A: Adjacency> Visitable for View<'_, A> {
    type Map = Seen;

    fn visit_map(&self) -> Seen {
        Seen(vec![false; self.0.count()])
    }

    fn reset_map(&self, map: &mut Seen) {
        *map = self.visit_map();
    }
}

/// Which nodes were seen.
#[derive(Debug, Default)]
pub(super) struct Seen(Vec<bool>);

impl VisitMap<u32> for Seen {
    fn visit(&mut self, node: u32) -> bool {
        !std::mem::replace(&mut self.0[node as usize], true)
    }

    fn is_visited(&self, node: &u32) -> bool {
        self.0[*node as usize]
    }

    fn unvisit(&mut self, node: u32) -> bool {
        std::mem::replace(&mut self.0[node as usize], false)
    }
}
