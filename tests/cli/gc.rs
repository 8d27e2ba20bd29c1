//! `omg gc`: what dead runs left is put in order; what lives, is not ours or is not known stays as it is.

use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Ended, World, signal};

/// A run with a lane of each kind, killed while one of its nodes runs: `empty` has nothing, `dirty` an edit,
/// `done` a commit, and `busy` the node that was running.
fn killed(world: &World) -> String {
    let go = world.path().join("go");
    let graph = world.graph(&format!(
        "name: x\nconcurrency: 4\nnodes:\n\
        - {{id: empty, worktree: empty, run: 'true'}}\n\
        - {{id: dirty, worktree: dirty, run: 'echo edit >> a.txt'}}\n\
        - {{id: done, worktree: done, run: 'echo 1 > n; git add n; git commit -q -m n'}}\n\
        - {{id: busy, worktree: busy, depends_on: [empty, dirty, done], run: 'test -e {} || sleep 8701'}}\n",
        go.display()
    ));
    kill_amid(world, &graph, "busy");
    graph
}

/// Starts `graph` as `r1` and kills its runner once `node` was seen to run.
fn kill_amid(world: &World, graph: &str, node: &str) {
    let mut child = world.start(&["run", graph, "--run-id", "r1"]);
    world.wait_started(node);
    signal(&child, Signal::KILL);
    child.wait().unwrap();
}

fn gc_json(world: &World, words: &[&str]) -> (Value, Ended) {
    let ended = world.omg(&[&["gc", "--json"], words].concat());
    (serde_json::from_str(&ended.stdout).unwrap_or(Value::Null), ended)
}

fn run_of(report: &Value, id: &str) -> Value {
    let runs = report["runs"].as_array().unwrap();
    runs.iter().find(|run| run["run_id"] == id).unwrap_or_else(|| panic!("no run {id}: {report}")).clone()
}

/// Everything there is: every file of the home with its content, every ref, every worktree.
fn everything(world: &World) -> String {
    let home = world.home().display().to_string();
    let files = world.shell(&format!(
        "find {home} -printf '%P %y %m %s %T@\\n' | grep -v '/omg-index' | sort; find {home} -type f -exec sha256sum {{}} + | sort"
    ));
    let refs = world.git("for-each-ref; git worktree list --porcelain; find .git/worktrees | sort");
    format!("{files}\n{refs}")
}

#[test]
fn lanes_of_a_killed_run_get_the_verdict_of_a_legs_end_and_resume_finishes() {
    let world = World::new();
    killed(&world);
    world.wait_for("the end of the supervisor", || world.alive("").is_empty());
    let last_sign = world.events().last().unwrap()["ts"].clone();
    let ended = world.omg(&["gc"]).expect(0);
    for line in [
        "run r1 (interrupted): put in order",
        "lane empty: tree removed, branch deleted (clean)",
        "lane dirty: tree kept, branch kept (uncommitted: 1 modified file)",
        "lane done: tree removed, branch kept (tip-moved)",
        "lane busy: tree removed, branch deleted (clean)",
    ] {
        assert!(ended.stdout.contains(line), "{line}: {}", ended.stdout);
    }
    assert_eq!(world.branches(), ["main", "omg/r1/dirty", "omg/r1/done"]);
    assert_eq!(fs::read_to_string(world.lane("dirty").join("a.txt")).unwrap(), "one\nedit\n");
    assert!(!world.lane("empty").exists() && !world.lane("done").exists() && !world.lane("busy").exists());
    assert_eq!(world.git("show omg/r1/done:n"), "1");
    assert_eq!(world.alive("sleep 8701"), Vec::<u32>::new());
    assert_eq!(world.show()["status"], "interrupted");
    let reasons: Vec<Value> =
        world.events_named("lane.cleanup.requested").iter().map(|event| event["reason"].clone()).collect();
    assert_eq!(reasons, ["gc"; 4]);
    assert_eq!(world.event_names().last().unwrap(), "run.finished");
    assert_eq!(world.show()["finished_at"], last_sign, "a leg that was killed ended then, not now");
    assert!(world.omg(&["explain", "r1", "busy"]).expect(0).stdout.contains("interrupted"));
    // A kept lane is nobody's any more.
    assert!(!world.git("worktree list --porcelain").contains("locked"));

    let written = world.events().len();
    let again = world.omg(&["gc"]).expect(0);
    assert!(again.stdout.starts_with("nothing is to be put in order\n"), "{}", again.stdout);
    assert_eq!(world.events().len(), written);

    fs::write(world.path().join("go"), "").unwrap();
    world.omg(&["resume", "r1"]).expect(0);
    assert_eq!(world.show()["status"], "passed");
    assert_eq!(world.node("done")["attempts"], 1);
    assert_eq!(world.branches(), ["main", "omg/r1/dirty", "omg/r1/done"]);
}

