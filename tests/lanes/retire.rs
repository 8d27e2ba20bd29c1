//! A lane that begins anew: its old tree is set aside whole, or nothing at all is touched.

use std::fs;
use std::path::{Path, PathBuf};

use omg::cleanup::{GitSweeper, Sweeper};
use omg::worktree::lane::LaneHistory;
use omg::worktree::{AcquireClass, AcquireFault, How, Worktrees};

use crate::support::{KEPT, MADE, NEW, World, listing};

fn retire(world: &World, anew: bool) -> Result<Option<PathBuf>, AcquireFault> {
    retire_as(world, anew, MADE)
}

fn retire_as(world: &World, anew: bool, history: LaneHistory) -> Result<Option<PathBuf>, AcquireFault> {
    let (repository, look) = (world.repository(), world.request_only().request);
    let sweeper = GitSweeper::new(&world.environment());
    let holds_work = || sweeper.holds_work(&repository, &look);
    world.worktrees().retire(&repository, &world.lane("api", history), anew, &holds_work)
}

fn again(world: &World) -> How {
    world.acquire("api", MADE.anew()).unwrap().how
}

/// Files with their sizes, and words of git.
type All = ([Vec<(PathBuf, u64)>; 2], [String; 2]);

/// All that a retire could touch: the lane, its neighbours, the refs, the entries.
fn all(world: &World) -> All {
    let mut lanes = listing(&world.lanes);
    lanes.retain(|(path, _)| !path.ends_with(".omg-lock-api"));
    let words = |words: &[&str]| world.git(&world.repo, words);
    let entries = listing(&world.repo.join(".git/worktrees"));
    ([lanes, entries], [words(&["for-each-ref"]), words(&["symbolic-ref", "HEAD"])])
}

#[track_caller]
fn assert_refused(world: &World, anew: bool, history: LaneHistory, words: &str) {
    let before = all(world);
    let fault = retire_as(world, anew, history).unwrap_err();
    assert_eq!(fault.class, AcquireClass::LaneRefused, "{fault}");
    assert!(fault.detail.contains(words), "{fault} does not say {words}");
    assert_eq!(all(world), before);
}

#[track_caller]
fn assert_old(world: &World, tree: &Path, head: &str) {
    assert_eq!(world.git(tree, &["rev-parse", "--show-toplevel"]), tree.to_str().unwrap());
    assert_eq!(world.git(tree, &["rev-parse", "HEAD"]), head);
    assert!(!world.try_git(tree, &["symbolic-ref", "HEAD"]).0, "HEAD is not detached");
    let listed = world.git(&world.repo, &["worktree", "list", "--porcelain"]);
    let own = listed.split("\n\n").find(|block| block.contains(tree.to_str().unwrap())).expect(&listed);
    assert!(!own.contains("locked") && !own.contains("prunable"), "{own}");
}

#[test]
fn at_base_the_branch_goes_and_the_tree_is_set_aside_with_all_it_holds() {
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    fs::write(lane.path.join("b.txt"), "edited\n").unwrap();
    fs::write(lane.path.join("x.log"), "ignored\n").unwrap();
    let before = listing(&lane.path).len();
    let old = retire(&world, true).unwrap().unwrap();
    assert_eq!(old, world.lanes.join("api.old-1"));
    assert_eq!(listing(&old).len(), before);
    assert_eq!(fs::read_to_string(old.join("b.txt")).unwrap(), "edited\n");
    assert_old(&world, &old, world.base().as_str());
    assert_eq!(world.branches(), ["main"]);
    assert_eq!(retire(&world, true).unwrap(), None);
    assert_eq!(again(&world), How::Created);
    world.assert_clean(&lane.path);
    assert_eq!(retire(&world, true).unwrap().unwrap(), world.lanes.join("api.old-2"));
}

