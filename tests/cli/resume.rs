//! Later legs: what is kept, what runs again, what is found again.

use std::fs;

use rustix::process::Signal;

use crate::support::{World, signal};

#[test]
fn a_later_leg_finds_its_lanes_again_and_passed_nodes_do_not_run_twice() {
    let world = World::new();
    let go = world.path().join("go");
    let graph = format!(
        "name: x\nnodes:\n\
        - {{id: a, worktree: l, run: 'echo a >> ../ran; echo A > n.txt; git add .; git commit -q -m a'}}\n\
        - {{id: b, worktree: l, depends_on: [a], run: 'test -f n.txt && test -e {}'}}\n\
        - {{id: d, worktree: dirty, depends_on: [a], run: 'echo d >> a.txt'}}\n",
        go.display()
    );
    world.run_with(&graph, &["--keep-going"]).expect(1);
    let tip = world.git("rev-parse omg/r1/l");
    let nothing = world.omg(&["resume", "r1"]).expect(1);
    assert!(
        nothing.stderr.contains("nothing to do") && nothing.stderr.contains("--retry-failed"),
        "{}",
        nothing.stderr
    );
    fs::write(go, "").unwrap();
    world.omg(&["resume", "r1", "--retry-failed"]).expect(0);
    assert_eq!(world.git("rev-parse omg/r1/l"), tip);
    assert_eq!(fs::read_to_string(world.run_dir().join("worktrees/ran")).unwrap(), "a\n");
    assert_eq!(
        (world.node("a")["attempts"].as_u64(), world.node("b")["attempts"].as_u64()),
        (Some(1), Some(2))
    );
    assert_eq!(world.show()["legs"], 2);
    let how: Vec<_> = world
        .events_named("lane.acquire.performed")
        .iter()
        .map(|e| (e["leg"].clone(), e["how"].clone()))
        .collect();
    assert!(how.contains(&(2.into(), "reattached".into())), "{how:?}");
}

#[test]
fn after_kill_nine_a_dirty_lane_is_reused_as_it_was() {
    let world = World::new();
    let go = world.path().join("go");
    let graph = world.graph(&format!(
        "name: x\nnodes:\n\
        - {{id: a, worktree: l, run: 'echo work >> a.txt; test -e {0} || sleep 8601'}}\n\
        - {{id: b, worktree: m, run: 'echo commit > c; git add c; git commit -q -m c'}}\n\
        - {{id: c, depends_on: [a, b], run: 'git show {{{{ lanes.m.branch }}}}:c'}}\n",
        go.display()
    ));
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_for("b", || world.events_named("node.finished").iter().any(|e| e["node"] == "b"));
    world.wait_started("a");
    world.wait_for("its edit", || {
        fs::read_to_string(world.lane("l").join("a.txt")).is_ok_and(|text| text.contains("work"))
    });
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert_eq!(world.show()["status"], "interrupted");
    let shown = world.omg(&["show", "r1"]).expect(0).stdout;
    assert!(shown.ends_with("\n  omg resume r1  goes on where it stopped\n"), "{shown}");
    fs::write(go, "").unwrap();
    world.omg(&["resume", "r1"]).expect(0);
    assert_eq!(fs::read_to_string(world.lane("l").join("a.txt")).unwrap(), "one\nwork\nwork\n");
    assert_eq!(world.result("c"), "commit");
    assert_eq!(world.node("b")["attempts"], 1);
    assert_eq!(world.alive("sleep 8601"), Vec::<u32>::new());
}

