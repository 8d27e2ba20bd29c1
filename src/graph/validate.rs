//! Everything that takes two places to know: names, lanes, edges, tokens; and the graph of it all.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;

use super::arcs;
use super::assemble::{assemble, later_features};
use super::code::Code;
use super::expand::Exit;
use super::grammar_node::with_defaults;
use super::grammar_runtime::check_runtimes;
use super::keys::NodeKey;
use super::model::{Dependency, FeedbackArc, GraphParts, Lane};
use super::problem::{Pos, Report};
use super::raw::{RawGraph, RawKind, RawNode, RawVar, RawWorktree};
use super::reach::Reach;
use super::reader::At;
use super::resolve::{Names, Resolved};
use super::tokens::TokenRules;
use crate::ids::{LaneIx, LaneName, NodeIx, is_ref_part};

/// A node as read, and where the main file names it.
#[derive(Debug)]
pub(super) struct Placed {
    pub raw: RawNode,
    /// Where it stands: its id, else the node itself.
    pub at: Pos,
    /// Where the main file stands for it: `at`, or the node that cites its fragment.
    pub cited_at: Pos,
}

/// A lane while names are gathered.
#[derive(Debug)]
struct FoundLane {
    name: String,
    at: Pos,
}

/// Everything that is known of a graph while it is checked. Vectors hold one item a node.
pub(super) struct Checked<'r> {
    pub report: &'r mut Report,
    pub nodes: Vec<Placed>,
    pub kinds: Vec<Option<RawKind>>,
    pub edges: Vec<Vec<Dependency>>,
    pub reach: Reach,
    pub on_cycles: Vec<bool>,
    /// For each node with `feedback`: the nodes that a round of it runs again.
    pub bodies: BTreeMap<u32, Vec<u32>>,
    /// The arcs that mean something, in file order.
    pub arcs: Vec<FeedbackArc>,
}

impl Checked<'_> {
    /// Returns a node's name for messages.
    pub fn name(&self, node: u32) -> &str {
        self.nodes[node as usize].raw.id.as_ref().map_or("?", |id| &id.value)
    }
}

/// Returns the parts of a graph without cycles, or `None` after saying what is wrong.
///
/// `exits` holds the end of each spliced subgraph, by its name.
pub(super) fn validate(
    report: &mut Report,
    graph: RawGraph,
    mut nodes: Vec<Placed>,
    exits: &BTreeMap<String, Exit>,
    turned_down: Vec<String>,
) -> Option<GraphParts> {
    let defaults = &graph.defaults;
    if let (Some(_), Some(at)) = (defaults.key(NodeKey::Cwd), defaults.key(NodeKey::Worktree)) {
        report.error(
            Code::CwdWithWorktree,
            at,
            "`defaults` give both `cwd` and `worktree`; a node has one place",
        );
    }
    for node in &mut nodes {
        node.raw = with_defaults(std::mem::take(&mut node.raw), defaults);
    }
    let kinds: Vec<Option<RawKind>> = nodes.iter().map(|node| check_kind(report, node)).collect();
    check_runtimes(report, &graph, &nodes, &kinds);
    let mut names = Names {
        inputs: graph.inputs.clone(),
        turned_down: turned_down.into_iter().collect(),
        ..Names::default()
    };
    check_ids(report, &nodes, exits, &mut names);
    let (lanes, lane_of) = gather_lanes(report, &nodes, &kinds, &mut names);
    let lanes = check_lanes(report, &graph, lanes);
    let edges: Vec<Vec<Dependency>> = nodes.iter().map(|node| resolve_edges(report, &names, node)).collect();
    let reach =
        Reach::new(edges.iter().map(|edges| edges.iter().map(|edge| edge.node.0).collect()).collect());
    let on_cycles = reach.on_cycles();
    let mut checked =
        Checked { report, nodes, kinds, edges, reach, on_cycles, bodies: BTreeMap::new(), arcs: Vec::new() };
    report_cycles(&mut checked);
    arcs::check(&mut checked, &names, exits);

    let graph_env = resolve_vars(checked.report, &names, &graph.env);
    let tokens = TokenRules { names: &names, lane_of: &lane_of, lanes: &lanes, graph_env: &graph_env };
    let resolved = tokens.check(&mut checked);
    if !checked.report.is_clean() {
        return None;
    }
    let later = later_features(&checked, &graph.later);
    let env = graph_env.into_iter().map(|(name, resolved)| (name, resolved.template)).collect();
    let feedback = std::mem::take(&mut checked.arcs);
    let nodes = assemble(checked, resolved, &lane_of, &graph);
    Some(GraphParts {
        name: graph.name,
        inputs: graph.inputs,
        env,
        shell: graph.shell.unwrap_or_else(|| vec!["sh".to_owned(), "-c".to_owned()]),
        concurrency: graph.concurrency,
        on_fail: graph.on_fail,
        base: graph.base,
        provision: graph.provision,
        overlay: graph.overlay,
        cleanup: graph.cleanup,
        pass_env: graph.pass_env,
        identity: graph.identity,
        lanes,
        nodes,
        budget: graph.budget,
        runtimes: graph.runtimes,
        feedback,
        later,
    })
}

