//! Detached runs: what outlives the runner, and what outlives its supervisor.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::World;

/// A node that waits for `go` and says how often it began and ended.
const GRAPH: &str = "name: g\nnodes:\n\
    - {id: a, run: 'echo begins >> a; while [ ! -e go ]; do sleep 0.05; done; echo ends >> a', grace: 1s}\n\
    - {id: b, run: 'echo b >> b', depends_on: [a]}\n";

/// A detached run, which is cancelled when the test is over.
struct Detached<'a>(&'a World);

impl Drop for Detached<'_> {
    fn drop(&mut self) {
        for name in ["run.lock", "supervisor.lock"] {
            if let Some(pid) = pid_in(self.0, name) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        let _ = self.0.command(env!("CARGO_BIN_EXE_omg")).args(["cancel", "r1"]).output();
    }
}

fn pid_in(world: &World, name: &str) -> Option<Pid> {
    let text = fs::read_to_string(world.run_dir().join(name)).ok()?;
    let pid: i32 = text.split_whitespace().next()?.parse().ok()?;
    Pid::from_raw(pid).filter(|pid| rustix::process::test_kill_process(*pid).is_ok())
}

fn detach<'a>(world: &'a World, graph: &str) -> Detached<'a> {
    let graph = world.graph(graph);
    let told = world.omg(&["run", &graph, "--run-id", "r1", "--detach"]).expect(0);
    assert_eq!(told.stdout, "r1\n");
    assert!(told.stderr.contains("omg attach r1"), "{}", told.stderr);
    Detached(world)
}

fn kill(world: &World, name: &str) {
    kill_process(pid_in(world, name).unwrap(), Signal::KILL).unwrap();
}

fn text(world: &World, name: &str) -> String {
    fs::read_to_string(world.repo().join(name)).unwrap_or_default()
}

fn let_go(world: &World) {
    world.write("go", "");
}

/// Waits for what the node does first: that its process was seen to run comes before.
fn wait_begun(world: &World) {
    world.wait_for("the node's first words", || text(world, "a").contains("begins"));
}

fn wait_restarts(world: &World, count: usize) {
    world.wait_for("a runner with its receipt", || world.events_named("restart.performed").len() >= count);
}

/// Every restart has a receipt by its own intent, of a process that said in time who it is.
fn assert_receipts(world: &World, reasons: &[&str]) {
    let requested = world.events_named("restart.requested");
    let performed = world.events_named("restart.performed");
    let field = |events: &[Value], name: &str| -> Vec<Value> {
        events.iter().map(|event| event[name].clone()).collect()
    };
    assert_eq!(field(&requested, "reason"), reasons);
    assert_eq!(field(&requested, "intent"), field(&performed, "intent"));
    let generations: Vec<u64> = requested.iter().map(|event| event["gen"].as_u64().unwrap()).collect();
    assert!(generations.is_sorted_by(|one, other| one < other), "{generations:?}");
    assert!(
        performed
            .iter()
            .all(|event| event["pid"].as_u64() > Some(1) && event["started_at"].as_u64() > Some(0))
    );
}

#[test]
fn a_detached_run_goes_on_by_itself_and_can_be_looked_at() {
    let world = World::new();
    let run = detach(&world, GRAPH);
    wait_begun(&world);
    assert_eq!(world.show()["status"], "running");
    world.omg(&["resume", "r1"]).expect(5);
    let_go(&world);
    let seen = world.omg(&["attach", "r1"]).expect(0);
    assert!(seen.text().contains("b: passed"), "{}", seen.text());
    assert_receipts(&world, &["started"]);
    assert_eq!(text(&world, "a"), "begins\nends\n");
    world.wait_for("the end of its supervisor", || pid_in(&world, "supervisor.lock").is_none());
    drop(run);
}

#[test]
fn a_node_lives_through_its_runners_death_and_is_not_started_again() {
    let world = World::new();
    let _run = detach(&world, GRAPH);
    wait_begun(&world);
    let adopted = |count: usize| {
        let is_adopted = |event: &&Value| event["reason"] == "adopted";
        world.wait_for("it to be taken over", || {
            world.events_named("node.dispatch.requested").iter().filter(is_adopted).count() == count
        });
    };
    kill(&world, "run.lock");
    adopted(1);
    kill(&world, "run.lock");
    adopted(2);
    let_go(&world);
    world.omg(&["watch", "r1"]).expect(0);
    assert_receipts(&world, &["started", "runner-died", "runner-died"]);
    assert_eq!((text(&world, "a").as_str(), text(&world, "b").as_str()), ("begins\nends\n", "b\n"));
    let dispatched = world.events_named("node.dispatch.requested");
    let of_a: Vec<&Value> = dispatched.iter().filter(|event| event["node"] == "a").collect();
    assert_eq!(
        of_a.iter().map(|event| event["reason"].clone()).collect::<Vec<_>>(),
        ["ready", "adopted", "adopted"]
    );
    assert_eq!(of_a[2]["job"], of_a[0]["intent"]);
    assert_eq!(world.node("a")["attempts"], 1);
}

