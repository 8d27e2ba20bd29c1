//! What is said before a leg, held against what the scheduler then does: over many graphs, legs and ways to end.

use std::collections::BTreeSet;

use super::leg::LegOptions;
use super::outlook::outlook;
use crate::graph::model::{OnFail, ProvisionWhen};
use crate::graph::{Graph, Trust, load};
use crate::ids::{Generation, Leg, NodeId, NodeIx};
use crate::run::settle::SeenAct;
use crate::schedule::amending::closings;
use crate::schedule::event::LegStart;
use crate::schedule::fact::{EndState, StopReason};
use crate::schedule::fault::Exit;
use crate::schedule::settling::{OpenAct, ProcessSeen, Seen};
use crate::schedule::state::{Names, NodePhase, RunState};
use crate::schedule::{Action, Event, Fact, step};
use crate::view::outlook::Runs;

/// SplitMix64; a seed is a story.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

fn graph(dice: &mut Dice) -> Graph {
    let mut text = String::from("name: x\nnodes:\n");
    for at in 0..1 + dice.below(9) {
        let mut edges = Vec::new();
        for before in 0..at {
            if dice.percent(30) {
                let on = ["passed", "passed", "passed", "finished", "failed"][dice.below(5)];
                edges.push(format!("{{id: n{before}, on: {on}}}"));
            }
        }
        text += &format!("- {{id: n{at}, run: x, depends_on: [{}]}}\n", edges.join(", "));
    }
    load("g.yaml", &text, &|_| None, Trust::Reviewed).unwrap().graph
}

struct World {
    dice: Dice,
    graph: Graph,
    names: Names,
    history: Vec<(Leg, Generation, Fact)>,
}

impl World {
    fn replayed(&self) -> RunState {
        let mut state = RunState::new(&self.graph);
        for (leg, generation, fact) in &self.history {
            state.apply(&self.graph, &self.names, *leg, *generation, fact).unwrap();
        }
        state
    }

    /// Runs a leg; `good` is one in which all goes well. Returns the nodes that it dispatched.
    fn leg(&mut self, options: &LegOptions, exits: Vec<SeenAct>, good: bool) -> BTreeSet<NodeId> {
        let mut state = self.replayed();
        let start = LegStart {
            leg: Leg(state.leg.0 + 1),
            generation: Generation(state.generation.0 + 1),
            concurrency: 1 + self.dice.below(3) as u32,
            on_fail: if self.dice.percent(50) { OnFail::Halt } else { OnFail::Continue },
            provision_when: ProvisionWhen::RunStart,
            lanes_that_fit: 0,
            retry_failed: options.retry_failed,
            retry_blocked: options.retry_blocked,
            unfit: Vec::new(),
            gates: Vec::new(),
            learned: Vec::new(),
            seen: exits,
            format: 1,
            pid: 1,
            build: String::new(),
        };
        let mut dispatched = BTreeSet::new();
        let mut events = vec![Event::LegStarted(Box::new(start))];
        while !events.is_empty() {
            let event = events.swap_remove(self.dice.below(events.len()));
            let decision = step(&mut state, &self.graph, &self.names, &event).unwrap();
            let at = (state.leg, state.generation);
            self.history.extend(decision.facts.into_iter().map(|fact| (at.0, at.1, fact)));
            for action in decision.actions {
                match action {
                    Action::Dispatch { intent, node, .. } => {
                        dispatched.insert(self.graph.node(node).id.clone());
                        let code = if good { 0 } else { [0, 0, 0, 1, 127][self.dice.below(5)] };
                        let exit = Exit { code: Some(code), ..Exit::default() };
                        events.push(Event::Exited { intent, exit, leftovers: Vec::new() });
                    }
                    // What is being ended has its exit among the events already.
                    Action::End { .. } | Action::Arm { .. } => {}
                    Action::Settled => {
                        let done = Fact::RunFinished { status: state.status() };
                        self.history.push((at.0, at.1, done));
                        return dispatched;
                    }
                    other => panic!("{other:?} of a graph without lanes"),
                }
            }
            if !good && self.dice.percent(5) {
                events.push(Event::StopRequested(StopReason::Signal(2)));
            }
            if !good && self.dice.percent(5) {
                return dispatched;
            }
        }
        panic!("the leg does not end");
    }

