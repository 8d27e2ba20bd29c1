//! The commands: what they print, where, and with which code they end.

use std::fs;

use serde_json::Value;

use crate::support::World;

#[test]
fn usage_errors_end_with_two_and_run_nothing() {
    let world = World::bare();
    let graph = world.graph("name: x\nnodes: [{id: a, run: 'true'}]\n");
    for words in [
        vec!["run"],
        vec!["run", &graph, "extra"],
        vec!["run", &graph, "--no-such-flag"],
        vec!["run", &graph, "-j", "0"],
        vec!["run", &graph, "--run-id", "a/b"],
        vec!["run", "nowhere.yaml"],
        vec!["show", "nope"],
        vec!["resume", "nope"],
        vec!["logs", "nope", "a"],
        vec!["lint"],
        vec!["nonsense"],
    ] {
        let ended = world.omg(&words);
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.stderr);
        assert!(!ended.stderr.is_empty());
    }
    assert!(!world.home().exists());
}

#[test]
fn a_run_id_can_be_taken_once() {
    let world = World::bare();
    world.run("name: x\nnodes: [{id: a, run: 'true'}]\n").expect(0);
    let ended = world.run("name: x\nnodes: [{id: a, run: 'true'}]\n").expect(2);
    assert!(ended.stderr.contains("`r1` is taken"), "{}", ended.stderr);
}

#[test]
fn runs_are_found_by_id_prefix_and_as_the_latest_here() {
    let world = World::new();
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n");
    for id in ["first-1", "first-2", "other"] {
        world.omg(&["run", &graph, "--run-id", id]).expect(0);
    }
    let id_of = |words: &[&str]| {
        let ended = world.omg(words).expect(0);
        serde_json::from_str::<Value>(&ended.stdout).unwrap()["run_id"].as_str().unwrap().to_string()
    };
    assert_eq!(id_of(&["show", "--json"]), "other");
    assert_eq!(id_of(&["show", "latest", "--json"]), "other");
    assert_eq!(id_of(&["show", "oth", "--json"]), "other");
    assert_eq!(id_of(&["show", "first-1", "--json"]), "first-1");
    let several = world.omg(&["show", "first"]).expect(2);
    assert!(several.stderr.contains("first-1, first-2"), "{}", several.stderr);
    let list: Value = serde_json::from_str(&world.omg(&["runs", "--json"]).expect(0).stdout).unwrap();
    let ids: Vec<&str> = list.as_array().unwrap().iter().map(|run| run["run_id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["other", "first-2", "first-1"]);
    for key in ["run_id", "graph", "status", "repo", "started_at", "finished_at"] {
        assert!(!list[0][key].is_null(), "{key}");
    }
}

#[test]
fn show_has_the_shape_that_programs_rely_on() {
    let world = World::new();
    world.run("name: demo\nnodes: [{id: a, worktree: l, run: 'echo hi'}, {id: b, run: 'exit 3', depends_on: [a]}]\n").expect(1);
    let view = world.show();
    let keys: Vec<&str> = view.as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "schema",
        "run_id",
        "graph",
        "status",
        "legs",
        "base",
        "repo",
        "started_at",
        "finished_at",
        "duration_ms",
        "nodes",
        "lanes",
    ] {
        assert!(keys.contains(&key), "{key}");
    }
    assert_eq!((view["schema"].as_u64(), view["graph"].as_str()), (Some(1), Some("demo")));
    let (a, b) = (&view["nodes"][0], &view["nodes"][1]);
    assert_eq!(
        (a["type"].as_str(), a["lane"].as_str(), a["fault"].is_null()),
        (Some("command"), Some("l"), true)
    );
    assert_eq!(
        (b["fault"]["class"].as_str(), b["fault"]["scope"].as_str()),
        (Some("nonzero-exit"), Some("task"))
    );
    let lane = &view["lanes"][0];
    assert_eq!((lane["name"].as_str(), lane["state"].as_str()), (Some("l"), Some("removed")));
    let lanes: Value = serde_json::from_str(&world.omg(&["lanes", "r1", "--json"]).expect(0).stdout).unwrap();
    assert_eq!(lanes, view["lanes"]);
}

#[test]
fn json_output_is_the_journal_itself() {
    let world = World::bare();
    let ended =
        world.run_with("name: x\nnodes: [{id: a, run: 'echo hi'}]\n", &["--output", "json"]).expect(0);
    assert_eq!(ended.stdout, fs::read_to_string(world.run_dir().join("events.jsonl")).unwrap());
}

#[test]
fn results_go_to_standard_output_and_progress_to_standard_error() {
    let world = World::bare();
    let ended = world.run("name: x\nnodes: [{id: a, run: 'true'}]\n").expect(0);
    assert!(ended.stderr.starts_with("run r1 in "), "{}", ended.stderr);
    assert!(ended.stderr.contains("a: passed") && !ended.stdout.contains("a: passed"));
    assert!(ended.stdout.contains("node  state") && !ended.stderr.contains("node  state"));
    assert!(!ended.text().contains('\u{1b}'), "colours without a terminal");
    let colored = world.omg(&["--color", "always", "show", "r1"]).expect(0);
    assert!(colored.stdout.contains('\u{1b}'));
}

#[test]
fn logs_can_be_followed_until_the_node_is_over() {
    let world = World::bare();
    let go = world.path().join("go");
    let graph = world.graph(&format!(
        "name: x\nnodes: [{{id: a, run: 'echo begun; while ! test -e {}; do sleep 0.02; done; echo done'}}]\n",
        go.display()
    ));
    let mut run = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("a");
    let out = world.path().join("followed");
    let mut follow = world
        .command(env!("CARGO_BIN_EXE_omg"))
        .args(["logs", "-f", "r1", "a"])
        .stdout(fs::File::create(&out).unwrap())
        .spawn()
        .unwrap();
    world.wait_for("the first line", || fs::read_to_string(&out).is_ok_and(|text| text == "begun\n"));
    fs::write(go, "").unwrap();
    assert!(follow.wait().unwrap().success());
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read_to_string(out).unwrap(), "begun\ndone\n");
}

