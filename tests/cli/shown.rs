//! `omg graph`: what a graph, and a run of it, looks like to people and programs.

use serde_json::Value;

use crate::support::World;

const GRAPH: &str = "\
name: demo
nodes:
- {id: build, run: 'true', worktree: app}
- {id: test, run: 'exit 3', worktree: app, depends_on: [build]}
- {id: tell, run: 'true', depends_on: [{id: test, on: failed}]}
- {id: ship, run: 'true', depends_on: [test]}
";

#[test]
fn a_graph_is_shown_in_every_format_and_nothing_is_made() {
    let world = World::bare();
    let graph = world.graph(GRAPH);
    let text = world.omg(&["graph", &graph]).expect(0).stdout;
    assert_eq!(
        text,
        "demo: 4 nodes, 3 edges, 1 lane\n\nlevel 1\n  build  command  lane app\nlevel 2\n  test   command  lane app  after build\n\
         level 3\n  tell   command            after test (failed)\n  ship   command            after test\n"
    );
    let dot = world.omg(&["graph", &graph, "--format", "dot"]).expect(0).stdout;
    assert!(dot.starts_with("digraph omg {") && dot.contains("  n1 -> n2 [label=\"failed\"];\n"), "{dot}");
    let mermaid = world.omg(&["graph", &graph, "--format", "mermaid"]).expect(0).stdout;
    assert!(mermaid.contains("flowchart LR\n") && mermaid.contains("n1 -->|failed| n2"), "{mermaid}");
    let json = world.omg(&["graph", &graph, "--format", "json"]).expect(0).stdout;
    assert_eq!(json, world.omg(&["graph", "--json", &graph]).expect(0).stdout);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["schema"], &json["name"], &json["edges"][1]["on"]),
        (&1.into(), &"demo".into(), &"failed".into())
    );
    assert!(json["run_id"].is_null() && json["nodes"][0]["state"].is_null());
    assert!(!world.home().exists());
}

#[test]
fn a_run_is_shown_with_the_states_of_its_nodes() {
    let world = World::new();
    world.run(GRAPH).expect(1);
    // What is shown is the run's own graph, not what became of the file.
    let graph = world.graph("name: other\nnodes: [{id: z, run: x}]\n");
    let text = world.omg(&["graph", "--run", "latest"]).expect(0).stdout;
    assert!(text.starts_with("demo: 4 nodes, 3 edges, 1 lane; run r1 failed\n"), "{text}");
    for line in ["build  passed ", "test   failed ", "tell   passed ", "ship   skipped"] {
        assert!(text.contains(&format!("  {line}  command")), "{line}: {text}");
    }
    let dot = world.omg(&["graph", "--run", "r1", "--format", "dot"]).expect(0).stdout;
    assert!(dot.contains("n1 [label=\"test\", fillcolor=\"#f4a9a0\", tooltip=\"failed\"];"), "{dot}");
    let mermaid = world.omg(&["graph", "--run", "r1", "--format", "mermaid"]).expect(0).stdout;
    assert!(mermaid.contains("  n3[\"ship\"]:::skipped\n"), "{mermaid}");
    assert!(mermaid.ends_with("  classDef failed fill:#f4a9a0\n  classDef passed fill:#b7e1b0\n  classDef skipped fill:#e2e2e2\n"), "{mermaid}");
    let json: Value =
        serde_json::from_str(&world.omg(&["graph", "--run", "r1", "--json"]).expect(0).stdout).unwrap();
    assert_eq!((&json["run_id"], &json["status"]), (&"r1".into(), &"failed".into()));
    assert_eq!(json["nodes"][3]["state"], "skipped");
    world.omg(&["graph", "--run", "r1", &graph]).expect(2);
    world.omg(&["graph"]).expect(2);
    world.omg(&["graph", "--run", "nope"]).expect(2);
}

#[test]
fn the_schema_is_printed_and_describes_every_key() {
    let world = World::bare();
    let schema: Value = serde_json::from_str(&world.omg(&["schema"]).expect(0).stdout).unwrap();
    for keys in [&schema["properties"], &schema["$defs"]["node"]["properties"]] {
        let keys = keys.as_object().unwrap();
        assert!(keys.len() > 20 && keys.values().all(|key| key["description"].is_string()));
    }
    assert!(!world.home().exists());
}

#[test]
fn what_is_wrong_with_a_graph_is_said_instead() {
    let world = World::bare();
    let graph = world.graph("name: x\nnodes: [{id: a, run: x, depends_on: [b]}]\n");
    let ended = world.omg(&["graph", &graph, "--format", "dot"]).expect(2);
    assert!(ended.stdout.is_empty() && ended.stderr.contains("g.yaml:2:38"), "{}", ended.stderr);
}

#[test]
fn every_pair_of_a_hundred_layers_of_a_hundred_is_an_edge() {
    let world = World::bare();
    let mut text = String::from("name: layers\nx-layers:\n");
    for layer in 0..99 {
        let ids: Vec<String> = (0..100).map(|at| format!("n{layer}_{at}")).collect();
        text.push_str(&format!("- &l{layer} [{}]\n", ids.join(", ")));
    }
    text.push_str("nodes:\n");
    for at in 0..10_000 {
        let (layer, at) = (at / 100, at % 100);
        let edges = if layer == 0 { String::new() } else { format!(", depends_on: *l{}", layer - 1) };
        text.push_str(&format!("- {{id: n{layer}_{at}, run: x{edges}}}\n"));
    }
    let graph = world.graph(&text);
    let shown = world.omg(&["graph", &graph]).expect(0).stdout;
    assert!(shown.starts_with("layers: 10000 nodes, 990000 edges, 0 lanes\n"));
    assert_eq!(shown.matches("\nlevel ").count(), 100);
    assert_eq!(shown.matches("and 94 more").count(), 9_900);
    let dot = world.omg(&["graph", &graph, "--format", "dot"]).expect(0).stdout;
    assert_eq!(dot.matches(" -> ").count(), 990_000);
}
