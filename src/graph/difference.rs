//! What is different between two graphs: node by node, lane by lane, and what holds for all nodes.
//!
//! Compares what is written, names for places: the same text at another line, or nodes in another order, is no
//! difference. Knows nothing of runs; what a difference means for one is for whoever asks.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Graph;
use super::model::{
    Access, Agent, CleanupPolicy, Dependency, FeedbackArc, GraphParts, Input, Lane, Node, NodeKind, On,
    OnFail, Overlay, Provision, ProvisionChoice, ProvisionRetry, ProvisionStep, ProvisionWhen, Retry,
    RuntimeSpec, SuccessCheck, Template, Verify,
};
use crate::ids::{LaneName, NodeId};

/// Most lines in which a difference is told.
const LINES_MAX: usize = 200;

/// What is different between two graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// What holds for all nodes, in the order of the documents.
    pub graph: Vec<Change>,
    /// Lanes: those of the new graph in its order, then those that are gone.
    pub lanes: Vec<(LaneName, What)>,
    /// Nodes: those of the new graph in its order, then those that are gone.
    pub nodes: Vec<(NodeId, What)>,
}

/// What became of a node or a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Only the new graph has it.
    Added,
    /// Only the old graph has it.
    Removed,
    /// Both have it, and these keys of it differ.
    Changed(Vec<Change>),
}

/// A key whose value differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key, as in a graph file: `run`, `env.PATH`, `success_check.verify.command`.
    pub key: String,
    /// What depends on it.
    pub weight: Weight,
    /// Its value in the old graph; `None` where it has none.
    pub before: Option<String>,
    /// Its value in the new graph; `None` where it has none.
    pub after: Option<String>,
}

/// What depends on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// What people read.
    Words,
    /// What further attempts may take, and who may be at work beside them; not what one came to.
    Limit,
    /// What an attempt came to.
    Outcome,
}

/// The keys of something with their values, as text.
type Fields = Vec<(String, Weight, String)>;

impl Difference {
    /// Returns what is different between an old graph and a new one.
    pub fn between(old: &Graph, new: &Graph) -> Difference {
        let named = |graph: &Graph| -> BTreeMap<NodeId, Fields> {
            graph.nodes().iter().map(|node| (node.id.clone(), node_fields(graph, node))).collect()
        };
        let lanes = |graph: &Graph| -> BTreeMap<LaneName, Fields> {
            graph.lanes().iter().map(|lane| (lane.name.clone(), lane_fields(lane))).collect()
        };
        let ids = |graph: &Graph| graph.nodes().iter().map(|node| node.id.clone()).collect::<Vec<_>>();
        let names = |graph: &Graph| graph.lanes().iter().map(|lane| lane.name.clone()).collect::<Vec<_>>();
        Difference {
            graph: changes(&graph_fields(old), &graph_fields(new)),
            lanes: compared(&lanes(old), &lanes(new), names(old), names(new)),
            nodes: compared(&named(old), &named(new), ids(old), ids(new)),
        }
    }

    /// Returns whether nothing is different.
    pub fn is_empty(&self) -> bool {
        self.graph.is_empty() && self.lanes.is_empty() && self.nodes.is_empty()
    }

    /// Returns whether what a node comes to may depend on a key that differs and holds for all nodes.
    pub fn concerns_all(&self) -> bool {
        self.graph.iter().any(|change| change.weight == Weight::Outcome)
    }

    /// Returns the difference in lines without values: `build: run, env.CI changed`, `lint: new`, `old: removed`.
    /// Of very many, the first.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> =
            self.graph.iter().map(|change| format!("{} changed", change.key)).collect();
        lines.extend(self.lanes.iter().map(|(name, what)| format!("lane {name}: {what}")));
        lines.extend(self.nodes.iter().map(|(id, what)| format!("{id}: {what}")));
        if lines.len() > LINES_MAX {
            let more = lines.len() - LINES_MAX;
            lines.truncate(LINES_MAX);
            lines.push(format!("… and {more} more"));
        }
        lines
    }
}

impl What {
    /// Returns the weightiest of what changed; an addition or a removal weighs as much as anything.
    pub fn weight(&self) -> Weight {
        match self {
            What::Added | What::Removed => Weight::Outcome,
            What::Changed(changes) => {
                changes.iter().map(|change| change.weight).max().unwrap_or(Weight::Words)
            }
        }
    }
}

