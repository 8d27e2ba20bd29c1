//! A node of a graph file, and `defaults`, which are a node without a name.
//!
//! Reads shapes and single values only; what needs two nodes is `validate`'s.

use std::time::Duration;

use regex::Regex;

use super::code::Code;
use super::excerpt::clip;
use super::grammar::check_lane_name;
use super::grammar_runtime::read_runtime;
use super::keys::{CheckKey, DependencyKey, FeedbackKey, NodeKey, RetryKey, VerifyKey};
use super::model::{
    Access, On, PermissionMode, Retry, RetryCause, SuccessCheck, Template, VERIFY_TIMEOUT_DEFAULT, Verify,
};
use super::problem::Pos;
use super::raw::{RawCheck, RawDependency, RawFeedback, RawKind, RawNode, RawVar, RawWorktree};
use super::reader::{At, Reader};
use super::tree::Tree;
use crate::ids::{ID_LENGTH_MAX, is_id};

/// Longest id that fragments may make, in bytes: file names are made of it.
const SPLICED_ID_LENGTH_MAX: usize = 200;

pub(super) const KINDS: &[(&str, RawKind)] = &[
    ("command", RawKind::Command),
    ("agent", RawKind::Agent),
    ("gate", RawKind::Gate),
    ("claude-run", RawKind::Agent),
];

pub(super) const ACCESSES: &[(&str, Access)] = &[("write", Access::Write), ("read", Access::Read)];

/// Whether a node goes on with the session of the one before it.
pub(super) const HANDOFFS: &[(&str, bool)] = &[("artifact", false), ("session", true)];

pub(super) const ENDINGS: &[(&str, On)] =
    &[("passed", On::Passed), ("finished", On::Finished), ("failed", On::Failed)];

/// Reads a node. `spliced` says that a fragment made its id, which may then hold a `/`.
pub(super) fn read_node(reader: &mut Reader<'_>, tree: &Tree, spliced: bool) -> RawNode {
    let node = read(reader, "a node", tree, Place::Node { spliced });
    if tree.entries().is_some() && node.key(NodeKey::Id).is_none() {
        reader.report.error(Code::MissingKey, tree.at, "this node has no `id`");
    }
    node
}

/// Reads `defaults`.
pub(super) fn read_defaults(reader: &mut Reader<'_>, tree: &Tree) -> RawNode {
    let node = read(reader, "`defaults`", tree, Place::Defaults);
    for (key, at) in node.keys.iter().filter(|(key, _)| key.is_own()) {
        let message = format!("`{}` belongs to one node and can't be a default", key.word());
        reader.report.error(Code::NoDefault, *at, message);
    }
    node
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Node { spliced: bool },
    Defaults,
}

fn read(reader: &mut Reader<'_>, whose: &str, tree: &Tree, place: Place) -> RawNode {
    let mut node = RawNode::default();
    for entry in reader.map(whose, tree).unwrap_or_default() {
        match NodeKey::of(&entry.key) {
            Some(key) => {
                node.keys.push((key, entry.at));
                read_key(reader, &mut node, key, &entry.value, place);
            }
            None => reader.unknown_key(whose, entry, NodeKey::words()),
        }
    }
    node.own_keys = node.keys.len();
    node
}

