//! Local files in lanes: what is copied, what git never sees of it, and what becomes of it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::support::{Ended, World, signal};

/// Stands for a secret: nothing else in a world has these words.
pub const SECRET: &str = "TOKEN=only-the-user-has-this\n";

/// A repository with a tracked file, an ignored name, and the user's own files.
pub fn world() -> World {
    let world =
        World::with(&[("a.txt", "one\n"), ("cfg", "default\n"), (".gitignore", "/.env\n/secrets/\n")]);
    world.write(".env", SECRET);
    world
}

pub fn graph(overlay: &str, run: &str) -> String {
    format!(
        "name: x\noverlay: {overlay}\nnodes:\n  - id: a\n    worktree: l\n    run: |\n      {}\n",
        run.replace('\n', "\n      ")
    )
}

pub fn run(world: &World, overlay: &str, line: &str) -> Ended {
    world.run(&graph(overlay, line))
}

pub fn cleanup(world: &World) -> Value {
    world.lane_view("l")["cleanup"].clone()
}

/// Which objects of the repository, reachable or not, hold `text`.
pub fn objects_with(world: &World, text: &str) -> Vec<String> {
    let listed = world.git("cat-file --batch-all-objects --batch-check='%(objectname) %(objecttype)'");
    listed
        .lines()
        .filter_map(|line| line.strip_suffix(" blob"))
        .filter(|name| world.git(&format!("cat-file blob {name}")).contains(text.trim_end()))
        .map(str::to_string)
        .collect()
}

