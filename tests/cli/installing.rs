//! Installers that do what they should, and those that don't: what counts as an installation.

use std::fs;

use crate::support::{World, signal};

pub const MANIFEST: &str = r#"{"name":"x","version":"1.0.0","dependencies":{"dep":"1.0.0"}}"#;
pub const LOCK: &str = r#"{"name":"x","lockfileVersion":3,"packages":{"":{"name":"x","dependencies":{"dep":"1.0.0"}},"node_modules/dep":{"version":"1.0.0","integrity":"sha512-x"}}}"#;
pub const FILES: &[(&str, &str)] =
    &[("package.json", MANIFEST), ("package-lock.json", LOCK), (".gitignore", "node_modules\n")];

/// What `npm ci` leaves behind.
pub const INSTALL: &str = r#"rm -rf node_modules
mkdir -p node_modules/dep node_modules/.bin
printf '{"name":"dep","version":"1.0.0"}' > node_modules/dep/package.json
printf '#!/bin/sh\necho tool ran\n' > node_modules/.bin/tool
chmod +x node_modules/.bin/tool
printf '{"lockfileVersion":3,"packages":{"node_modules/dep":{"version":"1.0.0"}}}' > node_modules/.package-lock.json
"#;

/// Its check of the manifest against the lockfile.
pub const IN_SYNC: &str = r#"if grep -q '"other"' package.json && ! grep -q '"other"' package-lock.json; then
    echo 'npm error code EUSAGE'
    echo 'npm error `npm ci` can only install packages when your package.json and package-lock.json are in sync.'
    exit 1
fi
"#;

/// A repository locked by npm, with a stand-in for npm that notes its calls and does `does` for `ci`.
fn world(does: &str) -> World {
    let world = World::with(FILES);
    npm(&world, does);
    world
}

pub fn npm(world: &World, does: &str) {
    let log = world.path().join("npm.log");
    let log = log.display();
    world.tool(
        "npm",
        &format!("echo \"$PWD $*\" >> {log}\n[ \"$1\" = --version ] && {{ cat {log}.version 2>/dev/null || echo 11.0.0; exit; }}\n{does}"),
    );
}

pub fn calls(world: &World, word: &str) -> usize {
    let log = fs::read_to_string(world.path().join("npm.log")).unwrap_or_default();
    log.lines().filter(|line| line.ends_with(&format!(" {word}"))).count()
}

/// Runs a graph once more, as another run.
pub fn again(world: &World, text: &str, id: &str) -> crate::support::Ended {
    world.omg(&["run", &world.graph(text), "--run-id", id])
}

const ONE: &str = "name: x\nnodes: [{id: a, worktree: l, retry: {max: 2}, run: 'node_modules/.bin/tool'}]\n";

/// Runs [`ONE`] with an installer that misbehaves, and checks what it is blamed for, and how often it ran.
#[track_caller]
fn check(does: &str, cause: &str, tries: usize) -> World {
    let world = world(does);
    world.run(ONE).expect(3);
    let node = world.node("a");
    assert_eq!(
        (node["state"].as_str(), node["attempts"].as_i64(), node["fault"]["class"].as_str()),
        (Some("blocked"), Some(0), Some("workspace-provision-failed"))
    );
    assert_eq!(node["fault"]["cause"], cause, "{}", node["fault"]["detail"]);
    let failed = world.events_named("provision.failed");
    assert_eq!(failed.len(), tries, "{failed:?}");
    assert_eq!(failed[0]["cause"], cause);
    assert_eq!(calls(&world, "ci"), tries);
    assert!(!world.run_dir().join("lanes/l/receipt.json").exists(), "a failure left a receipt");
    world
}

#[test]
fn an_installer_that_does_its_work_is_believed() {
    let world = world(INSTALL);
    world.run(ONE).expect(0);
    assert_eq!(world.result("a"), "tool ran");
    assert_eq!(world.lane_view("l")["cleanup"]["branch"], "deleted");
}

#[test]
fn exit_0_alone_proves_nothing() {
    check("exit 0", "incomplete", 2);
}

#[test]
fn a_folder_alone_proves_nothing() {
    check("mkdir -p node_modules/dep", "incomplete", 2);
}

#[test]
fn a_hidden_lockfile_that_lists_what_is_not_there_proves_nothing() {
    let world = check(&format!("{INSTALL}rm -r node_modules/dep"), "incomplete", 2);
    let detail = world.node("a")["fault"]["detail"].to_string();
    assert!(detail.contains("dep"), "{detail}");
}

#[test]
fn a_full_disk_is_never_a_success() {
    check(
        &format!(
            "{INSTALL}echo 'npm warn tar TAR_ENTRY_ERROR ENOSPC: no space left on device, write'; : > node_modules/dep/package.json"
        ),
        "disk-full",
        1,
    );
    check(&format!("{INSTALL}: > node_modules/dep/package.json"), "incomplete", 2);
}

