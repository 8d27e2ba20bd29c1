//! One test a row of DESIGN's cleanup table; races, kills and everything that must stay untouched.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use omg::cleanup::fake::FakeSweeper;
use omg::cleanup::{BranchFate, GitSweeper, Policy, RefusingSweeper, Sweeper, TreeFate};

use crate::support::{KEPT, MADE, NEW, RESCUED, World, listing, value};
use omg::worktree::How;

#[test]
fn nothing_done_leaves_nothing_and_says_nothing() {
    let world = World::new();
    let lane = world.swept();
    let refs = world.git(&world.repo, &["for-each-ref"]);
    let outcome = lane.assert_removed(BranchFate::Deleted, "clean");
    assert_eq!(outcome.note, None);
    assert!(outcome.channels.iter().all(|(_, value)| value == "none"), "{outcome:?}");
    assert_eq!(world.branches(), ["main"]);
    assert!(!world.has(RESCUED) && !world.rescued().exists());
    assert_ne!(world.git(&world.repo, &["for-each-ref"]), refs);
    assert_eq!(lane.sweep(), outcome);
}

#[test]
fn a_commit_keeps_the_branch_and_not_the_tree() {
    let world = World::new();
    let lane = world.swept();
    lane.git(&["commit", "-q", "--allow-empty", "-m", "work"]);
    let tip = lane.git(&["rev-parse", "HEAD"]);
    let outcome = lane.assert_removed(BranchFate::Kept, "tip-moved");
    assert!(outcome.note.unwrap().contains("omg/r1/api"));
    assert_eq!(world.git(&world.repo, &["rev-parse", "omg/r1/api"]), tip);
    assert!(!world.has(RESCUED));
    // Kept by that leg: the next one takes it up, or says that it is gone.
    assert_eq!(world.acquire("api", KEPT).unwrap().how, How::Reattached);
}

#[test]
fn a_branch_moved_back_is_kept() {
    let world = World::new();
    world.git(&world.repo, &["commit", "-q", "--allow-empty", "-m", "second"]);
    let lane = world.swept();
    lane.git(&["reset", "-q", "--hard", "HEAD~1"]);
    lane.assert_removed(BranchFate::Kept, "tip-moved");
}

#[test]
fn a_branch_that_cannot_be_deleted_now_is_deleted_by_the_next_sweep() {
    let world = World::new();
    let lane = world.swept();
    let lock = world.repo.join(".git/refs/heads/omg/r1/api.lock");
    // A git that is at it, as far as can be seen: it has its lock file open.
    let mut other = std::process::Command::new("sh")
        .args(["-c", "exec 3>\"$0\"; read line", lock.to_str().unwrap()])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    while !lock.exists() {
        std::thread::yield_now();
    }
    let outcome = lane.assert_removed(BranchFate::Kept, "unfinished");
    assert!(outcome.note.unwrap().contains("api.lock"));
    drop(other.stdin.take());
    other.wait().unwrap();
    // Now it is what a killed git left.
    lane.assert_removed(BranchFate::Deleted, "clean");
    assert!(!lock.exists());
}

#[test]
fn a_merged_branch_is_kept_all_the_same() {
    let world = World::new();
    let lane = world.swept();
    lane.git(&["commit", "-q", "--allow-empty", "-m", "work"]);
    world.git(&world.repo, &["merge", "-q", "omg/r1/api"]);
    lane.assert_removed(BranchFate::Kept, "tip-moved");
}

#[test]
fn a_branch_that_this_run_did_not_make_is_never_deleted() {
    let world = World::new();
    world.git(&world.repo, &["branch", "omg/r1/api"]);
    let mut lane = world.swept_on(MADE);
    lane.request.branch_made_by_run = false;
    let outcome = lane.assert_removed(BranchFate::Kept, "branch-not-ours");
    assert!(outcome.note.is_some());
}

#[test]
fn the_mark_tells_that_the_branch_is_ours_without_the_journal() {
    let world = World::new();
    let mut lane = world.swept();
    lane.request.branch_made_by_run = false;
    lane.assert_removed(BranchFate::Deleted, "clean");
}

