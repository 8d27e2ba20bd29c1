//! Fragments through the front door: what they become in a graph, and what is said of those that can't.

use crate::graph::model::{Dependency, NodeKind, On, Piece};
use crate::graph::{Graph, Problem, Trust, load, render};
use crate::ids::{LaneIx, NodeIx};

const SINGLE: &str = "\
fragment: single
description: d
substitutions: [cmd, limit, env]
node: {run: 'x {{ with.cmd }}', timeout: '{{ with.limit }}', env: '{{ with.env }}', retry: {max: 1}}
";
const SEVERAL: &str = "\
fragment: several
description: d
substitutions: [cmd]
exit: last
nodes:
- {id: first, run: '{{{{ {{ with.cmd }}'}
- {id: judge, depends_on: [first], prompt: '{{ feedback.judge }}', feedback: {rerun: first, max: 1}}
- {id: last, depends_on: [{id: judge, on: finished}], run: 'cat {{ artifacts.first }} {{ artifacts.start }}'}
";
const OUTER: &str = "\
fragment: outer
description: d
substitutions: [cmd]
exit: b
nodes:
- {id: a, run: a}
- {id: b, use: several, depends_on: [a], with: {cmd: '{{ artifacts.a }} {{ with.cmd }}'}}
";

fn load_with(nodes: &str, files: &[(&str, &str)]) -> Result<Graph, Vec<Problem>> {
    let find = |name: &str| {
        let (_, text) = files.iter().find(|(file, _)| *file == name)?;
        Some(Ok((format!("fragments/{name}.yaml"), (*text).to_owned())))
    };
    load("g.yaml", &format!("name: x\nnodes:\n{nodes}"), &find, Trust::Reviewed).map(|loaded| loaded.graph)
}

#[track_caller]
fn good(nodes: &str) -> Graph {
    load_with(nodes, &[("single", SINGLE), ("several", SEVERAL), ("outer", OUTER)])
        .unwrap_or_else(|problems| panic!("{}", render(&problems, false)))
}

#[track_caller]
fn check(nodes: &str, fragment: &str, expected: &[&str], words: &str) {
    let problems = load_with(nodes, &[("f", fragment), ("several", SEVERAL)]).unwrap_err();
    let place = |problem: &Problem| {
        let file = problem.file.trim_start_matches("fragments/");
        format!("{file}:{}:{} {}", problem.line, problem.column, problem.code)
    };
    let found: Vec<String> = problems.iter().map(place).collect();
    assert_eq!(found, expected, "{}", render(&problems, false));
    assert!(problems[0].message.contains(words), "{}", problems[0].message);
}

fn run(graph: &Graph, at: u32) -> &[Piece] {
    match &graph.node(NodeIx(at)).kind {
        NodeKind::Command { run } => &run.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_node_takes_the_place_of_its_citation() {
    let graph = good(
        "- {id: start, run: x}\n- id: n\n  use: single\n  depends_on: [start]\n  retry: {max: 5}\n\
         \x20 with: {cmd: 'cat {{ artifacts.start }}', limit: '', env: {A: b}}\n",
    );
    let node = graph.node(NodeIx(1));
    assert_eq!((node.id.as_str(), node.retry.max, node.timeout), ("n", 5, None));
    assert_eq!(run(&graph, 1), [Piece::Text("x cat ".into()), Piece::ArtifactPath(NodeIx(0))]);
    assert_eq!(node.env.keys().collect::<Vec<_>>(), ["A"]);
}

#[test]
fn several_nodes_move_into_the_space_of_their_citation() {
    let graph = good(
        "- {id: start, run: x}\n- {id: s, use: several, depends_on: [start], worktree: l, with: {cmd: '{{ run.id }}'}}\n\
         - {id: end, run: 'cat {{ artifacts.s }}', depends_on: [s]}\n",
    );
    let ids: Vec<&str> = graph.nodes().iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["start", "s/first", "s/judge", "s/last", "end"]);
    assert_eq!(graph.node(NodeIx(1)).depends_on, [Dependency { node: NodeIx(0), on: On::Passed }]);
    assert_eq!(graph.node(NodeIx(3)).depends_on, [Dependency { node: NodeIx(2), on: On::Finished }]);
    assert_eq!(graph.node(NodeIx(4)).depends_on, [Dependency { node: NodeIx(3), on: On::Passed }]);
    assert_eq!(run(&graph, 1), [Piece::Text("{{ ".into()), Piece::RunId]);
    let text = |text: &str| Piece::Text(text.into());
    let [first, start] = [1, 0].map(|node| Piece::ArtifactPath(NodeIx(node)));
    assert_eq!(run(&graph, 3), [text("cat "), first, text(" "), start]);
    assert_eq!(run(&graph, 4)[1], Piece::ArtifactPath(NodeIx(3)));
    let lanes: Vec<Option<LaneIx>> = graph.nodes().iter().map(|node| node.lane).collect();
    assert_eq!(lanes, [None, Some(LaneIx(0)), Some(LaneIx(0)), Some(LaneIx(0)), None]);
    // What stands in a fragment is listed at its citation.
    assert!(graph.parts().later.iter().all(|later| (later.line, later.column) == (4, 8)));
}

#[test]
fn fragments_cite_fragments() {
    let graph = good(
        "- {id: start, run: x}\n- {id: o, use: outer, depends_on: [start], with: {cmd: c}}\n\
         - {id: end, run: 'cat {{ artifacts.o }}', depends_on: [o]}\n",
    );
    let ids: Vec<&str> = graph.nodes().iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["start", "o/a", "o/b/first", "o/b/judge", "o/b/last", "end"]);
    assert_eq!(run(&graph, 2)[1], Piece::ArtifactPath(NodeIx(1)));
    assert_eq!(run(&graph, 5)[1], Piece::ArtifactPath(NodeIx(4)));
}

