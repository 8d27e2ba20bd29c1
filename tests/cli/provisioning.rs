//! Lanes made fit before anything is dispatched into them.

use std::fs;

use crate::support::World;

const LOCKED: &[(&str, &str)] =
    &[("package.json", "{}"), ("package-lock.json", "{}"), (".gitignore", "node_modules\n")];

/// A stand-in that does what npm leaves behind, and says that it ran.
fn npm(world: &World) {
    let log = world.path().join("npm.log");
    world.tool("npm", &format!("echo \"$PWD $*\" >> {}; mkdir -p node_modules/.bin; printf '#!/bin/sh\\necho tool ran\\n' > node_modules/.bin/tool; chmod +x node_modules/.bin/tool", log.display()));
}

fn npm_calls(world: &World) -> Vec<String> {
    let log = fs::read_to_string(world.path().join("npm.log")).unwrap_or_default();
    log.lines().filter(|line| !line.ends_with("--version")).map(str::to_string).collect()
}

#[test]
fn a_detected_install_runs_once_a_lane_before_the_first_node() {
    let world = World::with(LOCKED);
    npm(&world);
    let graph = "name: x\nnodes:\n\
        - {id: p, run: 'true'}\n\
        - {id: a, worktree: l, run: 'node_modules/.bin/tool'}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'node_modules/.bin/tool'}\n\
        - {id: c, worktree: m, run: 'node_modules/.bin/tool'}\n";
    world.run(graph).expect(0);
    assert_eq!(world.result("b"), "tool ran");
    let mut calls = npm_calls(&world);
    calls.sort();
    assert_eq!(calls, ["l", "m"].map(|lane| format!("{} ci", world.lane(lane).display())));
    let names = world.event_names();
    let last_provision = names.iter().rposition(|name| name == "provision.performed").unwrap();
    let first_dispatch = names.iter().position(|name| name == "node.dispatch.requested").unwrap();
    assert!(last_provision < first_dispatch, "{names:?}");
    let performed = &world.events_named("provision.performed")[0];
    assert_eq!((performed["cmd"].as_str(), performed["exit_code"].as_i64()), (Some("npm ci"), Some(0)));
    // What provisioning made does not make the lane dirty, nor worth keeping.
    assert_eq!(world.lane_view("l")["cleanup"]["branch"], "deleted");
    let receipt: serde_json::Value =
        serde_json::from_slice(&fs::read(world.run_dir().join("lanes/l/receipt.json")).unwrap()).unwrap();
    for key in ["cmd", "exit_code", "at", "duration_ms", "fingerprint"] {
        assert!(!receipt[key].is_null(), "{key}");
    }
}

#[test]
fn first_use_prepares_each_lane_just_before_its_first_node() {
    let world = World::with(LOCKED);
    npm(&world);
    let graph = "name: x\nnodes:\n\
        - {id: p, run: 'true'}\n\
        - {id: a, worktree: l, depends_on: [p], run: 'true'}\n\
        - {id: h, worktree: never, depends_on: [{id: p, on: failed}], run: 'true'}\n";
    world.run_with(graph, &["--provision-when", "first-use"]).expect(0);
    let names = world.event_names();
    let dispatched = names.iter().position(|name| name == "node.dispatch.requested").unwrap();
    assert!(dispatched < names.iter().position(|name| name == "lane.acquire.requested").unwrap());
    assert_eq!(world.lane_view("never")["state"], "pending");
}

#[test]
fn a_lane_that_only_a_failure_needs_is_not_prepared() {
    let world = World::new();
    let graph = "name: x\nnodes:\n\
        - {id: p, run: 'true'}\n\
        - {id: h, worktree: never, depends_on: [{id: p, on: failed}], run: 'true'}\n";
    world.run(graph).expect(0);
    assert_eq!(world.lane_view("never")["state"], "pending");
    assert_eq!(world.branches(), ["main"]);
}

