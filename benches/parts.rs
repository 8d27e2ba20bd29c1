//! The parts that every run goes through, without a process: reading a graph, replaying a journal, deciding.
//!
//! `cargo bench --bench parts`. Each is given at ten times the size too: they are meant to grow with it.

use divan::Bencher;
use divan::counter::ItemsCount;
use jiff::Timestamp;
use omg::graph::model::{OnFail, ProvisionWhen};
use omg::graph::{Graph, Trust, load};
use omg::ids::{Generation, Leg};
use omg::journal::Record;
use omg::journal::record::parse;
use omg::journal::replay::replay;
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
        exits: Vec::new(),
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
            fact,
        };
        serde_json::to_writer(&mut bytes, &record).unwrap_or_else(|error| panic!("{error}"));
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
