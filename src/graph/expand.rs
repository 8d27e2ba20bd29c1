//! Fragments spliced into a graph: names bound, ids and tokens moved into the citing node's space.
//!
//! Works on trees, before anything is read as typed: a bound value may be any key's.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::code::Code;
use super::excerpt::clip;
use super::fragment::{Body, Fragment, read_fragment};
use super::keys::NodeKey;
use super::problem::{Pos, Problem, Report};
use super::source::parse;
use super::template::{Stretch, Token, stretches, token};
use super::tree::{Entry, Tree, Value};
use crate::ids::is_id;

/// Returns the path to show for a fragment and its text, by the name in a `use`.
///
/// `None` is for a fragment that is not there, an error for one that can't be read as text.
pub type Fragments<'a> = &'a dyn Fn(&str) -> Option<Result<(String, String), Box<Problem>>>;

/// Longest chain of fragments that cite each other, in files.
const CHAIN_MAX: usize = 3;

/// Most nodes that a graph may have once its fragments are spliced.
const NODES_MAX: usize = 1_000_000;

/// Most text that the points of fragments may make, in bytes.
const FILLED_IN_BYTES_MAX: usize = 64 << 20;

/// The nodes of a graph without any `use`.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    /// In file order; a subgraph stands where it was cited.
    pub nodes: Vec<Expansion>,
    /// By the name of each spliced subgraph.
    pub exits: BTreeMap<String, Exit>,
    /// Ids of nodes whose citation could not be carried out.
    pub turned_down: Vec<String>,
}

/// The end of a spliced subgraph: what depends on the subgraph depends on it.
#[derive(Clone, Debug)]
pub(super) struct Exit {
    /// The id of the node that ends it.
    pub node: String,
    /// Where the subgraph was cited.
    pub at: Pos,
}

/// A node, and where it comes from.
#[derive(Clone, Debug)]
pub(super) struct Expansion {
    pub tree: Rc<Tree>,
    /// Whether a splice made its id, which may then hold a `/`.
    pub spliced: bool,
    /// For a node out of a fragment: the place of the citing node in the main file.
    pub cited_at: Option<Pos>,
    /// The fragments that led here, outermost first.
    chain: Vec<String>,
}

/// Returns the nodes with every `use` carried out; what can't be is left out, after saying why.
pub(super) fn expand(report: &mut Report, trees: Vec<Rc<Tree>>, fragments: Fragments<'_>) -> Expanded {
    let mut splicer =
        Splicer { report, fragments, known: BTreeMap::new(), exits: BTreeMap::new(), filled_in: 0 };
    let mut nodes = Vec::with_capacity(trees.len());
    let mut turned_down = Vec::new();
    // Innermost next: what a citation yields takes its place before what follows it.
    let written = |tree| Expansion { tree, spliced: false, cited_at: None, chain: Vec::new() };
    let mut open: Vec<Expansion> = trees.into_iter().rev().map(written).collect();
    while let Some(next) = open.pop() {
        if nodes.len() + open.len() >= NODES_MAX {
            let message = format!("this graph has more than {NODES_MAX} nodes, fragments spliced in");
            splicer.report.error(Code::TooManyNodes, next.cited_at.unwrap_or(next.tree.at), message);
            break;
        }
        match next.tree.entry("use") {
            Some(cited) => {
                let cited = cited.clone();
                let made = splicer.cite(&next, &cited);
                if made.is_empty() {
                    let id = next.tree.entry("id").and_then(|id| id.value.text());
                    turned_down.extend(id.map(str::to_owned));
                }
                open.extend(made.into_iter().rev());
            }
            None => {
                if let Some(with) = next.tree.entry("with") {
                    splicer.report.error(Code::WithWithoutUse, with.at, "`with` binds nothing without `use`");
                }
                nodes.push(next);
            }
        }
    }
    let exits = &splicer.exits;
    // A subgraph may end with another one; ids grow inwards, so this ends.
    let settle = |exit: &Exit| {
        let mut node = &exit.node;
        while let Some(inner) = exits.get(node) {
            node = &inner.node;
        }
        Exit { node: node.clone(), at: exit.at }
    };
    let exits = exits.iter().map(|(subgraph, exit)| (subgraph.clone(), settle(exit))).collect();
    Expanded { nodes, exits, turned_down }
}