#[test]
fn named_files_are_copied_before_provisioning_with_their_permissions() {
    let world = world();
    world.write("config/deep/local.toml", "x = 1\n");
    world.write("config/run.sh", "#!/bin/sh\n");
    let mode = |name: &str, mode| {
        fs::set_permissions(world.repo().join(name), fs::Permissions::from_mode(mode)).unwrap()
    };
    mode(".env", 0o600);
    mode("config/run.sh", 0o755);
    mode("config/deep", 0o700);
    let line = "stat -c '%n %a' .env config/deep config/run.sh config/deep/local.toml; cat .env\nprintf edited > .env";
    let text = graph("[.env, config, .envrc]", line)
        + "provision: test -f .env && test -f config/deep/local.toml && test -z \"$(git status --porcelain)\"\n";
    world.run(&text).expect(0);
    assert_eq!(
        world.result("a"),
        format!(
            ".env 600\nconfig/deep 700\nconfig/run.sh 755\nconfig/deep/local.toml {}\n{}",
            mode_of(&world, "config/deep/local.toml"),
            SECRET.trim_end()
        )
    );
    // A copy, not a link: an edit of it is the lane's alone.
    assert_eq!(fs::read_to_string(world.repo().join(".env")).unwrap(), SECRET);
    let names = world.event_names();
    let at = |name: &str| names.iter().position(|found| found == name).unwrap();
    assert!(at("lane.acquire.performed") < at("overlay.requested"));
    assert!(at("overlay.performed") < at("provision.requested"));
    let event = &world.events_named("overlay.performed")[0];
    assert_eq!(event["lane"], "l");
    assert_eq!(event["intent"], world.events_named("overlay.requested")[0]["intent"]);
    let paths: Vec<&str> =
        event["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect();
    assert_eq!(paths, [".env", "config/deep/local.toml", "config/run.sh"]);
}

fn mode_of(world: &World, name: &str) -> String {
    format!("{:o}", fs::metadata(world.repo().join(name)).unwrap().permissions().mode() & 0o777)
}

#[test]
fn a_lane_without_an_overlay_has_no_event_and_no_file_of_it() {
    let world = world();
    let text = "name: x\noverlay: [.env]\nlanes: {l: {overlay: none}}\nnodes:\n  - {id: a, worktree: l, run: 'test ! -e .env && env | grep -c GIT_CONFIG_COUNT; true'}\n";
    world.run(text).expect(0);
    assert_eq!(world.result("a"), "0");
    assert!(
        world.event_names().iter().all(|name| !name.starts_with("overlay.")),
        "{:?}",
        world.event_names()
    );
    for file in ["overlay.json", "excludes"] {
        assert!(!world.run_dir().join("lanes/l").join(file).exists(), "{file}");
    }
}

#[test]
fn a_missing_file_is_skipped_without_a_word() {
    let world = world();
    let ended = run(&world, "[.envrc, none/such]", "ls -A").expect(0);
    assert!(!ended.text().contains("envrc") && !ended.text().contains("such"), "{}", ended.text());
    assert!(!world.result("a").contains(".envrc"));
    assert_eq!(cleanup(&world)["tree"], "removed");
}

#[test]
fn ordinary_commands_of_git_carry_none_of_it() {
    let world = world();
    world.write("cfg", "mine: only-the-user-has-this\n");
    world.write(".envrc", "export X=only-the-user-has-this\n");
    let line = "\
git status --porcelain
git add -A && git commit -q --allow-empty -m add
git commit -q -a --allow-empty -m all
git stash -u 2>&1
git checkout -q -- . && git clean -fdq
cat .env .envrc cfg
echo work > work.txt && git add -A && git commit -q -m work
git show --stat --format=%s";
    let ended = run(&world, "[.env, .envrc, cfg]", line).expect(0);
    let result = world.result("a");
    let expected = "No local changes to save\nTOKEN=only-the-user-has-this\nexport X=only-the-user-has-this\nmine: only-the-user-has-this\nwork\n";
    assert!(result.starts_with(expected), "{result}");
    assert!(result.contains("work.txt") && !result.contains("cfg |"), "{result}");
    assert_eq!(objects_with(&world, "only-the-user-has-this"), Vec::<String>::new());
    // What was not edited goes with the tree; the branch is offered as it is.
    assert_eq!((&cleanup(&world)["tree"], &cleanup(&world)["branch"]), (&"removed".into(), &"kept".into()));
    assert!(ended.text().contains("git merge omg/r1/l"), "{}", ended.text());
    assert!(!world.run_dir().join("rescued").exists());
    // Nothing shared was written: the user's own git sees their files as before.
    assert_eq!(world.git("status --porcelain"), " M cfg\n?? .envrc");
    assert_eq!(world.shell("cat .git/info/exclude | grep -cv '^#'; true"), "0");
    assert!(ended.text().contains("looks away from the copy"), "{}", ended.text());
}

#[test]
fn the_users_own_excludes_still_hold_in_the_lane() {
    let world = world();
    fs::create_dir_all(world.path().join(".config/git")).unwrap();
    fs::write(world.path().join(".config/git/ignore"), "*.swp").unwrap();
    world.write(".envrc", "x-x-x-x-x\n");
    run(&world, "[.envrc]", "touch a.swp b\ngit status --porcelain").expect(0);
    assert_eq!(world.result("a"), "?? b");
    let mut world = self::world();
    fs::write(world.path().join("mine"), "*.own\n").unwrap();
    let mine = world.path().join("mine");
    world.extra = vec![
        ("GIT_CONFIG_COUNT".into(), "2".into()),
        ("GIT_CONFIG_KEY_0".into(), "core.excludesFile".into()),
        ("GIT_CONFIG_VALUE_0".into(), mine.into()),
        ("GIT_CONFIG_KEY_1".into(), "user.name".into()),
        ("GIT_CONFIG_VALUE_1".into(), "injected".into()),
    ];
    world.write(".envrc", "x-x-x-x-x\n");
    let line = "touch a.own b\ngit status --porcelain\ngit config user.name";
    let text = graph("[.envrc]", line)
        + "    success_check: {verify: 'git status --porcelain | grep -q envrc && exit 1; git add -A -n'}\n";
    let text = text.replace("{verify: '", "{verify: {command: '").replace("-n'}", "-n'}}");
    world.run(&text).expect(0);
    assert_eq!(world.result("a"), "?? b\ninjected");
}

#[test]
fn links_lead_nowhere() {
    let world = World::with(&[("a.txt", "one\n")]);
    let outside = world.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("x.local"), "theirs\n").unwrap();
    symlink(outside.join("x.local"), world.repo().join(".env")).unwrap();
    let ended = run(&world, "[.env]", "true").expect(3);
    assert_eq!(world.class("a"), "overlay-failed");
    assert!(ended.text().contains("`.env`") && ended.text().contains("symbolic link"), "{}", ended.text());
    assert_eq!(world.node("a")["attempts"], 0);
    assert_eq!(world.events_named("overlay.failed")[0]["nodes"], serde_json::json!(["a"]));

    // A tracked link in the lane, where the user has a folder.
    let world = World::with(&[("a.txt", "one\n")]);
    let outside = world.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, world.repo().join("conf")).unwrap();
    world.git("add -A");
    world.git("commit -q -m link");
    fs::remove_file(world.repo().join("conf")).unwrap();
    world.write("conf/x.local", SECRET);
    let ended = run(&world, "[conf/x.local]", "true").expect(3);
    assert!(ended.text().contains("`conf` is a symbolic link"), "{}", ended.text());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert_eq!(world.class("a"), "overlay-failed");
}

