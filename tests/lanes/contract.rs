//! What holds of the real thing and of the fake, and what only the real one can be asked.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use omg::ids::LaneName;
use omg::worktree::fake::FakeWorktrees;
use omg::worktree::lane::{LaneHistory, LaneRequest};
use omg::worktree::{
    AcquireClass, AcquireFault, How, NotInLanes, RefusingWorktrees, Repository, WorktreeError, Worktrees,
};

use crate::support::{KEPT, MADE, NEW, World, listing};

fn keeps_the_contract(worktrees: &dyn Worktrees, world: &World) {
    let repository = worktrees.discover(&world.repo).unwrap();
    assert_eq!(worktrees.resolve(&repository, "main").unwrap(), world.base());
    let unknown = worktrees.resolve(&repository, "no-such").unwrap_err();
    assert!(matches!(&unknown, WorktreeError::UnknownBase { revision, .. } if revision == "no-such"));
    let request = world.lane("api", NEW);
    assert!(worktrees.preflight(&repository, std::slice::from_ref(&request)).unwrap().is_empty());
    let made = worktrees.acquire(&repository, &request).unwrap();
    assert_eq!((made.how, made.branch_made), (How::Created, true));
    assert_eq!((&made.path, &made.head), (&request.path, &Some(world.base())));
    let again = worktrees.acquire(&repository, &world.lane("api", MADE)).unwrap();
    assert_eq!((again.how, again.git_dir), (How::Reused, made.git_dir));
    worktrees.release(&repository, &request).unwrap();
    worktrees.release(&repository, &request).unwrap();
    worktrees.release(&repository, &world.lane("never", NEW)).unwrap();
    assert!(worktrees.footprint(&repository, &world.base()).unwrap().inodes > 0);
    assert!(worktrees.room(&world.lanes).unwrap().bytes > 0);
}

#[test]
fn real_and_fake_keep_one_contract() {
    let world = World::new();
    keeps_the_contract(&world.worktrees(), &world);
    let git_dir = world.repo.join(".git");
    let mut fake = FakeWorktrees::default();
    fake.repository = Some(Repository {
        top: Some(world.repo.clone()),
        git_dir: git_dir.clone(),
        common_dir: git_dir,
        bare: false,
    });
    fake.revisions = BTreeMap::from([("main".to_string(), world.base())]);
    keeps_the_contract(&fake, &world);
    assert_eq!(fake.calls(), ["acquire api", "acquire api", "release api", "release api", "release never"]);
    assert_eq!(fake.locked(&world.lanes.join("api")), Some(false));
    let fault = AcquireFault { class: AcquireClass::DiskFull, detail: "full".into(), hint: "room".into() };
    fake.fail(&LaneName::from("b"), vec![fault.clone()]);
    let repository = fake.discover(Path::new("/")).unwrap();
    assert_eq!(fake.acquire(&repository, &world.lane("b", NEW)), Err(fault));
    assert!(fake.acquire(&repository, &world.lane("b", NEW)).is_ok());
}

#[test]
fn what_was_not_provided_refuses() {
    let world = World::new();
    let repository = world.repository();
    let request = world.lane("api", NEW);
    let fault = RefusingWorktrees.acquire(&repository, &request).unwrap_err();
    assert_eq!(fault.class, AcquireClass::Bug);
    let error = RefusingWorktrees.discover(&world.repo).unwrap_err();
    assert_eq!(error, WorktreeError::Refused { call: "Worktrees::discover" });
}