struct Splicer<'r, 'f> {
    report: &'r mut Report,
    fragments: Fragments<'f>,
    known: BTreeMap<String, Option<Rc<Fragment>>>,
    exits: BTreeMap<String, Exit>,
    /// Bytes of text that points of fragments have made.
    filled_in: usize,
}

/// What the text of a fragment is rewritten by.
struct Rewrite<'a> {
    bound: &'a BTreeMap<&'a str, Rc<Tree>>,
    /// For a fragment with nodes of its own.
    inner: Option<Inner<'a>>,
}

/// The nodes inside a fragment, and what comes before their ids outside of it.
#[derive(Clone, Copy)]
struct Inner<'a> {
    nodes: &'a [(String, Rc<Tree>)],
    prefix: &'a str,
}

impl Splicer<'_, '_> {
    /// Returns the nodes that `citing` stands for; they may cite further fragments.
    fn cite(&mut self, citing: &Expansion, cited: &Entry) -> Vec<Expansion> {
        let Some(name) = cited.value.text() else {
            let message = format!("`use` takes the name of a fragment, not {}", cited.value.what());
            self.report.error(Code::WrongType, cited.value.at, message);
            return Vec::new();
        };
        let at = cited.value.at;
        let mut chain = citing.chain.clone();
        chain.push(name.to_owned());
        if citing.chain.iter().any(|earlier| earlier == name) {
            let message = format!("the fragment `{name}` cites itself: {}", chain.join(" → "));
            self.report.error(Code::FragmentCycle, at, message);
            return Vec::new();
        }
        if chain.len() > CHAIN_MAX {
            let message =
                format!("fragments cite each other more than {CHAIN_MAX} deep: {}", chain.join(" → "));
            self.report.error(Code::FragmentDepth, at, message);
            return Vec::new();
        }
        let Some(fragment) = self.fragment(name, at) else { return Vec::new() };
        let Some(bound) = self.bind(&citing.tree, &fragment, name, at) else { return Vec::new() };
        let id_place = citing.tree.entry("id").map_or(citing.tree.at, |id| id.value.at);
        let cited_at = Some(citing.cited_at.unwrap_or(id_place));
        match &fragment.body {
            Body::Node(body) => {
                let tree = self.fill_in(&citing.tree, body, &Rewrite { bound: &bound, inner: None });
                vec![Expansion { tree, spliced: citing.spliced, cited_at, chain }]
            }
            Body::Nodes { nodes, exit } => {
                let Some(prefix) = self.subgraph_id(citing) else { return Vec::new() };
                if let Some(first) = self.exits.get(&prefix) {
                    let place = self.report.place(first.at, id_place);
                    let message = format!("two nodes are named `{prefix}`; the first is at {place}");
                    self.report.error(Code::DuplicateId, id_place, message);
                    return Vec::new();
                }
                self.exits.insert(prefix.clone(), Exit { node: format!("{prefix}/{exit}"), at: id_place });
                let rewrite = Rewrite { bound: &bound, inner: Some(Inner { nodes, prefix: &prefix }) };
                let splice = |(_, node): &(String, Rc<Tree>)| Expansion {
                    tree: self.move_in(&citing.tree, node, &rewrite),
                    spliced: true,
                    cited_at,
                    chain: chain.clone(),
                };
                nodes.iter().map(splice).collect()
            }
        }
    }

