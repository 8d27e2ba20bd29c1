//! Feedback arcs and sessions: the two ties between nodes that are more than an edge.

use std::collections::BTreeMap;

use super::code::Code;
use super::expand::Exit;
use super::model::FeedbackArc;
use super::problem::Pos;
use super::raw::RawKind;
use super::resolve::Names;
use super::validate::Checked;
use crate::ids::NodeIx;

/// Says what is wrong with `feedback` and `handoff: session`, and notes the body of each arc.
pub(super) fn check(checked: &mut Checked<'_>, names: &Names, exits: &BTreeMap<String, Exit>) {
    check_feedback(checked, names, exits);
    check_sessions(checked);
}

fn check_feedback(checked: &mut Checked<'_>, names: &Names, exits: &BTreeMap<String, Exit>) {
    let arcs: Vec<u32> = (0..checked.nodes.len() as u32)
        .filter(|node| checked.nodes[*node as usize].raw.feedback.is_some())
        .collect();
    if arcs.is_empty() {
        return;
    }
    let (after, places) = (checked.reach.after(), checked.reach.places());
    // Bodies that are right share no node. Where some do, a few more are looked at, not all with all.
    let mut looked_at = 0;
    let mut arc_of: Vec<Option<u32>> = vec![None; checked.nodes.len()];
    for judge in arcs {
        if looked_at > 2 * checked.nodes.len() {
            break;
        }
        let Some(feedback) = checked.nodes[judge as usize].raw.feedback.clone() else { continue };
        let rerun = &feedback.rerun;
        let who = checked.name(judge).to_owned();
        if exits.contains_key(&rerun.value) {
            let message = format!("`{}` is a spliced subgraph; feedback re-runs from one node", rerun.value);
            checked.report.error(Code::FeedbackTarget, rerun.at, message);
            continue;
        }
        let begins = format!("the feedback of `{who}` re-runs");
        let Some(first) = names.node(checked.report, &begins, &rerun.value, rerun.at) else { continue };
        let body = checked.reach.between(first.0, judge, &after, &places);
        looked_at += body.len();
        if body.len() < 2 {
            let message =
                format!("`{}` is no ancestor of `{who}`, so its feedback can't re-run it", rerun.value);
            checked.report.error(Code::FeedbackTarget, rerun.at, message);
            continue;
        }
        check_body(checked, judge, &body, &after, rerun.at);
        for node in &body {
            if let Some(other) = arc_of[*node as usize].replace(judge) {
                let name = checked.name(*node).to_owned();
                let other = checked.name(other).to_owned();
                let message = format!("`{name}` would be re-run by the feedback of `{other}` and of `{who}`");
                checked.report.error(Code::FeedbackOverlap, rerun.at, message);
                break;
            }
        }
        checked.bodies.insert(judge, body);
        checked.arcs.push(FeedbackArc { node: NodeIx(judge), rerun: first, max: feedback.max });
    }
}

fn check_body(checked: &mut Checked<'_>, judge: u32, body: &[u32], after: &[Vec<u32>], at: Pos) {
    let is_inside = |node: &u32| body.binary_search(node).is_ok();
    let who = checked.name(judge).to_owned();
    let mut found: Vec<(Code, Pos, String)> = Vec::new();
    for node in body {
        let name = checked.name(*node);
        if checked.kinds[*node as usize] == Some(RawKind::Gate) {
            found.push((
                Code::FeedbackOverGate,
                at,
                format!("the feedback of `{who}` would re-run the gate `{name}`"),
            ));
        }
        if *node != judge
            && let Some(outside) = after[*node as usize].iter().find(|node| !is_inside(node))
        {
            let outside = checked.name(*outside);
            let message = format!(
                "`{outside}` depends on `{name}`, which the feedback of `{who}` re-runs; \
                 from outside only `{who}` can be depended on"
            );
            found.push((Code::FeedbackLeftEarly, at, message));
        }
        if let Some(session) = checked.nodes[*node as usize].raw.wants_session
            && let [parent] = checked.edges[*node as usize].as_slice()
            && !is_inside(&parent.node.0)
        {
            let parent = checked.name(parent.node.0);
            let message = format!(
                "`{name}` goes on with the session of `{parent}`, which the feedback of `{who}` does not re-run"
            );
            found.push((Code::SessionFromOutside, session, message));
        }
    }
    for (code, at, message) in found {
        checked.report.error(code, at, message);
    }
}

fn check_sessions(checked: &mut Checked<'_>) {
    for node in 0..checked.nodes.len() as u32 {
        let placed = &checked.nodes[node as usize];
        let Some(at) = placed.raw.wants_session else { continue };
        if checked.kinds[node as usize] != Some(RawKind::Agent) {
            continue;
        }
        // What depends on nothing known has been reported already, by that name.
        let wanted = placed.raw.depends_on.len();
        let who = checked.name(node).to_owned();
        if wanted != 1 {
            let message = format!(
                "node `{who}` goes on with a session, so it depends on exactly one node, not {wanted}"
            );
            checked.report.error(Code::SessionParents, at, message);
        } else if let [parent] = checked.edges[node as usize].as_slice()
            && let Some(kind @ (RawKind::Gate | RawKind::Command)) = checked.kinds[parent.node.at()]
        {
            let what = if kind == RawKind::Gate { "a gate" } else { "a command" };
            let parent = checked.name(parent.node.0).to_owned();
            let message = format!("node `{who}` can't go on with the session of `{parent}`: {what} has none");
            checked.report.error(Code::SessionParents, at, message);
        }
    }
}