impl std::fmt::Display for What {
    /// Writes it in a few words: `new`, `removed`, `run, env.CI changed`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            What::Added => f.write_str("new"),
            What::Removed => f.write_str("removed"),
            What::Changed(changes) => {
                let keys: Vec<&str> = changes.iter().map(|change| change.key.as_str()).collect();
                write!(f, "{} changed", keys.join(", "))
            }
        }
    }
}

fn compared<K: Ord + Clone>(
    old: &BTreeMap<K, Fields>,
    new: &BTreeMap<K, Fields>,
    old_order: Vec<K>,
    new_order: Vec<K>,
) -> Vec<(K, What)> {
    let of_new = new_order.into_iter().filter_map(|name| match (old.get(&name), new.get(&name)) {
        (Some(before), Some(after)) => {
            let changes = changes(before, after);
            (!changes.is_empty()).then_some((name, What::Changed(changes)))
        }
        (_, _) => Some((name, What::Added)),
    });
    let gone = old_order.into_iter().filter(|name| !new.contains_key(name)).map(|name| (name, What::Removed));
    of_new.chain(gone).collect()
}

fn changes(old: &Fields, new: &Fields) -> Vec<Change> {
    fn value<'f>(fields: &'f Fields, key: &str) -> Option<&'f String> {
        fields.iter().find(|(of, ..)| of == key).map(|(_, _, value)| value)
    }
    let change = |(key, weight, _): &(String, Weight, String)| {
        let (before, after) = (value(old, key), value(new, key));
        (before != after).then(|| Change {
            key: key.clone(),
            weight: *weight,
            before: before.cloned(),
            after: after.cloned(),
        })
    };
    let gone = old.iter().filter(|(key, ..)| value(new, key).is_none());
    new.iter().chain(gone).filter_map(change).collect()
}

/// Gathers keys with values.
#[derive(Default)]
struct Gathered(Fields);

impl Gathered {
    fn put(&mut self, weight: Weight, key: &str, value: impl Into<String>) {
        self.0.push((key.to_string(), weight, value.into()));
    }

    /// As `put`, where there is a value.
    fn may(&mut self, weight: Weight, key: &str, value: Option<impl Into<String>>) {
        if let Some(value) = value {
            self.put(weight, key, value);
        }
    }

    /// As `put`, where it is not empty.
    fn list(&mut self, weight: Weight, key: &str, values: &[String]) {
        self.may(weight, key, (!values.is_empty()).then(|| values.join(", ")));
    }
}

/// Each key of a node has its weight here: a new one does not compile without.
fn node_fields(graph: &Graph, node: &Node) -> Fields {
    let Node {
        id,
        kind,
        // Where it stands in the file changes nothing.
        line: _,
        description,
        depends_on,
        lane,
        access,
        cwd,
        env,
        timeout,
        check,
        retry,
        grace,
        output_max,
    } = node;
    let mut of = Gathered::default();
    of.put(Weight::Outcome, "type", kind.word());
    match kind {
        NodeKind::Command { run } => of.put(Weight::Outcome, "run", run.written(graph)),
        NodeKind::Agent(agent) => agent_fields(&mut of, graph, agent),
        NodeKind::Gate => {}
    }
    of.may(Weight::Words, "description", description.clone());
    of.list(Weight::Outcome, "depends_on", &edges(graph, depends_on));
    of.may(Weight::Outcome, "worktree", lane.map(|ix| graph.lane(ix).name.as_str()));
    // Who else may be at work meanwhile: past for a node that has passed.
    of.put(
        Weight::Limit,
        "access",
        match access {
            Access::Write => "write",
            Access::Read => "read",
        },
    );
    of.may(Weight::Outcome, "cwd", cwd.as_ref().map(|cwd| cwd.written(graph)));
    variables(&mut of, graph, env);
    of.may(Weight::Limit, "timeout", timeout.map(time));
    check_fields(&mut of, graph, check);
    of.may(Weight::Limit, "retry", retries(retry));
    of.may(
        Weight::Limit,
        "feedback",
        graph.parts().feedback.iter().find(|arc| graph.node(arc.node).id == *id).map(|arc| {
            let FeedbackArc { node: _, rerun, max } = arc;
            format!("rerun {}, max {max}", graph.node(*rerun).id)
        }),
    );
    of.put(Weight::Limit, "grace", time(*grace));
    of.put(Weight::Limit, "output_max", output_max.to_string());
    of.0
}