#[test]
fn an_exit_code_of_a_script_within_is_not_a_missing_tool() {
    check("echo 'npm error command failed'; echo 'sh: 1: tsc: not found'; exit 127", "script-failed", 2);
    check("exit 127", "tool-missing", 1);
}

#[test]
fn one_that_hangs_is_ended_with_all_it_started() {
    let world = World::with(FILES);
    npm(&world, "(setsid sleep 7711 &); sleep 7712");
    let graph = "name: x\nprovision: {command: [auto], timeout: 500ms, retry: never}\nnodes: [{id: a, worktree: l, run: 'true'}]\n";
    world.run(graph).expect(3);
    assert_eq!(world.node("a")["fault"]["cause"], "timeout");
    assert_eq!(world.alive("sleep 771"), Vec::<u32>::new());
}

#[test]
fn a_flood_of_output_is_kept_out_of_the_journal() {
    let world = world(&format!("head -c 100000000 /dev/zero | tr '\\0' x\n{INSTALL}"));
    world.run(ONE).expect(0);
    let journal = fs::metadata(world.run_dir().join("events.jsonl")).unwrap().len();
    assert!(journal < 100_000, "{journal}");
    let log = fs::metadata(world.run_dir().join("lanes/l/provision-1.log")).unwrap().len();
    assert!(log >= 100_000_000, "{log}");
}

#[test]
fn one_that_changes_tracked_files_has_a_cause_of_its_own() {
    let world = check(&format!("{INSTALL}echo ' ' >> package-lock.json"), "tracked-changed", 1);
    let detail = world.node("a")["fault"]["detail"].to_string();
    assert!(detail.contains("package-lock.json"), "{detail}");
    // Nothing is put back: what it did is there to be looked at.
    assert!(
        fs::read_to_string(world.lane("l").join("package-lock.json")).unwrap().ends_with(' ')
            || fs::read_to_string(world.lane("l").join("package-lock.json")).unwrap().ends_with(" \n")
    );
}

#[test]
fn one_that_dies_the_first_time_is_tried_once_more_on_clean_ground() {
    let half = "if [ ! -e ../first ]; then touch ../first; mkdir -p node_modules/half; kill -9 $$; fi\n[ -e node_modules ] && touch ../dirty\n";
    let world = world(&format!("{half}{INSTALL}"));
    world.run(ONE).expect(0);
    let failed = world.events_named("provision.failed");
    assert_eq!(
        (failed.len(), failed[0]["cause"].as_str(), &failed[0]["exit_code"]),
        (1, Some("killed"), &serde_json::Value::Null)
    );
    assert!(!world.lane("l").join("../dirty").exists(), "the second try met what the first had left");
    assert_eq!(world.node("a")["attempts"], 1);
}

#[test]
fn what_a_killed_run_left_half_made_is_not_trusted_by_the_next_leg() {
    let go = "if [ ! -e ../first ]; then mkdir -p node_modules/half; touch ../first; sleep 7733; fi\n[ -e node_modules ] && touch ../dirty\n";
    let world = world(&format!("{go}{INSTALL}"));
    let graph = world.graph(ONE);
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_for("the installer", || world.lane("l").parent().unwrap().join("first").exists());
    signal(&child, rustix::process::Signal::KILL);
    child.wait().unwrap();
    world.omg(&["resume", "r1"]).expect(0);
    assert!(!world.lane("l").parent().unwrap().join("dirty").exists());
    assert_eq!(world.result("a"), "tool ran");
    assert_eq!(world.alive("sleep 7733"), Vec::<u32>::new());
}

#[test]
fn a_hooks_path_for_every_worktree_is_put_back_and_said() {
    for (before, after) in [("", ""), ("git config core.hooksPath mine", "mine")] {
        let world = world(&format!("{INSTALL}git config core.hooksPath .husky/_"));
        world.shell(&format!("true; {before}"));
        let ended = world.run(ONE).expect(0);
        assert!(
            ended.stderr.contains("core.hooksPath .husky/_") && ended.stderr.contains("put back"),
            "{}",
            ended.stderr
        );
        assert_eq!(world.shell("git config core.hooksPath || true"), after);
        let notes = world.events_named("provision.performed")[0]["notes"].to_string();
        assert!(notes.contains("core.hooksPath"), "{notes}");
    }
}

#[test]
fn any_other_shared_configuration_is_named_and_left() {
    let world = world(&format!(
        "{INSTALL}git config demo.key value; h=$(git rev-parse --git-common-dir)/hooks; mkdir -p $h; echo '#!/bin/sh' > $h/pre-push"
    ));
    let ended = world.run(ONE).expect(0);
    assert!(
        ended.stderr.contains("the setting demo.key") && ended.stderr.contains("the hook pre-push"),
        "{}",
        ended.stderr
    );
    assert_eq!(world.shell("git config demo.key"), "value");
}