#[test]
fn a_branch_checked_out_elsewhere_is_kept() {
    let world = World::new();
    let lane = world.swept();
    lane.git(&["checkout", "-q", "--detach"]);
    let other = world.repo.parent().unwrap().join("other");
    world.git(&world.repo, &["worktree", "add", "-q", other.to_str().unwrap(), "omg/r1/api"]);
    let outcome = lane.sweep();
    assert_eq!((outcome.tree, outcome.branch), (TreeFate::Removed, BranchFate::Kept));
    assert_eq!(outcome.reason, "branch-in-use");
    assert_eq!(world.git(&other, &["rev-parse", "HEAD"]), world.base().as_str());
}

#[test]
fn another_branch_checked_out_is_left_and_ours_goes() {
    let world = World::new();
    let lane = world.swept();
    lane.git(&["checkout", "-q", "-b", "feature"]);
    lane.git(&["commit", "-q", "--allow-empty", "-m", "work"]);
    let outcome = lane.assert_removed(BranchFate::Deleted, "clean");
    assert!(outcome.note.as_deref().unwrap().contains("feature"), "{outcome:?}");
    assert_eq!(value(&outcome, "branches"), "kept");
    assert_eq!(world.git(&world.repo, &["log", "-1", "--format=%s", "feature"]), "work");
}

#[test]
fn a_branch_renamed_by_a_node_is_left() {
    let world = World::new();
    let lane = world.swept();
    lane.git(&["branch", "-m", "renamed"]);
    let outcome = lane.assert_removed(BranchFate::Deleted, "clean");
    assert!(outcome.note.unwrap().contains("renamed"));
    assert_eq!(world.branches(), ["main", "renamed"]);
}

#[test]
fn a_branch_deleted_under_head_keeps_the_tree() {
    let world = World::new();
    let lane = world.swept();
    lane.git(&["update-ref", "-d", "refs/heads/omg/r1/api"]);
    lane.assert_kept("uncommitted", "staged");
}

#[test]
fn ignored_files_that_a_later_node_needs_keep_the_tree() {
    let world = World::new();
    let mut lane = world.swept();
    lane.request.ignored_is_needed = true;
    lane.write("build.log", "needed");
    lane.assert_kept("ignored-needed", "ignored");
    lane.request.ignored_is_needed = false;
    lane.assert_removed(BranchFate::Deleted, "clean");
}

#[test]
fn a_lane_locked_by_somebody_else_is_kept_and_stays_locked() {
    let world = World::new();
    let lane = world.swept();
    world.git(&world.repo, &["worktree", "unlock", lane.path().to_str().unwrap()]);
    world.git(&world.repo, &["worktree", "lock", "--reason", "mine", lane.path().to_str().unwrap()]);
    lane.assert_kept("locked", "");
    assert_eq!(world.locked("api").as_deref(), Some("mine"));
}

#[test]
fn a_process_that_works_there_keeps_the_tree() {
    let world = World::new();
    let lane = world.swept();
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut by_folder = command.current_dir(lane.path().join("src")).spawn().unwrap();
    lane.assert_kept("busy", "");
    drop(by_folder.stdin.take());
    by_folder.wait().unwrap();
    lane.write("held.log", "");
    let held = fs::File::options().append(true).open(lane.path().join("held.log")).unwrap();
    let mut by_file = Command::new("cat").stdin(Stdio::piped()).stdout(held).spawn().unwrap();
    lane.assert_kept("busy", "");
    drop(by_file.stdin.take());
    by_file.wait().unwrap();
    lane.assert_removed(BranchFate::Deleted, "clean");
}

#[test]
fn a_git_at_work_keeps_the_tree() {
    let world = World::new();
    let lane = world.swept();
    fs::write(world.repo.join(".git/worktrees/api/index.lock"), "").unwrap();
    lane.assert_kept("busy", "");
}