fn read_key(reader: &mut Reader<'_>, node: &mut RawNode, key: NodeKey, value: &Tree, place: Place) {
    let what = format!("`{}`", key.word());
    let what = what.as_str();
    match key {
        NodeKey::Id => node.id = read_id(reader, value, place),
        NodeKey::Type => node.kind = reader.choice(what, KINDS, value),
        NodeKey::Description => node.description = reader.text(what, value).map(|text| text.value),
        NodeKey::Run => node.run = reader.filled_text(what, value),
        NodeKey::Prompt => node.prompt = reader.filled_text(what, value),
        NodeKey::DependsOn => node.depends_on = read_depends_on(reader, value),
        NodeKey::Worktree => node.worktree = read_worktree(reader, value, place),
        NodeKey::Access => {
            node.access = reader.choice(what, ACCESSES, value).map(|access| access.value);
        }
        NodeKey::Cwd => node.cwd = reader.filled_text(what, value),
        NodeKey::Env => node.env = read_env(reader, value),
        NodeKey::Timeout => node.timeout = reader.limit(what, value).map(|limit| limit.value),
        NodeKey::SuccessCheck => node.check = read_check(reader, value),
        NodeKey::Retry => node.retry = read_retry(reader, value),
        NodeKey::Feedback => node.feedback = read_feedback(reader, value),
        NodeKey::Handoff => {
            let handoff = reader.choice(what, HANDOFFS, value);
            node.wants_session = handoff.filter(|handoff| handoff.value).map(|handoff| handoff.at);
        }
        NodeKey::AllowedTools => {
            let tools = reader.texts(what, "tools", value).unwrap_or_default();
            for tool in tools.iter().filter(|tool| tool.value.trim_start().starts_with('-')) {
                let message = format!("`{}` names no tool: it would be read as a flag", clip(&tool.value));
                reader.report.error(Code::WrongValue, tool.at, message);
            }
            node.allowed_tools = tools.into_iter().map(|tool| tool.value).collect();
        }
        NodeKey::PermissionMode => {
            let modes = PermissionMode::ALL.map(|mode| (mode.word(), mode));
            node.permission = reader.choice(what, &modes, value).map(|mode| mode.value);
        }
        NodeKey::Agent => node.agent = read_word(reader, what, value),
        NodeKey::Model => node.model = read_word(reader, what, value),
        NodeKey::BudgetUsd => node.budget = reader.budget(what, value),
        NodeKey::Runtime => node.runtime = read_runtime(reader, value),
        NodeKey::Protect | NodeKey::Scope => drop(reader.text_or_texts(what, "paths", value)),
        NodeKey::ExpectChanges => drop(reader.boolean(what, value)),
        NodeKey::OnFault => drop(reader.map(what, value)),
        NodeKey::Grace => node.grace = reader.duration(what, value).map(|grace| grace.value),
        NodeKey::OutputMax => node.output_max = reader.size(what, value).map(|size| size.value),
        // A splice takes both away; where one is left, `expand` or `read_defaults` has said why.
        NodeKey::Use | NodeKey::With => {}
    }
}

/// Reads a word that becomes an argument of its own.
fn read_word(reader: &mut Reader<'_>, what: &str, tree: &Tree) -> Option<String> {
    let word = reader.filled_text(what, tree)?;
    if word.value.starts_with('-') {
        let message = format!("{what} is `{}`, which would be read as a flag", clip(&word.value));
        reader.report.error(Code::WrongValue, word.at, message);
    }
    Some(word.value)
}

fn read_id(reader: &mut Reader<'_>, tree: &Tree, place: Place) -> Option<At<String>> {
    let id = reader.text("`id`", tree)?;
    let is_good = match place {
        Place::Node { spliced: true } => {
            id.value.split('/').all(is_id) && id.value.len() <= SPLICED_ID_LENGTH_MAX
        }
        _ => is_id(&id.value),
    };
    if is_good {
        return Some(id);
    }
    let rule = if id.value.len() > ID_LENGTH_MAX {
        format!("it is longer than {ID_LENGTH_MAX} characters")
    } else {
        "a letter or digit first, then also `.`, `_` and `-`".to_owned()
    };
    let message = format!("`{}` can't name a node: {rule}", clip(&id.value));
    reader.report.error(Code::BadId, id.at, message);
    None
}

