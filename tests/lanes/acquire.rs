//! One test a row of DESIGN's acquire table, and what git lets through or refuses around it.

use std::fs;
use std::path::Path;
use std::sync::Barrier;

use omg::worktree::lane::LaneHistory;
use omg::worktree::{AcquireClass, How, Worktrees};

use crate::support::{KEPT, MADE, NEW, OPEN, World, listing};

#[test]
fn absent_is_created_at_base_and_locked() {
    let world = World::new();
    let made = world.acquire("api", NEW).unwrap();
    assert_eq!((made.how, made.branch_made, made.head), (How::Created, true, Some(world.base())));
    assert_eq!(made.git_dir, world.repo.join(".git/worktrees/api"));
    world.assert_clean(&made.path);
    assert_eq!(world.git(&made.path, &["symbolic-ref", "HEAD"]), "refs/heads/omg/r1/api");
    assert_eq!(world.locked("api").as_deref(), Some("omg run r1"));
    assert!(!world.git(&world.repo, &["config", "--list", "--local"]).contains("branch."));
}

#[test]
fn an_empty_folder_is_taken() {
    let world = World::new();
    fs::create_dir_all(world.lanes.join("api")).unwrap();
    assert_eq!(world.acquire("api", NEW).unwrap().how, How::Created);
    world.assert_clean(&world.lanes.join("api"));
}

#[test]
fn a_branch_of_this_run_is_reattached_whatever_its_tip() {
    let world = World::new();
    world.git(&world.repo, &["checkout", "-q", "-b", "omg/r1/api"]);
    world.git(&world.repo, &["commit", "-q", "--allow-empty", "-m", "work"]);
    let tip = world.git(&world.repo, &["rev-parse", "HEAD"]);
    world.git(&world.repo, &["checkout", "-q", "main"]);
    let lane = world.acquire("api", MADE).unwrap();
    assert_eq!((lane.how, lane.branch_made), (How::Reattached, true));
    assert_eq!(lane.head.unwrap().as_str(), tip);
    world.assert_clean(&lane.path);
}

#[test]
fn a_folder_deleted_by_hand_is_reattached_and_loses_no_commit() {
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    let other = world.acquire("other", NEW).unwrap();
    fs::remove_dir_all(&other.path).unwrap();
    world.git(&lane.path, &["checkout", "-q", "--detach"]);
    world.git(&lane.path, &["commit", "-q", "--allow-empty", "-m", "detached work"]);
    let lost = world.git(&lane.path, &["rev-parse", "HEAD"]);
    fs::write(lane.path.join("staged.txt"), "staged only\n").unwrap();
    world.git(&lane.path, &["add", "staged.txt"]);
    fs::remove_dir_all(&lane.path).unwrap();

    let again = world.acquire("api", MADE).unwrap();
    assert_eq!(again.how, How::Reattached);
    world.assert_clean(&again.path);
    let rescued = "refs/omg/rescued/r1/api";
    world.git(&world.repo, &["merge-base", "--is-ancestor", &lost, rescued]);
    let tree = format!("{rescued}^{{tree}}");
    let everything = world.git(&world.repo, &["log", "--format=%H", "--name-only", rescued]);
    assert!(everything.contains("staged.txt"), "{everything} {tree}");
    // The other registration is not this acquire's to touch.
    assert_eq!(world.entries(), ["api", "other"]);
}

#[test]
fn a_whole_lane_is_reused_as_it_is() {
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    world.git(&lane.path, &["checkout", "-q", "-b", "elsewhere"]);
    fs::write(lane.path.join("b.txt"), "edited\n").unwrap();
    fs::write(lane.path.join("new.txt"), "untracked\n").unwrap();
    let again = world.acquire("api", MADE).unwrap();
    assert_eq!(again.how, How::Reused);
    assert_eq!(world.git(&again.path, &["symbolic-ref", "--short", "HEAD"]), "elsewhere");
    assert_eq!(world.git(&again.path, &["status", "--porcelain"]), " M b.txt\n?? new.txt");
}