/// Returns what a node is, after saying what does not fit it.
fn check_kind(report: &mut Report, node: &Placed) -> Option<RawKind> {
    let raw = &node.raw;
    let (run, prompt) = (raw.key(NodeKey::Run), raw.key(NodeKey::Prompt));
    let kind = match (raw.kind, run, prompt) {
        (Some(kind), ..) => kind.value,
        // A `type` that was no type has been reported; what else the node holds can't be judged.
        (None, ..) if raw.key(NodeKey::Type).is_some() => return None,
        (None, Some(_), Some(at)) => {
            report.error(Code::RunAndPrompt, at, "a node has either `run` or `prompt`, not both");
            return None;
        }
        (None, Some(_), None) => RawKind::Command,
        (None, None, Some(_)) => RawKind::Agent,
        (None, None, None) => {
            report
                .error(Code::NoWork, node.at, "this node has neither `run` nor `prompt`")
                .hint("add `run:` for a command, `prompt:` for an agent, or `type: gate`");
            return None;
        }
    };
    let missing = match kind {
        RawKind::Command if run.is_none() => Some(("a command", "run")),
        RawKind::Agent if prompt.is_none() => Some(("an agent", "prompt")),
        _ => None,
    };
    if let Some((what, key)) = missing {
        report.error(Code::NoWork, node.at, format!("this node is {what} and has no `{key}`"));
    }
    for &(key, at) in &raw.keys {
        let word = key.word();
        match kind {
            RawKind::Gate if !key.is_for_gates() => {
                report.error(
                    Code::GateWithMore,
                    at,
                    format!("a gate runs nothing; `{word}` has no place in it"),
                );
            }
            RawKind::Command if key == NodeKey::Prompt => {
                report.error(Code::RunAndPrompt, at, "a command has no `prompt`");
            }
            RawKind::Agent if key == NodeKey::Run => {
                report.error(Code::RunAndPrompt, at, "an agent has no `run`");
            }
            RawKind::Command if key == NodeKey::Handoff => {
                if let Some(at) = raw.wants_session {
                    report.error(
                        Code::SessionOfCommand,
                        at,
                        "a command has no session; only agents hand one over",
                    );
                }
            }
            RawKind::Command if key.is_for_agents() => {
                report.warning(Code::ForAgentsOnly, at, format!("a command does not heed `{word}`"));
            }
            _ => {}
        }
    }
    // Defaults that give both have been reported, once for all.
    if let (Some(_), Some(at)) = (raw.own_key(NodeKey::Cwd), raw.own_key(NodeKey::Worktree))
        && !matches!(&raw.worktree, Some(At { value: RawWorktree::Nothing, .. }))
    {
        report.error(Code::CwdWithWorktree, at, "a node has either `cwd` or `worktree`, not both");
    }
    Some(kind)
}

