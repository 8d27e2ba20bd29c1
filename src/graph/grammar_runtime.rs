//! `runtimes`: command lines that a graph file describes as runtimes of agents; and which names a `runtime` may give.

use indexmap::IndexMap;

use super::code::Code;
use super::excerpt::clip;
use super::keys::{NodeKey, RuntimeKey};
use super::model::{PromptWay, ResultWay, RuntimeSpec};
use super::problem::{Report, list_or};
use super::raw::{RawGraph, RawKind};
use super::reader::{At, Reader};
use super::tree::{Entry, Tree};
use super::validate::Placed;
use crate::ids::is_id;

/// Runtimes that need no description.
pub const BUILT_IN_RUNTIMES: [&str; 2] = ["claude", "codex"];

/// What runs an agent where the file does not say.
pub(super) const RUNTIME_DEFAULT: &str = "claude";

pub(super) const PROMPT_WAYS: &[(&str, PromptWay)] =
    &[("stdin", PromptWay::Stdin), ("arg", PromptWay::Arg), ("file", PromptWay::File)];

/// Reads a `runtime`: one name, or several in order.
pub(super) fn read_runtime(reader: &mut Reader<'_>, tree: &Tree) -> Vec<At<String>> {
    let names = reader.text_or_texts("`runtime`", "runtimes", tree).unwrap_or_default();
    if tree.items().is_some_and(<[_]>::is_empty) {
        reader.report.error(Code::EmptyValue, tree.at, "`runtime` names none");
    }
    names
}

/// Reads `runtimes`.
pub(super) fn read_runtimes(reader: &mut Reader<'_>, tree: &Tree) -> IndexMap<String, RuntimeSpec> {
    let mut found = IndexMap::new();
    for entry in reader.map("`runtimes`", tree).unwrap_or_default() {
        if !is_id(&entry.key) {
            let message = format!("`{}` can't name a runtime", clip(&entry.key));
            reader.report.error(Code::BadId, entry.at, message);
        } else if let Some(spec) = read_spec(reader, entry) {
            found.insert(entry.key.to_string(), spec);
        }
    }
    found
}

fn read_spec(reader: &mut Reader<'_>, entry: &Entry) -> Option<RuntimeSpec> {
    let whose = format!("runtime `{}`", clip(&entry.key));
    let mut spec = RuntimeSpec {
        command: Vec::new(),
        prompt: PromptWay::default(),
        result: ResultWay::default(),
        resume: Vec::new(),
    };
    let fields = reader.map(&whose, &entry.value)?;
    for field in fields {
        let value = &*field.value;
        match RuntimeKey::of(&field.key) {
            Some(RuntimeKey::Command) => spec.command = words(reader, "`command` of a runtime", value),
            Some(RuntimeKey::Resume) => spec.resume = words(reader, "`resume` of a runtime", value),
            Some(RuntimeKey::Prompt) => {
                let way = reader.choice("`prompt` of a runtime", PROMPT_WAYS, value);
                spec.prompt = way.map_or(PromptWay::default(), |way| way.value);
            }
            Some(RuntimeKey::Result) => {
                if let Some(text) = reader.filled_text("`result` of a runtime", value) {
                    match ResultWay::try_from(text.value.clone()) {
                        Ok(way) => spec.result = way,
                        Err(error) => {
                            let message = format!("`result` of a runtime: {error}");
                            reader.report.error(Code::UnknownValue, text.at, message);
                        }
                    }
                }
            }
            None => reader.unknown_key(&whose, field, RuntimeKey::words()),
        }
    }
    if entry.value.entry("command").is_none() {
        reader.report.error(Code::MissingKey, entry.at, format!("{whose} has no `command`"));
    }
    Some(spec)
}

fn words(reader: &mut Reader<'_>, what: &str, tree: &Tree) -> Vec<String> {
    if tree.items().is_some_and(<[_]>::is_empty) {
        reader.report.error(Code::EmptyValue, tree.at, format!("{what} is empty"));
    }
    reader.texts(what, "words", tree).unwrap_or_default().into_iter().map(|word| word.value).collect()
}

/// Says which names of runtimes mean nothing, and what a runtime can't do that it is asked for.
pub(super) fn check_runtimes(
    report: &mut Report,
    graph: &RawGraph,
    nodes: &[Placed],
    kinds: &[Option<RawKind>],
) {
    let own = nodes.iter().filter(|node| node.raw.own_key(NodeKey::Runtime).is_some());
    let given =
        [&graph.runtime, &graph.defaults.runtime].into_iter().chain(own.map(|node| &node.raw.runtime));
    let described =
        || graph.runtimes.keys().map(String::as_str).filter(|name| !BUILT_IN_RUNTIMES.contains(name));
    let known = || BUILT_IN_RUNTIMES.into_iter().chain(described());
    for name in given.flatten() {
        if !known().any(|known| known == name.value) {
            let near = report.nearest(&name.value, known());
            let message =
                format!("no runtime is named `{}`; there are {}", clip(&name.value), list_or(known()));
            let problem = report.error(Code::UnknownRuntime, name.at, message);
            match near {
                Some(near) => problem.hint(format!("did you mean `{near}`?")),
                None => problem.hint("describe it in `runtimes`"),
            };
        }
    }
    for (node, kind) in nodes.iter().zip(kinds) {
        let names = runtimes_of(graph, &node.raw.runtime);
        let is_codex = names.iter().all(|name| name == "codex") && !graph.runtimes.contains_key("codex");
        if *kind == Some(RawKind::Agent)
            && is_codex
            && let Some(at) = node.raw.key(NodeKey::Agent)
        {
            report.error(Code::WrongValue, at, "`codex` has no agents of its own to choose from");
        }
    }
}

/// Returns the names of what runs an agent whose own `runtime` is `own`: that, else the graph's, else the default.
pub(super) fn runtimes_of(graph: &RawGraph, own: &[At<String>]) -> Vec<String> {
    let given = if own.is_empty() { &graph.runtime } else { own };
    let mut names: Vec<String> = Vec::new();
    for name in given {
        if !names.contains(&name.value) {
            names.push(name.value.clone());
        }
    }
    if names.is_empty() { vec![RUNTIME_DEFAULT.to_owned()] } else { names }
}
