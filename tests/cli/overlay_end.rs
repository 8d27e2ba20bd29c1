//! Local files in lanes at the end of a leg: what keeps a lane, what is rescued, and which commits carry one.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::overlay::{SECRET, cleanup, graph, objects_with, run, world};
use crate::support::World;

fn carried(world: &World) -> Vec<(String, String)> {
    let found = cleanup(world)["overlay_in_commits"].clone();
    found
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| (one["path"].as_str().unwrap().to_string(), one["commit"].as_str().unwrap().to_string()))
        .collect()
}

#[test]
fn an_edited_copy_keeps_its_lane_and_an_unedited_one_does_not() {
    let world = world();
    run(&world, "[.env, cfg]", "true").expect(0);
    assert_eq!(
        (&cleanup(&world)["tree"], &cleanup(&world)["branch"]),
        (&"removed".into(), &"deleted".into())
    );
    for (name, overlay) in [(".env", "[.env]"), ("cfg", "[cfg]"), (".envrc", "[.envrc]")] {
        let world = self::world();
        world.write("cfg", "mine, and only mine\n");
        world.write(".envrc", SECRET);
        run(&world, overlay, &format!("echo more >> {name}")).expect(0);
        let cleanup = cleanup(&world);
        assert_eq!(
            (&cleanup["tree"], &cleanup["reason"]),
            (&"kept".into(), &"overlay-edited".into()),
            "{name}"
        );
        assert_eq!(cleanup["channels"]["overlay"], "kept", "{name}");
        assert!(fs::read_to_string(world.lane("l").join(name)).unwrap().ends_with("more\n"));
    }
}

#[test]
fn a_discarded_edit_goes_to_a_private_file_and_into_no_object() {
    let world = world();
    world.write("cfg", "mine: only-the-user-has-this\n");
    world.write(".envrc", SECRET);
    world.write("keep.local", "untouched-by-any-node\n");
    let line = "\
echo changed-in-lane >> .env; echo changed-in-lane >> .envrc; echo changed-in-lane >> cfg
cp .envrc .envrc.bak; cp keep.local copy.txt
echo work > new.txt; echo two >> a.txt
chmod 644 .env .envrc cfg";
    let text = graph("[.env, .envrc, cfg, keep.local]", line) + "cleanup: discard\n";
    world.run(&text).expect(0);
    let cleanup = cleanup(&world);
    assert_eq!(cleanup["tree"], "removed", "{cleanup}");
    let rescued = world.run_dir().join("rescued/l");
    assert_eq!(cleanup["channels"]["overlay"], format!("saved: {}", rescued.display()));
    for name in [".env", ".envrc", "cfg"] {
        let file = rescued.join(name);
        assert!(fs::read_to_string(&file).unwrap().ends_with("changed-in-lane\n"), "{name}");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::metadata(&rescued).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read_to_string(rescued.join("copy.txt")).unwrap(), "untouched-by-any-node\n");
    assert!(!rescued.join("keep.local").exists());
    // What the node made is a commit; of the local files no object was ever written.
    let files = world.git("ls-tree -r --name-only refs/omg/rescued/r1/l");
    assert_eq!(files, ".gitignore\na.txt\ncfg\nnew.txt");
    assert!(fs::read_to_string(rescued.join(".envrc.bak")).unwrap().starts_with(SECRET));
    assert_eq!(world.git("show refs/omg/rescued/r1/l:cfg"), "default");
    assert_eq!(world.git("show refs/omg/rescued/r1/l:a.txt"), "one\ntwo");
    assert_eq!(objects_with(&world, "untouched-by-any-node"), Vec::<String>::new());
    assert_eq!(objects_with(&world, "only-the-user-has-this"), Vec::<String>::new());
    assert_eq!(objects_with(&world, "changed-in-lane"), Vec::<String>::new());
}