#[test]
fn a_dry_run_changes_nothing_and_tells_what_would_be() {
    let world = World::new();
    killed(&world);
    world.wait_for("the end of the supervisor", || world.alive("").is_empty());
    let before = everything(&world);
    let (report, ended) = gc_json(&world, &["--dry-run"]);
    ended.expect(0);
    assert_eq!(everything(&world), before);
    let text = world.omg(&["gc", "--dry-run"]).expect(0).stdout;
    assert_eq!(everything(&world), before);
    for line in [
        "run r1 (interrupted): would be put in order",
        "lane empty: tree would be removed, branch would be deleted (clean)",
        "lane dirty: tree kept, branch kept (uncommitted: 1 modified file)",
        "lane done: tree would be removed, branch kept (tip-moved)",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let foreseen = run_of(&report, "r1");
    let (report, _) = gc_json(&world, &[]);
    let done = run_of(&report, "r1");
    let fates = |run: &Value| {
        let lanes = run["lanes"].as_array().unwrap().iter();
        lanes
            .map(|lane| ["name", "tree", "branch", "reason"].map(|key| lane[key].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(fates(&foreseen), fates(&done));
    assert!(foreseen["freed"]["inodes"].as_u64().unwrap() >= 6, "{foreseen}");
    assert!(done["freed"]["bytes"].as_u64().unwrap() > 0 && done["kept"]["bytes"].as_u64().unwrap() > 0);
}

#[test]
fn a_living_run_is_left_alone_and_named_it_is_code_5() {
    let world = World::new();
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'sleep 8702'}]\n");
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("a");
    let events = world.events().len();
    let ended = world.omg(&["gc", "--older-than", "0s", "--keep", "0"]).expect(0);
    assert!(ended.stdout.contains("run r1 (running): left as it is"), "{}", ended.stdout);
    assert!(ended.stdout.contains("held by a living process (pid "), "{}", ended.stdout);
    world.omg(&["gc", "r1", "--older-than", "0s"]).expect(5);
    world.omg(&["gc", "r1", "--dry-run"]).expect(5);
    assert!(world.lane("l").exists() && world.events().len() == events);
    assert_eq!(world.alive("sleep 8702").len(), 1);
    signal(&child, Signal::TERM);
    child.wait().unwrap();
    world.omg(&["gc", "nope"]).expect(2);
}

#[test]
fn what_another_tool_registered_is_not_touched() {
    let world = World::new();
    world.git("worktree add -q ../theirs -b theirs");
    world.git("worktree add -q ../lost -b lost");
    fs::remove_dir_all(world.path().join("lost")).unwrap();
    killed(&world);
    world.omg(&["gc"]).expect(0);
    let listed = world.git("worktree list --porcelain");
    assert!(
        listed.contains("/theirs") && listed.contains("/lost") && listed.contains("prunable"),
        "{listed}"
    );
    assert!(world.branches().contains(&"lost".to_string()));
}

#[test]
fn an_entry_of_ours_whose_folder_is_gone_is_dropped_and_what_it_held_has_a_ref() {
    let world = World::new();
    world
        .run("name: x\nnodes: [{id: a, worktree: l, run: 'echo staged > s; git add s; git checkout -q --detach; git commit -q -m mine; echo more > t; git add t'}]\n")
        .expect(0);
    let commit = world.git(&format!("-C {} rev-parse HEAD", world.lane("l").display()));
    fs::remove_dir_all(world.lane("l")).unwrap();
    assert!(world.git("worktree list --porcelain").contains("prunable"));
    let dry = world.omg(&["gc", "--dry-run"]).expect(0).stdout;
    assert!(dry.contains("whose folder is gone, would be taken out"), "{dry}");
    assert!(world.git("worktree list --porcelain").contains("prunable"));
    let ended = world.omg(&["gc"]).expect(0);
    assert!(ended.stdout.contains("whose folder is gone, taken out"), "{}", ended.stdout);
    assert!(!world.git("worktree list --porcelain").contains("/worktrees/l"));
    world.git(&format!("merge-base --is-ancestor {commit} refs/omg/rescued/r1/l"));
    let saved = world.git("log --format=%H refs/omg/rescued/r1/l");
    assert!(
        saved.lines().any(|commit| !world.shell(&format!("git ls-tree {commit} t")).is_empty()),
        "{saved}"
    );
    world.omg(&["gc"]).expect(0);
}

#[test]
fn a_lane_that_was_moved_and_repaired_is_the_users() {
    let world = World::new();
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'echo x > u'}]\n").expect(0);
    let moved = world.path().join("mine");
    fs::rename(world.lane("l"), &moved).unwrap();
    world.git(&format!("worktree repair {}", moved.display()));
    let before = world.git("worktree list --porcelain; git for-each-ref");
    assert!(before.contains("/mine") && !before.contains("prunable"), "{before}");
    world.omg(&["gc"]).expect(0);
    assert_eq!(world.git("worktree list --porcelain; git for-each-ref"), before);
    assert_eq!(fs::read_to_string(moved.join("u")).unwrap(), "x\n");
}