    /// Opens some nodes again, as an amendment does.
    fn amend(&mut self) {
        let state = self.replayed();
        let all: Vec<NodeIx> = self.graph.node_ixs().collect();
        let touched: Vec<NodeIx> = all.into_iter().filter(|_| self.dice.percent(30)).collect();
        let mut facts = closings(&self.graph, &state, &touched);
        facts.push(Fact::GraphAmended {
            from: String::new(),
            to: String::new(),
            number: 1,
            path: "/g.yaml".into(),
            reopened: touched.iter().map(|ix| self.graph.node(*ix).id.clone()).collect(),
            removed: Vec::new(),
            changes: Vec::new(),
        });
        let at = (Leg(state.leg.0 + 1), Generation(state.generation.0 + 1));
        self.history.extend(facts.into_iter().map(|fact| (at.0, at.1, fact)));
    }

    /// Exits on disk of some nodes in flight, and those nodes.
    fn exits(&mut self, state: &RunState) -> (Vec<SeenAct>, Vec<NodeIx>) {
        let (mut exits, mut nodes) = (Vec::new(), Vec::new());
        for ix in self.graph.node_ixs() {
            if let NodePhase::InFlight(flight) = &state.node(ix).phase
                && flight.ending.is_none()
                && self.dice.percent(50)
            {
                let exit = ProcessSeen::Exited {
                    exit: Box::new(Exit { code: Some(0), ..Exit::default() }),
                    in_place: true,
                };
                exits.push((flight.intent.clone(), OpenAct::Dispatch(ix), Seen::Process(exit)));
                nodes.push(ix);
            }
        }
        (exits, nodes)
    }
}

fn story(seed: u64) {
    let mut dice = Dice(seed);
    let graph = graph(&mut dice);
    let mut world = World { names: Names::of(&graph), dice, graph, history: Vec::new() };
    for _ in 0..1 + world.dice.below(3) {
        let options = LegOptions { retry_failed: world.dice.percent(30), ..LegOptions::default() };
        world.leg(&options, Vec::new(), false);
    }
    if world.dice.percent(30) {
        world.amend();
    }
    let state = world.replayed();
    let (exits, ended) = world.exits(&state);
    let options = LegOptions {
        retry_failed: world.dice.percent(50),
        retry_blocked: world.dice.percent(50),
        ..LegOptions::default()
    };
    let told = outlook(&world.graph, &state, &options, &ended, None);
    let passed = |state: &RunState| -> Vec<NodeId> {
        let ids = world.graph.node_ixs().filter(|ix| state.end_of(*ix) == Some(EndState::Passed));
        ids.map(|ix| world.graph.node(ix).id.clone()).collect()
    };
    assert_eq!(told.kept, passed(&state), "seed {seed}: kept");
    let runs = told.runs.iter().filter(|(why, _)| *why != Runs::Ended);
    let expected: BTreeSet<NodeId> = runs.flat_map(|(_, ids)| ids.clone()).collect();
    let rests = told.rests.iter().flat_map(|(_, ids)| ids).count();
    let told_of = told.kept.len() + told.runs.iter().map(|(_, ids)| ids.len()).sum::<usize>() + rests;
    assert_eq!(told_of, world.graph.nodes().len(), "seed {seed}: each node is told of once");
    assert_eq!(world.leg(&options, exits, true), expected, "seed {seed}: what runs");
}

#[test]
fn what_is_said_to_run_runs_if_all_goes_well_and_nothing_else() {
    for seed in 0..1000 {
        story(seed);
    }
}