#[test]
fn a_dry_run_says_what_would_be_run_and_makes_nothing() {
    let world = World::with(&[("package-lock.json", "{}")]);
    world.tool("npm", "touch ../npm-ran");
    let graph = "name: x\nnodes: [{id: a, worktree: l, run: 'echo {{ lane.branch }}'}, {id: b, run: 'true', depends_on: [a]}]\n";
    let ended = world.run_with(graph, &["--dry-run"]).expect(0);
    for line in [
        "lane l: branch omg/r1/l",
        "`npm ci` (detected by marker files: package-lock.json)",
        "$ echo {{ lane.branch }}",
        "b: in the folder omg was started in, after a",
    ] {
        assert!(ended.stdout.contains(line), "{line}: {}", ended.stdout);
    }
    assert!(!world.home().exists() && !world.path().join("npm-ran").exists());
    assert_eq!(world.branches(), ["main"]);
}

#[test]
fn lint_tells_every_problem_with_its_place_and_the_nearest_name() {
    let world = World::bare();
    let graph = world.graph("name: x\nnodes:\n  - id: build\n    rnu: 'true'\n  - {id: t, run: 'true', depends_on: [biuld], timeout: 5x}\n");
    let ended = world.omg(&["lint", &graph]).expect(2);
    for text in ["g.yaml:4:5", "`run`", "g.yaml:5:", "build", "5x"] {
        assert!(ended.stderr.contains(text), "{text}: {}", ended.stderr);
    }
    let json: Value = serde_json::from_str(&world.omg(&["lint", "--json", &graph]).expect(2).stdout).unwrap();
    assert_eq!(json["schema"], 1);
    let first = &json["problems"][0];
    for key in ["code", "severity", "message", "file", "line", "column", "hint"] {
        assert!(first.get(key).is_some(), "{key}");
    }
    let good = world.graph("name: x\nnodes: [{id: a, run: 'true'}]\n");
    world.omg(&["lint", &good]).expect(0);
}

#[test]
fn planned_graphs_are_refused_with_every_reason_and_nothing_runs() {
    let world = World::new();
    let graph = "name: p\nnodes: [{id: a, prompt: hi, allowed_tools: [Read], worktree: l}, {id: b, run: 'touch ran', allowed_tools: [Read], cwd: x}]\n";
    let ended = world.run_with(graph, &["--planned"]).expect(2);
    for key in ["worktree", "run", "cwd"] {
        assert!(ended.stderr.contains(&format!("`{key}`")), "{key}: {}", ended.stderr);
    }
    assert!(!world.home().exists() && !world.repo().join("ran").exists());
    assert_eq!(world.branches(), ["main"]);
}