#[test]
fn what_cannot_be_read_is_kept() {
    // A damaged index, a folder deeper than any path can be, and no reflog.
    type Damage = fn(&World, &Path);
    let damages: [(&str, Damage); 3] = [
        ("index", |world, _| fs::write(world.repo.join(".git/worktrees/api/index"), "torn").unwrap()),
        ("could not open", |_, path| {
            let mut folder =
                rustix::fs::open(path, rustix::fs::OFlags::DIRECTORY, rustix::fs::Mode::empty()).unwrap();
            for _ in 0..30 {
                let name = "d".repeat(200);
                rustix::fs::mkdirat(&folder, &name, rustix::fs::Mode::RWXU).unwrap();
                folder = rustix::fs::openat(
                    &folder,
                    &name,
                    rustix::fs::OFlags::DIRECTORY,
                    rustix::fs::Mode::empty(),
                )
                .unwrap();
            }
        }),
        ("reflog", |world, _| fs::remove_file(world.repo.join(".git/worktrees/api/logs/HEAD")).unwrap()),
    ];
    for (words, damage) in damages {
        let world = World::new();
        let lane = world.swept();
        damage(&world, lane.path());
        let outcome = lane.sweep();
        assert_eq!((outcome.tree, outcome.reason.as_str()), (TreeFate::Kept, "unreadable"), "{words}");
        assert!(outcome.note.as_deref().unwrap().contains(words), "{outcome:?}");
        assert!(lane.path().join("b.txt").exists() && world.has("omg/r1/api"));
    }
}

#[test]
fn a_broken_git_file_does_not_make_git_answer_for_an_outer_repository() {
    let world = World::new();
    let outer = world.lanes.parent().unwrap();
    fs::create_dir_all(outer).unwrap();
    world.git(outer, &["init", "-q"]);
    fs::write(outer.join(".gitignore"), "*\n").unwrap();
    world.git(outer, &["commit", "-q", "--allow-empty", "-m", "outer"]);
    let lane = world.swept();
    lane.write("new.txt", "work");
    fs::remove_file(lane.path().join(".git")).unwrap();
    assert_eq!(world.git(lane.path(), &["status", "--porcelain"]), "");
    let outcome = lane.sweep();
    assert_eq!((outcome.tree, outcome.reason.as_str()), (TreeFate::Kept, "unreadable"), "{outcome:?}");
    assert!(lane.path().join("new.txt").exists());
}

#[test]
fn something_else_at_the_path_is_kept() {
    let world = World::new();
    let lane = world.swept();
    fs::rename(lane.path(), world.lanes.join("moved")).unwrap();
    std::os::unix::fs::symlink(&world.repo, lane.path()).unwrap();
    let outcome = lane.sweep();
    assert_eq!((outcome.tree, outcome.reason.as_str()), (TreeFate::Kept, "not-the-lane"));
    assert!(world.repo.join("b.txt").exists() && world.lanes.join("moved/b.txt").exists());
}

#[test]
fn a_folder_taken_away_by_hand_keeps_entry_and_branch() {
    let world = World::new();
    let lane = world.swept();
    let elsewhere = world.lanes.join("moved");
    fs::rename(lane.path(), &elsewhere).unwrap();
    let outcome = lane.sweep();
    assert_eq!((outcome.tree, outcome.branch), (TreeFate::Removed, BranchFate::Kept));
    assert_eq!(outcome.reason, "folder-missing");
    assert_eq!(world.entries(), ["api"]);
    world.git(&world.repo, &["worktree", "repair", elsewhere.to_str().unwrap()]);
    assert_eq!(world.git(&elsewhere, &["status", "--porcelain"]), "");
}

#[test]
fn time_over_keeps_all() {
    let world = World::new();
    let mut lane = world.swept();
    lane.request.time = Duration::ZERO;
    let outcome = lane.sweep();
    assert_eq!((outcome.tree, outcome.reason.as_str()), (TreeFate::Kept, "time-over"), "{outcome:?}");
    lane.request.time = Duration::from_secs(60);
    lane.assert_removed(BranchFate::Deleted, "clean");
}