/// Each key of an agent, as [`node_fields`].
fn agent_fields(of: &mut Gathered, graph: &Graph, agent: &Agent) {
    let Agent { prompt, runtimes, model, agent, permission, allowed_tools, budget, goes_on } = agent;
    of.put(Weight::Outcome, "prompt", prompt.written(graph));
    of.put(Weight::Outcome, "runtime", runtimes.join(", "));
    of.may(Weight::Outcome, "model", model.clone());
    of.may(Weight::Outcome, "agent", agent.clone());
    of.put(Weight::Outcome, "permission_mode", permission.word());
    of.list(Weight::Outcome, "allowed_tools", allowed_tools);
    of.may(Weight::Limit, "budget_usd", budget.map(|budget| budget.to_string()));
    of.put(Weight::Outcome, "handoff", if *goes_on { "session" } else { "artifact" });
}

/// Causes alone buy nothing.
fn retries(retry: &Retry) -> Option<String> {
    let Retry { max, on, backoff } = retry;
    let causes: Vec<&str> = on.iter().map(|cause| cause.word()).collect();
    (*max > 0).then(|| format!("max {max}, on {}, backoff {}", causes.join(", "), time(*backoff)))
}

/// In the order of names: in which order they are written changes nothing.
fn edges(graph: &Graph, depends_on: &[Dependency]) -> Vec<String> {
    let mut edges: Vec<String> = depends_on
        .iter()
        .map(|Dependency { node, on }| {
            let id = &graph.node(*node).id;
            match on {
                On::Passed => id.to_string(),
                On::Finished => format!("{id} (finished)"),
                On::Failed => format!("{id} (failed)"),
            }
        })
        .collect();
    edges.sort();
    edges
}

fn variables(of: &mut Gathered, graph: &Graph, env: &indexmap::IndexMap<String, Template>) {
    for (name, value) in env {
        of.put(Weight::Outcome, &format!("env.{name}"), value.written(graph));
    }
}

fn check_fields(of: &mut Gathered, graph: &Graph, check: &SuccessCheck) {
    let SuccessCheck { exit_zero, result_matches, verify } = check;
    of.put(Weight::Outcome, "success_check.exit_zero", exit_zero.to_string());
    of.may(Weight::Outcome, "success_check.result_matches", result_matches.clone());
    let Some(Verify { command, cwd, timeout, expect_exit, output_matches }) = verify else { return };
    let key = |name: &str| format!("success_check.verify.{name}");
    of.put(Weight::Outcome, &key("command"), command.written(graph));
    of.may(Weight::Outcome, &key("cwd"), cwd.as_ref().map(|cwd| cwd.written(graph)));
    of.put(Weight::Limit, &key("timeout"), time(*timeout));
    of.put(Weight::Outcome, &key("expect_exit"), expect_exit.to_string());
    of.may(Weight::Outcome, &key("output_matches"), output_matches.clone());
}

/// Each key of a lane, as [`node_fields`]. What a lane is prepared with has receipts of its own.
fn lane_fields(lane: &Lane) -> Fields {
    let Lane { name: _, base, provision, overlay, cleanup } = lane;
    let mut of = Gathered::default();
    of.may(Weight::Outcome, "base", base.clone());
    if let Some(provision) = provision {
        provision_fields(&mut of, provision);
    }
    if let Some(overlay) = overlay {
        of.put(Weight::Limit, "overlay", overlaid(overlay));
    }
    of.may(Weight::Limit, "cleanup", cleanup.map(policy));
    of.0
}