#[test]
fn a_repository_is_found_from_everywhere_in_it() {
    let world = World::new();
    let lane = world.acquire("api", NEW).unwrap();
    let worktrees = world.worktrees();
    let main = world.repository();
    assert_eq!(main.top.as_ref(), Some(&world.repo));
    assert_eq!(worktrees.discover(&world.repo.join("src")).unwrap(), main);
    let inside = worktrees.discover(&lane.path.join("src")).unwrap();
    assert_eq!((inside.top, inside.common_dir), (Some(lane.path), main.common_dir.clone()));
    // Started from a hook of another repository, as GIT_DIR says; the scrub makes it nothing.
    let mut hook = world.environment();
    hook.set("GIT_DIR", "/nowhere");
    hook.set("GIT_INDEX_FILE", "/nowhere/index");
    let started_by_hook = omg::worktree::GitWorktrees::new(&hook);
    assert_eq!(started_by_hook.discover(&world.repo).unwrap(), main);
    let b = world.lane("b", NEW);
    started_by_hook.acquire(&main, &b).unwrap();
    world.assert_clean(&b.path);
}

#[test]
fn the_ways_not_to_find_one_are_told_apart() {
    let world = World::empty();
    let worktrees = world.worktrees();
    let nowhere = worktrees.discover(&world.repo).unwrap_err();
    assert_eq!(nowhere, WorktreeError::NotARepository { from: world.repo.clone() });
    world.git(&world.repo, &["init", "-q"]);
    let unborn = worktrees.discover(&world.repo).unwrap_err();
    assert_eq!(unborn, WorktreeError::NoCommit { at: world.repo.clone() });
    world.git(&world.repo, &["commit", "-q", "--allow-empty", "-m", "x"]);
    assert!(worktrees.discover(&world.repo).is_ok());
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for file in [world.repo.clone(), world.repo.join(".git")] {
        std::os::unix::fs::chown(file, Some(4242), Some(4242)).unwrap();
    }
    let unsafe_one = worktrees.discover(&world.repo).unwrap_err();
    match &unsafe_one {
        WorktreeError::Unsafe { words, .. } => assert!(words.contains("safe.directory"), "{words}"),
        other => panic!("{other:?}"),
    }
    assert!(unsafe_one.hint().contains("safe.directory"));
}

#[test]
fn revisions_become_commits() {
    let world = World::new();
    world.git(&world.repo, &["tag", "-a", "v1", "-m", "annotated"]);
    let (worktrees, repository) = (world.worktrees(), world.repository());
    for revision in ["HEAD", "main", "v1", "refs/tags/v1", world.base().short()] {
        assert_eq!(worktrees.resolve(&repository, revision).unwrap(), world.base(), "{revision}");
    }
    for revision in ["", "-h", "--all", "v2", "HEAD:b.txt", "HEAD~9"] {
        let error = worktrees.resolve(&repository, revision).unwrap_err();
        assert!(matches!(error, WorktreeError::UnknownBase { .. }), "{revision}: {error:?}");
    }
}

#[test]
fn a_dirty_checkout_is_counted() {
    let world = World::new();
    let (worktrees, repository) = (world.worktrees(), world.repository());
    assert_eq!(worktrees.not_in_lanes(&repository).unwrap(), None);
    fs::write(world.repo.join("b.txt"), "changed").unwrap();
    fs::create_dir(world.repo.join("new")).unwrap();
    fs::write(world.repo.join("new/1"), "").unwrap();
    fs::write(world.repo.join("new/2"), "").unwrap();
    fs::write(world.repo.join("ignored.log"), "").unwrap();
    let found = worktrees.not_in_lanes(&repository).unwrap();
    assert_eq!(found, Some(NotInLanes { modified: 1, untracked: 2 }));
}

#[test]
fn a_checkout_is_measured_before_it_is_made() {
    let world = World::new();
    fs::write(world.repo.join("big"), vec![7; 5000]).unwrap();
    world.git(&world.repo, &["add", "big"]);
    world.git(&world.repo, &["commit", "-q", "-m", "big"]);
    let footprint = world.worktrees().footprint(&world.repository(), &world.base()).unwrap();
    assert!(footprint.exact);
    // Four files, one folder; the big file takes two blocks.
    assert_eq!((footprint.inodes, footprint.bytes), (5, 6 * 4096 + 4 * 89));
    let room = world.worktrees().room(&world.lanes.join("not/yet/there")).unwrap();
    assert!(room.bytes > 0 && room.inodes > 0);
}