#[test]
fn a_lane_released_and_taken_up_is_locked_again() {
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    let (worktrees, repository, request) = (world.worktrees(), world.repository(), world.lane("api", MADE));
    for _ in 0..2 {
        worktrees.release(&repository, &request).unwrap();
        assert_eq!(world.locked("api"), None);
    }
    world.acquire("api", KEPT).unwrap();
    assert_eq!(world.locked("api").as_deref(), Some("omg run r1"));
    world.git(&world.repo, &["worktree", "unlock", lane.path.to_str().unwrap()]);
    world.git(&world.repo, &["worktree", "lock", "--reason", "mine", lane.path.to_str().unwrap()]);
    worktrees.release(&repository, &request).unwrap();
    assert_eq!(world.locked("api").as_deref(), Some("mine"));
}

#[test]
fn a_kept_branch_that_is_gone_stays_gone() {
    let world = World::new();
    let fault = world.acquire("api", KEPT).unwrap_err();
    assert_eq!(fault.class, AcquireClass::LaneBranchGone);
    assert!(fault.detail.contains("omg/r1/api") && fault.hint.contains("git branch omg/r1/api"));
    assert_eq!(world.branches(), ["main"]);
}

#[test]
fn a_branch_of_somebody_else_is_refused_and_named() {
    let world = World::new();
    world.git(&world.repo, &["branch", "omg/r1/api"]);
    let fault = world.acquire("api", NEW).unwrap_err();
    assert_eq!(fault.class, AcquireClass::LaneRefused);
    assert!(fault.detail.contains("`omg/r1/api`"), "{fault}");
    assert_eq!(world.entries(), Vec::<String>::new());
}

#[test]
fn what_is_in_the_way_is_refused_named_and_left() {
    type Put = fn(&World, &Path);
    let ways: [(&str, Put); 5] = [
        ("not a folder", |_, path| fs::write(path, "file").unwrap()),
        ("no acquire of this run made", |_, path| {
            fs::create_dir(path).unwrap();
            fs::write(path.join("precious"), "x").unwrap();
        }),
        ("symbolic link", |world, path| std::os::unix::fs::symlink(&world.repo, path).unwrap()),
        ("another repository", |world, path| {
            fs::create_dir(path).unwrap();
            world.git(path, &["init", "-q"]);
        }),
        ("not by this lane", |world, path| {
            world.git(&world.repo, &["worktree", "add", "-q", "--detach", path.to_str().unwrap()]);
        }),
    ];
    for (words, put) in ways {
        let world = World::new();
        fs::create_dir_all(&world.lanes).unwrap();
        let path = world.lanes.join("api");
        put(&world, &path);
        let fault = world.acquire("api", NEW).unwrap_err();
        assert_eq!(fault.class, AcquireClass::LaneRefused, "{words}");
        assert!(fault.detail.contains(words) && fault.detail.contains(path.to_str().unwrap()), "{fault}");
        assert!(path.symlink_metadata().is_ok());
        assert_eq!(world.branches(), ["main"], "{words}");
    }
}

#[test]
fn a_place_inside_a_checkout_or_a_git_folder_is_refused() {
    let world = World::new();
    for inside in [world.repo.join("sub/api"), world.repo.join(".git/omg/api")] {
        let mut request = world.lane("api", NEW);
        request.path = inside;
        let fault = world.worktrees().acquire(&world.repository(), &request).unwrap_err();
        assert_eq!(fault.class, AcquireClass::LaneRefused);
        assert!(fault.detail.contains("is inside the"), "{fault}");
        let obstacles = world.worktrees().preflight(&world.repository(), &[request]).unwrap();
        assert_eq!(obstacles.len(), 1);
    }
    assert!(!world.repo.join("sub").exists());
}

