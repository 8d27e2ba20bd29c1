//! `omg resume --graph`: a run goes on with another graph. And what a resume says before it acts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Ended, World, signal};

/// Every file below a folder with its content; what holds no content has none.
fn everything(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            let path = entry.path();
            let is_folder = entry.file_type().unwrap().is_dir();
            let content = if is_folder { Vec::new() } else { fs::read(&path).unwrap_or_default() };
            found.insert(path.display().to_string(), content);
            if is_folder {
                folders.push(path);
            }
        }
    }
    found
}

/// What nodes did, in order: each adds a word.
fn did(world: &World) -> String {
    let text = fs::read_to_string(world.path().join("did")).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A node that notes that it ran, and then does `then`.
fn node(world: &World, id: &str, keys: &str, then: &str) -> String {
    let did = world.path().join("did");
    format!("- {{id: {id}, {keys}run: 'echo {id} >> {}; {then}'}}\n", did.display())
}

fn graph(nodes: &[String]) -> String {
    format!("name: x\non_fail: continue\nconcurrency: 1\nnodes:\n{}", nodes.concat())
}

/// Writes a graph beside that of the run, and resumes with it.
fn amend(world: &World, text: &str, words: &[&str]) -> Ended {
    let path = world.path().join("new.yaml");
    fs::write(&path, text).unwrap();
    world.omg(&[&["resume", "r1", "--graph", path.to_str().unwrap()], words].concat())
}

/// An amendment is refused with every one of these messages, and changes nothing at all.
#[track_caller]
fn refused(world: &World, text: &str, words: &[&str], messages: &[&str]) {
    let before = everything(&world.home());
    for dry in [&["--dry-run"][..], &[]] {
        let ended = amend(world, text, &[words, dry].concat()).expect(2);
        for message in messages {
            assert!(ended.stderr.contains(message), "{message}: {}", ended.stderr);
        }
        assert_eq!(ended.stdout, "");
        assert_eq!(everything(&world.home()), before);
    }
}

fn amended(world: &World) -> Vec<Value> {
    world.events_named("graph.amended")
}

#[test]
fn a_failing_command_is_mended_and_what_passed_does_not_run_again() {
    let world = World::bare();
    let nodes = |b: &str| {
        graph(&[
            node(&world, "a", "", "true"),
            node(&world, "b", "depends_on: [a], ", b),
            node(&world, "c", "depends_on: [b], ", "true"),
        ])
    };
    world.run(&nodes("exit 3")).expect(1);
    assert_eq!((did(&world).as_str(), world.state("c").as_str()), ("a b", "skipped"));
    let ended = amend(&world, &nodes("exit 0"), &[]).expect(0);
    assert_eq!(did(&world), "a b b c");
    let told: Vec<&str> = ended.stderr.lines().skip(1).take(6).collect();
    let did = world.path().join("did");
    assert_eq!(
        told,
        [
            "~ b: run changed",
            &format!("    - echo b >> {}; exit 3", did.display()),
            &format!("    + echo b >> {}; exit 0", did.display()),
            "kept (passed): a",
            "runs (changed): b",
            "runs (not begun before): c",
        ]
    );
    let event = &amended(&world)[0];
    let hash = |value: &Value| value.as_str().unwrap().len();
    assert_eq!((hash(&event["from"]), hash(&event["to"])), (64, 64));
    assert_ne!(event["from"], event["to"]);
    assert_eq!(event["number"], 1);
    assert_eq!(event["path"], fs::canonicalize(world.path().join("new.yaml")).unwrap().to_str().unwrap());
    assert_eq!(event["reopened"], serde_json::json!(["b"]));
    assert_eq!(event["changes"], serde_json::json!(["b: run changed"]));
    let names = world.event_names();
    let at = names.iter().position(|name| name == "graph.amended").unwrap();
    assert_eq!(names[at + 1], "run.started");
    let before = &world.events()[at - 1];
    assert!(event["gen"].as_u64() > before["gen"].as_u64(), "it is written under the new claim");

    assert_eq!(world.show()["status"], "passed");
    assert_eq!(world.node("b")["attempts"], 2);
    let told = world.omg(&["explain", "r1", "b"]).expect(0).stdout;
    assert!(told.starts_with("b: passed in leg 2\n"), "{told}");
    assert!(told.contains("\n    the graph was amended: run changed\n"), "{told}");
    world.omg(&["graph", "--run", "r1"]).expect(0);
    world.omg(&["watch", "r1"]).expect(0);
    assert_eq!(world.omg(&["logs", "r1", "b"]).expect(0).stdout, "");
}

#[test]
fn a_node_that_passed_may_not_change_unless_it_is_named() {
    let world = World::bare();
    let nodes = |a: &str, rest: &[String]| graph(&[&[node(&world, "a", "", a)], rest].concat());
    let b = node(&world, "b", "depends_on: [a], ", "true");
    let c = |keys: &str| node(&world, "c", keys, "true");
    let f = node(&world, "f", "depends_on: [b], ", "exit 1");
    world.run(&nodes("true", &[b.clone(), c(""), f.clone()])).expect(1);
    let changed = nodes("echo 2", &[b.clone(), c("env: {K: v}, "), f.clone()]);
    refused(
        &world,
        &changed,
        &[],
        &["`a` has passed, and it changed: run", "`c` has passed", "env.K", "`--reopen c`"],
    );
    refused(&world, &changed, &["--reopen", "a"], &["node `c` has passed"]);
    refused(
        &world,
        &nodes("true", &[b.clone(), f.clone()]),
        &[],
        &["`c` has passed, and the graph does not have it"],
    );
    refused(&world, &nodes("true", &[b.clone(), f.clone()]), &["--reopen", "c"], &["no node `c`"]);
    let same = nodes("true", &[b.clone(), c(""), f.clone()]);
    refused(&world, &same, &["--reopen", "f"], &["`--reopen f`: it has not passed"]);
    refused(
        &world,
        &same,
        &["--reopen", "bb", "--reopen", "f"],
        &["no node `bb`", "did you mean `b`?", "--reopen f"],
    );
    assert_eq!(did(&world), "a b c f");

    let ended = amend(&world, &changed, &["--reopen", "a", "--reopen", "c", "--reopen", "a"]).expect(1);
    assert_eq!(did(&world), "a b c f a c");
    assert!(ended.stderr.contains("stays passed unless it is re-opened too: b"), "{}", ended.stderr);
    assert!(ended.stderr.contains("runs again (passed, re-opened by name): a, c\n"), "{}", ended.stderr);
    assert_eq!(world.result("a"), "2");
    // What only concerns further attempts, or people, is no change of what passed.
    let limits = changed.replace("id: b, ", "id: b, timeout: 5m, retry: {max: 2}, description: d, ");
    amend(&world, &limits, &["--retry-failed"]).expect(1);
    assert_eq!(did(&world), "a b c f a c f");
}

#[test]
fn nodes_come_and_go_and_later_legs_have_the_newest_graph() {
    let world = World::bare();
    let a = node(&world, "a", "", "true");
    let b = node(&world, "b", "depends_on: [a], ", "exit 1");
    let c = node(&world, "c", "depends_on: [b], ", "true");
    world.run(&graph(&[a.clone(), b, c.clone()])).expect(1);
    let flag = world.path().join("flag");
    let d = node(&world, "d", "depends_on: [a], ", &format!("test -e {}", flag.display()));
    let ended = amend(&world, &graph(&[a.clone(), d.clone()]), &[]).expect(1);
    for line in ["+ d: new", "- b: removed", "- c: removed", "runs (new): d"] {
        assert!(ended.stderr.contains(&format!("{line}\n")), "{line}: {}", ended.stderr);
    }
    assert_eq!(did(&world), "a b d");
    assert_eq!(world.show()["nodes"].as_array().unwrap().len(), 2);
    world.omg(&["explain", "r1", "b"]).expect(2);
    // A plain resume has the amended graph; the file that it began with matters no more.
    fs::write(&flag, "").unwrap();
    let ended = world.omg(&["resume", "r1", "--retry-failed"]).expect(0);
    assert!(!ended.stderr.contains("has changed"), "{}", ended.stderr);
    assert_eq!(did(&world), "a b d d");
    assert_eq!(amended(&world).len(), 1);

    // A second amendment, of a run that is over; and `b` is back, as another node.
    let b = node(&world, "b", "depends_on: [d], ", "true");
    let ended = amend(&world, &graph(&[a, d, b, c]), &[]).expect(0);
    assert!(ended.stderr.contains("runs (new): b, c\n"), "{}", ended.stderr);
    assert_eq!(did(&world), "a b d d b c");
    assert_eq!(world.node("b")["attempts"], 2);
    let events = amended(&world);
    assert_eq!((&events[1]["number"], &events[1]["from"]), (&2.into(), &events[0]["to"]));
    assert_eq!(world.node("b")["state"], "passed");
    assert_eq!(world.show()["legs"], 4);
    for id in ["a", "b", "c", "d"] {
        world.omg(&["explain", "r1", id, "--json"]).expect(0);
    }
    assert!(world.omg(&["resume", "r1"]).expect(0).stderr.contains("nothing to do in run r1"));
}

#[test]
fn to_take_away_what_failed_ends_a_run() {
    let world = World::bare();
    let a = node(&world, "a", "", "true");
    world.run(&graph(&[a.clone(), node(&world, "b", "", "exit 1")])).expect(1);
    amend(&world, &graph(&[a]), &[]).expect(0);
    assert_eq!(world.show()["status"], "passed");
    assert_eq!(did(&world), "a b");
}

#[test]
fn a_graph_that_changes_no_node_gives_a_run_that_is_over_nothing_to_do() {
    let world = World::bare();
    let text = graph(&[node(&world, "a", "", "true")]);
    world.run(&text).expect(0);
    let before = everything(&world.run_dir().join("nodes"));
    for other in
        [text.clone(), format!("# a comment\n{text}"), text.replace("id: a", "id: a, description: d")]
    {
        let ended = amend(&world, &other, &[]).expect(0);
        assert!(ended.stderr.ends_with("nothing to do in run r1\n"), "{}", ended.stderr);
        assert_eq!(amended(&world), Vec::<Value>::new());
    }
    assert_eq!(everything(&world.run_dir().join("nodes")), before);
}

#[test]
fn a_file_without_its_event_is_nothing_and_an_event_without_its_file_is_named() {
    let world = World::bare();
    let nodes = |b: &str| graph(&[node(&world, "a", "", "true"), node(&world, "b", "", b)]);
    world.run(&nodes("exit 1")).expect(1);
    // As a kill between the two would leave it.
    let stray = fs::read_to_string(world.run_dir().join("run.json")).unwrap().replace("exit 1", "exit 0");
    fs::create_dir(world.run_dir().join("amended")).unwrap();
    fs::write(world.run_dir().join("amended/1.json"), stray).unwrap();
    world.omg(&["resume", "r1", "--retry-failed"]).expect(1);
    assert_eq!(did(&world), "a b b");
    amend(&world, &nodes("true"), &[]).expect(0);
    assert_eq!(amended(&world)[0]["number"], 1);
    assert_eq!(did(&world), "a b b b");
    fs::remove_file(world.run_dir().join("amended/1.json")).unwrap();
    let ended = world.omg(&["show", "r1"]).expect(3);
    assert!(ended.stderr.contains("amended/1.json"), "{}", ended.stderr);
}

#[test]
fn killed_between_the_event_and_its_leg_a_run_has_the_new_graph() {
    let world = World::bare();
    let nodes = |b: &str| graph(&[node(&world, "a", "", "true"), node(&world, "b", "depends_on: [a], ", b)]);
    world.run(&nodes("exit 1")).expect(1);
    amend(&world, &nodes("exit 0"), &[]).expect(0);
    // As a kill right after the event would leave it.
    let journal = world.run_dir().join("events.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let end = text.find("graph.amended").unwrap();
    let end = end + text[end..].find('\n').unwrap() + 1;
    fs::write(&journal, &text[..end]).unwrap();
    assert_eq!((world.show()["status"].as_str(), world.state("b").as_str()), (Some("failed"), "cancelled"));
    world.omg(&["explain", "r1", "b"]).expect(0);
    world.omg(&["resume", "r1"]).expect(0);
    assert_eq!(did(&world), "a b b b");
    assert_eq!(world.state("b"), "passed");
}

#[test]
fn killed_at_any_moment_an_amendment_is_made_once_or_not_at_all() {
    let world = World::new();
    let nodes = |b: &str| {
        graph(&[
            node(&world, "a", "worktree: l, ", "echo x > n; git add n; git commit -q -m mine"),
            node(&world, "b", "worktree: l, depends_on: [a], ", b),
            node(&world, "c", "depends_on: [b], ", "true"),
        ])
    };
    let new = world.path().join("new.yaml");
    fs::write(&new, nodes("test -e n")).unwrap();
    let words = ["resume", "r1", "--graph", new.to_str().unwrap()];
    for moment in (0..4).chain((4..60).step_by(3)) {
        let _ = fs::remove_dir_all(world.run_dir());
        let _ = fs::remove_file(world.path().join("did"));
        world.shell("git worktree prune; git update-ref -d refs/heads/omg/r1/l");
        world.run(&nodes("exit 1")).expect(1);
        let before = world.events().len();
        let mut child = world.start(&words);
        let is_over =
            || world.events().len() > before && world.event_names().last().unwrap() == "run.finished";
        if moment == 0 {
            // Between the file and its event, or soon after.
            world.wait_file(&world.run_dir().join("amended/1.json"));
        } else {
            world.wait_for("the moment", || world.events().len() >= before + moment || is_over());
        }
        let over = is_over();
        signal(&child, Signal::KILL);
        child.wait().unwrap();
        let resumed = world.omg(&words);
        assert_eq!(resumed.code, Some(0), "moment {moment}: {}", resumed.stderr);
        assert_eq!(world.show()["status"], "passed", "moment {moment}");
        assert_eq!(amended(&world).len(), 1, "moment {moment}");
        let did = did(&world);
        assert_eq!(did.matches('a').count(), 1, "moment {moment}: {did}");
        assert_eq!(world.git("show omg/r1/l:n"), "x", "moment {moment}");
        if over {
            return;
        }
    }
    panic!("the leg does not end");
}

#[test]
fn what_was_in_flight_when_its_leg_was_killed_is_not_taken_for_the_new_node() {
    let world = World::bare();
    let nodes = |b: &str, last: &str| {
        graph(&[node(&world, "a", "", "true"), node(&world, "b", "depends_on: [a], ", b), last.to_string()])
    };
    let gone = node(&world, "gone", "depends_on: [a], ", "sleep 8651");
    let path = world.graph(&nodes("sleep 8652", &gone));
    let mut child = world.start(&["run", &path, "--run-id", "r1", "-j", "4"]);
    world.wait_started("b");
    world.wait_started("gone");
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    let exits = world.run_dir().join("exits.jsonl");
    world.wait_for("the exits of its nodes", || {
        fs::read_to_string(&exits).is_ok_and(|text| text.matches("\"ended_by_us\":true").count() == 2)
    });
    // As if it had ended well, unseen.
    let started = world.events_named("node.started");
    let job = &started.iter().find(|event| event["node"] == "b").unwrap()["intent"];
    let exit = serde_json::json!({
        "job": job, "code": 0, "signal": null, "ended_by_us": false, "output_overflow": false,
        "disk_full": false, "leftovers": []
    });
    fs::write(&exits, format!("{exit}\n")).unwrap();
    let plain = world.omg(&["resume", "r1", "--dry-run"]).expect(0).stdout;
    assert!(plain.contains("looked at first (ended while nobody looked): b\n"), "{plain}");
    let ended = amend(&world, &nodes("true", ""), &[]).expect(0);
    assert!(ended.stderr.contains("runs (changed): b\n"), "{}", ended.stderr);
    let words: Vec<String> = did(&world).split(' ').map(str::to_string).collect();
    assert_eq!(words.iter().filter(|word| *word == "b").count(), 2, "{words:?}");
    // Every act that was announced has its end.
    let begun: Vec<Value> = world.events_named("node.dispatch.requested");
    let over: Vec<Value> = world.events_named("node.attempt.finished");
    for event in &begun {
        assert!(over.iter().any(|end| end["intent"] == event["intent"]), "{event}");
    }
    let told = world.omg(&["explain", "r1", "b"]).expect(0).stdout;
    assert!(told.contains("interrupted"), "{told}");
}

#[test]
fn inputs_keep_their_values_and_new_ones_are_asked_for() {
    let world = World::bare();
    let text = |inputs: &str, b: &str| {
        format!(
            "name: x\non_fail: continue\ninputs: {inputs}\nnodes:\n- {{id: a, run: 'echo {{{{ inputs.v }}}}'}}\n- {{id: b, run: '{b}'}}\n"
        )
    };
    let path = world.graph(&text("[v]", "exit 1"));
    world.omg(&["run", &path, "--run-id", "r1", "--input", "v=one"]).expect(1);
    let new = text("{v: {default: other}, w: {}}", "echo {{ inputs.v }} {{ inputs.w }}");
    refused(&world, &new, &[], &["the input `w` is missing; give it with `--input w=VALUE`"]);
    refused(&world, &new, &["--input", "v=two", "--input", "w=x"], &["`v` has another value in this run"]);
    refused(&world, &new, &["--input", "z=1", "--input", "w=x"], &["no input `z`"]);
    amend(&world, &new, &["--input", "w=2"]).expect(0);
    assert_eq!((world.result("a"), world.result("b")), ("one".into(), "one 2".into()));
}

#[test]
fn variables_of_all_nodes_are_told_and_what_passed_is_kept() {
    let world = World::bare();
    let text = |value: &str| {
        format!(
            "name: x\non_fail: continue\nconcurrency: 1\nenv: {{OK: '{value}', API_TOKEN: secret-{value}}}\nnodes:\n{}{}",
            node(&world, "a", "", "true"),
            node(&world, "b", "", "test $OK = yes")
        )
    };
    world.run(&text("no")).expect(1);
    let ended = amend(&world, &text("yes"), &[]).expect(0);
    assert!(
        ended.stderr.contains("~ env: OK changed (nodes that passed are kept)\n    - no\n    + yes\n"),
        "{}",
        ended.stderr
    );
    assert!(!ended.text().contains("secret-"), "{}", ended.text());
    assert_eq!(did(&world), "a b b");
    assert!(!fs::read_to_string(world.run_dir().join("events.jsonl")).unwrap().contains("secret-"));
}

#[test]
fn lanes_come_and_go_and_stay_where_they_began() {
    let world = World::new();
    let old = world.git("rev-parse HEAD");
    let commit = "echo x > n; git add n; git commit -q -m mine";
    let text = |lanes: &str, rest: &[String]| {
        format!(
            "name: x\non_fail: continue\nlanes: {lanes}\nnodes:\n{}{}",
            node(&world, "a", "worktree: l, ", commit),
            rest.concat()
        )
    };
    let b = node(&world, "b", "worktree: m, ", &format!("{commit}; exit 1"));
    let never = node(&world, "n", "worktree: z, depends_on: [b], ", "true");
    let first = text("{l: {base: main}}", &[b, never]);
    world.run_with(&first, &["--provision-when", "first-use"]).expect(1);
    world.shell("echo two > a.txt; git commit -qam two");
    let c = node(&world, "c", "worktree: k, ", "git rev-parse HEAD");
    let d = node(&world, "d", "worktree: j, ", "git rev-parse HEAD");
    refused(
        &world,
        &text("{l: {base: HEAD}}", std::slice::from_ref(&c)),
        &[],
        &["lane `l` is made, and its `base` changed"],
    );
    refused(
        &world,
        &format!(
            "base: main~1\n{}",
            text("{l: {base: main}, M: {}}", &[node(&world, "e", "worktree: M, ", "true")])
        ),
        &[],
        &["lane `M` differs in case only from lane `m`"],
    );
    // The run's base stays; a base of its own is looked up now.
    let new = text("{l: {base: main}, j: {base: main}}", &[c, d]);
    amend(&world, &new, &[]).expect(0);
    let now = world.git("rev-parse HEAD");
    assert_eq!((world.result("c"), world.result("d")), (old.clone(), now));
    // What the old graph alone had is gone if nothing was made of it, and else is still the run's.
    let lanes: Vec<String> = world.show()["lanes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lane| lane["name"].as_str().unwrap().into())
        .collect();
    assert_eq!(lanes, ["l", "k", "j", "m"]);
    assert_eq!(world.lane_view("m")["base"], old);
    assert_eq!(world.lane_view("m")["cleanup"]["branch"], "kept");
    world.omg(&["graph", "--run", "r1"]).expect(0);
    // And in a further amendment that touches nothing of it.
    let ended =
        amend(&world, &new.replace("on_fail", "concurrency: 2\non_fail"), &["--reopen", "c"]).expect(0);
    assert!(!ended.stderr.contains("lane m"), "{}", ended.stderr);
    assert!(world.omg(&["lanes", "r1"]).expect(0).stdout.contains("omg/r1/m"));
    world.omg(&["lanes", "discard", "r1", "m"]).expect(0);
}

#[test]
fn a_lane_that_a_killed_leg_left_and_no_node_has_any_more_is_cleaned_up() {
    let world = World::new();
    let a = node(&world, "a", "", "true");
    let text = graph(&[a.clone(), "- {id: b, worktree: l, run: 'echo x > dirty; sleep 8661'}\n".into()]);
    let path = world.graph(&text);
    let mut child = world.start(&["run", &path, "--run-id", "r1"]);
    world.wait_started("b");
    world.wait_for("its edit", || world.lane("l").join("dirty").exists());
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    amend(&world, &graph(&[a]), &[]).expect(0);
    let cleanup = world.lane_view("l")["cleanup"].clone();
    assert_eq!((&cleanup["tree"], &cleanup["branch"]), (&"kept".into(), &"kept".into()), "{cleanup}");
    assert!(world.lane("l").join("dirty").exists());
    assert_eq!(world.alive("sleep 8661"), Vec::<u32>::new());
}

#[test]
fn changed_provisioning_is_done_in_a_lane_that_is_there() {
    let world = World::new();
    let text = |command: &str, b: &str| {
        format!(
            "name: x\nprovision: 'echo {command} >> ../provisioned'\nnodes:\n{}{}",
            node(&world, "a", "worktree: l, ", "echo x > dirty"),
            node(&world, "b", "worktree: l, depends_on: [a], ", b)
        )
    };
    world.run(&text("one", "exit 1")).expect(1);
    let ended = amend(&world, &text("two", "test -e dirty"), &[]).expect(0);
    assert!(ended.stderr.contains("~ provision.command changed\n    - echo one"), "{}", ended.stderr);
    let did = fs::read_to_string(world.run_dir().join("worktrees/provisioned")).unwrap();
    assert_eq!(did, "one\ntwo\n");
}

#[test]
fn a_graph_without_lanes_may_get_one() {
    let world = World::new();
    world.run(&graph(&[node(&world, "a", "", "exit 1")])).expect(1);
    amend(&world, &graph(&[node(&world, "a", "worktree: l, ", "git branch --show-current")]), &[]).expect(0);
    assert_eq!(world.result("a"), "omg/r1/l");
}

#[test]
fn what_a_planned_graph_may_not_ask_for_an_amended_one_may_not_either() {
    let world = World::bare();
    world.run(&graph(&[node(&world, "a", "", "exit 1")])).expect(1);
    // No planned graph can be run by this build, so the record is made by hand.
    let path = world.run_dir().join("run.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("planned"));
    fs::write(&path, text.replacen('{', "{\"planned\":true,", 1)).unwrap();
    refused(&world, &graph(&[node(&world, "a", "", "exit 0")]), &[], &["`run`"]);
}

#[test]
fn an_amendment_is_made_before_a_run_goes_on_by_itself() {
    let world = World::bare();
    let nodes = |b: &str| graph(&[node(&world, "a", "", "true"), node(&world, "b", "depends_on: [a], ", b)]);
    world.run(&nodes("exit 1")).expect(1);
    let ended = amend(&world, &nodes("true"), &["--detach"]).expect(0);
    assert_eq!(ended.stdout, "r1\n");
    assert!(ended.stderr.contains("runs (changed): b\n"), "{}", ended.stderr);
    world.wait_for("its end", || world.show()["status"] == "passed");
    assert_eq!(did(&world), "a b b");
    assert_eq!((amended(&world).len(), world.show()["legs"].as_u64()), (1, Some(2)));
    world.omg(&["resume", "r1", "--detach", "--dry-run"]).expect(2);
}

#[test]
fn a_part_of_a_graph_stays_that_part() {
    let world = World::bare();
    let all = |b: &str, rest: &str| {
        graph(&[node(&world, "a", "", "true"), node(&world, "b", "depends_on: [a], ", b), rest.into()])
    };
    let c = node(&world, "c", "", "true");
    world.run_with(&all("exit 1", &c), &["--until", "b"]).expect(1);
    let two = format!("{c}{}", node(&world, "d", "", "true"));
    amend(&world, &all("true", &two), &[]).expect(0);
    assert_eq!(did(&world), "a b b");
    assert_eq!(world.show()["selection"]["nodes_in_graph"], 4);
    refused(&world, &graph(&[node(&world, "a", "", "true")]), &[], &["no node `b`"]);
}

#[test]
fn a_dry_run_prints_the_plan_alone_and_touches_nothing() {
    let world = World::bare();
    let go = world.path().join("go");
    let nodes = |b: &str| {
        let wait = format!("until test -e {}; do sleep 0.02; done", go.display());
        graph(&[
            node(&world, "a", "", "true"),
            node(&world, "b", "depends_on: [a], ", b),
            node(&world, "c", "depends_on: [b], ", &wait),
        ])
    };
    world.run(&nodes("exit 1")).expect(1);
    let before = everything(&world.home());
    let plain = world.omg(&["resume", "r1", "--dry-run"]).expect(0);
    assert_eq!(
        plain.stdout,
        "kept (passed): a\nnot run (failed: --retry-failed would open it): b\nnot run (needs b, which failed): c\n\
         nothing to do in run r1; 1 failed: `omg resume r1 --retry-failed` opens them again\n"
    );
    let retried = world.omg(&["resume", "r1", "--dry-run", "--retry-failed"]).expect(0);
    assert_eq!(
        retried.stdout,
        "kept (passed): a\nruns again (failed, re-opened by --retry-failed): b\nruns (skipped before): c\n"
    );
    let amended = amend(&world, &nodes("true"), &["--dry-run"]).expect(0);
    assert!(amended.stdout.starts_with("~ b: run changed\n"), "{}", amended.stdout);
    assert!(
        amended.stdout.ends_with("kept (passed): a\nruns (changed): b\nruns (not begun before): c\n"),
        "{}",
        amended.stdout
    );
    assert_eq!(everything(&world.home()), before);

    // Of a run that lives it says only that.
    let path = world.path().join("new.yaml");
    let mut child = world.start(&["resume", "r1", "--graph", path.to_str().unwrap()]);
    world.wait_started("c");
    let held = world.omg(&["resume", "r1", "--dry-run"]).expect(5);
    assert_eq!(held.stdout, "");
    fs::write(&go, "").unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_resume_says_first_what_it_will_do_and_json_stays_json() {
    let world = World::bare();
    let go = world.path().join("go");
    let b = node(&world, "b", "depends_on: [a], ", &format!("test -e {}", go.display()));
    let text = graph(&[
        node(&world, "a", "", "true"),
        b,
        node(&world, "s", "depends_on: [a], ", "no-such-tool-anywhere"),
    ]);
    world.run(&text).expect(1);
    fs::write(&go, "").unwrap();
    let ended = world.omg(&["resume", "r1", "--retry-failed", "--output", "json"]).expect(3);
    assert_eq!(
        ended.stderr.lines().skip(1).collect::<Vec<_>>(),
        [
            "kept (passed): a",
            "runs again (failed, re-opened by --retry-failed): b",
            "not run (blocked: --retry-blocked would open it): s",
        ]
    );
    for line in ended.stdout.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    let ended = world.omg(&["resume", "r1", "--reopen", "a"]).expect(2);
    assert!(ended.stderr.contains("--graph"), "{}", ended.stderr);
}