    fn fragment(&mut self, name: &str, at: Pos) -> Option<Rc<Fragment>> {
        if !is_id(name) {
            let message = format!("`use` takes the bare name of a fragment, not `{}`", clip(name));
            self.report.error(Code::UnknownFragment, at, message);
            return None;
        }
        if let Some(known) = self.known.get(name) {
            return known.clone();
        }
        let read = match (self.fragments)(name) {
            Some(Ok((shown, text))) => parse(self.report, &shown, &text)
                .and_then(|root| read_fragment(self.report, name, &root))
                .map(Rc::new),
            Some(Err(problem)) => {
                self.report.foreign(*problem);
                None
            }
            None => {
                self.report
                    .error(Code::UnknownFragment, at, format!("there is no fragment `{name}`"))
                    .hint(format!("a fragment lies beside the graph, as `fragments/{name}.yaml`"));
                None
            }
        };
        self.known.insert(name.to_owned(), read.clone());
        read
    }

    /// Returns what each point of a fragment is bound to; every one is, and nothing else.
    fn bind<'f>(
        &mut self,
        citing: &Tree,
        fragment: &'f Fragment,
        name: &str,
        at: Pos,
    ) -> Option<BTreeMap<&'f str, Rc<Tree>>> {
        let with = citing.entry("with");
        let given = match with.map(|with| (with, with.value.entries())) {
            None => &[],
            Some((_, Some(entries))) => entries,
            Some((with, None)) => {
                let message = format!("`with` takes a map, not {}", with.value.what());
                self.report.error(Code::WrongType, with.value.at, message);
                return None;
            }
        };
        for entry in given.iter().filter(|entry| !fragment.points.contains(&entry.key)) {
            let near = self.report.nearest(&entry.key, fragment.points.iter().map(String::as_str));
            let message = format!("the fragment `{name}` has no point `{}`", clip(&entry.key));
            let problem = self.report.error(Code::UnknownSubstitution, entry.at, message);
            if let Some(near) = near {
                problem.hint(format!("did you mean `{near}`?"));
            }
        }
        let mut bound = BTreeMap::new();
        for point in &fragment.points {
            match given.iter().find(|entry| entry.key == *point) {
                Some(entry) => drop(bound.insert(point.as_str(), entry.value.clone())),
                None => {
                    let message =
                        format!("the fragment `{name}` needs `{point}`, which `with` does not bind");
                    self.report.error(Code::UnboundSubstitution, with.map_or(at, |with| with.at), message);
                }
            }
        }
        (bound.len() == fragment.points.len()).then_some(bound)
    }

    /// Returns the id under which a subgraph is spliced, after saying which keys it can't take.
    fn subgraph_id(&mut self, citing: &Expansion) -> Option<String> {
        const TAKEN: [&str; 6] = ["id", "depends_on", "cwd", "worktree", "use", "with"];
        for entry in citing.tree.entries().unwrap_or_default() {
            if !TAKEN.contains(&entry.key.as_str()) && NodeKey::of(&entry.key).is_some() {
                let message = format!("`{}` has no single node here: the fragment holds several", entry.key);
                self.report
                    .error(Code::SubgraphKey, entry.at, message)
                    .hint("only `id`, `depends_on`, `cwd`, `worktree` and `with` go with such a `use`");
            }
        }
        let id = citing.tree.entry("id").and_then(|entry| Some((entry.value.text()?, entry.value.at)));
        match id {
            Some((id, _)) if citing.spliced || is_id(id) => Some(id.to_owned()),
            Some((id, at)) => {
                self.report.error(Code::BadId, at, format!("`{}` can't name a node", clip(id)));
                None
            }
            None => {
                self.report.error(Code::MissingKey, citing.tree.at, "this node has no `id`");
                None
            }
        }
    }

    /// Returns the one node of a fragment with the citing node's keys in place of its own.
    fn fill_in(&mut self, citing: &Tree, body: &Tree, rewrite: &Rewrite<'_>) -> Rc<Tree> {
        let own = citing.entries().unwrap_or_default();
        if let Some(prompt) = own.iter().find(|entry| entry.key == "prompt") {
            self.report.error(Code::PromptBesideUse, prompt.at, "the `prompt` is the fragment's own");
        }
        let mut entries: Vec<Entry> =
            own.iter().filter(|entry| !matches!(entry.key.as_str(), "use" | "with")).cloned().collect();
        for entry in self.rewritten_entries(body, rewrite) {
            if own.iter().all(|own| own.key != entry.key || matches!(own.key.as_str(), "use" | "with")) {
                entries.push(entry);
            }
        }
        Tree::made(citing.at, Value::Map(entries))
    }

    /// Returns a node of a subgraph under its name outside, with the edges and the place it inherits.
    fn move_in(&mut self, citing: &Tree, node: &Tree, rewrite: &Rewrite<'_>) -> Rc<Tree> {
        let prefix = rewrite.inner.map_or("", |inner| inner.prefix);
        let mut entries = Vec::new();
        for mut entry in self.rewritten_entries(node, rewrite) {
            match entry.key.as_str() {
                "id" => entry.value = prefixed(&entry.value, prefix),
                "depends_on" => entry.value = prefixed_list(&entry.value, prefix),
                "feedback" => {
                    entry.value = with_entry(&entry.value, "rerun", |rerun| prefixed(rerun, prefix))
                }
                _ => {}
            }
            entries.push(entry);
        }
        let begins =
            node.entry("depends_on").is_none_or(|edges| edges.value.items().is_some_and(<[_]>::is_empty));
        if begins && let Some(edges) = citing.entry("depends_on") {
            entries.retain(|entry| entry.key != "depends_on");
            entries.push(edges.clone());
        }
        let is_gate = node.entry("type").is_some_and(|kind| kind.value.text() == Some("gate"));
        if !is_gate {
            let places = ["cwd", "worktree"].into_iter().filter_map(|key| citing.entry(key));
            entries.extend(places.cloned());
        }
        Tree::made(node.at, Value::Map(entries))
    }

    fn rewritten_entries(&mut self, node: &Tree, rewrite: &Rewrite<'_>) -> Vec<Entry> {
        let mut entries = Vec::new();
        for entry in node.entries().unwrap_or_default() {
            let value = self.rewritten(&entry.value, rewrite);
            // A point bound to nothing, as a key's whole value, is how a citation says "without".
            let is_left_out = value.text() == Some("") && entry.value.text() != Some("");
            if !is_left_out {
                entries.push(Entry { value, ..entry.clone() });
            }
        }
        entries
    }

    /// Recursion is over one node's value: its depth is bounded where it was read.
    fn rewritten(&mut self, tree: &Rc<Tree>, rewrite: &Rewrite<'_>) -> Rc<Tree> {
        match &tree.value {
            Value::List(items) => {
                let items = items.iter().map(|item| self.rewritten(item, rewrite)).collect();
                Tree::made(tree.at, Value::List(items))
            }
            Value::Map(entries) => {
                let rewritten =
                    |entry: &Entry| Entry { value: self.rewritten(&entry.value, rewrite), ..entry.clone() };
                let entries = entries.iter().map(rewritten).collect();
                Tree::made(tree.at, Value::Map(entries))
            }
            Value::Text { text, .. } if !text.contains("{{") => tree.clone(),
            Value::Text { text, plain } => match stretches(text.trim()).as_slice() {
                [Stretch::Token { body, .. }] if matches!(token(body), Some(Token::With(_))) => {
                    let Some(Token::With(point)) = token(body) else { return tree.clone() };
                    self.bound(point, rewrite, tree.at).unwrap_or_else(|| tree.clone())
                }
                _ => {
                    let text = self.rewritten_text(text, tree.at, rewrite);
                    Tree::made(tree.at, Value::Text { text, plain: *plain })
                }
            },
        }
    }

    fn rewritten_text(&mut self, text: &str, at: Pos, rewrite: &Rewrite<'_>) -> String {
        let mut out = String::with_capacity(text.len());
        for stretch in stretches(text) {
            match stretch {
                Stretch::Text(literal) => out.push_str(&literal.replace("{{", "{{{{")),
                Stretch::Unclosed { .. } => out.push_str("{{"),
                Stretch::Token { body, .. } => match token(body) {
                    Some(Token::With(point)) => match self.bound(point, rewrite, at) {
                        Some(bound) if bound.entries().is_none() && bound.items().is_none() => {
                            out.push_str(self.counted(bound.text().unwrap_or_default(), bound.at));
                        }
                        Some(bound) => {
                            let message = format!(
                                "`{point}` stands inside text, so it takes text, not {}",
                                bound.what()
                            );
                            self.report.error(Code::WrongType, bound.at, message);
                        }
                        None => {}
                    },
                    Some(Token::Artifact { id, inline }) => {
                        let filter = if inline { " | inline" } else { "" };
                        out.push_str(&format!("{{{{ artifacts.{}{filter} }}}}", rewrite.outside(id)));
                    }
                    Some(Token::Feedback(id)) => {
                        out.push_str(&format!("{{{{ feedback.{} }}}}", rewrite.outside(id)));
                    }
                    _ => out.push_str(&format!("{{{{{body}}}}}")),
                },
            }
        }
        out
    }

    /// Returns the text, or nothing where points have made more of it than a graph may hold.
    fn counted<'t>(&mut self, text: &'t str, at: Pos) -> &'t str {
        let before = self.filled_in;
        self.filled_in = before.saturating_add(text.len());
        if self.filled_in <= FILLED_IN_BYTES_MAX {
            return text;
        }
        if before <= FILLED_IN_BYTES_MAX {
            let message =
                format!("the points of fragments make more than {} MiB of text", FILLED_IN_BYTES_MAX >> 20);
            self.report.error(Code::ExpansionTooLarge, at, message);
        }
        ""
    }

    fn bound(&mut self, point: &str, rewrite: &Rewrite<'_>, at: Pos) -> Option<Rc<Tree>> {
        let bound = rewrite.bound.get(point).cloned();
        if bound.is_none() {
            let message = format!("`{{{{ with.{point} }}}}` is not among the fragment's `substitutions`");
            self.report.error(Code::UndeclaredSubstitution, at, message);
        }
        bound
    }
}

