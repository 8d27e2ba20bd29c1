//! `omg run --dry-run`: what would be run, and why. Nothing is made or started.

use std::collections::BTreeMap;

use super::Refusal;
use super::start::Prepared;
use crate::graph::Graph;
use crate::graph::model::{Agent, NodeKind, On, Overlay, Provision};
use crate::ids::{LaneIx, NodeIx};
use crate::process::environment::Environment;
use crate::provision::{Rung, Step};
use crate::run::environment::Place;
use crate::run::forecast::{Forecast, forecast};
use crate::settings::Settings;
use crate::worktree::GitWorktrees;

/// Returns a prepared run as lines for a person: lanes with their provisioning, then nodes in the
/// order in which they would begin.
pub fn describe(settings: &Settings, prepared: &Prepared) -> Result<Vec<String>, Refusal> {
    let file = &prepared.file;
    let graph = &file.graph;
    let mut lines = vec![format!("would run {} as {}", graph.parts().name, file.run_id)];
    if let (Some(of_run), Some(repository)) = (&file.repository, &prepared.repository) {
        lines.push(format!("base: {}", of_run.base));
        let worktrees = GitWorktrees::new(&settings.environment);
        for ix in graph.lane_ixs() {
            let name = &graph.lane(ix).name;
            lines.push(format!(
                "lane {name}: branch {}, at {}",
                of_run.branch_of(&file.run_id, name),
                of_run.path_of(name).display()
            ));
            lines.extend(graph.overlay(ix).map(local_files));
            let provision = graph.provision(ix);
            let forecast = forecast(
                &worktrees,
                repository,
                of_run.base_of(name),
                provision,
                &of_run.path_of(name),
                &environment_of(settings, prepared, ix),
            )?;
            let missing = forecast.unfit.iter().map(|failure| format!("missing: {}", failure.with_way_out()));
            let all = what_is_run(&forecast).into_iter().chain(missing);
            let all = all.chain(worth_knowing(&forecast, provision));
            lines.extend(all.map(|line| format!("  {line}")));
        }
    }
    for ix in launch_order(graph) {
        lines.extend(node(graph, ix));
    }
    Ok(lines)
}

/// Returns what the provisioning of a lane of a prepared run would see.
fn environment_of(settings: &Settings, prepared: &Prepared, lane: LaneIx) -> Environment {
    let parent = settings.environment.for_child(&prepared.file.pass_env);
    let place =
        Place { file: &prepared.file, dir: &prepared.dir, parent: &parent, lanes: &[], feedback: None };
    place.of_provisioning(lane)
}

/// Returns what would be run to make a lane fit, and why, one line each.
pub fn what_is_run(forecast: &Forecast) -> Vec<String> {
    let plan = &forecast.plan;
    if plan.steps.is_empty() {
        return vec![format!("nothing to provision ({})", plan.reason.as_deref().unwrap_or("no command"))];
    }
    let line = |step: &Step| format!("provisioned with `{}` ({})", step.display(), why(plan.rung, step));
    plan.steps.iter().map(line).collect()
}

/// Returns what a person should know of that, one line each.
pub fn worth_knowing(forecast: &Forecast, provision: &Provision) -> Vec<String> {
    let trusted = provision.skip_if.iter();
    let mut lines: Vec<String> =
        trusted.map(|path| format!("nothing is run where {path} is there already (`skip_if`)")).collect();
    lines.extend(forecast.plan.warnings.clone());
    lines.extend(forecast.hints.iter().filter(|hint| !forecast.plan.warnings.contains(hint)).cloned());
    lines
}

fn why(rung: Rung, step: &Step) -> String {
    match (rung, step.row()) {
        (Rung::Explicit, None) => "the graph says so".into(),
        (Rung::Hook, _) => "the repository's own hook at the base commit".into(),
        (Rung::Explicit | Rung::Detected | Rung::Nothing, Some(row)) => {
            let marker = row.locks.first().or(row.manifests.first()).unwrap_or(&"its marker files");
            format!("detected by marker files: {marker}")
        }
        (Rung::Detected | Rung::Nothing, None) => "detected by marker files".into(),
    }
}

