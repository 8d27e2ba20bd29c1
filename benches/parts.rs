//! The parts that every run goes through, without a process: reading a graph, replaying a journal, deciding.
//!
//! `cargo bench --bench parts`. Each is given at ten times the size too: they are meant to grow with it.
#![expect(clippy::disallowed_methods, reason = "makes trees to look at")]

use divan::Bencher;
use divan::counter::ItemsCount;
use jiff::Timestamp;
use omg::graph::model::{OnFail, Provision, ProvisionChoice, ProvisionWhen};
use omg::graph::{Graph, Trust, load};
use omg::ids::{Generation, Leg};
use omg::journal::Record;
use omg::journal::record::{parse, sealed};
use omg::journal::replay::replay;
use omg::provision::fingerprint::{Inputs, fingerprint};
use omg::provision::look::{Look, look};
use omg::provision::plan::{Seen, plan};
use omg::provision::receipt::{Installed, Known, Receipt, Standing, save, standing, states};
use omg::schedule::event::{Event, LegStart};
use omg::schedule::fault::Exit;
use omg::schedule::state::{Names, RunState};
use omg::schedule::{Action, Fact, step};

const SIZES: [usize; 2] = [1000, 10_000];

fn main() {
    divan::main();
}

fn text(nodes: usize) -> String {
    let node = |n: usize| match n {
        0..10 => format!("- {{id: n{n}, run: 'make part-{n}', retry: {{max: 1}}}}\n"),
        _ => format!("- {{id: n{n}, run: 'make part-{n}', depends_on: [n{}, n{}]}}\n", n - 10, n - 7),
    };
    format!("name: bench\nnodes:\n{}", (0..nodes).map(node).collect::<String>())
}

fn graph(nodes: usize) -> Graph {
    load("bench.yaml", &text(nodes), &|_| None, Trust::Reviewed).unwrap_or_else(|_| panic!("it loads")).graph
}

#[divan::bench(args = SIZES)]
fn lint(bencher: Bencher<'_, '_>, nodes: usize) {
    let text = text(nodes);
    bencher
        .counter(ItemsCount::new(nodes))
        .bench(|| load("bench.yaml", &text, &|_| None, Trust::Reviewed).is_ok());
}

fn leg() -> Event {
    Event::LegStarted(Box::new(LegStart {
        leg: Leg(1),
        generation: Generation(1),
        concurrency: 8,
        on_fail: OnFail::Halt,
        provision_when: ProvisionWhen::RunStart,
        lanes_that_fit: 0,
        retry_failed: false,
        retry_blocked: false,
        unfit: Vec::new(),
        gates: Vec::new(),
        learned: Vec::new(),
        format: 1,
        seen: Vec::new(),
        pid: 1,
        build: "bench".into(),
    }))
}

/// Decides a whole run in which every process passes, and returns all that became true.
fn decide(graph: &Graph, names: &Names) -> Vec<Fact> {
    let mut state = RunState::new(graph);
    let mut facts = Vec::new();
    let mut events = vec![leg()];
    while let Some(event) = events.pop() {
        let decision = step(&mut state, graph, names, &event).unwrap_or_else(|error| panic!("{error}"));
        facts.extend(decision.facts);
        for action in decision.actions {
            if let Action::Dispatch { intent, .. } = action {
                let exit = Exit { code: Some(0), ..Exit::default() };
                events.push(Event::Exited { intent: intent.clone(), exit, leftovers: Vec::new() });
                events.push(Event::Started { intent, pid: 1, start_time: 1 });
            }
        }
    }
    facts
}

#[divan::bench(args = SIZES)]
fn decide_a_whole_run(bencher: Bencher<'_, '_>, nodes: usize) {
    let graph = graph(nodes);
    let names = Names::of(&graph);
    bencher.counter(ItemsCount::new(nodes)).bench(|| decide(&graph, &names).len());
}

fn journal(graph: &Graph, names: &Names) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, fact) in decide(graph, names).into_iter().enumerate() {
        let record = Record {
            seq: at as u64 + 1,
            ts: Timestamp::UNIX_EPOCH,
            leg: Leg(1),
            r#gen: Generation(1),
            target: fact.target().map(str::to_string),
            synced: Some(at as u64),
            batch: None,
            fact,
        };
        let line = serde_json::to_string(&record).unwrap_or_else(|error| panic!("{error}"));
        bytes.extend(sealed(line).into_bytes());
        bytes.push(b'\n');
    }
    bytes
}

