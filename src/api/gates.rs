//! What a person says of gates: which of them are meant, and whether there is anything to say.

use super::leg::GateChoice;
use super::{Complaint, Refusal, exit};
use crate::graph::Graph;
use crate::graph::problem::nearest;
use crate::ids::NodeIx;
use crate::schedule::event::Gate;
use crate::schedule::fact::EndState;
use crate::schedule::state::RunState;

/// Returns the gates that are meant. What names none has been refused by [`check`].
pub fn chosen(graph: &Graph, choices: &[GateChoice]) -> Vec<Gate> {
    let gate = |choice: &GateChoice| {
        let node = graph.node_ix(&choice.gate).filter(|ix| graph.is_gate(*ix))?;
        Some(Gate { node, approved: choice.approved, note: choice.note.clone() })
    };
    choices.iter().filter_map(gate).collect()
}

/// Returns whether a person has said what becomes of a gate: now, or beforehand.
pub fn is_decided(graph: &Graph, state: &RunState, ix: NodeIx, choices: &[GateChoice]) -> bool {
    state.node(ix).decision.is_some()
        || choices.iter().any(|choice| graph.node(ix).id.as_str() == choice.gate)
}

/// Errors: every choice that names no gate of this graph, names one twice, or one that has passed already; exit
/// code 2.
pub fn check(
    graph: &Graph,
    state: &RunState,
    choices: &[GateChoice],
    retries_failed: bool,
) -> Result<(), Refusal> {
    let gates = || graph.node_ixs().filter(|ix| graph.is_gate(*ix)).map(|ix| graph.node(ix).id.as_str());
    let mut complaints = Vec::new();
    for (at, choice) in choices.iter().enumerate() {
        let name = &choice.gate;
        let mut complain =
            |message: String, hint: Option<String>| complaints.push(Complaint { message, hint });
        match graph.node_ix(name) {
            _ if choices[..at].iter().any(|other| other.gate == *name) => {
                complain(format!("gate `{name}` is decided twice"), None);
            }
            Some(ix) if !graph.is_gate(ix) => {
                complain(format!("node `{name}` is no gate; there is nothing to approve or reject"), None);
            }
            Some(ix) if state.end_of(ix) == Some(EndState::Passed) => {
                complain(format!("gate `{name}` was approved already"), None);
            }
            Some(ix) if state.end_of(ix) == Some(EndState::Failed) && !retries_failed => {
                let hint = "`--retry-failed` lets it ask again";
                complain(format!("gate `{name}` was rejected already"), Some(hint.into()));
            }
            Some(_) => {}
            None => {
                let near = nearest(name, gates()).map(|near| format!("did you mean `{near}`?"));
                complain(format!("there is no gate `{name}` in this graph"), near);
            }
        }
    }
    if complaints.is_empty() {
        return Ok(());
    }
    Err(Refusal { exit: exit::USAGE, complaints, problems: Vec::new() })
}