#[test]
fn an_entry_with_an_operation_under_way_stays() {
    let world = World::new();
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'echo x > u'}]\n").expect(0);
    fs::write(world.repo().join(".git/worktrees/l/MERGE_HEAD"), world.git("rev-parse HEAD")).unwrap();
    fs::remove_dir_all(world.lane("l")).unwrap();
    let ended = world.omg(&["gc"]).expect(0);
    assert!(ended.stdout.contains("stays: ") && ended.stdout.contains("MERGE_HEAD"), "{}", ended.stdout);
    assert!(world.repo().join(".git/worktrees/l").exists());
    assert!(world.branches().contains(&"omg/r1/l".to_string()));
}

#[test]
fn what_can_not_be_read_is_named_and_not_touched() {
    for (damage, words) in [
        ("echo '{' > run.json", "run.json"),
        ("rm run.json", "run.json"),
        ("sed -i '3s/.*/garbage/' events.jsonl", "line 3"),
    ] {
        let world = World::new();
        killed(&world);
        world.wait_for("the end of the supervisor", || world.alive("").is_empty());
        world.shell(&format!("cd {} && {damage}", world.run_dir().display()));
        let before = everything(&world);
        let ended = world.omg(&["gc", "--older-than", "0s"]).expect(3);
        assert!(ended.stdout.contains("run r1: not in order"), "{damage}: {}", ended.stdout);
        assert!(
            ended.stdout.contains(words) && ended.stdout.contains("put it back"),
            "{damage}: {}",
            ended.stdout
        );
        assert_eq!(everything(&world), before, "{damage}");
        // Named, it is still not removed: trees of lanes are there.
        world.omg(&["gc", "r1", "--older-than", "0s"]).expect(3);
        assert_eq!(everything(&world), before, "{damage}");
    }
}

#[test]
fn a_run_whose_repository_is_away_is_named_and_waits() {
    let world = World::new();
    killed(&world);
    let (repo, moved) = (world.repo(), world.path().join("moved"));
    fs::rename(&repo, &moved).unwrap();
    fs::create_dir(&repo).unwrap();
    let events = world.events().len();
    let ended = world.omg(&["gc", "--older-than", "0s"]).expect(3);
    assert!(ended.stdout.contains("away from where it was"), "{}", ended.stdout);
    assert!(ended.stdout.contains("move it back"), "{}", ended.stdout);
    assert!(world.lane("empty").exists() && world.events().len() == events);
    fs::remove_dir(&repo).unwrap();
    fs::rename(&moved, &repo).unwrap();
    world.omg(&["gc"]).expect(0);
    assert!(!world.lane("empty").exists());
}

#[test]
fn a_run_that_could_not_be_put_in_order_keeps_its_folder() {
    let world = World::new();
    killed(&world);
    fs::remove_dir_all(world.run_dir().join("worktrees")).unwrap();
    fs::rename(world.repo(), world.path().join("moved")).unwrap();
    fs::create_dir(world.repo()).unwrap();
    world.omg(&["gc", "--older-than", "0s", "--keep", "0"]).expect(3);
    assert!(exists(&world, "r1"), "its branches hold commits, as far as anybody knows");
    fs::remove_dir(world.repo()).unwrap();
    fs::rename(world.path().join("moved"), world.repo()).unwrap();
    let ended = world.omg(&["gc", "--older-than", "0s"]).expect(0);
    assert!(ended.stdout.contains("its branch omg/r1/done is merged nowhere"), "{}", ended.stdout);
    assert_eq!(world.branches(), ["main", "omg/r1/done"]);
    assert_eq!(world.git("worktree list --porcelain").matches("worktree ").count(), 1);
}