#[test]
fn killed_at_any_moment_a_run_ends_the_same_when_resumed() {
    let world = World::with(&[
        ("a.txt", "one\n"),
        ("package-lock.json", "{}"),
        ("package.json", "{}"),
        (".gitignore", "node_modules\n"),
    ]);
    world.tool("npm", "mkdir -p node_modules; echo x > node_modules/.package-lock.json");
    let graph = world.graph(
        "name: x\nconcurrency: 2\nnodes:\n\
        - {id: a, worktree: a, run: 'git show HEAD:n >/dev/null 2>&1 || { echo 1 > n; git add n; git commit -q -m a; }'}\n\
        - {id: b, worktree: b, run: 'echo b > dirty'}\n\
        - {id: c, worktree: c, depends_on: [a], run: 'git show {{ lanes.a.branch }}:n'}\n\
        - {id: d, depends_on: [a, b, c], run: 'true'}\n",
    );
    // Each moment is an event of the journal, so that the kill comes right after it.
    for moment in 1..40 {
        let _ = fs::remove_dir_all(world.run_dir());
        world.shell("git worktree prune; for b in $(git for-each-ref --format='%(refname)' refs/heads/omg refs/omg); do git update-ref -d $b; done");
        let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
        let mut over = false;
        world.wait_for("the moment", || {
            world.events().len() >= moment
                || world.event_names().last().is_some_and(|name| name == "run.finished")
        });
        if world.event_names().last().is_some_and(|name| name == "run.finished") {
            over = true;
        }
        signal(&child, Signal::KILL);
        child.wait().unwrap();
        let resumed = world.omg(&["resume", "r1"]);
        assert_eq!(resumed.code, Some(0), "moment {moment}: {}", resumed.stderr);
        assert_eq!(world.show()["status"], "passed", "moment {moment}");
        assert_eq!(world.git("show omg/r1/a:n"), "1", "moment {moment}");
        assert_eq!(fs::read_to_string(world.lane("b").join("dirty")).unwrap(), "b\n", "moment {moment}");
        let kept = world.branches().contains(&"omg/r1/c".into());
        // A git that is ended amid a commit leaves this lock about once in fifty times. It is everybody's, so it
        // stays until the user has looked (`omg doctor`), and while it is there no branch can be deleted.
        let refs_locked = fs::remove_file(world.repo().join(".git/packed-refs.lock")).is_ok();
        let lane = world.lane_view("c");
        let says_so = lane["cleanup"]["note"].as_str().is_some_and(|note| note.contains("packed-refs.lock"));
        assert!(!kept || (refs_locked && says_so), "moment {moment}: {lane}\n{}", resumed.stderr);
        let passed = world.events_named("node.finished");
        for id in ["a", "b", "c", "d"] {
            let times = passed.iter().filter(|e| e["node"] == id && e["state"] == "passed").count();
            assert_eq!(times, 1, "moment {moment}: {id} passed {times} times");
        }
        if over {
            return;
        }
    }
}

#[test]
fn a_lane_folder_deleted_by_hand_is_attached_again() {
    let world = World::new();
    let go = world.path().join("go");
    let graph = format!(
        "name: x\nnodes: [{{id: a, worktree: l, run: 'test -e {} && git log --format=%s -1 || {{ echo 1 > n; git add n; git commit -q -m mine; echo x > dirty; exit 1; }}'}}]\n",
        go.display()
    );
    world.run(&graph).expect(1);
    fs::remove_dir_all(world.lane("l")).unwrap();
    fs::write(go, "").unwrap();
    world.omg(&["resume", "r1", "--retry-failed"]).expect(0);
    assert_eq!(world.result("a"), "mine");
}

#[test]
fn the_locks_of_a_killed_git_do_not_fail_the_next_leg() {
    for lock in ["index.lock", "HEAD.lock", "../../refs/heads/omg/r1/l.lock"] {
        a_stale_lock_does_not_fail_the_next_leg(lock);
    }
}

fn a_stale_lock_does_not_fail_the_next_leg(lock: &str) {
    let world = World::new();
    let lock = format!("$(git rev-parse --git-dir)/{lock}");
    let graph = world.graph(&format!(
        "name: x\nnodes: [{{id: a, worktree: l, run: 'test -e ../again || {{ touch ../again; echo staged > {lock}; sleep 8701; }}; echo x > n; git add n; git commit -q -m x'}}]\n"
    ));
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_for("the lock", || world.alive("sleep 8701").len() == 1);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    world.omg(&["resume", "r1"]).expect(0);
    assert_eq!(world.git("show omg/r1/l:n"), "x");
}

#[test]
fn a_branch_that_was_kept_and_is_gone_is_never_made_anew() {
    let world = World::new();
    let graph = "name: x\nnodes: [{id: a, worktree: l, run: 'echo 1 > n; git add n; git commit -q -m mine; exit 1'}]\n";
    world.run(graph).expect(1);
    assert!(!world.lane("l").exists());
    world.git("branch -q -D omg/r1/l");
    for leg in ["--retry-failed", "--retry-blocked", "--retry-blocked"] {
        let ended = world.omg(&["resume", "r1", leg]).expect(3);
        assert!(ended.text().contains("omg/r1/l"), "{}", ended.text());
        assert!(!world.branches().contains(&"omg/r1/l".to_string()), "made anew after {leg}");
    }
    assert_eq!(world.class("a"), "lane-branch-gone");
}

