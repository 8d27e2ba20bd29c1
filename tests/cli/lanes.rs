//! Lanes: made, shared, kept, removed, refused.

use std::fs;

use crate::support::{Ended, World};

#[test]
fn what_is_empty_disappears_and_what_holds_work_stays() {
    let world = World::new();
    let graph = "name: x\nnodes:\n\
        - {id: c, worktree: commits, run: 'echo 1 > new.txt && git add . && git commit -q -m x'}\n\
        - {id: d, worktree: dirty, run: 'echo 2 >> a.txt'}\n\
        - {id: e, worktree: empty, run: 'true'}\n\
        - {id: f, worktree: fails, run: 'echo 3 > half.txt; exit 1'}\n";
    let ended = world.run_with(graph, &["--keep-going"]).expect(1);
    let verdict = |lane: &str| {
        let cleanup = world.lane_view(lane)["cleanup"].clone();
        format!("{} {}", cleanup["tree"].as_str().unwrap(), cleanup["branch"].as_str().unwrap())
    };
    assert_eq!(verdict("commits"), "removed kept");
    assert_eq!(verdict("dirty"), "kept kept");
    assert_eq!(verdict("empty"), "removed deleted");
    assert_eq!(verdict("fails"), "kept kept");
    assert_eq!(world.branches(), ["main", "omg/r1/commits", "omg/r1/dirty", "omg/r1/fails"]);
    assert!(!world.lane("commits").exists() && world.lane("fails").join("half.txt").exists());
    for line in ["git merge omg/r1/commits", "omg lanes discard r1 dirty"] {
        assert!(ended.stdout.contains(line), "{line}: {}", ended.stdout);
    }
    assert!(!ended.text().contains("lane empty: kept"), "an empty lane goes silently");
    assert_eq!(world.git("status --porcelain"), "");
}

#[test]
fn the_users_checkout_is_not_touched() {
    let world = World::with(&[("a.txt", "one\n"), ("b/c.txt", "two\n")]);
    world.write("a.txt", "changed\n");
    world.write("mine.txt", "untracked\n");
    world.git("config user.signingkey abc");
    let before = (
        world.git("status --porcelain"),
        world.git("rev-parse HEAD"),
        fs::read(world.repo().join(".git/config")).unwrap(),
        fs::read(world.repo().join(".git/index")).unwrap(),
        fs::read(world.repo().join(".git/HEAD")).unwrap(),
    );
    let ended = world
        .run("name: x\nnodes: [{id: a, worktree: l, run: 'git add -A; git commit -q --allow-empty -m x; git switch -q -c other; ls'}]\n")
        .expect(0);
    assert!(ended.stderr.contains("1 modified, 1 untracked files are not in the lanes"), "{}", ended.stderr);
    assert!(ended.stderr.starts_with("run r1 in "), "{}", ended.stderr);
    assert_eq!(world.result("a"), "a.txt\nb");
    let after = (
        world.git("status --porcelain"),
        world.git("rev-parse HEAD"),
        fs::read(world.repo().join(".git/config")).unwrap(),
        fs::read(world.repo().join(".git/index")).unwrap(),
        fs::read(world.repo().join(".git/HEAD")).unwrap(),
    );
    assert_eq!(before, after);
}

#[test]
fn nodes_of_a_lane_share_it_and_know_it() {
    let world = World::new();
    let graph = r#"
name: x
nodes:
  - {id: a, worktree: l, run: 'echo 1 > one; git add one; git commit -q -m one; pwd; echo $OMG_LANE $OMG_LANE_PATH $OMG_BRANCH $OMG_BASE $OMG_REPO'}
  - {id: b, worktree: l, depends_on: [a], run: 'cat one; echo {{ lane.path }} {{ lane.branch }} {{ lane.base }}'}
  - {id: c, depends_on: [b], run: 'pwd; echo $OMG_LANE_L_BRANCH {{ lanes.l.branch }} {{ lanes.l.path }}; echo "${OMG_LANE-none}"'}
"#;
    world.run(graph).expect(0);
    let (lane, base) = (world.lane("l").display().to_string(), world.git("rev-parse HEAD"));
    let repo = world.repo().canonicalize().unwrap().display().to_string();
    assert_eq!(world.result("a"), format!("{lane}\nl {lane} omg/r1/l {base} {repo}"));
    assert_eq!(world.result("b"), format!("1\n{lane} omg/r1/l {base}"));
    assert_eq!(world.result("c"), format!("{repo}\nomg/r1/l omg/r1/l {lane}\nnone"));
}