#[test]
fn a_tree_that_a_fresh_one_took_the_place_of_is_listed_and_stays() {
    let world = World::new();
    let go = world.path().join("go");
    let graph = format!(
        "name: x\nprovision: 'echo half > half-made; test -e {}'\nnodes: [{{id: a, worktree: l, run: 'true'}}]\n",
        go.display()
    );
    world.run(&graph).expect(3);
    fs::write(world.lane("l").join("mine.txt"), "somebody's\n").unwrap();
    fs::write(go, "").unwrap();
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(0);
    let ended = world.omg(&["gc", "r1", "--older-than", "0s"]).expect(0);
    assert!(
        ended.stdout.contains("old tree ") && ended.stdout.contains("l.old-1 is kept"),
        "{}",
        ended.stdout
    );
    assert_eq!(fs::read_to_string(world.lane("l.old-1").join("mine.txt")).unwrap(), "somebody's\n");
    let old = world.lane("l.old-1").display().to_string();
    world.git(&format!("worktree remove --force {old}"));
    world.omg(&["gc", "r1", "--older-than", "0s"]).expect(0);
    assert!(!exists(&world, "r1"));
}

#[test]
fn a_tree_that_a_cut_sweep_had_set_aside_comes_back_and_is_judged() {
    let world = World::new();
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'echo x > u'}]\n").expect(0);
    let aside = world.run_dir().join("worktrees/.omg-aside-l");
    fs::rename(world.lane("l"), &aside).unwrap();
    let dry = world.omg(&["gc", "--dry-run"]).expect(0).stdout;
    assert!(dry.contains("lane l: tree kept") && aside.exists(), "{dry}");
    world.omg(&["gc"]).expect(0);
    assert_eq!(fs::read_to_string(world.lane("l").join("u")).unwrap(), "x\n");
    assert!(!aside.exists());
}

#[test]
fn a_lane_in_which_somebody_worked_is_looked_at_again() {
    let world = World::new();
    let hold = world.path().join("hold");
    let graph = format!(
        "name: x\nnodes: [{{id: a, worktree: l, run: 'echo > {}; while test -e {0}; do sleep 0.02; done'}}]\n",
        hold.display()
    );
    let graph = world.graph(&graph);
    let mut run = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_file(&hold);
    let mut worker = world.command("sleep").arg("8706").current_dir(world.lane("l")).spawn().unwrap();
    fs::remove_file(&hold).unwrap();
    assert!(run.wait().unwrap().success());
    assert_eq!(world.lane_view("l")["cleanup"]["reason"], "busy");
    let busy = world.omg(&["gc"]).expect(0);
    assert!(busy.stdout.contains("lane l: tree kept, branch kept (busy"), "{}", busy.stdout);
    worker.kill().unwrap();
    worker.wait().unwrap();
    world.omg(&["gc"]).expect(0);
    assert!(!world.lane("l").exists());
    assert_eq!(
        (world.show()["status"].as_str(), world.branches()),
        (Some("passed"), vec!["main".to_string()])
    );
}

/// Runs `omg gc` with these words and a failpoint (src/failpoint.rs).
fn gc_with(world: &World, words: &[&str], failpoint: &str) -> Ended {
    let mut command = world.command(env!("CARGO_BIN_EXE_omg"));
    command.arg("gc").args(words).env("FAILPOINT", failpoint).output().unwrap().into()
}