#[test]
fn the_hook_fires_as_for_a_plain_worktree_add() {
    let world = World::new();
    let log = world.root.path().join("hook log");
    world.hook(
        "post-checkout",
        &format!("echo \"$* $(pwd -P) ${{GIT_DIR-unset}} ${{GIT_INDEX_FILE-unset}}\" >> '{}'", log.display()),
    );
    let plain = world.lanes.join("plain");
    world.git(&world.repo, &["worktree", "add", "-q", "-b", "plain", plain.to_str().unwrap()]);
    let lane = world.acquire("api", NEW).unwrap();
    let said = fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    let as_plain = lines[0].replace(plain.to_str().unwrap(), lane.path.to_str().unwrap());
    assert_eq!(lines[1], as_plain);
    assert!(as_plain.ends_with(" unset unset"), "{as_plain}");
    assert!(lines[1].starts_with(&format!("{} {} 1 ", "0".repeat(40), world.base())));
}

#[test]
fn a_relative_hooks_path_is_the_callers_as_for_a_plain_worktree_add() {
    let world = World::new();
    let log = world.root.path().join("log");
    let hooks = world.repo.join("my hooks");
    world.git(&world.repo, &["config", "core.hooksPath", "my hooks"]);
    world.hook("post-checkout", &format!("echo ran >> '{}'", log.display()));
    fs::rename(world.repo.join(".git/hooks"), hooks).unwrap();
    world.git(&world.repo, &["worktree", "add", "-q", "-b", "p", world.lanes.join("p").to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&log).unwrap(), "ran\n");
    world.acquire("api", NEW).unwrap();
    assert_eq!(fs::read_to_string(&log).unwrap(), "ran\nran\n");
}

#[test]
fn a_failing_hook_fails_the_acquire_in_its_own_words_and_the_next_goes_on() {
    let world = World::new();
    world.hook("post-checkout", "echo 'the licence server is down' >&2; exit 7");
    let fault = world.acquire("api", NEW).unwrap_err();
    assert_eq!(fault.class, AcquireClass::AcquireFailed);
    assert!(
        fault.detail.contains("the licence server is down")
            && fault.detail.contains("`git hook post-checkout` ended with status 7"),
        "{fault}"
    );
    world.hook("post-checkout", "exit 0");
    let lane = world.acquire("api", NEW).unwrap();
    assert_eq!((lane.how, lane.branch_made), (How::Finished, true));
    world.assert_clean(&lane.path);
}

#[test]
fn a_checkout_that_fails_leaves_nothing_behind() {
    let world = World::new();
    fs::write(world.repo.join(".gitattributes"), "*.txt filter=f\n").unwrap();
    world.git(&world.repo, &["add", "."]);
    world.git(&world.repo, &["commit", "-q", "-m", "filtered"]);
    world.git(&world.repo, &["config", "filter.f.smudge", "echo no server >&2; exit 3"]);
    world.git(&world.repo, &["config", "filter.f.required", "true"]);
    let fault = world.acquire("api", NEW).unwrap_err();
    assert!(fault.detail.contains("smudge filter f failed"), "{fault}");
    assert_eq!(world.branches(), ["main"]);
    assert_eq!(world.entries(), Vec::<String>::new());
    assert!(!world.lanes.join("api").exists() && !world.lanes.join(".omg-gone-api").exists());
    world.git(&world.repo, &["config", "filter.f.smudge", "cat"]);
    assert_eq!(world.acquire("api", NEW).unwrap().how, How::Created);
}

#[test]
fn a_full_disk_is_told_apart_and_left_no_fuller() {
    let world = World::new();
    fs::write(world.repo.join(".gitattributes"), "*.txt filter=f\n").unwrap();
    world.git(&world.repo, &["add", "."]);
    world.git(&world.repo, &["commit", "-q", "-m", "filtered"]);
    // As a filter that downloads says it; git's own words are the same.
    world.git(&world.repo, &["config", "filter.f.smudge", "echo 'No space left on device' >&2; exit 1"]);
    world.git(&world.repo, &["config", "filter.f.required", "true"]);
    let fault = world.acquire("api", NEW).unwrap_err();
    assert_eq!(fault.class, AcquireClass::DiskFull, "{fault}");
    assert_eq!(fault.class.as_str(), "disk-full");
    assert!(!world.lanes.join("api").exists());
}

