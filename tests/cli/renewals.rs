//! Lanes that are provisioned again: what nodes and people did meanwhile stays theirs, and so does the blame.

use std::fs;

use crate::installing::{FILES, IN_SYNC, INSTALL, LOCK, MANIFEST, again, calls, npm};
use crate::support::{World, signal};

fn world(does: &str) -> World {
    let world = World::with(FILES);
    npm(&world, does);
    world
}

/// Leaves `package.json` at odds with its lockfile.
const EDIT: &str = "sed -i 's/}}/,\\\"other\\\":\\\"1.0.0\\\"}}/' package.json";

#[test]
fn a_second_try_is_held_against_what_was_tracked_before_the_first() {
    let world = World::with(&[("a", "a\n")]);
    world
        .run("name: x\nprovision: {command: 'echo b > a', retry: always}\nnodes: [{id: n, worktree: l, run: 'true'}]\n")
        .expect(3);
    let causes: Vec<String> =
        world.events_named("provision.failed").iter().map(|event| event["cause"].to_string()).collect();
    assert_eq!(causes, ["\"tracked-changed\"", "\"tracked-changed\""]);
}

#[test]
fn an_installer_that_commits_or_switches_is_found() {
    for act in ["git commit -q --allow-empty -m x", "git checkout -q -b other", "git checkout -q --detach"] {
        let world = World::with(&[("a", "a\n")]);
        world
            .run(&format!("name: x\nprovision: '{act}'\nnodes: [{{id: n, worktree: l, run: 'true'}}]\n"))
            .expect(3);
        assert_eq!(world.node("n")["fault"]["cause"], "tracked-changed", "{act}");
    }
}

#[test]
fn skip_if_does_not_trust_what_omg_began_to_install() {
    let world =
        world(&format!("[ -e ../first ] || {{ touch ../first; mkdir node_modules; exit 1; }}\n{INSTALL}"));
    world
        .run("name: x\nprovision: {skip_if: node_modules}\nnodes: [{id: a, worktree: l, run: 'node_modules/.bin/tool'}]\n")
        .expect(0);
    assert_eq!((calls(&world, "ci"), world.result("a")), (2, "tool ran".into()));
}

#[test]
fn readers_that_wait_together_are_not_charged_for_each_other() {
    let world = world(&format!("{IN_SYNC}{INSTALL}"));
    let verify = "success_check: {verify: {command: 'true'}}";
    let graph = format!(
        "name: x\nconcurrency: 4\nnodes:\n\
         - {{id: r1, worktree: l, access: read, run: \"{EDIT}; touch ../edited; until [ -e ../r2 ]; do sleep 0.02; done\", {verify}}}\n\
         - {{id: r2, worktree: l, access: read, run: 'touch ../r2; until [ -e ../edited ]; do sleep 0.02; done', {verify}}}\n"
    );
    world.run(&graph).expect(3);
    for id in ["r1", "r2"] {
        assert_eq!(
            (world.state(id).as_str(), world.class(id).as_str()),
            ("blocked", "workspace-provision-failed")
        );
    }
}

#[test]
fn a_failed_attempt_with_half_an_edit_keeps_its_further_attempts() {
    let world = world(&format!("{IN_SYNC}{INSTALL}"));
    let line = format!(
        "if [ $OMG_ATTEMPT = 1 ]; then {EDIT}; exit 1; fi; git checkout -q package.json; node_modules/.bin/tool"
    );
    world
        .run(&format!("name: x\nnodes:\n- {{id: a, worktree: l, retry: {{max: 1}}, run: \"{line}\"}}\n"))
        .expect(0);
    assert_eq!((world.node("a")["attempts"].as_i64(), world.result("a")), (Some(2), "tool ran".into()));
}