#[test]
fn the_ladder_takes_the_graphs_word_then_the_hook_then_markers() {
    let world = World::with(&[LOCKED, &[(".omg/provision.sh", "echo hooked > ../hooked\n")]].concat());
    npm(&world);
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'cat ../hooked'}]\n").expect(0);
    assert_eq!((world.result("a").as_str(), npm_calls(&world).len()), ("hooked", 0));
    let runs = [
        ("r2", "provision: 'touch ../mine'", "touch ../mine"),
        ("r3", "provision: {command: 'touch ../mine'}", "touch ../mine"),
        ("r4", "provision: [auto, 'touch ../more']", ".omg/provision.sh && touch ../more"),
        ("r5", "provision: 'true'\nlanes: {l: {provision: 'touch ../own'}}", "touch ../own"),
    ];
    for (id, provision, cmd) in runs {
        let graph =
            world.graph(&format!("name: x\n{provision}\nnodes: [{{id: a, worktree: l, run: 'true'}}]\n"));
        world.omg(&["run", &graph, "--run-id", id]).expect(0);
        let journal = fs::read_to_string(world.home().join("runs").join(id).join("events.jsonl")).unwrap();
        let performed = journal.lines().find(|line| line.contains("provision.performed")).unwrap();
        let performed: serde_json::Value = serde_json::from_str(performed).unwrap();
        assert_eq!(performed["cmd"], cmd, "{id}");
    }
    let graph = world.graph("name: x\nprovision: none\nnodes: [{id: a, worktree: l, run: 'true'}]\n");
    world.omg(&["run", &graph, "--run-id", "r6"]).expect(0);
    let journal = fs::read_to_string(world.home().join("runs/r6/events.jsonl")).unwrap();
    assert!(journal.contains("`provision: none`"));
}

#[test]
fn the_hook_is_the_base_commits_and_an_untracked_one_is_only_named() {
    let world = World::with(&[(".omg/provision.sh", "#!/bin/sh\necho base > ../which\n")]);
    world.shell("chmod +x .omg/provision.sh && git add -A && git commit -q -m x");
    world.write(".omg/provision.sh", "#!/bin/sh\necho edited > ../which\n");
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'cat ../which'}]\n").expect(0);
    assert_eq!(world.result("a"), "base");
    let other = World::new();
    other.write(".omg/provision.sh", "touch ../ran\n");
    let ended = other.run("name: x\nnodes: [{id: a, worktree: l, run: 'test ! -e ../ran'}]\n").expect(0);
    assert!(ended.stderr.contains(".omg/provision.sh is not in the base commit"), "{}", ended.stderr);
}

#[test]
fn a_second_failure_blocks_the_lane_and_charges_nobody() {
    let world = World::new();
    let graph = "name: x\nprovision: 'echo trying >> ../tries; echo why it failed >&2; exit 9'\nnodes:\n\
        - {id: a, worktree: l, run: 'true', retry: {max: 3}}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'true'}\n\
        - {id: c, depends_on: [a], run: 'true'}\n\
        - {id: d, run: 'true'}\n";
    world.run(graph).expect(3);
    assert_eq!(fs::read_to_string(world.run_dir().join("worktrees/tries")).unwrap().lines().count(), 2);
    for id in ["a", "b"] {
        let fault = world.node(id)["fault"].clone();
        assert_eq!(
            (fault["class"].as_str(), fault["scope"].as_str()),
            (Some("workspace-provision-failed"), Some("infra"))
        );
        assert_eq!((world.state(id).as_str(), world.node(id)["attempts"].as_u64()), ("blocked", Some(0)));
    }
    assert_eq!((world.state("c").as_str(), world.state("d").as_str()), ("waiting", "passed"));
    let failed = world.events_named("provision.failed");
    assert_eq!(failed.len(), 2);
    assert_eq!(failed[0]["exit_code"], 9);
    assert_eq!(failed[0]["cause"], "script-failed");
    assert_eq!(failed[0]["nodes"], serde_json::json!(["a", "b"]));
    assert!(failed[0]["log_tail"].as_str().unwrap().contains("why it failed"));
    assert!(world.run_dir().join("lanes/l/provision-2.log").exists());
    assert!(!world.run_dir().join("lanes/l/receipt.json").exists());
}

