//! What a leg would do with a run as it stands: a pure look ahead, by the rules of the scheduler.

use std::collections::{BTreeMap, BTreeSet};

use super::leg::LegOptions;
use crate::graph::Graph;
use crate::graph::difference::{Difference, Weight, What};
use crate::graph::model::{Dependency, On};
use crate::ids::{NodeId, NodeIx};
use crate::schedule::agents::has_money;
use crate::schedule::fact::EndState;
use crate::schedule::state::{NodePhase, RunState};
use crate::view::outlook::{Outlook, Rests, Runs};

/// Nodes of one kind at which it hangs that others do not run, that are told apart.
const ROOTS_MAX: usize = 3;

/// What an amendment says of nodes.
#[derive(Clone, Copy, Debug)]
pub struct Amended<'a> {
    /// What is different.
    pub difference: &'a Difference,
    /// Nodes that had not passed and run again for it.
    pub reopened: &'a [NodeId],
    /// Nodes that passed and were named.
    pub named: &'a [NodeId],
}

/// What a node comes to if all goes well.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    /// It passed, and stays so.
    Kept,
    /// It runs, for this reason.
    Runs(Runs),
    /// It failed, and stays so.
    Failed,
    /// It is blocked, and stays so.
    Blocked,
    /// It is skipped: it needs this node, which failed; or its own condition is not met.
    Skipped(Option<NodeId>),
    /// A gate, of which no person has said anything yet.
    Gate,
    /// It waits behind this node.
    Behind(NodeId),
    /// It runs only if this node fails.
    Unless(NodeId),
}

/// Returns what a leg with these options would do with a run of `graph` that stands like `state`, an amendment
/// applied. `ended` are nodes in flight whose exits are on disk.
pub fn outlook(
    graph: &Graph,
    state: &RunState,
    options: &LegOptions,
    ended: &[NodeIx],
    amended: Option<Amended<'_>>,
) -> Outlook {
    let whys = amended.map(|amended| whys(&amended)).unwrap_or_default();
    let mut order: Vec<NodeIx> = graph.node_ixs().collect();
    // What is waited for has a longer path before it than what waits.
    order.sort_by_key(|ix| std::cmp::Reverse(graph.rank(*ix)));
    let mut fates = vec![Fate::Kept; graph.nodes().len()];
    for ix in order {
        let alone = fate(graph, state, ix, options, ended);
        fates[ix.at()] = match &alone {
            Fate::Runs(why) => hindrance(graph, &fates, ix)
                .unwrap_or_else(|| Fate::Runs(whys.get(&graph.node(ix).id).copied().unwrap_or(*why))),
            _ => alone,
        };
    }
    gathered(graph, fates)
}

/// Returns what becomes of a node as far as it is its own matter.
fn fate(graph: &Graph, state: &RunState, ix: NodeIx, options: &LegOptions, ended: &[NodeIx]) -> Fate {
    let record = state.node(ix);
    match &record.phase {
        NodePhase::InFlight(_) if ended.contains(&ix) => Fate::Runs(Runs::Ended),
        NodePhase::InFlight(_) => Fate::Runs(Runs::Interrupted),
        NodePhase::Waiting if record.attempts > 0 => Fate::Runs(Runs::Interrupted),
        NodePhase::Waiting => Fate::Runs(Runs::NotBegun),
        NodePhase::Over(end) => match end {
            EndState::Passed => Fate::Kept,
            EndState::Failed if options.retry_failed => Fate::Runs(Runs::Failed),
            EndState::Failed => Fate::Failed,
            EndState::Blocked if options.retry_blocked => Fate::Runs(Runs::Blocked),
            EndState::Blocked if record.wants_money() && has_money(graph, state.cost.known) => {
                Fate::Runs(Runs::Paid)
            }
            EndState::Blocked => Fate::Blocked,
            EndState::Skipped if options.retry_failed || options.retry_blocked => Fate::Runs(Runs::Skipped),
            EndState::Skipped => Fate::Skipped(record.because.as_ref().map(|because| because.node.clone())),
            EndState::Paused
                if graph.is_gate(ix) && !super::gates::is_decided(graph, state, ix, &options.gates) =>
            {
                Fate::Gate
            }
            EndState::Paused => Fate::Runs(Runs::Paused),
            EndState::Waiting => Fate::Runs(Runs::Waited),
            EndState::Cancelled => Fate::Runs(Runs::Cancelled),
            EndState::Interrupted => Fate::Runs(Runs::Interrupted),
        },
    }
}