#[test]
fn a_folder_deleted_by_hand_and_its_branch_too_is_created_again_and_loses_no_commit() {
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    world.git(&lane.path, &["commit", "-q", "--allow-empty", "-m", "work"]);
    let work = world.git(&lane.path, &["rev-parse", "HEAD"]);
    world.git(&world.repo, &["update-ref", "-d", "refs/heads/omg/r1/api"]);
    fs::remove_dir_all(&lane.path).unwrap();
    assert_eq!(world.acquire("api", MADE).unwrap().how, How::Created);
    world.git(&world.repo, &["merge-base", "--is-ancestor", &work, "refs/omg/rescued/r1/api"]);
}

#[test]
fn a_bare_repository_works_and_its_lanes_keep_a_reflog() {
    let world = World::new();
    let bare = world.root.path().join("b.git");
    world.git(&world.repo, &["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    let worktrees = world.worktrees();
    let repository = worktrees.discover(&bare).unwrap();
    assert!(repository.bare && repository.top.is_none());
    let lane = worktrees.acquire(&repository, &world.lane("api", NEW)).unwrap();
    world.assert_clean(&lane.path);
    world.git(&lane.path, &["commit", "-q", "--allow-empty", "-m", "x"]);
    assert_eq!(world.git(&lane.path, &["log", "-g", "--format=%gs", "HEAD"]).lines().count(), 2);
}

#[test]
fn a_reftable_repository_works_though_git2_cannot_read_it() {
    let world = World::empty();
    if !world.try_git(&world.repo, &["init", "-q", "-b", "main", "--ref-format=reftable"]).0 {
        return; // A git before 2.45.
    }
    world.git(&world.repo, &["commit", "-q", "--allow-empty", "-m", "base"]);
    assert_eq!(world.acquire("api", NEW).unwrap().how, How::Created);
    assert_eq!(world.acquire("api", MADE).unwrap().how, How::Reused);
    world.git(&world.repo, &["branch", "omg/r1/b"]);
    let b = world.lanes.join("else");
    world.git(&world.repo, &["worktree", "add", "-q", b.to_str().unwrap(), "omg/r1/b"]);
    let fault = world.acquire("b", MADE).unwrap_err();
    assert!(fault.detail.contains(b.to_str().unwrap()), "{fault}");
}

#[test]
fn reflogs_switched_off_are_begun_all_the_same() {
    let world = World::new();
    world.git(&world.repo, &["config", "core.logAllRefUpdates", "false"]);
    let lane = world.acquire("api", NEW).unwrap();
    world.git(&lane.path, &["commit", "-q", "--allow-empty", "-m", "x"]);
    for name in ["HEAD", "omg/r1/api"] {
        assert_eq!(
            world.git(&lane.path, &["log", "-g", "--format=%gs", name]).lines().next(),
            Some("commit: x")
        );
    }
}

#[test]
fn thirty_lanes_at_once() {
    let world = World::new();
    let (repository, start) = (world.repository(), Barrier::new(30));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..30)
            .map(|number| {
                let (repository, start, world) = (&repository, &start, &world);
                scope.spawn(move || {
                    let request = world.lane(&format!("l{number}"), NEW);
                    start.wait();
                    world.worktrees().acquire(repository, &request)
                })
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap().unwrap().how, How::Created);
        }
    });
    assert_eq!(world.entries().len(), 30);
    world.assert_clean(&world.lanes.join("l29"));
}

#[test]
fn lanes_beside_plain_worktree_adds_that_take_no_lock() {
    let world = World::new();
    let (repository, start) = (world.repository(), Barrier::new(20));
    std::thread::scope(|scope| {
        let (world, repository, start) = (&world, &repository, &start);
        for number in 0..10 {
            scope.spawn(move || {
                let path = world.lanes.join(format!("plain{number}"));
                start.wait();
                // These may fail against each other, as they do without us.
                world.try_git(&world.repo, &["worktree", "add", "-q", "--detach", path.to_str().unwrap()]);
            });
        }
        let ours: Vec<_> = (0..10)
            .map(|number| {
                scope.spawn(move || {
                    let request = world.lane(&format!("l{number}"), NEW);
                    start.wait();
                    world.worktrees().acquire(repository, &request)
                })
            })
            .collect();
        for thread in ours {
            assert_eq!(thread.join().unwrap().unwrap().how, How::Created);
        }
    });
}

