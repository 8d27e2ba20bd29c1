//! The top of a graph file: every key that does not belong to a node.
//!
//! Reads shapes and single values only; what needs two places is `validate`'s.

use std::rc::Rc;

use indexmap::IndexMap;

use super::code::Code;
use super::excerpt::clip;
use super::grammar_node::{read_defaults, read_env};
use super::grammar_runtime::{read_runtime, read_runtimes};
use super::keys::{GraphKey, IdentityKey, InputKey, LaneKey, PreflightKey, ProvisionKey};
use super::model::{
    CleanupPolicy, Identity, Input, OnFail, Provision, ProvisionChoice, ProvisionRetry, ProvisionStep,
    ProvisionWhen,
};
use super::overlay::read_overlay;
use super::problem::Pos;
use super::raw::{RawGraph, RawLane};
use super::reader::{At, Reader};
use super::tree::{Entry, Tree};
use crate::ids::{is_id, is_ref_part};

pub(super) const CLEANUPS: &[(&str, CleanupPolicy)] =
    &[("safe", CleanupPolicy::Safe), ("discard", CleanupPolicy::Discard)];

pub(super) const ON_FAILS: &[(&str, OnFail)] = &[("halt", OnFail::Halt), ("continue", OnFail::Continue)];

pub(super) const PROVISION_RETRIES: &[(&str, ProvisionRetry)] = &[
    ("transient", ProvisionRetry::Transient),
    ("always", ProvisionRetry::Always),
    ("never", ProvisionRetry::Never),
];

pub(super) const PROVISION_WHENS: &[(&str, ProvisionWhen)] =
    &[("run-start", ProvisionWhen::RunStart), ("first-use", ProvisionWhen::FirstUse)];

/// Returns the top of the graph and the trees of its nodes, `None` where the file is no map.
pub(super) fn read_graph(reader: &mut Reader<'_>, root: &Tree) -> Option<(RawGraph, Vec<Rc<Tree>>)> {
    let mut graph = RawGraph::default();
    let mut nodes = None;
    let mut has_name = false;
    for entry in reader.map("a graph file", root)? {
        match GraphKey::of(&entry.key) {
            Some(GraphKey::Nodes) => nodes = Some(&entry.value),
            Some(key) => {
                has_name |= key == GraphKey::Name;
                read_key(reader, &mut graph, key, entry);
            }
            None if entry.key.starts_with("x-") => {}
            None => {
                reader.unknown_key("a graph", entry, GraphKey::words());
            }
        }
    }
    if !has_name {
        reader.report.error(Code::MissingKey, root.at, "the graph has no `name`");
    }
    let Some(nodes) = nodes else {
        reader.report.error(Code::MissingKey, root.at, "the graph has no `nodes`");
        return Some((graph, Vec::new()));
    };
    let items = reader.list("`nodes`", "nodes", nodes).unwrap_or_default();
    if nodes.items().is_some_and(<[_]>::is_empty) {
        reader.report.error(Code::NoNodes, nodes.at, "`nodes` is empty; a graph has at least one node");
    }
    Some((graph, items.to_vec()))
}

