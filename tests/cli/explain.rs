//! `omg explain`: each state, in a sentence a fact, from the records alone.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Ended, World, signal};

fn explain(world: &World, node: &str) -> String {
    world.omg(&["explain", "r1", node]).expect(0).stdout
}

/// Checks that an explanation begins with `head` and has these lines, in this order, others between them.
#[track_caller]
fn check(world: &World, node: &str, head: &str, expected: &[&str]) {
    let told = explain(world, node);
    let mut lines = told.lines();
    assert_eq!(lines.next(), Some(head), "{told}");
    for expected in expected {
        let is_it = |line: &str| line.trim_start().starts_with(expected);
        assert!(lines.any(is_it), "no line begins so, after those before: {expected}\n{told}");
    }
}

fn json(world: &World, node: &str) -> Value {
    serde_json::from_str(&world.omg(&["explain", "r1", node, "--json"]).expect(0).stdout).unwrap()
}

fn log(world: &World, node: &str, attempt: u32) -> String {
    world.run_dir().join(format!("nodes/{node}/attempt-{attempt}.log")).display().to_string()
}

const GRAPH: &str = "\
name: x
on_fail: continue
nodes:
- {id: prep, run: 'true'}
- {id: build, run: 'exit 3', depends_on: [prep], retry: {max: 1, backoff: 20ms}}
- {id: test, run: 'true', depends_on: [build]}
- {id: ship, run: 'true', depends_on: [test]}
- {id: alarm, run: 'true', depends_on: [{id: prep, on: failed}]}
- {id: miss, run: no-such-command-here}
- {id: behind, run: 'true', depends_on: [miss]}
- {id: later, run: 'true', depends_on: [behind]}
- {id: once, run: 'exit 1'}
- {id: timed, run: 'exit 1', retry: {max: 2, on: [timeout]}}
";

#[test]
fn what_ended_by_itself_is_explained() {
    let world = World::bare();
    world.run(GRAPH).expect(1);
    let log = |node, attempt| format!("its log: {}", log(&world, node, attempt));
    check(
        &world,
        "prep",
        "prep: passed in leg 1",
        &[
            "leg 1 began 20",
            "it waits for no other node",
            "attempt 1 began at ",
            "attempt 1 passed after ",
            &log("prep", 1),
            "what waits for it: build (on: passed, failed), alarm (on: failed, skipped)",
        ],
    );
    check(
        &world,
        "build",
        "build: failed in leg 1",
        &[
            "it waited for prep (on: passed), which passed at ",
            "attempt 1 did not pass after ",
            "the node's own fault (scope task): it spent retry 1 of 1, after a pause of 0.0 s",
            &log("build", 1),
            "it waited 0.0 s in its pause between attempts",
            "attempt 2 did not pass after ",
            "the node's own fault (scope task), and its retries are spent (1 of 1)",
            &log("build", 2),
            "omg resume r1 --retry-failed  opens it again, with a new `retry`",
        ],
    );
    check(
        &world,
        "once",
        "once: failed in leg 1",
        &["the node's own fault (scope task), and it has no `retry`"],
    );
    let other = "the node's own fault (scope task), and its `retry` does not name that cause";
    check(&world, "timed", "timed: failed in leg 1", &[other]);
    check(
        &world,
        "miss",
        "miss: blocked in leg 1",
        &[
            "attempt 1 did not pass after ",
            "not the node's fault (scope environment): no attempt was charged; a repeat would end the same",
            "omg resume r1 --retry-blocked  opens it again; nothing was charged",
        ],
    );
}