/// Kills `omg gc` with these words at every place that it comes to, the first time that it comes there, one in the
/// middle and the last; then runs it anew, and looks whether `holds` does.
fn kill_everywhere(words: &[&str], holds: impl Fn(&World, &str)) {
    let world = World::new();
    world.write(".gitignore", "*.log\n");
    world.git("add -A");
    world.git("commit -q -m ignore");
    let graph = world.graph(
        "name: x\nconcurrency: 3\nnodes:\n\
        - {id: empty, worktree: empty, run: 'true'}\n\
        - {id: dirty, worktree: dirty, run: 'echo edit >> a.txt; echo kept > run.log'}\n\
        - {id: done, worktree: done, run: 'echo 1 > n; git add n; git commit -q -m n; echo kept > run.log'}\n\
        - {id: last, depends_on: [empty, dirty, done], run: 'sleep 8707'}\n",
    );
    kill_amid(&world, &graph, "last");
    world.wait_for("the end of the supervisor", || world.alive("").is_empty());
    let (list, mark) = (world.path().join("list"), world.path().join("mark"));
    world.shell("mkdir ../saved && cp -a ../home ../repo ../saved");
    let restore = || {
        world.shell("cd .. && rm -rf home && find repo -mindepth 1 -delete && cp -a saved/home . && cp -a saved/repo/. repo")
    };
    gc_with(&world, words, &format!("list@0@{}", list.display())).expect(0);
    let places = fs::read_to_string(&list).unwrap();
    let mut counts = std::collections::BTreeMap::<&str, u32>::new();
    places.lines().for_each(|place| *counts.entry(place).or_default() += 1);
    assert!(counts.len() > 5, "{counts:?}");
    let ends = counts.iter().flat_map(|(place, last)| {
        let middle = [1, last.div_ceil(2), *last];
        std::collections::BTreeSet::from(middle).into_iter().map(move |count| (*place, count))
    });
    for (place, count) in ends {
        restore();
        let _ = fs::remove_file(&mark);
        let killed = gc_with(&world, words, &format!("{place}@{count}@{}", mark.display()));
        assert_eq!(killed.code, None, "{place} {count}: {killed:?}");
        // What was renamed away has no name any more that could be given.
        let words = if exists(&world, "r1") { words } else { &[] };
        world.omg(&[&["gc"], words].concat()).expect(0);
        if !words.is_empty() && exists(&world, "r1") {
            // Files of its lanes were saved just now.
            world.omg(&[&["gc"], words].concat()).expect(0);
        }
        holds(&world, &format!("killed at {place}, time {count}"));
    }
}

#[test]
fn killed_anywhere_the_next_gc_goes_on() {
    kill_everywhere(&[], |world, at| {
        assert_eq!(world.branches(), ["main", "omg/r1/dirty", "omg/r1/done"], "{at}");
        assert_eq!(world.git("show omg/r1/done:n"), "1", "{at}");
        assert_eq!(fs::read_to_string(world.lane("dirty").join("a.txt")).unwrap(), "one\nedit\n", "{at}");
        assert_eq!(fs::read_to_string(world.lane("dirty").join("run.log")).unwrap(), "kept\n", "{at}");
        assert_eq!(
            fs::read_to_string(world.run_dir().join("rescued/done/run.log")).unwrap(),
            "kept\n",
            "{at}"
        );
        assert_eq!(world.show()["status"], "interrupted", "{at}");
        let left = fs::read_dir(world.run_dir().join("worktrees")).unwrap().flatten();
        let left = left.map(|item| item.file_name().to_string_lossy().into_owned());
        let left: Vec<String> = left.filter(|name| !name.starts_with(".omg-lock-")).collect();
        assert_eq!(left, ["dirty"], "{at}");
        assert_eq!(world.git("worktree list --porcelain").matches("worktree ").count(), 2, "{at}");
    });
}

#[test]
fn killed_anywhere_a_removal_is_brought_to_its_end_and_loses_no_commit() {
    kill_everywhere(&["r1", "--older-than", "0s"], |world, at| {
        assert_eq!(fs::read_dir(world.home().join("runs")).unwrap().count(), 0, "{at}");
        assert_eq!(world.git("show omg/r1/done:n"), "1", "{at}");
        assert_eq!(world.git("show refs/omg/rescued/r1/dirty:a.txt"), "one\nedit", "{at}");
        assert_eq!(world.git("worktree list --porcelain").matches("worktree ").count(), 1, "{at}");
    });
}

#[test]
fn a_tree_that_only_waits_for_its_deletion_goes() {
    let world = World::new();
    world
        .run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}, {id: b, worktree: m, run: 'echo x > u'}]\n")
        .expect(0);
    let worktrees = world.run_dir().join("worktrees");
    for lane in ["l", "m"] {
        fs::create_dir(worktrees.join(format!(".omg-gone-{lane}"))).unwrap();
        fs::write(worktrees.join(format!(".omg-gone-{lane}/x")), "x").unwrap();
    }
    world.omg(&["gc"]).expect(0);
    assert!(!worktrees.join(".omg-gone-l").exists() && !worktrees.join(".omg-gone-m").exists());
    assert_eq!(fs::read_to_string(world.lane("m").join("u")).unwrap(), "x\n");
}