/// Set in the child of the next test: what it is to acquire.
const CHILD: &str = "OMG_TEST_LANES_CHILD";

#[test]
fn two_processes_on_one_repository_share_lanes() {
    let world = World::new();
    if let Some(roots) = std::env::var_os(CHILD) {
        let roots = roots.into_string().unwrap();
        let mut parts = roots.split('\n');
        let mut child = World::empty();
        child.repo = parts.next().unwrap().into();
        child.lanes = parts.next().unwrap().into();
        for number in 0..8 {
            child.acquire(&format!("l{number}"), NEW).unwrap();
        }
        return;
    }
    let me = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new(me);
    command
        .args(["--exact", "acquire::two_processes_on_one_repository_share_lanes"])
        .env(CHILD, format!("{}\n{}", world.repo.display(), world.lanes.display()))
        .stdout(std::process::Stdio::null());
    let children: Vec<_> = (0..2).map(|_| command.spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(world.entries().len(), 8);
    assert_eq!(world.acquire("l7", OPEN).unwrap().how, How::Reused);
}

#[test]
fn a_users_worktree_in_the_place_of_a_lane_is_refused_and_left() {
    for (words, history) in [
        (vec!["-b", "foo"], KEPT),
        (vec!["-b", "foo"], LaneHistory { acquire_open: true, ..KEPT }),
        (vec!["--detach"], MADE),
    ] {
        let world = World::new();
        let request = world.lane("api", history);
        let lane = world.acquire("api", NEW).unwrap();
        world.worktrees().release(&world.repository(), &request).unwrap();
        world.git(&world.repo, &["worktree", "remove", lane.path.to_str().unwrap()]);
        let path = lane.path.to_str().unwrap();
        let mut call = vec!["worktree", "add", "-q", path];
        call.extend(&words);
        world.git(&world.repo, &call);
        fs::write(lane.path.join("b.txt"), "the user's\n").unwrap();
        let before = (listing(&lane.path), listing(&world.repo.join(".git/worktrees")));
        let fault = world.acquire("api", history).unwrap_err();
        assert_eq!(fault.class, AcquireClass::LaneRefused, "{fault}");
        assert!(fault.detail.contains("not by this lane") && fault.hint.contains("git worktree move"));
        assert_eq!((listing(&lane.path), listing(&world.repo.join(".git/worktrees"))), before);
    }
}

#[test]
fn a_lane_whose_receipt_a_node_deleted_is_known_by_what_else_bears_its_name() {
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    let receipt = lane.git_dir.join("omg-lane.json");
    // By the lock; then, as a kept lane has none, by its branch; then by its own HEAD's reflog.
    fs::remove_file(&receipt).unwrap();
    assert_eq!(world.acquire("api", MADE).unwrap().how, How::Reused);
    world.worktrees().release(&world.repository(), &world.lane("api", MADE)).unwrap();
    fs::remove_file(&receipt).unwrap();
    assert_eq!(world.acquire("api", KEPT).unwrap().how, How::Reused);
    world.worktrees().release(&world.repository(), &world.lane("api", MADE)).unwrap();
    fs::remove_file(&receipt).unwrap();
    world.git(&lane.path, &["checkout", "-q", "-b", "the-nodes-own"]);
    assert_eq!(world.acquire("api", KEPT).unwrap().how, How::Reused);
}

#[test]
fn a_deletion_is_not_undone_where_a_node_deleted_the_receipt_too() {
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    fs::remove_file(lane.git_dir.join("omg-lane.json")).unwrap();
    fs::remove_file(lane.path.join("b.txt")).unwrap();
    assert_eq!(world.acquire("api", LaneHistory { acquire_open: true, ..MADE }).unwrap().how, How::Reused);
    assert!(!lane.path.join("b.txt").exists());
}