fn local_files(overlay: &Overlay) -> String {
    let included = overlay.include_file.then_some("what .worktreeinclude names");
    let named = overlay.paths.iter().map(String::as_str).chain(included);
    format!("  local files copied in, where they are there: {}", named.collect::<Vec<_>>().join(", "))
}

/// Returns what runs an agent, and what it may do, in a line.
fn of_agent(agent: &Agent) -> String {
    let mut line = agent.runtimes.join(", else ");
    for (what, value) in [("model", &agent.model), ("agent", &agent.agent)] {
        line.push_str(&value.as_ref().map(|value| format!(", {what} {value}")).unwrap_or_default());
    }
    line.push_str(&format!(", permission mode {}", agent.permission.word()));
    if !agent.allowed_tools.is_empty() {
        line.push_str(&format!(", tools {}", agent.allowed_tools.join(", ")));
    }
    if let Some(budget) = agent.budget {
        line.push_str(&format!(", at most {budget}"));
    }
    if agent.goes_on {
        line.push_str(", in the session of the node before it");
    }
    line
}

/// Returns the nodes so that each comes after what it waits for; among those that could begin, the
/// longest path to a sink first, then file order, as the scheduler has it.
fn launch_order(graph: &Graph) -> Vec<NodeIx> {
    let mut unmet: BTreeMap<NodeIx, usize> =
        graph.node_ixs().map(|ix| (ix, graph.node(ix).depends_on.len())).collect();
    let mut order = Vec::new();
    let mut ready: std::collections::BTreeSet<(std::cmp::Reverse<u32>, NodeIx)> = unmet
        .iter()
        .filter(|(_, count)| **count == 0)
        .map(|(ix, _)| (std::cmp::Reverse(graph.rank(*ix)), *ix))
        .collect();
    while let Some((_, ix)) = ready.pop_first() {
        order.push(ix);
        for (next, _) in graph.dependents(ix) {
            if let Some(count) = unmet.get_mut(&next) {
                *count -= 1;
                if *count == 0 {
                    ready.insert((std::cmp::Reverse(graph.rank(next)), next));
                }
            }
        }
    }
    order
}

fn node(graph: &Graph, ix: NodeIx) -> Vec<String> {
    let node = graph.node(ix);
    let mut head = format!("{}:", node.id);
    match node.lane {
        Some(lane) => head.push_str(&format!(" in lane {}", graph.lane(lane).name)),
        None if graph.is_gate(ix) => {}
        None => head.push_str(" in the folder omg was started in"),
    }
    if !node.depends_on.is_empty() {
        let names: Vec<String> = node
            .depends_on
            .iter()
            .map(|dependency| {
                let id = &graph.node(dependency.node).id;
                match dependency.on {
                    On::Passed => id.to_string(),
                    On::Finished => format!("{id} (finished)"),
                    On::Failed => format!("{id} (failed)"),
                }
            })
            .collect();
        head.push_str(&format!(", after {}", names.join(", ")));
    }
    let mut lines = vec![head];
    match &node.kind {
        NodeKind::Command { run } => {
            lines.extend(run.written(graph).lines().map(|line| format!("  $ {line}")));
        }
        NodeKind::Agent(agent) => {
            lines.push(format!("  asks {}", of_agent(agent)));
            lines.extend(agent.prompt.written(graph).lines().map(|line| format!("  > {line}")));
        }
        NodeKind::Gate => {
            let what = node.description.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
            lines.push(format!("  waits for a person{what}"));
        }
    }
    if let Some(verify) = &node.check.verify {
        lines.push(format!("  verify: {}", verify.command.written(graph)));
    }
    lines
}