fn read_depends_on(reader: &mut Reader<'_>, tree: &Tree) -> Vec<RawDependency> {
    let items = reader.list("`depends_on`", "ids", tree).unwrap_or_default();
    let mut found = Vec::with_capacity(items.len());
    for item in items {
        let Some(entries) = item.entries() else {
            if let Some(id) = reader.filled_word("an entry of `depends_on`", item) {
                found.push(RawDependency { id, on: On::Passed });
            }
            continue;
        };
        let (mut id, mut on) = (None, Some(On::Passed));
        for entry in entries {
            match DependencyKey::of(&entry.key) {
                Some(DependencyKey::Id) => id = reader.filled_word("`id` of a dependency", &entry.value),
                Some(DependencyKey::On) => {
                    on = reader.choice("`on`", ENDINGS, &entry.value).map(|on| on.value)
                }
                None => reader.unknown_key("a dependency", entry, DependencyKey::words()),
            }
        }
        if item.entry("id").is_none() {
            reader.report.error(Code::MissingKey, item.at, "this dependency has no `id`");
        }
        if let Some(id) = id {
            found.push(RawDependency { id, on: on.unwrap_or_default() });
        }
    }
    found
}

fn read_worktree(reader: &mut Reader<'_>, tree: &Tree, place: Place) -> Option<At<RawWorktree>> {
    let name = reader.text("`worktree`", tree)?;
    let value = match (name.value.as_str(), place) {
        ("none", _) => RawWorktree::Nothing,
        ("per-node", Place::Defaults) => RawWorktree::PerNode,
        ("per-node", Place::Node { .. }) => {
            reader
                .report
                .error(Code::ReservedLaneName, name.at, "`worktree: per-node` is for `defaults`")
                .hint("name the lane, or move `per-node` to `defaults`");
            return None;
        }
        _ if check_lane_name(reader, &name.value, name.at) => RawWorktree::Lane(name.value),
        _ => return None,
    };
    Some(At { at: name.at, value })
}

/// Reads a map of variables.
pub(super) fn read_env(reader: &mut Reader<'_>, tree: &Tree) -> Option<Vec<RawVar>> {
    let mut vars = Vec::new();
    for entry in reader.map("`env`", tree)? {
        let name = &entry.key;
        if name.starts_with("OMG_") {
            let message = format!("`{}` can't be set: variables named `OMG_*` are omg's own", clip(name));
            reader.report.error(Code::ReservedVariable, entry.at, message);
        } else if name.is_empty() || name.contains(['=', '\0']) {
            reader.report.error(
                Code::BadVariable,
                entry.at,
                format!("`{}` can't name a variable", clip(name)),
            );
        } else if let Some(text) = reader.text(&format!("the variable `{}`", clip(name)), &entry.value) {
            vars.push(RawVar { name: name.to_string(), text });
        }
    }
    Some(vars)
}

fn read_check(reader: &mut Reader<'_>, tree: &Tree) -> Option<RawCheck> {
    let mut found = RawCheck { check: SuccessCheck::default(), ..RawCheck::default() };
    for entry in reader.map("`success_check`", tree)? {
        let value = &*entry.value;
        match CheckKey::of(&entry.key) {
            Some(CheckKey::ExitZero) => {
                if let Some(exit_zero) = reader.boolean("`exit_zero`", value) {
                    found.check.exit_zero = exit_zero;
                }
            }
            Some(CheckKey::ResultMatches) => {
                found.check.result_matches = read_regex(reader, "`result_matches`", value)
            }
            Some(CheckKey::Verify) => read_verify(reader, &mut found, value),
            None => reader.unknown_key("`success_check`", entry, CheckKey::words()),
        }
    }
    Some(found)
}