#[test]
fn past_base_the_branch_is_renamed_and_what_its_reflog_holds_is_kept() {
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    world.git(&lane.path, &["commit", "-q", "--allow-empty", "-m", "dropped"]);
    let dropped = world.git(&lane.path, &["rev-parse", "HEAD"]);
    world.git(&lane.path, &["commit", "-q", "--amend", "--allow-empty", "-m", "work"]);
    let work = world.git(&lane.path, &["rev-parse", "HEAD"]);
    let old = retire(&world, true).unwrap().unwrap();
    assert_old(&world, &old, &work);
    assert_eq!(world.git(&world.repo, &["rev-parse", "omg/r1/api.old-1"]), work);
    assert_eq!(world.branches(), ["main", "omg/r1/api.old-1"]);
    world.assert_rescued(&dropped);
    assert_eq!(again(&world), How::Created);
}

#[test]
fn where_the_branch_stays_only_a_tree_without_work_goes() {
    type Put = fn(&World, &Path);
    let kept: [Put; 7] = [
        |_, lane| fs::write(lane.join("new.txt"), "work").unwrap(),
        |_, lane| fs::write(lane.join("x.log"), "ignored").unwrap(),
        |world, lane| {
            world.git(lane, &["update-index", "--assume-unchanged", "b.txt"]);
            fs::write(lane.join("b.txt"), "hidden\n").unwrap();
        },
        |world, lane| {
            world.git(lane, &["bisect", "start"]);
        },
        |world, lane| {
            fs::create_dir_all(lane.join("out/nest")).unwrap();
            world.git(&lane.join("out/nest"), &["init", "-q"]);
        },
        |world, lane| {
            world.git(lane, &["checkout", "-q", "--detach"]);
            world.git(lane, &["commit", "-q", "--allow-empty", "-m", "beside the branch"]);
        },
        |world, lane| {
            world.git(lane, &["checkout", "-q", "-b", "other"]);
            world.git(&world.repo, &["branch", "-D", "omg/r1/api"]);
        },
    ];
    for put in kept {
        let world = World::new();
        let lane = world.acquire("api", NEW).unwrap();
        put(&world, &lane.path);
        let before = all(&world);
        assert_eq!(retire(&world, false).unwrap(), None);
        assert_eq!(all(&world), before);
        assert_eq!(world.acquire("api", MADE).unwrap().how, How::Reused);
    }
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    fs::write(lane.path.join("b.txt"), "committed\n").unwrap();
    world.git(&lane.path, &["commit", "-q", "-a", "-m", "work"]);
    fs::create_dir(lane.path.join("node_modules")).unwrap();
    fs::write(lane.path.join("node_modules/half"), "").unwrap();
    let work = world.git(&lane.path, &["rev-parse", "HEAD"]);
    let old = retire(&world, false).unwrap().unwrap();
    assert_old(&world, &old, &work);
    let lane = world.acquire("api", MADE).unwrap();
    assert_eq!((lane.how, lane.head.unwrap().as_str()), (How::Reattached, work.as_str()));
}

#[test]
fn what_is_not_the_lane_is_refused_and_left() {
    type Put = fn(&World, &Path);
    let ways: [(&str, Put); 5] = [
        ("symbolic link", |world, path| {
            let there = world.lanes.join("elsewhere");
            fs::rename(path, &there).unwrap();
            std::os::unix::fs::symlink(there, path).unwrap();
        }),
        ("not by this lane", |world, path| {
            world.git(&world.repo, &["worktree", "remove", "-f", "-f", path.to_str().unwrap()]);
            world.git(&world.repo, &["worktree", "add", "-q", path.to_str().unwrap(), "-b", "foo"]);
        }),
        ("another repository", |world, path| {
            world.git(&world.repo, &["worktree", "remove", "-f", "-f", path.to_str().unwrap()]);
            fs::create_dir(path).unwrap();
            world.git(path, &["init", "-q"]);
        }),
        ("no acquire of this run made", |world, path| {
            world.git(&world.repo, &["worktree", "remove", "-f", "-f", path.to_str().unwrap()]);
            fs::create_dir(path).unwrap();
            fs::write(path.join("precious"), "x").unwrap();
        }),
        ("locked by somebody else", |world, path| {
            world.git(&world.repo, &["worktree", "unlock", path.to_str().unwrap()]);
            world.git(&world.repo, &["worktree", "lock", "--reason", "mine", path.to_str().unwrap()]);
        }),
    ];
    for (words, put) in ways {
        for anew in [true, false] {
            let world = World::new();
            let lane = world.acquire("api", NEW).unwrap();
            put(&world, &lane.path);
            assert_refused(&world, anew, KEPT, words);
        }
    }
}