fn exists(world: &World, id: &str) -> bool {
    world.home().join("runs").join(id).exists()
}

#[test]
fn folders_go_only_where_that_is_asked_and_nothing_speaks_against_it() {
    let world = World::new();
    world.write(".gitignore", "*.log\n");
    world.git("add -A");
    world.git("commit -q -m ignore");
    let runs = [
        ("plain", "name: x\nnodes: [{id: a, run: 'true'}]\n", 0),
        ("failed", "name: x\nnodes: [{id: a, run: 'false'}]\n", 1),
        ("blocked", "name: x\nnodes: [{id: a, run: 'no-such-program-here'}]\n", 3),
        ("rescued", "name: x\nnodes: [{id: a, worktree: l, run: 'echo x > a.log'}]\n", 0),
        ("tree", "name: x\nnodes: [{id: a, worktree: l, run: 'echo x > u; echo y > b.log'}]\n", 0),
        (
            "branch",
            "name: x\nnodes: [{id: a, worktree: l, run: 'echo 1 > n; git add n; git commit -q -m n'}]\n",
            0,
        ),
        (
            "merged",
            "name: x\nnodes: [{id: a, worktree: l, run: 'echo 1 > m; git add m; git commit -q -m m'}]\n",
            0,
        ),
    ];
    for (id, graph, code) in runs {
        let graph = world.graph(graph);
        world.omg(&["run", &graph, "--run-id", id]).expect(code);
    }
    world.git("merge -q omg/merged/l");
    world.omg(&["gc"]).expect(0);
    world.omg(&["gc", "--older-than", "1d"]).expect(0);
    world.omg(&["gc", "--keep", "7"]).expect(0);
    assert!(runs.iter().all(|(id, ..)| exists(&world, id)));

    let before = everything(&world);
    let dry = world.omg(&["gc", "--older-than", "0s", "--dry-run"]).expect(0).stdout;
    assert_eq!(everything(&world), before);
    assert!(dry.contains("run plain (passed): would be removed"), "{dry}");
    let done = world.omg(&["gc", "--older-than", "0s"]).expect(0).stdout;
    for (id, why) in [
        ("blocked", "it is blocked"),
        ("rescued", "it holds rescued files in "),
        ("tree", "worktrees/l is kept"),
        ("branch", "its branch omg/branch/l is merged nowhere"),
    ] {
        assert!(exists(&world, id), "{id}");
        assert!(dry.contains(why) && done.contains(why), "{why}: {done}");
    }
    for id in ["plain", "failed", "merged"] {
        assert!(!exists(&world, id), "{id}");
        assert!(done.contains(&format!("run {id} (")) && done.contains("removed"), "{done}");
    }
    // A branch outlives the folder of its run.
    assert!(world.branches().contains(&"omg/merged/l".to_string()));

    world.omg(&["gc", "blocked", "rescued", "tree", "branch"]).expect(0);
    assert!(exists(&world, "tree"), "a name alone removes nothing");
    let words = ["gc", "blocked", "rescued", "tree", "branch", "--older-than", "0s"];
    world.omg(&[&words[..], &["--dry-run"]].concat()).expect(0);
    assert!(exists(&world, "tree"));
    // Twice: of one the first has saved files.
    world.omg(&words).expect(0);
    for id in ["blocked", "rescued", "tree", "branch"] {
        if exists(&world, id) {
            world.omg(&["gc", id, "--older-than", "0s"]).expect(0);
        }
    }
    assert_eq!(fs::read_dir(world.home().join("runs")).unwrap().count(), 0);
    assert!(world.branches().contains(&"omg/branch/l".to_string()));
    assert_eq!(
        world.git("show refs/omg/rescued/tree/l:u"),
        "x",
        "what a tree held is rescued before it goes"
    );
    assert_eq!(world.git("worktree list --porcelain").matches("worktree ").count(), 1);
}

