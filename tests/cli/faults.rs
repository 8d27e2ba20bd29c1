//! Each row of the fault table, by a real process.

use crate::support::World;

#[track_caller]
fn check(node: &str, exit: i32, state: &str, class: &str, scope: &str, attempts: u64) -> World {
    let world = World::bare();
    world.run(&format!("name: x\nnodes: [{{id: a, {node}}}]\n")).expect(exit);
    let a = world.node("a");
    let fault = (a["fault"]["class"].as_str().unwrap(), a["fault"]["scope"].as_str().unwrap());
    assert_eq!((a["state"].as_str().unwrap(), fault), (state, (class, scope)));
    assert_eq!(a["attempts"], attempts);
    world
}

#[test]
fn a_non_zero_exit_is_the_tasks_own() {
    check("run: 'exit 3'", 1, "failed", "nonzero-exit", "task", 1);
    check("run: 'exit 3', retry: {max: 2, backoff: 10ms}", 1, "failed", "nonzero-exit", "task", 3);
    check("run: 'exit 3', retry: {max: 2, on: [timeout]}", 1, "failed", "nonzero-exit", "task", 1);
}

#[test]
fn a_missing_command_is_the_environments() {
    check(
        "run: 'no-such-command-here', retry: {max: 3}",
        3,
        "blocked",
        "command-not-found",
        "environment",
        1,
    );
    check("run: '/etc/passwd'", 3, "blocked", "command-not-found", "environment", 1);
}

#[test]
fn a_timeout_is_the_tasks_own() {
    check("run: 'sleep 60', timeout: 100ms", 1, "failed", "timeout", "task", 1);
}

#[test]
fn a_crash_is_the_tasks_own() {
    for signal in ["SEGV", "ABRT", "BUS", "FPE", "ILL"] {
        check(&format!("run: 'kill -{signal} $$'"), 1, "failed", "crashed", "task", 1);
    }
}

#[test]
fn a_foreign_kill_is_nobodys_and_free() {
    let world = check("run: 'kill -KILL $$', retry: {max: 5}", 3, "blocked", "killed", "infra", 3);
    let next: Vec<_> =
        world.events_named("node.attempt.finished").iter().map(|e| e["next"].clone()).collect();
    assert_eq!(next[0]["redispatch"], 500);
    assert_eq!(next[1]["redispatch"], 1000);
    assert_eq!(next[2], "block");
}

#[test]
fn output_past_its_limit_is_the_tasks_own() {
    let world = check("run: 'yes', output_max: 64KiB", 1, "failed", "output-error", "task", 1);
    let log = std::fs::metadata(world.run_dir().join("nodes/a/attempt-1.log")).unwrap();
    assert_eq!(log.len(), 64 * 1024);
}

#[test]
fn what_cannot_start_is_nobodys() {
    let world = check("run: 'true', cwd: nowhere", 3, "blocked", "spawn-failed", "infra", 0);
    assert!(world.node("a")["fault"]["detail"].as_str().unwrap().contains("nowhere"));
    assert_eq!(world.events_named("node.started").len(), 0);
}

#[test]
fn a_blocked_node_halts_nothing_and_its_dependents_wait() {
    let world = World::bare();
    let graph = "name: x\nnodes:\n\
        - {id: b, run: no-such-command-here}\n\
        - {id: after, run: 'true', depends_on: [b]}\n\
        - {id: other, run: 'true'}\n";
    world.run(graph).expect(3);
    assert_eq!(
        (world.state("b"), world.state("after"), world.state("other")),
        ("blocked".into(), "waiting".into(), "passed".into())
    );
    world.tool("no-such-command-here", "echo here now");
    world.omg(&["resume", "r1"]).expect(3);
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(0);
    assert_eq!(world.result("b"), "here now");
    assert_eq!(world.state("after"), "passed");
}