#[test]
fn who_left_them_at_odds_may_mend_it_in_a_later_leg() {
    let world = world(&format!("{IN_SYNC}{INSTALL}"));
    let go = world.path().join("go");
    let line = format!(
        "if [ ! -e {0} ]; then {EDIT}; else git checkout -q package.json; node_modules/.bin/tool; fi",
        go.display()
    );
    world
        .run(&format!("name: x\nnodes:\n- {{id: a, worktree: l, run: \"{line}\", success_check: {{verify: {{command: 'true'}}}}}}\n"))
        .expect(1);
    assert_eq!(world.class("a"), "lockfile-out-of-sync");
    fs::write(go, "").unwrap();
    world.omg(&["resume", "r1", "--retry-failed"]).expect(0);
    assert_eq!(world.result("a"), "tool ran");
}

#[test]
fn a_node_that_was_done_is_not_run_again_because_a_renewal_was_cut_short() {
    let world = world(&format!(
        "[ -e ../second ] && {{ touch ../renewing; sleep 7744; }}\ntouch ../second\n{INSTALL}"
    ));
    let graph = world.graph(
        "name: x\nnodes:\n\
         - {id: a, worktree: l, run: 'echo once >> $OMG_RUN_DIR/ran; rm -r node_modules'}\n\
         - {id: b, worktree: l, depends_on: [a], run: 'true'}\n",
    );
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    let beside = world.lane("l").parent().unwrap().to_path_buf();
    world.wait_for("the renewal", || beside.join("renewing").exists());
    signal(&child, rustix::process::Signal::INT);
    child.wait().unwrap();
    assert_eq!((world.state("a").as_str(), world.state("b").as_str()), ("passed", "cancelled"));
    fs::remove_file(beside.join("second")).unwrap();
    world.omg(&["resume", "r1"]).expect(0);
    assert_eq!(fs::read_to_string(world.run_dir().join("ran")).unwrap(), "once\n");
}

#[test]
fn a_command_may_put_the_tool_there_that_comes_after_it() {
    let mut world = World::with(&[("bun.lock", "x"), ("package.json", "{}")]);
    world.extra.push(("PATH".into(), format!("{}/made:/usr/bin:/bin", world.path().display()).into()));
    let made = world.path().join("made");
    let put = format!(
        "mkdir -p {0} && printf '#!/bin/sh\\\\nexit 0\\\\n' > {0}/bun && chmod +x {0}/bun",
        made.display()
    );
    world
        .run(&format!(
            "name: x\nprovision: [\"{put}\", auto]\nnodes: [{{id: a, worktree: l, run: 'true'}}]\n"
        ))
        .expect(0);
    let missing = again(
        &world,
        "name: x\nprovision: ['true', auto]\nenv: {PATH: /usr/bin:/bin}\nnodes: [{id: a, worktree: l, run: 'true'}]\n",
        "r2",
    );
    assert_eq!(missing.code, Some(3));
    assert!(missing.stdout.contains("tool-missing"), "{}", missing.stdout);
}

