//! Fragments spliced into a graph: names bound, ids and tokens moved into the citing node's space.
//!
//! Works on trees, before anything is read as typed: a bound value may be any key's.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::code::Code;
use super::excerpt::clip;
use super::fragment::{Body, Fragment, read_fragment};
use super::keys::NodeKey;
use super::problem::{Pos, Problem, Report};
use super::source::parse;
use super::template::{Stretch, Token, stretches, token};
use super::tree::{Entry, Tree, Value, Word};
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
    names: &'a BTreeSet<&'a str>,
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
                let names = nodes.iter().map(|(id, _)| id.as_str()).collect();
                let inner = Some(Inner { names: &names, prefix: &prefix });
                let rewrite = Rewrite { bound: &bound, inner };
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
        let points: BTreeSet<&str> = fragment.points.iter().map(String::as_str).collect();
        for entry in given.iter().filter(|entry| !points.contains(entry.key.as_str())) {
            let near = self.report.nearest(&entry.key, fragment.points.iter().map(String::as_str));
            let message = format!("the fragment `{name}` has no point `{}`", clip(&entry.key));
            let problem = self.report.error(Code::UnknownSubstitution, entry.at, message);
            if let Some(near) = near {
                problem.hint(format!("did you mean `{near}`?"));
            }
        }
        let given: BTreeMap<&str, &Entry> = given.iter().map(|entry| (entry.key.as_str(), entry)).collect();
        let (mut bound, mut is_whole) = (BTreeMap::new(), true);
        for point in points {
            match given.get(point) {
                Some(entry) => drop(bound.insert(point, entry.value.clone())),
                None => {
                    is_whole = false;
                    let message =
                        format!("the fragment `{name}` needs `{}`, which `with` does not bind", clip(point));
                    self.report.error(Code::UnboundSubstitution, with.map_or(at, |with| with.at), message);
                }
            }
        }
        is_whole.then_some(bound)
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
        let taken: BTreeSet<Word> = entries.iter().map(|entry| entry.key.clone()).collect();
        let of_body = self.rewritten_entries(body, rewrite);
        entries.extend(of_body.into_iter().filter(|entry| !taken.contains(&entry.key)));
        Tree::made(citing.at, Value::Map(entries.into()))
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
        Tree::made(node.at, Value::Map(entries.into()))
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
                    Tree::made(tree.at, Value::Text { text: text.into(), plain: *plain })
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
            Some(Inner { names, prefix }) if names.contains(id) => {
                format!("{prefix}/{id}")
            }
            _ => id.to_owned(),
        }
    }
}

fn prefixed(tree: &Tree, prefix: &str) -> Rc<Tree> {
    let text = format!("{prefix}/{}", tree.text().unwrap_or_default());
    Tree::made(tree.at, Value::Text { text: text.into(), plain: false })
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
