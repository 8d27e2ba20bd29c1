//! Parts of graphs: by table, and of random graphs against the words of the manual.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{Dependency, Node, NodeKind, On, Piece};
use super::select::{SelectError, Selection, select};
use super::{Graph, Trust, load};
use crate::ids::{LaneIx, NodeIx};

fn graph(nodes: &str) -> Graph {
    let text = format!("name: x\nnodes:\n{nodes}");
    load("g.yaml", &text, &|_| None, Trust::Reviewed).unwrap_or_else(|all| panic!("{all:#?}")).graph
}

fn wanted(line: &str) -> Selection {
    let mut selection = Selection::default();
    let words: Vec<&str> = line.split_whitespace().collect();
    for pair in words.chunks(2) {
        let list = match pair[0] {
            "--only" => &mut selection.only,
            "--from" => &mut selection.from,
            _ => &mut selection.until,
        };
        list.push(pair[1].to_string());
    }
    assert_eq!(selection.to_string(), line);
    selection
}

/// Returns the nodes of a graph, each with what it waits for: `c(a b?)`, `?` for finished, `!` for failed.
fn shape(graph: &Graph) -> String {
    let edge = |edge: &Dependency| {
        let mark = match edge.on {
            On::Passed => "",
            On::Finished => "?",
            On::Failed => "!",
        };
        format!("{}{mark}", graph.node(edge.node).id)
    };
    let node = |node: &Node| match node.depends_on.as_slice() {
        [] => node.id.to_string(),
        edges => format!("{}({})", node.id, edges.iter().map(edge).collect::<Vec<_>>().join(" ")),
    };
    graph.nodes().iter().map(node).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(graph: &Graph, flags: &str, expected: &str) {
    match select(graph, &wanted(flags)) {
        Ok(part) => assert_eq!(shape(&part.graph), expected, "{flags}"),
        Err(errors) => assert_eq!(errors[0].to_string(), expected, "{flags}"),
    }
}

const DIAMOND: &str = "\
- {id: d, run: x, depends_on: [b, c]}
- {id: a, run: x}
- {id: b, run: x, depends_on: [a]}
- {id: c, run: x, depends_on: [{id: a, on: finished}]}
- {id: e, run: x, depends_on: [d]}
";

#[test]
fn flags_select_upwards_downwards_and_between() {
    let graph = graph(DIAMOND);
    check(&graph, "--until b", "a b(a)");
    check(&graph, "--until b --until c", "a b(a) c(a?)");
    check(&graph, "--from b", "d(b) b e(d)");
    check(&graph, "--from b --from c", "d(b c) b c e(d)");
    check(&graph, "--from b --until d", "d(b) b");
    check(&graph, "--from a --until e", "d(b c) a b(a) c(a?) e(d)");
    check(&graph, "--from e --until e", "e");
    check(
        &graph,
        "--from b --until c",
        "`--from b --until c` selects no node: no path leads from the one to the other",
    );
    check(&graph, "--until dd", "no node `dd` in this graph");
    let errors = select(&graph, &wanted("--from x --until zz")).unwrap_err();
    assert_eq!(errors.len(), 2, "every unknown name is told: {errors:?}");
}

#[test]
fn only_keeps_the_order_that_went_through_others() {
    let graph = graph(DIAMOND);
    check(&graph, "--only d", "d");
    check(&graph, "--only d --only a", "d(a) a");
    check(&graph, "--only c --only e", "c e(c)");
    check(&graph, "--only d --only c --only a", "d(c a) a c(a?)");
}

#[test]
fn what_only_a_failure_starts_is_left_out_unless_it_is_named() {
    let graph = graph(
        "- {id: a, run: x}\n- {id: b, run: x}\n\
             - {id: h, run: x, depends_on: [{id: a, on: failed}, {id: b, on: finished}]}\n\
             - {id: i, run: x, depends_on: [h]}\n- {id: j, run: x, depends_on: [{id: i, on: finished}]}\n",
    );
    check(&graph, "--from b", "b j(b?)");
    check(&graph, "--from b --from h", "b h(b?) i(h) j(i?)");
    check(&graph, "--only h", "h");
    check(&graph, "--from a", "a h(a!) i(h) j(i?)");
    let notes = select(&graph, &wanted("--from b")).unwrap().notes;
    assert_eq!(
        notes,
        [
            "`h` is left out: it runs only if `a` fails, which is not selected",
            "`i` is left out: it needs `h`, which is not selected"
        ]
    );
}

#[test]
fn tokens_move_with_their_nodes_and_lanes() {
    let graph = graph(
        "- {id: a, worktree: one, run: x}\n- {id: b, worktree: two, run: x, depends_on: [a]}\n\
             - id: c\n  depends_on: [b]\n  run: 'cat {{ artifacts.b }} {{ lanes.two.branch }}'\n\
             - {id: d, run: 'cat {{ artifacts.a }} {{ lanes.one.path }} $OMG_ARTIFACT_B', depends_on: [c]}\n",
    );
    let part = select(&graph, &wanted("--from b --until c")).unwrap();
    let lanes: Vec<&str> = part.graph.lanes().iter().map(|lane| lane.name.as_str()).collect();
    assert_eq!(lanes, ["two"]);
    assert_eq!(part.graph.node(NodeIx(0)).lane, Some(LaneIx(0)));
    let NodeKind::Command { run } = &part.graph.node(NodeIx(1)).kind else { panic!("no command") };
    assert!(run.0.contains(&Piece::ArtifactPath(NodeIx(0))), "{run:?}");
    assert!(run.0.contains(&Piece::OtherLaneBranch(LaneIx(0))), "{run:?}");
    let errors = select(&graph, &wanted("--from c")).unwrap_err();
    let said: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "node `c` names `{{ artifacts.b }}`, and `b` is not selected",
            "node `d` names `{{ artifacts.a }}`, and `a` is not selected",
            "node `c` names `{{ lanes.two.branch }}`, and no node before it in that lane is selected",
            "node `d` names `{{ lanes.one.path }}`, and no node before it in that lane is selected",
        ]
    );
    assert_eq!(errors[0].hint().as_deref(), Some("add `--from b`"));
    let part = select(&graph, &wanted("--only a --only d")).unwrap();
    assert_eq!(shape(&part.graph), "a d(a)");
    assert_eq!(part.notes, ["`d` names `$OMG_ARTIFACT_B`, which is not set: `b` is not selected"]);
}