impl Rewrite<'_> {
    /// Returns the name outside of an id in a token of the fragment.
    fn outside(&self, id: &str) -> String {
        match self.inner {
            Some(Inner { nodes, prefix }) if nodes.iter().any(|(inner, _)| inner == id) => {
                format!("{prefix}/{id}")
            }
            _ => id.to_owned(),
        }
    }
}

fn prefixed(tree: &Tree, prefix: &str) -> Rc<Tree> {
    let text = format!("{prefix}/{}", tree.text().unwrap_or_default());
    Tree::made(tree.at, Value::Text { text, plain: false })
}

/// Every edge inside a fragment is to a node inside: an unknown one then dangles under its new name.
fn prefixed_list(tree: &Rc<Tree>, prefix: &str) -> Rc<Tree> {
    let Some(items) = tree.items() else { return tree.clone() };
    let moved = |item: &Rc<Tree>| {
        if item.text().is_some() {
            prefixed(item, prefix)
        } else {
            with_entry(item, "id", |id| prefixed(id, prefix))
        }
    };
    Tree::made(tree.at, Value::List(items.iter().map(moved).collect()))
}

/// Returns a map with one of its values changed; anything else as it is.
fn with_entry(tree: &Rc<Tree>, key: &str, change: impl Fn(&Tree) -> Rc<Tree>) -> Rc<Tree> {
    let Some(entries) = tree.entries() else { return tree.clone() };
    let changed = |entry: &Entry| {
        let value = if entry.key == key { change(&entry.value) } else { entry.value.clone() };
        Entry { value, ..entry.clone() }
    };
    Tree::made(tree.at, Value::Map(entries.iter().map(changed).collect()))
}