#[test]
fn too_much_is_refused_with_its_name() {
    let world = world();
    fs::File::create(world.repo().join("huge.bin")).unwrap().set_len((16 << 20) + 1).unwrap();
    let ended = run(&world, "[.env, huge.bin]", "true").expect(3);
    assert!(ended.text().contains("`huge.bin` is larger than 16 MiB"), "{}", ended.text());
    assert!(!world.lane("l").join(".env").exists());
    world.write("huge.bin", "small");
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(0);
    assert_eq!(world.events_named("overlay.performed")[0]["files"].as_array().unwrap().len(), 2);
    let world = self::world();
    world.write("web/keep", "");
    world.write("web/node_modules/m/index.js", "");
    let ended = run(&world, "[web]", "true").expect(3);
    assert!(ended.text().contains("`node_modules` is a dependency folder"), "{}", ended.text());
}

#[test]
fn worktreeinclude_names_ignored_files_only() {
    let world = World::with(&[
        ("a.txt", "one\n"),
        (".gitignore", "*.local\n/.env\nnode_modules\n"),
        (".worktreeinclude", "# what lanes need\n*.local\n!not.local\n/.env\nnotes.txt\na.txt\n"),
    ]);
    for name in ["x.local", "deep/y.local", "not.local", ".env", "notes.txt", "node_modules/z.local"] {
        world.write(name, SECRET);
    }
    symlink("/nowhere", world.repo().join("link.local")).unwrap();
    let ended = run(
        &world,
        "{paths: [extra], include_file: true}",
        "find . -name '*.local' -o -name .env -o -name notes.txt | sort",
    )
    .expect(0);
    assert_eq!(world.result("a"), "./.env\n./deep/y.local\n./x.local");
    assert!(ended.text().contains("`link.local` is not copied"), "{}", ended.text());
    // Unasked, the file means nothing; without one, asking means nothing.
    let world = world_without_include();
    run(&world, "{include_file: true}", "ls -A").expect(0);
    assert!(!world.result("a").contains(".env"));
}

fn world_without_include() -> World {
    world()
}

#[test]
fn an_edited_copy_is_not_copied_over_by_a_later_leg() {
    let world = world();
    world.write("cfg", "mine, and only mine\n");
    let text = graph("[.env, cfg]", "echo edited >> .env; echo edited >> cfg\ntest -e $OMG_RUN_DIR/go");
    world.run(&text).expect(1);
    world.write(".env", "TOKEN=rotated-by-the-user\n");
    fs::write(world.run_dir().join("go"), "").unwrap();
    let ended = world.omg(&["resume", "r1", "--retry-failed"]).expect(0);
    let files = world.events_named("overlay.performed")[1]["files"].clone();
    assert_eq!(
        files,
        serde_json::json!([{"path": ".env", "how": "edited"}, {"path": "cfg", "how": "edited"}])
    );
    let lane = |name: &str| fs::read_to_string(world.lane("l").join(name)).unwrap();
    assert_eq!(lane(".env"), format!("{SECRET}edited\nedited\n"));
    assert_eq!(lane("cfg"), "mine, and only mine\nedited\nedited\n");
    let told: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("changed in your tree")).collect();
    assert_eq!(told.len(), 1, "{}", ended.stderr);
    assert!(told[0].contains("`l`") && told[0].ends_with(".env"), "{told:?}");
}

