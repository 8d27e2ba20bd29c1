//! `cleanup: discard`: a dirty tree goes, and all that it held can be had again.

use std::fs;

use omg::cleanup::{BranchFate, Policy, TreeFate};
use omg::process::environment::Environment;

use crate::support::{RESCUED, Swept, World, value};

fn discarded(world: &World) -> Swept<'_> {
    let mut lane = world.swept();
    lane.request.policy = Policy::Discard;
    lane
}

#[test]
fn every_channel_is_saved() {
    let world = World::new();
    let lane = discarded(&world);
    lane.write("b.txt", "staged\n");
    lane.git(&["add", "b.txt"]);
    lane.write("b.txt", "then edited\n");
    lane.write("nëw dir/new.txt", "untracked\n");
    lane.write("x.log", "ignored\n");
    lane.git(&["update-index", "--assume-unchanged", "src/a.txt"]);
    lane.write("src/a.txt", "a hidden edit\n");
    let nest = lane.path().join("nest");
    fs::create_dir(&nest).unwrap();
    world.git(&nest, &["init", "-q"]);
    world.git(&nest, &["commit", "-q", "--allow-empty", "-m", "inner"]);
    let inner = world.git(&nest, &["rev-parse", "HEAD"]);

    let outcome = lane.assert_removed(BranchFate::Deleted, "clean");
    let show = |what: &str| world.git(&world.repo, &["show", what]);
    assert_eq!(show(&format!("{RESCUED}:b.txt")), "then edited");
    assert_eq!(show(&format!("{RESCUED}^2:b.txt")), "staged");
    assert_eq!(show(&format!("{RESCUED}:nëw dir/new.txt")), "untracked");
    assert_eq!(show(&format!("{RESCUED}:src/a.txt")), "a hidden edit");
    assert_eq!(fs::read_to_string(world.rescued().join("x.log")).unwrap(), "ignored\n");
    assert_eq!(world.git(&world.rescued().join("nest"), &["rev-parse", "HEAD"]), inner);
    for channel in ["tracked", "staged", "untracked", "flagged"] {
        assert_eq!(value(&outcome, channel), format!("saved: {RESCUED}"));
    }
    for channel in ["ignored", "nested"] {
        assert_eq!(value(&outcome, channel), format!("saved: {}", world.rescued().display()));
    }
    assert!(outcome.note.unwrap().contains(RESCUED));
}

#[test]
fn no_identity_is_needed_and_no_hook_or_signature_is_asked() {
    let world = World::new();
    let lane = discarded(&world);
    lane.write("b.txt", "edited\n");
    world.git(&world.repo, &["config", "commit.gpgSign", "true"]);
    world.git(&world.repo, &["config", "user.useConfigOnly", "true"]);
    let mut nobody: Environment = world.environment();
    nobody.set("GIT_CONFIG_GLOBAL", "/dev/null");
    let outcome = lane.sweep_as(&nobody);
    assert_eq!(outcome.tree, TreeFate::Removed, "{outcome:?}");
    assert_eq!(
        world.git(&world.repo, &["log", "-1", "--format=%an %s", RESCUED]),
        "omg omg: rescued, uncommitted"
    );
}

#[test]
fn both_sides_of_a_conflict_are_saved() {
    let world = World::new();
    let lane = discarded(&world);
    lane.git(&["checkout", "-q", "--detach"]);
    lane.write("b.txt", "theirs\n");
    lane.git(&["commit", "-q", "-a", "-m", "theirs"]);
    let theirs = lane.git(&["rev-parse", "HEAD"]);
    lane.git(&["checkout", "-q", "omg/r1/api"]);
    lane.write("b.txt", "ours\n");
    lane.git(&["commit", "-q", "-a", "-m", "ours"]);
    assert!(!world.try_git(lane.path(), &["merge", "-q", &theirs]).0);
    let outcome = lane.assert_removed(BranchFate::Kept, "own-commits");
    world.assert_rescued(&theirs);
    assert_eq!(value(&outcome, "operation"), format!("saved: {RESCUED}"));
    let merged = world.git(&world.repo, &["log", "--format=%H", "--all", "--", "b.txt"]);
    let held = merged
        .lines()
        .any(|commit| world.git(&world.repo, &["show", &format!("{commit}:b.txt")]).contains("<<<<<<<"));
    assert!(held, "the half-merged file is in no commit");
}

#[test]
fn a_rebase_is_saved_with_where_it_began() {
    let world = World::new();
    let lane = discarded(&world);
    lane.git(&["commit", "-q", "--allow-empty", "-m", "one"]);
    lane.git(&["commit", "-q", "--allow-empty", "-m", "two"]);
    let began = lane.git(&["rev-parse", "HEAD"]);
    let editor = "sequence.editor=sed -i s/^pick/edit/";
    lane.git(&["-c", editor, "rebase", "-q", "-i", "--keep-empty", "HEAD~2"]);
    lane.git(&["commit", "-q", "--amend", "--allow-empty", "-m", "one, amended"]);
    let amended = lane.git(&["rev-parse", "HEAD"]);
    lane.assert_removed(BranchFate::Kept, "own-commits");
    world.assert_rescued(&amended);
    world.git(&world.repo, &["merge-base", "--is-ancestor", &began, "omg/r1/api"]);
}

#[test]
fn what_cannot_be_written_keeps_the_tree_whole() {
    let world = World::new();
    fs::write(world.repo.join(".gitattributes"), "*.bin filter=f\n").unwrap();
    world.git(&world.repo, &["add", "."]);
    world.git(&world.repo, &["commit", "-q", "-m", "filtered"]);
    let lane = discarded(&world);
    lane.write("x.bin", "content");
    lane.write("x.log", "ignored");
    world.git(&world.repo, &["config", "filter.f.clean", "exit 3"]);
    world.git(&world.repo, &["config", "filter.f.required", "true"]);
    lane.assert_kept("rescue-failed", "untracked");
    assert!(lane.path().join("x.log").exists());
}