#[test]
fn a_node_that_ends_while_no_runner_lives_counts_as_it_ended() {
    let world = World::new();
    // It kills its runner as its last act, so that nobody hears of its end.
    let _run = detach(
        &world,
        "name: g\nnodes:\n- {id: a, run: 'echo a >> a; kill -9 $(cut -d\" \" -f1 $OMG_RUN_DIR/run.lock)'}\n\
        - {id: b, run: 'echo b >> b', depends_on: [a]}\n",
    );
    world.omg(&["watch", "r1"]).expect(0);
    assert_eq!((text(&world, "a").as_str(), text(&world, "b").as_str()), ("a\n", "b\n"));
    assert_receipts(&world, &["started", "runner-died"]);
}

#[test]
fn a_run_that_loses_its_supervisor_gets_another_one() {
    let world = World::new();
    let _run = detach(&world, GRAPH);
    wait_begun(&world);
    kill(&world, "supervisor.lock");
    wait_restarts(&world, 2);
    let_go(&world);
    world.omg(&["watch", "r1"]).expect(0);
    assert_receipts(&world, &["started", "supervisor-lost"]);
    // The first process of it died with its supervisor, and was not taken for done.
    assert_eq!((text(&world, "a").as_str(), text(&world, "b").as_str()), ("begins\nbegins\nends\n", "b\n"));
}

#[test]
fn what_loses_both_is_resumed_with_nothing_left_running() {
    let world = World::new();
    let _run = detach(&world, GRAPH);
    wait_begun(&world);
    kill(&world, "supervisor.lock");
    kill(&world, "run.lock");
    world.wait_for("the lock to be free", || world.show()["status"] == "interrupted");
    let_go(&world);
    world.omg(&["resume", "r1"]).expect(0);
    assert_eq!(text(&world, "b"), "b\n");
    assert_eq!(world.alive("__keep"), [0u32; 0]);
}

#[test]
fn a_detached_run_is_cancelled_like_any_other() {
    let world = World::new();
    let _run = detach(&world, GRAPH);
    wait_begun(&world);
    kill(&world, "run.lock");
    world.omg(&["cancel", "r1"]).expect(0);
    assert_eq!(world.show()["status"], "cancelled");
    assert_eq!(text(&world, "a"), "begins\n");
    world.wait_for("the end of its supervisor", || pid_in(&world, "supervisor.lock").is_none());
}

#[test]
fn without_a_supervisor_nothing_runs() {
    let world = World::new();
    world.run("name: g\nnodes:\n- {id: a, run: 'echo a >> a; [ -e go ]'}\n").expect(1);
    let log = world.run_dir().join("supervisor.log");
    fs::remove_file(&log).unwrap();
    fs::create_dir(&log).unwrap();
    let told = world.omg(&["resume", "r1", "--retry-failed", "--detach"]).expect(3).stderr;
    assert!(told.contains("no supervisor could be had for run `r1`"), "{told}");
    assert_eq!(text(&world, "a"), "a\n");
    fs::remove_dir(&log).unwrap();
    let_go(&world);
    world.omg(&["resume", "r1", "--retry-failed"]).expect(0);
    assert_eq!(text(&world, "a"), "a\na\n");
}

#[test]
fn a_resume_can_be_detached_and_opens_only_once_what_it_was_told_to() {
    let world = World::new();
    world.run("name: g\nnodes:\n- {id: a, run: 'echo a >> a; while [ ! -e go ]; do [ -e wait ] || exit 1; sleep 0.05; done; exit 1'}\n")
        .expect(1);
    world.write("wait", "");
    let told = world.omg(&["resume", "r1", "--retry-failed", "--detach"]).expect(0);
    let _run = Detached(&world);
    assert_eq!(told.stdout, "r1\n");
    world.wait_for("its second attempt", || text(&world, "a").lines().count() == 2);
    kill(&world, "run.lock");
    wait_restarts(&world, 2);
    let_go(&world);
    world.omg(&["watch", "r1"]).expect(1);
    // The runner that took over did not open it again.
    assert_eq!(text(&world, "a").lines().count(), 2);
    world.omg(&["resume", "r1", "--detach"]).expect(1);
}