#[divan::bench(args = SIZES)]
fn read_and_replay_a_journal(bencher: Bencher<'_, '_>, nodes: usize) {
    let graph = graph(nodes);
    let names = Names::of(&graph);
    let bytes = journal(&graph, &names);
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    bencher.counter(ItemsCount::new(lines)).bench(|| {
        let parsed = parse(&bytes).unwrap_or_else(|(line, reason)| panic!("line {line}: {reason}"));
        replay(&graph, &names, &parsed.records).is_ok()
    });
}

/// A lane that npm installed: a lockfile of some 1 MB for 2,500 packages, and its receipt.
struct Lane {
    folder: tempfile::TempDir,
    receipt: String,
    plan: omg::provision::ProvisionPlan,
}

impl Lane {
    fn new(packages: usize) -> Lane {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("lane");
        let names: Vec<String> = (0..packages).map(|at| format!("node_modules/package-{at}")).collect();
        let entry = |name: &String| {
            let integrity = "x".repeat(300);
            format!("\"{name}\":{{\"version\":\"1.0.0\",\"integrity\":\"sha512-{integrity}\"}}")
        };
        let entries: Vec<String> = names.iter().map(entry).collect();
        let lock = format!("{{\"lockfileVersion\":3,\"packages\":{{{}}}}}", entries.join(","));
        for name in &names {
            std::fs::create_dir_all(root.join(name)).expect("a package");
            let manifest =
                format!("{{\"name\":\"{}\",\"version\":\"1.0.0\"}}", &name["node_modules/".len()..]);
            std::fs::write(root.join(name).join("package.json"), manifest).expect("a manifest");
        }
        std::fs::write(root.join("package-lock.json"), &lock).expect("a lockfile");
        std::fs::write(root.join("node_modules/.package-lock.json"), &lock).expect("a mark");
        let seen = Seen { tracked: ["package-lock.json".to_string()].into(), ..Seen::default() };
        let plan = plan(&ProvisionChoice::Ladder, &[], &seen);
        let inputs = omg::provision::probe::names(&Provision::default());
        let files = states(&root, &inputs);
        let facts = Inputs { plan: &plan, tools: &Default::default(), files: &files, overlay: None };
        let receipt = Receipt {
            cmd: plan.display(),
            exit_code: Some(0),
            at: Timestamp::UNIX_EPOCH,
            duration_ms: 1,
            fingerprint: fingerprint(&facts, &root.to_string_lossy()),
            rung: plan.rung,
            reason: None,
            tools: Default::default(),
            inputs,
            installed: vec![Installed {
                root: String::new(),
                by: "npm ci".into(),
                folders: vec!["node_modules".into()],
                witnesses: look(Look::Npm, &root).unwrap_or_else(|hole| panic!("{hole}")),
                products: Vec::new(),
            }],
            made: vec!["node_modules".into()],
            files: None,
            mirror: None,
        };
        let receipt = save(&receipt, &folder.path().join("receipt.json"), folder.path()).expect("a receipt");
        Lane { folder, receipt, plan }
    }

    fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("lane")
    }
}

/// What each node of a lane costs before it begins: whether the lane's receipt still holds.
#[divan::bench(args = [250, 2500])]
fn fresh_check(bencher: Bencher<'_, '_>, packages: usize) {
    let lane = Lane::new(packages);
    let (root, path) = (lane.root(), lane.folder.path().join("receipt.json"));
    bencher.counter(ItemsCount::new(packages)).bench(|| {
        let known = Known {
            path: &path,
            sha256: Some(&lane.receipt),
            root: &root,
            plan: &lane.plan,
            tools: &Default::default(),
            overlay: None,
        };
        assert!(matches!(standing(&known), Standing::Fresh(_)));
    });
}

/// What the proof of an installation costs, once.
#[divan::bench(args = [250, 2500])]
fn look_at_an_installation(bencher: Bencher<'_, '_>, packages: usize) {
    let lane = Lane::new(packages);
    let root = lane.root();
    bencher.counter(ItemsCount::new(packages)).bench(|| look(Look::Npm, &root).is_ok());
}