fn read_verify(reader: &mut Reader<'_>, found: &mut RawCheck, tree: &Tree) {
    let mut verify = Verify {
        command: Template::default(),
        cwd: None,
        timeout: VERIFY_TIMEOUT_DEFAULT,
        expect_exit: 0,
        output_matches: None,
    };
    let Some(entries) = reader.map("`verify`", tree) else { return };
    for entry in entries {
        let value = &*entry.value;
        let what = format!("`verify.{}`", entry.key);
        match VerifyKey::of(&entry.key) {
            Some(VerifyKey::Command) => found.verify_command = reader.filled_text(&what, value),
            Some(VerifyKey::Cwd) => found.verify_cwd = reader.filled_text(&what, value),
            Some(VerifyKey::Timeout) => {
                if let Some(limit) = reader.limit(&what, value) {
                    verify.timeout = limit.value;
                }
            }
            Some(VerifyKey::ExpectExit) => match reader.count(&what, 0, value) {
                Some(code @ 0..=255) => verify.expect_exit = code as i32,
                Some(code) => {
                    let message = format!("an exit status is at most 255, not {code}");
                    reader.report.error(Code::WrongValue, value.at, message);
                }
                None => {}
            },
            Some(VerifyKey::OutputMatches) => verify.output_matches = read_regex(reader, &what, value),
            None => reader.unknown_key("`verify`", entry, VerifyKey::words()),
        }
    }
    if tree.entry("command").is_none() {
        reader.report.error(Code::MissingKey, tree.at, "`verify` has no `command`");
    }
    found.check.verify = Some(verify);
}

fn read_regex(reader: &mut Reader<'_>, what: &str, tree: &Tree) -> Option<String> {
    let text = reader.text(what, tree)?;
    match Regex::new(&text.value) {
        Ok(_) => Some(text.value),
        Err(error) => {
            let words = error.to_string();
            let reason = words.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let message = format!("{what} is not a regular expression: {reason}");
            reader.report.error(Code::BadRegex, text.at, message);
            None
        }
    }
}

fn read_retry(reader: &mut Reader<'_>, tree: &Tree) -> Option<Retry> {
    let causes = RetryCause::ALL.map(|cause| (cause.word(), cause));
    let mut retry = Retry { max: 0, on: Vec::new(), backoff: Duration::ZERO };
    for entry in reader.map("`retry`", tree)? {
        let value = &*entry.value;
        match RetryKey::of(&entry.key) {
            Some(RetryKey::Max) => retry.max = reader.count("`retry.max`", 0, value).unwrap_or_default(),
            Some(RetryKey::On) => {
                let items = reader.list("`retry.on`", "causes", value).unwrap_or_default();
                if value.items().is_some_and(<[_]>::is_empty) {
                    reader
                        .report
                        .error(Code::EmptyValue, value.at, "`retry.on` names no cause")
                        .hint("leave `on` out to retry every cause");
                }
                let read =
                    items.iter().filter_map(|item| reader.choice("a cause of `retry.on`", &causes, item));
                retry.on = read.map(|cause| cause.value).collect();
            }
            Some(RetryKey::Backoff) => {
                if let Some(backoff) = reader.duration("`retry.backoff`", value) {
                    retry.backoff = backoff.value;
                }
            }
            None => reader.unknown_key("`retry`", entry, RetryKey::words()),
        }
    }
    if tree.entry("max").is_none() {
        reader.report.warning(Code::RetryWithoutMax, tree.at, "`retry` without `max` never retries");
    }
    Some(retry)
}

fn read_feedback(reader: &mut Reader<'_>, tree: &Tree) -> Option<RawFeedback> {
    let (mut rerun, mut max) = (None, None);
    for entry in reader.map("`feedback`", tree)? {
        match FeedbackKey::of(&entry.key) {
            Some(FeedbackKey::Rerun) => rerun = reader.filled_text("`feedback.rerun`", &entry.value),
            Some(FeedbackKey::Max) => max = reader.count("`feedback.max`", 1, &entry.value),
            None => reader.unknown_key("`feedback`", entry, FeedbackKey::words()),
        }
    }
    for key in FeedbackKey::words() {
        if tree.entry(key).is_none() {
            reader.report.error(Code::MissingKey, tree.at, format!("`feedback` has no `{key}`"));
        }
    }
    // A `max` that was wrong has been reported; the arc itself is judged all the same.
    rerun.map(|rerun| RawFeedback { rerun, max: max.unwrap_or(1) })
}

