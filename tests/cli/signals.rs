//! Signals, cancel, and runners that die.

use rustix::process::Signal;

use crate::support::{World, signal};

const SLEEPER: &str = "name: x\nnodes:\n\
    - {id: a, run: 'echo ready; sleep 6200'}\n\
    - {id: b, run: 'true', depends_on: [a]}\n";

#[track_caller]
fn check(with: Signal, code: i32, status: &str) {
    let world = World::bare();
    let graph = world.graph(SLEEPER);
    // Whoever runs the tests may have had signals ignored: nohup does.
    let as_usual = "--default-signal=HUP,INT,QUIT,TERM";
    let words = [as_usual, env!("CARGO_BIN_EXE_omg"), "run", &graph, "--run-id", "r1"];
    let mut child = world.start_with("env", &words);
    world.wait_started("a");
    signal(&child, with);
    assert_eq!(child.wait().unwrap().code(), Some(code));
    assert_eq!(world.show()["status"], status);
    assert_eq!((world.state("a"), world.state("b")), ("interrupted".into(), "cancelled".into()));
    assert_eq!(world.event_names().last().unwrap(), "run.finished");
}

#[test]
fn the_first_signal_ends_the_run_in_order() {
    check(Signal::INT, 130, "interrupted");
    check(Signal::TERM, 143, "interrupted");
    check(Signal::HUP, 129, "interrupted");
    check(Signal::QUIT, 131, "interrupted");
}

/// Whether a process is stopped, by the state that the system tells.
fn is_stopped(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

#[test]
fn a_suspended_run_stands_still_with_its_nodes_and_their_clocks() {
    let world = World::bare();
    let go = world.path().join("go");
    let graph = world.graph(&format!(
        "name: x\nnodes: [{{id: a, timeout: 1500ms, run: '(setsid sleep 6210 &); while ! test -e {}; do sleep 0.02; done'}}]\n",
        go.display()
    ));
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("a");
    world.wait_for("what has left the group", || !world.alive("sleep 6210").is_empty());
    let runner = u64::from(child.id());
    let node = world.events_named("node.started")[0]["pid"].as_u64().unwrap();
    let daemon = u64::from(world.alive("sleep 6210")[0]);
    signal(&child, Signal::TSTP);
    for pid in [runner, node, daemon] {
        world.wait_for("the stop", || is_stopped(pid));
    }
    // Longer than the node's own time: were its clock to run, it would be over.
    let since = std::time::Instant::now();
    world.wait_for("more than the node's time", || since.elapsed().as_millis() > 2000);
    signal(&child, Signal::CONT);
    for pid in [runner, node, daemon] {
        world.wait_for("the going on", || !is_stopped(pid));
    }
    std::fs::write(go, "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(world.state("a"), "passed");
}

#[test]
fn a_runner_that_is_killed_while_suspended_leaves_nothing_behind() {
    let world = World::bare();
    let graph = world.graph("name: x\nnodes: [{id: a, grace: 200ms, run: 'sleep 6220; sleep 6221'}]\n");
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("a");
    signal(&child, Signal::TSTP);
    world.wait_for("the stop", || is_stopped(u64::from(child.id())));
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    world.wait_for("the end of its processes", || world.alive("sleep 622").is_empty());
    assert_eq!(world.show()["status"], "interrupted");
}

#[test]
fn a_run_that_is_over_and_cannot_say_so_can_be_ended() {
    let world = World::bare();
    let nodes: String =
        (0..90).map(|n| format!("- {{id: a-node-with-a-rather-long-name-{n}, run: 'true'}}\n")).collect();
    let graph = world.graph(&format!("name: x\nnodes:\n{nodes}"));
    // Nobody reads the table at the end.
    let (reader, writer) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&reader, 4096).unwrap();
    let mut command = world.command(env!("CARGO_BIN_EXE_omg"));
    command.args(["run", &graph, "--run-id", "r1", "--output", "plain"]).stdout(writer);
    command.stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(command);
    let pid = rustix::process::Pid::from_child(&child);
    let waits = || {
        let state = std::fs::read_to_string(format!("/proc/{}/wchan", child.id())).unwrap_or_default();
        state.contains("pipe")
    };
    world.wait_for("the end of the run", || {
        world.event_names().last().is_some_and(|name| name == "run.finished")
    });
    world.wait_for("the full pipe", waits);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(2));
    assert_eq!(world.show()["status"], "passed");
}