#[test]
fn preflight_names_what_is_in_the_way_and_makes_nothing() {
    let world = World::new();
    world.git(&world.repo, &["branch", "omg"]);
    let lanes = [world.lane("a", NEW), world.lane("b", NEW)];
    let before = fs::read_dir(world.repo.join(".git")).unwrap().count();
    let found = world.worktrees().preflight(&world.repository(), &lanes).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].lanes, [LaneName::from("a"), LaneName::from("b")]);
    assert!(found[0].message.contains("`omg`") && found[0].hint.contains("git branch -m omg"));
    assert_eq!(fs::read_dir(world.repo.join(".git")).unwrap().count(), before);
    assert!(!world.lanes.exists());
    world.git(&world.repo, &["branch", "-m", "omg", "omg/r1/a/deep"]);
    let found = world.worktrees().preflight(&world.repository(), &lanes).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].lanes, [LaneName::from("a")]);
    assert!(found[0].message.contains("omg/r1/a/deep"), "{found:?}");
    world.git(&world.repo, &["branch", "omg/r1/b"]);
    let place = world.root.path().join("user's own");
    world.git(&world.repo, &["worktree", "add", "-q", place.to_str().unwrap(), "omg/r1/b"]);
    let found = world.worktrees().preflight(&world.repository(), &[world.lane("b", MADE)]).unwrap();
    assert!(found[0].message.contains("user's own"), "{found:?}");
    let inside = LaneRequest { path: world.repo.join("lanes/c"), ..world.lane("c", NEW) };
    let found = world.worktrees().preflight(&world.repository(), &[inside]).unwrap();
    assert!(found[0].message.contains("is inside the checkout"), "{found:?}");
    assert!(!world.lanes.exists());
}

#[test]
fn what_concerns_one_lane_alone_is_left_to_its_acquire_which_refuses_it() {
    type Put = fn(&World, &Path);
    let (refused, gone) = (AcquireClass::LaneRefused, AcquireClass::LaneBranchGone);
    let ways: [(AcquireClass, &str, LaneHistory, Put); 5] = [
        (refused, "did not make it", NEW, |world, _| {
            world.git(&world.repo, &["branch", "omg/r1/b"]);
        }),
        (gone, "is gone", KEPT, |_, _| {}),
        (refused, "no acquire of this run made", NEW, |_, path| {
            fs::create_dir_all(path).unwrap();
            fs::write(path.join("precious"), "x").unwrap();
        }),
        (refused, "symbolic link", NEW, |world, path| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(world.root.path().join("home"), path).unwrap();
        }),
        (refused, "not by this lane", KEPT, |world, path| {
            world.git(&world.repo, &["worktree", "add", "-q", path.to_str().unwrap(), "-b", "foo"]);
        }),
    ];
    for (class, words, history, put) in ways {
        let world = World::new();
        let (worktrees, repository, lane) = (world.worktrees(), world.repository(), world.lane("b", history));
        put(&world, &lane.path);
        let before = (world.branches(), world.entries(), listing(&lane.path));
        assert_eq!(worktrees.preflight(&repository, std::slice::from_ref(&lane)).unwrap(), [], "{words}");
        let fault = worktrees.acquire(&repository, &lane).unwrap_err();
        assert_eq!(fault.class, class, "{fault}");
        assert!(fault.detail.contains(words) && fault.detail.contains("`b`"), "{fault}");
        assert!(!fault.hint.is_empty());
        assert_eq!((world.branches(), world.entries(), listing(&lane.path)), before, "{words}");
        // The other lanes of the leg go on.
        assert_eq!(world.acquire("a", NEW).unwrap().how, How::Created);
    }
}