#[test]
fn what_this_version_cannot_run_is_refused_by_name_before_anything_starts() {
    let world = World::new();
    for (node, feature) in [
        ("{id: a, run: 'true', protect: [x]}", "protect"),
        ("{id: a, run: 'true', expect_changes: true}", "expect_changes"),
    ] {
        let ended = world.run(&format!("name: x\nnodes: [{node}]\n")).expect(2);
        assert!(
            ended.stderr.contains(feature) && ended.stderr.contains("g.yaml:2:"),
            "{feature}: {}",
            ended.stderr
        );
    }
    let ended = world.run("name: x\npreflight: {tools: [git]}\nnodes: [{id: a, run: 'true'}]\n").expect(2);
    assert!(ended.stderr.contains("preflight"), "{}", ended.stderr);
    assert!(!world.home().exists());
}

#[test]
fn init_writes_a_graph_that_runs() {
    let world = World::new();
    world.omg(&["init"]).expect(0);
    let again = world.omg(&["init"]).expect(2);
    assert!(again.stderr.contains("graph.yaml is there already"), "{}", again.stderr);
    world.omg(&["lint", "graph.yaml"]).expect(0);
    world.omg(&["run", "graph.yaml", "--run-id", "r1"]).expect(0);
    assert_eq!(world.show()["status"], "passed");
}

#[test]
fn settings_come_from_flag_variable_graph_and_file_in_this_order() {
    let mut world = World::bare();
    let config = world.path().join(".config/omg");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "concurrency = 2\n").unwrap();
    let concurrency = |world: &World, id: &str, graph: &str, words: &[&str]| {
        let graph = world.graph(graph);
        world.omg(&[&["run", &graph, "--run-id", id], words].concat()).expect(0);
        let journal = fs::read_to_string(world.home().join("runs").join(id).join("events.jsonl")).unwrap();
        let first: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
        first["concurrency"].as_u64().unwrap()
    };
    let (plain, own) = (
        "name: x\nnodes: [{id: a, run: 'true'}]\n",
        "name: x\nconcurrency: 3\nnodes: [{id: a, run: 'true'}]\n",
    );
    assert_eq!(concurrency(&world, "r1", plain, &[]), 2);
    assert_eq!(concurrency(&world, "r2", own, &[]), 3);
    world.extra.push(("OMG_CONCURRENCY".into(), "4".into()));
    assert_eq!(concurrency(&world, "r3", own, &[]), 4);
    assert_eq!(concurrency(&world, "r4", own, &["-j", "5"]), 5);
    fs::write(config.join("config.toml"), "concurency = 2\n").unwrap();
    let ended = world.omg(&["runs"]).expect(2);
    assert!(ended.stderr.contains("config.toml") && ended.stderr.contains("concurency"), "{}", ended.stderr);
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let world = World::bare();
    world.run("name: x\nnodes: [{id: a, run: 'true'}]\n").expect(0);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = world
        .command(env!("CARGO_BIN_EXE_omg"))
        .args(["show", "r1", "--json"])
        .stdout(full)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(3));
}

#[test]
fn a_damaged_run_is_named_in_the_list() {
    let world = World::bare();
    world.run("name: x\nnodes: [{id: a, run: 'true'}]\n").expect(0);
    fs::write(world.run_dir().join("events.jsonl"), "{broken\n").unwrap();
    let listed = world.omg(&["runs"]).expect(0);
    assert!(listed.stderr.contains("events.jsonl, line 1"), "{}", listed.stderr);
}

#[test]
fn latest_names_the_newest_run_so_no_run_is_named_that() {
    let world = World::bare();
    let graph = world.graph("name: x\nnodes: [{id: a, run: 'true'}]\n");
    world.omg(&["run", &graph, "--run-id", "latest"]).expect(2);
}

#[test]
fn lint_goes_on_past_a_file_that_is_not_there() {
    let world = World::bare();
    let bad = world.graph("name: x\nnodes: [{id: a, rnu: 'true'}]\n");
    let ended = world.omg(&["lint", "--json", "nowhere.yaml", &bad]).expect(2);
    let json: Value = serde_json::from_str(&ended.stdout).unwrap();
    let files: Vec<&str> =
        json["problems"].as_array().unwrap().iter().map(|p| p["file"].as_str().unwrap()).collect();
    assert!(files[0].ends_with("/nowhere.yaml") && files.contains(&bad.as_str()), "{files:?}");
}
