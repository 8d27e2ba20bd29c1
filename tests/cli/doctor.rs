//! `omg doctor`: each thing that is wrong is named with the command that mends it, and that command does.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Ended, World, signal};

struct Told(Vec<Value>);

impl Told {
    /// What is found of one subject, where its text has `words`.
    #[track_caller]
    fn of(&self, subject: &str, words: &str) -> (String, String) {
        let is_it = |finding: &&Value| {
            finding["subject"] == subject && finding["detail"].as_str().unwrap().contains(words)
        };
        let finding = self.0.iter().find(is_it);
        let finding = finding.unwrap_or_else(|| panic!("nothing of {subject} with `{words}`: {:?}", self.0));
        let text = |key: &str| finding[key].as_str().unwrap_or_default().to_string();
        (text("state"), text("hint"))
    }

    fn has(&self, words: &str) -> bool {
        self.0.iter().any(|finding| finding["detail"].as_str().unwrap().contains(words))
    }
}

fn doctor(world: &World) -> (Told, Ended) {
    let ended = world.omg(&["doctor", "--json"]);
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    (Told(found["findings"].as_array().unwrap().clone()), ended)
}

/// Runs the first command that stands between backquotes in a hint; omg as the one under test.
fn mend(world: &World, hint: &str) {
    let command = hint.split('`').nth(1).unwrap_or_else(|| panic!("no command in: {hint}"));
    let program = env!("CARGO_BIN_EXE_omg");
    world.tool("omg", &format!("exec {program} \"$@\""));
    world.shell(command);
}

/// The finding with `words` is there, as `state`; its command mends it.
#[track_caller]
fn check(world: &World, subject: &str, words: &str, state: &str) {
    let (told, ended) = doctor(world);
    let (found, hint) = told.of(subject, words);
    assert_eq!(found, state, "{words}");
    assert_eq!(ended.code, Some(i32::from(told.0.iter().any(|finding| finding["state"] == "wrong"))));
    mend(world, &hint);
    let (told, _) = doctor(world);
    assert!(!told.has(words), "{hint} does not mend: {words}");
}

fn killed(world: &World) {
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'sleep 8711'}]\n");
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("a");
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    world.wait_for("the end of the supervisor", || world.alive("").is_empty());
}

#[test]
fn a_repository_in_order_has_nothing_wrong_and_nothing_is_changed_by_looking() {
    let world = World::new();
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(0);
    let list = || world.shell("find .git ../home -printf '%P %s %T@\\n' | sort");
    let before = list();
    let (told, ended) = doctor(&world);
    ended.expect(0);
    assert_eq!(list(), before);
    for subject in ["run r1", "locks", "worktrees", "branches"] {
        assert!(!told.0.iter().any(|finding| finding["subject"] == subject), "{subject}: {:?}", told.0);
    }
}

#[test]
fn half_lanes_and_processes_of_dead_runs_are_named() {
    let world = World::new();
    killed(&world);
    let (told, ended) = doctor(&world);
    ended.expect(0);
    assert_eq!(told.of("run r1", "lane l waits for a verdict").0, "note");
    let mut stray = world.command("sleep").arg("8712").env("OMG_RUN_DIR", world.run_dir()).spawn().unwrap();
    check(&world, "run r1", &format!("still runs: {} sleep", stray.id()), "wrong");
    stray.wait().unwrap();
    assert!(!doctor(&world).0.has("waits for a verdict"), "gc gave it");
}

#[test]
fn a_run_that_can_not_be_read_is_wrong_and_a_living_one_is_not_spoken_of() {
    let world = World::new();
    killed(&world);
    fs::write(world.run_dir().join("events.jsonl"), "garbage\n").unwrap();
    let (told, ended) = doctor(&world);
    ended.expect(1);
    let (state, hint) = told.of("run r1", "events.jsonl, line 1");
    assert!(state == "wrong" && hint.contains("mend that file"), "{hint}");
    fs::remove_dir_all(world.run_dir()).unwrap();
    world.shell("git worktree unlock $(git worktree list --porcelain | sed -n 's/^worktree //p' | tail -n 1); git worktree prune; git branch -q -D omg/r1/l");
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'sleep 8713'}]\n");
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("a");
    let (told, ended) = doctor(&world);
    ended.expect(0);
    assert!(!told.0.iter().any(|finding| finding["subject"] == "run r1"), "{:?}", told.0);
    signal(&child, Signal::TERM);
    child.wait().unwrap();
}