#[test]
fn what_a_node_committed_or_made_is_never_copied_over() {
    let world = world();
    let line = "echo theirs > cfg; git commit -q -a -m theirs; test -e $OMG_RUN_DIR/go";
    let text = graph("[.env, cfg, made]", &format!("echo own > made; {line}"));
    world.run(&text).expect(1);
    world.write("cfg", "mine, and only mine\n");
    world.write("made", "the user's, later\n");
    fs::write(world.run_dir().join("go"), "").unwrap();
    let text = world.omg(&["resume", "r1", "--retry-failed"]).text();
    let lane = |name: &str| fs::read_to_string(world.lane("l").join(name)).unwrap();
    assert_eq!((lane("cfg"), lane("made")), ("theirs\n".into(), "own\n".into()), "{text}");
    assert!(text.contains("`cfg` is not copied: the lane has changed it"), "{text}");
    assert!(text.contains("`made` is not copied: the lane has a file of its own there"), "{text}");
}

#[test]
fn a_leg_killed_after_the_copies_is_gone_on_with() {
    let world = world();
    world.write("cfg", "mine, and only mine\n");
    let text = graph("[.env, cfg]", "cat .env cfg; git status --porcelain")
        + "provision: test -e $OMG_RUN_DIR/go || { touch $OMG_RUN_DIR/there; sleep 600; }\n";
    let path = world.graph(&text);
    let mut runner = world.start(&["run", &path, "--run-id", "r1"]);
    world.wait_file(&world.run_dir().join("there"));
    signal(&runner, rustix::process::Signal::KILL);
    runner.wait().unwrap();
    // As if killed amid the copies: one is missing, one has not been hidden from git, one lies beside the lane.
    fs::remove_file(world.lane("l").join(".env")).unwrap();
    world.shell(&format!("git -C '{}' update-index --no-skip-worktree cfg", world.lane("l").display()));
    let draft = world.lane("l").with_file_name(".omg-copy-l");
    fs::write(&draft, "half").unwrap();
    fs::write(world.run_dir().join("go"), "").unwrap();
    world.omg(&["resume", "r1"]).expect(0);
    assert_eq!(world.result("a"), format!("{SECRET}mine, and only mine"));
    assert!(!draft.exists());
    assert_eq!(cleanup(&world)["tree"], "removed");
}

#[test]
fn a_dead_leg_amid_an_overlay_is_settled() {
    let world = world();
    run(&world, "[.env]", "exit 1").expect(1);
    let text = fs::read_to_string(world.run_dir().join("events.jsonl")).unwrap();
    let upto = text.find("\"overlay.performed\"").unwrap();
    let whole = text[..upto].rfind('\n').unwrap() + 1;
    fs::write(world.run_dir().join("events.jsonl"), &text[..whole]).unwrap();
    world.omg(&["resume", "r1"]).expect(1);
    let failed = &world.events_named("overlay.failed")[0];
    assert_eq!(failed["fault"]["class"], "interrupted");
    assert_eq!(world.events_named("overlay.performed").len(), 1);
}

#[test]
fn a_ledger_that_is_gone_is_written_before_the_next_node() {
    let world = world();
    let text = "name: x\noverlay: [.env]\nnodes:\n  - {id: a, worktree: l, run: 'rm $OMG_RUN_DIR/lanes/l/overlay.json'}\n  - {id: b, worktree: l, run: cat .env, depends_on: [a]}\n";
    world.run(text).expect(0);
    assert_eq!(world.events_named("overlay.performed").len(), 2);
    assert!(world.run_dir().join("lanes/l/overlay.json").exists());
}

#[test]
fn a_fresh_tree_gets_its_files_anew() {
    let world = world();
    let text = graph("[.env]", "cat .env") + "provision: test -e $OMG_RUN_DIR/go\n";
    world.run(&text).expect(3);
    fs::write(world.run_dir().join("go"), "").unwrap();
    world.write(".env", "TOKEN=rotated-by-the-user\n");
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(0);
    assert_eq!(world.result("a"), "TOKEN=rotated-by-the-user");
}

#[test]
fn a_run_begun_below_the_top_copies_from_the_top() {
    let world = world();
    world.write("sub/dir/x", "");
    let path = world.graph(&graph("[.env, sub/dir/x]", "ls -A . sub/dir"));
    let mut command = world.command(env!("CARGO_BIN_EXE_omg"));
    command.args(["run", &path, "--run-id", "r1"]).current_dir(world.repo().join("sub"));
    let ended: Ended = command.output().unwrap().into();
    ended.expect(0);
    assert_eq!(world.result("a"), ".:\n.env\n.git\n.gitignore\na.txt\ncfg\nsub\n\nsub/dir:\nx");
}