#[test]
fn installers_of_hooks_are_told_not_to() {
    let world = world(&format!("{INSTALL}echo \"$HUSKY $LEFTHOOK $npm_config_include\" > ../seen"));
    world.run(ONE).expect(0);
    assert_eq!(fs::read_to_string(world.lane("l").parent().unwrap().join("seen")).unwrap(), "0 0 dev\n");
    let own = World::with(FILES);
    npm(&own, &format!("{INSTALL}echo \"$HUSKY $npm_config_include\" > ../seen"));
    own.run("name: x\nenv: {HUSKY: '1', npm_config_include: optional}\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(0);
    assert_eq!(fs::read_to_string(own.lane("l").parent().unwrap().join("seen")).unwrap(), "1 optional\n");
}

#[test]
fn a_link_in_the_place_of_a_dependency_folder_is_not_followed() {
    let world = world(INSTALL);
    let graph = "name: x\nnodes:\n\
        - {id: a, worktree: one, run: 'node_modules/.bin/tool'}\n\
        - {id: b, worktree: two, depends_on: [a], run: 'rm -rf node_modules; ln -s {{ lanes.one.path }}/node_modules node_modules'}\n\
        - {id: c, worktree: two, depends_on: [b], run: 'test ! -L node_modules && node_modules/.bin/tool'}\n\
        - {id: d, worktree: one, depends_on: [c], run: 'node_modules/.bin/tool'}\n";
    world.run(graph).expect(0);
    assert_eq!((world.result("c"), world.result("d")), ("tool ran".into(), "tool ran".into()));
    assert_eq!(calls(&world, "ci"), 3);
    let tracked = World::with(&[("package.json", MANIFEST), ("package-lock.json", LOCK)]);
    npm(&tracked, INSTALL);
    let outside = tracked.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "").unwrap();
    tracked
        .shell(&format!("ln -s {} node_modules && git add -A && git commit -q -m link", outside.display()));
    tracked.run(ONE).expect(3);
    assert_eq!(tracked.node("a")["fault"]["cause"], "not-isolated");
    assert!(outside.join("kept").exists());
}

#[test]
fn node_modules_above_the_lane_is_a_fault_before_the_lane_is_made() {
    let world = world(INSTALL);
    fs::create_dir(world.path().join("node_modules")).unwrap();
    world.run(ONE).expect(3);
    assert_eq!(world.node("a")["fault"]["cause"], "not-isolated");
    assert_eq!((calls(&world, "ci"), world.branches().len()), (0, 1));
    assert!(!world.event_names().contains(&"lane.acquire.requested".to_string()));
}

#[test]
fn a_missing_tool_is_found_before_its_lane_is_made_and_others_go_on() {
    let mut world = World::with(&[("bun.lock", "x"), ("package.json", MANIFEST)]);
    // Nobody has a bun there.
    world.extra.push(("PATH".into(), "/usr/bin:/bin".into()));
    let graph = "name: x\nlanes: {free: {provision: none}}\nnodes:\n\
        - {id: a, worktree: l, run: 'true'}\n\
        - {id: b, worktree: free, run: 'true'}\n";
    world.run(graph).expect(3);
    assert_eq!((world.state("a").as_str(), world.state("b").as_str()), ("blocked", "passed"));
    let failed = &world.events_named("provision.failed")[0];
    assert_eq!(
        (failed["cause"].as_str(), &failed["exit_code"]),
        (Some("tool-missing"), &serde_json::Value::Null)
    );
    let acquired: Vec<String> =
        world.events_named("lane.acquire.requested").iter().map(|event| event["lane"].to_string()).collect();
    assert_eq!(acquired, ["\"free\""]);
    assert_eq!(world.events_named("provision.failed").len(), 1);
}

#[test]
fn a_node_that_edits_both_gets_its_tree_renewed_before_verify() {
    let world = world(&format!(
        "{IN_SYNC}{INSTALL}grep -q other package.json && mkdir -p node_modules/other && echo '{{\"name\":\"other\",\"version\":\"1.0.0\"}}' > node_modules/other/package.json; true"
    ));
    let both =
        "sed -i 's/\"dep\":\"1.0.0\"/\"dep\":\"1.0.0\",\"other\":\"1.0.0\"/' package.json package-lock.json";
    let graph = format!(
        "name: x\nnodes:\n- {{id: a, worktree: l, run: \"{}\", success_check: {{verify: {{command: 'test -d node_modules/other'}}}}}}\n",
        both.replace('"', "\\\"")
    );
    world.run(&graph).expect(0);
    assert_eq!((calls(&world, "ci"), world.node("a")["attempts"].as_i64()), (2, Some(1)));
}

