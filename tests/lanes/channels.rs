//! One test a channel through which work could be lost, and one a trick that hides it from git.

use std::fs;
use std::path::{Path, PathBuf};

use omg::cleanup::{BranchFate, GitSweeper, OverlayFile, Sweeper};

use crate::support::{RESCUED, World, value};

/// SHA-256 of `abc`.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn tracked() {
    let changes: [fn(&Path); 3] = [
        |path| fs::write(path.join("b.txt"), "edited\n").unwrap(),
        |path| fs::remove_file(path.join("b.txt")).unwrap(),
        |path| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(path.join("b.txt"), mode).unwrap();
        },
    ];
    for change in changes {
        let world = World::new();
        let lane = world.swept();
        change(lane.path());
        lane.assert_kept("uncommitted", "tracked");
    }
}

#[test]
fn tracked_a_same_size_edit_with_its_old_time_in_a_repository_told_to_look_away() {
    let world = World::new();
    let lane = world.swept();
    world.git(&world.repo, &["config", "core.checkStat", "minimal"]);
    world.git(&world.repo, &["config", "core.trustctime", "false"]);
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let age = |file: &Path| fs::File::options().append(true).open(file).unwrap().set_modified(old).unwrap();
    let (file, draft) = (lane.path().join("b.txt"), lane.path().join("draft"));
    age(&file);
    lane.git(&["update-index", "--refresh"]);
    fs::write(&draft, "X\n").unwrap();
    age(&draft);
    fs::rename(&draft, &file).unwrap();
    assert_eq!(lane.git(&["status", "--porcelain"]), "");
    lane.assert_kept("uncommitted", "tracked");
}

#[test]
fn staged() {
    let world = World::new();
    let lane = world.swept();
    lane.write("b.txt", "staged\n");
    lane.git(&["add", "b.txt"]);
    lane.assert_kept("uncommitted", "staged");
    // Put back on disk: only the index has it.
    lane.write("b.txt", "b\n");
    lane.assert_kept("uncommitted", "staged");
}

#[test]
fn untracked() {
    let world = World::new();
    let lane = world.swept();
    lane.write("new/deep.txt", "work");
    lane.assert_kept("uncommitted", "untracked");
}

#[test]
fn untracked_in_the_folder_of_a_submodule_that_was_never_filled() {
    let world = World::new();
    let base = world.base().to_string();
    world.git(&world.repo, &["update-index", "--add", "--cacheinfo", "160000", &base, "sub"]);
    world.git(&world.repo, &["commit", "-q", "-m", "gitlink"]);
    let lane = world.swept();
    lane.write("sub/hidden.txt", "work");
    assert_eq!(lane.git(&["status", "--porcelain"]), "");
    lane.assert_kept("uncommitted", "untracked");
}

#[test]
fn ignored_is_moved_and_what_can_be_rebuilt_is_not() {
    let world = World::new();
    let mut lane = world.swept();
    lane.request.rebuildable = vec![PathBuf::from("out/made")];
    lane.write("notes.log", "mine");
    lane.write("src/deep.log", "mine too");
    lane.write("out/result.bin", "an output");
    lane.write("node_modules/m/index.js", "rebuilt");
    lane.write("target/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
    lane.write("target/debug/x", "rebuilt");
    let outcome = lane.assert_removed(BranchFate::Deleted, "clean");
    let rescued = world.rescued();
    assert_eq!(value(&outcome, "ignored"), format!("saved: {}", rescued.display()));
    assert!(outcome.note.unwrap().contains(rescued.to_str().unwrap()));
    let read = |name: &str| fs::read_to_string(rescued.join(name)).unwrap();
    assert_eq!((read("notes.log"), read("src/deep.log")), ("mine".into(), "mine too".into()));
    assert_eq!(read("out/result.bin"), "an output");
    assert!(!rescued.join("node_modules").exists() && !rescued.join("target").exists());
}

#[test]
fn ignored_that_cannot_be_moved_keeps_the_tree() {
    let world = World::new();
    let mut lane = world.swept();
    lane.write("a.log", "one");
    lane.write("b.log", "two");
    // A file where the folder belongs; and, where there is one, another file system.
    let taken = world.repo.parent().unwrap().join("taken");
    fs::write(&taken, "").unwrap();
    lane.request.rescued = taken;
    lane.assert_kept("rescue-failed", "ignored");
    let other = Path::new("/dev/shm");
    let device = |path: &Path| std::os::unix::fs::MetadataExt::dev(&fs::metadata(path).unwrap());
    if other.is_dir() && device(other) != device(lane.path()) {
        let elsewhere = tempfile::tempdir_in(other).unwrap();
        lane.request.rescued = elsewhere.path().join("rescued");
        lane.assert_kept("rescue-failed", "ignored");
    }
}

#[test]
fn ignored_twice_overwrites_nothing() {
    let world = World::new();
    for text in ["first", "second"] {
        let lane = world.swept();
        lane.write("x.log", text);
        lane.assert_removed(BranchFate::Deleted, "clean");
    }
    let read = |name: &str| fs::read_to_string(world.rescued().join(name)).unwrap();
    assert_eq!((read("x.log"), read("x.log.1")), ("first".into(), "second".into()));
}

#[test]
fn flagged() {
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        let world = World::new();
        let lane = world.swept();
        lane.git(&["update-index", flag, "b.txt"]);
        lane.write("b.txt", "hidden edit\n");
        assert_eq!(lane.git(&["status", "--porcelain"]), "");
        lane.assert_kept("hidden-edits", "flagged");
        // A flag that hides nothing is no reason.
        lane.write("b.txt", "b\n");
        lane.assert_removed(BranchFate::Deleted, "clean");
    }
}