#[test]
fn a_suspended_run_can_be_cancelled() {
    let world = World::bare();
    let graph = world.graph("name: x\nnodes: [{id: a, run: 'sleep 6230'}]\n");
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("a");
    signal(&child, Signal::TSTP);
    world.wait_for("the stop", || is_stopped(u64::from(child.id())));
    world.omg(&["cancel", "r1"]).expect(0);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(world.show()["status"], "cancelled");
    assert_eq!(world.alive("sleep 6230"), Vec::<u32>::new());
}

#[test]
fn a_plain_program_that_is_killed_from_outside_is_not_blamed() {
    let world = World::bare();
    let go = world.path().join("go");
    world.tool("once", &format!("test -e {0} && exit; touch {0}; exec sleep 6240", go.display()));
    let graph = world.graph("name: x\nnodes: [{id: a, run: once}]\n");
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_for("the program", || world.alive("sleep 6240").len() == 1);
    let pid = rustix::process::Pid::from_raw(world.alive("sleep 6240")[0] as i32).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let first = &world.events_named("node.attempt.finished")[0];
    assert!(!first["fault"].is_null(), "{first}");
    if std::fs::canonicalize("/bin/sh").unwrap().ends_with("dash") {
        assert_eq!(first["fault"]["class"], "killed");
    }
}