#[test]
fn a_node_that_edits_only_the_manifest_gets_its_own_fault() {
    let edit = "sed -i 's/}}/,\\\"other\\\":\\\"1.0.0\\\"}}/' package.json";
    for later in ["", "- {id: z, worktree: l, depends_on: [a], run: 'true'}\n"] {
        for verify in ["", ", success_check: {verify: {command: 'true'}}"] {
            let world = world(&format!("{IN_SYNC}{INSTALL}"));
            let graph =
                format!("name: x\nnodes:\n- {{id: a, worktree: l, run: \"{edit}\"{verify}}}\n{later}");
            world.run(&graph).expect(1);
            let node = world.node("a");
            assert_eq!(
                (
                    node["state"].as_str(),
                    node["fault"]["class"].as_str(),
                    node["fault"]["scope"].as_str(),
                    node["attempts"].as_i64()
                ),
                (Some("failed"), Some("lockfile-out-of-sync"), Some("task"), Some(1)),
                "{later}{verify}"
            );
        }
    }
}

#[test]
fn a_retry_may_mend_what_the_attempt_before_left_at_odds() {
    let world = world(&format!("{IN_SYNC}{INSTALL}"));
    let edit = "if [ $OMG_ATTEMPT = 1 ]; then sed -i 's/}}/,\\\"other\\\":\\\"1.0.0\\\"}}/' package.json; else git checkout -q package.json; node_modules/.bin/tool; fi";
    let graph = format!(
        "name: x\nnodes:\n- {{id: a, worktree: l, retry: {{max: 1}}, run: \"{edit}\", success_check: {{verify: {{command: 'node_modules/.bin/tool'}}}}}}\n"
    );
    world.run(&graph).expect(0);
    assert_eq!(world.node("a")["attempts"], 2);
    assert_eq!(world.result("a"), "tool ran");
}

#[test]
fn manifest_and_lockfile_at_odds_from_the_start_are_nobodys_fault() {
    let manifest = MANIFEST.replace("\"dep\"", "\"other\":\"1\",\"dep\"");
    let world = World::with(&[
        ("package.json", manifest.as_str()),
        ("package-lock.json", LOCK),
        (".gitignore", "node_modules\n"),
    ]);
    npm(&world, &format!("{IN_SYNC}{INSTALL}"));
    world.run(ONE).expect(3);
    let node = world.node("a");
    assert_eq!(
        (node["fault"]["class"].as_str(), node["fault"]["cause"].as_str()),
        (Some("workspace-provision-failed"), Some("lock-mismatch"))
    );
    assert_eq!(calls(&world, "ci"), 1);
}

#[test]
fn an_install_within_verify_neither_breaks_nor_stales_the_receipt() {
    let world = world(&format!("[ \"$1\" = test ] && exit 0\n{IN_SYNC}{INSTALL}"));
    let verify = "success_check: {verify: {command: 'npm ci && npm test'}}";
    let graph = format!(
        "name: x\nnodes:\n- {{id: a, worktree: l, run: 'true', {verify}}}\n- {{id: b, worktree: l, depends_on: [a], run: 'node_modules/.bin/tool', {verify}}}\n"
    );
    world.run(&graph).expect(0);
    assert_eq!(world.events_named("provision.stale").len(), 0);
    assert_eq!((world.events_named("provision.performed").len(), calls(&world, "ci")), (1, 3));
}

#[test]
fn what_is_gone_from_the_installation_is_renewed() {
    for harm in ["rm -rf node_modules/dep", "rm -rf node_modules", ": > node_modules/dep/package.json"] {
        let world = world(INSTALL);
        let graph = format!(
            "name: x\nnodes:\n- {{id: a, worktree: l, run: '{harm}'}}\n- {{id: b, worktree: l, depends_on: [a], run: 'node_modules/.bin/tool && test -s node_modules/dep/package.json'}}\n"
        );
        world.run(&graph).expect(0);
        assert_eq!((world.events_named("provision.stale").len(), calls(&world, "ci")), (1, 2), "{harm}");
    }
}

#[test]
fn a_renewal_waits_for_readers() {
    let world = world(&format!("[ -e ../reading ] && touch ../under-a-reader\n{INSTALL}"));
    let graph = "name: x\nconcurrency: 4\nnodes:\n\
        - {id: r1, worktree: l, access: read, run: 'until [ -e ../reading ]; do sleep 0.02; done; echo {} > node_modules/dep/package.json', success_check: {verify: {command: 'node_modules/.bin/tool'}}}\n\
        - {id: r2, worktree: l, access: read, run: 'touch ../reading; until [ -e ../stale ]; do sleep 0.02; done; rm ../reading'}\n";
    let graph = world.graph(graph);
    let mut child = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_for("the stale lane", || world.event_names().contains(&"provision.stale".to_string()));
    fs::write(world.lane("l").parent().unwrap().join("stale"), "").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!world.lane("l").parent().unwrap().join("under-a-reader").exists());
    assert_eq!(
        (world.state("r1"), world.state("r2"), calls(&world, "ci")),
        ("passed".into(), "passed".into(), 2)
    );
}