#[test]
fn a_lane_counts_only_where_a_node_before_works_in_it() {
    let graph = graph(
        "- {id: a, worktree: l, run: x}\n- {id: b, worktree: l, run: x}\n\
             - {id: c, run: 'echo {{ lanes.l.path }}', depends_on: [a]}\n",
    );
    let words = "node `c` names `{{ lanes.l.path }}`, and no node before it in that lane is selected";
    check(&graph, "--only b --only c", words);
    check(&graph, "--only a --only c", "a c(a)");
}

/// Returns a graph of `count` nodes with edges by chance, in an order of the file that is not theirs.
fn by_chance(random: &mut impl FnMut(u32) -> u32) -> Graph {
    let count = 1 + random(9);
    let mut lines: Vec<String> = (0..count)
        .map(|node| {
            let edges = (0..node).filter_map(|before| {
                let on = ["passed", "passed", "finished", "failed"][random(4) as usize];
                (random(3) == 0).then(|| format!("{{id: n{before}, on: {on}}}"))
            });
            format!("- {{id: n{node}, run: x, depends_on: [{}]}}\n", edges.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let cut = random(count) as usize;
    lines.rotate_left(cut);
    graph(&lines.concat())
}

#[test]
fn of_any_graph_a_part_is_closed_ordered_and_loses_no_wait() {
    let mut seed = 1_u64;
    let mut random = |below: u32| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32 % below
    };
    for round in 0..2_000 {
        let whole = by_chance(&mut random);
        let count = whole.nodes().len() as u32;
        let names = |random: &mut dyn FnMut(u32) -> u32, most: u32| -> Vec<String> {
            (0..random(most + 1)).map(|_| format!("n{}", random(count))).collect()
        };
        let mut selection = Selection::default();
        if round % 2 == 0 {
            selection.only = names(&mut random, 4);
        } else {
            (selection.from, selection.until) = (names(&mut random, 2), names(&mut random, 2));
        }
        let shown = format!("{selection} of {}", shape(&whole));
        let expected = expected(&whole, &selection);
        let part = match select(&whole, &selection) {
            Ok(part) => part.graph,
            Err(errors) => {
                assert!(matches!(errors[..], [SelectError::Nothing(_)]) && expected.is_empty(), "{shown}");
                continue;
            }
        };
        let chosen: Vec<&str> = part.nodes().iter().map(|node| node.id.as_str()).collect();
        assert_eq!(chosen, expected, "file order, and what the flags say: {shown}");
        let ids = |graph: &Graph, all: Vec<NodeIx>| -> BTreeSet<String> {
            all.into_iter().map(|ix| graph.node(ix).id.to_string()).collect()
        };
        for ix in part.node_ixs() {
            let old = whole.node_ix(part.node(ix).id.as_str()).unwrap();
            let mut before = ids(&whole, whole.ancestors(old));
            before.retain(|id| chosen.contains(&id.as_str()));
            assert_eq!(ids(&part, part.ancestors(ix)), before, "who comes before whom: {shown}");
            for edge in &whole.node(old).depends_on {
                let Some(place) = part.node_ix(whole.node(edge.node).id.as_str()) else { continue };
                let kept = part.node(ix).depends_on.iter().filter(|kept| kept.node == place);
                assert_eq!(kept.map(|kept| kept.on).collect::<Vec<_>>(), [edge.on], "{shown}");
            }
        }
    }
}

/// The same by the words of the manual, the slow way.
fn expected<'g>(whole: &'g Graph, selection: &Selection) -> Vec<&'g str> {
    let named = |names: &[String], ix: NodeIx| names.iter().any(|name| *name == *whole.node(ix).id.as_str());
    let mut is_in: BTreeMap<NodeIx, bool> = whole
        .node_ixs()
        .map(|ix| {
            let above = |names: &[String]| whole.ancestors(ix).into_iter().any(|before| named(names, before));
            let below = |names: &[String]| {
                whole.node_ixs().any(|after| named(names, after) && whole.ancestors(after).contains(&ix))
            };
            let Selection { only, from, until } = selection;
            let by_only = only.is_empty() || named(only, ix);
            let by_from = from.is_empty() || named(from, ix) || above(from);
            let by_until = until.is_empty() || named(until, ix) || below(until);
            (ix, by_only && by_from && by_until)
        })
        .collect();
    let is_named =
        |ix| [&selection.only, &selection.from, &selection.until].iter().any(|names| named(names, ix));
    let first = is_in.clone();
    loop {
        let never = whole.node_ixs().find(|ix| {
            is_in[ix]
                && !is_named(*ix)
                && whole.node(*ix).depends_on.iter().any(|edge| match edge.on {
                    On::Failed => !is_in[&edge.node],
                    On::Passed => first[&edge.node] && !is_in[&edge.node],
                    On::Finished => false,
                })
        });
        match never {
            Some(ix) => is_in.insert(ix, false),
            None => break,
        };
    }
    whole.node_ixs().filter(|ix| is_in[ix]).map(|ix| whole.node(ix).id.as_str()).collect()
}