/// Gathers what names a node; no two names are alike, also when case is ignored.
fn check_ids(report: &mut Report, nodes: &[Placed], exits: &BTreeMap<String, Exit>, names: &mut Names) {
    let mut lower: BTreeMap<String, (&str, Pos)> = BTreeMap::new();
    let ids =
        nodes.iter().enumerate().filter_map(|(ix, node)| Some((node.raw.id.as_ref()?, NodeIx(ix as u32))));
    for (id, ix) in ids {
        if let Some(other) = lower.get(&id.value.to_lowercase()) {
            report_same_name(report, &id.value, id.at, *other);
            names.turned_down.insert(id.value.clone());
            continue;
        }
        lower.insert(id.value.to_lowercase(), (&id.value, id.at));
        names.nodes.insert(id.value.clone(), ix);
    }
    for (subgraph, exit) in exits {
        if let Some(other) = lower.get(&subgraph.to_lowercase()) {
            report_same_name(report, subgraph, exit.at, *other);
        } else if let Some(ix) = names.nodes.get(&exit.node).copied() {
            names.nodes.insert(subgraph.clone(), ix);
        }
    }
}

fn report_same_name(report: &mut Report, name: &str, at: Pos, (other, first): (&str, Pos)) {
    let place = report.place(first, at);
    let message = if other == name {
        format!("two nodes are named `{other}`; the other is at {place}")
    } else {
        format!("`{name}` and `{other}` ({place}) differ in case only")
    };
    report.error(Code::DuplicateId, at, message);
}

/// Returns the lanes in order of first mention, and each node's.
fn gather_lanes(
    report: &mut Report,
    nodes: &[Placed],
    kinds: &[Option<RawKind>],
    names: &mut Names,
) -> (Vec<FoundLane>, Vec<Option<LaneIx>>) {
    let mut lanes: Vec<FoundLane> = Vec::new();
    let mut lower: BTreeMap<String, LaneIx> = BTreeMap::new();
    let mut lane_of = Vec::with_capacity(nodes.len());
    for (node, kind) in nodes.iter().zip(kinds) {
        let wanted = match &node.raw.worktree {
            _ if *kind == Some(RawKind::Gate) => None,
            None | Some(At { value: RawWorktree::Nothing, .. }) => None,
            Some(At { value: RawWorktree::Lane(name), at }) => Some((name.clone(), *at)),
            Some(At { value: RawWorktree::PerNode, .. }) => {
                node.raw.id.as_ref().map(|id| (id.value.replace('/', "+"), id.at))
            }
        };
        let Some((name, at)) = wanted else {
            if let Some(at) = node.raw.own_key(NodeKey::Access)
                && *kind != Some(RawKind::Gate)
            {
                report.warning(
                    Code::AccessWithoutLane,
                    at,
                    "`access` says nothing about a node without a lane",
                );
            }
            lane_of.push(None);
            continue;
        };
        // Written lane names were checked as they were read; an id may be no part of a branch name.
        if !is_ref_part(&name) {
            let message = format!("`{name}` can't name a lane: git allows no such part in a branch name");
            report.error(Code::BadLaneName, at, message);
        }
        let ix = match lower.get(&name.to_lowercase()) {
            Some(ix) => {
                let first = &lanes[ix.at()];
                if first.name != name {
                    let place = report.place(first.at, at);
                    let message =
                        format!("lanes `{name}` and `{}` ({place}) differ in case only", first.name);
                    report.error(Code::DuplicateLane, at, message);
                }
                *ix
            }
            None => {
                let ix = LaneIx(lanes.len() as u32);
                lower.insert(name.to_lowercase(), ix);
                names.lanes.insert(name.clone(), ix);
                lanes.push(FoundLane { name, at });
                ix
            }
        };
        lane_of.push(Some(ix));
    }
    (lanes, lane_of)
}