#[test]
fn a_branch_checked_out_elsewhere_is_refused_before_anything_moves() {
    for anew in [true, false] {
        for away in [true, false] {
            let world = World::new();
            let lane = world.acquire("api", NEW).unwrap();
            world.git(&lane.path, &["checkout", "-q", "--detach"]);
            world.git(&world.repo, &["checkout", "-q", "omg/r1/api"]);
            if away {
                world.git(&world.repo, &["worktree", "remove", "-f", "-f", lane.path.to_str().unwrap()]);
            }
            assert_refused(&world, anew, MADE, "checked out at");
        }
        let world = World::new();
        let lane = world.acquire("api", NEW).unwrap();
        world.git(&lane.path, &["checkout", "-q", "--detach"]);
        let other = world.root.path().join("other");
        world.git(&world.repo, &["worktree", "add", "-q", other.to_str().unwrap(), "omg/r1/api"]);
        world.git(&other, &["commit", "-q", "--allow-empty", "-m", "x"]);
        let editor = "sequence.editor=sed -i s/^pick/edit/";
        world.git(&other, &["-c", editor, "rebase", "-q", "-i", "--keep-empty", "HEAD~1"]);
        assert!(!world.try_git(&other, &["symbolic-ref", "HEAD"]).0);
        assert_refused(&world, anew, MADE, "checked out at");
    }
}

#[test]
fn a_branch_that_this_run_did_not_make_is_refused() {
    let world = World::new();
    world.git(&world.repo, &["branch", "omg/r1/api"]);
    let open = LaneHistory { acquire_open: true, ..NEW };
    assert!(!world.acquire("api", open).unwrap().branch_made);
    assert_refused(&world, true, NEW, "did not make it");
    assert_refused(&world, true, open, "did not make it");
}

#[test]
fn an_operation_that_will_come_back_to_the_branch_is_refused() {
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    world.git(&lane.path, &["bisect", "start"]);
    assert_refused(&world, true, MADE, "bisect");
}

/// A lane whose submodule is filled, with work of its own in it and in one below.
fn with_submodules(world: &World) -> PathBuf {
    let source = |name: &str| world.repo.parent().unwrap().join(name);
    let allow = ["-c", "protocol.file.allow=always"];
    for name in ["inner", "sub"] {
        fs::create_dir(source(name)).unwrap();
        world.git(&source(name), &["init", "-q", "-b", "main"]);
        fs::write(source(name).join("f"), "f\n").unwrap();
        world.git(&source(name), &["add", "."]);
        world.git(&source(name), &["commit", "-q", "-m", name]);
    }
    let add = |to: &Path, from: &Path| {
        let words = ["submodule", "add", "-q", from.to_str().unwrap()];
        world.git(to, &[&allow[..], &words[..]].concat());
        world.git(to, &["commit", "-q", "-m", "a submodule"]);
    };
    add(&source("sub"), &source("inner"));
    add(&world.repo, &source("sub"));
    let lane = world.acquire("api", NEW).unwrap();
    let update = ["submodule", "update", "-q", "--init", "--recursive"];
    world.git(&lane.path, &[&allow[..], &update[..]].concat());
    fs::write(lane.path.join("sub/f"), "edited\n").unwrap();
    fs::write(lane.path.join("sub/inner/f"), "edited below\n").unwrap();
    lane.path
}