#[test]
fn a_changed_graph_file_is_said_and_not_used() {
    let world = World::bare();
    let go = world.path().join("go");
    world
        .run(&format!("name: x\nnodes: [{{id: a, run: 'test -e {0} && echo first'}}]\n", go.display()))
        .expect(1);
    world.graph("name: x\nnodes: [{id: a, run: 'echo second'}]\n");
    fs::write(go, "").unwrap();
    let ended = world.omg(&["resume", "r1", "--retry-failed"]).expect(0);
    assert!(ended.stderr.contains("has changed since the run began"), "{}", ended.stderr);
    assert!(ended.stderr.contains("g.yaml` with the one in the file"), "{}", ended.stderr);
    assert_eq!(world.result("a"), "first");
}

#[test]
fn a_torn_last_line_is_dropped_and_damage_elsewhere_is_named() {
    let world = World::bare();
    world.run("name: x\nnodes: [{id: a, run: 'exit 1'}]\n").expect(1);
    let journal = world.run_dir().join("events.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, format!("{whole}{{\"seq\":99,\"ts")).unwrap();
    assert_eq!(world.show()["status"], "failed");
    world.omg(&["resume", "r1", "--retry-failed"]).expect(1);
    let again = fs::read_to_string(&journal).unwrap();
    assert!(again.starts_with(&whole) && !again.contains("99,\"ts"));
    let damaged: Vec<&str> =
        whole.lines().enumerate().map(|(at, line)| if at == 1 { "{broken" } else { line }).collect();
    fs::write(&journal, damaged.join("\n") + "\n").unwrap();
    for words in [["show", "r1"], ["resume", "r1"]] {
        let ended = world.omg(&words);
        assert_ne!(ended.code, Some(0));
        assert!(ended.stderr.contains("events.jsonl, line 2"), "{}", ended.stderr);
    }
}

#[test]
fn retry_budgets_are_new_only_when_a_node_is_opened_again() {
    let world = World::bare();
    world.run("name: x\nnodes: [{id: a, run: 'exit 1', retry: {max: 1}}]\n").expect(1);
    assert_eq!(world.node("a")["attempts"], 2);
    world.omg(&["resume", "r1", "--retry-failed"]).expect(1);
    assert_eq!(world.node("a")["attempts"], 4);
}

#[test]
fn the_lock_names_its_holder_and_the_generation_grows() {
    let world = World::bare();
    world.run("name: x\nnodes: [{id: a, run: 'exit 1'}]\n").expect(1);
    let generation = |world: &World| -> u64 {
        let text = fs::read_to_string(world.run_dir().join("run.lock")).unwrap();
        text.split_whitespace().nth(2).unwrap().parse().unwrap()
    };
    let first = generation(&world);
    world.omg(&["resume", "r1", "--retry-failed"]).expect(1);
    assert!(generation(&world) > first);
    let mode = std::os::unix::fs::PermissionsExt::mode(&fs::metadata(world.run_dir()).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn who_is_overtaken_stops_and_writes_nothing_more() {
    let world = World::bare();
    let graph = "name: g\nnodes:\n- {id: a, run: 'touch began; while [ ! -e go ]; do sleep 0.05; done; echo done >> done'}\n\
        - {id: b, run: 'echo b >> done', depends_on: [a]}\n";
    let mut first = world.start(&["run", &world.graph(graph), "--run-id", "r1"]);
    world.wait_file(&world.repo().join("began"));
    // As who deletes the lock and takes the run would leave it.
    let lock = world.run_dir().join("run.lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::write(&lock, "1 1 7 2 leg\n").unwrap();
    let before = std::fs::read(world.run_dir().join("events.jsonl")).unwrap();
    world.write("go", "");
    assert_eq!(first.wait().unwrap().code(), Some(5));
    assert!(
        stderr(&world).contains("another process has taken the run over (generation 7"),
        "{}",
        stderr(&world)
    );
    assert_eq!(std::fs::read(world.run_dir().join("events.jsonl")).unwrap(), before);
    std::fs::remove_file(&lock).unwrap();
    // Its exit is on disk, and counts.
    world.omg(&["resume", "r1"]).expect(0);
    assert_eq!(std::fs::read_to_string(world.repo().join("done")).unwrap(), "done\nb\n");
}

#[test]
fn a_lock_file_that_names_a_living_stranger_stops_nobody() {
    let world = World::bare();
    world.run("name: g\nnodes:\n- {id: a, run: 'exit 1'}\n").expect(1);
    std::fs::write(world.run_dir().join("run.lock"), format!("{} 0 1 1 leg\n", std::process::id())).unwrap();
    world.omg(&["resume", "r1", "--retry-failed"]).expect(1);
    assert_eq!(world.show()["legs"], 2);
}

#[test]
fn a_changed_line_of_the_journal_is_named_also_where_it_is_the_last() {
    let world = World::bare();
    world.run("name: g\nnodes:\n- {id: a, run: 'exit 1'}\n").expect(1);
    let path = world.run_dir().join("events.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    let last = text.lines().count();
    std::fs::write(&path, text.replace("\"status\":\"failed\"", "\"status\":\"passed\"")).unwrap();
    let told = world.omg(&["resume", "r1", "--retry-failed"]).expect(3).stderr;
    assert!(told.contains(&format!("events.jsonl, line {last}: its checksum does not hold")), "{told}");
    std::fs::write(&path, &text[..text.len() - 9]).unwrap();
    world.omg(&["resume", "r1", "--retry-failed"]).expect(1);
    let torn = std::fs::read_to_string(world.run_dir().join("events.torn")).unwrap();
    assert!(torn.contains("run.finished"), "{torn}");
}

#[test]
fn a_run_of_a_newer_omg_is_refused_by_name() {
    let world = World::bare();
    world.run("name: g\nnodes:\n- {id: a, run: 'exit 1'}\n").expect(1);
    let path = world.run_dir().join("run.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"schema\":1", "\"schema\":9", 1)).unwrap();
    let told = world.omg(&["resume", "r1"]).expect(3).stderr;
    assert!(told.contains("a newer omg made this run, in shape 9"), "{told}");
}

fn stderr(world: &World) -> String {
    std::fs::read_to_string(world.path().join("stderr")).unwrap()
}

#[test]
fn what_a_killed_cleanup_had_saved_is_told_by_the_next() {
    for place in ["DeleteBefore@2", "DeleteAfter@2"] {
        let mut world = World::with(&[("a.txt", "one\n"), (".gitignore", "out/\n")]);
        let mark = world.path().join("struck");
        world.extra.push(("FAILPOINT".into(), format!("{place}@{}", mark.display()).into()));
        let run = "mkdir out; echo precious > out/i; git commit -q --allow-empty -m moved; git reset -q --hard HEAD~";
        let graph = world.graph(&format!("name: g\nnodes:\n- {{id: a, worktree: l, run: '{run}'}}\n"));
        let ended = world.omg(&["run", &graph, "--run-id", "r1"]);
        assert!(mark.exists(), "{place}: {}", ended.text());
        let told = world.omg(&["resume", "r1"]).expect(0).text();
        let saved = world.run_dir().join("rescued/l");
        assert_eq!(std::fs::read_to_string(saved.join("out/i")).unwrap(), "precious\n");
        assert!(told.contains(&format!("saved in {}", saved.display())), "{place}: {told}");
        let channels = &world.lane_view("l")["cleanup"]["channels"];
        assert_eq!(channels["ignored"], format!("saved: {}", saved.display()), "{place}");
        assert_eq!(channels["reflog"], "saved: refs/omg/rescued/r1/l", "{place}");
    }
}

#[test]
fn a_batch_that_a_full_disk_cut_short_is_no_truth() {
    let world = World::bare();
    world.run("name: g\nnodes:\n- {id: a, run: 'echo a >> a'}\n- {id: b, run: 'echo b >> b; [ -e go ]', depends_on: [a]}\n")
        .expect(1);
    let path = world.run_dir().join("events.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    // After the attempt that passed, and before the node is said to be over.
    let first = text.find("node.attempt.finished").unwrap();
    let end = first + text[first..].find('\n').unwrap() + 1;
    std::fs::write(&path, format!("{}{}", &text[..end], "{\"seq\":")).unwrap();
    world.write("go", "");
    world.omg(&["resume", "r1"]).expect(0);
    let read = |name: &str| std::fs::read_to_string(world.repo().join(name)).unwrap();
    assert_eq!((read("a").as_str(), read("b").as_str()), ("a\n", "b\nb\n"));
}

#[test]
fn an_exit_that_was_written_in_part_does_not_hide_the_next() {
    let mut world = World::bare();
    world.run("name: g\nnodes:\n- {id: a, run: 'echo a >> a; [ -e go ]'}\n").expect(1);
    let exits = world.run_dir().join("exits.jsonl");
    let text = std::fs::read_to_string(&exits).unwrap();
    std::fs::write(&exits, format!("{text}{{\"job\":\"g1-9\",\"co")).unwrap();
    world.write("go", "");
    let mark = world.path().join("struck");
    world.extra.push(("FAILPOINT".into(), format!("ExitRecorded@1@{}@both", mark.display()).into()));
    world.omg(&["resume", "r1", "--retry-failed"]);
    assert!(mark.exists());
    world.omg(&["resume", "r1"]).expect(0);
    assert_eq!(std::fs::read_to_string(world.repo().join("a")).unwrap(), "a\na\n");
}

/// What a git that is killed with omg leaves of a lane: a plain resume makes all of it whole.
#[test]
fn whatever_a_killed_git_left_of_a_lane_a_plain_resume_finishes() {
    let entry = ".git/worktrees/l";
    let bare_tree =
        "git branch omg/r1/l; git worktree add -q --no-checkout $OMG_HOME/runs/r1/worktrees/l omg/r1/l";
    let cases = [
        (
            "its branch's lock",
            "GitBefore@1",
            "mkdir -p .git/refs/heads/omg/r1; : > .git/refs/heads/omg/r1/l.lock".to_string(),
        ),
        ("a lock amid the checkout", "GitAfter@4", format!(": > {entry}/HEAD.lock; : > {entry}/index.lock")),
        (
            "an entry without HEAD and lock",
            "GitBefore@1",
            format!("{bare_tree}; rm -rf {entry}/HEAD {entry}/logs {entry}/locked; : > {entry}/HEAD.lock"),
        ),
        (
            "an entry that names no tree",
            "GitBefore@1",
            format!("{bare_tree}; rm -rf {entry}/HEAD {entry}/logs {entry}/gitdir"),
        ),
        ("a tree whose entry is gone", "GitBefore@1", format!("{bare_tree}; rm -rf {entry}")),
    ];
    for (name, place, left) in cases {
        let mut world = World::new();
        let graph = world.graph("name: g\nnodes:\n- {id: a, worktree: l, run: 'cat a.txt; echo x > f; git add f; git commit -q -m f'}\n");
        let mark = world.path().join("struck");
        world.extra.push(("FAILPOINT".into(), format!("{place}@{}", mark.display()).into()));
        world.omg(&["run", &graph, "--run-id", "r1"]);
        assert!(mark.exists(), "{name}");
        world.shell(&left);
        let ended = world.omg(&["resume", "r1"]);
        assert_eq!(ended.code, Some(0), "{name}: {}", ended.text());
        assert_eq!(world.git("show omg/r1/l:f"), "x", "{name}");
        assert_eq!(world.git("worktree list --porcelain").matches("worktree ").count(), 1, "{name}");
    }
}

#[test]
fn lanes_that_are_away_are_not_made_anew() {
    let world = World::new();
    let root = world.path().join("disk");
    let graph = world.graph(
        "name: g\nnodes:\n- {id: a, worktree: l, run: 'echo note > notes.txt'}\n\
         - {id: b, worktree: l, depends_on: [a], run: '[ -e ../../../go ] && cat notes.txt'}\n",
    );
    let words = ["run", &graph, "--run-id", "r1", "--worktree-root", root.to_str().unwrap()];
    world.omg(&words).expect(1);
    std::fs::rename(&root, world.path().join("away")).unwrap();
    std::fs::create_dir(&root).unwrap();
    world.write("../go", "");
    let told = world.omg(&["resume", "r1", "--retry-failed"]).expect(3).stderr;
    assert!(told.contains("and that is not there"), "{told}");
    world.omg(&["lanes", "discard", "r1", "l"]).expect(3);
    world.omg(&["gc", "r1", "--older-than", "0s"]);
    assert!(world.run_dir().join("events.jsonl").exists());
    std::fs::remove_dir(&root).unwrap();
    std::fs::rename(world.path().join("away"), &root).unwrap();
    world.omg(&["resume", "r1", "--retry-failed"]).expect(0);
    assert_eq!(world.result("b"), "note");
}

#[test]
fn a_run_whose_journal_is_gone_does_not_begin_again() {
    let world = World::bare();
    world
        .run("name: g\nnodes:\n- {id: a, run: 'echo a >> a'}\n- {id: b, run: 'exit 1', depends_on: [a]}\n")
        .expect(1);
    std::fs::remove_file(world.run_dir().join("events.jsonl")).unwrap();
    let told = world.omg(&["resume", "r1", "--retry-failed"]).expect(3).stderr;
    assert!(told.contains("is empty or gone, and nodes have run"), "{told}");
    assert_eq!(std::fs::read_to_string(world.repo().join("a")).unwrap(), "a\n");
}
