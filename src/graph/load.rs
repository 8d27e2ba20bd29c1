//! The way in: text to a checked [`Graph`], or every problem at once.

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::expand::{Fragments, expand};
use super::grammar::read_graph;
use super::grammar_node::{place, read_node};
use super::model::Graph;
use super::planned;
use super::problem::{Problem, Report, list_or, nearest};
use super::reader::Reader;
use super::source::parse;
use super::validate::{Placed, validate};

/// A graph that can be used, and what its author may want to know of it.
#[derive(Debug)]
pub struct Loaded {
    /// The graph.
    pub graph: Graph,
    /// What is odd but allowed, by position.
    pub warnings: Vec<Problem>,
}

/// Where a graph comes from (DESIGN.md section 12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// A person wrote or read it.
    Reviewed,
    /// A machine wrote it: it may ask for work, not for checkouts, places or commands.
    Planned,
}

/// Returns the graph that `text` describes. `file` is how problems name it.
///
/// `fragments` returns, for the name in a `use`, the path to show for the fragment and its text.
/// It is not asked anything for a planned graph.
///
/// Errors: every problem at once, by file and position, warnings among them. A YAML syntax error, and
/// what a planned graph may not ask for, are reported alone.
pub fn load(file: &str, text: &str, fragments: Fragments<'_>, trust: Trust) -> Result<Loaded, Vec<Problem>> {
    let mut report = Report::default();
    let Some(root) = parse(&mut report, file, text) else { return Err(report.finish()) };
    if trust == Trust::Planned {
        let refusals = planned::refusals(&mut report, &root);
        if refusals {
            return Err(report.finish_only(planned::CODE));
        }
    }
    let read = read_graph(&mut Reader { report: &mut report }, &root);
    // Each tree goes as soon as it is read: of a large graph they take the most.
    drop(root);
    let parts = read.and_then(|(graph, trees)| {
        let expanded = expand(&mut report, trees, fragments);
        let mut nodes = Vec::with_capacity(expanded.nodes.len());
        for node in expanded.nodes {
            let raw = read_node(&mut Reader { report: &mut report }, &node.tree, node.cited_at.is_some());
            // Enough has been said of what is no map.
            if node.tree.entries().is_none() {
                continue;
            }
            let at = place(&raw, &node.tree);
            nodes.push(Placed { raw, at, cited_at: node.cited_at.unwrap_or(at) });
        }
        validate(&mut report, graph, nodes, &expanded.exits, expanded.turned_down)
    });
    let is_clean = report.is_clean();
    let problems = report.finish();
    match parts.map(Graph::new) {
        Some(Ok(graph)) if is_clean => Ok(Loaded { graph, warnings: problems }),
        _ => Err(problems),
    }
}

/// Returns the value of every input, in the order of the graph: as given, else its default.
///
/// Errors: one sentence for each given input that the graph does not declare, that is given twice, and
/// for each that is neither given nor has a default.
pub fn bind_inputs(
    graph: &Graph,
    given: &[(String, String)],
) -> Result<IndexMap<String, String>, Vec<String>> {
    let declared = &graph.parts().inputs;
    let mut wrong = Vec::new();
    let mut values: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, value) in given {
        if !declared.contains_key(name) {
            let near = nearest(name, declared.keys().map(String::as_str));
            let advice = match near {
                Some(near) => format!("; did you mean `{near}`?"),
                None if declared.is_empty() => "; it declares none".to_owned(),
                None => format!("; it declares {}", list_or(declared.keys().map(String::as_str))),
            };
            wrong.push(format!("the graph declares no input `{name}`{advice}"));
        } else if values.insert(name, value).is_some() {
            wrong.push(format!("the input `{name}` is given twice"));
        }
    }
    let mut bound = IndexMap::new();
    for (name, input) in declared {
        match values.get(name.as_str()).map(|value| (*value).to_owned()).or_else(|| input.default.clone()) {
            Some(value) => drop(bound.insert(name.clone(), value)),
            None => wrong.push(format!("the input `{name}` is missing; give it with `--input {name}=VALUE`")),
        }
    }
    if wrong.is_empty() { Ok(bound) } else { Err(wrong) }
}
