//! Command nodes: what they see, what they leave, how they are checked.

use crate::support::World;

#[test]
fn a_result_is_standard_output_and_a_log_is_both() {
    let world = World::bare();
    world.run("name: x\nnodes: [{id: a, run: 'echo out; echo err >&2; echo last'}]\n").expect(0);
    assert_eq!(world.result("a"), "out\nlast");
    let log = std::fs::read_to_string(world.node("a")["log"].as_str().unwrap()).unwrap();
    assert!(log.contains("err\n") && log.contains("out\n"), "{log}");
    let logs = world.omg(&["logs", "r1", "a"]).expect(0);
    assert_eq!(logs.stdout, log);
}

#[test]
fn inputs_artifacts_and_the_environment_reach_a_node() {
    let world = World::bare();
    let graph = r#"
name: x
inputs: {who: {default: world}, greeting: {description: what to say}}
env: {SHARED: "from {{ inputs.who }}", BOTH: graph}
nodes:
  - {id: first-one, run: 'echo {{ inputs.greeting }} {{ inputs.who }}'}
  - id: b
    depends_on: [first-one]
    env: {BOTH: node}
    run: |
      cat {{ artifacts.first-one }}; echo
      cat "$OMG_ARTIFACT_FIRST_ONE"; echo
      echo "$SHARED $BOTH $OMG_RUN_ID $OMG_NODE $OMG_ATTEMPT {{ run.id }} {{{{ literal }}"
"#;
    world.run_with(graph, &["--input", "greeting=hello"]).expect(0);
    assert_eq!(world.result("b"), "hello world\nhello world\nfrom world node r1 b 1 r1 {{ literal }}");
}

#[test]
fn a_missing_or_unknown_input_stops_everything_before_it_begins() {
    let world = World::bare();
    let graph = "name: x\ninputs: [who]\nnodes: [{id: a, run: 'true'}]\n";
    let missing = world.run(graph).expect(2);
    assert!(missing.stderr.contains("`who` is missing"), "{}", missing.stderr);
    let unknown = world.run_with(graph, &["--input", "who=x", "--input", "whu=y"]).expect(2);
    assert!(
        unknown.stderr.contains("whu") && unknown.stderr.contains("did you mean `who`"),
        "{}",
        unknown.stderr
    );
    assert!(!world.home().exists());
}

#[test]
fn paths_are_quoted_where_a_shell_reads_them() {
    let mut world = World::bare();
    let home = world.path().join("ho me's");
    world.extra.push(("OMG_HOME".into(), home.clone().into()));
    let graph = world.graph(
        "name: x\nnodes: [{id: a, run: echo hi}, {id: b, depends_on: [a], run: 'cat {{ artifacts.a }}'}]\n",
    );
    world.omg(&["run", &graph, "--run-id", "r1"]).expect(0);
    assert_eq!(std::fs::read_to_string(home.join("runs/r1/nodes/b/result")).unwrap(), "hi");
}

#[test]
fn the_graphs_shell_reads_command_lines() {
    let world = World::bare();
    let graph =
        "name: x\nshell: [bash, -euo, pipefail, -c]\nnodes: [{id: a, run: 'false | true; echo not here'}]\n";
    world.run(graph).expect(1);
    assert_eq!(world.result("a"), "");
}

#[test]
fn cwd_is_relative_to_the_folder_omg_was_started_in_also_later() {
    let world = World::bare();
    std::fs::create_dir(world.repo().join("sub")).unwrap();
    let go = world.path().join("go");
    let graph = format!("name: x\nnodes: [{{id: a, cwd: sub, run: 'pwd; test -e {}'}}]\n", go.display());
    world.run(&graph).expect(1);
    std::fs::write(&go, "").unwrap();
    let elsewhere = world
        .command(env!("CARGO_BIN_EXE_omg"))
        .args(["resume", "r1", "--retry-failed"])
        .current_dir("/")
        .output()
        .unwrap();
    assert_eq!(elsewhere.status.code(), Some(0));
    assert_eq!(world.result("a"), world.repo().join("sub").canonicalize().unwrap().display().to_string());
}

#[test]
fn what_is_about_to_be_done_says_on_what_and_why() {
    let world = World::new();
    world.run("name: x\nnodes: [{id: a, worktree: l, timeout: 100ms, run: 'sleep 60'}]\n").expect(1);
    let requested: Vec<_> = world
        .events()
        .into_iter()
        .filter(|event| event["event"].as_str().unwrap().ends_with(".requested"))
        .map(|event| {
            assert!(event["intent"].is_string() && event["reason"].is_string(), "{event}");
            format!("{} {}", event["event"].as_str().unwrap(), event["target"].as_str().unwrap())
        })
        .collect();
    let acts = [
        "lane.acquire.requested l",
        "provision.requested l",
        "node.dispatch.requested a",
        "node.kill.requested a",
        "lane.cleanup.requested l",
    ];
    assert_eq!(requested, acts);
}

