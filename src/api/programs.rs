//! The programs of a graph's runtimes: better missed before the first node than after what came before was paid for.

use indexmap::IndexMap;

use crate::graph::Graph;
use crate::graph::model::{NodeKind, ResultWay};
use crate::provision::tools;
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::view::doctor::{Finding, State};

/// Most nodes that are named of those without a program.
const NAMED_MAX: usize = 3;

/// Returns what a person should know of a graph's runtimes before it runs, a line each.
pub fn notes(settings: &Settings, graph: &Graph) -> Vec<String> {
    let mut lines = Vec::new();
    for (runtimes, nodes) in without_program(settings, graph) {
        let names = runtimes.join("` or `");
        let more = nodes.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = nodes[..nodes.len().min(NAMED_MAX)].join(", ");
        lines.push(format!("the program of `{names}` is not in PATH: {named}{more} will be blocked"));
    }
    let has_budget = graph.parts().budget.is_some();
    for name in runtimes(graph).filter(|name| has_budget && !tells_cost(graph, name)) {
        lines.push(format!("`{name}` does not tell what it costs, so the run's `budget_usd` can't hold it"));
    }
    lines
}

/// Returns where the programs of a graph's runtimes are, and which are missing.
pub fn findings(settings: &Settings, graph: &Graph) -> Vec<Finding> {
    let specs = &graph.parts().runtimes;
    let missed: Vec<&String> = without_program(settings, graph).into_keys().flatten().collect();
    let finding = |name: &str| {
        let runtime = Runtime::named(name, specs)?;
        let program = runtime.program();
        let subject = format!("runtime {name}");
        Some(match tools::find(program, &settings.environment, &settings.folder) {
            Some(path) => {
                Finding { subject, state: State::Ok, detail: path.display().to_string(), hint: None }
            }
            None => {
                // Where another stands in for it, no node is the worse for it.
                let is_missed = missed.iter().any(|missed| *missed == name);
                let state = if is_missed { State::Wrong } else { State::Note };
                let detail = format!("`{program}` is not in PATH");
                Finding {
                    subject,
                    state,
                    detail,
                    hint: Some(format!("install `{program}`, or name another")),
                }
            }
        })
    };
    runtimes(graph).filter_map(finding).collect()
}

/// Returns the names of the runtimes that agents of a graph may run through, each once.
fn runtimes(graph: &Graph) -> impl Iterator<Item = &str> {
    let agents = graph.nodes().iter().filter_map(|node| match &node.kind {
        NodeKind::Agent(agent) => Some(&agent.runtimes),
        NodeKind::Command { .. } | NodeKind::Gate => None,
    });
    let names: std::collections::BTreeSet<&str> = agents.flatten().map(String::as_str).collect();
    names.into_iter()
}

fn tells_cost(graph: &Graph, name: &str) -> bool {
    match Runtime::named(name, &graph.parts().runtimes) {
        Some(Runtime::Codex) => false,
        Some(Runtime::Own(spec)) => matches!(spec.result, ResultWay::Json(_)),
        Some(Runtime::Claude) | None => true,
    }
}

/// Returns, by the names of their runtimes, the agents none of whose programs is to be found.
fn without_program<'g>(settings: &Settings, graph: &'g Graph) -> IndexMap<&'g [String], Vec<&'g str>> {
    let specs = &graph.parts().runtimes;
    let is_there = |name: &String| {
        Runtime::named(name, specs).is_none_or(|runtime| {
            tools::find(runtime.program(), &settings.environment, &settings.folder).is_some()
        })
    };
    let mut found: IndexMap<String, bool> = IndexMap::new();
    let mut without: IndexMap<&[String], Vec<&str>> = IndexMap::new();
    for node in graph.nodes() {
        let NodeKind::Agent(agent) = &node.kind else { continue };
        // A node may have a PATH of its own.
        let has_path = node.env.contains_key("PATH") || graph.parts().env.contains_key("PATH");
        let mut is_known = |name: &String| *found.entry(name.clone()).or_insert_with(|| is_there(name));
        if !has_path && !agent.runtimes.iter().any(&mut is_known) {
            without.entry(&agent.runtimes).or_default().push(node.id.as_str());
        }
    }
    without
}