#[test]
fn a_worktree_of_another_repository_inside_is_not_torn_off() {
    let world = World::new();
    let lane = discarded(&world);
    let inside = lane.path().join("inside");
    world.git(&world.repo, &["worktree", "add", "-q", "-b", "inner", inside.to_str().unwrap()]);
    let outcome = lane.assert_kept("rescue-failed", "nested");
    assert!(outcome.note.unwrap().contains("inside"));
    assert_eq!(world.git(&inside, &["symbolic-ref", "--short", "HEAD"]), "inner");
}

#[test]
fn a_process_at_work_is_not_discarded() {
    let world = World::new();
    let lane = discarded(&world);
    lane.write("b.txt", "edited\n");
    let mut command = std::process::Command::new("cat");
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let mut child = command.current_dir(lane.path()).spawn().unwrap();
    lane.assert_kept("busy", "tracked");
    drop(child.stdin.take());
    child.wait().unwrap();
    lane.assert_removed(BranchFate::Deleted, "clean");
}

/// Edits a tracked file to the same size in the very second in which it was checked out, and returns a
/// second later, when an index written anew would look newer than the file.
fn racy(world: &World, edit: impl Fn(&Swept<'_>)) -> bool {
    use std::os::unix::fs::MetadataExt;
    let lane = world.request_only();
    world.acquire("api", crate::support::NEW).unwrap();
    edit(&lane);
    let index = fs::metadata(world.repo.join(".git/worktrees/api/index")).unwrap().mtime();
    let edited = fs::metadata(lane.path().join("b.txt")).unwrap().ctime();
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
    while now() <= edited {
        std::thread::yield_now();
    }
    index == edited
}

#[test]
fn an_edit_in_the_second_of_the_checkout_is_saved() {
    for flag in [None, Some("--assume-unchanged"), Some("--skip-worktree")] {
        let world = (0..20)
            .map(|_| World::new())
            .find(|world| {
                racy(world, |lane| {
                    if let Some(flag) = flag {
                        lane.git(&["update-index", flag, "b.txt"]);
                    }
                    lane.write("b.txt", "B\n");
                })
            })
            .expect("no edit fell into the second of its checkout");
        let mut lane = world.request_only();
        let channel = if flag.is_some() { "flagged" } else { "tracked" };
        lane.assert_kept(if flag.is_some() { "hidden-edits" } else { "uncommitted" }, channel);
        lane.request.policy = Policy::Discard;
        let outcome = lane.assert_removed(BranchFate::Deleted, "clean");
        assert_eq!(value(&outcome, channel), format!("saved: {RESCUED}"), "{flag:?}");
        assert_eq!(world.git(&world.repo, &["show", &format!("{RESCUED}:b.txt")]), "B", "{flag:?}");
    }
}

#[test]
fn what_the_users_configuration_hides_is_saved() {
    for (setting, value) in
        [("core.trustctime", "false"), ("core.checkStat", "minimal"), ("core.ignoreStat", "true")]
    {
        let world = World::new();
        let lane = discarded(&world);
        world.git(&world.repo, &["config", setting, value]);
        let file = lane.path().join("b.txt");
        let before = fs::metadata(&file).unwrap().modified().unwrap();
        lane.write("b.txt", "B\n");
        fs::File::options().append(true).open(&file).unwrap().set_modified(before).unwrap();
        let outcome = lane.assert_removed(BranchFate::Deleted, "clean");
        assert_eq!(crate::support::value(&outcome, "tracked"), format!("saved: {RESCUED}"), "{setting}");
        assert_eq!(world.git(&world.repo, &["show", &format!("{RESCUED}:b.txt")]), "B", "{setting}");
    }
}

#[test]
fn files_in_the_folder_of_an_empty_submodule_are_saved() {
    let world = World::new();
    let zero = world.base().to_string();
    world.git(&world.repo, &["update-index", "--add", "--cacheinfo", &format!("160000,{zero},sub")]);
    world.git(&world.repo, &["commit", "-q", "-m", "a submodule"]);
    let lane = discarded(&world);
    lane.write("sub/notes.txt", "work\n");
    lane.write("b.txt", "edited\n");
    let outcome = lane.assert_removed(BranchFate::Deleted, "clean");
    assert_eq!(fs::read_to_string(world.rescued().join("sub/notes.txt")).unwrap(), "work\n");
    assert_eq!(value(&outcome, "untracked"), format!("saved: {}", world.rescued().display()));
}

#[test]
fn a_rescue_that_reaches_no_ref_keeps_the_tree() {
    let world = World::new();
    let lane = discarded(&world);
    lane.write("b.txt", "edited\n");
    // Refs are paths to git: below this one none can be a commit.
    world.git(&world.repo, &["update-ref", &format!("{RESCUED}/deep"), "main"]);
    lane.assert_kept("rescue-failed", "tracked");
}

#[test]
fn a_repository_inside_alone_needs_no_commit() {
    let world = World::new();
    let lane = discarded(&world);
    let nest = lane.path().join("nest");
    fs::create_dir(&nest).unwrap();
    world.git(&nest, &["init", "-q"]);
    world.git(&nest, &["commit", "-q", "--allow-empty", "-m", "inner"]);
    let outcome = lane.assert_removed(BranchFate::Deleted, "clean");
    assert!(world.rescued().join("nest/.git/HEAD").exists());
    assert_eq!(value(&outcome, "nested"), format!("saved: {}", world.rescued().display()));
    assert_eq!((value(&outcome, "untracked"), world.has(RESCUED)), ("none", false));
}
