//! What a leg is about to do, before it does anything: what is kept, what runs again and why, what does not run.

use super::style::{Style, printable};
use crate::graph::difference::{Change, Difference, What};
use crate::ids::NodeId;
use crate::journal::mask::is_secret;

/// Names that one line lists.
const NAMED_MAX: usize = 12;

/// Nodes whose difference is told.
const NODES_MAX: usize = 40;

/// Lines of a value that are told, of the old one and of the new one.
const VALUE_LINES_MAX: usize = 6;

/// Characters of a line of a value that are told.
const VALUE_LINE_MAX: usize = 160;

/// What a leg is about to do, as far as that is known before it begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// Nodes that passed and stay so, in file order.
    pub kept: Vec<NodeId>,
    /// Nodes that run if all goes well, by why they do; in file order.
    pub runs: Vec<(Runs, Vec<NodeId>)>,
    /// Nodes that do not run, by why not; in file order.
    pub rests: Vec<(Rests, Vec<NodeId>)>,
}

/// Why a node runs; in the order in which they are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runs {
    /// It ended while nobody looked; what it came to is looked at first.
    Ended,
    /// It was in flight, or between attempts, when its leg ended.
    Interrupted,
    /// It failed.
    Failed,
    /// It was blocked.
    Blocked,
    /// It was blocked for want of money, and there is some.
    Paid,
    /// It passed, and was named.
    Named,
    /// The amended graph has it otherwise.
    Changed,
    /// The amended graph has it, and the one before did not.
    New,
    /// Its leg was halted or stopped before its turn.
    Cancelled,
    /// It was paused at a provider's limit, or at a gate that is decided now.
    Paused,
    /// It waited behind what is opened now.
    Waited,
    /// It was skipped.
    Skipped,
    /// It never began.
    NotBegun,
}

/// Why a node does not run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rests {
    /// It failed.
    Failed,
    /// It is blocked.
    Blocked,
    /// It is a gate that waits for a person.
    Gate,
    /// Its own condition was not met, or can't be.
    Condition,
    /// It needs the result of this node, which failed; `None` where there are too many to tell them apart.
    Needs(Option<NodeId>),
    /// It waits behind this node, which is blocked; `None` as above.
    Behind(Option<NodeId>),
    /// It runs only if this node, which runs, fails; `None` as above.
    Unless(Option<NodeId>),
}

impl Runs {
    fn words(self) -> &'static str {
        match self {
            Runs::Ended => "looked at first (ended while nobody looked)",
            Runs::Interrupted => "runs again (interrupted)",
            Runs::Cancelled => "runs (cancelled before)",
            Runs::NotBegun => "runs (not begun before)",
            Runs::Paused => "runs (paused before)",
            Runs::Waited => "runs (waited before)",
            Runs::Failed => "runs again (failed, re-opened by --retry-failed)",
            Runs::Blocked => "runs again (blocked, re-opened by --retry-blocked)",
            Runs::Paid => "runs again (there is money for it now)",
            Runs::Skipped => "runs (skipped before)",
            Runs::New => "runs (new)",
            Runs::Changed => "runs (changed)",
            Runs::Named => "runs again (passed, re-opened by name)",
        }
    }
}

impl Rests {
    fn words(&self) -> String {
        match self {
            Rests::Failed => "not run (failed: --retry-failed would open it)".into(),
            Rests::Blocked => "not run (blocked: --retry-blocked would open it)".into(),
            Rests::Gate => "waits for a person (--approve or --reject it)".into(),
            Rests::Condition => "not run (its condition is not met)".into(),
            Rests::Needs(Some(node)) => format!("not run (needs {node}, which failed)"),
            Rests::Needs(None) => "not run (needs what failed)".into(),
            Rests::Behind(Some(node)) => format!("not run (waits behind {node})"),
            Rests::Behind(None) => "not run (waits behind what is blocked)".into(),
            Rests::Unless(Some(node)) => format!("not run (only if {node} fails)"),
            Rests::Unless(None) => "not run (only if what runs fails)".into(),
        }
    }
}

impl Outlook {
    /// Returns the outlook for people, a line a group.
    pub fn lines(&self) -> Vec<String> {
        let kept = (!self.kept.is_empty()).then(|| format!("kept (passed): {}", named(&self.kept)));
        let runs = self.runs.iter().map(|(why, nodes)| format!("{}: {}", why.words(), named(nodes)));
        let rests = self.rests.iter().map(|(why, nodes)| format!("{}: {}", why.words(), named(nodes)));
        kept.into_iter().chain(runs).chain(rests).collect()
    }
}

