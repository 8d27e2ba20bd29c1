//! A fragment file: a node, or a small graph, with points to be filled in where it is cited.
//!
//! Reads one file and checks its own rules. What becomes of it in a graph is `expand`'s.

use std::rc::Rc;

use super::code::Code;
use super::excerpt::clip;
use super::keys::NodeKey;
use super::problem::{Pos, Report};
use super::reader::{At, Reader};
use super::tree::Tree;
use crate::ids::is_id;

/// A fragment that may be cited.
#[derive(Debug)]
pub(super) struct Fragment {
    /// The names that a citation must bind.
    pub points: Vec<String>,
    pub body: Body,
}

/// What a fragment holds.
#[derive(Debug)]
pub(super) enum Body {
    /// A node without a name, a place or edges.
    Node(Rc<Tree>),
    /// Nodes with edges among themselves. The last field is the id of the one that ends it.
    Nodes { nodes: Vec<(String, Rc<Tree>)>, exit: String },
}

const KEYS: [&str; 6] = ["fragment", "description", "substitutions", "node", "nodes", "exit"];

/// Returns the fragment in `root`, or `None` after saying what is wrong with it.
pub(super) fn read_fragment(report: &mut Report, name: &str, root: &Tree) -> Option<Fragment> {
    let mut reader = Reader { report };
    let mut points = Vec::new();
    let (mut node, mut nodes, mut exit) = (None, None, None);
    for entry in reader.map("a fragment", root)? {
        let value = &entry.value;
        match entry.key.as_str() {
            "fragment" => {
                if let Some(said) = reader.text("`fragment`", value).filter(|said| said.value != name) {
                    let message =
                        format!("this fragment is `{name}` by its file, not `{}`", clip(&said.value));
                    reader.report.error(Code::FragmentName, said.at, message);
                }
            }
            "description" => drop(reader.filled_text("`description`", value)),
            "substitutions" => {
                let texts = reader.texts("`substitutions`", "names", value).unwrap_or_default();
                points = texts.into_iter().map(|text| text.value).collect();
            }
            "node" => node = Some((entry.at, value.clone())),
            "nodes" => nodes = Some((entry.at, value.clone())),
            "exit" => exit = reader.filled_text("`exit`", value),
            key if key.starts_with("x-") => {}
            _ => reader.unknown_key("a fragment", entry, KEYS.into_iter()),
        }
    }
    for key in ["fragment", "description"] {
        if root.entry(key).is_none() {
            reader.report.error(Code::MissingKey, root.at, format!("the fragment has no `{key}`"));
        }
    }
    let body = match (node, nodes) {
        (Some((_, node)), None) => read_single(&mut reader, node)?,
        (None, Some((at, nodes))) => read_several(&mut reader, &nodes, exit, at)?,
        (Some(_), Some((at, _))) => {
            reader.report.error(Code::FragmentBody, at, "a fragment has either `node` or `nodes`, not both");
            return None;
        }
        (None, None) => {
            reader.report.error(Code::FragmentBody, root.at, "the fragment has neither `node` nor `nodes`");
            return None;
        }
    };
    Some(Fragment { points, body })
}

fn read_single(reader: &mut Reader<'_>, node: Rc<Tree>) -> Option<Body> {
    reader.map("`node`", &node)?;
    let outside = [NodeKey::Id, NodeKey::DependsOn, NodeKey::Feedback, NodeKey::Cwd, NodeKey::Worktree];
    for key in outside {
        refuse(reader, &node, key, "belongs to the node that cites the fragment");
    }
    Some(Body::Node(node))
}

fn read_several(reader: &mut Reader<'_>, tree: &Tree, exit: Option<At<String>>, at: Pos) -> Option<Body> {
    let mut nodes: Vec<(String, Rc<Tree>)> = Vec::new();
    for node in reader.list("`nodes`", "nodes", tree)? {
        reader.map("a node", node)?;
        for key in [NodeKey::Cwd, NodeKey::Worktree] {
            refuse(reader, node, key, "belongs to the node that cites the fragment");
        }
        let Some(entry) = node.entry("id") else {
            reader.report.error(Code::MissingKey, node.at, "this node has no `id`");
            continue;
        };
        let id = reader.filled_text("`id`", &entry.value)?;
        if !is_id(&id.value) {
            reader.report.error(Code::BadId, id.at, format!("`{}` can't name a node", clip(&id.value)));
            return None;
        }
        nodes.push((id.value, node.clone()));
    }
    let Some(exit) = exit else {
        reader.report.error(
            Code::MissingKey,
            at,
            "a fragment with `nodes` has no `exit`, the node that ends it",
        );
        return None;
    };
    if nodes.iter().all(|(id, _)| *id != exit.value) {
        let near = reader.report.nearest(&exit.value, nodes.iter().map(|(id, _)| id.as_str()));
        let message = format!("`exit` names `{}`, which is no node of this fragment", clip(&exit.value));
        let problem = reader.report.error(Code::UnknownNode, exit.at, message);
        if let Some(near) = near {
            problem.hint(format!("did you mean `{near}`?"));
        }
        return None;
    }
    Some(Body::Nodes { nodes, exit: exit.value })
}

fn refuse(reader: &mut Reader<'_>, node: &Tree, key: NodeKey, why: &str) {
    if let Some(entry) = node.entry(key.word()) {
        reader.report.error(Code::FragmentBody, entry.at, format!("`{}` {why}", key.word()));
    }
}