#[test]
fn bindings_are_checked_both_ways() {
    let f = "fragment: f\ndescription: d\nsubstitutions: [cmd]\nnode: {run: '{{ with.cmd }} x'}\n";
    check("- {id: a, use: f}\n", f, &["g.yaml:3:16 unbound-substitution"], "needs `cmd`");
    check("- {id: a, use: f, with: {cmd: x, cmt: y}}\n", f, &["g.yaml:3:34 unknown-substitution"], "`cmt`");
    check("- {id: a, use: f, with: {cmd: [x]}}\n", f, &["g.yaml:3:31 wrong-type"], "takes text, not a list");
    check("- {id: a, use: f, with: x}\n", f, &["g.yaml:3:25 wrong-type"], "`with` takes a map");
    let f = f.replace("[cmd]", "[]");
    check("- {id: a, use: f}\n", &f, &["f.yaml:4:13 undeclared-substitution"], "`{{ with.cmd }}`");
}

#[test]
fn a_fragment_keeps_its_own_rules() {
    let head = "fragment: f\ndescription: d\n";
    let at = |body: &str| format!("{head}{body}");
    let cite = "- {id: a, use: f}\n";
    check(cite, &at(""), &["f.yaml:1:1 fragment-body"], "neither `node` nor `nodes`");
    check(
        cite,
        &at("node: {id: b, run: x}\n"),
        &["f.yaml:3:8 fragment-body"],
        "belongs to the node that cites",
    );
    check(cite, &at("nodes: [{id: b, run: x}]\n"), &["f.yaml:3:1 missing-key"], "no `exit`");
    check(cite, &at("exit: c\nnodes: [{id: b, run: x}]\n"), &["f.yaml:3:7 unknown-node"], "`exit` names `c`");
    check(cite, &at("nod: {run: x}\n"), &["f.yaml:1:1 fragment-body", "f.yaml:3:1 unknown-key"], "");
    check(
        cite,
        "fragment: g\nnode: {run: x}\n",
        &["f.yaml:1:1 missing-key", "f.yaml:1:11 fragment-name"],
        "",
    );
    check(cite, &at("node: {run: 'x\n"), &["f.yaml:3:13 yaml-syntax"], "this is not YAML");
    check(cite, &at("node: {run: x, timeout: 3}\n"), &["f.yaml:3:25 wrong-duration"], "`timeout`");
}

#[test]
fn a_subgraph_takes_its_name() {
    let cite = |id: &str| format!("- {{id: {id}, use: several, depends_on: [start], with: {{cmd: x}}}}\n");
    let start = "- {id: start, run: x}\n";
    let twice = format!("{start}{}{}", cite("s"), cite("s"));
    check(&twice, "", &["g.yaml:5:8 duplicate-id"], "the first is at line 4");
    let also = format!("{start}{}- {{id: S, run: x}}\n", cite("s"));
    check(&also, "", &["g.yaml:4:8 duplicate-id"], "differ in case only");
    let looped = format!(
        "{start}{}- {{id: e, prompt: p, depends_on: [s], feedback: {{rerun: s, max: 1}}}}\n",
        cite("s")
    );
    check(&looped, "", &["g.yaml:5:57 feedback-target"], "a spliced subgraph");
}

#[test]
fn what_points_make_is_bounded() {
    let f = format!(
        "fragment: f\ndescription: d\nsubstitutions: [p]\nnode: {{run: '{}'}}\n",
        "{{ with.p }}".repeat(1_000)
    );
    let text = "x".repeat(100_000);
    let nodes = format!("- {{id: a, use: f, with: {{p: {text}}}}}\n");
    check(&nodes, &f, &["g.yaml:3:29 expansion-too-large"], "more than 64 MiB");
}

#[test]
fn citations_have_limits() {
    let f = "fragment: f\ndescription: d\nnode: {use: f}\n";
    check("- {id: a, use: f}\n", f, &["f.yaml:3:13 fragment-cycle"], "f → f");
    check("- {id: a, use: ../f}\n", f, &["g.yaml:3:16 unknown-fragment"], "the bare name");
    check("- {id: a, use: none-such}\n", f, &["g.yaml:3:16 unknown-fragment"], "no fragment `none-such`");
    check(
        "- {id: a, use: f, prompt: p}\n",
        &f.replace("use: f", "prompt: q"),
        &["g.yaml:3:19 prompt-beside-use"],
        "",
    );
    check(
        "- {id: start, run: x}\n- {id: a, use: several, depends_on: [start], with: {cmd: x}, retry: {max: 1}}\n",
        f,
        &["g.yaml:4:62 subgraph-key"],
        "`retry` has no single node here",
    );
    let chain: Vec<(String, String)> = (0..4)
        .map(|at| {
            let text = format!("fragment: f{at}\ndescription: d\nnode: {{use: f{}}}\n", at + 1);
            (format!("f{at}"), text)
        })
        .collect();
    let chain: Vec<(&str, &str)> = chain.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let problems = load_with("- {id: a, use: f0}\n", &chain).unwrap_err();
    assert_eq!((problems[0].code.word(), problems[0].file.as_str()), ("fragment-depth", "fragments/f2.yaml"));
}
