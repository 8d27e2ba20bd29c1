//! What must hold once a struck run is over, as git, the files, the journal and the nodes' own books have it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::world::World;

const NODES: [&str; 11] =
    ["one", "two", "dirt", "hidden", "uses", "nothing", "plain", "check", "impl", "review", "tail"];

/// Returns what is wrong, a line each; nothing where all holds. A git that was killed too may have left lock files in
/// the repository (`git_was_killed`), which are the user's to remove, as `omg doctor` says.
pub fn judge(world: &World, git_was_killed: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let events = match events(world) {
        Ok(events) => events,
        Err(error) => return vec![error],
    };
    journal(&events, &mut wrong);
    books(world, &events, &mut wrong);
    money(world, &events, &mut wrong);
    work(world, &mut wrong);
    lanes(world, &mut wrong);
    leftovers(world, &mut wrong);
    if git_was_killed {
        let refs_are_locked = world.repo().join(".git/packed-refs.lock").exists();
        wrong.retain(|line| {
            let of_lock = line.starts_with("a lock is left");
            let of_branch = refs_are_locked && line.contains("kept at its base without a tree");
            !of_lock && !of_branch
        });
    }
    wrong
}

fn events(world: &World) -> Result<Vec<Value>, String> {
    let text = fs::read_to_string(world.run_dir().join("events.jsonl")).map_err(|error| error.to_string())?;
    text.lines().map(|line| serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))).collect()
}

fn text<'a>(event: &'a Value, field: &str) -> &'a str {
    event[field].as_str().unwrap_or_default()
}

/// The journal is whole, its acts have their ends, and every node passed once.
fn journal(events: &[Value], wrong: &mut Vec<String>) {
    let mut open: BTreeSet<(String, String)> = BTreeSet::new();
    let mut passed: BTreeMap<String, usize> = BTreeMap::new();
    let mut generation = 0;
    for (at, event) in events.iter().enumerate() {
        if event["seq"].as_u64() != Some(at as u64 + 1) {
            wrong.push(format!("line {} has the number {}", at + 1, event["seq"]));
        }
        let of = event["gen"].as_u64().unwrap_or(0);
        if of < generation {
            wrong.push(format!("line {} is of generation {of}, after one of {generation}", at + 1));
        }
        generation = of;
        let name = text(event, "event");
        let act = |act: &str| (act.to_string(), text(event, "intent").to_string());
        if let Some(of) = name.strip_suffix(".requested") {
            open.insert(act(of));
        }
        for ending in [".performed", ".failed", ".skipped"] {
            if let Some(of) = name.strip_suffix(ending).filter(|of| *of != "node") {
                open.remove(&act(of));
            }
        }
        let node = text(event, "node").to_string();
        match name {
            "node.attempt.finished" => {
                open.remove(&act("node.dispatch"));
                // Its arc runs again, also where a leg had come to its end between.
                if event["next"] == "feedback" {
                    passed.remove("impl");
                }
            }
            // Taken over: the act was minted anew.
            "node.dispatch.requested" if !event["job"].is_null() => {
                let before = events[..at].iter().rev().find(|before| {
                    text(before, "event") == "node.dispatch.requested" && text(before, "node") == node
                });
                if let Some(before) = before {
                    open.remove(&("node.dispatch".to_string(), text(before, "intent").to_string()));
                }
            }
            "node.finished" if text(event, "state") == "passed" => {
                *passed.entry(node.clone()).or_default() += 1
            }
            _ => {}
        }
        if name == "node.dispatch.requested" && passed.contains_key(&node) {
            wrong.push(format!("{node} passed, and was dispatched again"));
        }
    }
    for (act, intent) in open {
        wrong.push(format!("{act} {intent} has no end"));
    }
    for node in NODES {
        if passed.get(node) != Some(&1) {
            wrong.push(format!("{node} passed {} times", passed.get(node).unwrap_or(&0)));
        }
    }
    if events.last().map(|event| text(event, "status")) != Some("passed") {
        wrong.push("the run did not pass".into());
    }
}

/// Nothing ran without an intent, or twice for one, or after it had passed.
fn books(world: &World, events: &[Value], wrong: &mut Vec<String>) {
    let intents: BTreeSet<&str> = events
        .iter()
        .filter(|event| text(event, "event") == "node.dispatch.requested")
        .map(|event| text(event, "intent"))
        .collect();
    let mut began = BTreeSet::new();
    let mut ended: BTreeMap<String, usize> = BTreeMap::new();
    for [word, node, job, _] in world.ledger() {
        if word == "begin" {
            if !intents.contains(job.as_str()) {
                wrong.push(format!("{node} ran as {job}, which was never announced"));
            }
            if !began.insert(job.clone()) {
                wrong.push(format!("{node} ran twice as {job}"));
            }
        }
        if word == "end" {
            *ended.entry(node).or_default() += 1;
        }
    }
    for node in NODES {
        if !ended.contains_key(node) {
            wrong.push(format!("{node} is said to have passed, and never came to its end"));
        }
    }
}