/// Puts what `node` does not say from `defaults` into it.
pub(super) fn with_defaults(mut node: RawNode, defaults: &RawNode) -> RawNode {
    let has = |key: NodeKey| node.key(key).is_some();
    // What a node runs says more about it than a default type; failing both, what it would run does.
    let has_work = has(NodeKey::Run) || has(NodeKey::Prompt);
    let kind = match (node.kind, has_work) {
        (None, false) => defaults.kind,
        (kind, _) => kind,
    };
    let would_be = match (kind, has(NodeKey::Run), has(NodeKey::Prompt)) {
        (Some(kind), ..) => Some(kind.value),
        (None, true, _) => Some(RawKind::Command),
        (None, false, true) => Some(RawKind::Agent),
        (None, false, false) if defaults.run.is_some() => Some(RawKind::Command),
        (None, false, false) => defaults.prompt.as_ref().map(|_| RawKind::Agent),
    };
    let own_place = has(NodeKey::Cwd) || has(NodeKey::Worktree);
    node.kind = kind;
    for &(key, at) in &defaults.keys {
        let is_taken = node.key(key).is_some()
            || key.is_own()
            || key == NodeKey::Type && has_work
            || would_be == Some(RawKind::Gate) && !key.is_for_gates()
            || would_be == Some(RawKind::Command) && key.is_for_agents()
            || would_be == Some(RawKind::Agent) && key == NodeKey::Run
            || own_place && matches!(key, NodeKey::Cwd | NodeKey::Worktree);
        if !is_taken {
            take(&mut node, defaults, key);
            node.keys.push((key, at));
        }
    }
    node
}

fn take(node: &mut RawNode, defaults: &RawNode, key: NodeKey) {
    match key {
        NodeKey::Description => node.description.clone_from(&defaults.description),
        NodeKey::Run => node.run.clone_from(&defaults.run),
        NodeKey::Prompt => node.prompt.clone_from(&defaults.prompt),
        NodeKey::Worktree => node.worktree.clone_from(&defaults.worktree),
        NodeKey::Access => node.access = defaults.access,
        NodeKey::Cwd => node.cwd.clone_from(&defaults.cwd),
        NodeKey::Env => node.env.clone_from(&defaults.env),
        NodeKey::Timeout => node.timeout = defaults.timeout,
        NodeKey::SuccessCheck => node.check.clone_from(&defaults.check),
        NodeKey::Retry => node.retry.clone_from(&defaults.retry),
        NodeKey::Handoff => node.wants_session = defaults.wants_session,
        NodeKey::Grace => node.grace = defaults.grace,
        NodeKey::OutputMax => node.output_max = defaults.output_max,
        NodeKey::AllowedTools => node.allowed_tools.clone_from(&defaults.allowed_tools),
        NodeKey::PermissionMode => node.permission = defaults.permission,
        NodeKey::Agent => node.agent.clone_from(&defaults.agent),
        NodeKey::BudgetUsd => node.budget = defaults.budget,
        NodeKey::Runtime => node.runtime.clone_from(&defaults.runtime),
        NodeKey::Model => node.model.clone_from(&defaults.model),
        // Settled before, or never a default.
        NodeKey::Type
        | NodeKey::Id
        | NodeKey::DependsOn
        | NodeKey::Feedback
        | NodeKey::Use
        | NodeKey::With => {}
        // Checked where they stand; nothing of them is kept but that they were given.
        NodeKey::Protect | NodeKey::Scope | NodeKey::ExpectChanges | NodeKey::OnFault => {}
    }
}

/// Returns where a node stands: its id, else the node itself.
pub(super) fn place(node: &RawNode, tree: &Tree) -> Pos {
    node.id.as_ref().map_or(tree.at, |id| id.at)
}
