//! Edges the other way: what waits for each node; and an order in which nothing comes before what it waits for.

use petgraph::Direction;

use super::model::{Dependency, Node};
use super::reach::Reach;
use super::traverse::{Adjacency, View};
use crate::ids::NodeIx;

/// What waits for each node, all in one list.
#[derive(Clone, Debug)]
pub(super) struct Dependents {
    /// Where in `edges` those of each node begin; one more for the end.
    begins: Vec<u32>,
    /// The nodes that wait, with the ending each waits for.
    edges: Vec<Dependency>,
}

impl Dependents {
    /// Returns what waits for each of `nodes`.
    pub(super) fn of(nodes: &[Node]) -> Dependents {
        let mut begins = vec![0_u32; nodes.len() + 1];
        for edge in nodes.iter().flat_map(|node| &node.depends_on) {
            begins[edge.node.at() + 1] += 1;
        }
        for at in 0..nodes.len() {
            begins[at + 1] += begins[at];
        }
        let mut next = begins.clone();
        let count = nodes.iter().map(|node| node.depends_on.len()).sum();
        let mut edges = vec![Dependency { node: NodeIx(0), on: Default::default() }; count];
        for (node, waits) in (0_u32..).zip(nodes) {
            for edge in &waits.depends_on {
                let place = &mut next[edge.node.at()];
                edges[*place as usize] = Dependency { node: NodeIx(node), on: edge.on };
                *place += 1;
            }
        }
        Dependents { begins, edges }
    }

    /// Returns the nodes that wait for `ix`, in file order, with the ending each waits for.
    pub(super) fn after(&self, ix: NodeIx) -> &[Dependency] {
        &self.edges[self.begins[ix.at()] as usize..self.begins[ix.at() + 1] as usize]
    }

    /// Returns all nodes, each after what it waits for; or one cycle, each node before what it waits for, the
    /// first not repeated.
    pub(super) fn order(&self, nodes: &[Node]) -> Result<Vec<NodeIx>, Vec<NodeIx>> {
        match petgraph::algo::toposort(View(&BothWays { nodes, dependents: self }), None) {
            Ok(order) => Ok(order.into_iter().map(NodeIx).collect()),
            Err(_) => {
                let before = |node: &Node| node.depends_on.iter().map(|edge| edge.node.0).collect();
                let cycles = Reach::new(nodes.iter().map(before).collect()).cycles();
                Err(cycles.into_iter().next().unwrap_or_default().into_iter().map(NodeIx).collect())
            }
        }
    }
}

/// A graph's edges, from what is waited for to what waits.
struct BothWays<'a> {
    nodes: &'a [Node],
    dependents: &'a Dependents,
}

impl Adjacency for BothWays<'_> {
    type Edge = Dependency;

    fn count(&self) -> usize {
        self.nodes.len()
    }

    fn edges(&self, node: u32, way: Direction) -> &[Dependency] {
        match way {
            Direction::Outgoing => self.dependents.after(NodeIx(node)),
            Direction::Incoming => &self.nodes[node as usize].depends_on,
        }
    }

    fn end(edge: &Dependency) -> u32 {
        edge.node.0
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::{Trust, load};
    use crate::ids::NodeIx;

    #[test]
    fn what_waits_comes_in_file_order_and_after_what_it_waits_for() {
        let text = "name: x\nnodes:\n- {id: c, run: x, depends_on: [a, b]}\n- {id: a, run: x}\n\
                    - {id: d, run: x, depends_on: [a]}\n- {id: b, run: x, depends_on: [a]}\n";
        let graph = load("g.yaml", text, &|_| None, Trust::Reviewed).unwrap().graph;
        let after = |ix| graph.dependents(NodeIx(ix)).map(|(node, _)| node.0).collect::<Vec<_>>();
        assert_eq!([after(0), after(1), after(2), after(3)], [vec![], vec![0, 2, 3], vec![], vec![0]]);
        let ranks: Vec<u32> = graph.node_ixs().map(|ix| graph.rank(ix)).collect();
        assert_eq!(ranks, [0, 2, 0, 1]);
    }

    #[test]
    fn a_cycle_is_found_from_what_hangs_on_it() {
        let text = "name: x\nnodes:\n- {id: a, run: x}\n- {id: b, run: x, depends_on: [a]}\n\
                    - {id: c, run: x, depends_on: [a]}\n- {id: d, run: x, depends_on: [c]}\n";
        let mut parts = load("g.yaml", text, &|_| None, Trust::Reviewed).unwrap().graph.parts().clone();
        // b waits for c, c for d, d for c.
        parts.nodes[1].depends_on[0].node = NodeIx(2);
        parts.nodes[2].depends_on[0].node = NodeIx(3);
        let cycle = crate::graph::Graph::new(parts).map(|_| ()).unwrap_err();
        assert_eq!(cycle, [NodeIx(2), NodeIx(3)]);
    }
}
