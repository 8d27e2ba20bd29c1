//! Tables for people: a run's end, a list of runs, lanes.

use super::style::{Style, duration, printable};
use super::{LaneView, NodeView, RunView, Summary};
use crate::schedule::fact::{Cleanup, RunStatus};

/// Returns rows as lines, each column as wide as its widest cell; the last is not padded.
pub fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| visible(cell)).max();
    let widths: Vec<usize> = (0..count).map(|at| width(at).unwrap_or(0)).collect();
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                line.push_str(cell);
                if at + 1 < row.len() {
                    let pad = widths[at].saturating_sub(visible(cell)) + 2;
                    line.extend(std::iter::repeat_n(' ', pad));
                }
            }
            line.trim_end().to_string()
        })
        .collect()
}

/// Returns how many characters of a cell can be seen.
fn visible(cell: &str) -> usize {
    let mut count = 0;
    let mut escaped = false;
    for c in cell.chars() {
        match (escaped, c) {
            (false, '\u{1b}') => escaped = true,
            (true, 'm') => escaped = false,
            (true, _) => {}
            (false, _) => count += 1,
        }
    }
    count
}

/// Most nodes that are all listed at a run's end. Of more, those that passed are counted only.
const LISTED_MAX: usize = 100;

/// Returns the nodes that a run's end lists.
pub fn listed(view: &RunView) -> impl Iterator<Item = &NodeView> {
    let all = view.nodes.len() <= LISTED_MAX;
    view.nodes.iter().filter(move |node| all || node.state != "passed")
}

/// Returns what is said of the nodes that a run's end does not list.
pub fn unlisted(view: &RunView) -> Option<String> {
    let rest = view.nodes.len() - listed(view).count();
    (rest > 0).then(|| format!("{rest} more passed; `omg show {}` lists them", view.run_id))
}

/// Returns why a node stands as it does, in a few words; empty where nothing is to be said.
pub fn why(node: &NodeView) -> String {
    match (&node.fault, &node.because) {
        (Some(fault), _) => {
            let detail = printable(first_line(&fault.detail), Style { color: false });
            let cause = fault.cause.as_ref().map(|cause| format!(" ({cause})")).unwrap_or_default();
            format!("{}{cause}: {detail}", fault.class.word())
        }
        (None, Some(because)) => format!("needs {because}"),
        (None, None) => match node.evidence {
            // Of a command, it is plain.
            Some(evidence) if node.r#type != "command" => evidence.word().replace('-', " "),
            Some(_) | None => String::new(),
        },
    }
}

/// Returns a run: all its nodes, its lanes, what to do with what was kept and, where no leg lives, what to do
/// next.
pub fn run(view: &RunView, style: Style) -> Vec<String> {
    let mut lines = whole(view, view.nodes.iter(), None, style);
    if view.status != RunStatus::Running {
        lines.extend(next(view).into_iter().map(|line| format!("  {line}")));
    }
    lines
}

/// Returns a run's end: as [`run`], with no more of the nodes that passed than one reads, and what to do
/// next.
pub fn end(view: &RunView, style: Style) -> Vec<String> {
    let mut lines = whole(view, listed(view), unlisted(view), style);
    lines.extend(next(view).into_iter().map(|line| format!("  {line}")));
    lines
}

fn whole<'v>(
    view: &RunView,
    nodes: impl Iterator<Item = &'v NodeView>,
    rest: Option<String>,
    style: Style,
) -> Vec<String> {
    let has_cost = view.cost.is_some();
    let mut head = vec!["node", "state", "attempts", "time", "lane", ""];
    if has_cost {
        head.insert(4, "cost");
    }
    let mut rows = vec![head.into_iter().map(|head| style.strong(head)).collect()];
    rows.extend(nodes.map(|node| {
        let mut row = vec![
            node.id.clone(),
            style.state(node.state),
            node.attempts.to_string(),
            node.duration_ms.map(duration).unwrap_or_default(),
            node.lane.clone().unwrap_or_default(),
            why(node),
        ];
        if has_cost {
            row.insert(4, node.cost.map(|cost| cost.short()).unwrap_or_default());
        }
        row
    }));
    let mut lines = if rows.len() > 1 { columns(&rows) } else { Vec::new() };
    lines.extend(rest);
    if view.cost_by_leg.len() > 1 {
        let legs = view.cost_by_leg.iter().map(|of| format!("leg {} {}", of.leg.0, of.cost.short()));
        lines.push(format!("cost: {}", legs.collect::<Vec<_>>().join(", ")));
    }
    lines.push(String::new());
    lines.extend(kept(view, style));
    lines.extend(view.selection.as_ref().map(|selection| selection.describe(view.nodes.len())));
    lines.push(format!(
        "run {} {} in {}{} · {}",
        view.run_id,
        style.state(view.status.word()),
        duration(view.duration_ms),
        cost_of(view),
        view.folder.display()
    ));
    lines
}

/// Returns what a run cost, for its last line.
fn cost_of(view: &RunView) -> String {
    let Some(cost) = view.cost else { return String::new() };
    let over = view.budget_usd.filter(|budget| cost.usd.is_some_and(|usd| usd > *budget));
    match over {
        Some(budget) => format!(", cost {cost}, over its budget of {budget}"),
        None => format!(", cost {cost}"),
    }
}

/// Most nodes whose logs are named among what to do next.
const NAMED_MAX: usize = 3;