#[test]
fn several_lanes_get_their_own() {
    let world = world();
    world.write(".env.b", "for-b\n");
    let text = "\
name: x
overlay: [.env]
lanes: {b: {overlay: [.env.b]}, c: {overlay: none}}
nodes:
  - {id: a, worktree: a, run: 'ls -A | grep env'}
  - {id: b, worktree: b, run: 'ls -A | grep env'}
  - {id: c, worktree: c, run: 'ls -A | grep -c env; true'}
";
    world.run(text).expect(0);
    assert_eq!([world.result("a"), world.result("b"), world.result("c")], [".env", ".env.b", "0"]);
    assert_eq!(world.events_named("overlay.performed").len(), 2);
}

#[test]
fn an_overlay_takes_a_slot_and_never_more_than_there_are() {
    let world = world();
    let nodes: String =
        (0..6).map(|at| format!("  - {{id: n{at}, worktree: l{at}, run: 'true'}}\n")).collect();
    world.run_with(&format!("name: x\noverlay: [.env]\nnodes:\n{nodes}"), &["-j", "2"]).expect(0);
    let mut open = 0i32;
    for event in world.events() {
        let name = event["event"].as_str().unwrap();
        if name == "node.dispatch.requested" || name.ends_with(".requested") && !name.contains("cleanup") {
            open += 1;
        } else if [
            "lane.acquire.performed",
            "overlay.performed",
            "provision.performed",
            "node.attempt.finished",
        ]
        .contains(&name)
        {
            open -= 1;
        }
        assert!(open <= 2, "{name}: {open} at once");
    }
    assert_eq!(world.events_named("overlay.performed").len(), 6);
}

#[test]
fn a_dry_run_says_what_would_be_copied() {
    let world = world();
    let text = graph("{paths: [.env, config], include_file: true}", "true");
    let ended = world.run_with(&text, &["--dry-run"]).expect(0);
    assert!(
        ended.stdout.contains(
            "local files copied in, where they are there: .env, config, what .worktreeinclude names"
        )
    );
    assert!(!world.run_dir().exists());
}

#[test]
fn a_planned_graph_names_no_local_file() {
    let world = world();
    for overlay in ["overlay: [.env]", "overlay: none", "lanes: {l: {overlay: [.env]}}"] {
        let text = format!("name: x\n{overlay}\nnodes: [{{id: a, prompt: p, allowed_tools: [Read]}}]\n");
        let ended = world.run_with(&text, &["--planned"]).expect(2);
        assert!(ended.stderr.contains("planned"), "{}", ended.stderr);
    }
}

#[test]
fn a_bare_repository_has_nothing_to_copy() {
    let world = world();
    world.shell("git clone -q --bare . ../bare.git");
    let path = world.graph(&graph("[.env]", "ls -A"));
    let bare = world.path().join("bare.git");
    let mut command = world.command(env!("CARGO_BIN_EXE_omg"));
    let ended: Ended =
        command.args(["run", &path, "--run-id", "r1"]).current_dir(bare).output().unwrap().into();
    let ended = ended.expect(0);
    assert_eq!(ended.stderr.lines().filter(|line| line.contains("a bare repository")).count(), 1);
}

#[test]
fn the_ledger_is_private_and_holds_no_content() {
    let world = world();
    run(&world, "[.env]", "true").expect(0);
    let file = world.run_dir().join("lanes/l/overlay.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let ledger: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(ledger["files"][0]["path"], ".env");
    assert_eq!(ledger["files"][0]["git"], "ignored");
    let found =
        world.shell(&format!("grep -rl only-the-user-has-this '{}' || true", world.run_dir().display()));
    assert_eq!(found, "");
}

#[test]
fn a_submodule_gets_no_local_file() {
    let world = world();
    world.shell("git init -q ../sub && git -C ../sub commit -q --allow-empty -m s");
    world.git("-c protocol.file.allow=always submodule add -q ../sub wiki");
    world.git("commit -q -m sub");
    world.write("wiki/.env", SECRET);
    let ended = run(&world, "[wiki/.env]", "true").expect(3);
    assert!(ended.text().contains("`wiki` is a submodule"), "{}", ended.text());
}