#[test]
fn a_receipt_that_was_not_written_by_omg_does_not_count() {
    let receipt = "$OMG_RUN_DIR/lanes/l/receipt.json";
    let forge = format!(
        "sed -i 's/\"duration_ms\":[0-9]*/\"duration_ms\":1/' {receipt}; sed -i 's/\"exit_code\":0/\"exit_code\": 0/' {receipt}"
    );
    let copy = format!("cp $OMG_RUN_DIR/lanes/m/receipt.json {receipt}");
    for act in [forge, copy, format!("rm {receipt}")] {
        let world = world(INSTALL);
        let graph = format!(
            "name: x\nnodes:\n- {{id: m, worktree: m, run: 'true'}}\n- {{id: a, worktree: l, depends_on: [m], run: \"{}\"}}\n- {{id: b, worktree: l, depends_on: [a], run: 'node_modules/.bin/tool'}}\n",
            act.replace('"', "\\\"")
        );
        world.run(&graph).expect(0);
        assert_eq!(calls(&world, "ci"), 3, "{act}");
    }
}

#[test]
fn a_receipt_that_is_committed_gives_no_later_lane_anything() {
    let world = world(INSTALL);
    let graph = "name: x\nprovision: {receipt_file: .provisioned}\nnodes:\n\
        - {id: a, worktree: l, run: 'cp .provisioned mirror; cp $OMG_RUN_DIR/lanes/l/receipt.json receipt.json; git add -f mirror receipt.json && git commit -q -m receipts'}\n";
    world.run(graph).expect(0);
    world.shell("git merge -q omg/r1/l && git mv mirror .provisioned && git commit -q -m mirror");
    again(&world, graph, "r2").expect(3);
    assert!(
        world.omg(&["show", "r2"]).stdout.contains("tracked by git"),
        "{}",
        world.omg(&["show", "r2"]).stdout
    );
    world.shell("git rm -q .provisioned && git commit -q -m gone");
    again(&world, "name: x\nnodes: [{id: a, worktree: l, run: 'node_modules/.bin/tool'}]\n", "r3").expect(0);
    assert_eq!(calls(&world, "ci"), 3);
}

#[test]
fn a_mirror_is_one_line_and_its_loss_is_a_stale_lane() {
    let world = world(INSTALL);
    let graph = "name: x\nprovision: {receipt_file: .provisioned}\nnodes:\n\
        - {id: a, worktree: l, run: 'cat .provisioned; rm .provisioned'}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'test -s .provisioned'}\n";
    world.run(graph).expect(0);
    let mirror: serde_json::Value = serde_json::from_str(&world.result("a")).unwrap();
    assert_eq!((mirror["cmd"].as_str(), mirror["exit_code"].as_i64()), (Some("npm ci"), Some(0)));
    assert_eq!(calls(&world, "ci"), 2);
    // It is nobody's work.
    assert_eq!(world.lane_view("l")["cleanup"]["branch"], "deleted");
}

#[test]
fn skip_if_trusts_a_folder_that_is_there() {
    let world = World::with(&[FILES, &[("vendored/x", "1")]].concat());
    npm(&world, INSTALL);
    world
        .run("name: x\nprovision: {skip_if: vendored}\nnodes: [{id: a, worktree: l, run: 'true'}]\n")
        .expect(0);
    assert_eq!(calls(&world, "ci"), 0);
    let performed = &world.events_named("provision.performed")[0];
    assert!(performed["reason"].to_string().contains("vendored"), "{performed}");
    again(
        &world,
        "name: x\nprovision: {skip_if: not-there}\nnodes: [{id: a, worktree: l, run: 'true'}]\n",
        "r2",
    )
    .expect(0);
    assert_eq!(calls(&world, "ci"), 1);
}

#[test]
fn versions_are_read_once_a_leg_and_a_new_one_is_a_new_installation() {
    let world = world(INSTALL);
    let graph = "name: x\nnodes:\n\
        - {id: a, worktree: l, run: 'echo work > work'}\n\
        - {id: m, worktree: m, run: 'true'}\n\
        - {id: n, worktree: n, run: 'true'}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'test -e {go}'}\n";
    let go = world.path().join("go");
    let graph = graph.replace("{go}", &go.display().to_string());
    world.run(&graph).expect(1);
    assert_eq!((calls(&world, "--version"), calls(&world, "ci")), (1, 3));
    world.omg(&["resume", "r1", "--retry-failed"]).expect(1);
    assert_eq!(calls(&world, "ci"), 3, "the same version, the same installation");
    fs::write(world.path().join("npm.log.version"), "12.0.0\n").unwrap();
    fs::write(&go, "").unwrap();
    world.omg(&["resume", "r1", "--retry-failed"]).expect(0);
    assert_eq!(calls(&world, "ci"), 4);
}

#[test]
fn rungs_that_do_not_apply_start_no_process() {
    let world = World::with(&[("README", "x")]);
    npm(&world, INSTALL);
    world.tool("uv", &format!("echo uv >> {}", world.path().join("npm.log").display()));
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(0);
    assert!(!world.path().join("npm.log").exists());
}