/// Each key that holds for all nodes, as [`node_fields`].
fn graph_fields(graph: &Graph) -> Fields {
    let GraphParts {
        name,
        inputs,
        env,
        shell,
        concurrency,
        on_fail,
        base,
        provision,
        overlay,
        cleanup,
        pass_env,
        identity,
        lanes: _,
        nodes: _,
        budget,
        runtimes,
        // Told of with the nodes that judge.
        feedback: _,
        // Checked and not run by this build: a graph that uses one of these gets no run.
        later: _,
    } = graph.parts();
    let mut of = Gathered::default();
    of.may(Weight::Limit, "budget_usd", budget.map(|budget| budget.to_string()));
    for (name, RuntimeSpec { command, prompt, result, resume }) in runtimes {
        let way = format!("{command:?}, prompt {prompt:?}, result {result:?}, resume {resume:?}");
        of.put(Weight::Outcome, &format!("runtimes.{name}"), way);
    }
    of.put(Weight::Words, "name", name.clone());
    for (name, Input { description: _, default }) in inputs {
        // A run has values of its own.
        let value = default.as_ref().map_or("required".into(), |default| format!("default {default}"));
        of.put(Weight::Words, &format!("inputs.{name}"), value);
    }
    variables(&mut of, graph, env);
    of.put(Weight::Outcome, "shell", shell.join(" "));
    of.may(Weight::Limit, "concurrency", concurrency.map(|most| most.to_string()));
    of.put(
        Weight::Limit,
        "on_fail",
        match on_fail {
            OnFail::Halt => "halt",
            OnFail::Continue => "continue",
        },
    );
    of.may(Weight::Limit, "base", base.clone());
    provision_fields(&mut of, provision);
    if !overlay.is_empty() {
        of.put(Weight::Limit, "overlay", overlaid(overlay));
    }
    of.put(Weight::Limit, "cleanup", policy(*cleanup));
    of.list(Weight::Outcome, "pass_env", pass_env);
    let who = identity.as_ref().map(|identity| format!("{} <{}>", identity.name, identity.email));
    of.may(Weight::Outcome, "identity", who);
    of.0
}

fn provision_fields(of: &mut Gathered, provision: &Provision) {
    let Provision { choice, timeout, retry, when, max_parallel, inputs, roots, skip_if, receipt_file } =
        provision;
    let step = |step: &ProvisionStep| match step {
        ProvisionStep::Auto => "auto".to_string(),
        ProvisionStep::Command(command) => command.clone(),
    };
    let command = match choice {
        ProvisionChoice::Ladder => None,
        ProvisionChoice::Nothing => Some("none".to_string()),
        ProvisionChoice::Steps(steps) => Some(steps.iter().map(step).collect::<Vec<_>>().join("\n")),
    };
    let key = |name: &str| format!("provision.{name}");
    of.may(Weight::Limit, &key("command"), command);
    of.put(Weight::Limit, &key("timeout"), time(*timeout));
    of.put(
        Weight::Limit,
        &key("retry"),
        match retry {
            ProvisionRetry::Transient => "transient",
            ProvisionRetry::Always => "always",
            ProvisionRetry::Never => "never",
        },
    );
    let when = when.map(|when| match when {
        ProvisionWhen::RunStart => "run-start",
        ProvisionWhen::FirstUse => "first-use",
    });
    of.may(Weight::Limit, &key("when"), when);
    of.may(Weight::Limit, &key("max_parallel"), max_parallel.map(|most| most.to_string()));
    of.list(Weight::Limit, &key("inputs"), inputs);
    of.list(Weight::Limit, &key("roots"), roots);
    of.may(Weight::Limit, &key("skip_if"), skip_if.clone());
    of.may(Weight::Limit, &key("receipt_file"), receipt_file.clone());
}

fn overlaid(overlay: &Overlay) -> String {
    let Overlay { paths, include_file } = overlay;
    let included = include_file.then_some(".worktreeinclude");
    let all: Vec<&str> = paths.iter().map(String::as_str).chain(included).collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}

fn policy(policy: CleanupPolicy) -> &'static str {
    match policy {
        CleanupPolicy::Safe => "safe",
        CleanupPolicy::Discard => "discard",
    }
}