/// Returns the lanes with what `lanes` says of them.
fn check_lanes(report: &mut Report, graph: &RawGraph, found: Vec<FoundLane>) -> Vec<Lane> {
    let named: BTreeSet<&str> = found.iter().map(|lane| lane.name.as_str()).collect();
    for entry in &graph.lanes {
        let name = &entry.name.value;
        if !named.contains(name.as_str()) {
            let near = report.nearest(name, named.iter().copied());
            let message = format!("`lanes` describes `{name}`, which no node names");
            let problem = report.error(Code::UnusedLane, entry.name.at, message);
            match near {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem.hint(format!("give a node `worktree: {name}`, or take the entry out")),
            };
        }
    }
    let said: BTreeMap<&str, _> = graph.lanes.iter().map(|lane| (lane.name.value.as_str(), lane)).collect();
    let lane = |lane: FoundLane| {
        let said = said.get(lane.name.as_str());
        Lane {
            base: said.and_then(|said| said.base.clone()),
            provision: said.and_then(|said| said.provision.clone()),
            overlay: said.and_then(|said| said.overlay.clone()),
            cleanup: said.and_then(|said| said.cleanup),
            name: LaneName::from(lane.name),
        }
    };
    found.into_iter().map(lane).collect()
}

fn resolve_edges(report: &mut Report, names: &Names, node: &Placed) -> Vec<Dependency> {
    let who = node.raw.id.as_ref().map_or("this node".to_owned(), |id| format!("node `{}`", id.value));
    let mut seen: BTreeMap<NodeIx, Pos> = BTreeMap::new();
    let mut edges = Vec::with_capacity(node.raw.depends_on.len());
    for dependency in &node.raw.depends_on {
        let id = &dependency.id;
        let Some(to) = names.node(report, &format!("{who} depends on"), &id.value, id.at) else { continue };
        match seen.get(&to) {
            Some(first) => {
                let place = report.place(*first, id.at);
                let message = format!("{who} depends on `{}` twice; the first is at {place}", id.value);
                report.error(Code::DuplicateDependency, id.at, message);
            }
            None => {
                seen.insert(to, id.at);
                edges.push(Dependency { node: to, on: dependency.on });
            }
        }
    }
    edges
}

fn report_cycles(checked: &mut Checked<'_>) {
    const SHOWN_AT_EACH_END: usize = 10;
    for cycle in checked.reach.cycles() {
        let first = checked.name(cycle[0]).to_owned();
        let mut path: Vec<String> = cycle.iter().map(|node| checked.name(*node).to_owned()).collect();
        if path.len() > 3 * SHOWN_AT_EACH_END {
            let left_out = path.len() - 2 * SHOWN_AT_EACH_END;
            let rest = path.split_off(path.len() - SHOWN_AT_EACH_END);
            path.truncate(SHOWN_AT_EACH_END);
            path.push(format!("… ({left_out} more)"));
            path.extend(rest);
        }
        path.push(first.clone());
        // The edge that begins the cycle is the place; an arrow reads "depends on".
        let next = cycle.get(1).copied().unwrap_or(cycle[0]);
        let node = &checked.nodes[cycle[0] as usize];
        let edge = node.raw.depends_on.iter().find(|edge| edge.id.value == checked.name(next));
        let at = edge.map_or(node.at, |edge| edge.id.at);
        let message = format!("node `{first}` depends on itself: {}", path.join(" → "));
        checked.report.error(Code::Cycle, at, message);
    }
}

fn resolve_vars(report: &mut Report, names: &Names, vars: &[RawVar]) -> IndexMap<String, Resolved> {
    vars.iter().map(|var| (var.name.clone(), names.resolve(report, &var.text, false))).collect()
}