#[cfg(test)]
mod tests {
    use crate::graph::model::{Dependency, NodeKind, On, Piece};
    use crate::graph::{Graph, Problem, Trust, load, render};
    use crate::ids::{LaneIx, NodeIx};

    const SINGLE: &str = "\
fragment: single
description: d
substitutions: [cmd, limit, env]
node: {run: 'x {{ with.cmd }}', timeout: '{{ with.limit }}', env: '{{ with.env }}', retry: {max: 1}}
";
    const SEVERAL: &str = "\
fragment: several
description: d
substitutions: [cmd]
exit: last
nodes:
- {id: first, run: '{{{{ {{ with.cmd }}'}
- {id: judge, depends_on: [first], prompt: '{{ feedback.judge }}', feedback: {rerun: first, max: 1}}
- {id: last, depends_on: [{id: judge, on: finished}], run: 'cat {{ artifacts.first }} {{ artifacts.start }}'}
";
    const OUTER: &str = "\
fragment: outer
description: d
substitutions: [cmd]
exit: b
nodes:
- {id: a, run: a}
- {id: b, use: several, depends_on: [a], with: {cmd: '{{ artifacts.a }} {{ with.cmd }}'}}
";

    fn load_with(nodes: &str, files: &[(&str, &str)]) -> Result<Graph, Vec<Problem>> {
        let find = |name: &str| {
            let (_, text) = files.iter().find(|(file, _)| *file == name)?;
            Some(Ok((format!("fragments/{name}.yaml"), (*text).to_owned())))
        };
        load("g.yaml", &format!("name: x\nnodes:\n{nodes}"), &find, Trust::Reviewed)
            .map(|loaded| loaded.graph)
    }