/// As a graph file has it, in the largest unit that is exact.
fn time(time: Duration) -> String {
    let ms = time.as_millis();
    match () {
        () if ms == 0 => "0s".to_string(),
        () if ms.is_multiple_of(3_600_000) => format!("{}h", ms / 3_600_000),
        () if ms.is_multiple_of(60_000) => format!("{}m", ms / 60_000),
        () if ms.is_multiple_of(1000) => format!("{}s", ms / 1000),
        () => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Trust, load};

    const OLD: &str = "name: x\nenv: {CI: '1'}\nlanes: {l: {base: main}}\nnodes:\n\
        - {id: a, run: 'echo {{ run.id }}'}\n\
        - {id: b, worktree: l, depends_on: [a], env: {K: v}, run: 'cat {{ artifacts.a }}'}\n\
        - {id: c, depends_on: [a, b], run: 'true', timeout: 5m}\n";

    fn graph(text: &str) -> Graph {
        load("g.yaml", text, &|_| None, Trust::Reviewed).unwrap().graph
    }

    #[track_caller]
    fn check(new: &str, expected: &[&str]) -> Difference {
        let difference = Difference::between(&graph(OLD), &graph(new));
        assert_eq!(difference.lines(), expected, "{new}");
        assert_eq!(difference.is_empty(), expected.is_empty());
        difference
    }

    #[track_caller]
    fn check_weight(from: &str, to: &str, expected: &[&str], weight: Weight) {
        assert!(OLD.contains(from), "{from}");
        let difference = check(&OLD.replace(from, to), expected);
        let nodes = difference.nodes.iter().map(|(_, what)| what.weight());
        let of_graph = difference.graph.iter().map(|change| change.weight);
        assert_eq!(nodes.chain(of_graph).max(), Some(weight), "{to}");
    }

    #[test]
    fn the_same_in_another_order_and_at_another_place_is_no_difference() {
        check(OLD, &[]);
        check(
            "# a comment\nname: x\nenv: {CI: '1'}\nlanes: {l: {base: main}}\nnodes:\n\n\
             - {id: c, depends_on: [b, a], run: 'true', timeout: 300s}\n\
             - {id: b, worktree: l, depends_on: [a], env: {K: v}, run: 'cat {{artifacts.a}}'}\n\
             - {id: a, run: 'echo {{ run.id }}'}\n",
            &[],
        );
    }

    #[test]
    fn each_key_is_told_and_weighed() {
        let outcome = |from, to, line| check_weight(from, to, &[line], Weight::Outcome);
        outcome("run: 'true'", "run: 'false'", "c: run changed");
        outcome("{K: v}", "{K: w, L: x}", "b: env.K, env.L changed");
        outcome("{K: v}", "{}", "b: env.K changed");
        outcome("depends_on: [a, b]", "depends_on: [b]", "c: depends_on changed");
        outcome("depends_on: [a, b]", "depends_on: [b, {id: a, on: finished}]", "c: depends_on changed");
        outcome("timeout: 5m", "timeout: 5m, cwd: sub", "c: cwd changed");
        outcome("timeout: 5m", "timeout: 5m, worktree: l", "c: worktree changed");
        let check_key = "c: success_check.result_matches changed";
        outcome("timeout: 5m", "timeout: 5m, success_check: {result_matches: x}", check_key);
        outcome("{CI: '1'}", "{CI: '2'}", "env.CI changed");
        outcome("name: x", "name: x\nshell: [bash, -c]", "shell changed");
        // The token, and the text that looks like it.
        outcome("{{ run.id }}", "{{{{ run.id }}", "a: run changed");
        let limit = |from, to, line| check_weight(from, to, &[line], Weight::Limit);
        limit("timeout: 5m", "timeout: 6m, retry: {max: 2}", "c: timeout, retry changed");
        limit("timeout: 5m", "timeout: 5m, grace: 1s, output_max: 1MiB", "c: grace, output_max changed");
        limit("worktree: l", "worktree: l, access: read", "b: access changed");
        limit("name: x", "name: x\nconcurrency: 3", "concurrency changed");
        limit("name: x", "name: x\nbase: main", "base changed");
        limit("name: x", "name: x\nprovision: make", "provision.command changed");
        check_weight(
            "timeout: 5m",
            "timeout: 5m, description: d",
            &["c: description changed"],
            Weight::Words,
        );
    }

    #[test]
    fn nodes_and_lanes_come_and_go() {
        let new = "name: x\nenv: {CI: '1'}\nnodes:\n\
            - {id: a, run: 'echo {{ run.id }}'}\n- {id: d, worktree: m, run: 'true'}\n\
            - {id: c, depends_on: [a], run: 'true', timeout: 5m}\n";
        check(new, &["lane m: new", "lane l: removed", "d: new", "c: depends_on changed", "b: removed"]);
    }

    #[test]
    fn of_very_many_differences_the_first_are_told() {
        let nodes: String = (0..300).map(|at| format!("- {{id: n{at}, run: x}}\n")).collect();
        let difference = Difference::between(&graph(OLD), &graph(&format!("{OLD}{nodes}")));
        assert_eq!(difference.nodes.len(), 300);
        assert_eq!(difference.lines().len(), 201);
        assert_eq!(difference.lines()[200], "… and 100 more");
    }
}
