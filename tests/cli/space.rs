//! Small disks: a file system of its own, in a mount namespace, for the home of runs.

use std::process::Command;

use crate::support::{Ended, World};

/// Returns whether this machine lets us have a file system of our own.
fn may_mount() -> bool {
    let may = Command::new("unshare")
        .args(["-rm", "sh", "-c", "mount -t tmpfs tmpfs /mnt"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !may {
        let told = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"skipped: no mount namespace is to be had here\n",
        );
        told.unwrap();
    }
    may
}

/// Runs `script` where the home of runs is a file system of this size; `$omg` is the program, `$graph` the graph, and
/// `bigger` gives it room.
fn on_a_disk(world: &World, options: &str, graph: &str, script: &str) -> Ended {
    std::fs::create_dir(world.home()).unwrap();
    let graph = world.graph(graph);
    let head = format!(
        "omg={}; graph={graph}; mount -t tmpfs -o {options} tmpfs {home} || exit 99\n\
         bigger() {{ mount -o remount,size=500m,nr_inodes=50000 {home}; }}\n",
        env!("CARGO_BIN_EXE_omg"),
        home = world.home().display(),
    );
    let mut command = world.command("timeout");
    command.args(["--kill-after=5", "120", "unshare", "-rm", "sh", "-c", &format!("{head}{script}")]);
    command.output().unwrap().into()
}

const LANES: &str = "name: g\nnodes:\n- {id: a, worktree: l, run: 'echo a > f; git add f; git commit -qm f'}\n\
    - {id: b, worktree: m, run: 'echo b > f; git add f; git commit -qm f'}\n";

#[test]
fn where_not_even_one_lane_fits_nothing_is_half_made_and_a_resume_finishes() {
    if !may_mount() {
        return;
    }
    for options in ["size=2m", "size=400m,nr_inodes=200"] {
        let world = World::new();
        let script = "$omg run $graph --run-id r1; echo \"code $?\"; git branch --list 'omg/*'; git worktree list | wc -l\n\
            ls $OMG_HOME/runs/r1; bigger; $omg resume r1; echo \"code $?\"; git branch --list 'omg/*'";
        let ended = on_a_disk(&world, options, LANES, script).expect(0);
        let (before, after) =
            ended.stdout.split_once("run.json").unwrap_or_else(|| panic!("{}", ended.text()));
        assert!(ended.stderr.contains("disk-full: too little space for even one lane"), "{}", ended.stderr);
        assert!(ended.stderr.contains("needed by lane l (a), lane m (b)"), "{}", ended.stderr);
        assert!(ended.stderr.contains("then `omg resume r1`"), "{}", ended.stderr);
        assert_eq!(before, "code 3\n1\n", "{options}");
        assert!(
            after.contains("code 0") && after.contains("omg/r1/l") && after.contains("omg/r1/m"),
            "{after}"
        );
    }
}

#[test]
fn a_disk_that_fills_blocks_whom_it_concerns_and_a_resume_finishes() {
    if !may_mount() {
        return;
    }
    let nodes: String = (0..100).map(|at| format!("- {{id: n{at}, run: 'echo {at} >> ran'}}\n")).collect();
    let graph = format!("name: g\non_fail: continue\nnodes:\n{nodes}");
    let world = World::bare();
    let script = "$omg run $graph --run-id r1 > first 2>&1; echo \"code $?\"; bigger; $omg resume r1 > second 2>&1; \
        echo \"code $?\"; $omg show r1 --json > shown";
    let ended = on_a_disk(&world, "size=400m,nr_inodes=200", &graph, script).expect(0);
    assert_eq!(ended.stdout, "code 3\ncode 0\n", "{}", ended.stderr);
    let first = std::fs::read_to_string(world.repo().join("first")).unwrap();
    assert!(first.contains("disk-full"), "{first}");
    let ran = std::fs::read_to_string(world.repo().join("ran")).unwrap();
    let mut lines: Vec<&str> = ran.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 100);
}