fn read_key(reader: &mut Reader<'_>, graph: &mut RawGraph, key: GraphKey, entry: &Entry) {
    let value = &*entry.value;
    match key {
        GraphKey::Name => {
            if let Some(name) = reader.filled_text("`name`", value) {
                graph.name = name.value;
            }
        }
        GraphKey::Version | GraphKey::Description => {
            reader.text(&format!("`{}`", entry.key), value);
        }
        GraphKey::Inputs => graph.inputs = read_inputs(reader, value),
        GraphKey::Env => graph.env = read_env(reader, value).unwrap_or_default(),
        GraphKey::Shell => graph.shell = read_shell(reader, value),
        GraphKey::Concurrency => graph.concurrency = reader.positive("`concurrency`", value),
        GraphKey::OnFail => {
            graph.on_fail =
                reader.choice("`on_fail`", ON_FAILS, value).map_or(OnFail::Halt, |on_fail| on_fail.value);
        }
        GraphKey::Base => graph.base = reader.filled_text("`base`", value).map(|base| base.value),
        GraphKey::Lanes => graph.lanes = read_lanes(reader, &mut graph.later, value),
        GraphKey::Provision => {
            graph.provision = read_provision(reader, value).unwrap_or_default();
        }
        GraphKey::Overlay => {
            graph.overlay = read_overlay(reader, "`overlay`", value).unwrap_or_default();
        }
        GraphKey::Preflight => {
            later(&mut graph.later, "`preflight`", entry.at);
            read_preflight(reader, value);
        }
        GraphKey::Cleanup => {
            graph.cleanup =
                reader.choice("`cleanup`", CLEANUPS, value).map_or(CleanupPolicy::Safe, |to| to.value);
        }
        GraphKey::Grace => graph.grace = reader.duration("`grace`", value).map(|grace| grace.value),
        GraphKey::OutputMax => graph.output_max = reader.size("`output_max`", value).map(|size| size.value),
        GraphKey::PassEnv => graph.pass_env = read_variable_names(reader, "`pass_env`", value),
        GraphKey::Identity => graph.identity = read_identity(reader, value),
        GraphKey::Runtime => graph.runtime = read_runtime(reader, value),
        GraphKey::Runtimes => graph.runtimes = read_runtimes(reader, value),
        GraphKey::BudgetUsd => graph.budget = reader.budget("`budget_usd`", value),
        GraphKey::OnFault => {
            later(&mut graph.later, "`on_fault`", entry.at);
            reader.map("`on_fault`", value);
        }
        GraphKey::Defaults => graph.defaults = read_defaults(reader, value),
        // The caller takes them out: fragments are spliced before nodes are read.
        GraphKey::Nodes => {}
    }
}

fn later(found: &mut Vec<At<String>>, feature: &str, at: Pos) {
    found.push(At { at, value: feature.to_owned() });
}

fn read_inputs(reader: &mut Reader<'_>, tree: &Tree) -> IndexMap<String, Input> {
    let mut inputs = IndexMap::new();
    if let Some(entries) = tree.entries() {
        for entry in entries {
            if check_input_name(reader, &entry.key, entry.at) {
                inputs.insert(entry.key.to_string(), read_input(reader, entry));
            }
        }
    } else if tree.items().is_some() {
        for name in reader.texts("`inputs`", "names", tree).unwrap_or_default() {
            let is_good = check_input_name(reader, &name.value, name.at);
            if is_good && inputs.insert(name.value.clone(), Input::default()).is_some() {
                let message = format!("the input `{}` is declared twice", clip(&name.value));
                reader.report.error(Code::DuplicateInput, name.at, message);
            }
        }
    } else {
        reader.wrong_type::<()>(
            "`inputs`",
            "a list of names, or a map from names to `{description, default}`",
            tree,
        );
    }
    inputs
}

fn check_input_name(reader: &mut Reader<'_>, name: &str, at: Pos) -> bool {
    // A name that no token could hold would be an input that nothing can use.
    let is_good = is_id(name.strip_prefix('_').filter(|rest| !rest.is_empty()).unwrap_or(name));
    if !is_good {
        let name = clip(name);
        let message = format!("`{name}` can't name an input; letters, digits, `.`, `_` and `-` can");
        reader.report.error(Code::BadInputName, at, message);
    }
    is_good
}

fn read_input(reader: &mut Reader<'_>, entry: &Entry) -> Input {
    let mut input = Input::default();
    if entry.value.is_null() {
        return input;
    }
    let whose = format!("input `{}`", entry.key);
    for field in reader.map(&whose, &entry.value).unwrap_or_default() {
        let what = format!("`{}` of {whose}", field.key);
        match InputKey::of(&field.key) {
            Some(InputKey::Description) => {
                input.description = reader.text(&what, &field.value).map(|text| text.value)
            }
            Some(InputKey::Default) => {
                input.default = reader.text(&what, &field.value).map(|text| text.value)
            }
            None => reader.unknown_key(&whose, field, InputKey::words()),
        }
    }
    input
}

fn read_shell(reader: &mut Reader<'_>, tree: &Tree) -> Option<Vec<String>> {
    let words = reader.texts("`shell`", "words such as `[bash, -euo, pipefail, -c]`", tree)?;
    if words.is_empty() {
        reader.report.error(Code::EmptyValue, tree.at, "`shell` is empty");
        return None;
    }
    Some(words.into_iter().map(|word| word.value).collect())
}

