//! Checked nodes as the model has them, and the list of what this build does not run.

use super::grammar_runtime::runtimes_of;
use super::keys::NodeKey;
use super::model::{
    AGENT_TIMEOUT_DEFAULT, Agent, GRACE_DEFAULT, LaterFeature, Node, NodeKind, OUTPUT_MAX_DEFAULT, Retry,
    RetryCause, SuccessCheck, Template,
};
use super::problem::Pos;
use super::raw::{RawCheck, RawGraph, RawKind, RawNode};
use super::reader::At;
use super::tokens::NodeTexts;
use super::validate::{Checked, Placed};
use crate::ids::{LaneIx, NodeId};

/// Returns the nodes of a graph in which nothing is wrong, in file order.
pub(super) fn assemble(
    checked: Checked<'_>,
    texts: Vec<NodeTexts>,
    lane_of: &[Option<LaneIx>],
    graph: &RawGraph,
) -> Vec<Node> {
    let kinds = checked.kinds.into_iter().zip(checked.edges);
    let parts = checked.nodes.into_iter().zip(kinds).zip(texts).zip(lane_of);
    parts
        .map(|(((Placed { raw, cited_at, .. }, (kind, depends_on)), mut texts), lane)| {
            let run = texts.run.take().unwrap_or_default();
            let (kind, timeout) = match kind {
                Some(RawKind::Agent) => {
                    let prompt = texts.prompt.take().unwrap_or_default();
                    let timeout = raw.timeout.unwrap_or(AGENT_TIMEOUT_DEFAULT);
                    (NodeKind::Agent(Box::new(agent(graph, &raw, prompt))), Some(timeout))
                }
                Some(RawKind::Gate) => (NodeKind::Gate, None),
                // None is a node whose kind was an error: nothing is assembled then.
                Some(RawKind::Command) | None => (NodeKind::Command { run }, raw.timeout),
            };
            Node {
                id: NodeId::from(raw.id.map(|id| id.value).unwrap_or_default()),
                kind,
                line: cited_at.line,
                description: raw.description,
                depends_on,
                lane: *lane,
                access: raw.access.unwrap_or_default(),
                cwd: texts.cwd.take(),
                check: success_check(raw.check, &mut texts),
                env: texts.env,
                timeout,
                retry: raw.retry.map(every_cause).unwrap_or_default(),
                grace: raw.grace.or(graph.grace).unwrap_or(GRACE_DEFAULT),
                output_max: raw.output_max.or(graph.output_max).unwrap_or(OUTPUT_MAX_DEFAULT),
            }
        })
        .collect()
}

fn agent(graph: &RawGraph, raw: &RawNode, prompt: Template) -> Agent {
    Agent {
        prompt,
        runtimes: runtimes_of(graph, &raw.runtime),
        model: raw.model.clone(),
        agent: raw.agent.clone(),
        permission: raw.permission.unwrap_or_default(),
        allowed_tools: raw.allowed_tools.clone(),
        budget: raw.budget,
        goes_on: raw.wants_session.is_some(),
    }
}

fn success_check(raw: Option<RawCheck>, texts: &mut NodeTexts) -> SuccessCheck {
    let mut check = raw.map(|raw| raw.check).unwrap_or_default();
    if let Some(verify) = &mut check.verify {
        verify.command = texts.verify_command.take().unwrap_or_default();
        verify.cwd = texts.verify_cwd.take();
    }
    check
}

/// A `retry` that names no cause means every one that can spend it.
fn every_cause(mut retry: Retry) -> Retry {
    if retry.on.is_empty() {
        retry.on = RetryCause::ALL.into_iter().filter(|cause| *cause != RetryCause::RunError).collect();
    }
    retry
}

/// Returns what the file uses and this build does not run, in file order, each place once.
pub(super) fn later_features(checked: &Checked<'_>, of_graph: &[At<String>]) -> Vec<LaterFeature> {
    let mut found: Vec<(Pos, String)> =
        of_graph.iter().map(|later| (later.at, later.value.clone())).collect();
    for (placed, kind) in checked.nodes.iter().zip(&checked.kinds) {
        // A position has no file: what stands in a fragment is listed where the fragment is cited.
        let place = |at: Pos| if at.file == placed.cited_at.file { at } else { placed.cited_at };
        for &(key, at) in &placed.raw.keys {
            let is_heeded = *kind == Some(RawKind::Agent) || !key.is_for_agents();
            if is_heeded && is_later(key) {
                found.push((place(at), format!("`{}`", key.word())));
            }
        }
    }
    found.sort();
    found.dedup();
    let feature = |(at, feature): (Pos, String)| LaterFeature { feature, line: at.line, column: at.column };
    found.into_iter().map(feature).collect()
}

/// Returns whether this build only checks a key. No wildcard: a new key must take a side.
fn is_later(key: NodeKey) -> bool {
    match key {
        NodeKey::Protect | NodeKey::Scope | NodeKey::ExpectChanges | NodeKey::OnFault => true,
        NodeKey::Id
        | NodeKey::Type
        | NodeKey::Description
        | NodeKey::Run
        | NodeKey::DependsOn
        | NodeKey::Worktree
        | NodeKey::Access
        | NodeKey::Cwd
        | NodeKey::Env
        | NodeKey::Timeout
        | NodeKey::SuccessCheck
        | NodeKey::Retry
        | NodeKey::Grace
        | NodeKey::OutputMax
        | NodeKey::Use
        | NodeKey::With
        | NodeKey::Feedback
        | NodeKey::BudgetUsd
        | NodeKey::Runtime
        | NodeKey::Prompt
        | NodeKey::Handoff
        | NodeKey::AllowedTools
        | NodeKey::PermissionMode
        | NodeKey::Agent
        | NodeKey::Model => false,
    }
}