    #[track_caller]
    fn good(nodes: &str) -> Graph {
        load_with(nodes, &[("single", SINGLE), ("several", SEVERAL), ("outer", OUTER)])
            .unwrap_or_else(|problems| panic!("{}", render(&problems, false)))
    }

    #[track_caller]
    fn check(nodes: &str, fragment: &str, expected: &[&str], words: &str) {
        let problems = load_with(nodes, &[("f", fragment), ("several", SEVERAL)]).unwrap_err();
        let place = |problem: &Problem| {
            let file = problem.file.trim_start_matches("fragments/");
            format!("{file}:{}:{} {}", problem.line, problem.column, problem.code)
        };
        let found: Vec<String> = problems.iter().map(place).collect();
        assert_eq!(found, expected, "{}", render(&problems, false));
        assert!(problems[0].message.contains(words), "{}", problems[0].message);
    }

    fn run(graph: &Graph, at: u32) -> &[Piece] {
        match &graph.node(NodeIx(at)).kind {
            NodeKind::Command { run } => &run.0,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_node_takes_the_place_of_its_citation() {
        let graph = good(
            "- {id: start, run: x}\n- id: n\n  use: single\n  depends_on: [start]\n  retry: {max: 5}\n\
             \x20 with: {cmd: 'cat {{ artifacts.start }}', limit: '', env: {A: b}}\n",
        );
        let node = graph.node(NodeIx(1));
        assert_eq!((node.id.as_str(), node.retry.max, node.timeout), ("n", 5, None));
        assert_eq!(run(&graph, 1), [Piece::Text("x cat ".into()), Piece::ArtifactPath(NodeIx(0))]);
        assert_eq!(node.env.keys().collect::<Vec<_>>(), ["A"]);
    }

    #[test]
    fn several_nodes_move_into_the_space_of_their_citation() {
        let graph = good(
            "- {id: start, run: x}\n- {id: s, use: several, depends_on: [start], worktree: l, with: {cmd: '{{ run.id }}'}}\n\
             - {id: end, run: 'cat {{ artifacts.s }}', depends_on: [s]}\n",
        );
        let ids: Vec<&str> = graph.nodes().iter().map(|node| node.id.as_str()).collect();
        assert_eq!(ids, ["start", "s/first", "s/judge", "s/last", "end"]);
        assert_eq!(graph.node(NodeIx(1)).depends_on, [Dependency { node: NodeIx(0), on: On::Passed }]);
        assert_eq!(graph.node(NodeIx(3)).depends_on, [Dependency { node: NodeIx(2), on: On::Finished }]);
        assert_eq!(graph.node(NodeIx(4)).depends_on, [Dependency { node: NodeIx(3), on: On::Passed }]);
        assert_eq!(run(&graph, 1), [Piece::Text("{{ ".into()), Piece::RunId]);
        let text = |text: &str| Piece::Text(text.into());
        let [first, start] = [1, 0].map(|node| Piece::ArtifactPath(NodeIx(node)));
        assert_eq!(run(&graph, 3), [text("cat "), first, text(" "), start]);
        assert_eq!(run(&graph, 4)[1], Piece::ArtifactPath(NodeIx(3)));
        let lanes: Vec<Option<LaneIx>> = graph.nodes().iter().map(|node| node.lane).collect();
        assert_eq!(lanes, [None, Some(LaneIx(0)), Some(LaneIx(0)), Some(LaneIx(0)), None]);
        // What stands in a fragment is listed at its citation.
        assert!(graph.parts().later.iter().all(|later| (later.line, later.column) == (4, 8)));
    }

    #[test]
    fn fragments_cite_fragments() {
        let graph = good(
            "- {id: start, run: x}\n- {id: o, use: outer, depends_on: [start], with: {cmd: c}}\n\
             - {id: end, run: 'cat {{ artifacts.o }}', depends_on: [o]}\n",
        );
        let ids: Vec<&str> = graph.nodes().iter().map(|node| node.id.as_str()).collect();
        assert_eq!(ids, ["start", "o/a", "o/b/first", "o/b/judge", "o/b/last", "end"]);
        assert_eq!(run(&graph, 2)[1], Piece::ArtifactPath(NodeIx(1)));
        assert_eq!(run(&graph, 5)[1], Piece::ArtifactPath(NodeIx(4)));
    }

    #[test]
    fn bindings_are_checked_both_ways() {
        let f = "fragment: f\ndescription: d\nsubstitutions: [cmd]\nnode: {run: '{{ with.cmd }} x'}\n";
        check("- {id: a, use: f}\n", f, &["g.yaml:3:16 unbound-substitution"], "needs `cmd`");
        check(
            "- {id: a, use: f, with: {cmd: x, cmt: y}}\n",
            f,
            &["g.yaml:3:34 unknown-substitution"],
            "`cmt`",
        );
        check(
            "- {id: a, use: f, with: {cmd: [x]}}\n",
            f,
            &["g.yaml:3:31 wrong-type"],
            "takes text, not a list",
        );
        check("- {id: a, use: f, with: x}\n", f, &["g.yaml:3:25 wrong-type"], "`with` takes a map");
        let f = f.replace("[cmd]", "[]");
        check("- {id: a, use: f}\n", &f, &["f.yaml:4:13 undeclared-substitution"], "`{{ with.cmd }}`");
    }

    #[test]
    fn a_fragment_keeps_its_own_rules() {
        let head = "fragment: f\ndescription: d\n";
        let at = |body: &str| format!("{head}{body}");
        let cite = "- {id: a, use: f}\n";
        check(cite, &at(""), &["f.yaml:1:1 fragment-body"], "neither `node` nor `nodes`");
        check(
            cite,
            &at("node: {id: b, run: x}\n"),
            &["f.yaml:3:8 fragment-body"],
            "belongs to the node that cites",
        );
        check(cite, &at("nodes: [{id: b, run: x}]\n"), &["f.yaml:3:1 missing-key"], "no `exit`");
        check(
            cite,
            &at("exit: c\nnodes: [{id: b, run: x}]\n"),
            &["f.yaml:3:7 unknown-node"],
            "`exit` names `c`",
        );
        check(cite, &at("nod: {run: x}\n"), &["f.yaml:1:1 fragment-body", "f.yaml:3:1 unknown-key"], "");
        check(
            cite,
            "fragment: g\nnode: {run: x}\n",
            &["f.yaml:1:1 missing-key", "f.yaml:1:11 fragment-name"],
            "",
        );
        check(cite, &at("node: {run: 'x\n"), &["f.yaml:3:13 yaml-syntax"], "this is not YAML");
        check(cite, &at("node: {run: x, timeout: 3}\n"), &["f.yaml:3:25 wrong-duration"], "`timeout`");
    }

    #[test]
    fn a_subgraph_takes_its_name() {
        let cite =
            |id: &str| format!("- {{id: {id}, use: several, depends_on: [start], with: {{cmd: x}}}}\n");
        let start = "- {id: start, run: x}\n";
        let twice = format!("{start}{}{}", cite("s"), cite("s"));
        check(&twice, "", &["g.yaml:5:8 duplicate-id"], "the first is at line 4");
        let also = format!("{start}{}- {{id: S, run: x}}\n", cite("s"));
        check(&also, "", &["g.yaml:4:8 duplicate-id"], "differ in case only");
        let looped = format!(
            "{start}{}- {{id: e, prompt: p, depends_on: [s], feedback: {{rerun: s, max: 1}}}}\n",
            cite("s")
        );
        check(&looped, "", &["g.yaml:5:57 feedback-target"], "a spliced subgraph");
    }

    #[test]
    fn what_points_make_is_bounded() {
        let f = format!(
            "fragment: f\ndescription: d\nsubstitutions: [p]\nnode: {{run: '{}'}}\n",
            "{{ with.p }}".repeat(1_000)
        );
        let text = "x".repeat(100_000);
        let nodes = format!("- {{id: a, use: f, with: {{p: {text}}}}}\n");
        check(&nodes, &f, &["g.yaml:3:29 expansion-too-large"], "more than 64 MiB");
    }

    #[test]
    fn citations_have_limits() {
        let f = "fragment: f\ndescription: d\nnode: {use: f}\n";
        check("- {id: a, use: f}\n", f, &["f.yaml:3:13 fragment-cycle"], "f → f");
        check("- {id: a, use: ../f}\n", f, &["g.yaml:3:16 unknown-fragment"], "the bare name");
        check("- {id: a, use: none-such}\n", f, &["g.yaml:3:16 unknown-fragment"], "no fragment `none-such`");
        check(
            "- {id: a, use: f, prompt: p}\n",
            &f.replace("use: f", "prompt: q"),
            &["g.yaml:3:19 prompt-beside-use"],
            "",
        );
        check(
            "- {id: start, run: x}\n- {id: a, use: several, depends_on: [start], with: {cmd: x}, retry: {max: 1}}\n",
            f,
            &["g.yaml:4:62 subgraph-key"],
            "`retry` has no single node here",
        );
        let chain: Vec<(String, String)> = (0..4)
            .map(|at| {
                let text = format!("fragment: f{at}\ndescription: d\nnode: {{use: f{}}}\n", at + 1);
                (format!("f{at}"), text)
            })
            .collect();
        let chain: Vec<(&str, &str)> =
            chain.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let problems = load_with("- {id: a, use: f0}\n", &chain).unwrap_err();
        assert_eq!(
            (problems[0].code.word(), problems[0].file.as_str()),
            ("fragment-depth", "fragments/f2.yaml")
        );
    }
}