#[test]
fn a_journal_that_can_not_be_written_stops_the_leg_and_a_resume_goes_on() {
    if !may_mount() {
        return;
    }
    let world = World::bare();
    let graph = "name: g\non_fail: continue\nnodes:\n\
        - {id: a, run: '[ -e filled ] || { touch filled; head -c 100m /dev/zero > $OMG_HOME/fill; }; echo a >> ran'}\n\
        - {id: b, run: 'echo b >> ran', depends_on: [{id: a, on: finished}]}\n";
    let script = "$omg run $graph --run-id r1 > first 2>&1; echo \"code $?\"; rm $OMG_HOME/fill; \
        $omg resume r1 > second 2>&1; echo \"code $?\"";
    let ended = on_a_disk(&world, "size=2m", graph, script).expect(0);
    let read = |name: &str| std::fs::read_to_string(world.repo().join(name)).unwrap_or_default();
    assert!(ended.stdout.starts_with("code 3\n"), "{} {}", ended.stdout, read("first"));
    assert!(
        read("first").contains("disk-full") || read("first").contains("No space left"),
        "{}",
        read("first")
    );
    assert_eq!(ended.stdout, "code 3\ncode 0\n", "{}", read("second"));
    assert!(read("ran").ends_with("b\n"), "{}", read("ran"));
}

#[test]
fn as_many_lanes_stand_as_fit_and_one_that_is_done_makes_place() {
    if !may_mount() {
        return;
    }
    // A tree of 60 MiB; what is left to logs and the journal is 64 MiB.
    let world = World::new();
    world.shell("head -c 60m /dev/urandom > big; git add big; git commit -qm big");
    let nodes: String = (0..4)
        .map(|at| format!("- {{id: n{at}, worktree: l{at}, run: 'ls big; echo {at} > f; git add f; git commit -qm f'}}\n"))
        .collect();
    let graph = format!("name: g\nprovision: none\nnodes:\n{nodes}");
    let script = "$omg run $graph --run-id r1 -j 4 > first 2>&1; echo \"code $?\"; cp $OMG_HOME/runs/r1/events.jsonl journal; \
        git branch --list 'omg/*' | wc -l";
    let ended = on_a_disk(&world, "size=200m", &graph, script).expect(0);
    let first = std::fs::read_to_string(world.repo().join("first")).unwrap();
    assert_eq!(ended.stdout, "code 0\n4\n", "{first}");
    assert!(first.contains("space for 2 of 4 lanes at once"), "{first}");
    let journal = std::fs::read_to_string(world.repo().join("journal")).unwrap();
    let early =
        journal.lines().filter(|line| line.contains("cleanup.requested") && line.contains("\"space\""));
    assert!(early.count() >= 2, "{journal}");
}

#[test]
fn a_lane_that_does_not_fit_beside_what_is_kept_free_is_not_begun() {
    if !may_mount() {
        return;
    }
    let world = World::new();
    world.shell("head -c 60m /dev/urandom > big; git add big; git commit -qm big");
    // Dirty lanes stay, so that none makes place.
    let nodes: String =
        (0..3).map(|at| format!("- {{id: n{at}, worktree: l{at}, run: 'echo {at} > f'}}\n")).collect();
    let graph = format!("name: g\nprovision: none\non_fail: continue\nnodes:\n{nodes}");
    let script = "$omg run $graph --run-id r1 > first 2>&1; echo \"code $?\"; ls $OMG_HOME/runs/r1/worktrees; \
        bigger; $omg resume r1 > second 2>&1; echo \"code $?\"";
    let ended = on_a_disk(&world, "size=200m", &graph, script).expect(0);
    let first = std::fs::read_to_string(world.repo().join("first")).unwrap();
    assert_eq!(ended.stdout, "code 3\nl0\nl1\ncode 0\n", "{first}");
    assert!(first.contains("n2: blocked: disk-full: lane `l2` needs 61 MiB"), "{first}");
}