/// Returns what keeps an open node from running although all goes well; what ends it comes before what it waits
/// behind.
fn hindrance(graph: &Graph, fates: &[Fate], ix: NodeIx) -> Option<Fate> {
    let of_edge = |edge: &Dependency| {
        let id = || graph.node(edge.node).id.clone();
        match (&fates[edge.node.at()], edge.on) {
            (Fate::Kept | Fate::Runs(_), On::Passed | On::Finished) => None,
            (Fate::Failed, On::Failed | On::Finished) => None,
            (Fate::Skipped(_) | Fate::Unless(_), On::Finished) => None,
            (Fate::Kept, On::Failed) => Some(Fate::Skipped(None)),
            (Fate::Runs(_), On::Failed) => Some(Fate::Unless(id())),
            (Fate::Failed, On::Passed) => Some(Fate::Skipped(Some(id()))),
            (skipped @ Fate::Skipped(_), On::Passed) => Some(skipped.clone()),
            (Fate::Skipped(_), On::Failed) => Some(Fate::Skipped(None)),
            (unless @ Fate::Unless(_), On::Passed | On::Failed) => Some(unless.clone()),
            (Fate::Blocked | Fate::Gate, _) => Some(Fate::Behind(id())),
            (behind @ Fate::Behind(_), _) => Some(behind.clone()),
        }
    };
    let found: Vec<Fate> = graph.node(ix).depends_on.iter().filter_map(of_edge).collect();
    let first = |is: fn(&Fate) -> bool| found.iter().find(|fate| is(fate)).cloned();
    first(|fate| matches!(fate, Fate::Skipped(_)))
        .or_else(|| first(|fate| matches!(fate, Fate::Behind(_))))
        .or_else(|| first(|_| true))
}

/// Returns why nodes run that an amendment touches.
fn whys(amended: &Amended<'_>) -> BTreeMap<NodeId, Runs> {
    let why = |what: &What| match what {
        What::Added => Some(Runs::New),
        What::Changed(_) if what.weight() > Weight::Words => Some(Runs::Changed),
        What::Changed(_) | What::Removed => None,
    };
    let of_nodes = amended.difference.nodes.iter().filter_map(|(id, what)| Some((id.clone(), why(what)?)));
    let mut whys: BTreeMap<NodeId, Runs> = of_nodes.collect();
    // What failed, or was in flight, runs again for what changed for all; what had not begun just runs.
    for id in amended.reopened {
        whys.entry(id.clone()).or_insert(Runs::Changed);
    }
    whys.extend(amended.named.iter().map(|id| (id.clone(), Runs::Named)));
    whys
}

/// Of which kinds there are too many nodes at which it hangs that others do not run: each would take a line.
struct Several {
    needs: bool,
    behind: bool,
    unless: bool,
}

impl Several {
    fn of(fates: &[Fate]) -> Several {
        let [mut needs, mut behind, mut unless] = [const { BTreeSet::new() }; 3];
        for fate in fates {
            match fate {
                Fate::Skipped(Some(root)) => drop(needs.insert(root)),
                Fate::Behind(root) => drop(behind.insert(root)),
                Fate::Unless(root) => drop(unless.insert(root)),
                Fate::Kept
                | Fate::Runs(_)
                | Fate::Failed
                | Fate::Blocked
                | Fate::Gate
                | Fate::Skipped(None) => {}
            }
        }
        let several = |roots: BTreeSet<&NodeId>| roots.len() > ROOTS_MAX;
        Several { needs: several(needs), behind: several(behind), unless: several(unless) }
    }
}