#[test]
fn what_a_node_staged_of_it_is_in_no_commit_of_a_rescue() {
    let world = world();
    let line = "git add -f .env; cp .env other; git add other; echo work > new.txt; git add new.txt";
    let text = graph("[.env]", line) + "cleanup: discard\n";
    world.run(&text).expect(0);
    assert_eq!(cleanup(&world)["tree"], "removed", "{}", cleanup(&world));
    let reached = world.git("rev-list --objects --all");
    for object in objects_with(&world, SECRET) {
        assert!(!reached.contains(&object), "{reached}");
    }
    assert_eq!(world.git("ls-tree -r --name-only refs/omg/rescued/r1/l"), ".gitignore\na.txt\ncfg\nnew.txt");
    // A deletion holds nothing of it.
    let world = self::world();
    world.write("cfg", "mine, and only mine\n");
    let line = "git update-index --no-skip-worktree cfg; git rm -q -f cfg; echo work > new.txt";
    world.run(&(graph("[cfg]", line) + "cleanup: discard\n")).expect(0);
    assert_eq!(world.git("ls-tree -r --name-only refs/omg/rescued/r1/l"), ".gitignore\na.txt\nnew.txt");
    // Staged, and changed since: both are files.
    let world = self::world();
    let line = "echo staged-once >> .env; git add -f .env; echo and-again >> .env";
    world.run(&(graph("[.env]", line) + "cleanup: discard\n")).expect(0);
    let rescued = world.run_dir().join("rescued/l");
    assert!(fs::read_to_string(rescued.join(".env.staged")).unwrap().ends_with("staged-once\n"));
    assert!(fs::read_to_string(rescued.join(".env")).unwrap().ends_with("and-again\n"));
}

#[test]
fn what_stands_in_the_place_of_a_copy_is_rescued() {
    let world = world();
    world.write(".envrc", SECRET);
    world.git("checkout -q -b side");
    world.write("cfg", "theirs\n");
    world.git("commit -q -a -m side");
    world.git("checkout -q -");
    world.write("cfg", "mine: only-the-user-has-this\n");
    let line = "\
rm .envrc && mkdir .envrc && echo made > .envrc/inside
rm .env && ln -s /nowhere .env
git update-index --no-skip-worktree cfg
echo lanes > cfg && git commit -q -m lanes cfg && git merge -q side";
    world.run(&(graph("[.env, .envrc, cfg]", line) + "cleanup: discard\n")).expect(1);
    assert_eq!(cleanup(&world)["tree"], "removed", "{}", cleanup(&world));
    assert_eq!(world.git("show refs/omg/rescued/r1/l:.envrc/inside"), "made");
    let rescued = world.run_dir().join("rescued/l");
    assert!(fs::symlink_metadata(rescued.join(".env")).unwrap().is_symlink());
    assert!(fs::read_to_string(rescued.join("cfg")).unwrap().contains(">>>>>>>"));
}

#[test]
fn a_deleted_copy_is_no_work() {
    let world = world();
    world.write("cfg", "mine, and only mine\n");
    run(&world, "[.env, cfg]", "rm .env cfg; git status --porcelain").expect(0);
    assert_eq!(world.result("a"), "");
    assert_eq!(
        (&cleanup(&world)["tree"], &cleanup(&world)["branch"]),
        (&"removed".into(), &"deleted".into())
    );
}

#[track_caller]
fn check_carried(overlay: &str, line: &str, expected: &[&str]) {
    let world = world();
    world.write("cfg", "mine: only-the-user-has-this\n");
    let ended = run(&world, overlay, line).expect(0);
    let found = carried(&world);
    assert_eq!(found.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), expected, "{}", ended.text());
    let shown = world.omg(&["show", "r1"]).expect(0).stdout;
    let note = cleanup(&world)["note"].as_str().unwrap_or_default().to_string();
    for (path, commit) in &found {
        let words = format!("commit {} carries {path}", &commit[..12]);
        assert!(ended.text().contains(&words) && shown.contains(&words) && note.contains(&words), "{shown}");
        assert!(!shown.contains("merge:    git merge"), "{shown}");
        let lanes = world.omg(&["lanes", "r1"]).expect(0).stdout;
        assert!(lanes.contains("its commits carry local files"), "{lanes}");
        let event = world.events_named("lane.cleanup.performed");
        assert_eq!(event[0]["overlay_in_commits"][0]["commit"].as_str(), Some(found[0].1.as_str()));
    }
    assert_eq!(found.is_empty(), shown.contains("git merge omg/r1/l"), "{shown}");
}