#[test]
fn what_a_node_put_into_an_installers_folder_survives_a_renewal_that_fails() {
    let composer = "case \"$*\" in *version*) echo 1; exit;; esac\nmkdir -p vendor/composer; echo '<?php' > vendor/autoload.php; printf '{\"packages\":[],\"dev\":true,\"dev-package-names\":[]}' > vendor/composer/installed.json\n[ -e ../again ] && { rm ../again; echo 'curl error 6'; exit 1; }; true";
    let world = World::with(&[("composer.lock", r#"{"packages":[],"packages-dev":[]}"#)]);
    world.tool("composer", composer);
    let graph = "name: x\nnodes:\n\
        - {id: a, worktree: l, run: 'mkdir vendor/mine; echo work > vendor/mine/work; echo >> composer.lock; touch ../again'}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'cat vendor/mine/work'}\n";
    world.run(graph).expect(0);
    assert_eq!((world.result("b"), world.events_named("provision.failed").len()), ("work".into(), 1));
}

#[test]
fn what_a_person_put_into_a_kept_lane_is_not_a_failed_installers() {
    let world = World::with(&[("a", "a\n")]);
    let graph = "name: x\nprovision: {command: 'test ! -e ../broken', inputs: [a]}\nnodes:\n\
        - {id: a, worktree: l, run: 'echo 2 > a; touch ../broken'}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'cat deps/mine vendor/v'}\n";
    world.run(graph).expect(3);
    let lane = world.lane("l");
    for (folder, file) in [("deps", "mine"), ("vendor", "v")] {
        fs::create_dir(lane.join(folder)).unwrap();
        fs::write(lane.join(folder).join(file), "somebody's\n").unwrap();
    }
    fs::remove_file(lane.parent().unwrap().join("broken")).unwrap();
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(0);
    assert_eq!(world.result("b"), "somebody's\nsomebody's");
}

#[test]
fn a_mirror_goes_through_no_link() {
    let world = World::with(&[("x", "1")]);
    let outside = world.path().join("outside");
    fs::create_dir(&outside).unwrap();
    world.shell(&format!("ln -s {} a && git add a && git commit -q -m link", outside.display()));
    world
        .run("name: x\nprovision: {command: 'true', receipt_file: a/b/receipt}\nnodes: [{id: n, worktree: l, run: 'true'}]\n")
        .expect(3);
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
}

#[test]
fn a_manifest_with_a_byte_order_mark_or_that_cannot_be_read_asks_for_its_installer() {
    let marked = format!("\u{feff}{MANIFEST}");
    for text in [marked.as_str(), "{ not json"] {
        let world = World::with(&[("package.json", text), (".gitignore", "node_modules\n")]);
        npm(&world, INSTALL);
        let planned = world.omg(&[
            "run",
            &world.graph("name: x\nnodes: [{id: n, worktree: l, run: 'true'}]\n"),
            "--dry-run",
        ]);
        assert!(planned.stdout.contains("npm install --no-package-lock"), "{}", planned.stdout);
    }
}

#[test]
fn a_new_member_of_a_workspace_is_noticed() {
    let world = world(INSTALL);
    let graph = "name: x\nnodes:\n\
        - {id: a, worktree: l, run: 'mkdir -p packages/n; echo {} > packages/n/package.json; git add packages'}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'true'}\n";
    world.run(graph).expect(0);
    assert_eq!(calls(&world, "ci"), 2);
    let stale = world.events_named("provision.stale")[0]["reason"].to_string();
    assert!(stale.contains("packages/n/package.json"), "{stale}");
}

#[test]
fn an_edit_behind_a_linked_lockfile_is_noticed() {
    let world =
        World::with(&[("package.json", MANIFEST), ("locks/npm", LOCK), (".gitignore", "node_modules\n")]);
    world.shell("ln -s locks/npm package-lock.json && git add -A && git commit -q -m link");
    npm(&world, INSTALL);
    let graph = "name: x\nnodes:\n\
        - {id: a, worktree: l, run: 'echo >> locks/npm'}\n- {id: b, worktree: l, depends_on: [a], run: 'true'}\n";
    world.run(graph).expect(0);
    assert_eq!(calls(&world, "ci"), 2);
}

#[test]
fn what_a_command_made_is_made_again_once_all_of_it_is_gone() {
    let world = World::with(&[(".gitignore", "gen\n")]);
    let graph = "name: x\nprovision: 'mkdir -p gen && echo made > gen/it && echo x >> ../times'\nnodes:\n\
        - {id: a, worktree: l, run: 'git clean -fdxq'}\n- {id: b, worktree: l, depends_on: [a], run: 'cat gen/it'}\n";
    world.run(graph).expect(0);
    assert_eq!(world.result("b"), "made");
}

#[test]
fn hooks_that_are_switched_off_by_their_folder_stop_nobody() {
    let world = World::new();
    world.shell("git config core.hooksPath /dev/null");
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(0);
}

#[test]
fn an_installation_that_was_killed_is_told_of_where_it_left_a_hooks_path() {
    let world = world(&format!(
        "git config core.hooksPath .evil; [ -e ../first ] || {{ touch ../first; sleep 7755; }}\n{INSTALL}"
    ));
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n");
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_for("the installer", || world.lane("l").parent().unwrap().join("first").exists());
    signal(&child, rustix::process::Signal::KILL);
    child.wait().unwrap();
    let resumed = world.omg(&["resume", "r1"]).expect(0);
    assert!(resumed.stderr.contains("git config --unset core.hooksPath"), "{}", resumed.stderr);
    assert!(!world.repo().join(".git/omg-hooks-path").exists());
}

#[test]
fn a_link_that_an_installer_makes_is_no_work() {
    let world = world(&format!("{INSTALL}ln -s node_modules/.bin/tool tool"));
    world.run("name: x\nnodes: [{id: a, worktree: l, run: './tool'}]\n").expect(0);
    assert_eq!(world.lane_view("l")["cleanup"]["branch"], "deleted");
}

#[test]
fn what_a_failed_first_try_left_is_no_work_either() {
    let world =
        world(&format!("echo gen > gen.txt; [ -e ../first ] || {{ touch ../first; exit 1; }}\n{INSTALL}"));
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(0);
    assert_eq!(world.lane_view("l")["cleanup"]["branch"], "deleted");
}

#[test]
fn words_of_a_full_disk_in_a_tests_name_are_no_full_disk() {
    let world = World::new();
    world
        .run("name: x\nprovision: \"echo 'ok 12 - handles ENOSPC'\"\nnodes: [{id: a, worktree: l, run: 'true'}]\n")
        .expect(0);
}

#[test]
fn what_a_node_left_running_is_named_also_where_its_lane_is_looked_at() {
    let world = world(INSTALL);
    world
        .run("name: x\nnodes:\n- {id: a, worktree: l, run: 'sleep 7766 & true'}\n- {id: b, worktree: l, depends_on: [a], run: 'true'}\n")
        .expect(0);
    let finished = &world.events_named("node.attempt.finished")[0];
    assert!(finished["leftovers"].to_string().contains("sleep"), "{finished}");
}

#[test]
fn roots_that_are_not_there_are_named() {
    let world = world(INSTALL);
    let graph =
        world.graph("name: x\nprovision: {roots: [wbe]}\nnodes: [{id: a, worktree: l, run: 'true'}]\n");
    let ended = world.omg(&["run", &graph, "--dry-run"]).expect(0);
    assert!(ended.stdout.contains("root `wbe` has no marker file"), "{}", ended.stdout);
}

#[test]
fn an_overlay_copy_is_no_nodes_edit() {
    let world = World::with(&[
        ("package.json", MANIFEST),
        ("package-lock.json", LOCK),
        (".gitignore", "node_modules\n"),
    ]);
    npm(&world, &format!("{IN_SYNC}{INSTALL}"));
    world.write("package.json", &MANIFEST.replace("\"dep\"", "\"other\":\"1\",\"dep\""));
    world.run("name: x\noverlay: [package.json]\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(3);
    let node = world.node("a");
    assert_eq!(node["fault"]["cause"], "lock-mismatch");
    assert!(!node["fault"]["detail"].to_string().contains("nodes changed"), "{node}");
}

#[test]
fn a_made_file_with_a_name_that_is_no_text_stops_nobody() {
    let world = world(&format!("{INSTALL}touch \"$(printf 'gen\\377')\" gen-ok"));
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(0);
}

#[test]
fn a_node_may_take_up_a_list_of_requirements_that_another_includes() {
    let world = World::with(&[
        ("requirements.txt", "-r reqs/base.txt\n"),
        ("reqs/base.txt", ""),
        (".gitignore", ".venv\n"),
    ]);
    let graph = "name: x\nnodes:\n\
        - {id: a, worktree: l, run: 'echo \"# more\" >> reqs/base.txt'}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'true'}\n";
    world.tool("python3", "case \"$*\" in *--version*) echo Python 3; exit;; esac\nmkdir -p .venv/bin; echo home = /usr/bin > .venv/pyvenv.cfg; printf '#!/bin/sh\\nexit 0\\n' > .venv/bin/python; chmod +x .venv/bin/python");
    world.run(graph).expect(0);
    assert_eq!(world.events_named("provision.performed").len(), 2);
}

#[test]
fn a_node_that_only_comes_after_is_not_charged_for_what_another_left_at_odds() {
    let world = world(&format!("{IN_SYNC}{INSTALL}"));
    let graph = format!(
        "name: x\non_fail: continue\nnodes:\n\
         - {{id: a, worktree: l, run: \"{EDIT}; exit 1\"}}\n\
         - {{id: b, worktree: l, depends_on: [{{id: a, on: finished}}], retry: {{max: 2}}, run: 'true'}}\n"
    );
    world.run(&graph).expect(1);
    assert_eq!((world.class("a").as_str(), world.state("b").as_str()), ("nonzero-exit", "blocked"));
    assert_eq!(
        (world.class("b").as_str(), world.node("b")["attempts"].as_i64()),
        ("workspace-provision-failed", Some(0))
    );
    assert_eq!(calls(&world, "ci"), 2);
}

#[test]
fn who_left_them_at_odds_and_broke_what_was_installed_fails_at_once() {
    let world = world(&format!("{IN_SYNC}{INSTALL}"));
    let line = format!("{EDIT}; rm -r node_modules");
    world
        .run(&format!("name: x\nnodes:\n- {{id: a, worktree: l, retry: {{max: 2}}, run: \"{line}\", success_check: {{verify: {{command: 'true'}}}}}}\n"))
        .expect(1);
    let node = world.node("a");
    assert_eq!(
        (node["state"].as_str(), node["fault"]["class"].as_str()),
        (Some("failed"), Some("lockfile-out-of-sync"))
    );
    assert_eq!((node["attempts"].as_i64(), calls(&world, "ci")), (Some(1), 3));
}

#[test]
fn a_hooks_path_that_the_users_checkout_has_is_the_users() {
    let world = world(&format!("git config core.hooksPath .users\n{INSTALL}"));
    fs::create_dir(world.repo().join(".users")).unwrap();
    let ended = world.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(0);
    assert!(ended.stderr.contains("core.hooksPath changed for every worktree"), "{}", ended.stderr);
    assert_eq!(world.shell("git config core.hooksPath"), ".users");
}

#[test]
fn a_mirror_replaces_nothing() {
    let world = World::with(&[(".gitignore", ".env\n")]);
    world.write(".env", "SECRET=1\n");
    let graph = "name: x\noverlay: [.env]\nprovision: {command: 'true', receipt_file: .env}\nnodes: [{id: a, worktree: l, run: 'true'}]\n";
    world.run(graph).expect(3);
    assert_eq!(world.node("a")["fault"]["cause"], "not-isolated");
    // It was not edited, so it goes with the lane.
    assert_eq!(world.lane_view("l")["cleanup"]["branch"], "deleted");
}

#[test]
fn a_lane_that_is_not_there_any_more_is_not_dispatched_into() {
    let world = world(INSTALL);
    let graph = "name: x\nnodes:\n\
        - {id: a, worktree: l, run: 'mv $OMG_LANE_PATH $OMG_LANE_PATH-moved; ln -s $OMG_LANE_PATH-moved $OMG_LANE_PATH'}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'touch $OMG_RUN_DIR/ran'}\n";
    world.run(graph).expect(3);
    assert!(!world.run_dir().join("ran").exists());
    assert_eq!(world.state("b"), "blocked");
}

#[test]
fn what_an_installer_changed_is_held_against_the_next_leg_too_until_somebody_mends_it() {
    let world = World::with(&[("a", "a\n"), ("b", "b\n")]);
    let graph = "name: x\nprovision: {command: 'if [ -e ../begun ]; then [ -e ../good ] || echo bad > a; fi; touch ../begun', inputs: [b]}\nnodes:\n\
        - {id: n, worktree: l, run: 'echo 2 > b'}\n- {id: m, worktree: l, depends_on: [n], run: 'true'}\n";
    world.run(graph).expect(3);
    assert_eq!(world.node("m")["fault"]["cause"], "tracked-changed");
    fs::write(world.lane("l").parent().unwrap().join("good"), "").unwrap();
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(3);
    assert_eq!(world.node("m")["fault"]["cause"], "tracked-changed", "nobody has touched what it left");
    fs::write(world.lane("l").join("a"), "mended\n").unwrap();
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(0);
    assert_eq!(fs::read_to_string(world.lane("l").join("a")).unwrap(), "mended\n");
}

#[test]
fn a_person_may_bring_manifest_and_lockfile_into_line_in_a_blocked_lane() {
    let world = world(&format!("{IN_SYNC}{INSTALL}"));
    let graph = format!(
        "name: x\non_fail: continue\nnodes:\n- {{id: a, worktree: l, run: \"{EDIT}; rm -r node_modules; exit 1\"}}\n\
         - {{id: b, worktree: l, depends_on: [{{id: a, on: finished}}], run: 'node_modules/.bin/tool'}}\n"
    );
    world.run(&graph).expect(1);
    assert_eq!(world.state("b"), "blocked");
    world.shell(&format!("cd {} && git checkout -q package.json", world.lane("l").display()));
    world.omg(&["resume", "r1", "--retry-blocked"]);
    assert_eq!((world.state("b"), world.result("b")), ("passed".into(), "tool ran".into()));
}

/// A lane in which a node worked, whose renewal changes a tracked file and then does what `end` says, until
/// `good` lies beside the lane.
fn renewed_badly(end: &str) -> String {
    format!(
        "name: x\nprovision:\n  inputs: [b]\n  command: 'if [ -e ../begun -a ! -e ../good ]; then echo bad > a; touch ../bad; {end}; fi; touch ../begun'\n\
         nodes:\n- {{id: n, worktree: l, run: 'echo 2 > b'}}\n- {{id: m, worktree: l, depends_on: [n], run: 'true'}}\n"
    )
}

#[test]
fn what_a_failed_installer_changed_is_held_against_the_next_leg_too() {
    let world = World::with(&[("a", "a\n"), ("b", "b\n")]);
    world.run(&renewed_badly("exit 1")).expect(3);
    fs::write(world.lane("l").parent().unwrap().join("good"), "").unwrap();
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(3);
    assert_eq!(world.node("m")["fault"]["cause"], "tracked-changed");
    fs::write(world.lane("l").join("a"), "mended\n").unwrap();
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(0);
    assert_eq!(fs::read_to_string(world.lane("l").join("a")).unwrap(), "mended\n");
}

#[test]
fn what_a_killed_installer_changed_is_held_against_the_next_leg_too() {
    let world = World::with(&[("a", "a\n"), ("b", "b\n")]);
    let graph = world.graph(&renewed_badly("sleep 1000"));
    let child = world.start(&["run", &graph, "--run-id", "r1"]);
    let beside = |name: &str| world.lane("l").parent().unwrap().join(name);
    world.wait_for("the harm", || beside("bad").exists());
    drop(child);
    fs::write(beside("good"), "").unwrap();
    world.omg(&["resume", "r1"]).expect(3);
    assert_eq!(world.node("m")["fault"]["cause"], "tracked-changed");
    assert_eq!(fs::read_to_string(world.lane("l").join("a")).unwrap(), "bad\n");
}

#[test]
fn a_lane_with_an_edited_file_whose_name_is_no_text_is_renewed() {
    let world = World::with(&[("b", "b\n")]);
    world.shell("cp b \"$(printf 'b\\377')\" && git add -A && git commit -qm more");
    let edit = "for file in b*; do echo 2 > \"$file\"; done";
    let graph = format!(
        "name: x\nprovision: {{command: 'true', inputs: [b]}}\nnodes:\n- {{id: n, worktree: l, run: '{edit}'}}\n- {{id: m, worktree: l, depends_on: [n], run: 'true'}}\n"
    );
    world.run(&graph).expect(0);
    assert_eq!(world.events_named("provision.stale").len(), 1);
}
