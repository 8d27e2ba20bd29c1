//! Records → where a run stands.

use super::Record;
use crate::graph::Graph;
use crate::schedule::state::{IllegalFact, Names, RunState};

/// Returns where a run of `graph` stands after `records`.
///
/// Errors: the number of a record whose fact does not fit the graph, and why.
pub fn replay(graph: &Graph, names: &Names, records: &[Record]) -> Result<RunState, (u64, IllegalFact)> {
    let mut state = RunState::new(graph);
    for record in records {
        state
            .apply(graph, names, record.leg, record.r#gen, &record.fact)
            .map_err(|error| (record.seq, error))?;
    }
    Ok(state)
}