#[test]
fn what_did_not_run_is_led_back_to_where_that_came_from() {
    let world = World::bare();
    world.run(GRAPH).expect(1);
    let log = log(&world, "build", 2);
    assert_eq!(
        explain(&world, "ship"),
        format!(
            "ship: skipped in leg 1\n  \
             it needed test (on: passed), which was skipped\n  \
             test needed build (on: passed), which failed: nonzero-exit: exit 3\n  \
             build's log: {log}\n  \
             omg resume r1 --retry-failed  opens build and what was skipped through it again\n"
        )
    );
    assert_eq!(
        explain(&world, "alarm"),
        "alarm: skipped in leg 1\n  \
         it runs only if prep fails, and that passed: its own condition, no failure\n"
    );
    check(
        &world,
        "later",
        "later: waiting in leg 1",
        &[
            "it needed behind (on: passed), which waited in turn",
            "behind needed miss (on: passed), which was blocked: command-not-found: exit 127",
            "miss's log: ",
            "omg resume r1 --retry-blocked  opens miss again, and this runs when it can",
        ],
    );
    let told = json(&world, "ship");
    assert_eq!(told["state"], "skipped");
    assert_eq!(told["legs"][0]["end"]["why"]["links"][1]["fault"]["class"], "nonzero-exit");
    assert_eq!(told["next"][0]["command"], "omg resume r1 --retry-failed");
}