/// Returns what one would do next with a run that did not pass: commands, with what each is for.
pub fn next(view: &RunView) -> Vec<String> {
    let id = &view.run_id;
    let any = |state: &str| view.nodes.iter().any(|node| node.state == state);
    let mut steps: Vec<(String, &str)> = Vec::new();
    let unlucky = view.nodes.iter().filter(|node| matches!(node.state, "failed" | "blocked"));
    for node in unlucky.filter(|node| node.log.is_some()).take(NAMED_MAX) {
        steps.push((format!("omg logs {id} {}", node.id), "its whole output"));
    }
    if any("failed") {
        steps.push((format!("omg resume {id} --retry-failed"), "runs what failed again, and what needed it"));
    }
    if any("blocked") {
        steps.push((
            format!("omg resume {id} --retry-blocked"),
            "runs what was blocked again; it was charged nothing",
        ));
    }
    let is_gate = |node: &&NodeView| node.state == "paused" && node.r#type == "gate";
    for gate in view.nodes.iter().filter(is_gate).take(NAMED_MAX) {
        steps.push((format!("omg resume {id} --approve {}", gate.id), "passes the gate; --reject says no"));
    }
    let at_limit = view.nodes.iter().any(|node| node.state == "paused" && node.r#type != "gate");
    if at_limit {
        steps.push((format!("omg resume {id} --wait"), "sleeps until the limit is over, then goes on"));
    }
    let open = ["cancelled", "interrupted", "waiting", "ready"].iter().any(|state| any(state));
    if open && !any("failed") && !any("blocked") && !any("paused") {
        steps.push((format!("omg resume {id}"), "goes on where it stopped"));
    }
    let rows: Vec<Vec<String>> =
        steps.into_iter().map(|(command, what)| vec![command, what.to_string()]).collect();
    columns(&rows)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Returns, for each lane with something in it, how to merge or discard it.
pub fn kept(view: &RunView, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for lane in &view.lanes {
        let Some(cleanup) = &lane.cleanup else { continue };
        if cleanup.tree != "kept" && cleanup.branch != "kept" {
            continue;
        }
        lines.push(format!(
            "lane {}: tree {}, branch {} ({})",
            style.strong(&lane.name),
            cleanup.tree,
            cleanup.branch,
            cleanup.reason
        ));
        if cleanup.tree == "kept"
            && let Some(path) = &lane.path
        {
            lines.push(format!(
                "  look:     cd {}",
                crate::graph::template::shell_word(&path.to_string_lossy())
            ));
        }
        if cleanup.branch == "kept" {
            lines.extend(merge(&lane.branch, cleanup));
        }
        // Only a tree can hold what is nowhere else; a branch is for git to delete.
        if cleanup.tree == "kept" {
            lines.push(format!("  discard:  omg lanes discard {} {}", view.run_id, lane.name));
        } else {
            lines.push(format!("  discard:  git branch -D {}", lane.branch));
        }
    }
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines
}

fn reason(cleanup: &Cleanup) -> String {
    let carries = !cleanup.overlay_in_commits.is_empty();
    format!("{}{}", cleanup.reason, if carries { "; its commits carry local files" } else { "" })
}

/// Most commits that are named before the rest is counted.
const CARRIED_MAX: usize = 5;

/// Returns how to merge a branch; where its commits carry local files of the user's, which ones do instead.
fn merge(branch: &str, cleanup: &Cleanup) -> Vec<String> {
    let plain = Style { color: false };
    if let Some(error) = &cleanup.overlay_unchecked {
        let error = printable(first_line(error), plain);
        return vec![format!(
            "  merge:    look first whether {branch} carries local files of yours: {error}"
        )];
    }
    if cleanup.overlay_in_commits.is_empty() {
        return vec![format!("  merge:    git merge {branch}")];
    }
    let carried = &cleanup.overlay_in_commits;
    let mut lines = vec!["  merge:    not as it is: its commits carry local files of yours".to_string()];
    lines.extend(carried.iter().take(CARRIED_MAX).map(|carried| {
        let commit = carried.commit.short();
        format!("            commit {commit} carries {}", printable(&carried.path, plain))
    }));
    if carried.len() > CARRIED_MAX {
        lines.push(format!("            and {} more", carried.len() - CARRIED_MAX));
    }
    lines
}

/// Returns a list of runs.
pub fn runs(list: &[Summary], style: Style) -> Vec<String> {
    let mut rows =
        vec![["run", "status", "graph", "started", "repository"].map(|head| style.strong(head)).to_vec()];
    for run in list {
        rows.push(vec![
            run.run_id.clone(),
            style.state(run.status.word()),
            run.graph.clone(),
            run.started_at.map(|at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()).unwrap_or_default(),
            run.repo.as_ref().map(|repo| repo.display().to_string()).unwrap_or_default(),
        ]);
    }
    columns(&rows)
}

/// Returns the lanes of a run.
pub fn lanes(list: &[LaneView], style: Style) -> Vec<String> {
    let mut rows = vec![["lane", "state", "branch", "path", ""].map(|head| style.strong(head)).to_vec()];
    for lane in list {
        rows.push(vec![
            lane.name.clone(),
            lane.state.to_string(),
            lane.branch.clone(),
            lane.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
            lane.cleanup.as_ref().map(reason).unwrap_or_default(),
        ]);
    }
    columns(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_also_with_colours() {
        let style = Style { color: true };
        let rows = vec![
            vec!["a".into(), style.state("passed"), "x".into()],
            vec!["bbb".into(), "y".into(), "z".into()],
        ];
        let lines = columns(&rows);
        assert_eq!(lines[0], "a    \u{1b}[32mpassed\u{1b}[0m  x");
        assert_eq!(lines[1], "bbb  y       z");
    }
}