#[test]
fn no_configuration_of_the_users_blinds_the_look() {
    let world = World::new();
    let lane = world.swept();
    for (key, value) in [
        ("status.showUntrackedFiles", "no"),
        ("status.branch", "false"),
        ("core.untrackedCache", "true"),
        ("core.fsmonitor", "/bin/true"),
        ("diff.ignoreSubmodules", "all"),
        ("core.quotePath", "true"),
    ] {
        world.git(&world.repo, &["config", "--global", key, value]);
    }
    lane.write("ünder/new.txt", "work");
    lane.assert_kept("uncommitted", "untracked");
}

#[test]
fn the_users_checkout_refs_and_configuration_stay_byte_for_byte() {
    let world = World::new();
    fs::write(world.repo.join("b.txt"), "the user's edit\n").unwrap();
    fs::write(world.repo.join("mine.log"), "ignored\n").unwrap();
    world.git(&world.repo, &["tag", "v1"]);
    let state = || {
        let files: Vec<_> = listing(&world.repo)
            .into_iter()
            .filter(|(path, _)| !path.starts_with(world.repo.join(".git/objects")))
            // What git 2.39 leaves of refs that this test deletes; the refs themselves are compared.
            .filter(|(path, _)| !path.ends_with(".git/packed-refs"))
            .filter(|(path, _)| !path.starts_with(world.repo.join(".git/logs/refs")))
            .filter(|(path, _)| !path.ends_with("omg-worktrees.lock"))
            .map(|(path, _)| (fs::read(&path).unwrap(), path))
            .collect();
        (files, world.git(&world.repo, &["for-each-ref"]))
    };
    let before = state();
    let lane = world.swept();
    lane.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    lane.git(&["reset", "-q", "--hard", "HEAD~1"]);
    lane.git(&["update-ref", "-d", "ORIG_HEAD"]);
    lane.assert_removed(BranchFate::Kept, "own-commits");
    world.git(&world.repo, &["update-ref", "-d", RESCUED]);
    world.git(&world.repo, &["branch", "-q", "-D", "omg/r1/api"]);
    let after = state();
    assert_eq!(after.1, before.1);
    let names = |state: &[(Vec<u8>, std::path::PathBuf)]| {
        state.iter().map(|(_, path)| path.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&after.0), names(&before.0));
    assert_eq!(after.0, before.0);
}

#[test]
fn a_sibling_lane_with_a_longer_name_is_not_touched() {
    let world = World::new();
    let lane = world.swept();
    let sibling = world.acquire("api2", NEW).unwrap();
    let outcome = lane.sweep();
    assert_eq!(outcome.tree, TreeFate::Removed);
    world.assert_clean(&sibling.path);
    assert_eq!(
        (world.entries(), world.branches()),
        (vec!["api2".into()], vec!["main".into(), "omg/r1/api2".into()])
    );
}

#[test]
fn killed_with_the_tree_set_aside_the_next_sweep_and_the_next_acquire_put_it_back() {
    let world = World::new();
    let lane = world.swept();
    lane.write("new.txt", "work");
    let aside = world.lanes.join(".omg-aside-api");
    fs::rename(lane.path(), &aside).unwrap();
    lane.assert_kept_after("uncommitted");
    fs::rename(lane.path(), &aside).unwrap();
    let again = world.acquire("api", MADE).unwrap();
    assert_eq!(again.how, How::Reused);
    assert_eq!(fs::read_to_string(again.path.join("new.txt")).unwrap(), "work");
}

#[test]
fn killed_amid_the_deletion_the_next_sweep_finishes() {
    let world = World::new();
    let lane = world.swept();
    let gone = world.lanes.join(".omg-gone-api");
    fs::rename(lane.path(), &gone).unwrap();
    fs::remove_file(gone.join("b.txt")).unwrap();
    fs::remove_file(gone.join(".git")).unwrap();
    lane.assert_removed(BranchFate::Deleted, "clean");
}