#[test]
fn several_legs_are_told_one_by_one() {
    let world = World::bare();
    let go = world.path().join("go");
    let graph = format!(
        "name: x\nnodes:\n- {{id: a, run: 'true'}}\n\
         - {{id: b, run: 'test -e {0}', depends_on: [a]}}\n- {{id: c, run: 'true', depends_on: [b]}}\n",
        go.display()
    );
    world.run(&graph).expect(1);
    std::fs::write(&go, "").unwrap();
    world.omg(&["resume", "r1", "--retry-failed"]).expect(0);
    check(
        &world,
        "b",
        "b: passed in leg 2",
        &[
            "leg 1 began 20",
            "it waited for a (on: passed), which passed at ",
            "attempt 1 did not pass after ",
            "leg 2 began 20",
            "all that it waits for had ended before this leg",
            "attempt 2 began at ",
            "attempt 2 passed after ",
        ],
    );
    check(
        &world,
        "c",
        "c: passed in leg 2",
        &[
            "leg 1 began 20",
            "it needed b (on: passed), which failed: nonzero-exit: exit 1",
            "leg 2 began 20",
            "it waited for b (on: passed), which passed at ",
            "attempt 1 passed after ",
        ],
    );
    // A leg that did nothing about a node has nothing to say of it.
    assert_eq!(json(&world, "a")["legs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_halt_is_explained_by_the_node_that_failed() {
    let world = World::bare();
    let started = world.path().join("started");
    let graph = format!(
        "name: x\nconcurrency: 2\nnodes:\n\
         - {{id: long, run: 'touch {0}; exec sleep 600', grace: 1s}}\n\
         - {{id: bad, run: 'until test -e {0}; do :; done; exit 7'}}\n- {{id: never, run: 'true'}}\n",
        started.display()
    );
    world.run(&graph).expect(1);
    let halted = ["bad failed: nonzero-exit: exit 7", "that halted the run, which ended it"];
    let own = ["omg ended it: a failure halted the run", "attempt 1 did not pass after "];
    check(&world, "long", "long: cancelled in leg 1", &[own, halted].concat());
    let halted = ["bad failed: nonzero-exit: exit 7", "that halted the run, before it had begun"];
    let next = ["omg resume r1  runs it"];
    check(&world, "never", "never: cancelled in leg 1", &[&halted[..], &next].concat());
}

/// A graph of which one node runs until it is ended, one waits for a slot and one for the first.
const LIVING: &str = "\
name: x
concurrency: 1
nodes:
- {id: long, run: 'exec sleep 600', grace: 1s}
- {id: short, run: 'true'}
- {id: after, run: 'true', depends_on: [long]}
";

#[test]
fn a_living_run_says_what_it_waits_for_and_a_signal_what_it_ended() {
    let world = World::bare();
    let graph = world.graph(LIVING);
    let mut runner = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("long");
    check(
        &world,
        "long",
        "long: running",
        &["attempt 1 began at ", "omg logs r1 long --follow  follows its output"],
    );
    check(
        &world,
        "short",
        "short: ready",
        &["it waits for a slot: all 1 were taken, at first by long (since "],
    );
    check(&world, "after", "after: waiting", &["it waits for long (since "]);
    let open = &json(&world, "after")["legs"][0]["waits"][0];
    assert_eq!((&open["for"]["open"][0], &open["until"]), (&"long".into(), &Value::Null));
    signal(&runner, Signal::INT);
    runner.wait().unwrap();
    let ended = "omg ended it: the leg was asked to stop";
    check(
        &world,
        "long",
        "long: interrupted in leg 1",
        &[ended, "the leg was ended by SIGINT", "omg resume r1  runs it"],
    );
    check(&world, "short", "short: cancelled in leg 1", &["it waited ", "the leg was ended by SIGINT"]);
}

#[test]
fn a_cancelled_and_a_killed_leg_are_told_apart() {
    let world = World::bare();
    let graph = world.graph(LIVING);
    let mut runner = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("long");
    world.omg(&["cancel", "r1"]).expect(0);
    runner.wait().unwrap();
    check(&world, "after", "after: cancelled in leg 1", &["the leg was ended by `omg cancel`"]);
    let started = || world.events_named("node.started").len();
    let mut runner = world.start(&["resume", "r1"]);
    world.wait_for("the second start", || started() == 2);
    signal(&runner, Signal::KILL);
    runner.wait().unwrap();
    let killed = "the leg was killed: it ended without its own doing";
    check(&world, "long", "long: interrupted in leg 2", &["leg 2 began ", "attempt 2 began at ", killed]);
    check(&world, "after", "after: cancelled in leg 2", &["leg 2 began ", killed, "omg resume r1  runs it"]);
    let mut runner = world.start(&["resume", "r1"]);
    world.wait_for("the third start", || started() == 3);
    signal(&runner, Signal::TERM);
    runner.wait().unwrap();
    let lines = ["attempt 2 did not pass, as leg 3 found", killed, "leg 3 began ", "attempt 3 began at "];
    check(&world, "long", "long: interrupted in leg 3", &lines);
}

#[test]
fn lanes_are_waited_for_and_blamed() {
    let world = World::new();
    let graph = "\
name: x
on_fail: continue
provision: {command: 'sleep 0.2; test $OMG_LANE != broken', retry: never}
nodes:
- {id: first, worktree: shared, run: 'sleep 0.2'}
- {id: second, worktree: shared, run: 'true'}
- {id: hurt, worktree: broken, run: 'true'}
- {id: plain, run: 'true'}
";
    world.run_with(graph, &["-j", "4"]).expect(3);
    let told = explain(&world, "second");
    assert!(told.contains(" s for lane shared, where another was at work: first\n"), "{told}");
    let waits = json(&world, "first")["legs"][0]["attempts"][0]["waits"].clone();
    let what: Vec<&str> =
        waits.as_array().unwrap().iter().map(|wait| wait["for"]["what"].as_str().unwrap()).collect();
    assert!(what.contains(&"lane-making") && what.contains(&"lane-provisioning"), "{waits}");
    let told = explain(&world, "plain");
    let others = " s for lanes to be prepared, which comes before the first node: shared, broken\n";
    assert!(told.contains(others), "{told}");
    let log = world.run_dir().join("lanes/broken/provision-1.log");
    check(
        &world,
        "hurt",
        "hurt: blocked in leg 1",
        &[
            "its lane broken could not be used",
            "workspace-provision-failed (",
            "not the node's fault (scope infra): nothing was charged",
            &format!("the log of that: {}", log.display()),
            "omg resume r1 --retry-blocked  opens it again; nothing was charged",
        ],
    );
}

#[test]
fn runs_and_nodes_are_found_by_name() {
    let world = World::bare();
    world.run("name: x\nnodes: [{id: build, run: 'true'}]\n").expect(0);
    let both = explain(&world, "build");
    assert_eq!(world.omg(&["explain", "build"]).expect(0).stdout, both);
    assert_eq!(world.omg(&["explain", "latest", "build"]).expect(0).stdout, both);
    let refused = |words: &[&str]| -> Ended { world.omg(&[&["explain"], words].concat()).expect(2) };
    assert_eq!(
        refused(&["biuld"]).stderr,
        "error: run `r1` has no node `biuld`\nhint: did you mean `build`?\n"
    );
    assert!(refused(&["r1"]).stderr.ends_with("hint: `r1` is a run: `omg explain r1 NODE`\n"));
    refused(&["r2", "build"]);
    refused(&[]);
}