#[test]
fn roots_are_installed_each_in_its_place() {
    let world = World::with(&[
        ("web/package.json", MANIFEST),
        ("web/package-lock.json", LOCK),
        (".gitignore", "node_modules\n"),
    ]);
    npm(&world, INSTALL);
    world.run("name: x\nprovision: {roots: [web]}\nnodes: [{id: a, worktree: l, run: 'web/node_modules/.bin/tool'}]\n").expect(0);
    assert_eq!(world.events_named("provision.performed")[0]["cmd"], "(cd web && npm ci)");
    assert_eq!(world.lane_view("l")["cleanup"]["branch"], "deleted");
    again(&world, "name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n", "r2").expect(0);
    assert_eq!(calls(&world, "ci"), 1, "a lockfile in a folder that is not named is not looked at");
}

#[test]
fn what_git_does_not_ignore_and_an_installation_made_is_no_work() {
    let world = World::with(&[("package.json", MANIFEST), ("package-lock.json", LOCK)]);
    npm(&world, &format!("{INSTALL}mkdir -p dist; echo built > dist/out.js"));
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'node_modules/.bin/tool'}]\n").expect(0);
    assert_eq!(world.lane_view("l")["cleanup"]["branch"], "deleted");
    assert!(!world.run_dir().join("rescued/l").exists());
    again(&world, "name: x\nnodes: [{id: a, worktree: l, run: 'echo edited >> dist/out.js'}]\n", "r2")
        .expect(0);
    let shown: serde_json::Value =
        serde_json::from_str(&world.omg(&["show", "r2", "--json"]).stdout).unwrap();
    assert_eq!(shown["lanes"][0]["cleanup"]["tree"], "kept", "what was edited is work");
}

#[test]
fn ignored_output_of_an_installation_is_rescued_only_where_it_was_edited() {
    let files = [FILES, &[("x", "")]].concat();
    let world = World::with(&files);
    world.write(".gitignore", "node_modules\ndist\n");
    world.shell("git commit -q -a -m ignore");
    npm(&world, &format!("{INSTALL}mkdir -p dist; echo built > dist/out.js"));
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(0);
    assert!(!world.run_dir().join("rescued/l").exists());
    again(&world, "name: x\nnodes: [{id: a, worktree: l, run: 'echo edited >> dist/out.js'}]\n", "r2")
        .expect(0);
    let saved = world.home().join("runs/r2/rescued/l/dist/out.js");
    assert_eq!(fs::read_to_string(saved).unwrap(), "built\nedited\n");
}