/// What agents cost is in the journal once for each that came to its end, and for nobody else.
fn money(world: &World, events: &[Value], wrong: &mut Vec<String>) {
    let costs: Vec<f64> = events
        .iter()
        .filter(|event| text(event, "event") == "node.attempt.finished")
        .filter_map(|event| event["agent"]["cost_usd"].as_f64())
        .collect();
    let is_agent = |node: &str| matches!(node, "impl" | "review");
    let ended = world.ledger().iter().filter(|[word, node, ..]| word == "end" && is_agent(node)).count();
    let passed = events
        .iter()
        .filter(|event| text(event, "event") == "node.attempt.finished" && is_agent(text(event, "node")))
        .filter(|event| !event["evidence"].is_null() || event["next"] == "feedback");
    let judged = passed.count();
    if costs.iter().any(|cost| (cost - crate::world::COST).abs() > 1e-9) {
        wrong.push(format!("an attempt cost other than it said: {costs:?}"));
    }
    if !(judged..=ended).contains(&costs.len()) {
        wrong.push(format!("{} costs, of {ended} agents that ended, {judged} of them judged", costs.len()));
    }
}

/// Every commit and every file that a node made is there.
fn work(world: &World, wrong: &mut Vec<String>) {
    let repo = world.repo();
    for [word, node, job, what] in world.ledger() {
        match word.as_str() {
            "commit" => {
                let refs = world.git_in(&repo, &["for-each-ref", "--contains", &what, "--format=%(refname)"]);
                let heads = world.git_in(&repo, &["rev-list", "--all", "--reflog"]);
                let is_there = refs.as_ref().is_ok_and(|refs| !refs.is_empty())
                    || heads.is_ok_and(|heads| heads.lines().any(|line| line == what));
                if !is_there {
                    wrong.push(format!("commit {what} of {node} is lost: {refs:?}"));
                }
            }
            "file" => {
                let name = Path::new(&what).file_name().unwrap_or_default();
                let found = files(&world.run_dir().join("worktrees"))
                    .into_iter()
                    .chain(files(&world.run_dir().join("rescued")))
                    .any(|path| {
                        path.file_name() == Some(name)
                            && fs::read_to_string(&path).is_ok_and(|text| text.trim_end() == job)
                    });
                if !found {
                    wrong.push(format!("{what} of {node} is lost"));
                }
            }
            _ => {}
        }
    }
}

/// What cleanup kept is what holds work, and the reverse.
fn lanes(world: &World, wrong: &mut Vec<String>) {
    let repo = world.repo();
    let base = world.git(&["rev-parse", "main"]);
    for lane in ["commits", "dirty", "ignored", "clean", "agents"] {
        let (tree, branch) = (world.lane(lane), format!("omg/r1/{lane}"));
        let tip = world.git_in(&repo, &["rev-parse", "--verify", "-q", &format!("refs/heads/{branch}")]).ok();
        let holds_work = tree.is_dir().then(|| {
            let status = world.git_in(&tree, &["status", "--porcelain"]);
            !status.as_ref().is_ok_and(String::is_empty)
        });
        if holds_work == Some(false) {
            wrong.push(format!("the tree of {lane} is kept, and nothing is in it"));
        }
        if lane == "dirty" && holds_work.is_none() {
            wrong.push("the tree of `dirty` is gone".into());
        }
        if tip.as_deref() == Some(base.as_str()) && holds_work.is_none() {
            wrong.push(format!("branch {branch} is kept at its base without a tree"));
        }
        if matches!(lane, "commits" | "agents") && tip.is_none() {
            wrong.push(format!("branch {branch} is gone"));
        }
        let listed = world.git(&["ls-tree", "-r", "--name-only", tip.as_deref().unwrap_or("main")]);
        if listed.lines().any(|name| name == ".env") {
            wrong.push(format!("a commit of {branch} carries a local file"));
        }
    }
}

/// Nothing runs, nothing is locked, nothing is half-made, and the user's checkout is as it was.
fn leftovers(world: &World, wrong: &mut Vec<String>) {
    for line in living(&world.run_dir()) {
        wrong.push(format!("still running: {line}"));
    }
    let repo = world.repo();
    if let Err(error) = world.git_in(&repo, &["fsck", "--connectivity-only", "--no-dangling"]) {
        wrong.push(format!("the repository is not sound: {error}"));
    }
    if world.git(&["status", "--porcelain"]) != "?? .env" {
        wrong.push(format!("the user's checkout changed: {}", world.git(&["status", "--porcelain"])));
    }
    for path in files(&repo.join(".git")) {
        let is_lock = path.extension().is_some_and(|end| end == "lock");
        if is_lock && path.file_name().is_none_or(|name| name != "omg-worktrees.lock") {
            wrong.push(format!("a lock is left: {}", path.display()));
        }
        if path.file_name().is_some_and(|name| name == "locked") {
            wrong.push(format!("a lane is left locked: {}", path.display()));
        }
    }
    let listed = world.git(&["worktree", "list", "--porcelain"]);
    for line in listed.lines().filter(|line| line.starts_with("prunable")) {
        wrong.push(format!("an entry is left whose tree is gone: {line}"));
    }
    for folder in [world.run_dir().join("worktrees"), world.run_dir().join("..")] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if [".omg-aside-", ".omg-gone-", ".new-"].iter().any(|mark| name.starts_with(mark)) {
                wrong.push(format!("{name} is left"));
            }
        }
    }
}

/// Processes of the run, and those that keep it.
fn living(run_dir: &Path) -> Vec<String> {
    let mark = format!("OMG_RUN_DIR={}", run_dir.display());
    let folder = run_dir.display().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let variables = fs::read(entry.path().join("environ")).unwrap_or_default();
        let is_of_run = variables.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes());
        if is_of_run || (line.starts_with("omg __") && line.contains(&folder)) {
            found.push(format!("{} {line}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                _ => found.push(entry.path()),
            }
        }
    }
    found
}