#[test]
fn an_unreadable_run_goes_where_it_is_named_and_holds_no_tree() {
    let world = World::new();
    world.run("name: x\nnodes: [{id: a, run: 'true'}]\n").expect(0);
    fs::write(world.run_dir().join("run.json"), "{").unwrap();
    let kept = world.omg(&["gc", "--older-than", "0s"]).expect(3);
    assert!(kept.stdout.contains("run r1: not in order") && exists(&world, "r1"), "{}", kept.stdout);
    world.omg(&["gc", "r1", "--older-than", "1h"]).expect(3);
    assert!(exists(&world, "r1"));
    let gone = world.omg(&["gc", "r1", "--older-than", "0s"]).expect(0);
    assert!(gone.stdout.contains("run r1: removed") && !exists(&world, "r1"), "{}", gone.stdout);
}

#[test]
fn a_half_made_entry_of_ours_fails_no_git_of_the_user_any_more() {
    let world = World::new();
    let hook = world.repo().join(".git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\necho x > ../hooked; exec sleep 8705\n").unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n");
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_file(&world.run_dir().join("worktrees/hooked"));
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    fs::remove_file(&hook).unwrap();
    fs::remove_file(world.run_dir().join("worktrees/hooked")).unwrap();
    // What a kill some milliseconds earlier, amid `git worktree add`, leaves (measured with git 2.47).
    world.shell("cd .git/worktrees/l && : > commondir && rm index omg-lane.json");
    world.shell(&format!("cd {} && find . -mindepth 1 -not -name .git -delete", world.lane("l").display()));
    let broken = world.command("git").args(["worktree", "list"]).output().unwrap();
    assert_eq!(broken.status.code(), Some(128), "this git does not mind: the test shows nothing");
    world.omg(&["gc"]).expect(0);
    assert_eq!(world.git("worktree list --porcelain").matches("worktree ").count(), 1);
    assert!(!world.lane("l").exists());
    assert_eq!((world.branches(), world.alive("sleep 8705")), (vec!["main".to_string()], Vec::new()));
}

#[test]
fn lanes_elsewhere_wait_for_their_disk_and_go_with_their_run() {
    let world = World::new();
    let root = world.path().join("disk");
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'sleep 8703'}]\n");
    let words = ["run", &graph, "--run-id", "r1", "--worktree-root", root.to_str().unwrap()];
    let mut child = world.start(&words);
    world.wait_started("a");
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    world.wait_for("the end of the supervisor", || world.alive("").is_empty());
    fs::rename(&root, world.path().join("unplugged")).unwrap();
    let away = world.omg(&["gc"]).expect(3);
    assert!(away.stdout.contains("where its lanes are, is away"), "{}", away.stdout);
    assert!(!root.exists() && world.git("worktree list --porcelain").contains("disk/r1/l"));
    fs::rename(world.path().join("unplugged"), &root).unwrap();
    world.omg(&["gc", "--older-than", "0s"]).expect(0);
    assert!(!exists(&world, "r1") && !root.join("r1").exists());
    assert_eq!(world.branches(), ["main"]);
}

#[test]
fn what_a_dead_run_left_running_is_ended() {
    let world = World::new();
    let graph = "name: x\nnodes: [{id: a, run: 'true'}]\n";
    world.run(graph).expect(0);
    // Started by a node once, and by now nobody's.
    let mut stray = world.command("sleep").arg("8704").env("OMG_RUN_DIR", world.run_dir()).spawn().unwrap();
    let dry = world.omg(&["gc", "--dry-run"]).expect(0).stdout;
    assert!(dry.contains(&format!("process {} sleep would be ended", stray.id())), "{dry}");
    assert!(stray.try_wait().unwrap().is_none());
    let done = world.omg(&["gc"]).expect(0).stdout;
    assert!(done.contains(&format!("process {} sleep ended", stray.id())), "{done}");
    assert!(!stray.wait().unwrap().success());
    assert_eq!(world.show()["status"], "passed");
}

#[test]
fn the_newest_of_each_repository_stay() {
    let world = World::new();
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n");
    world.git("init -q ../other");
    world.shell("cd ../other && git commit -q --allow-empty -m base");
    for id in ["a1", "a2", "a3"] {
        world.omg(&["run", &graph, "--run-id", id]).expect(0);
    }
    let mut elsewhere = world.command(env!("CARGO_BIN_EXE_omg"));
    elsewhere.args(["run", &graph, "--run-id", "o1"]).current_dir(world.path().join("other"));
    assert!(elsewhere.output().unwrap().status.success());
    world.omg(&["gc", "--keep", "2", "--older-than", "1h"]).expect(0);
    assert!(exists(&world, "a1"), "both have to hold");
    world.omg(&["gc", "--keep", "2"]).expect(0);
    let left = ["a1", "a2", "a3", "o1"].map(|id| exists(&world, id));
    assert_eq!(left, [false, true, true, true]);
    world.omg(&["gc", "--keep", "nine"]).expect(2);
    world.omg(&["gc", "--older-than", "7"]).expect(2);
}