#[test]
fn a_commit_that_carries_it_all_the_same_is_named() {
    let forced = "git add -f .env && git commit -q -m oops";
    check_carried("[.env]", forced, &[".env"]);
    let later_removed =
        "git add -f .env && git commit -q -m oops && git rm -q --cached .env && git commit -q -m back";
    check_carried("[.env]", later_removed, &[".env"]);
    let empty_index =
        "export GIT_INDEX_FILE=$PWD/../idx\ngit add -A -f && git commit -q -m oops; rm -f ../idx";
    check_carried("[cfg]", empty_index, &["cfg"]);
    let renamed = "cp .env settings && git add settings && git commit -q -m oops";
    check_carried("[.env]", renamed, &["settings"]);
    let moved = "git mv cfg moved && git update-index --no-skip-worktree moved && git add -A && git commit -q -m oops";
    check_carried("[cfg]", moved, &["moved"]);
    // The flag goes with the name, and the commit has what the base has.
    check_carried("[cfg]", "git mv cfg moved && git add -A && git commit -q -m fine", &[]);
    let sparse = "git sparse-checkout set --no-cone '/*' >/dev/null 2>&1; echo w > w; git add -A; git commit -q -a -m oops";
    check_carried("[cfg]", sparse, &["cfg"]);
    let detached = "git checkout -q --detach && git add -f .env && git commit -q -m oops && git checkout -q omg/r1/l && echo w > w && git add w && git commit -q -m fine";
    check_carried("[.env]", detached, &[".env"]);
    let edited = "echo more >> .env && git add -f .env && git commit -q -m oops";
    check_carried("[.env]", edited, &[".env"]);
    let edited = "echo more >> cfg && git update-index --no-skip-worktree cfg && git commit -q -a -m oops";
    check_carried("[cfg]", edited, &["cfg"]);
    let nothing_of_it = "echo w > w && git add -A && git commit -q -m fine";
    check_carried("[.env, cfg]", nothing_of_it, &[]);
}

#[test]
fn what_the_base_has_is_no_secret() {
    let world = world();
    // Named, and as the base has it: a node may work on it like on any file.
    let line = "cp cfg cfg.copy; echo more >> cfg; git add -A; git commit -q -m work";
    run(&world, "[cfg]", line).expect(0);
    assert_eq!(carried(&world), []);
    assert_eq!(world.git("show omg/r1/l:cfg"), "default\nmore");
}

#[test]
fn a_repository_of_longer_names_is_no_exception() {
    let world = World::bare();
    world.git("init -q --object-format=sha256 .");
    world.write(".gitignore", "/.env\n");
    world.git("add -A");
    world.git("commit -q -m base");
    world.write(".env", SECRET);
    let line = "cp .env x && git add x && git commit -q -m oops && echo edited >> .env && echo w > w && git add -f .env";
    world.run(&(graph("[.env]", line) + "cleanup: discard\n")).expect(0);
    assert_eq!(carried(&world)[0].0, "x");
    assert_eq!(cleanup(&world)["tree"], "removed", "{}", cleanup(&world));
    assert_eq!(world.git("ls-tree -r --name-only refs/omg/rescued/r1/l"), ".gitignore\nw\nx");
    assert!(fs::read_to_string(world.run_dir().join("rescued/l/.env")).unwrap().ends_with("edited\n"));
}