#[test]
fn what_took_longest_the_last_time_begins_first() {
    use omg::graph::model::{ProvisionChoice, ProvisionStep};
    use omg::provision::learned::key;
    use omg::provision::plan::{Seen, plan};
    let world = World::with(&[("a.txt", "1")]);
    let lanes = [("quick", "true", 10), ("slow", "true; true", 4000), ("middle", "true; true; true", 700)];
    let times: std::collections::BTreeMap<String, u64> = lanes
        .iter()
        .map(|(_, line, took)| {
            let choice = ProvisionChoice::Steps(vec![ProvisionStep::Command(line.to_string())]);
            let seen = Seen::default();
            (key(&plan(&choice, &[], &seen), &seen), *took)
        })
        .collect();
    let mut graph = "name: x\nconcurrency: 1\nlanes:\n".to_string();
    graph += &lanes
        .iter()
        .map(|(name, line, _)| format!("  {name}: {{provision: '{line}'}}\n"))
        .collect::<String>();
    graph += "nodes:\n- {id: q, worktree: quick, run: 'true'}\n- {id: s, worktree: slow, run: 'true'}\n- {id: m, worktree: middle, run: 'true'}\n";
    let order = |id: &str| {
        again(&world, &graph, id).expect(0);
        let text = fs::read_to_string(world.home().join(format!("runs/{id}/events.jsonl"))).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let requested = lines.filter(|line| line["event"] == "provision.requested");
        requested.map(|line| line["lane"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(order("first"), ["quick", "slow", "middle"]);
    let file = world.home().join("provision-times.json");
    let learned: std::collections::BTreeMap<String, serde_json::Value> =
        serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(times.keys().all(|key| learned[key]["ms"].is_u64()), "each installation's time is kept");
    // As early builds kept it.
    fs::write(file, serde_json::to_vec(&times).unwrap()).unwrap();
    assert_eq!(order("second"), ["slow", "middle", "quick"]);
}

#[test]
fn provisioning_and_nodes_together_take_no_more_slots_than_there_are() {
    let world = World::new();
    let count = "touch $OMG_RUN_DIR/in-$$; n=$(ls $OMG_RUN_DIR | grep -c ^in-); echo $n >> $OMG_RUN_DIR/counts; sleep 0.05; rm $OMG_RUN_DIR/in-$$";
    let lanes: String = (0..6)
        .map(|at| format!("  - {{id: p{at}, run: '{count}'}}\n  - {{id: n{at}, worktree: l{at}, run: '{count}', success_check: {{verify: {{command: '{count}'}}}}}}\n"))
        .collect();
    let graph = format!("name: x\nprovision: '{count}'\nnodes:\n{lanes}");
    world.run_with(&graph, &["-j", "3", "--provision-when", "first-use"]).expect(0);
    let counts = fs::read_to_string(world.run_dir().join("counts")).unwrap();
    let counts: Vec<u32> = counts.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(counts.len(), 24);
    assert!(counts.iter().all(|count| *count <= 3), "{counts:?}");
}

#[test]
fn ignored_build_scripts_are_said() {
    let world = World::with(&[
        ("package.json", "{}"),
        ("pnpm-lock.yaml", "lockfileVersion: '9.0'\n"),
        (".gitignore", "node_modules\n"),
    ]);
    world.tool("pnpm", "[ \"$1\" = --version ] && { echo 10.0.0; exit; }; mkdir -p node_modules; echo '│   Ignored build scripts: esbuild@0.21.5.   │'");
    let ended = world
        .run("name: x\nnodes: [{id: a, worktree: l, run: 'echo $pnpm_config_verify_deps_before_run'}]\n")
        .expect(0);
    assert!(ended.stderr.contains("Ignored build scripts: esbuild@0.21.5."), "{}", ended.stderr);
    assert_eq!(world.result("a"), "false", "`pnpm run` within a node must not install");
}

/// A package manager: its name, the files that call for it, what it leaves, and how it is called.
type Manager<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);

/// Managers that no registry here serves: what is run, what proves it, and that a lane in which nothing else
/// happened disappears.
#[test]
fn other_managers_are_held_to_their_own_marks() {
    let venv = "mkdir -p .venv/bin; echo 'home = /usr/bin' > .venv/pyvenv.cfg; ln -sf $(command -v sh) .venv/bin/python; echo '*' > .venv/.gitignore";
    let rows: &[Manager] = &[
        (
            "pdm",
            &[("pdm.lock", "[metadata]\n"), ("pyproject.toml", "[project]\nname='a'\n")],
            venv,
            "pdm install --check --frozen-lockfile",
        ),
        ("pipenv", &[("Pipfile.lock", "{}"), ("Pipfile", "")], venv, "pipenv verify && pipenv sync --dev"),
        (
            "composer",
            &[
                ("composer.lock", r#"{"packages":[{"name":"a/b","version":"1.0.0"}],"packages-dev":[]}"#),
                ("composer.json", "{}"),
            ],
            "mkdir -p vendor/composer vendor/a/b; echo x > vendor/a/b/x.php; echo '<?php' > vendor/autoload.php; printf '{\"packages\":[{\"name\":\"a/b\",\"version\":\"1.0.0\",\"install-path\":\"../a/b\"}],\"dev\":true,\"dev-package-names\":[]}' > vendor/composer/installed.json",
            "composer install --no-interaction --no-progress --prefer-dist",
        ),
        (
            "dotnet",
            &[("packages.lock.json", r#"{"version":1,"dependencies":{}}"#), ("a.csproj", "<Project/>")],
            "mkdir -p obj; printf '{\"version\":3,\"targets\":{},\"libraries\":{},\"project\":{}}' > obj/project.assets.json; printf '{\"version\":2,\"success\":true}' > obj/project.nuget.cache",
            "dotnet restore --locked-mode",
        ),
        (
            "bundle",
            &[
                ("Gemfile.lock", "GEM\n  remote: r\n  specs:\n    rack (3.0.0)\n\nPLATFORMS\n  ruby\n"),
                ("Gemfile", "gem 'rack'\n"),
            ],
            "mkdir -p vendor/bundle/ruby/3.3.0/gems/rack-3.0.0; echo x > vendor/bundle/ruby/3.3.0/gems/rack-3.0.0/rack.rb",
            "bundle install",
        ),
        (
            "mix",
            &[("mix.lock", "%{\n  \"jason\": {:hex, :jason},\n}\n"), ("mix.exs", "x")],
            "mkdir -p deps/jason; echo x > deps/jason/mix.exs",
            "mix deps.get --check-locked",
        ),
        ("deno", &[("deno.lock", "{}"), ("deno.json", "{}")], "true", "deno install --frozen"),
        (
            "git-lfs",
            &[(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")],
            "true",
            "git lfs pull",
        ),
    ];
    for (tool, files, does, cmd) in rows {
        let world = World::with(files);
        world.tool(tool, &format!("case \"$*\" in *version*) echo 1; exit;; verify) exit;; esac\n{does}"));
        world.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(0);
        assert_eq!(world.events_named("provision.performed")[0]["cmd"], *cmd);
        assert_eq!(world.lane_view("l")["cleanup"]["branch"], "deleted", "{tool}");
        assert!(!world.run_dir().join("rescued/l").exists(), "{tool}");
        if *does == "true" {
            continue;
        }
        let liar = World::with(files);
        liar.tool(tool, "echo 1");
        liar.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(3);
        assert_eq!(liar.node("a")["fault"]["cause"], "incomplete", "{tool}");
    }
    for (file, more) in [("mvnw", "pom.xml"), ("gradlew", "gradle/wrapper/gradle-wrapper.properties")] {
        let world = World::with(&[(file, "#!/bin/sh\necho \"$0 $*\" > ../wrapped\n"), (more, "x")]);
        let graph = "name: x\nnodes: [{id: a, worktree: l, run: 'cat ../wrapped'}]\n";
        world.run(graph).expect(3);
        assert_eq!(world.node("a")["fault"]["cause"], "tool-missing", "{file} is not executable");
        world.shell(&format!("chmod +x {file} && git commit -q -a -m x"));
        again(&world, graph, "r2").expect(0);
    }
}

#[test]
fn a_pointer_that_git_lfs_left_is_found() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12345\n";
    let attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n";
    let world = World::with(&[("a.bin", pointer), (".gitattributes", attributes)]);
    world.tool("git-lfs", "echo 1");
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(3);
    assert_eq!(world.node("a")["fault"]["cause"], "incomplete");
}

#[test]
fn several_ecosystems_share_a_lane() {
    let world = World::with(
        &[FILES, &[("composer.lock", r#"{"packages":[],"packages-dev":[]}"#), ("vendor-free", "")]].concat(),
    );
    npm(&world, INSTALL);
    world.tool("composer", "case \"$*\" in *version*) echo 1; exit;; esac\nmkdir -p vendor/composer; echo '<?php' > vendor/autoload.php; printf '{\"packages\":[],\"dev\":true,\"dev-package-names\":[]}' > vendor/composer/installed.json");
    world.tool("php", "echo 8");
    world.run(ONE).expect(0);
    assert_eq!(
        world.events_named("provision.performed")[0]["cmd"],
        "npm ci && composer install --no-interaction --no-progress --prefer-dist"
    );
    let started: Vec<String> = world
        .events_named("provision.started")
        .iter()
        .map(|event| event["cmd"].as_str().unwrap().to_string())
        .collect();
    assert_eq!(started.len(), 2);
    assert_eq!(world.lane_view("l")["cleanup"]["branch"], "deleted");
}

#[test]
fn doctor_says_what_is_missing_and_hints_at_what_is_not_run() {
    let mut world =
        World::with(&[("bun.lock", "x"), ("package.json", MANIFEST), ("Makefile", "setup:\n\ttrue\n")]);
    world.extra.push(("PATH".into(), "/usr/bin:/bin".into()));
    let ended = world.omg(&["doctor"]).expect(1);
    for part in
        ["wrong: `bun` is not on the PATH", "make setup", "bun install --frozen-lockfile", "1 thing is wrong"]
    {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    let graph = world.graph("name: x\nprovision: 'true'\nnodes: [{id: a, worktree: l, run: 'true'}]\n");
    let ended = world.omg(&["doctor", &graph]).expect(0);
    assert!(ended.stdout.contains("lane l") && ended.stdout.contains("nothing is wrong"), "{}", ended.stdout);
    let json: serde_json::Value =
        serde_json::from_str(&world.omg(&["doctor", "--json"]).expect(1).stdout).unwrap();
    assert!(json["findings"].as_array().unwrap().iter().any(|finding| finding["state"] == "wrong"));
}

#[test]
fn what_a_node_puts_beside_what_was_installed_is_its_work() {
    let explicit = World::with(&[("a.txt", "1")]);
    explicit
        .run("name: x\nprovision: 'mkdir -p vendor && echo lib > vendor/lib.txt'\nnodes: [{id: a, worktree: l, run: 'echo mine > vendor/mine.txt'}]\n")
        .expect(0);
    assert_eq!(explicit.lane_view("l")["cleanup"]["tree"], "kept");
    let files = [("composer.lock", r#"{"packages":[],"packages-dev":[]}"#)];
    for (ignored, tree) in [(false, "kept"), (true, "removed")] {
        let world = World::with(&files);
        if ignored {
            world.write(".gitignore", "vendor\n");
            world.shell("git add .gitignore && git commit -q -m ignore");
        }
        world.tool("composer", "case \"$*\" in *version*) echo 1; exit;; esac\nmkdir -p vendor/composer; echo '<?php' > vendor/autoload.php; printf '{\"packages\":[],\"dev\":true,\"dev-package-names\":[]}' > vendor/composer/installed.json");
        world.run("name: x\nnodes: [{id: a, worktree: l, run: 'echo mine > vendor/mine.php'}]\n").expect(0);
        assert_eq!(world.lane_view("l")["cleanup"]["tree"], tree, "what git ignores there can be made again");
    }
}

#[test]
fn a_link_of_a_nodes_own_is_not_taken_for_a_dependency_folder() {
    let world = World::with(&[("a.txt", "1")]);
    let graph = "name: x\nprovision: {command: 'echo x >> ../tries', inputs: [a.txt]}\nnodes:\n\
        - {id: a, worktree: l, run: 'ln -s elsewhere vendor; echo 2 > a.txt'}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'readlink vendor'}\n";
    world.run(graph).expect(0);
    assert_eq!(world.result("b"), "elsewhere");
}