fn read_variable_names(reader: &mut Reader<'_>, what: &str, tree: &Tree) -> Vec<String> {
    let names = reader.texts(what, "names of variables", tree).unwrap_or_default();
    for name in &names {
        if name.value.contains('=') {
            reader.report.error(
                Code::BadVariable,
                name.at,
                format!("`{}` can't name a variable", clip(&name.value)),
            );
        }
    }
    names.into_iter().map(|name| name.value).collect()
}

fn read_identity(reader: &mut Reader<'_>, tree: &Tree) -> Option<Identity> {
    let (mut name, mut email) = (None, None);
    for entry in reader.map("`identity`", tree)? {
        match IdentityKey::of(&entry.key) {
            Some(IdentityKey::Name) => name = reader.filled_text("`identity.name`", &entry.value),
            Some(IdentityKey::Email) => email = reader.filled_text("`identity.email`", &entry.value),
            None => reader.unknown_key("`identity`", entry, IdentityKey::words()),
        }
    }
    for key in IdentityKey::words() {
        if tree.entry(key).is_none() {
            reader.report.error(Code::MissingKey, tree.at, format!("`identity` has no `{key}`"));
        }
    }
    Some(Identity { name: name?.value, email: email?.value })
}

fn read_preflight(reader: &mut Reader<'_>, tree: &Tree) {
    for entry in reader.map("`preflight`", tree).unwrap_or_default() {
        let what = format!("`preflight.{}`", entry.key);
        match PreflightKey::of(&entry.key) {
            Some(PreflightKey::Tools) => drop(reader.texts(&what, "names of tools", &entry.value)),
            Some(PreflightKey::Env) => drop(read_variable_names(reader, &what, &entry.value)),
            Some(PreflightKey::MinFree) => drop(reader.size(&what, &entry.value)),
            Some(PreflightKey::Identity) => drop(reader.boolean(&what, &entry.value)),
            Some(PreflightKey::Baseline) => drop(reader.filled_text(&what, &entry.value)),
            None => reader.unknown_key("`preflight`", entry, PreflightKey::words()),
        }
    }
}

fn read_lanes(reader: &mut Reader<'_>, found: &mut Vec<At<String>>, tree: &Tree) -> Vec<RawLane> {
    let mut lanes = Vec::new();
    for entry in reader.map("`lanes`", tree).unwrap_or_default() {
        let name = At { at: entry.at, value: entry.key.to_string() };
        check_lane_name(reader, &name.value, name.at);
        let mut lane = RawLane { name, base: None, provision: None, overlay: None, cleanup: None };
        let whose = format!("lane `{}`", entry.key);
        let fields = if entry.value.is_null() { None } else { reader.map(&whose, &entry.value) };
        for field in fields.unwrap_or_default() {
            let what = format!("`{}` of {whose}", field.key);
            match LaneKey::of(&field.key) {
                Some(LaneKey::Base) => {
                    lane.base = reader.filled_text(&what, &field.value).map(|base| base.value)
                }
                Some(LaneKey::Provision) => lane.provision = read_provision(reader, &field.value),
                Some(LaneKey::Overlay) => lane.overlay = read_overlay(reader, &what, &field.value),
                Some(LaneKey::Ports) => {
                    later(found, "`ports`", field.at);
                    reader.count(&what, 1, &field.value);
                }
                Some(LaneKey::Cleanup) => {
                    lane.cleanup = reader.choice(&what, CLEANUPS, &field.value).map(|to| to.value)
                }
                None => reader.unknown_key(&whose, field, LaneKey::words()),
            }
        }
        lanes.push(lane);
    }
    lanes
}

/// Says what keeps `name` from being a lane's, and returns whether nothing does.
pub(super) fn check_lane_name(reader: &mut Reader<'_>, name: &str, at: Pos) -> bool {
    let shown = clip(name);
    let (code, message) = if !is_id(name) {
        let rule = "letters and digits first, then also `.`, `_` and `-`, at most 64 characters";
        (Code::BadLaneName, format!("`{shown}` can't name a lane: {rule}"))
    } else if !is_ref_part(name) {
        (Code::BadLaneName, format!("`{name}` can't name a lane: git allows no such part in a branch name"))
    } else if is_reserved_lane_name(name) {
        (Code::ReservedLaneName, format!("the lane name `{name}` is reserved"))
    } else {
        return true;
    };
    reader.report.error(code, at, message);
    false
}