#[test]
fn killed_between_the_entry_and_the_branch_the_next_sweep_finishes() {
    let world = World::new();
    let lane = world.swept();
    let path = lane.path().to_str().unwrap().to_string();
    world.git(&world.repo, &["worktree", "remove", "-f", "-f", &path]);
    lane.assert_removed(BranchFate::Deleted, "clean");
}

#[test]
fn killed_amid_the_deletion_the_next_acquire_makes_the_lane_anew() {
    let world = World::new();
    let lane = world.swept();
    let gone = world.lanes.join(".omg-gone-api");
    fs::rename(lane.path(), &gone).unwrap();
    assert_eq!(world.acquire("api", MADE).unwrap().how, How::Reattached);
    world.assert_clean(lane.path());
    lane.assert_removed(BranchFate::Deleted, "clean");
}

#[test]
fn a_lane_that_was_never_handed_out_goes() {
    let world = World::new();
    world.hook("post-checkout", "exit 1");
    assert!(world.acquire("api", NEW).is_err());
    fs::remove_file(world.repo.join(".git/hooks/post-checkout")).unwrap();
    let receipt = world.repo.join(".git/worktrees/api/omg-lane.json");
    let text = fs::read_to_string(&receipt).unwrap().replace("checked-out", "creating");
    fs::write(&receipt, text).unwrap();
    fs::remove_file(world.lanes.join("api/b.txt")).unwrap();
    fs::write(world.repo.join(".git/worktrees/api/index.lock"), "").unwrap();
    let lane = world.request_only();
    lane.assert_removed(BranchFate::Deleted, "clean");
}

#[test]
fn folders_that_forbid_writing_are_deleted() {
    let world = World::new();
    let lane = world.swept();
    lane.write("node_modules/m/x", "");
    let folder = lane.path().join("node_modules/m");
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
    lane.assert_removed(BranchFate::Deleted, "clean");
}

#[test]
fn a_bare_repository_is_swept_too() {
    let world = World::new();
    let bare = world.root.path().join("b.git");
    world.git(&world.repo, &["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let lane = world.request_only();
    let repository = omg::worktree::Worktrees::discover(&world.worktrees(), &bare).unwrap();
    omg::worktree::Worktrees::acquire(&world.worktrees(), &repository, &world.lane("api", NEW)).unwrap();
    let outcome = GitSweeper::new(&world.environment()).sweep(&repository, &lane.request);
    assert_eq!((outcome.tree, outcome.branch), (TreeFate::Removed, BranchFate::Deleted), "{outcome:?}");
}

#[test]
fn real_and_fake_keep_one_contract_and_what_was_not_provided_keeps() {
    let world = World::new();
    let lane = world.swept();
    let repository = world.repository();
    let fake = FakeSweeper::default();
    let sweepers: [&dyn Sweeper; 2] = [&GitSweeper::new(&world.environment()), &fake];
    for sweeper in sweepers {
        let first = sweeper.sweep(&repository, &lane.request);
        assert_eq!((first.tree, first.branch, &first.note), (TreeFate::Removed, BranchFate::Deleted, &None));
        assert_eq!(sweeper.sweep(&repository, &lane.request), first);
    }
    assert_eq!(fake.requests().len(), 2);
    let refused = RefusingSweeper.sweep(&repository, &lane.request);
    assert_eq!((refused.tree, refused.reason.as_str()), (TreeFate::Kept, "refused"));
}

#[test]
fn a_users_worktree_in_the_place_of_a_lane_is_left() {
    for policy in [Policy::Safe, Policy::Discard] {
        let world = World::new();
        let mut lane = world.swept();
        lane.request.policy = policy;
        let path = lane.path().to_str().unwrap();
        world.git(&world.repo, &["worktree", "remove", "-f", "-f", path]);
        world.git(&world.repo, &["worktree", "add", "-q", path, "-b", "foo"]);
        lane.assert_kept("not-the-lane", "");
        assert!(world.has("refs/heads/foo"));
    }
}