#[test]
fn one_writer_or_any_number_of_readers() {
    let world = World::new();
    let see = "touch ../in-$OMG_NODE; n=0; for f in ../in-*; do n=$((n+1)); done; sleep 0.2; rm ../in-$OMG_NODE; echo $n";
    let graph = format!(
        "name: x\nnodes:\n\
        - {{id: w1, worktree: l, run: '{see}'}}\n\
        - {{id: w2, worktree: l, run: '{see}'}}\n\
        - {{id: r1, worktree: l, access: read, depends_on: [w1, w2], run: 'touch ../r1; while ! test -e ../r2; do :; done'}}\n\
        - {{id: r2, worktree: l, access: read, depends_on: [w1, w2], run: 'touch ../r2; while ! test -e ../r1; do :; done'}}\n"
    );
    world.run_with(&graph, &["-j", "4"]).expect(0);
    assert_eq!((world.result("w1"), world.result("w2")), ("1".into(), "1".into()));
}

#[test]
fn bases_are_resolved_once_and_a_lanes_own_wins() {
    let world = World::new();
    world.git("tag old");
    world.write("b.txt", "two\n");
    world.git("add -A");
    world.git("commit -q -m second");
    let go = world.path().join("go");
    let graph = format!(
        "name: x\nlanes: {{past: {{base: old}}}}\nnodes:\n\
        - {{id: a, worktree: now, run: 'ls'}}\n\
        - {{id: b, worktree: past, run: 'ls'}}\n\
        - {{id: c, worktree: later, depends_on: [a, b], run: 'ls; test -e {}'}}\n",
        go.display()
    );
    world.run(&graph).expect(1);
    assert_eq!((world.result("a"), world.result("b")), ("a.txt\nb.txt".into(), "a.txt".into()));
    world.write("c.txt", "three\n");
    world.git("add -A");
    world.git("commit -q -m third");
    fs::write(go, "").unwrap();
    world.omg(&["resume", "r1", "--retry-failed"]).expect(0);
    assert_eq!(world.result("c"), "a.txt\nb.txt");
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: ls}]\n");
    world.omg(&["run", &graph, "--run-id", "r2", "--base", "old"]).expect(0);
    assert_eq!(fs::read_to_string(world.home().join("runs/r2/nodes/a/result")).unwrap(), "a.txt");
}

#[track_caller]
fn refused(world: &World, words: &[&str], said: &[&str]) {
    let graph = world.graph("name: x\nnodes: [{id: edit, worktree: l, run: 'true'}]\n");
    let ended = world.omg(&[&["run", &graph, "--run-id", "r1"], words].concat()).expect(3);
    for text in said.iter().chain(&["lane l", "edit", "hint:"]) {
        assert!(ended.stderr.contains(text), "{text}: {}", ended.stderr);
    }
    assert!(!world.home().join("runs").exists(), "something was made");
}

#[test]
fn what_stands_in_the_way_is_named_before_anything_is_made() {
    refused(&World::bare(), &[], &["in no git repository"]);
    let unborn = World::bare();
    unborn.git("init -q .");
    refused(&unborn, &[], &["no commit yet"]);
    refused(&World::new(), &["--base", "nope"], &["`nope` names no commit"]);
    let blocked = World::new();
    blocked.git("branch omg");
    refused(&blocked, &[], &["branch `omg` is in the way"]);
    let elsewhere = World::new();
    elsewhere.git("worktree add -q -b omg/r1/l ../elsewhere");
    refused(&elsewhere, &[], &["omg/r1/l"]);
    let inside = World::new();
    let root = inside.repo().join("lanes").display().to_string();
    refused(&inside, &["--worktree-root", &root], &["inside the checkout"]);
}

#[test]
fn what_stands_in_one_lanes_way_is_refused_and_the_others_go_on() {
    let world = World::new();
    world.git("branch omg/r1/taken");
    let tip = world.git("rev-parse omg/r1/taken");
    let graph = "name: x\nnodes: [{id: a, worktree: taken, run: 'true'}, {id: b, worktree: free, run: 'echo fine'}]\n";
    world.run(graph).expect(3);
    assert_eq!((world.state("a"), world.class("a")), ("blocked".into(), "lane-refused".into()));
    assert!(world.node("a")["fault"]["detail"].as_str().unwrap().contains("omg/r1/taken"));
    assert_eq!(
        (world.lane_view("taken")["state"].as_str(), world.result("b").as_str()),
        (Some("refused"), "fine")
    );
    assert_eq!(world.git("rev-parse omg/r1/taken"), tip);
}

