//! A part of a graph: what `--only`, `--from` and `--until` leave of it, as a graph of its own.
//!
//! What is not selected is taken as given: it counts as passed. So its edges are dropped, and a node that
//! runs only where one of them fails is left out, unless it was named itself.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Graph;
use super::model::{Dependency, FeedbackArc, GraphParts, Node, NodeKind, On, Piece, Template};
use super::problem::nearest;
use super::resolve::{artifact_mentions, artifact_variable};
use crate::ids::{LaneIx, NodeIx};

/// The nodes that were asked for, by name; a name of a spliced fragment means all its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Exactly these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// These and all that waits for them, directly or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// These and all that they wait for, directly or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub until: Vec<String>,
}

impl Selection {
    /// Returns whether nothing was asked for, so that the whole graph is meant.
    pub fn is_empty(&self) -> bool {
        self.only.is_empty() && self.from.is_empty() && self.until.is_empty()
    }

    /// Returns the flag by which a further node is selected.
    fn flag(&self) -> &'static str {
        if self.only.is_empty() { "--from" } else { "--only" }
    }
}

impl fmt::Display for Selection {
    /// Writes it as the flags that ask for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = [("--only", &self.only), ("--from", &self.from), ("--until", &self.until)];
        let words = flags.iter().flat_map(|(flag, names)| names.iter().map(move |name| (flag, name)));
        for (at, (flag, name)) in words.enumerate() {
            write!(f, "{}{flag} {name}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// A part of a graph.
#[derive(Clone, Debug)]
pub struct Part {
    /// The selected nodes in file order, with the edges among them.
    pub graph: Graph,
    /// What a person should know of it, a line each.
    pub notes: Vec<String>,
}

/// Why a part of a graph can't stand by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// No node has that name.
    #[error("no node `{name}` in this graph")]
    Unknown {
        /// The name.
        name: String,
        /// The nearest that is known.
        near: Option<String>,
    },
    /// No node is both `--from` and `--until` the named ones.
    #[error("`{0}` selects no node: no path leads from the one to the other")]
    Nothing(Selection),
    /// A token needs the result of a node that is not selected.
    #[error("{who} names `{{{{ artifacts.{needs} }}}}`, and `{needs}` is not selected")]
    Artifact {
        /// Where the token stands: ``node `x` ``.
        who: String,
        /// The node.
        needs: String,
        /// The flag that would select it.
        flag: &'static str,
    },
    /// A token needs a lane in which no selected node works before.
    #[error("{who} names `{{{{ lanes.{lane}.{what} }}}}`, and no node before it in that lane is selected")]
    Lane {
        /// Where the token stands.
        who: String,
        /// The lane.
        lane: String,
        /// `branch` or `path`.
        what: &'static str,
    },
}

impl SelectError {
    /// Returns the way out.
    pub fn hint(&self) -> Option<String> {
        match self {
            SelectError::Unknown { near, .. } => near.as_ref().map(|near| format!("did you mean `{near}`?")),
            SelectError::Nothing(_) => None,
            SelectError::Artifact { needs, flag, .. } => Some(format!("add `{flag} {needs}`")),
            SelectError::Lane { .. } => Some("select the node that works there too".into()),
        }
    }
}

/// Returns the part of `graph` that `wanted` asks for. Takes time in the size of the graph, and for `--only`
/// in the number of names too.
///
/// Errors: every name that is unknown; else that nothing is left; else every token that needs what is not
/// selected.
pub fn select(graph: &Graph, wanted: &Selection) -> Result<Part, Vec<SelectError>> {
    let order = dependencies_first(graph);
    let named = Named::of(graph, wanted)?;
    let mut is_in = named.selected(graph, &order);
    let notes = leave_out(graph, &order, &named, &mut is_in);
    if !is_in.contains(&true) {
        return Err(vec![SelectError::Nothing(wanted.clone())]);
    }
    let cut = Cut::new(graph, &order, is_in);
    cut.part(wanted, notes)
}

/// Returns the nodes so that each comes after what it waits for.
fn dependencies_first(graph: &Graph) -> Vec<NodeIx> {
    let mut order: Vec<NodeIx> = graph.node_ixs().collect();
    // What is waited for has a longer path before it than what waits.
    order.sort_by_key(|ix| std::cmp::Reverse(graph.rank(*ix)));
    order
}

/// The nodes that flags name, a mark a node; `None` where a flag was not given.
struct Named {
    only: Option<Vec<bool>>,
    from: Option<Vec<bool>>,
    until: Option<Vec<bool>>,
}

impl Named {
    fn of(graph: &Graph, wanted: &Selection) -> Result<Named, Vec<SelectError>> {
        let mut unknown = Vec::new();
        let mut marks = |names: &[String]| {
            let mut marks = vec![false; graph.nodes().len()];
            for name in names {
                let found = meant(graph, name);
                found.iter().for_each(|ix| marks[ix.at()] = true);
                if found.is_empty() {
                    let near = nearest(name, graph.nodes().iter().map(|node| node.id.as_str()));
                    let near = near.map(str::to_string);
                    unknown.push(SelectError::Unknown { name: name.clone(), near });
                }
            }
            (!names.is_empty()).then_some(marks)
        };
        let named =
            Named { only: marks(&wanted.only), from: marks(&wanted.from), until: marks(&wanted.until) };
        if unknown.is_empty() { Ok(named) } else { Err(unknown) }
    }

    fn has(&self, ix: NodeIx) -> bool {
        [&self.only, &self.from, &self.until].into_iter().flatten().any(|marks| marks[ix.at()])
    }

    /// Returns a mark for each node that every given flag selects.
    fn selected(&self, graph: &Graph, order: &[NodeIx]) -> Vec<bool> {
        let mut is_in = self.only.clone().unwrap_or_else(|| vec![true; graph.nodes().len()]);
        if let Some(mut from) = self.from.clone() {
            for ix in order {
                from[ix.at()] |= graph.node(*ix).depends_on.iter().any(|edge| from[edge.node.at()]);
            }
            is_in.iter_mut().zip(from).for_each(|(is_in, from)| *is_in &= from);
        }
        if let Some(mut until) = self.until.clone() {
            for ix in order.iter().rev() {
                if until[ix.at()] {
                    graph.node(*ix).depends_on.iter().for_each(|edge| until[edge.node.at()] = true);
                }
            }
            is_in.iter_mut().zip(until).for_each(|(is_in, until)| *is_in &= until);
        }
        is_in
    }
}

/// Returns the node of that name, or all nodes of the fragment that was spliced in under it.
fn meant(graph: &Graph, name: &str) -> Vec<NodeIx> {
    let is_inside = |id: &str| id.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'));
    match graph.node_ix(name) {
        Some(ix) => vec![ix],
        None => graph.node_ixs().filter(|ix| is_inside(graph.node(*ix).id.as_str())).collect(),
    }
}

/// Takes out what could not run although everything unselected passed, and what needs its result; returns a
/// line for each. What was named stays: who names it wants it.
fn leave_out(graph: &Graph, order: &[NodeIx], named: &Named, is_in: &mut [bool]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut out = vec![false; is_in.len()];
    for &ix in order.iter().filter(|ix| !named.has(**ix)) {
        if !is_in[ix.at()] {
            continue;
        }
        let never = graph.node(ix).depends_on.iter().find(|edge| {
            let at = edge.node.at();
            match edge.on {
                On::Failed => !is_in[at],
                On::Passed => out[at],
                On::Finished => false,
            }
        });
        if let Some(edge) = never {
            (is_in[ix.at()], out[ix.at()]) = (false, true);
            let before = &graph.node(edge.node).id;
            let why = match edge.on {
                On::Failed => format!("it runs only if `{before}` fails"),
                On::Passed | On::Finished => format!("it needs `{before}`"),
            };
            notes.push(format!("`{}` is left out: {why}, which is not selected", graph.node(ix).id));
        }
    }
    notes
}

/// A graph, the nodes that are selected of it, and their new places.
struct Cut<'g> {
    graph: &'g Graph,
    /// Where each node stands among the selected; `None` for the others.
    place: Vec<Option<NodeIx>>,
    /// Where each lane stands among those that selected nodes name.
    lane_place: BTreeMap<LaneIx, LaneIx>,
    /// Whether each node comes after a selected one.
    is_after: Vec<bool>,
}

impl<'g> Cut<'g> {
    fn new(graph: &'g Graph, order: &[NodeIx], is_in: Vec<bool>) -> Cut<'g> {
        let mut count = 0;
        let mut lane_place = BTreeMap::new();
        let mut place = Vec::with_capacity(is_in.len());
        for (node, is_in) in graph.nodes().iter().zip(&is_in) {
            place.push(is_in.then_some(NodeIx(count)));
            count += u32::from(*is_in);
            if let (true, Some(lane)) = (is_in, node.lane) {
                let next = LaneIx(lane_place.len() as u32);
                lane_place.entry(lane).or_insert(next);
            }
        }
        let mut is_after = vec![false; is_in.len()];
        for ix in order {
            let mut before = graph.node(*ix).depends_on.iter().map(|edge| edge.node.at());
            is_after[ix.at()] = before.any(|at| is_in[at] || is_after[at]);
        }
        Cut { graph, place, lane_place, is_after }
    }

    fn part(&self, wanted: &Selection, mut notes: Vec<String>) -> Result<Part, Vec<SelectError>> {
        let whole = self.graph.parts();
        let chosen: Vec<NodeIx> = self.graph.node_ixs().filter(|ix| self.place[ix.at()].is_some()).collect();
        let mut lost = Vec::new();
        let env = whole.env.iter().map(|(name, text)| {
            (name.clone(), self.template(text, "the graph's `env`", wanted.flag(), &mut lost))
        });
        let env = env.collect();
        let nodes: Vec<Node> = chosen.iter().map(|ix| self.node(*ix, wanted.flag(), &mut lost)).collect();
        let mut lanes: Vec<(LaneIx, LaneIx)> =
            self.lane_place.iter().map(|(old, new)| (*new, *old)).collect();
        lanes.sort();
        let arc = |arc: &FeedbackArc| {
            let (node, rerun) = (self.place[arc.node.at()]?, self.place[arc.rerun.at()]?);
            Some(FeedbackArc { node, rerun, max: arc.max })
        };
        let parts = GraphParts {
            env,
            nodes,
            lanes: lanes.into_iter().map(|(_, old)| self.graph.lane(old).clone()).collect(),
            feedback: whole.feedback.iter().filter_map(arc).collect(),
            ..self.without_nodes()
        };
        // A part of a graph without cycles has none.
        let graph = Graph::from(parts);
        self.check_lanes(&chosen, &graph, &mut lost);
        if !lost.is_empty() {
            return Err(lost);
        }
        notes.extend(self.unset(&chosen));
        Ok(Part { graph, notes })
    }

    /// Returns what holds for a graph whatever its nodes.
    fn without_nodes(&self) -> GraphParts {
        let whole = self.graph.parts();
        GraphParts {
            name: whole.name.clone(),
            inputs: whole.inputs.clone(),
            env: Default::default(),
            shell: whole.shell.clone(),
            concurrency: whole.concurrency,
            on_fail: whole.on_fail,
            base: whole.base.clone(),
            provision: whole.provision.clone(),
            overlay: whole.overlay.clone(),
            cleanup: whole.cleanup,
            pass_env: whole.pass_env.clone(),
            identity: whole.identity.clone(),
            lanes: Vec::new(),
            nodes: Vec::new(),
            budget: whole.budget,
            runtimes: whole.runtimes.clone(),
            feedback: Vec::new(),
            later: whole.later.clone(),
        }
    }

    fn node(&self, ix: NodeIx, flag: &'static str, lost: &mut Vec<SelectError>) -> Node {
        let mut node = Node { depends_on: Vec::new(), ..self.graph.node(ix).clone() };
        let who = format!("node `{}`", node.id);
        node.depends_on = self.edges(ix);
        node.lane = node.lane.and_then(|lane| self.lane_place.get(&lane).copied());
        templates_mut(&mut node, |text| *text = self.template(text, &who, flag, lost));
        node
    }

    /// Returns what a node waits for among the selected: directly, or through nodes that are not selected.
    fn edges(&self, ix: NodeIx) -> Vec<Dependency> {
        let direct = &self.graph.node(ix).depends_on;
        let moved = |edge: &Dependency| Some(Dependency { node: self.place[edge.node.at()]?, on: edge.on });
        let mut edges: Vec<Dependency> = direct.iter().filter_map(moved).collect();
        let through =
            |edge: &&Dependency| self.place[edge.node.at()].is_none() && self.is_after[edge.node.at()];
        let mut open: Vec<Dependency> = direct.iter().filter(through).copied().collect();
        // Whether a node was met by a path that needs each result on it.
        let mut met: BTreeMap<NodeIx, On> = BTreeMap::new();
        while let Some(at) = open.pop() {
            for edge in &self.graph.node(at.node).depends_on {
                let on = if (at.on, edge.on) == (On::Passed, On::Passed) { On::Passed } else { On::Finished };
                let before = met.get(&edge.node).copied();
                if before.is_none() || before == Some(On::Finished) && on == On::Passed {
                    met.insert(edge.node, on);
                    let next = Dependency { node: edge.node, on };
                    if through(&&next) {
                        open.push(next);
                    }
                }
            }
        }
        let known: Vec<NodeIx> = edges.iter().map(|edge| edge.node).collect();
        for (old, on) in met {
            if let Some(node) = self.place[old.at()].filter(|place| !known.contains(place)) {
                edges.push(Dependency { node, on });
            }
        }
        edges
    }

    /// Returns a template with its tokens at their new places, after noting those that lead nowhere.
    fn template(
        &self,
        text: &Template,
        who: &str,
        flag: &'static str,
        lost: &mut Vec<SelectError>,
    ) -> Template {
        let mut artifact = |of: NodeIx| {
            let place = self.place[of.at()];
            if place.is_none() {
                let needs = self.graph.node(of).id.to_string();
                lost.push(SelectError::Artifact { who: who.to_string(), needs, flag });
            }
            place.unwrap_or(of)
        };
        // A lane that is lost is found by `check_lanes`, which sees more.
        let lane = |of: LaneIx| self.lane_place.get(&of).copied().unwrap_or(of);
        let pieces = text.0.iter().filter_map(|piece| match piece {
            Piece::ArtifactPath(of) => Some(Piece::ArtifactPath(artifact(*of))),
            Piece::ArtifactText(of) => Some(Piece::ArtifactText(artifact(*of))),
            // The first round has no feedback, and who is not selected gives none later.
            Piece::Feedback(of) => self.place[of.at()].map(Piece::Feedback),
            Piece::OtherLaneBranch(of) => Some(Piece::OtherLaneBranch(lane(*of))),
            Piece::OtherLanePath(of) => Some(Piece::OtherLanePath(lane(*of))),
            Piece::Text(_)
            | Piece::Input(_)
            | Piece::RunId
            | Piece::LanePath
            | Piece::LaneBranch
            | Piece::LaneBase => Some(piece.clone()),
        });
        Template(pieces.collect())
    }

    /// Notes every token that names a lane in which nothing selected comes before its node.
    fn check_lanes(&self, chosen: &[NodeIx], part: &Graph, lost: &mut Vec<SelectError>) {
        for (ix, new) in chosen.iter().zip(part.node_ixs()) {
            let node = self.graph.node(*ix);
            for piece in templates(node).chain(self.graph.parts().env.values()).flat_map(|text| &text.0) {
                let (lane, what) = match piece {
                    Piece::OtherLaneBranch(lane) => (*lane, "branch"),
                    Piece::OtherLanePath(lane) => (*lane, "path"),
                    _ => continue,
                };
                let place = self.lane_place.get(&lane);
                if !place.is_some_and(|place| part.lanes_before(new).any(|before| before == *place)) {
                    let lane = self.graph.lane(lane).name.to_string();
                    lost.push(SelectError::Lane { who: format!("node `{}`", node.id), lane, what });
                }
            }
        }
    }

    /// Returns a line for each variable that a node's text names and that is not set in this part.
    fn unset(&self, chosen: &[NodeIx]) -> Vec<String> {
        let mut by_variable: BTreeMap<String, NodeIx> = BTreeMap::new();
        for ix in self.graph.node_ixs().filter(|ix| self.place[ix.at()].is_none()) {
            by_variable.insert(artifact_variable(self.graph.node(ix).id.as_str()), ix);
        }
        let mut notes = Vec::new();
        for node in chosen.iter().map(|ix| self.graph.node(*ix)) {
            for name in templates(node).flat_map(artifact_mentions) {
                if let Some(of) = by_variable.get(&name) {
                    let of = &self.graph.node(*of).id;
                    notes.push(format!(
                        "`{}` names `${name}`, which is not set: `{of}` is not selected",
                        node.id
                    ));
                }
            }
        }
        notes.dedup();
        notes
    }
}

fn templates(node: &Node) -> impl Iterator<Item = &Template> {
    let run = match &node.kind {
        NodeKind::Command { run } => Some(run),
        NodeKind::Agent(agent) => Some(&agent.prompt),
        NodeKind::Gate => None,
    };
    let verify = node.check.verify.as_ref();
    let of_verify =
        verify.into_iter().flat_map(|verify| [Some(&verify.command), verify.cwd.as_ref()]).flatten();
    run.into_iter().chain(&node.cwd).chain(node.env.values()).chain(of_verify)
}

fn templates_mut(node: &mut Node, mut each: impl FnMut(&mut Template)) {
    match &mut node.kind {
        NodeKind::Command { run } => each(run),
        NodeKind::Agent(agent) => each(&mut agent.prompt),
        NodeKind::Gate => {}
    }
    node.cwd.iter_mut().for_each(&mut each);
    node.env.values_mut().for_each(&mut each);
    if let Some(verify) = &mut node.check.verify {
        each(&mut verify.command);
        verify.cwd.iter_mut().for_each(each);
    }
}
