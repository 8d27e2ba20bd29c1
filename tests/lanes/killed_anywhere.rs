//! The process is killed before and after every git command that changes something; then the next
//! acquire or sweep must go on, and nothing may be lost.
//!
//! A `git` of ours stands first on the PATH of a child process. It counts what changes a repository,
//! and kills its parent at the chosen one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use omg::cleanup::{GitSweeper, Policy, Sweeper, TreeFate};
use omg::process::environment::Environment;
use omg::worktree::{How, Worktrees};

use crate::support::{NEW, OPEN, World};

const CHILD: &str = "OMG_TEST_KILLED_ANYWHERE";

/// Kills its parent at call number `$at`, `before` or `after` doing what it was asked.
const SHIM: &str = r#"#!/bin/sh
dir=$(dirname "$0")
case " $* " in
*" update-ref "*|*" worktree add "*|*" worktree lock "*|*" worktree unlock "*|*" worktree remove "*) ;;
*" read-tree "*|*" commit-tree "*|*" write-tree "*|*" add --all "*) ;;
*) exec "$(cat "$dir/real")" "$@" ;;
esac
count=$(($(cat "$dir/count") + 1))
echo $count > "$dir/count"
if [ $count = "$(cat "$dir/at")" ]; then
    if [ "$(cat "$dir/when")" = after ]; then "$(cat "$dir/real")" "$@"; fi
    kill -9 $PPID
    exit 1
fi
exec "$(cat "$dir/real")" "$@"
"#;

fn real_git() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).map(|folder| folder.join("git")).find(|git| git.is_file()).unwrap()
}

/// Runs `what` in a child on `world`, killed at change number `at`; returns whether it was killed.
fn killed(world: &World, test: &str, what: &str, at: u32, when: &str) -> bool {
    let shim = world.repo.parent().unwrap().join("shim");
    fs::create_dir_all(&shim).unwrap();
    fs::write(shim.join("git"), SHIM).unwrap();
    fs::set_permissions(shim.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(shim.join("real"), real_git().to_str().unwrap()).unwrap();
    fs::write(shim.join("count"), "0").unwrap();
    fs::write(shim.join("at"), at.to_string()).unwrap();
    fs::write(shim.join("when"), when).unwrap();
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(CHILD, format!("{what}\n{}\n{}", world.repo.display(), world.lanes.display()))
        // Its own folder outlives a kill; so it lies in ours.
        .env("TMPDIR", world.root.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success() || status.signal() == Some(9), "{what} failed at {at} {when}");
    !status.success()
}

/// In the child: does what it is told, and returns true. Elsewhere: false.
fn is_child() -> bool {
    let Some(told) = std::env::var_os(CHILD) else { return false };
    let told = told.into_string().unwrap();
    let mut parts = told.split('\n');
    let what = parts.next().unwrap();
    let mut world = World::empty();
    let own = std::mem::replace(&mut world.repo, parts.next().unwrap().into());
    world.lanes = parts.next().unwrap().into();
    drop(own);
    let mut environment: Environment = world.environment();
    let shim = world.repo.parent().unwrap().join("shim");
    let path = format!("{}:{}", shim.display(), environment.text("PATH").unwrap());
    environment.set("PATH", path);
    let repository = world.repository();
    match what {
        "acquire" => {
            let worktrees = omg::worktree::GitWorktrees::new(&environment);
            worktrees.acquire(&repository, &world.lane("api", NEW)).unwrap();
        }
        _ => {
            let mut request = world.request_only().request;
            request.policy = Policy::Discard;
            GitSweeper::new(&environment).sweep(&repository, &request);
        }
    }
    true
}

#[test]
fn an_acquire_goes_on_from_every_kill() {
    if is_child() {
        return;
    }
    let test = "killed_anywhere::an_acquire_goes_on_from_every_kill";
    let mut kills = 0;
    for when in ["before", "after"] {
        for at in 1.. {
            let world = World::new();
            let was_killed = killed(&world, test, "acquire", at, when);
            let lane = world.acquire("api", OPEN).unwrap();
            world.assert_clean(&lane.path);
            assert_eq!(world.entries(), ["api"], "{when} {at}");
            assert_eq!(world.locked("api").as_deref(), Some("omg run r1"));
            assert!(lane.branch_made, "{when} {at}: {:?}", lane.how);
            if !was_killed {
                assert_eq!(lane.how, How::Reused);
                break;
            }
            kills += 1;
        }
    }
    // Branch, registration, reflog, files.
    assert!(kills >= 8, "{kills}");
}

#[test]
fn a_sweep_goes_on_from_every_kill_and_nothing_is_lost() {
    if is_child() {
        return;
    }
    let test = "killed_anywhere::a_sweep_goes_on_from_every_kill_and_nothing_is_lost";
    // A discard does all that a safe sweep does, and more.
    for when in ["before", "after"] {
        for at in 1.. {
            let world = World::new();
            let mut lane = world.swept();
            lane.request.policy = Policy::Discard;
            lane.git(&["checkout", "-q", "--detach"]);
            lane.git(&["commit", "-q", "--allow-empty", "-m", "detached"]);
            let detached = lane.git(&["rev-parse", "HEAD"]);
            lane.git(&["checkout", "-q", "omg/r1/api"]);
            lane.write("mine.log", "ignored");
            lane.write("new.txt", "work");
            let was_killed = killed(&world, test, "discard", at, when);
            assert_nothing_lost(&world, &detached, &format!("{when} {at}"));
            let outcome = lane.sweep();
            assert_eq!(outcome.tree, TreeFate::Removed, "{when} {at}: {outcome:?}");
            assert_nothing_lost(&world, &detached, &format!("after {when} {at}"));
            assert_eq!(world.entries(), Vec::<String>::new());
            assert!(!lane.path().exists());
            if !was_killed {
                // Pin, two trees and a commit, pin, entry at least.
                assert!(at > 6, "{at}");
                break;
            }
        }
    }
}

#[track_caller]
fn assert_nothing_lost(world: &World, detached: &str, at: &str) {
    let places = [world.lanes.join("api"), world.lanes.join(".omg-aside-api"), world.rescued()];
    let somewhere = |name: &str| places.iter().any(|place| Path::new(place).join(name).exists());
    assert!(somewhere("mine.log"), "{at}: the ignored file");
    let in_lane = world.try_git(&world.repo, &["--git-dir=.git/worktrees/api", "reflog", "-1"]).0;
    let rescued =
        world.try_git(&world.repo, &["merge-base", "--is-ancestor", detached, crate::support::RESCUED]).0;
    assert!(in_lane || rescued, "{at}: the detached commit");
    let listed = world.git(&world.repo, &["log", "--all", "--format=", "--name-only"]);
    assert!(somewhere("new.txt") || listed.contains("new.txt"), "{at}: the untracked file");
}