#[test]
fn a_foreign_thing_at_a_lanes_path_is_never_adopted() {
    for foreign in [
        "ln -s {repo} {lane}",
        "mkdir {lane}; touch {lane}/theirs",
        "echo x > {lane}",
        "git clone -q {repo} {lane}",
    ] {
        let world = World::new();
        let graph = "name: x\nnodes: [{id: a, worktree: l, run: 'echo 1 > n; git add n; git commit -q -m x; exit 1'}]\n";
        world.run(graph).expect(1);
        let line = foreign
            .replace("{repo}", &world.repo().display().to_string())
            .replace("{lane}", &world.lane("l").display().to_string());
        world.shell(&line);
        let before = world.shell(&format!("find {}", world.lane("l").display()));
        world.omg(&["resume", "r1", "--retry-failed"]).expect(3);
        assert_eq!(
            (world.state("a"), world.class("a")),
            ("blocked".into(), "lane-refused".into()),
            "{foreign}"
        );
        assert_eq!(world.shell(&format!("find {}", world.lane("l").display())), before, "{foreign}");
        assert_eq!(world.git("show omg/r1/l:n"), "1");
        world.shell(&format!("rm -rf {}", world.lane("l").display()));
        world.omg(&["resume", "r1", "--retry-blocked"]).expect(1);
    }
}

#[test]
fn a_bare_repository_and_a_linked_worktree_work() {
    let world = World::new();
    world.git("clone -q --bare . ../bare.git");
    world.git("worktree add -q ../linked -b linked");
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'echo x > n; git add n; git commit -q -m x; echo $OMG_REPO'}]\n");
    for (id, folder) in [("r1", "bare.git"), ("r2", "linked")] {
        let ended = world
            .command(env!("CARGO_BIN_EXE_omg"))
            .args(["run", &graph, "--run-id", id])
            .current_dir(world.path().join(folder))
            .output()
            .unwrap();
        assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
        let repo = world.path().join(folder).canonicalize().unwrap().display().to_string();
        let result = world.home().join("runs").join(id).join("nodes/a/result");
        assert_eq!(fs::read_to_string(result).unwrap(), repo);
    }
    assert!(world.branches().contains(&"omg/r2/l".to_string()));
}

#[test]
fn started_from_a_hook_nothing_leaks_into_the_lane() {
    let world = World::new();
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'git status --porcelain; ls; git rev-parse --show-toplevel'}]\n");
    let omg = env!("CARGO_BIN_EXE_omg");
    let hook = world.repo().join(".git/hooks/pre-commit");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, format!("#!/bin/sh\nexec {omg} run {graph} --run-id r1 >&2\n")).unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world.write("b.txt", "two\n");
    world.git("add b.txt");
    world.git("commit -q -m hooked");
    assert_eq!(world.result("a"), format!("a.txt\n{}", world.lane("l").display()));
    assert_eq!(world.git("show --stat --format= HEAD").lines().count(), 2);
}

#[test]
fn a_failing_hook_fails_the_acquire_in_its_own_words() {
    let world = World::new();
    let hook = world.repo().join(".git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\necho the hook says no >&2; exit 7\n").unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}, {id: b, run: 'true'}]\n").expect(3);
    assert_eq!((world.class("a").as_str(), world.state("b").as_str()), ("worktree-acquire-failed", "passed"));
    assert!(world.node("a")["fault"]["detail"].as_str().unwrap().contains("the hook says no"));
    assert_eq!(world.node("a")["attempts"], 0);
    fs::remove_file(hook).unwrap();
    world.omg(&["resume", "r1", "--retry-blocked"]).expect(0);
}

#[test]
fn a_lane_lives_where_the_user_says_on_a_branch_of_his_naming() {
    let mut world = World::new();
    world.extra.push(("OMG_BRANCH_TEMPLATE".into(), "agents/{lane}-{run}".into()));
    let root = world.path().join("elsewhere").display().to_string();
    let graph = "name: x\nnodes: [{id: a, worktree: l, run: 'echo x >> a.txt'}]\n";
    world.run_with(graph, &["--worktree-root", &root]).expect(0);
    let view = world.lane_view("l");
    assert_eq!(view["branch"], "agents/l-r1");
    assert!(view["path"].as_str().unwrap().starts_with(&root));
    assert!(world.branches().contains(&"agents/l-r1".to_string()));
    world.extra.push(("OMG_BRANCH_TEMPLATE".into(), "no-lane-in-it".into()));
    let graph = world.graph(graph);
    world.omg(&["run", &graph, "--run-id", "r2"]).expect(2);
}

