//! Records → where a run stands.

use super::Record;
use crate::graph::Graph;
use crate::schedule::Fact;
use crate::schedule::state::{IllegalFact, Names, RunState};

/// Returns where a run of `graph` stands after `records`.
///
/// Of an amended run `graph` is the newest; what was written before that about nodes and lanes which it does not
/// have is passed over. Errors: the number of a record whose fact does not fit the graph, and why.
pub fn replay(graph: &Graph, names: &Names, records: &[Record]) -> Result<RunState, (u64, IllegalFact)> {
    fold(graph, names, records, amended_at(records))
}

/// Returns where a run stands that is about to be amended to `graph`: as [`replay`], all `records` being of before.
pub fn replay_before(graph: &Graph, names: &Names, records: &[Record]) -> RunState {
    // What does not fit is passed over, so nothing is left to be an error.
    fold(graph, names, records, records.len()).unwrap_or_else(|_| RunState::new(graph))
}

/// Returns how many of `records` were written before the newest graph of their run.
pub fn amended_at(records: &[Record]) -> usize {
    records.iter().rposition(|record| matches!(record.fact, Fact::GraphAmended { .. })).unwrap_or(0)
}

fn fold(
    graph: &Graph,
    names: &Names,
    records: &[Record],
    before: usize,
) -> Result<RunState, (u64, IllegalFact)> {
    let mut state = RunState::new(graph);
    for (at, record) in records.iter().enumerate() {
        match state.apply(graph, names, record.leg, record.r#gen, &record.fact) {
            Err(error) if at >= before => return Err((record.seq, error)),
            // Of a node or a lane that is gone.
            Err(_) => state.count(&record.fact),
            Ok(()) => {}
        }
    }
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Trust, load};
    use crate::ids::{Generation, Leg};
    use crate::schedule::fact::EndState;

    fn records(facts: Vec<Fact>) -> Vec<Record> {
        let record = |(at, fact)| Record {
            seq: at as u64 + 1,
            ts: jiff::Timestamp::UNIX_EPOCH,
            leg: Leg(1),
            r#gen: Generation(1),
            target: None,
            synced: None,
            batch: None,
            fact,
        };
        facts.into_iter().enumerate().map(record).collect()
    }

    #[test]
    fn what_is_gone_is_passed_over_before_the_newest_graph_and_an_error_after_it() {
        let graph =
            load("g.yaml", "name: x\nnodes: [{id: a, run: x}]\n", &|_| None, Trust::Reviewed).unwrap();
        let (graph, names) = (&graph.graph, &Names::of(&graph.graph));
        let over =
            |node: &str, state| Fact::NodeFinished { node: node.into(), attempts: 1, state, fault: None };
        let gone = || over("gone", EndState::Failed);
        let passed = || over("a", EndState::Passed);
        let amended = |number| Fact::GraphAmended {
            from: String::new(),
            to: String::new(),
            number,
            path: "/g.yaml".into(),
            reopened: vec!["gone".into()],
            removed: Vec::new(),
            changes: Vec::new(),
        };
        let after = |facts| replay(graph, names, &records(facts)).map_err(|(seq, _)| seq);
        assert_eq!(after(vec![gone()]), Err(1));
        let twice = after(vec![gone(), amended(1), gone(), passed(), amended(2)]).unwrap();
        assert_eq!(twice, after(vec![passed()]).unwrap());
        assert_eq!(after(vec![gone(), amended(1), passed(), gone()]), Err(4));
        let before = records(vec![passed(), gone()]);
        assert_eq!(replay_before(graph, names, &before), after(vec![passed()]).unwrap());
    }
}
