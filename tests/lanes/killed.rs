//! The states that a killed acquire leaves, made by hand (git.md section 5, 120 kills), and what the
//! next acquire makes of them.

use std::fs;
use std::path::PathBuf;

use omg::worktree::{AcquireClass, How};

use crate::support::{NEW, OPEN, World};

/// A lane as git leaves it right after `worktree add --no-checkout --lock`.
fn registered(world: &World) -> (PathBuf, PathBuf) {
    let path = world.lanes.join("api");
    let words =
        ["worktree", "add", "-q", "--no-checkout", "--lock", "--reason", "omg run r1", "-b", "omg/r1/api"];
    world.git(&world.repo, &[&words[..], &[path.to_str().unwrap()]].concat());
    (path, world.repo.join(".git/worktrees/api"))
}

#[track_caller]
fn check(world: &World, how: How) {
    let lane = world.acquire("api", OPEN).unwrap();
    assert_eq!(lane.how, how);
    world.assert_clean(&lane.path);
    assert_eq!(world.entries(), ["api"]);
    assert_eq!(world.locked("api").as_deref(), Some("omg run r1"));
    assert_eq!(world.acquire("api", OPEN).unwrap().how, How::Reused);
}

#[test]
fn nothing_happened() {
    check(&World::new(), How::Created);
}

#[test]
fn branch_only() {
    let world = World::new();
    world.git(&world.repo, &["branch", "omg/r1/api"]);
    check(&world, How::Reattached);
}

#[test]
fn branch_only_with_our_mark_is_known_as_made_by_this_run() {
    let world = World::new();
    let (base, none) = (world.base().to_string(), "0".repeat(40));
    let mark = "omg: lane api of run r1";
    let words = ["update-ref", "--create-reflog", "-m", mark, "refs/heads/omg/r1/api", &base, &none];
    world.git(&world.repo, &words);
    let lane = world.acquire("api", NEW).unwrap();
    assert_eq!((lane.how, lane.branch_made), (How::Reattached, true));
}

#[test]
fn no_head_yet() {
    let world = World::new();
    let (_, entry) = registered(&world);
    fs::remove_file(entry.join("HEAD")).unwrap();
    fs::write(entry.join("HEAD.lock"), "").unwrap();
    check(&world, How::Reattached);
}

#[test]
fn an_empty_commondir_which_makes_git_fail_everywhere() {
    let world = World::new();
    let (_, entry) = registered(&world);
    fs::write(entry.join("commondir"), "").unwrap();
    assert!(!world.try_git(&world.repo, &["worktree", "list"]).0);
    check(&world, How::Reattached);
}

#[test]
fn registered_and_no_file_written() {
    let world = World::new();
    registered(&world);
    check(&world, How::Finished);
}

#[test]
fn locked_as_initializing_by_git_itself() {
    let world = World::new();
    let (_, entry) = registered(&world);
    fs::write(entry.join("locked"), "initializing").unwrap();
    check(&world, How::Finished);
}

#[test]
fn an_index_lock_and_some_files_one_of_them_torn() {
    let world = World::new();
    let (path, entry) = registered(&world);
    fs::write(entry.join("index.lock"), "").unwrap();
    fs::write(path.join("b.txt"), "b\n").unwrap();
    fs::create_dir(path.join("src")).unwrap();
    fs::write(path.join("src/a.txt"), "a first l").unwrap();
    check(&world, How::Finished);
}

#[test]
fn every_file_and_a_lock() {
    let world = World::new();
    let (path, _) = registered(&world);
    world.git(&path, &["reset", "-q", "--hard"]);
    check(&world, How::Finished);
}

#[test]
fn complete_but_for_the_receipt() {
    let world = World::new();
    let (path, entry) = registered(&world);
    world.git(&path, &["reset", "-q", "--hard"]);
    fs::remove_file(entry.join("locked")).unwrap();
    check(&world, How::Finished);
}

#[test]
fn an_entry_before_it_named_its_worktree() {
    let world = World::new();
    let entry = world.repo.join(".git/worktrees/api");
    fs::create_dir_all(&entry).unwrap();
    fs::write(entry.join("locked"), "omg run r1").unwrap();
    check(&world, How::Created);
}

#[test]
fn an_entry_whose_folder_was_never_made() {
    let world = World::new();
    let (path, _) = registered(&world);
    fs::remove_dir_all(&path).unwrap();
    check(&world, How::Reattached);
}

#[test]
fn a_file_of_somebodys_stops_it_and_stays() {
    for (name, text) in [("notes.txt", "mine"), ("b.txt", "another b"), ("x.log", "ignored, and mine")] {
        let world = World::new();
        let (path, _) = registered(&world);
        fs::write(path.join(name), text).unwrap();
        let fault = world.acquire("api", OPEN).unwrap_err();
        assert_eq!(fault.class, AcquireClass::LaneRefused);
        assert!(fault.detail.contains(name), "{fault}");
        assert_eq!(fs::read_to_string(path.join(name)).unwrap(), text);
    }
}

#[test]
fn a_dead_runs_half_made_sibling_keeps_nobody_else_waiting() {
    let world = World::new();
    registered(&world);
    let other = world.acquire("other", NEW).unwrap();
    assert_eq!(other.how, How::Created);
    assert_eq!(world.entries(), ["api", "other"]);
}