#[test]
fn standard_input_is_empty() {
    let world = World::bare();
    world.run("name: x\nnodes: [{id: a, run: 'cat; echo done'}]\n").expect(0);
    assert_eq!(world.result("a"), "done");
}

#[test]
fn model_keys_reach_a_node_only_when_named() {
    let mut world = World::bare();
    for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"] {
        world.extra.push((name.into(), format!("secret-of-{name}").into()));
    }
    let run = "env | grep -c API_KEY || true";
    world.run(&format!("name: x\nnodes: [{{id: a, run: '{run}'}}]\n")).expect(0);
    assert_eq!(world.result("a"), "0");
    let graph =
        world.graph(&format!("name: x\npass_env: [OPENAI_API_KEY]\nnodes: [{{id: a, run: '{run}'}}]\n"));
    world.omg(&["run", &graph, "--run-id", "r2", "--pass-env", "ANTHROPIC_API_KEY"]).expect(0);
    assert_eq!(std::fs::read_to_string(world.home().join("runs/r2/nodes/a/result")).unwrap(), "2");
}

#[test]
fn secrets_are_masked_in_the_journal_and_on_the_terminal() {
    let mut world = World::bare();
    world.extra.push(("MY_TOKEN".into(), "s3cr3t-value".into()));
    let ended = world.run("name: x\nnodes: [{id: a, run: 'echo saw $MY_TOKEN; exit 1'}]\n").expect(1);
    assert!(ended.text().contains("saw ***") && !ended.text().contains("s3cr3t"), "{}", ended.text());
    let journal = std::fs::read_to_string(world.run_dir().join("events.jsonl")).unwrap();
    assert!(!journal.contains("s3cr3t"));
}

#[test]
fn verify_is_the_engines_word_over_the_nodes() {
    let world = World::bare();
    let graph = r#"
name: x
on_fail: continue
nodes:
  - {id: holds, run: 'touch made', success_check: {verify: {command: 'test -e made; echo fine', output_matches: '^fine'}}}
  - {id: fails, run: 'true', success_check: {verify: {command: 'exit 4'}}}
  - {id: expected, run: 'true', success_check: {verify: {command: 'exit 4', expect_exit: 4}}}
  - {id: output, run: 'true', success_check: {verify: {command: 'echo no', output_matches: 'yes'}}}
  - {id: missing, run: 'true', success_check: {verify: {command: 'no-such-command-here'}}}
  - {id: slow, run: 'true', success_check: {verify: {command: 'sleep 60', timeout: 100ms}}}
  - {id: result, run: 'echo DONE', success_check: {result_matches: '^DONE$'}}
  - {id: mismatch, run: 'echo nothing', success_check: {result_matches: '^DONE$'}}
  - {id: ignored, run: 'echo DONE; exit 3', success_check: {exit_zero: false, result_matches: DONE}}
"#;
    world.run(graph).expect(1);
    for (id, state, class) in [
        ("holds", "passed", ""),
        ("fails", "failed", "verify-failed"),
        ("expected", "passed", ""),
        ("output", "failed", "verify-failed"),
        ("missing", "blocked", "verify-not-run"),
        ("slow", "blocked", "verify-timeout"),
        ("result", "passed", ""),
        ("mismatch", "failed", "result-mismatch"),
        ("ignored", "passed", ""),
    ] {
        assert_eq!((world.state(id).as_str(), world.class(id).as_str()), (state, class), "{id}");
    }
    assert_eq!(world.node("missing")["fault"]["scope"], "environment");
    assert_eq!(world.node("slow")["attempts"], 3);
}

#[test]
fn a_failed_node_shows_the_end_of_its_log_and_where_it_is() {
    let world = World::bare();
    let ended = world.run("name: x\nnodes: [{id: a, run: 'seq 1 100; exit 2'}]\n").expect(1);
    assert!(ended.stderr.contains("| 61\n") && !ended.stderr.contains("| 60\n"), "{}", ended.stderr);
    let log = world.run_dir().join("nodes/a/attempt-1.log");
    assert!(ended.stderr.contains(&log.display().to_string()));
}

#[test]
fn nodes_begin_by_longest_path_then_file_order() {
    let world = World::bare();
    let graph = "name: x\nconcurrency: 1\nnodes:\n\
        - {id: leaf, run: 'true'}\n\
        - {id: root, run: 'true'}\n\
        - {id: second, run: 'true'}\n\
        - {id: mid, run: 'true', depends_on: [root]}\n\
        - {id: end, run: 'true', depends_on: [mid]}\n";
    world.run(graph).expect(0);
    let order: Vec<String> = world
        .events_named("node.started")
        .iter()
        .map(|event| event["node"].as_str().unwrap().into())
        .collect();
    assert_eq!(order, ["root", "mid", "leaf", "second", "end"]);
}