#[test]
fn halt_ends_what_runs_and_launches_what_the_failure_is_for() {
    let world = World::bare();
    let graph = "name: x\nnodes:\n\
        - {id: slow, run: 'touch ../slow; sleep 600'}\n\
        - {id: bad, run: 'while ! test -e ../slow; do :; done; exit 1'}\n\
        - {id: needs, run: 'true', depends_on: [bad]}\n\
        - {id: handler, run: 'echo handled', depends_on: [{id: bad, on: failed}]}\n\
        - {id: always, run: 'true', depends_on: [{id: bad, on: finished}]}\n\
        - {id: later, run: 'true', depends_on: [slow]}\n";
    world.run_with(graph, &["-j", "2"]).expect(1);
    let states: Vec<String> =
        ["slow", "bad", "needs", "handler", "always", "later"].map(|id| world.state(id)).to_vec();
    assert_eq!(states, ["cancelled", "failed", "skipped", "passed", "passed", "cancelled"]);
    let skipped = &world.events_named("node.skipped")[0];
    assert_eq!(skipped["because"]["node"], "bad");
    assert_eq!(skipped["because"]["class"], "nonzero-exit");
    assert_eq!(world.alive("sleep 600 # never"), Vec::<u32>::new());
    assert_eq!(world.show()["status"], "failed");
}

#[test]
fn continue_prunes_only_what_needed_the_failed_node() {
    let world = World::bare();
    let graph = "name: x\non_fail: continue\nnodes:\n\
        - {id: bad, run: 'exit 1'}\n\
        - {id: needs, run: 'true', depends_on: [bad]}\n\
        - {id: other, run: 'true'}\n\
        - {id: after, run: 'true', depends_on: [other]}\n";
    world.run(graph).expect(1);
    let states: Vec<String> = ["bad", "needs", "other", "after"].map(|id| world.state(id)).to_vec();
    assert_eq!(states, ["failed", "skipped", "passed", "passed"]);
}

#[test]
fn a_condition_that_is_not_met_is_no_failure() {
    let world = World::bare();
    let graph = "name: x\nnodes:\n\
        - {id: good, run: 'true'}\n\
        - {id: handler, run: 'true', depends_on: [{id: good, on: failed}]}\n";
    world.run(graph).expect(0);
    assert_eq!(world.state("handler"), "skipped");
    assert!(world.events_named("node.skipped")[0]["because"].is_null());
    assert_eq!(world.show()["status"], "passed");
}

#[test]
fn every_node_ends_once_in_a_leg() {
    let world = World::bare();
    let graph = "name: x\nnodes:\n\
        - {id: bad, run: 'exit 1', retry: {max: 1}}\n\
        - {id: needs, run: 'true', depends_on: [bad]}\n\
        - {id: rest, run: 'true', depends_on: [needs]}\n";
    world.run(graph).expect(1);
    let mut ended: Vec<String> =
        world.events_named("node.finished").iter().map(|e| e["node"].as_str().unwrap().into()).collect();
    ended.sort();
    assert_eq!(ended, ["bad", "needs", "rest"]);
}

#[test]
fn what_a_node_leaves_running_is_ended_and_named() {
    let world = World::bare();
    let graph = "name: x\nnodes: [{id: a, run: '(setsid sleep 6161 &) ; sleep 6162 & echo done'}]\n";
    world.run(graph).expect(0);
    assert_eq!(world.result("a"), "done");
    assert_eq!(world.alive("sleep 616"), Vec::<u32>::new());
    let left = world.events_named("node.attempt.finished")[0]["leftovers"].as_array().unwrap().len();
    assert_eq!(left, 2);
}

#[test]
fn a_verify_that_writes_too_much_is_an_output_error() {
    let world = World::bare();
    world
        .run("name: g\nnodes:\n- {id: a, run: 'true', output_max: 64KiB, success_check: {verify: {command: 'seq 1 100000'}}}\n")
        .expect(1);
    assert_eq!(world.class("a"), "output-error");
}