fn is_reserved_lane_name(name: &str) -> bool {
    let is_set_aside = name
        .rsplit_once(".old-")
        .is_some_and(|(_, number)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()));
    is_set_aside || name.eq_ignore_ascii_case("none") || name.eq_ignore_ascii_case("per-node")
}

/// Says that a path leaves the repository, where it does, and returns whether it stays inside.
pub(super) fn check_inner_path(reader: &mut Reader<'_>, what: &str, path: &At<String>) -> bool {
    let leaves = path.value.starts_with(['/', '~']) || path.value.split('/').any(|part| part == "..");
    if leaves {
        let message = format!("{what} takes paths inside the repository, not `{}`", clip(&path.value));
        reader.report.error(Code::PathLeavesRepository, path.at, message);
    }
    !leaves
}

/// Reads a `provision` in any of its forms: a map, a command, `none`, or a list of steps.
fn read_provision(reader: &mut Reader<'_>, tree: &Tree) -> Option<Provision> {
    let Some(entries) = tree.entries() else {
        let choice = read_provision_choice(reader, "`provision`", tree)?;
        return Some(Provision { choice, ..Provision::default() });
    };
    let mut provision = Provision::default();
    for entry in entries {
        let value = &*entry.value;
        let what = format!("`provision.{}`", entry.key);
        let Some(key) = ProvisionKey::of(&entry.key) else {
            reader.unknown_key("`provision`", entry, ProvisionKey::words());
            continue;
        };
        match key {
            ProvisionKey::Command => {
                if let Some(choice) = read_provision_choice(reader, &what, value) {
                    provision.choice = choice;
                }
            }
            ProvisionKey::Timeout => {
                if let Some(timeout) = reader.limit(&what, value) {
                    provision.timeout = timeout.value;
                }
            }
            ProvisionKey::Retry => {
                provision.retry = reader
                    .choice(&what, PROVISION_RETRIES, value)
                    .map_or(ProvisionRetry::Transient, |to| to.value);
            }
            ProvisionKey::When => {
                provision.when = reader.choice(&what, PROVISION_WHENS, value).map(|when| when.value);
            }
            ProvisionKey::MaxParallel => provision.max_parallel = reader.positive(&what, value),
            ProvisionKey::Inputs => provision.inputs = read_inner_paths(reader, &what, value),
            ProvisionKey::Roots => provision.roots = read_inner_paths(reader, &what, value),
            ProvisionKey::SkipIf => provision.skip_if = read_inner_path(reader, &what, value),
            ProvisionKey::ReceiptFile => provision.receipt_file = read_inner_path(reader, &what, value),
        }
    }
    Some(provision)
}

fn read_inner_path(reader: &mut Reader<'_>, what: &str, tree: &Tree) -> Option<String> {
    let path = reader.filled_text(what, tree)?;
    check_inner_path(reader, what, &path);
    Some(path.value)
}

fn read_inner_paths(reader: &mut Reader<'_>, what: &str, tree: &Tree) -> Vec<String> {
    let paths = reader.texts(what, "paths", tree).unwrap_or_default();
    for path in &paths {
        check_inner_path(reader, what, path);
    }
    paths.into_iter().map(|path| path.value).collect()
}

fn read_provision_choice(reader: &mut Reader<'_>, what: &str, tree: &Tree) -> Option<ProvisionChoice> {
    let step = |text: String| if text == "auto" { ProvisionStep::Auto } else { ProvisionStep::Command(text) };
    if tree.text().is_some() {
        let text = reader.filled_text(what, tree)?;
        return Some(match text.value.as_str() {
            "none" => ProvisionChoice::Nothing,
            _ => ProvisionChoice::Steps(vec![step(text.value)]),
        });
    }
    if tree.items().is_none() {
        return reader.wrong_type(what, "a command, `none`, or a list like `[auto, \"make assets\"]`", tree);
    }
    let steps = reader.texts(what, "commands", tree)?;
    if steps.is_empty() {
        reader
            .report
            .error(Code::EmptyValue, tree.at, format!("{what} is empty"))
            .hint("write `none` for nothing to do");
        return None;
    }
    if let Some(none) = steps.iter().find(|step| step.value == "none") {
        reader.report.error(
            Code::WrongValue,
            none.at,
            format!("`none` stands alone, not in a list of {what}"),
        );
        return None;
    }
    Some(ProvisionChoice::Steps(steps.into_iter().map(|text| step(text.value)).collect()))
}