#[test]
fn lock_files_that_nobody_holds_are_named_and_those_in_use_are_not() {
    let world = World::new();
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'echo x > u'}]\n").expect(0);
    for lock in [
        "index.lock",
        "HEAD.lock",
        "config.lock",
        "packed-refs.lock",
        "shallow.lock",
        "worktrees/l/index.lock",
        "refs/heads/omg/r1/l.lock",
    ] {
        let path = world.repo().join(".git").join(lock);
        fs::write(&path, "").unwrap();
        assert!(!doctor(&world).0.has(lock), "{lock}: it may be of a git that is about to be done");
        world.shell(&format!("touch -d '2 minutes ago' {}", path.display()));
        let held = fs::File::open(&path).unwrap();
        assert!(!doctor(&world).0.has(lock), "{lock}: a process has it open");
        drop(held);
        check(&world, "locks", lock, "wrong");
        assert!(!path.exists());
    }
}

#[test]
fn a_git_that_waits_for_an_editor_keeps_its_lock() {
    let world = World::new();
    let (open, close) = (world.path().join("editor-is-open"), world.path().join("editor-closes"));
    let until = format!("while ! test -e {}; do sleep 0.02; done", close.display());
    world.tool("edit", &format!("echo > {}; {until}", open.display()));
    world.write("a.txt", "two\n");
    let mut commit =
        world.command("git").args(["commit", "-q", "-a"]).env("GIT_EDITOR", "edit").spawn().unwrap();
    world.wait_file(&open);
    let lock = world.repo().join(".git/index.lock");
    world.shell(&format!("touch -d '2 minutes ago' {}", lock.display()));
    assert!(!doctor(&world).0.has("index.lock"));
    commit.kill().unwrap();
    commit.wait().unwrap();
    fs::write(&close, "").unwrap();
    check(&world, "locks", "index.lock", "wrong");
}

#[test]
fn entries_of_ours_that_lead_nowhere_and_those_that_break_git_are_named() {
    let world = World::new();
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'echo x > u'}]\n").expect(0);
    world.git("worktree add -q ../theirs -b theirs");
    fs::remove_dir_all(world.lane("l")).unwrap();
    fs::remove_dir_all(world.path().join("theirs")).unwrap();
    assert!(!doctor(&world).0.has("theirs"), "it is not ours");
    check(&world, "worktrees", "nothing is at ", "note");
    world
        .omg(&[
            "run",
            &world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'echo x > u'}]\n"),
            "--run-id",
            "r2",
        ])
        .expect(0);
    fs::remove_dir_all(world.home().join("runs/r2")).unwrap();
    check(&world, "worktrees", "of run r2, which is not known here", "note");
    world.shell("cd .git/worktrees/theirs && : > commondir && touch -d '2 minutes ago' .");
    check(&world, "worktrees", "commondir is empty", "wrong");
    assert!(world.git("worktree list --porcelain").contains("theirs"));
}

#[test]
fn kept_branches_wait_to_be_merged() {
    let world = World::new();
    world
        .run("name: x\nnodes: [{id: a, worktree: l, run: 'echo 1 > n; git add n; git commit -q -m n'}, {id: b, worktree: m, run: 'echo 1 > m; git add m; git commit -q -m m; echo 2 > m'}]\n")
        .expect(0);
    let (told, ended) = doctor(&world);
    ended.expect(0);
    assert!(told.of("branches", "omg/r1/l").1.contains("`git branch -D omg/r1/l`"));
    assert!(told.of("branches", "omg/r1/m").1.contains("`omg lanes discard r1 m`"));
    check(&world, "branches", "omg/r1/l", "note");
    check(&world, "branches", "omg/r1/m", "note");
}

#[test]
fn what_is_known_to_trip_git_is_named() {
    let world = World::new();
    world.git("branch omg");
    check(&world, "repository", "branch `omg` is in the way", "wrong");
    world.git("config core.hooksPath hooks");
    check(&world, "repository", "core.hooksPath is relative", "note");
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(0);

    let bare = world.path().join("bare.git");
    world.git("clone -q --bare . ../bare.git");
    world.shell("git --git-dir=../bare.git config extensions.worktreeConfig true");
    let of_bare = || -> Told {
        let mut command = world.command(env!("CARGO_BIN_EXE_omg"));
        let ended = command.args(["doctor", "--json"]).current_dir(&bare).output().unwrap();
        let found: Value = serde_json::from_slice(&ended.stdout).unwrap();
        Told(found["findings"].as_array().unwrap().clone())
    };
    let (state, hint) = of_bare().of("repository", "extensions.worktreeConfig and core.bare");
    assert_eq!(state, "wrong");
    mend(&world, &hint);
    assert!(!of_bare().has("extensions.worktreeConfig"));
    assert_eq!(world.shell("git --git-dir=../bare.git rev-parse --is-bare-repository"), "true");
}