#[test]
fn a_sparse_lane_hides_nothing() {
    let world = World::new();
    let lane = world.swept();
    lane.git(&["sparse-checkout", "set", "--no-cone", "/b.txt"]);
    assert!(!lane.path().join("src").exists());
    lane.assert_removed(BranchFate::Deleted, "clean");
}

#[test]
fn nested() {
    for folder in ["nest", "out/nest", "node_modules/nest"] {
        let world = World::new();
        let lane = world.swept();
        let nest = lane.path().join(folder);
        fs::create_dir_all(&nest).unwrap();
        world.git(&nest, &["init", "-q"]);
        world.git(&nest, &["commit", "-q", "--allow-empty", "-m", "inner"]);
        lane.assert_kept("nested-repository", "nested");
    }
}

#[test]
fn nested_files_in_a_stray_git_folder() {
    let world = World::new();
    let lane = world.swept();
    lane.write("src/.git/precious.txt", "work");
    assert_eq!(lane.git(&["status", "--porcelain", "--ignored"]), "");
    lane.assert_kept("nested-repository", "nested");
}

/// A repository whose `sub` is a submodule, and a lane that has filled it.
fn with_submodule(world: &World) -> crate::support::Swept<'_> {
    let inner = world.repo.parent().unwrap().join("inner");
    fs::create_dir(&inner).unwrap();
    world.git(&inner, &["init", "-q", "-b", "main"]);
    world.git(&inner, &["commit", "-q", "--allow-empty", "-m", "inner"]);
    world.git(&world.repo, &["config", "--global", "protocol.file.allow", "always"]);
    world.git(&world.repo, &["submodule", "add", "-q", inner.to_str().unwrap(), "sub"]);
    world.git(&world.repo, &["commit", "-q", "-m", "submodule"]);
    let lane = world.swept();
    lane.git(&["submodule", "update", "-q", "--init"]);
    lane
}

#[test]
fn a_filled_submodule_without_work_goes() {
    let world = World::new();
    let lane = with_submodule(&world);
    lane.assert_removed(BranchFate::Deleted, "clean");
}

#[test]
fn submodule_with_a_commit_that_status_does_not_show() {
    let world = World::new();
    let lane = with_submodule(&world);
    let sub = lane.path().join("sub");
    let before = world.git(&sub, &["rev-parse", "HEAD"]);
    world.git(&sub, &["checkout", "-q", "-b", "own"]);
    world.git(&sub, &["commit", "-q", "--allow-empty", "-m", "own work"]);
    world.git(&sub, &["checkout", "-q", "--detach", &before]);
    assert_eq!(lane.git(&["status", "--porcelain"]), "");
    lane.assert_kept("submodule-work", "submodule");
}

#[test]
fn submodule_dirty_and_told_to_be_ignored() {
    let world = World::new();
    let lane = with_submodule(&world);
    world.git(&world.repo, &["config", "submodule.sub.ignore", "all"]);
    lane.write("sub/new.txt", "work");
    assert_eq!(lane.git(&["status", "--porcelain"]), "");
    lane.assert_kept("submodule-work", "submodule");
}