#[test]
fn one_failure_is_forgiven_and_known_permanent_ones_are_not_repeated() {
    let world = World::new();
    let flaky = "name: x\nprovision: 'test -e ../second || { touch ../second; exit 1; }'\nnodes: [{id: a, worktree: l, run: 'true'}]\n";
    world.run(flaky).expect(0);
    assert_eq!(world.events_named("provision.failed").len(), 1);
    assert_eq!(world.events_named("provision.performed").len(), 1);
    let missing = World::new();
    missing.run("name: x\nprovision: no-such-tool\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(3);
    let failed = missing.events_named("provision.failed");
    assert_eq!((failed.len(), failed[0]["cause"].as_str()), (1, Some("tool-missing")));
    let never = World::new();
    never.run("name: x\nprovision: {command: 'exit 1', retry: never}\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(3);
    assert_eq!(never.events_named("provision.failed").len(), 1);
}

#[test]
fn a_tool_that_is_not_there_is_said_before_anything_is_started() {
    let mut world = World::with(&[("pnpm-lock.yaml", "")]);
    world.extra.push(("PATH".into(), "/usr/bin:/bin".into()));
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(3);
    let failed = &world.events_named("provision.failed")[0];
    assert_eq!((failed["cause"].as_str(), failed["exit_code"].is_null()), (Some("tool-missing"), true));
    assert!(world.node("a")["fault"]["detail"].as_str().unwrap().contains("`pnpm` is not on the PATH"));
}

#[test]
fn a_provisioning_past_its_time_is_ended_with_its_whole_tree() {
    let world = World::new();
    let graph = "name: x\nprovision: {command: '(setsid sleep 7301 &) ; sleep 7302', timeout: 300ms, retry: never}\nnodes: [{id: a, worktree: l, run: 'true'}]\n";
    world.run(graph).expect(3);
    assert_eq!(world.events_named("provision.failed")[0]["cause"], "timeout");
    assert_eq!(world.alive("sleep 730"), Vec::<u32>::new());
}

#[test]
fn provisioning_takes_slots() {
    let world = World::new();
    let count = "touch ../in-$OMG_LANE; n=0; for f in ../in-*; do n=$((n+1)); done; echo $n >> ../counts; sleep 0.1; rm ../in-$OMG_LANE";
    let lanes: String =
        (0..5).map(|at| format!("  - {{id: n{at}, worktree: l{at}, run: 'true'}}\n")).collect();
    world.run_with(&format!("name: x\nprovision: '{count}'\nnodes:\n{lanes}"), &["-j", "2"]).expect(0);
    let counts = fs::read_to_string(world.run_dir().join("worktrees/counts")).unwrap();
    let most = counts.lines().map(|line| line.parse::<u32>().unwrap()).max().unwrap();
    assert!(most <= 2, "{counts}");
}

#[test]
fn what_redirects_a_tool_does_not_reach_a_lane() {
    let mut world = World::new();
    for name in ["VIRTUAL_ENV", "CARGO_TARGET_DIR", "npm_config_dry_run", "NODE_ENV", "PYTHONPATH"] {
        world.extra.push((name.into(), "outer".into()));
    }
    let graph = "name: x\nprovision: 'env | grep -c =outer > ../provisioning || true'\nnodes:\n\
        - {id: a, worktree: l, env: {NODE_ENV: own}, run: 'env | grep -c =outer; echo $NODE_ENV; cat ../provisioning'}\n\
        - {id: b, run: 'env | grep -c =outer'}\n";
    world.run(graph).expect(0);
    assert_eq!(world.result("a"), "0\nown\n0");
    assert_eq!(world.result("b"), "5");
}

#[test]
fn a_changed_manifest_is_installed_anew_before_the_next_node_and_before_verify() {
    let world = World::with(LOCKED);
    npm(&world);
    let graph = "name: x\nnodes:\n\
        - {id: a, worktree: l, run: 'echo changed > package-lock.json'}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'true'}\n\
        - {id: c, worktree: l, depends_on: [b], run: 'echo again > package-lock.json', success_check: {verify: {command: 'test -d node_modules'}}}\n\
        - {id: d, worktree: l, depends_on: [c], run: 'rm -rf node_modules'}\n\
        - {id: e, worktree: l, depends_on: [d], run: 'node_modules/.bin/tool'}\n";
    world.run(graph).expect(0);
    assert_eq!(npm_calls(&world).len(), 4);
    let stale = world.events_named("provision.stale");
    assert_eq!(stale.len(), 3);
    for id in ["a", "b", "c", "d", "e"] {
        assert_eq!(world.node(id)["attempts"], 1, "{id}");
    }
}

#[test]
fn a_lost_receipt_is_not_dispatched_without() {
    let world = World::new();
    let receipt = world.run_dir().join("lanes/l/receipt.json");
    let graph = format!(
        "name: x\nprovision: 'echo x >> ../provisioned'\nnodes:\n\
        - {{id: a, worktree: l, run: 'rm {}'}}\n\
        - {{id: b, worktree: l, depends_on: [a], run: 'cat ../provisioned'}}\n",
        receipt.display()
    );
    world.run(&graph).expect(0);
    assert_eq!(world.result("b"), "x\nx");
}

#[test]
fn retry_blocked_gives_a_fresh_tree_and_keeps_the_old_one() {
    let world = World::new();
    let go = world.path().join("go");
    let graph = format!(
        "name: x\nprovision: 'echo half > half-made; test -e {}'\nnodes: [{{id: a, worktree: l, run: 'cat half-made; git status --short'}}]\n",
        go.display()
    );
    world.run(&graph).expect(3);
    assert!(world.lane("l").join("half-made").exists(), "what a failed install left is not thrown away");
    fs::write(world.lane("l").join("mine.txt"), "somebody's\n").unwrap();
    fs::write(go, "").unwrap();
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(0);
    assert_eq!(world.node("a")["attempts"], 1);
    let old = world.lane("l.old-1");
    assert_eq!(fs::read_to_string(old.join("mine.txt")).unwrap(), "somebody's\n");
    let head = world.shell(&format!("git -C {} symbolic-ref -q HEAD || echo detached", old.display()));
    assert_eq!(head, "detached");
    assert_eq!(world.result("a"), "half\n?? half-made");
}

#[test]
fn retry_blocked_keeps_what_a_passed_node_committed() {
    let world = World::with(LOCKED);
    let go = world.path().join("go");
    world.tool("npm", &format!("test ! -e broken || test -e {}", go.display()));
    let graph = "name: x\nnodes:\n\
        - {id: a, worktree: l, run: 'echo x > broken; echo new > package-lock.json; git add .; git commit -q -m work'}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'cat broken; git log --format=%s -1'}\n";
    world.run(graph).expect(3);
    assert_eq!(
        (world.state("a").as_str(), world.class("b").as_str()),
        ("passed", "workspace-provision-failed")
    );
    fs::write(go, "").unwrap();
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(0);
    assert_eq!(world.result("b"), "x\nwork");
    assert_eq!(world.node("a")["attempts"], 1);
}

#[test]
fn retry_blocked_works_in_place_where_later_nodes_need_uncommitted_work() {
    let world = World::with(LOCKED);
    let go = world.path().join("go");
    world.tool("npm", &format!("test ! -e broken || test -e {}", go.display()));
    let graph = "name: x\nnodes:\n\
        - {id: a, worktree: l, run: 'echo precious > broken; echo new > package-lock.json'}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'cat broken'}\n";
    world.run(graph).expect(3);
    fs::write(go, "").unwrap();
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(0);
    assert_eq!(world.result("b"), "precious");
    assert!(!world.lane("l.old-1").exists());
}

#[test]
fn the_graphs_variables_and_identity_reach_provisioning() {
    let mut world = World::new();
    world.extra.push(("NODE_ENV".into(), "production".into()));
    let graph = "name: x\ninputs: {who: {default: me}}\n\
        env: {NODE_ENV: development, WHO: '{{ inputs.who }} in {{ lane.branch }}'}\n\
        identity: {name: robot, email: robot@example.invalid}\n\
        provision: 'echo \"$NODE_ENV $WHO $GIT_AUTHOR_NAME\" > ../seen'\n\
        nodes: [{id: a, worktree: l, run: 'cat ../seen'}]\n";
    world.run(graph).expect(0);
    assert_eq!(world.result("a"), "development me in omg/r1/l robot");
}

#[test]
fn what_a_node_puts_into_a_folder_that_provisioning_made_is_its_work() {
    let world = World::with(&[(".gitignore", "build\n")]);
    let graph = "name: x\nprovision: 'mkdir -p build'\nnodes:\n\
        - {id: a, worktree: l, run: 'echo valuable > build/report'}\n\
        - {id: b, worktree: l, depends_on: [a], run: 'cat build/report; exit 1'}\n\
        - {id: c, worktree: m, run: 'echo also > build/report'}\n";
    world.run_with(graph, &["--keep-going"]).expect(1);
    assert_eq!(fs::read_to_string(world.lane("l").join("build/report")).unwrap(), "valuable\n");
    assert_eq!(fs::read_to_string(world.run_dir().join("rescued/m/build/report")).unwrap(), "also\n");
}

#[test]
fn a_halt_does_not_wait_for_a_lane_that_nobody_needs_any_more() {
    let world = World::new();
    let graph = "name: x\nprovision: 'touch ../begun; sleep 7401'\nnodes:\n\
        - {id: bad, run: 'while ! test -e \"$OMG_RUN_DIR/worktrees/begun\"; do sleep 0.02; done; exit 1'}\n\
        - {id: a, worktree: l, run: 'true'}\n";
    world.run_with(graph, &["--provision-when", "first-use", "-j", "2"]).expect(1);
    assert_eq!((world.state("a"), world.state("bad")), ("cancelled".into(), "failed".into()));
    assert_eq!(world.alive("sleep 7401"), Vec::<u32>::new());
}

#[test]
fn retry_blocked_begins_anew_also_where_the_folder_was_deleted_by_hand() {
    let world = World::new();
    let go = world.path().join("go");
    let graph = format!(
        "name: x\nprovision: 'touch junk; test -e {}'\nnodes: [{{id: a, worktree: l, run: 'git log --format=%s'}}]\n",
        go.display()
    );
    world.run(&graph).expect(3);
    fs::remove_dir_all(world.lane("l")).unwrap();
    fs::write(go, "").unwrap();
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(0);
    assert_eq!(world.result("a"), "base");
}