fn assert_submodules(world: &World, old: &Path) {
    for (path, file) in [("sub", "f"), ("sub/inner", "f")] {
        let tree = old.join(path);
        assert_eq!(world.git(&tree, &["rev-parse", "--show-toplevel"]), tree.to_str().unwrap());
        assert!(world.git(&tree, &["status", "--porcelain"]).contains(&format!("M {file}")), "{path}");
    }
}

#[test]
fn submodules_are_set_aside_too_and_know_where_they_are() {
    let world = World::new();
    let lane = with_submodules(&world);
    assert_eq!(retire(&world, false).unwrap(), None);
    assert!(lane.exists());
    let old = retire(&world, true).unwrap().unwrap();
    assert_old(&world, &old, world.base().as_str());
    assert_submodules(&world, &old);
    assert_eq!(again(&world), How::Created);
}

#[test]
fn killed_between_any_two_steps_the_next_call_goes_on() {
    // The entry names the old place; or the new one, and HEAD is on the branch still; or it is detached.
    for steps in 1..4 {
        for by_acquire in [true, false] {
            let world = World::new();
            let lane = with_submodules(&world);
            let (entry, old) = (world.repo.join(".git/worktrees/api"), world.lanes.join("api.old-1"));
            fs::write(entry.join("omg-old"), "1").unwrap();
            fs::rename(&lane, &old).unwrap();
            if steps > 1 {
                fs::write(entry.join("gitdir"), format!("{}/.git\n", old.display())).unwrap();
            }
            if steps > 2 {
                world.git(&old, &["update-ref", "--no-deref", "HEAD", world.base().as_str()]);
            }
            world.git(&world.repo, &["worktree", "prune", "--expire=now"]);
            if by_acquire {
                assert_eq!(world.acquire("api", MADE).unwrap().how, How::Reattached);
            } else {
                assert_eq!(retire(&world, true).unwrap(), Some(old.clone()));
                assert_eq!(world.branches(), ["main"]);
                assert_eq!(again(&world), How::Created);
            }
            assert_old(&world, &old, world.base().as_str());
            assert_submodules(&world, &old);
        }
    }
}

#[test]
fn killed_before_the_branch_was_given_free_it_is_named_once() {
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    world.git(&lane.path, &["commit", "-q", "--allow-empty", "-m", "work"]);
    let work = world.git(&lane.path, &["rev-parse", "HEAD"]);
    retire(&world, false).unwrap().unwrap();
    world.git(&world.repo, &["branch", "omg/r1/api.old-1", &work]);
    assert_eq!(retire(&world, true).unwrap(), None);
    assert_eq!(world.branches(), ["main", "omg/r1/api.old-1"]);
    assert_eq!(world.git(&world.repo, &["rev-parse", "omg/r1/api.old-1"]), work);
}

#[test]
fn a_copy_of_the_lane_beside_it_is_not_taken_for_its_old_tree() {
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    let copy = world.lanes.join("api.old-1");
    fs::create_dir(&copy).unwrap();
    fs::copy(lane.path.join(".git"), copy.join(".git")).unwrap();
    assert_eq!(world.acquire("api", MADE).unwrap().how, How::Reused);
    world.assert_clean(&lane.path);
    assert_eq!(retire(&world, true).unwrap(), Some(world.lanes.join("api.old-2")));
}

#[test]
fn a_branch_that_is_gone_leaves_no_head_waiting_for_the_next() {
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    world.git(&world.repo, &["update-ref", "-d", "refs/heads/omg/r1/api"]);
    let old = retire(&world, true).unwrap().unwrap();
    assert_eq!(again(&world), How::Created);
    assert_eq!(world.git(&old, &["symbolic-ref", "HEAD"]), "refs/heads/omg/r1/api.old-1");
    world.assert_clean(&lane.path);
}