#[test]
fn a_verify_that_a_kill_cut_short_is_made_without_running_the_node_again() {
    let world = World::new();
    let verify = "echo v >> v; [ -e go ] || while :; do sleep 0.05; done";
    let graph = format!(
        "name: g\nnodes:\n- {{id: a, worktree: l, run: 'echo a >> $OMG_REPO/a; echo x > f; git add f; git commit -qm f', \
         success_check: {{verify: {{command: 'cd $OMG_REPO; {verify}'}}}}}}\n"
    );
    let _run = detach(&world, &graph);
    world.wait_file(&world.repo().join("v"));
    kill(&world, "run.lock");
    world.wait_for("its second check", || text(&world, "v").lines().count() == 2);
    let_go(&world);
    // And in the foreground, where nobody was left.
    kill(&world, "supervisor.lock");
    if let Some(runner) = pid_in(&world, "run.lock") {
        let _ = kill_process(runner, Signal::KILL);
    }
    world.wait_for("the lock to be free", || world.show()["status"] == "interrupted");
    world.omg(&["resume", "r1"]).expect(0);
    assert_eq!(text(&world, "a"), "a\n");
    assert_eq!(text(&world, "v").lines().count(), 3);
    assert_eq!(world.node("a")["attempts"], 1);
}

#[test]
fn a_lock_that_is_deleted_lets_nobody_else_in() {
    let world = World::new();
    let _run = detach(&world, GRAPH);
    wait_begun(&world);
    fs::remove_file(world.run_dir().join("run.lock")).unwrap();
    world.omg(&["resume", "r1"]).expect(5);
    assert_eq!(world.show()["status"], "running");
    let_go(&world);
    world.wait_for("its end", || world.show()["status"] == "passed");
    assert_eq!(text(&world, "a"), "begins\nends\n");
}

#[test]
fn a_supervisor_that_is_overtaken_starts_nobody() {
    let world = World::new();
    let _run = detach(&world, GRAPH);
    wait_begun(&world);
    let runner = pid_in(&world, "run.lock").unwrap();
    // As another host leaves it that does not see the lock.
    let lock = world.run_dir().join("run.lock");
    fs::remove_file(&lock).unwrap();
    fs::write(&lock, "1 1 2 2 leg\n").unwrap();
    let before = fs::read(world.run_dir().join("events.jsonl")).unwrap();
    kill_process(runner, Signal::KILL).unwrap();
    world.wait_for("the end of its supervisor", || pid_in(&world, "supervisor.lock").is_none());
    assert_eq!(fs::read(world.run_dir().join("events.jsonl")).unwrap(), before);
    fs::remove_file(&lock).unwrap();
    let_go(&world);
    world.omg(&["resume", "r1"]).expect(0);
}

#[test]
fn a_stop_outlives_the_runner_that_was_asked_for_it() {
    let world = World::new();
    let graph = "name: g\nnodes:\n- {id: a, grace: 20s, run: 'trap \"\" TERM; echo begins >> a; while [ ! -e go ]; do sleep 0.05; done'}\n\
        - {id: b, run: 'echo b >> b', depends_on: [{id: a, on: finished}]}\n";
    let _run = detach(&world, graph);
    wait_begun(&world);
    let runner = pid_in(&world, "run.lock").unwrap();
    kill_process(runner, Signal::TERM).unwrap();
    world.wait_for("the stop", || world.event_names().contains(&"run.stopping".to_string()));
    kill_process(runner, Signal::KILL).unwrap();
    wait_restarts(&world, 2);
    let_go(&world);
    world.omg(&["watch", "r1"]).expect(143);
    assert_eq!((text(&world, "a").as_str(), text(&world, "b").as_str()), ("begins\n", ""));
}

#[test]
fn runners_that_die_again_and_again_are_given_up_and_a_person_begins_anew() {
    let world = World::new();
    // It kills each runner as soon as it is named, and never ends by itself.
    let killer = "while [ ! -e go ]; do p=$(cut -d\" \" -f1,5 $OMG_RUN_DIR/run.lock); \
        case $p in *leg) [ $(wc -l < restarts) -lt 3 ] && { echo x >> restarts; kill -9 ${p% leg}; };; esac; sleep 0.02; done";
    world.write("restarts", "");
    let graph = format!("name: g\nnodes:\n- {{id: a, run: '{killer}'}}\n");
    let _run = detach(&world, &graph);
    world.wait_for("its third death", || world.events_named("restart.requested").len() == 4);
    let numbers: Vec<u64> = world
        .events_named("restart.requested")
        .iter()
        .map(|event| event["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
    // The pause before the next is long; who wants the end of it all does not wait.
    world.omg(&["cancel", "r1"]).expect(0);
    let_go(&world);
    world.omg(&["resume", "r1", "--detach"]).expect(0);
    assert_eq!(world.events_named("restart.requested").last().unwrap()["number"], 0);
    world.omg(&["watch", "r1"]).expect(0);
}