#[test]
fn a_removal_that_was_cut_is_brought_to_its_end() {
    let world = World::new();
    world.run("name: x\nnodes: [{id: a, run: 'true'}]\n").expect(0);
    let runs = world.home().join("runs");
    fs::rename(runs.join("r1"), runs.join(".gone-r1")).unwrap();
    let (report, ended) = gc_json(&world, &[]);
    ended.expect(0);
    assert_eq!(report["leftovers"][0]["removed"], true);
    assert!(!Path::new(&runs.join(".gone-r1")).exists());
    assert_eq!(world.omg(&["runs", "--json"]).expect(0).stdout.trim(), "[]");
}

/// Ends a detached run when the test is over, also where it fails.
struct Cancelled<'a>(&'a World);

impl Drop for Cancelled<'_> {
    fn drop(&mut self) {
        let _ = self.0.command(env!("CARGO_BIN_EXE_omg")).args(["cancel", "r1"]).output();
    }
}

#[test]
fn a_detached_run_between_two_runners_lives() {
    let world = World::new();
    let go = world.path().join("go");
    let graph = world.graph(&format!(
        "name: x\nnodes: [{{id: a, worktree: l, run: 'echo begins >> ../ran; while ! test -e {}; do sleep 0.05; done'}}]\n",
        go.display()
    ));
    world.omg(&["run", &graph, "--run-id", "r1", "--detach"]).expect(0);
    let _run = Cancelled(&world);
    world.wait_started("a");
    let holder = fs::read_to_string(world.run_dir().join("run.lock")).unwrap();
    let runner = holder.split_whitespace().next().and_then(|pid| pid.parse().ok()).unwrap();
    let runner = rustix::process::Pid::from_raw(runner).unwrap();
    rustix::process::kill_process(runner, Signal::KILL).unwrap();
    world.wait_for("a new runner", || {
        let (report, ended) = gc_json(&world, &["--older-than", "0s"]);
        assert_eq!((ended.code, run_of(&report, "r1")["outcome"].as_str()), (Some(0), Some("held")));
        world.events_named("restart.performed").len() == 2
    });
    fs::write(go, "").unwrap();
    world.omg(&["watch", "r1"]).expect(0);
    assert_eq!(fs::read_to_string(world.run_dir().join("worktrees/ran")).unwrap(), "begins\n");
    assert!(!world.events().iter().any(|event| event["reason"] == "gc"));
}

#[test]
fn what_a_node_left_that_the_next_leg_takes_for_passed_stays() {
    let mut world = World::with(&[("a.txt", "one\n"), (".gitignore", "*.bin\n")]);
    let graph = world.graph(
        "name: g\nnodes:\n- {id: a, worktree: l, run: 'echo hi > out.bin'}\n\
         - {id: b, worktree: l, depends_on: [a], run: 'cat out.bin'}\n",
    );
    let mark = world.path().join("struck");
    world.extra.push(("FAILPOINT".into(), format!("ExitRecorded@1@{}@both", mark.display()).into()));
    world.omg(&["run", &graph, "--run-id", "r1"]);
    assert!(mark.exists());
    world.omg(&["gc"]).expect(0);
    world.omg(&["resume", "r1"]).expect(0);
    assert_eq!(world.result("b"), "hi");
}

#[test]
fn files_that_it_has_just_saved_do_not_go_with_the_folder() {
    let world = World::with(&[("a.txt", "one\n"), (".gitignore", "*.bin\n")]);
    world.run("name: g\nnodes: [{id: a, worktree: l, run: 'echo hi > out.bin; echo x > dirty'}]\n").expect(0);
    let words = ["gc", "r1", "--older-than", "0s"];
    let told = world.omg(&words).expect(0).text();
    let saved = world.run_dir().join("rescued/l/out.bin");
    assert_eq!(fs::read_to_string(saved).unwrap(), "hi\n", "{told}");
    assert!(told.contains("just now"), "{told}");
    world.omg(&words).expect(0);
    assert!(!exists(&world, "r1"));
}
