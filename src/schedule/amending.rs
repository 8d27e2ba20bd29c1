//! The state's part for a run that goes on with another graph.

use std::collections::BTreeSet;

use super::fact::{EndState, Fact};
use super::fault::{Exit, Fault, FaultClass};
use super::names::Names;
use super::resolver::Next;
use super::settling::OpenAct;
use super::state::{NodePhase, NodeRecord, RunState};
use crate::graph::Graph;
use crate::ids::{NodeId, NodeIx};

impl RunState {
    /// Opens the named nodes again, with new budgets, and what was skipped: what it needed may be another node
    /// now. A name that the graph does not have is passed over: a later amendment took it away. What was removed
    /// and is there has come back since, as a node of its own whose attempts are counted on, for their logs.
    pub(super) fn graph_amended(&mut self, names: &Names, reopened: &[NodeId], removed: &[NodeId]) {
        for ix in reopened.iter().chain(removed).filter_map(|id| names.node(id).ok()) {
            self.open_anew(ix);
        }
        for at in 0..self.nodes.len() {
            if self.nodes[at].phase == NodePhase::Over(EndState::Skipped) {
                self.open_anew(NodeIx(at as u32));
            }
        }
    }

    fn open_anew(&mut self, ix: NodeIx) {
        let record = &mut self.nodes[ix.at()];
        // What it was told before was of another node.
        *record = NodeRecord {
            remembered: None,
            sent_back: None,
            rounds: 0,
            decision: None,
            ..record.opened(true)
        };
    }
}

/// Returns the facts that close the acts on `nodes` of `graph` that a dead leg left open: what they came to is of a
/// graph that is no more. Their processes have ended.
pub fn closings(graph: &Graph, state: &RunState, nodes: &[NodeIx]) -> Vec<Fact> {
    let touched: BTreeSet<&NodeIx> = nodes.iter().collect();
    let killed = state.open.iter().filter_map(|(intent, act)| match act {
        OpenAct::Kill(ix) if touched.contains(ix) => {
            Some(Fact::KillPerformed { node: graph.node(*ix).id.clone(), intent: intent.clone() })
        }
        OpenAct::Kill(_)
        | OpenAct::Acquire(_)
        | OpenAct::Overlay(_)
        | OpenAct::Provision(_)
        | OpenAct::Dispatch(_)
        | OpenAct::Cleanup(_)
        | OpenAct::Restart => None,
    });
    let close = |ix: &NodeIx| match &state.node(*ix).phase {
        NodePhase::InFlight(flight) => Some(Fact::AttemptFinished {
            node: graph.node(*ix).id.clone(),
            attempt: flight.attempt,
            intent: flight.intent.clone(),
            fault: Some(Fault::new(
                FaultClass::Interrupted,
                "the graph was amended before it was looked after",
            )),
            next: Some(Next::NextLeg),
            exit_code: None,
            signal: None,
            leftovers: Vec::new(),
            delivered: flight.delivered,
            agent: super::agents::record_of(graph, *ix, flight, &Exit::default()),
            evidence: None,
        }),
        NodePhase::Waiting | NodePhase::Over(_) => None,
    };
    killed.chain(nodes.iter().filter_map(close)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Trust, load};
    use crate::ids::{Generation, IntentId, Leg};
    use crate::schedule::resolver::Spent;
    use crate::schedule::state::Flight;

    fn graph(nodes: &str) -> Graph {
        load("g.yaml", &format!("name: x\nnodes:\n{nodes}"), &|_| None, Trust::Reviewed).unwrap().graph
    }

    fn amendment(reopened: &[&str], removed: &[&str]) -> Fact {
        let ids = |names: &[&str]| names.iter().map(|name| NodeId::from(*name)).collect();
        Fact::GraphAmended {
            from: String::new(),
            to: String::new(),
            number: 1,
            path: "/g.yaml".into(),
            reopened: ids(reopened),
            removed: ids(removed),
            changes: Vec::new(),
        }
    }

    #[test]
    fn what_is_named_and_what_was_skipped_opens_with_new_budgets_and_counts_its_attempts_on() {
        let graph = graph("- {id: a, run: x}\n- {id: b, run: x}\n- {id: c, run: x}\n- {id: d, run: x}\n");
        let mut state = RunState::new(&graph);
        let ends = [EndState::Passed, EndState::Failed, EndState::Skipped, EndState::Failed];
        for (record, end) in state.nodes.iter_mut().zip(ends) {
            let spent = Spent { retries: 2, redispatches: 1 };
            *record = NodeRecord { phase: NodePhase::Over(end), attempts: 3, spent, ..NodeRecord::default() };
        }
        let before = state.clone();
        let fact = amendment(&["a", "gone"], &["b", "gone"]);
        state.apply(&graph, &Names::of(&graph), Leg(2), Generation(2), &fact).unwrap();
        let open = NodeRecord { attempts: 3, ..NodeRecord::default() };
        assert_eq!(state.nodes[..3], [open.clone(), open.clone(), open]);
        assert_eq!(state.nodes[3], before.nodes[3]);
        // It is no leg of its own.
        assert_eq!((state.leg, state.generation), (before.leg, before.generation));
    }

    #[test]
    fn only_what_was_in_flight_has_acts_to_close() {
        let graph = graph("- {id: a, run: x}\n- {id: b, run: x}\n");
        let mut state = RunState::new(&graph);
        let intent = IntentId::from("g1-4");
        let flight = Flight {
            intent: intent.clone(),
            job: intent.clone(),
            attempt: 2,
            delivered: true,
            ending: None,
            runtime: None,
            session: None,
            budget: None,
        };
        state.nodes[1].phase = NodePhase::InFlight(flight);
        state.open.insert((intent.clone(), OpenAct::Dispatch(NodeIx(1))));
        state.open.insert((intent.clone(), OpenAct::Kill(NodeIx(1))));
        let all: Vec<NodeIx> = graph.node_ixs().collect();
        let facts = closings(&graph, &state, &all);
        assert_eq!(facts.len(), 2);
        assert_eq!(facts[0], Fact::KillPerformed { node: "b".into(), intent: intent.clone() });
        assert!(matches!(
            &facts[1],
            Fact::AttemptFinished { node, intent: of, attempt: 2, next: Some(Next::NextLeg), .. }
                if node.as_str() == "b" && *of == intent
        ));
        for fact in &facts {
            state.apply(&graph, &Names::of(&graph), Leg(2), Generation(2), fact).unwrap();
        }
        assert!(state.open.is_empty());
        assert_eq!(closings(&graph, &state, &all), []);
    }
}