#[test]
fn sigusr1_says_what_is_in_progress() {
    let world = World::bare();
    let go = world.path().join("go");
    let graph = world.graph(&format!(
        "name: x\nnodes:\n- {{id: a, run: 'while ! test -e {}; do sleep 0.02; done'}}\n- {{id: b, run: 'true', depends_on: [a]}}\n",
        go.display()
    ));
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("a");
    signal(&child, Signal::USR1);
    let said = || std::fs::read_to_string(world.path().join("stderr")).unwrap();
    world.wait_for("the report", || said().contains("0/2 over · 1 running · 1 to go"));
    world.wait_for("its node", || said().contains("a: running") && said().contains("1 node waits for it"));
    std::fs::write(go, "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_reader_that_goes_away_ends_nothing() {
    let world = World::bare();
    let nodes: String = (0..200).map(|n| format!("- {{id: n{n}, run: 'true'}}\n")).collect();
    let graph = world.graph(&format!("name: x\nnodes:\n{nodes}"));
    let omg = env!("CARGO_BIN_EXE_omg");
    let line = format!("{{ {omg} run {graph} --run-id r1 --output json; echo $? >&2; }} | head -n 1");
    let output = world.command("sh").args(["-c", &line]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("\"event\":\"run.started\"") && out.lines().count() == 1, "{out}");
    assert!(err.ends_with("\n0\n") && !err.contains("panicked"), "{err}");
    assert_eq!(world.show()["status"], "passed");
    let line = format!("{omg} show r1 | head -n 1; {omg} show r1 --json | head -c 1 >/dev/null");
    let output = world.command("sh").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_second_signal_kills_at_once() {
    let world = World::bare();
    let graph = world.graph(
        "name: x\nnodes: [{id: a, grace: 10m, run: 'trap \"touch termed\" TERM; touch ready; while :; do sleep 0.05; done'}]\n",
    );
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_file(&world.repo().join("ready"));
    signal(&child, Signal::INT);
    world.wait_file(&world.repo().join("termed"));
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(world.state("a"), "interrupted");
}

#[test]
fn a_node_gets_term_and_its_grace() {
    let world = World::bare();
    let graph = world.graph(
        "name: x\nnodes: [{id: a, run: 'trap \"echo bye; exit 0\" TERM; touch ready; while :; do sleep 0.05; done'}]\n",
    );
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_file(&world.repo().join("ready"));
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let log = std::fs::read_to_string(world.run_dir().join("nodes/a/attempt-1.log")).unwrap();
    assert!(log.contains("bye"), "{log}");
    assert_eq!(world.events_named("node.kill.requested")[0]["reason"], "signal");
    assert_eq!(world.events_named("node.kill.performed").len(), 1);
}

#[test]
fn an_ignored_hangup_stays_ignored() {
    let world = World::bare();
    let go = world.path().join("go");
    let graph = world.graph(&format!(
        "name: x\nnodes: [{{id: a, run: 'touch ready; while ! test -e {}; do sleep 0.02; done'}}]\n",
        go.display()
    ));
    let omg = env!("CARGO_BIN_EXE_omg");
    let mut child =
        world.start_with("sh", &["-c", &format!("trap '' HUP; exec {omg} run {graph} --run-id r1")]);
    world.wait_file(&world.repo().join("ready"));
    signal(&child, Signal::HUP);
    std::fs::write(go, "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn cancel_ends_the_only_run_that_lives_here() {
    let world = World::new();
    let graph = world.graph(SLEEPER);
    world.omg(&["cancel"]).expect(2);
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("a");
    world.omg(&["resume", "r1"]).expect(5);
    world.omg(&["cancel"]).expect(0);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(world.show()["status"], "cancelled");
    world.omg(&["cancel", "r1"]).expect(0);
}

#[test]
fn a_killed_runner_leaves_nothing_running_and_a_run_that_reads_interrupted() {
    let world = World::bare();
    let graph = world.graph(
        "name: x\nnodes: [{id: a, grace: 200ms, run: '(setsid sleep 6301 &) ; trap \"\" TERM; sleep 6302; sleep 6303'}]\n",
    );
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("a");
    world.wait_for("its children", || world.alive("sleep 630").len() == 2);
    assert_eq!(world.show()["status"], "running");
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    world.wait_for("the end of its processes", || world.alive("sleep 630").is_empty());
    assert_eq!(world.show()["status"], "interrupted");
    assert_eq!(world.state("a"), "interrupted");
}

/// Kills a runner and its supervisor at once: the supervisor is stopped first, or it would have a moment for
/// ending its jobs.
fn kill_both(runner: &mut crate::support::Running, run_dir: &std::path::Path) {
    let line = std::fs::read_to_string(run_dir.join("supervisor.lock")).unwrap();
    let supervisor: i32 = line.split(' ').next().unwrap().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(supervisor).unwrap();
    rustix::process::kill_process(pid, Signal::STOP).unwrap();
    while !is_stopped(supervisor as u64) {
        std::thread::yield_now();
    }
    signal(runner, Signal::KILL);
    runner.wait().unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

#[test]
fn when_runner_and_supervisor_are_killed_at_once_the_next_leg_ends_what_is_left() {
    let world = World::bare();
    let go = world.path().join("go");
    let graph = world.graph(&format!(
        "name: x\nnodes: [{{id: a, run: 'test -e {0} || {{ (setsid sleep 6401 &) ; sleep 6402; }}'}}]\n",
        go.display()
    ));
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("a");
    world.wait_for("its children", || world.alive("sleep 640").len() == 2);
    kill_both(&mut child, &world.run_dir());
    std::fs::write(go, "").unwrap();
    let resumed = world.omg(&["resume", "r1"]).expect(0);
    assert!(resumed.stderr.contains("ended what an earlier leg left running"), "{}", resumed.stderr);
    assert_eq!(world.alive("sleep 640"), Vec::<u32>::new());
    assert_eq!(world.node("a")["attempts"], 2);
}

#[test]
fn when_only_the_supervisor_is_killed_the_leg_stops_and_no_node_is_blamed() {
    let world = World::bare();
    let graph = world.graph(SLEEPER);
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("a");
    let line = std::fs::read_to_string(world.run_dir().join("supervisor.lock")).unwrap();
    let supervisor: i32 = line.split(' ').next().unwrap().parse().unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert_eq!(world.state("a"), "interrupted");
    assert_eq!(world.node("a")["fault"]["scope"], "infra");
    assert_eq!(world.alive("sleep 6200"), Vec::<u32>::new());
}

#[test]
fn a_signal_ends_what_prepares_lanes_at_whatever_moment_it_comes() {
    for event in ["provision.requested", "lane.acquire.requested", "node.dispatch.requested"] {
        let world = World::new();
        let graph = world.graph(
            "name: x\nprovision: 'sleep 6500'\nnodes: [{id: p, run: 'sleep 6501'}, {id: a, worktree: l, depends_on: [p], run: 'true'}]\n",
        );
        let when = if event.starts_with("node") { "first-use" } else { "run-start" };
        let mut child = world.start(&["run", &graph, "--run-id", "r1", "--provision-when", when]);
        world.wait_for(event, || world.event_names().iter().any(|name| name == event));
        signal(&child, Signal::INT);
        assert_eq!(child.wait().unwrap().code(), Some(130), "{event}");
        assert_eq!(world.show()["status"], "interrupted", "{event}");
        assert_eq!(world.state("a"), "cancelled", "{event}");
        assert_eq!(world.branches(), ["main"], "{event}: an empty lane stays");
    }
}

/// A hook of git's that hangs in every checkout. Returns where it lies.
fn hanging_hook(world: &World) -> std::path::PathBuf {
    let hook = world.repo().join(".git/hooks/post-checkout");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\nsleep 6600\n").unwrap();
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    hook
}

#[test]
fn what_the_git_of_a_killed_runner_left_is_ended_by_the_next_leg() {
    let world = World::new();
    let hook = hanging_hook(&world);
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n");
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_for("the hook", || world.alive("sleep 6600").len() == 1);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    std::fs::remove_file(hook).unwrap();
    world.omg(&["resume", "r1"]).expect(0);
    assert_eq!(world.alive("sleep 6600"), Vec::<u32>::new());
}

#[test]
fn a_signal_ends_a_hook_that_hangs() {
    let world = World::new();
    let hook = hanging_hook(&world);
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n");
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_for("the hook", || world.alive("sleep 6600").len() == 1);
    signal(&child, Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(world.alive("sleep 6600"), Vec::<u32>::new());
    assert_eq!(world.state("a"), "cancelled");
    std::fs::remove_file(hook).unwrap();
    world.omg(&["resume", "r1"]).expect(0);
}

#[test]
fn what_is_left_is_found_however_its_home_is_spelled() {
    let mut world = World::bare();
    std::fs::create_dir(world.path().join("real")).unwrap();
    std::os::unix::fs::symlink(world.path().join("real"), world.path().join("link")).unwrap();
    world.extra.push(("OMG_HOME".into(), world.path().join("link").into()));
    let graph = world.graph("name: x\nnodes: [{id: a, run: '(setsid sleep 6701 &) ; sleep 6702'}]\n");
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_for("its children", || world.alive("sleep 670").len() == 2);
    kill_both(&mut child, &world.path().join("real/runs/r1"));
    world.extra.push(("OMG_HOME".into(), world.path().join("real").into()));
    let ended = world.omg(&["cancel", "r1"]).expect(0);
    assert!(ended.stdout.contains("ended what it had left running"), "{}", ended.stdout);
    assert_eq!(world.alive("sleep 670"), Vec::<u32>::new());
}

#[test]
fn a_signal_ends_the_wait_for_another_install() {
    let world = World::with(&[("yarn.lock", "# yarn lockfile v1\n"), ("package.json", "{}")]);
    world.tool("yarn", "true");
    let locks = world.home().join("locks");
    std::fs::create_dir_all(&locks).unwrap();
    let held = std::fs::File::create(locks.join("package-cache.lock")).unwrap();
    held.lock().unwrap();
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n");
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_for("the provisioning", || {
        world.event_names().iter().any(|name| name == "provision.requested")
    });
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(held);
    world.omg(&["resume", "r1"]).expect(0);
}

#[test]
fn several_cancels_at_once_cancel_the_run_and_clean_it_up() {
    let world = World::new();
    let graph = world.graph("name: g\nnodes:\n- {id: a, worktree: l, grace: 1s, run: 'trap \"\" TERM; while :; do sleep 0.05; done'}\n");
    let mut run = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("a");
    let mut cancels: Vec<_> = (0..4)
        .map(|_| world.command(env!("CARGO_BIN_EXE_omg")).args(["cancel", "r1"]).spawn().unwrap())
        .collect();
    for cancel in &mut cancels {
        assert!(cancel.wait().unwrap().success());
    }
    assert_eq!(run.wait().unwrap().code(), Some(143));
    assert_eq!(world.show()["status"], "cancelled");
    assert_eq!(world.branches(), ["main"]);
}