#[test]
fn discard_rescues_before_it_removes() {
    let world = World::new();
    world.write(".gitignore", "*.log\n");
    world.git("add -A");
    world.git("commit -q -m ignore");
    world
        .run("name: x\nnodes: [{id: a, worktree: l, run: 'echo edit >> a.txt; echo new > new.txt; echo kept > run.log'}]\n")
        .expect(0);
    assert!(world.lane("l").exists());
    let ended = world.omg(&["lanes", "discard", "r1", "l"]).expect(0);
    assert!(!world.lane("l").exists());
    assert!(
        ended.stdout.contains("refs/omg/rescued/r1/l") || ended.stdout.contains("rescued"),
        "{}",
        ended.stdout
    );
    assert_eq!(world.git("show refs/omg/rescued/r1/l:new.txt"), "new");
    assert_eq!(world.git("show refs/omg/rescued/r1/l:a.txt"), "one\nedit");
    assert_eq!(fs::read_to_string(world.run_dir().join("rescued/l/run.log")).unwrap(), "kept\n");
    assert_eq!(world.lane_view("l")["state"], "removed");
    world.omg(&["lanes", "discard", "r1", "nope"]).expect(2);
    world.omg(&["lanes", "discard", "r1", "l"]).expect(0);
}

#[test]
fn the_record_lists_every_channel() {
    let world = World::new();
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'echo x > u.txt'}]\n").expect(0);
    let channels = world.lane_view("l")["cleanup"]["channels"].as_object().unwrap().clone();
    let names: Vec<&str> = channels.keys().map(String::as_str).collect();
    let mut expected = vec![
        "tracked",
        "staged",
        "untracked",
        "ignored",
        "flagged",
        "nested",
        "submodule",
        "operation",
        "detached",
        "reflog",
        "branches",
        "stash",
        "overlay",
    ];
    let mut names_sorted = names.clone();
    names_sorted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names_sorted, expected);
    assert_eq!(channels["untracked"], "kept");
    assert_eq!(channels["staged"], "none");
}

#[test]
fn a_graph_without_lanes_never_runs_git() {
    let world = World::bare();
    let calls = world.path().join("calls");
    world.tool("git", &format!("echo called >> {}; exit 99", calls.display()));
    world.run("name: x\nnodes: [{id: a, run: 'true'}, {id: b, run: 'exit 1', depends_on: [a]}]\n").expect(1);
    world.omg(&["resume", "r1", "--retry-failed"]).expect(1);
    world.omg(&["show", "r1"]).expect(0);
    assert!(!calls.exists());
}

#[test]
fn from_a_subfolder_with_spaces_and_umlauts_in_every_path() {
    let mut world = World::bare();
    let (repo, home) = (world.path().join("ré po"), world.path().join("hö me"));
    fs::create_dir_all(repo.join("süb dir")).unwrap();
    world.extra.push(("OMG_HOME".into(), home.clone().into()));
    fs::write(repo.join("süb dir/ä b.txt"), "one\n").unwrap();
    world.shell("cd '../ré po' && git init -q . && git add -A && git commit -q -m base");
    let graph = world.graph("name: x\nnodes:\n  - {id: a, worktree: l, run: 'pwd; echo x > \"ü ber\"; git add -A; git commit -q -m x'}\n  - {id: b, depends_on: [a], run: 'pwd; cat {{ artifacts.a }}'}\n");
    let ended = world
        .command(env!("CARGO_BIN_EXE_omg"))
        .args(["run", &graph, "--run-id", "r1"])
        .current_dir(repo.join("süb dir"))
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let lane = home.join("runs/r1/worktrees/l");
    let result = fs::read_to_string(home.join("runs/r1/nodes/b/result")).unwrap();
    let folder = repo.join("süb dir").canonicalize().unwrap();
    assert_eq!(result, format!("{}\n{}", folder.display(), lane.display()));
    assert_eq!(world.shell("git -C '../ré po' show 'omg/r1/l:ü ber'"), "x");
}

