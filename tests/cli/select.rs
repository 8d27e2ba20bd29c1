//! A part of a graph: `--only`, `--from`, `--until`.

use crate::support::World;

const GRAPH: &str = "\
name: x
nodes:
- {id: prepare, run: 'true'}
- {id: build, worktree: l, run: 'echo built', depends_on: [prepare]}
- {id: test, run: 'true', depends_on: [build]}
- {id: docs, worktree: other, run: 'true', depends_on: [prepare]}
- {id: publish, run: 'cat {{ artifacts.build }}', depends_on: [test, docs]}
- {id: tell, run: 'true', depends_on: [{id: prepare, on: failed}, {id: test, on: finished}]}
";

fn ran(world: &World) -> Vec<String> {
    let view = world.show();
    view["nodes"].as_array().unwrap().iter().map(|node| node["id"].as_str().unwrap().to_string()).collect()
}

#[test]
fn until_runs_a_node_and_what_it_needs_and_makes_no_other_lane() {
    let world = World::new();
    let ended = world.run_with(GRAPH, &["--until", "test"]).expect(0);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert_eq!(lines[1], "note: 3 of 6 nodes: --until test", "{}", ended.stderr);
    assert_eq!(ran(&world), ["prepare", "build", "test"]);
    let lanes: Vec<String> = world
        .events_named("lane.acquire.requested")
        .iter()
        .map(|event| event["lane"].as_str().unwrap().to_string())
        .collect();
    assert_eq!(lanes, ["l"]);
    assert_eq!(world.show()["selection"]["until"][0], "test");
    assert_eq!(world.show()["selection"]["nodes_in_graph"], 6);
    assert!(ended.stdout.contains("3 of 6 nodes: --until test\n"), "{}", ended.stdout);
}

#[test]
fn from_takes_what_came_before_as_given_and_between_is_both() {
    let world = World::new();
    let ended = world.run_with(GRAPH, &["--from", "build", "--until", "test"]).expect(0);
    assert_eq!(ran(&world), ["build", "test"]);
    assert!(ended.stderr.contains("note: 2 of 6 nodes: --from build --until test\n"), "{}", ended.stderr);
    let from = world.graph(GRAPH);
    let ended = world.omg(&["run", &from, "--run-id", "r2", "--from", "build"]).expect(0);
    let left_out = "note: `tell` is left out: it runs only if `prepare` fails, which is not selected\n";
    assert!(ended.stderr.contains(left_out), "{}", ended.stderr);
    assert!(ended.stderr.contains("note: 3 of 6 nodes: --from build\n"), "{}", ended.stderr);
    let result = std::fs::read_to_string(world.home().join("runs/r2/nodes/publish/result")).unwrap();
    assert_eq!(result, "built");
}

#[test]
fn a_token_of_what_is_not_selected_stops_everything_before_it_begins() {
    let world = World::new();
    let ended = world.run_with(GRAPH, &["--from", "test"]).expect(2);
    let message = "error: node `publish` names `{{ artifacts.build }}`, and `build` is not selected\n\
                   hint: add `--from build`\n";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
    let ended = world.run_with(GRAPH, &["--only", "publsh", "--only", "docs"]).expect(2);
    let message = "error: no node `publsh` in this graph\nhint: did you mean `publish`?\n";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
    world.run_with(GRAPH, &["--from", "docs", "--until", "test"]).expect(2);
    let both = world.run_with(GRAPH, &["--only", "docs", "--until", "test"]).expect(2);
    assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
    assert!(!world.home().exists());
}

#[test]
fn later_legs_keep_to_the_selection() {
    let world = World::new();
    let go = world.path().join("go");
    let graph = GRAPH.replace("run: 'echo built'", &format!("run: 'test -e {}'", go.display()));
    world.run_with(&graph, &["--from", "build", "--until", "test"]).expect(1);
    std::fs::write(&go, "").unwrap();
    let ended = world.omg(&["resume", "r1", "--retry-failed"]).expect(0);
    assert!(ended.stderr.contains("note: 2 of 6 nodes: --from build --until test\n"), "{}", ended.stderr);
    assert_eq!(ran(&world), ["build", "test"]);
    let shown = world.omg(&["graph", "--run", "r1"]).expect(0).stdout;
    assert!(shown.contains("build") && !shown.contains("docs"), "{shown}");
}

#[test]
fn a_dry_run_and_a_drawing_show_the_selection() {
    let world = World::bare();
    let graph = world.graph(GRAPH);
    let dry = world.omg(&["run", &graph, "--dry-run", "--only", "test", "--only", "prepare"]).expect(0);
    assert!(dry.stderr.contains("note: 2 of 6 nodes: --only test --only prepare\n"), "{}", dry.stderr);
    assert!(dry.stdout.contains("test: in the folder omg was started in, after prepare\n"), "{}", dry.stdout);
    assert!(!dry.stdout.contains("build"), "{}", dry.stdout);
    let drawn = world.omg(&["graph", &graph, "--until", "docs", "--format", "mermaid"]).expect(0).stdout;
    assert!(drawn.contains("docs") && !drawn.contains("build"), "{drawn}");
}