#[test]
fn operation_a_conflict() {
    let world = World::new();
    world.git(&world.repo, &["checkout", "-q", "-b", "theirs"]);
    fs::write(world.repo.join("b.txt"), "theirs\n").unwrap();
    world.git(&world.repo, &["commit", "-q", "-a", "-m", "theirs"]);
    world.git(&world.repo, &["checkout", "-q", "main"]);
    let lane = world.swept();
    lane.write("b.txt", "ours\n");
    lane.git(&["commit", "-q", "-a", "-m", "ours"]);
    assert!(!world.try_git(lane.path(), &["merge", "-q", "theirs"]).0);
    lane.assert_kept("operation-in-progress", "operation");
}

#[test]
fn operation_that_status_calls_clean() {
    let begin: [fn(&crate::support::Swept<'_>); 3] = [
        |lane| {
            // Stopped at `edit`, nothing changed.
            lane.git(&["commit", "-q", "--allow-empty", "-m", "work"]);
            let editor = "sequence.editor=sed -i s/^pick/edit/";
            lane.git(&["-c", editor, "rebase", "-q", "-i", "--keep-empty", "HEAD~1"]);
        },
        |lane| {
            lane.git(&["bisect", "start"]);
        },
        |lane| {
            // Both sides have the same tree.
            lane.git(&["checkout", "-q", "-b", "side"]);
            lane.git(&["commit", "-q", "--allow-empty", "-m", "side"]);
            lane.git(&["checkout", "-q", "omg/r1/api"]);
            lane.git(&["commit", "-q", "--allow-empty", "-m", "own"]);
            lane.git(&["merge", "-q", "--no-commit", "side"]);
        },
    ];
    for begin in begin {
        let world = World::new();
        let lane = world.swept();
        begin(&lane);
        assert_eq!(lane.git(&["status", "--porcelain"]), "");
        lane.assert_kept("operation-in-progress", "operation");
    }
}

#[test]
fn detached() {
    let world = World::new();
    let lane = world.swept();
    lane.git(&["checkout", "-q", "--detach"]);
    lane.git(&["commit", "-q", "--allow-empty", "-m", "detached work"]);
    let commit = lane.git(&["rev-parse", "HEAD"]);
    let outcome = lane.assert_removed(BranchFate::Kept, "own-commits");
    assert_eq!(value(&outcome, "detached"), format!("saved: {RESCUED}"));
    assert_eq!(world.git(&world.repo, &["rev-parse", RESCUED]), commit);
    assert!(outcome.note.unwrap().contains(RESCUED));
}

#[test]
fn reflog() {
    let world = World::new();
    let lane = world.swept();
    lane.git(&["commit", "-q", "--allow-empty", "-m", "thrown away"]);
    let commit = lane.git(&["rev-parse", "HEAD"]);
    lane.git(&["reset", "-q", "--hard", "HEAD~1"]);
    let outcome = lane.assert_removed(BranchFate::Kept, "own-commits");
    assert_eq!(value(&outcome, "reflog"), format!("saved: {RESCUED}"));
    world.assert_rescued(&commit);
    world.git(&world.repo, &["gc", "-q", "--prune=now"]);
    world.git(&world.repo, &["cat-file", "-e", &commit]);
}

#[test]
fn reflog_of_an_amended_commit() {
    let world = World::new();
    let lane = world.swept();
    lane.git(&["commit", "-q", "--allow-empty", "-m", "one"]);
    let first = lane.git(&["rev-parse", "HEAD"]);
    lane.git(&["commit", "-q", "--amend", "--allow-empty", "-m", "two"]);
    lane.assert_removed(BranchFate::Kept, "own-commits");
    world.assert_rescued(&first);
}

#[test]
fn reflog_or_not_a_commit_that_only_a_ref_of_the_lane_holds() {
    let world = World::new();
    let lane = world.swept();
    let commit = lane.git(&["commit-tree", "HEAD^{tree}", "-m", "kept aside"]);
    lane.git(&["update-ref", "refs/worktree/mine", &commit]);
    lane.assert_removed(BranchFate::Kept, "own-commits");
    world.assert_rescued(&commit);
}

#[test]
fn a_rescue_ref_is_never_overwritten() {
    let world = World::new();
    let mut commits = Vec::new();
    for message in ["one", "two"] {
        let lane = world.swept_on(crate::support::MADE);
        lane.git(&["checkout", "-q", "--detach"]);
        lane.git(&["commit", "-q", "--allow-empty", "-m", message]);
        commits.push(lane.git(&["rev-parse", "HEAD"]));
        lane.assert_removed(BranchFate::Kept, "own-commits");
    }
    for commit in commits {
        world.assert_rescued(&commit);
    }
}

#[test]
fn branches() {
    let world = World::new();
    let lane = world.swept();
    lane.git(&["commit", "-q", "--allow-empty", "-m", "work"]);
    let outcome = lane.assert_removed(BranchFate::Kept, "tip-moved");
    assert_eq!(value(&outcome, "branches"), "kept");
}

#[test]
fn stash() {
    let world = World::new();
    let lane = world.swept();
    lane.write("b.txt", "stashed\n");
    lane.git(&["stash", "-q"]);
    let outcome = lane.assert_removed(BranchFate::Deleted, "clean");
    assert_eq!(value(&outcome, "stash"), "kept");
    assert!(outcome.note.unwrap().contains("1 entry in git stash"));
    assert!(world.git(&world.repo, &["stash", "list"]).contains("omg/r1/api"));
}

fn copied(name: &str) -> OverlayFile {
    OverlayFile {
        path: name.into(),
        sha256: ABC.into(),
        size: 3,
        tracked: name == "b.txt",
        blobs: vec!["f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f".into()],
    }
}

#[test]
fn a_lane_of_whose_local_files_nothing_is_known_is_kept() {
    let world = World::new();
    let mut lane = world.swept();
    lane.request.overlay = None;
    lane.assert_kept("unreadable", "overlay");
}

#[test]
fn commits_that_were_not_looked_at_are_said_to_be_so() {
    let world = World::new();
    let mut lane = world.swept();
    lane.request.overlay = Some(vec![copied(".env")]);
    let (common, repository) = (world.repo.join(".git"), world.repository());
    fs::rename(&common, world.repo.join("away")).unwrap();
    let outcome = GitSweeper::new(&world.environment()).sweep(&repository, &lane.request);
    assert_eq!(
        (outcome.reason.as_str(), outcome.unchecked.as_deref()),
        ("repository-away", Some("the lane was not looked at"))
    );
    assert!(outcome.note.unwrap().contains("could not be checked"));
    fs::rename(world.repo.join("away"), &common).unwrap();
    assert_eq!(lane.assert_removed(BranchFate::Deleted, "clean").unchecked, None);
}

#[test]
fn overlay_files_as_they_were_copied_are_no_work() {
    let world = World::new();
    let mut lane = world.swept();
    for name in [".env", "local.toml", "out/deep/cfg", "b.txt"] {
        lane.write(name, "abc");
        lane.request.overlay.get_or_insert_default().push(copied(name));
    }
    lane.git(&["update-index", "--skip-worktree", "b.txt"]);
    let outcome = lane.assert_removed(BranchFate::Deleted, "clean");
    assert_eq!((outcome.note, world.rescued().exists()), (None, false));
}

#[test]
fn overlay_edited() {
    for name in [".env", "local.toml", "out/deep/cfg", "b.txt"] {
        let world = World::new();
        let mut lane = world.swept();
        lane.write(name, "edited");
        if name == "b.txt" {
            lane.git(&["update-index", "--skip-worktree", "b.txt"]);
        }
        lane.request.overlay.get_or_insert_default().push(copied(name));
        lane.assert_kept("overlay-edited", "overlay");
    }
}

#[test]
fn a_lone_executable_bit_is_work_whatever_the_configuration_says() {
    use std::os::unix::fs::PermissionsExt;
    for hidden in [false, true] {
        let world = World::new();
        world.git(&world.repo, &["config", "core.fileMode", "false"]);
        let mut lane = world.swept();
        if hidden {
            lane.git(&["update-index", "--assume-unchanged", "b.txt"]);
        }
        fs::set_permissions(lane.path().join("b.txt"), fs::Permissions::from_mode(0o755)).unwrap();
        if hidden {
            lane.assert_kept("hidden-edits", "flagged");
        } else {
            lane.assert_kept("uncommitted", "tracked");
        }
        lane.request.policy = omg::cleanup::Policy::Discard;
        lane.assert_removed(BranchFate::Deleted, "clean");
        let saved = world.git(&world.repo, &["ls-tree", crate::support::RESCUED, "b.txt"]);
        assert!(saved.starts_with("100755 "), "{saved}");
    }
}

#[test]
fn a_clean_lane_goes_where_executable_bits_are_not_looked_at() {
    let world = World::new();
    world.git(&world.repo, &["config", "core.fileMode", "false"]);
    let lane = world.swept();
    lane.assert_removed(BranchFate::Deleted, "clean");
}

#[test]
fn a_file_that_differs_in_case_alone_is_work() {
    let world = World::new();
    world.git(&world.repo, &["config", "core.ignoreCase", "true"]);
    let lane = world.swept();
    lane.write("B.TXT", "b\n");
    lane.assert_kept("uncommitted", "untracked");
}