#[test]
fn runs_side_by_side_on_one_repository_do_not_fail_each_other() {
    let world = World::new();
    let nodes: String = (0..6)
        .map(|at| {
            format!(
                "  - {{id: n{at}, worktree: l{at}, run: 'echo x > n{at}; git add -A; git commit -q -m x'}}\n"
            )
        })
        .collect();
    let graph = world.graph(&format!("name: x\nconcurrency: 6\nnodes:\n{nodes}"));
    let mut runs: Vec<_> = (1..=4)
        .map(|run| {
            let words = ["run".to_string(), graph.clone(), "--run-id".into(), format!("r{run}")];
            world.start(&words.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .collect();
    for run in &mut runs {
        assert_eq!(
            run.wait().unwrap().code(),
            Some(0),
            "{}",
            fs::read_to_string(world.path().join("stderr")).unwrap()
        );
    }
    assert_eq!(world.branches().len(), 1 + 4 * 6);
}

#[test]
fn a_hook_sees_model_keys_only_where_they_are_named() {
    let mut world = World::new();
    world.extra.push(("OPENAI_API_KEY".into(), "key-of-mine".into()));
    let hook = world.repo().join(".git/hooks/post-checkout");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let seen = world.path().join("seen");
    fs::write(&hook, format!("#!/bin/sh\necho \"$OPENAI_API_KEY.\" >> {}\n", seen.display())).unwrap();
    fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let graph = world.graph("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n");
    world.omg(&["run", &graph, "--run-id", "r1"]).expect(0);
    world.omg(&["run", &graph, "--run-id", "r2", "--pass-env", "OPENAI_API_KEY"]).expect(0);
    assert_eq!(fs::read_to_string(seen).unwrap(), ".\nkey-of-mine.\n");
}

#[test]
fn a_discard_that_keeps_says_so_with_its_code() {
    let world = World::new();
    world.run("name: x\nnodes: [{id: a, worktree: l, run: 'echo x > u'}]\n").expect(0);
    let mut worker = world.command("sleep").arg("8801").current_dir(world.lane("l")).spawn().unwrap();
    let ended = world.omg(&["lanes", "discard", "r1", "l"]).expect(3);
    assert!(ended.stderr.contains("busy") && world.lane("l").join("u").exists(), "{}", ended.stderr);
    worker.kill().unwrap();
    worker.wait().unwrap();
    world.omg(&["lanes", "discard", "r1", "l"]).expect(0);
    world.omg(&["lanes", "discard", "r1", "l"]).expect(0);
    let channels = world.lane_view("l")["cleanup"]["channels"].clone();
    assert_eq!(channels["untracked"], "saved: refs/omg/rescued/r1/l", "a later look forgets nothing");
}

#[test]
fn a_look_that_only_informs_does_not_stop_a_run() {
    let world = World::new();
    let git = world.shell("command -v git");
    world.tool(
        "git",
        &format!("case \"$*\" in *status*) test -n \"$OMG_RUN_DIR\" || exit 1;; esac; exec {git} \"$@\""),
    );
    let ended = world.run("name: x\nnodes: [{id: a, worktree: l, run: 'true'}]\n").expect(0);
    assert!(ended.stderr.contains("is not known"), "{}", ended.stderr);
}

#[test]
fn a_machine_without_git_is_told_what_to_do() {
    let mut world = World::new();
    world.extra.push(("PATH".into(), world.path().join("nothing").into()));
    let graph = world.graph("name: x\nnodes:\n  - {id: a, worktree: a, run: 'true'}\n");
    let mut command = world.command(env!("CARGO_BIN_EXE_omg"));
    let ended: Ended = command.args(["run", &graph, "--run-id", "r1"]).output().unwrap().into();
    let ended = ended.expect(3);
    assert!(ended.stderr.contains("git could not be started"), "{}", ended.stderr);
    assert!(ended.stderr.contains("hint: install git, or put it on the PATH"), "{}", ended.stderr);
    assert!(!world.run_dir().exists());
}

#[test]
fn a_place_for_lanes_that_nobody_may_write_to_is_refused_before_anything_is_made() {
    let world = World::new();
    let graph = world.graph(
        "name: x\nnodes:\n  - {id: a, worktree: a, run: 'true'}\n  - {id: b, worktree: b, run: 'true'}\n",
    );
    let program = env!("CARGO_BIN_EXE_omg");
    world.shell(&format!("cd ..; mkdir ro; chmod 555 ro; chmod 755 .; cp {program} omg"));
    let copy = world.path().join("omg").display().to_string();
    let mut command = if rustix::process::geteuid().is_root() {
        // Nothing is closed to root.
        world.shell("chown -R 65534:65534 ..");
        let mut command = world.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", &copy]);
        command
    } else {
        world.command(&copy)
    };
    let root = world.path().join("ro").display().to_string();
    let words = ["run", &graph, "--run-id", "r1", "--worktree-root", &root];
    let ended: Ended = command.args(words).output().unwrap().into();
    let ended = ended.expect(3);
    assert_eq!(ended.stderr.matches("error:").count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("/ro, where lanes belong, can't be written to"), "{}", ended.stderr);
    assert!(ended.stderr.contains("lane a (a), lane b (b)"), "{}", ended.stderr);
    assert!(!world.run_dir().exists() && !world.repo().join(".git/refs/heads/omg").exists());
}