/// Returns names in a line; of very many the first.
pub fn named(nodes: &[NodeId]) -> String {
    let shown: Vec<&str> = nodes.iter().take(NAMED_MAX).map(NodeId::as_str).collect();
    let more = nodes.len() - shown.len();
    let more = if more > 0 { format!(" … and {more} more") } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// Returns a difference for people: what is new (`+`), gone (`-`) or otherwise (`~`), old and new values below it.
/// Secrets are left out.
pub fn difference(difference: &Difference) -> Vec<String> {
    let mut lines = Vec::new();
    for change in &difference.graph {
        // What is said of all nodes is not held against those that passed.
        lines.push(format!("~ {} changed{}", of_all(&change.key), kept(change)));
        lines.extend(values(change, false));
    }
    for (name, what) in &difference.lanes {
        lines.extend(thing(&format!("lane {name}"), what));
    }
    for (id, what) in difference.nodes.iter().take(NODES_MAX) {
        lines.extend(thing(id.as_str(), what));
    }
    let more = difference.nodes.len().saturating_sub(NODES_MAX);
    lines.extend((more > 0).then(|| format!("… and {more} more nodes")));
    lines
}

/// A variable of the graph's is told as one of `env`.
fn of_all(key: &str) -> String {
    match key.split_once('.') {
        Some((map @ ("env" | "inputs"), name)) => format!("{map}: {name}"),
        Some(_) | None => key.to_string(),
    }
}

fn kept(change: &Change) -> &'static str {
    if change.weight == crate::graph::difference::Weight::Outcome {
        " (nodes that passed are kept)"
    } else {
        ""
    }
}

fn thing(name: &str, what: &What) -> Vec<String> {
    match what {
        What::Added => vec![format!("+ {name}: new")],
        What::Removed => vec![format!("- {name}: removed")],
        What::Changed(changes) => {
            let head = format!("~ {name}: {what}");
            let several = changes.len() > 1;
            let below = changes.iter().flat_map(|change| values(change, several));
            std::iter::once(head).chain(below).collect()
        }
    }
}

/// Returns the values of a key below its line, each beginning with the key where it is one of `several`.
fn values(change: &Change, several: bool) -> Vec<String> {
    let variable = change.key.strip_prefix("env.").or_else(|| change.key.strip_prefix("inputs."));
    if variable.is_some_and(is_secret) {
        return vec!["    (a secret: not shown)".into()];
    }
    let lines = |value: &Option<String>| -> Vec<String> {
        value.iter().flat_map(|value| value.lines()).map(str::to_string).collect()
    };
    let (before, after) = (lines(&change.before), lines(&change.after));
    // What both begin and end with says nothing.
    let same = |pair: &(&String, &String)| pair.0 == pair.1;
    let head = before.iter().zip(&after).take_while(same).count();
    let (before, after) = (&before[head..], &after[head..]);
    let tail = before.iter().rev().zip(after.iter().rev()).take_while(same).count();
    let (before, after) = (&before[..before.len() - tail], &after[..after.len() - tail]);
    let key = if several { format!("{}: ", change.key) } else { String::new() };
    let some = |sign: char, lines: &[String]| {
        let more = lines.len().saturating_sub(VALUE_LINES_MAX);
        let more = (more > 0).then(|| format!("    {sign} … and {more} more lines"));
        let shown =
            lines.iter().take(VALUE_LINES_MAX).map(|line| format!("    {sign} {key}{}", clipped(line)));
        shown.chain(more).collect::<Vec<_>>()
    };
    [some('-', before), some('+', after)].concat()
}

fn clipped(line: &str) -> String {
    let line = printable(line, Style { color: false });
    match line.char_indices().nth(VALUE_LINE_MAX) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Graph, Trust, load};

    fn ids(names: &[&str]) -> Vec<NodeId> {
        names.iter().map(|name| NodeId::from(*name)).collect()
    }

    #[test]
    fn a_group_is_a_line_and_many_names_are_counted() {
        let many: Vec<String> = (1..=24).map(|at| format!("n{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let outlook = Outlook {
            kept: ids(&["a", "b"]),
            runs: vec![(Runs::Interrupted, ids(&["c"])), (Runs::NotBegun, ids(&many))],
            rests: vec![(Rests::Blocked, ids(&["d"])), (Rests::Behind(Some("d".into())), ids(&["e"]))],
        };
        assert_eq!(
            outlook.lines(),
            [
                "kept (passed): a, b",
                "runs again (interrupted): c",
                "runs (not begun before): n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12 … and 12 more",
                "not run (blocked: --retry-blocked would open it): d",
                "not run (waits behind d): e",
            ]
        );
    }

    #[test]
    fn a_difference_shows_what_differs_and_no_secret() {
        let graph = |text: &str| -> Graph { load("g.yaml", text, &|_| None, Trust::Reviewed).unwrap().graph };
        let old = graph(
            "name: x\nenv: {CI: '1', API_KEY: hunter22}\nnodes:\n- {id: old, run: x}\n\
             - id: build\n  run: |\n    one\n    exit 1\n    three\n",
        );
        let new = graph(
            "name: x\nenv: {CI: '2', API_KEY: hunter23}\nnodes:\n- {id: lint, run: x}\n\
             - id: build\n  timeout: 5m\n  run: |\n    one\n    exit 0\n    three\n",
        );
        assert_eq!(
            difference(&Difference::between(&old, &new)),
            [
                "~ env: CI changed (nodes that passed are kept)",
                "    - 1",
                "    + 2",
                "~ env: API_KEY changed (nodes that passed are kept)",
                "    (a secret: not shown)",
                "+ lint: new",
                "~ build: run, timeout changed",
                "    - run: exit 1",
                "    + run: exit 0",
                "    + timeout: 5m",
                "- old: removed",
            ]
        );
    }
}