fn gathered(graph: &Graph, fates: Vec<Fate>) -> Outlook {
    let mut outlook = Outlook::default();
    let (mut runs, mut rests): (BTreeMap<Runs, Vec<NodeId>>, BTreeMap<Rests, Vec<NodeId>>) =
        Default::default();
    let several = Several::of(&fates);
    for (node, fate) in graph.nodes().iter().zip(fates) {
        let id = node.id.clone();
        let why = match fate {
            Fate::Kept => {
                outlook.kept.push(id);
                continue;
            }
            Fate::Runs(why) => {
                runs.entry(why).or_default().push(id);
                continue;
            }
            Fate::Failed => Rests::Failed,
            Fate::Blocked => Rests::Blocked,
            Fate::Gate => Rests::Gate,
            Fate::Skipped(Some(needs)) => Rests::Needs((!several.needs).then_some(needs)),
            Fate::Skipped(None) => Rests::Condition,
            Fate::Behind(root) => Rests::Behind((!several.behind).then_some(root)),
            Fate::Unless(root) => Rests::Unless((!several.unless).then_some(root)),
        };
        rests.entry(why).or_default().push(id);
    }
    outlook.runs = runs.into_iter().collect();
    outlook.rests = rests.into_iter().collect();
    outlook
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Trust, load};
    use crate::schedule::fact::Because;
    use crate::schedule::fault::FaultClass;
    use crate::schedule::state::{Flight, NodeRecord};

    /// `a`, then `b`; `c` needs `b`; `d` runs where `b` fails; `e` runs when `b` is over.
    const GRAPH: &str = "name: x\nnodes:\n- {id: a, run: x}\n- {id: b, run: x, depends_on: [a]}\n\
        - {id: c, run: x, depends_on: [b]}\n- {id: d, run: x, depends_on: [{id: b, on: failed}]}\n\
        - {id: e, run: x, depends_on: [{id: b, on: finished}]}\n";

    fn graph() -> Graph {
        load("g.yaml", GRAPH, &|_| None, Trust::Reviewed).unwrap().graph
    }

    /// The state in which these are over; the rest waits.
    fn state(graph: &Graph, over: &[(&str, EndState)]) -> RunState {
        let mut state = RunState::new(graph);
        for (id, end) in over {
            let because = (*end == EndState::Skipped)
                .then(|| Because { node: "b".into(), class: FaultClass::NonzeroExit });
            let record =
                NodeRecord { phase: NodePhase::Over(*end), because, attempts: 1, ..Default::default() };
            state.nodes[graph.node_ix(id).unwrap().at()] = record;
        }
        state
    }

    #[track_caller]
    fn check(over: &[(&str, EndState)], options: &LegOptions, expected: &[&str]) {
        let graph = graph();
        let lines = outlook(&graph, &state(&graph, over), options, &[], None).lines();
        assert_eq!(lines, expected);
    }

    #[test]
    fn what_follows_is_told_by_the_rules_of_the_scheduler() {
        use EndState::{Blocked, Cancelled, Failed, Interrupted, Passed, Skipped, Waiting};
        let plain = LegOptions::default();
        let failed = LegOptions { retry_failed: true, ..LegOptions::default() };
        let blocked = LegOptions { retry_blocked: true, ..LegOptions::default() };
        check(&[], &plain, &["runs (not begun before): a, b, c, e", "not run (only if b fails): d"]);
        check(
            &[("a", Passed), ("b", Interrupted), ("c", Cancelled), ("d", Cancelled), ("e", Cancelled)],
            &plain,
            &[
                "kept (passed): a",
                "runs again (interrupted): b",
                "runs (cancelled before): c, e",
                "not run (only if b fails): d",
            ],
        );
        let after_failure = [("a", Passed), ("b", Failed), ("c", Skipped), ("d", Passed), ("e", Cancelled)];
        check(
            &after_failure,
            &plain,
            &[
                "kept (passed): a, d",
                "runs (cancelled before): e",
                "not run (failed: --retry-failed would open it): b",
                "not run (needs b, which failed): c",
            ],
        );
        check(
            &after_failure,
            &failed,
            &[
                "kept (passed): a, d",
                "runs again (failed, re-opened by --retry-failed): b",
                "runs (cancelled before): e",
                "runs (skipped before): c",
            ],
        );
        let behind = [("a", Passed), ("b", Blocked), ("c", Waiting), ("d", Waiting), ("e", Waiting)];
        check(
            &behind,
            &plain,
            &[
                "kept (passed): a",
                "not run (blocked: --retry-blocked would open it): b",
                "not run (waits behind b): c, d, e",
            ],
        );
        check(
            &behind,
            &blocked,
            &[
                "kept (passed): a",
                "runs again (blocked, re-opened by --retry-blocked): b",
                "runs (waited before): c, e",
                "not run (only if b fails): d",
            ],
        );
        check(
            &[("a", Passed), ("b", Passed)],
            &plain,
            &[
                "kept (passed): a, b",
                "runs (not begun before): c, e",
                "not run (its condition is not met): d",
            ],
        );
    }

    #[test]
    fn of_many_that_failed_it_is_not_told_who_needs_which() {
        let pair =
            |at: usize| format!("- {{id: f{at}, run: x}}\n- {{id: g{at}, run: x, depends_on: [f{at}]}}\n");
        let check = |count: usize, expected: &[&str]| {
            let text = format!("name: x\nnodes:\n{}", (0..count).map(pair).collect::<String>());
            let graph = load("g.yaml", &text, &|_| None, Trust::Reviewed).unwrap().graph;
            let mut state = RunState::new(&graph);
            for at in 0..count {
                state.nodes[2 * at].phase = NodePhase::Over(EndState::Failed);
            }
            let lines = outlook(&graph, &state, &LegOptions::default(), &[], None).lines();
            assert_eq!(lines[1..], *expected);
        };
        check(2, &["not run (needs f0, which failed): g0", "not run (needs f1, which failed): g1"]);
        check(4, &["not run (needs what failed): g0, g1, g2, g3"]);
    }

    #[test]
    fn an_exit_that_nobody_saw_is_looked_at() {
        let graph = graph();
        let mut state = state(&graph, &[("a", EndState::Passed)]);
        let b = graph.node_ix("b").unwrap();
        let flight = Flight {
            intent: "g1-1".into(),
            job: "g1-1".into(),
            attempt: 1,
            delivered: true,
            ending: None,
            runtime: None,
            session: None,
            budget: None,
        };
        state.nodes[b.at()].phase = NodePhase::InFlight(flight);
        let lines = |ended: &[NodeIx]| outlook(&graph, &state, &LegOptions::default(), ended, None).lines();
        assert_eq!(lines(&[])[1], "runs again (interrupted): b");
        assert_eq!(lines(&[b])[1], "looked at first (ended while nobody looked): b");
    }

    #[test]
    fn an_amendment_says_why() {
        let old = graph();
        let text = format!(
            "{}- {{id: f, run: x, depends_on: [c]}}\n",
            GRAPH.replace("id: c, run: x", "id: c, run: y")
        );
        let new = load("g.yaml", &text, &|_| None, Trust::Reviewed).unwrap().graph;
        let state = state(&new, &[("b", EndState::Passed)]);
        let difference = Difference::between(&old, &new);
        let amended = Amended { difference: &difference, reopened: &["c".into()], named: &["a".into()] };
        let outlook = outlook(&new, &state, &LegOptions::default(), &[], Some(amended));
        assert_eq!(
            outlook.lines(),
            [
                "kept (passed): b",
                "runs again (passed, re-opened by name): a",
                "runs (changed): c",
                "runs (new): f",
                "runs (not begun before): e",
                "not run (its condition is not met): d",
            ]
        );
    }
}
