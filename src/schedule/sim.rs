//! The scheduler against a simulated world: random graphs, faults, crashes and late outcomes.
//!
//! A seed makes a graph and a world; the world answers actions in random order, kills the leg at
//! random, and delivers answers to acts of dead legs. After each step the invariants of DESIGN.md
//! are checked against the world's own books, which know nothing of how `step` decides.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use indexmap::IndexMap;

use super::event::{AcquiredLane, Event, Gate, LegStart, ProvisionFailure, Provisioned, Timer};
use super::fact::{Cleanup, EndState, Fact, StopReason};
use super::fault::{Exit, Fault, FaultClass, Scope, VerifyOutcome};
use super::resolver::Next;
use super::settling::{LaneSeen, OpenAct, ProcessSeen, Seen};
use super::state::{Act, Names, NodePhase, RunState};
use super::{Action, step};
use crate::graph::Graph;
use crate::graph::model::{Access, On, ProvisionWhen};
use crate::ids::{CommitId, Generation, IntentId, LaneIx, LaneName, Leg, NodeId, NodeIx};
use crate::money::Usd;
use crate::runtime::{LimitKind, ReplySeen, Sign, Told};

#[path = "sim_graph.rs"]
mod sim_graph;

use sim_graph::{Dice, graph};

/// What the world still owes an answer to.
#[derive(Clone, Debug)]
enum Owed {
    Acquire(IntentId),
    Overlay(IntentId),
    Provision(IntentId),
    Dispatch(IntentId, NodeIx),
    Exit(IntentId),
    Verify(IntentId),
    Sweep(IntentId),
    Timer(Timer),
}

/// What is taken out of the scheduler, so that the simulation shows that it would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// Answers to acts of dead legs count.
    NoGenerationCheck,
    /// What a dead leg left running is taken for gone without a look.
    Guess,
}

thread_local! {
    static MUTANT: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Returns what is taken out now.
pub(super) fn mutant() -> Option<Mutant> {
    MUTANT.get()
}

/// What an agent tells that did well.
fn good() -> Told {
    Told { reply: ReplySeen::Good, ..Told::default() }
}

/// What an early verdict came to.
fn swept(tree: &str) -> Cleanup {
    Cleanup {
        tree: tree.into(),
        branch: "kept".into(),
        reason: "sim".into(),
        note: None,
        channels: IndexMap::new(),
        overlay_in_commits: Vec::new(),
        overlay_unchecked: None,
    }
}

/// A lane that was made.
fn acquired() -> AcquiredLane {
    AcquiredLane {
        how: "created".into(),
        path: "/lane".into(),
        branch: "omg/r/l".into(),
        base: CommitId::from("0"),
        branch_made: true,
        git_dir: "/lane/.git".into(),
        set_aside: None,
    }
}

/// A lane that can't be made fit.
fn unfit() -> ProvisionFailure {
    ProvisionFailure {
        cmd: None,
        exit_code: None,
        cause: "tool-missing".into(),
        detail: "sim".into(),
        log_tail: String::new(),
        may_differ: false,
        ended_by_us: false,
        edited: false,
        kept: false,
    }
}

/// The world's own books, kept from facts and actions without looking at the state.
struct World {
    dice: Dice,
    graph: Graph,
    names: Names,
    state: RunState,
    history: Vec<(Leg, Generation, Fact)>,
    owed: Vec<Owed>,
    stragglers: Vec<Event>,
    /// Nodes whose process outlived its runner, with the act that it was started by.
    living: BTreeMap<NodeIx, IntentId>,
    /// How lanes stand that were being made when the leg was killed.
    half_made: BTreeMap<LaneIx, LaneSeen>,
    /// Whether a leg is being opened.
    starting: bool,
    /// Nodes that wait for their lane to be renewed.
    waiting: BTreeSet<NodeIx>,
    fit_lanes: BTreeSet<LaneIx>,
    overlaid_lanes: BTreeSet<LaneIx>,
    made_lanes: BTreeSet<LaneIx>,
    /// Lanes that take room on the disk, as far as this leg knows.
    standing: BTreeSet<LaneIx>,
    inside: BTreeMap<IntentId, NodeIx>,
    preparing: BTreeSet<IntentId>,
    ended_acts: BTreeSet<IntentId>,
    over: BTreeMap<NodeIx, EndState>,
    last_end: BTreeMap<NodeIx, EndState>,
    passed: BTreeSet<NodeIx>,
    /// Nodes that ended in this round of their arc.
    round_over: BTreeMap<NodeIx, EndState>,
    /// Rounds since budgets were new.
    rounds: BTreeMap<NodeIx, u32>,
    /// What a person said of gates.
    decided: BTreeMap<NodeIx, bool>,
    /// Whether a limit was come upon in this leg.
    limited: bool,
    /// What agents told that they cost, as far as it was written down.
    spent: Usd,
    /// Acts whose cost was written down.
    paid_for: BTreeSet<IntentId>,
    paid: BTreeMap<NodeIx, u32>,
    delivered: BTreeMap<NodeIx, u32>,
    early_open: bool,
    slots: u32,
    settled: bool,
    trouble: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Dice(seed);
        let graph = graph(&mut dice);
        World {
            names: Names::of(&graph),
            state: RunState::new(&graph),
            trouble: dice.pick(&[0, 5, 20, 50]),
            dice,
            graph,
            history: Vec::new(),
            owed: Vec::new(),
            stragglers: Vec::new(),
            living: BTreeMap::new(),
            half_made: BTreeMap::new(),
            starting: false,
            waiting: BTreeSet::new(),
            fit_lanes: BTreeSet::new(),
            overlaid_lanes: BTreeSet::new(),
            made_lanes: BTreeSet::new(),
            standing: BTreeSet::new(),
            inside: BTreeMap::new(),
            preparing: BTreeSet::new(),
            ended_acts: BTreeSet::new(),
            over: BTreeMap::new(),
            last_end: BTreeMap::new(),
            passed: BTreeSet::new(),
            round_over: BTreeMap::new(),
            rounds: BTreeMap::new(),
            decided: BTreeMap::new(),
            limited: false,
            spent: Usd::default(),
            paid_for: BTreeSet::new(),
            paid: BTreeMap::new(),
            delivered: BTreeMap::new(),
            early_open: false,
            slots: 1,
            settled: false,
        }
    }

    fn feed(&mut self, event: Event) {
        let decision = step(&mut self.state, &self.graph, &self.names, &event)
            .unwrap_or_else(|error| panic!("{error} at {event:?}"));
        for fact in decision.facts {
            self.book(&fact);
            self.history.push((self.state.leg, self.state.generation, fact));
        }
        for action in decision.actions {
            self.take(action);
        }
        self.check_replay();
        let busy = self.inside.len() + self.preparing.len();
        if self.starting {
            // What lives is taken over, whatever this leg's number of slots.
            self.slots = self.slots.max(busy as u32);
        }
        assert!(busy <= self.slots as usize, "{busy} acts at once, {} slots", self.slots);
    }

    /// The state is the fold of what was written down.
    fn check_replay(&self) {
        // Folding everything after each step would be quadratic; a sample finds the same faults.
        if self.history.len().is_multiple_of(7) || self.settled {
            assert_eq!(replay(&self.graph, &self.names, &self.history), self.state);
        }
    }

    fn lane_of(&self, name: &LaneName) -> LaneIx {
        self.names.lane(name).unwrap()
    }

    fn book(&mut self, fact: &Fact) {
        match fact {
            Fact::RunStarted { retry_failed, retry_blocked, .. } => {
                self.over.clear();
                self.inside.clear();
                self.preparing.clear();
                self.waiting.clear();
                self.fit_lanes.clear();
                self.overlaid_lanes.clear();
                self.made_lanes.clear();
                self.standing.clear();
                self.limited = false;
                if *retry_failed || *retry_blocked {
                    // What was skipped is judged anew.
                    self.round_over.retain(|_, end| *end != EndState::Skipped);
                }
                if *retry_failed {
                    let ends = &self.last_end;
                    let failed = |ix: &NodeIx| ends.get(ix) == Some(&EndState::Failed);
                    self.rounds.retain(|ix, _| !failed(ix));
                    self.decided.retain(|ix, _| !failed(ix));
                }
                let ends = &self.last_end;
                self.paid.retain(|ix, _| match ends.get(ix) {
                    Some(EndState::Failed) => !*retry_failed,
                    Some(EndState::Blocked) => !*retry_blocked,
                    _ => true,
                });
                // What is opened has not ended any more.
                self.last_end.retain(|_, end| !(*retry_failed && *end == EndState::Failed));
            }
            Fact::AcquireRequested { intent, lane, .. } => {
                let lane = self.lane_of(lane);
                // Beside what stands there is room; or nothing goes on that could make any.
                if let Some(fit) = self.state.live.fit.filter(|_| !self.standing.contains(&lane)) {
                    let idle = self.preparing.is_empty() && self.inside.is_empty();
                    assert!(idle || self.standing.len() < fit.max(1), "no room for {lane:?}");
                }
                self.standing.insert(lane);
                self.preparing.insert(intent.clone());
            }
            Fact::CleanupRequested { intent, .. } => {
                self.preparing.insert(intent.clone());
            }
            Fact::CleanupPerformed { lane, intent, cleanup } => {
                self.preparing.remove(intent);
                if cleanup.tree == "removed" {
                    self.standing.remove(&self.lane_of(lane));
                }
            }
            Fact::AcquirePerformed { lane, intent, .. } => {
                self.preparing.remove(intent);
                self.made_lanes.insert(self.lane_of(lane));
            }
            Fact::AcquireFailed { intent, .. } => {
                self.preparing.remove(intent);
            }
            Fact::ProvisionRequested { intent, reason, .. }
                if ["preflight", "given-up"].contains(&reason.as_str()) =>
            {
                self.preparing.insert(intent.clone());
            }
            Fact::OverlayRequested { lane, intent, .. } => {
                let lane = self.lane_of(lane);
                assert!(self.graph.overlay(lane).is_some(), "an overlay that nobody asked for");
                assert!(self.made_lanes.contains(&lane), "local files before it was made");
                let mut inside = self.inside.values();
                assert!(
                    !inside.any(|ix| self.graph.node(*ix).lane == Some(lane)),
                    "local files under a node"
                );
                self.preparing.insert(intent.clone());
            }
            Fact::OverlayPerformed { lane, intent, .. } => {
                self.preparing.remove(intent);
                self.overlaid_lanes.insert(self.lane_of(lane));
            }
            Fact::OverlayFailed { lane, intent, .. } => {
                self.preparing.remove(intent);
                self.overlaid_lanes.remove(&self.lane_of(lane));
            }
            Fact::ProvisionRequested { lane, intent, .. } => {
                let lane = self.lane_of(lane);
                assert!(self.made_lanes.contains(&lane), "provisioned before it was made");
                let has_files = self.graph.overlay(lane).is_none() || self.overlaid_lanes.contains(&lane);
                assert!(has_files, "provisioned before its local files were there");
                let users: Vec<NodeIx> = self
                    .inside
                    .values()
                    .copied()
                    .filter(|ix| self.graph.node(*ix).lane == Some(lane))
                    .collect();
                // In the slot of a node that waits for it before its `verify`, and all others there do too; or alone.
                let is_waiting = |ix: &NodeIx| self.waiting.contains(ix);
                assert!(users.iter().all(is_waiting), "provisioned under {users:?}");
                if users.is_empty() {
                    self.preparing.insert(intent.clone());
                }
            }
            Fact::ProvisionStarted { .. } => {}
            Fact::ProvisionPerformed { lane, intent, .. } | Fact::ProvisionSkipped { lane, intent, .. } => {
                self.preparing.remove(intent);
                self.fit_lanes.insert(self.lane_of(lane));
            }
            Fact::ProvisionFailed { lane, intent, fault, .. } => {
                self.preparing.remove(intent);
                // What was installed before is still there; the actuator looks whether it is.
                let lane = self.lane_of(lane);
                if fault.class == FaultClass::LockfileOutOfSync {
                    self.fit_lanes.insert(lane);
                } else {
                    self.fit_lanes.remove(&lane);
                }
            }
            Fact::ProvisionStale { lane, .. } => {
                self.fit_lanes.remove(&self.lane_of(lane));
            }
            Fact::DispatchRequested { node, attempt, intent, job, .. } => {
                self.book_dispatch(node, *attempt, intent, job.is_some())
            }
            Fact::DispatchFailed { intent, .. } => {
                self.inside.remove(intent);
            }
            Fact::NodeStarted { node, attempt, .. } => {
                let ix = self.names.node(node).unwrap();
                let delivered = self.delivered.entry(ix).or_default();
                *delivered = (*delivered).max(*attempt);
            }
            Fact::AttemptFinished {
                node, attempt, intent, fault, next, delivered, exit_code, agent, ..
            } => {
                let ix = self.names.node(node).unwrap();
                if let Some(agent) = agent {
                    assert!(self.paid_for.insert(intent.clone()), "{intent} is paid for twice");
                    self.spent = self.spent.plus(agent.cost_usd.unwrap_or_default());
                }
                self.inside.remove(intent);
                self.waiting.remove(&ix);
                let was_done =
                    !self.starting && *exit_code == Some(0) && self.graph.node(ix).check.verify.is_none();
                let is_cut_short = fault.as_ref().is_some_and(|fault| fault.class == FaultClass::Interrupted);
                assert!(
                    !(was_done && is_cut_short),
                    "{node} did what it should and would run again: {fault:?}"
                );
                if *delivered {
                    let seen = self.delivered.entry(ix).or_default();
                    *seen = (*seen).max(*attempt);
                }
                if *next == Some(Next::Pause) {
                    // For a limit of its own, or of a runtime of its before the one that was of no use.
                    let had_limit = self.graph.agent(ix).is_some_and(|agent| {
                        agent.runtimes.iter().any(|name| self.state.limits.contains_key(name))
                    });
                    let scope = fault.as_ref().unwrap().scope;
                    assert!(scope == Scope::Provider || had_limit, "{node} pauses for {fault:?}");
                    self.limited = true;
                }
                if *next == Some(Next::Feedback) {
                    self.book_round(ix, fault.as_ref().unwrap());
                }
                if let Some(Next::Retry(_)) = next {
                    let paid = self.paid.entry(ix).or_default();
                    *paid += 1;
                    assert!(*paid <= self.graph.node(ix).retry.max, "{node} was given more than its `retry`");
                    assert_eq!(
                        fault.as_ref().unwrap().scope,
                        Scope::Task,
                        "{node} was charged for {fault:?}"
                    );
                }
            }
            Fact::NodeFinished { node, state, fault, attempts } => {
                let ix = self.names.node(node).unwrap();
                self.last_end.insert(ix, *state);
                assert_eq!(self.over.insert(ix, *state), None, "{node} ended twice in a leg");
                assert_eq!(*attempts, self.delivered.get(&ix).copied().unwrap_or(0), "attempts of {node}");
                self.round_over.remove(&ix);
                // What only a no at a gate starts was not needed if all went well.
                self.early_open &= !(self.graph.is_gate(ix) && *state == EndState::Failed);
                match state {
                    EndState::Passed => {
                        assert!(self.passed.insert(ix), "{node} passed twice");
                        let said = self.decided.get(&ix) == Some(&true);
                        assert!(said || !self.graph.is_gate(ix), "{node} passed without a person's yes");
                    }
                    EndState::Paused => {
                        let scope = fault.as_ref().map(|fault| fault.scope);
                        let expected = if self.graph.is_gate(ix) { None } else { Some(Scope::Provider) };
                        assert_eq!(scope, expected, "{node} is paused");
                    }
                    EndState::Failed => {
                        assert_eq!(fault.as_ref().unwrap().scope, Scope::Task, "{node} blamed for {fault:?}");
                    }
                    EndState::Blocked => {
                        assert_ne!(
                            fault.as_ref().unwrap().scope,
                            Scope::Task,
                            "{node} blocked for {fault:?}"
                        );
                    }
                    EndState::Waiting | EndState::Skipped | EndState::Cancelled | EndState::Interrupted => {}
                }
            }
            Fact::RoundFinished { node, judge, state, .. } => {
                let (ix, judge) = (self.names.node(node).unwrap(), self.names.node(judge).unwrap());
                assert!(self.graph.body(judge).contains(&ix) && ix != judge);
                assert!(!self.over.contains_key(&ix), "{node} is over for the leg, and ends a round");
                assert_eq!(self.round_over.insert(ix, *state), None, "{node} ended twice in a round");
            }
            Fact::GateDecided { node, approved, .. } => {
                self.decided.insert(self.names.node(node).unwrap(), *approved);
            }
            Fact::NodeSkipped { node, because } => {
                let ix = self.names.node(node).unwrap();
                let any_failed = self
                    .graph
                    .ancestors(ix)
                    .iter()
                    .any(|before| self.ended(*before) == Some(EndState::Failed));
                assert!(because.is_none() || any_failed, "{node} skipped for a failure that was not");
            }
            Fact::RestartRequested { .. }
            | Fact::RestartPerformed { .. }
            | Fact::RestartFailed { .. }
            | Fact::ActOverdue { .. }
            | Fact::CleanupFailed { .. }
            | Fact::KillRequested { .. }
            | Fact::KillPerformed { .. }
            | Fact::KillFailed { .. }
            | Fact::GraphAmended { .. }
            | Fact::Stopping { .. }
            | Fact::RunFinished { .. } => {}
        }
    }

    /// How a node ended in this leg or, where it was not opened again, in an earlier one.
    fn ended(&self, ix: NodeIx) -> Option<EndState> {
        let over = self.over.get(&ix).or_else(|| self.round_over.get(&ix)).copied();
        over.or_else(|| self.state.end_of(ix))
    }

    /// A judgment sends an arc back: all of its body runs again, with new retries.
    fn book_round(&mut self, judge: NodeIx, fault: &Fault) {
        let arc = self.graph.arc_at(judge).expect("only who judges an arc sends it back");
        assert!(fault.class.is_judgment(), "{fault:?} sends an arc back");
        let rounds = self.rounds.entry(judge).or_default();
        *rounds += 1;
        assert!(*rounds <= arc.max, "more rounds than {}", arc.max);
        for ix in self.graph.body(judge) {
            self.passed.remove(ix);
            self.round_over.remove(ix);
            self.paid.remove(ix);
            self.last_end.remove(ix);
            // What ended for the leg is over: nothing of it may run again in the same leg.
            assert!(!self.over.contains_key(ix), "{ix:?} is over for the leg, and runs again");
        }
    }

    fn book_dispatch(&mut self, node: &NodeId, attempt: u32, intent: &IntentId, is_taken_over: bool) {
        let ix = self.names.node(node).unwrap();
        assert!(!self.passed.contains(&ix), "{node} passed and runs again");
        assert!(!self.round_over.contains_key(&ix), "{node} ended in this round and runs again");
        assert!(is_taken_over || !self.limited, "{node} is started at a provider's limit");
        assert!(!self.graph.is_gate(ix), "{node} is a gate");
        assert!(is_taken_over || !self.living.contains_key(&ix), "{node} is started while it lives");
        if is_taken_over {
            // Nothing of it is begun.
            assert!(self.starting, "{node} is taken over in the middle of a leg");
            let delivered = self.delivered.entry(ix).or_default();
            *delivered = (*delivered).max(attempt);
            self.inside.insert(intent.clone(), ix);
            // The lane that it is in is prepared at its next use.
            self.early_open = false;
            if let Some(lane) = self.graph.node(ix).lane {
                self.made_lanes.insert(lane);
                self.overlaid_lanes.insert(lane);
            }
            return;
        }
        // Only the first dispatch waits for the lanes; one that goes stale later is its own affair.
        assert!(!self.early_open || self.preparing.is_empty(), "{node} before the lanes were ready");
        self.early_open = false;
        assert_eq!(attempt, self.delivered.get(&ix).copied().unwrap_or(0) + 1, "attempt of {node}");
        for dependency in &self.graph.node(ix).depends_on {
            let end = self.ended(dependency.node);
            let met = match dependency.on {
                On::Passed => end == Some(EndState::Passed),
                On::Failed => end == Some(EndState::Failed),
                On::Finished => {
                    matches!(end, Some(EndState::Passed | EndState::Failed | EndState::Skipped))
                }
            };
            assert!(met, "{node} began with {:?} {end:?}", dependency);
        }
        if let Some(lane) = self.graph.node(ix).lane {
            assert!(self.fit_lanes.contains(&lane), "{node} in an unprepared lane");
            for other in self.inside.values().filter(|other| self.graph.node(**other).lane == Some(lane)) {
                let both_read = self.graph.node(ix).access == Access::Read
                    && self.graph.node(*other).access == Access::Read;
                assert!(both_read, "{node} shares its lane with {}", self.graph.node(*other).id);
            }
        }
        self.inside.insert(intent.clone(), ix);
    }

    fn take(&mut self, action: Action) {
        assert!(!self.settled, "{action:?} after the leg was settled");
        match action {
            Action::Acquire { intent, .. } => self.owed.push(Owed::Acquire(intent)),
            Action::Overlay { intent, .. } => self.owed.push(Owed::Overlay(intent)),
            Action::Provision { intent, .. } => self.owed.push(Owed::Provision(intent)),
            Action::Dispatch { intent, node, brief, .. } => {
                if let (Some(_), Some(budget)) = (self.graph.agent(node), self.graph.parts().budget) {
                    let reserved = self.state.reserved();
                    let is_alone = reserved == brief.budget.unwrap_or_default();
                    let all = self.spent.plus(reserved);
                    assert!(all <= budget || is_alone, "{all} of {budget}");
                }
                self.owed.push(Owed::Dispatch(intent, node));
            }
            Action::Verify { intent, .. } => self.owed.push(Owed::Verify(intent)),
            Action::End { intent, .. } => {
                self.ended_acts.insert(intent);
            }
            Action::Arm { timer, .. } => self.owed.push(Owed::Timer(timer)),
            Action::Adopt { intent, node, job, .. } => {
                assert_eq!(self.living.remove(&node), Some(job), "{intent} takes over what does not live");
                self.owed.push(Owed::Exit(intent));
            }
            Action::AskSupervisor => {}
            Action::Sweep { intent, lane, .. } => {
                let of_lane = |ix: NodeIx| self.graph.node(ix).lane == Some(lane);
                for ix in self.graph.node_ixs() {
                    let looks = self.graph.lanes_before(ix).any(|before| before == lane) || of_lane(ix);
                    assert!(!looks || self.ended(ix).is_some(), "lane {lane:?} goes under n{}", ix.0);
                }
                self.owed.push(Owed::Sweep(intent));
            }
            Action::Settled => self.settled = true,
        }
    }

    /// Answers something that is owed.
    fn answer(&mut self) {
        let at = self.dice.below(self.owed.len());
        let owed = self.owed.swap_remove(at);
        let trouble = self.dice.percent(self.trouble);
        let event = match owed {
            Owed::Acquire(intent) if trouble && self.dice.percent(30) => {
                Event::NotAcquired { intent, fault: Fault::new(FaultClass::WorktreeAcquireFailed, "sim") }
            }
            Owed::Acquire(intent) => Event::Acquired { intent, lane: acquired() },
            Owed::Overlay(intent) if trouble && self.dice.percent(30) => {
                Event::NotOverlaid { intent, fault: Fault::new(FaultClass::OverlayFailed, "sim") }
            }
            Owed::Overlay(intent) => Event::Overlaid { intent, files: Vec::new() },
            Owed::Provision(intent) => {
                let ended = self.ended_acts.contains(&intent);
                if ended || trouble {
                    Event::NotProvisioned {
                        intent,
                        failure: ProvisionFailure {
                            cmd: Some("x".into()),
                            exit_code: Some(1),
                            cause: "unknown".into(),
                            detail: "sim".into(),
                            log_tail: String::new(),
                            may_differ: self.dice.percent(50),
                            ended_by_us: ended,
                            edited: !ended && self.dice.percent(30),
                            kept: self.dice.percent(50),
                        },
                    }
                } else {
                    Event::Provisioned {
                        intent,
                        receipt: Provisioned {
                            cmd: None,
                            exit_code: None,
                            duration_ms: 0,
                            fingerprint: "f".into(),
                            receipt: "r".into(),
                            reason: None,
                            skipped: self.dice.percent(30),
                            notes: Vec::new(),
                        },
                    }
                }
            }
            Owed::Dispatch(intent, node) => {
                if trouble && self.graph.node(node).lane.is_some() && self.dice.percent(30) {
                    Event::LaneStale { intent, reason: "sim".into(), overlay_gone: self.dice.percent(20) }
                } else if trouble && self.dice.percent(20) {
                    let exit = Exit { not_started: Some("sim".into()), ..Exit::default() };
                    Event::Exited { intent, exit, leftovers: Vec::new() }
                } else {
                    self.owed.push(Owed::Exit(intent.clone()));
                    Event::Started { intent, pid: 1, start_time: 1 }
                }
            }
            Owed::Exit(intent) => {
                let ended_by_us = self.ended_acts.contains(&intent) && self.dice.percent(80);
                let node = self.inside[&intent];
                let is_agent = self.graph.agent(node).is_some();
                let exit = if is_agent && !ended_by_us {
                    self.agent_exit(trouble)
                } else if ended_by_us {
                    Exit { signal: Some(15), ended_by_us, ..Exit::default() }
                } else if trouble {
                    match self.dice.below(4) {
                        0 => Exit { signal: Some(9), ..Exit::default() },
                        1 => Exit { code: Some(127), ..Exit::default() },
                        2 => Exit { signal: Some(11), ..Exit::default() },
                        _ => Exit { code: Some(1), ..Exit::default() },
                    }
                } else {
                    Exit { code: Some(0), ..Exit::default() }
                };
                Event::Exited { intent, exit, leftovers: Vec::new() }
            }
            Owed::Verify(intent) => {
                let node = self.inside[&intent];
                self.waiting.remove(&node);
                let is_plain = self.graph.node(node).check.verify.is_none();
                if is_plain && !(trouble && self.dice.percent(50)) {
                    return self.feed(Event::LaneFit { intent });
                }
                let outcome = match (trouble, self.dice.below(4)) {
                    (_, at) if is_plain || (at == 2 && trouble && self.graph.node(node).lane.is_some()) => {
                        self.waiting.insert(node);
                        return self.feed(Event::LaneStale {
                            intent,
                            reason: "sim".into(),
                            overlay_gone: false,
                        });
                    }
                    (true, 0) => VerifyOutcome::TimedOut,
                    (true, 1) => VerifyOutcome::NotStarted("sim".into()),
                    (true, _) => VerifyOutcome::Exited { code: Some(1), output_matches: true },
                    (false, _) => VerifyOutcome::Exited { code: Some(0), output_matches: true },
                };
                Event::Verified { intent, outcome }
            }
            Owed::Sweep(intent) => {
                let tree = if trouble { "kept" } else { "removed" };
                Event::Swept { intent, cleanup: swept(tree) }
            }
            Owed::Timer(Timer::Timeout(_)) if !trouble => return,
            Owed::Timer(timer) => Event::TimerFired(timer),
        };
        self.feed(event);
    }

    /// How an agent ended by itself.
    fn agent_exit(&mut self, trouble: bool) -> Exit {
        let said = |sign: Option<Sign>| Told { reply: ReplySeen::SaidError, sign, ..Told::default() };
        let limit = |kind| Some(Sign::Limit { kind, resets_at: None });
        let told = match (trouble, self.dice.below(8)) {
            (true, 0) => said(limit(LimitKind::Session)),
            (true, 1) => said(limit(LimitKind::Rate)),
            (true, 2) => said(Some(Sign::Overloaded)),
            (true, 3) => said(Some(Sign::LoginExpired)),
            (true, 4) => said(None),
            (true, 5) => Told { reply: ReplySeen::Unreadable, ..Told::default() },
            (true, _) | (false, _) => good(),
        };
        let cost = self.dice.percent(80).then(|| Usd::from_micros(10_000 * self.dice.below(25) as u64));
        let told = Told { cost, ..told };
        let code = Some(i32::from(trouble && told.reply == ReplySeen::Good));
        Exit { code, told: Some(told), ..Exit::default() }
    }

    /// The leg dies; some of what it did leaves an exit on disk, some answers come too late.
    fn crash(&mut self) -> Vec<(IntentId, Exit)> {
        let mut exits = Vec::new();
        for owed in std::mem::take(&mut self.owed) {
            match owed {
                Owed::Exit(intent) => {
                    let told = Some(good());
                    let exit = Exit { code: Some(self.dice.below(2) as i32), told, ..Exit::default() };
                    let event =
                        Event::Exited { intent: intent.clone(), exit: exit.clone(), leftovers: Vec::new() };
                    self.stragglers.push(event);
                    let node = self.inside[&intent];
                    let NodePhase::InFlight(flight) = &self.state.node(node).phase else { continue };
                    let job = flight.job.clone();
                    if self.dice.percent(30) {
                        self.living.insert(node, job);
                    } else if self.dice.percent(50) {
                        let ended_by_us = self.dice.percent(50);
                        exits.push((job, Exit { ended_by_us, ..exit }));
                    }
                }
                Owed::Overlay(intent) => {
                    self.stragglers.push(Event::Overlaid { intent, files: Vec::new() });
                }
                Owed::Provision(intent) => self.stragglers.push(Event::NotProvisioned {
                    intent,
                    failure: ProvisionFailure {
                        cmd: None,
                        exit_code: None,
                        cause: "killed".into(),
                        detail: "late".into(),
                        log_tail: String::new(),
                        may_differ: true,
                        ended_by_us: false,
                        edited: false,
                        kept: false,
                    },
                }),
                Owed::Dispatch(intent, _) => {
                    self.stragglers.push(Event::Started { intent, pid: 1, start_time: 1 });
                }
                Owed::Acquire(intent) => {
                    if let Some(Act::Acquire(lane)) = self.state.live.acts.get(&intent) {
                        let whole = LaneSeen::Whole(Box::new(acquired()));
                        let seen = [LaneSeen::Nothing, LaneSeen::BranchOnly, LaneSeen::Half, whole];
                        self.half_made.insert(*lane, seen[self.dice.below(seen.len())].clone());
                    }
                    let fault = Fault::new(FaultClass::Unknown, "late");
                    self.stragglers.push(Event::NotAcquired { intent, fault });
                }
                Owed::Verify(intent) => self.stragglers.push(Event::Verified {
                    intent,
                    outcome: VerifyOutcome::Exited { code: Some(0), output_matches: true },
                }),
                Owed::Sweep(intent) => {
                    self.stragglers.push(Event::Swept { intent, cleanup: swept("removed") });
                }
                Owed::Timer(timer) => self.stragglers.push(Event::TimerFired(timer)),
            }
        }
        // What was in memory is gone; the journal is what is left.
        self.state = replay(&self.graph, &self.names, &self.history);
        exits
    }

    /// Returns what the world shows of each act that is open.
    fn look(&self, exits: &[(IntentId, Exit)]) -> Vec<(IntentId, OpenAct, Seen)> {
        let seen = |act: OpenAct| match act {
            OpenAct::Acquire(lane) => {
                Seen::Lane(self.half_made.get(&lane).cloned().unwrap_or(LaneSeen::Nothing))
            }
            OpenAct::Overlay(_) => Seen::Ledger(None),
            OpenAct::Provision(_) => Seen::Installation { marked: true },
            OpenAct::Kill(node) => {
                Seen::Survivors(self.living.get(&node).map(|_| "1 x".into()).into_iter().collect())
            }
            OpenAct::Dispatch(node) => Seen::Process(self.process(node, exits)),
            OpenAct::Cleanup(_) => Seen::Lane(LaneSeen::Nothing),
            OpenAct::Restart => Seen::Runner,
        };
        self.state.open.iter().map(|(intent, act)| (intent.clone(), *act, seen(*act))).collect()
    }

    fn process(&self, node: NodeIx, exits: &[(IntentId, Exit)]) -> ProcessSeen {
        if self.living.contains_key(&node) && mutant() != Some(Mutant::Guess) {
            return ProcessSeen::Living { pid: 1, start_time: 1, elapsed_ms: 0 };
        }
        let NodePhase::InFlight(flight) = &self.state.node(node).phase else {
            return ProcessSeen::Gone { left: None };
        };
        match exits.iter().find(|(job, _)| *job == flight.job) {
            Some((_, exit)) => ProcessSeen::Exited {
                exit: Box::new(exit.clone()),
                in_place: !flight.attempt.is_multiple_of(2),
            },
            // Of every other agent, what it had told by then is there.
            None if self.graph.agent(node).is_some() && flight.attempt.is_multiple_of(2) => {
                let told = Told { cost: Some(Usd::from_micros(70_000)), ..good() };
                ProcessSeen::Gone { left: Some(Box::new(told)) }
            }
            None => ProcessSeen::Gone { left: None },
        }
    }

    fn start_leg(&mut self, exits: Vec<(IntentId, Exit)>) {
        let seen = self.look(&exits);
        let when = self.dice.pick(&[ProvisionWhen::RunStart, ProvisionWhen::FirstUse]);
        let again = self.dice.percent(50);
        self.slots = 1 + self.dice.below(4) as u32;
        self.settled = false;
        self.ended_acts.clear();
        let lanes_that_fit = if self.dice.percent(30) { 1 + self.dice.below(2) } else { usize::MAX };
        // Where not all fit, the others come at their first use, and that may be the first node's.
        self.early_open = when == ProvisionWhen::RunStart && lanes_that_fit == usize::MAX;
        let unfit = match self.dice.percent(10) {
            true => self.graph.lane_ixs().take(1).map(|lane| (lane, unfit())).collect(),
            false => Vec::new(),
        };
        let retry_failed = again && self.dice.percent(50);
        let gates: Vec<NodeIx> = self.graph.node_ixs().filter(|ix| self.graph.is_gate(*ix)).collect();
        let gates = gates.into_iter().filter_map(|node| {
            let is_open = match self.state.end_of(node) {
                Some(EndState::Passed) => false,
                Some(EndState::Failed) => retry_failed,
                _ => true,
            };
            let approved = self.dice.percent(70);
            (is_open && self.dice.percent(40)).then_some(Gate { node, approved, note: None })
        });
        let gates = gates.collect();
        let start = LegStart {
            format: 1,
            leg: Leg(self.state.leg.0 + 1),
            generation: Generation(self.state.generation.0 + 1),
            concurrency: self.slots,
            on_fail: self.graph.parts().on_fail,
            provision_when: when,
            lanes_that_fit,
            retry_failed,
            gates,
            retry_blocked: again,
            unfit,
            learned: Vec::new(),
            seen,
            pid: 1,
            build: "sim".into(),
        };
        // What a dead leg had ended itself may have ended with 0.
        self.starting = true;
        self.feed(Event::LegStarted(Box::new(start)));
        self.starting = false;
        self.half_made.clear();
        assert!(self.living.is_empty(), "nobody looks after {:?}", self.living);
        let generation = Some(self.state.generation);
        let old: Vec<_> =
            self.state.open.iter().filter(|(intent, _)| intent.generation() != generation).collect();
        assert!(old.is_empty(), "left open: {old:?}");
    }

    /// Runs one leg; returns what a killed one left on disk.
    fn leg(&mut self, exits: Vec<(IntentId, Exit)>) -> Vec<(IntentId, Exit)> {
        self.start_leg(exits);
        let may_crash = self.dice.percent(40);
        for turn in 0..2000 {
            if self.settled {
                assert_eq!(self.state.live.acts.len(), 0);
                assert_eq!(self.state.cost.known, self.spent, "what was spent");
                assert!(self.state.open.is_empty(), "settled with {:?} open", self.state.open);
                for ix in self.graph.node_ixs() {
                    assert!(self.state.end_of(ix).is_some(), "{} has no ending", self.graph.node(ix).id);
                }
                let done = Fact::RunFinished { status: self.state.status() };
                let (leg, generation) = (self.state.leg, self.state.generation);
                self.state.apply(&self.graph, &self.names, leg, generation, &done).unwrap();
                self.history.push((leg, generation, done));
                self.owed.clear();
                return Vec::new();
            }
            if may_crash && self.dice.percent(5) {
                return self.crash();
            }
            if self.trouble > 0 && self.dice.percent(1) {
                let reason = self.dice_stop();
                self.feed(Event::StopRequested(reason));
                continue;
            }
            if self.dice.percent(3) {
                self.silence();
                continue;
            }
            if !self.stragglers.is_empty() && self.dice.percent(20) {
                let at = self.dice.below(self.stragglers.len());
                let late = self.stragglers.swap_remove(at);
                // A straggler's timer of a node is indistinguishable from a living one, and harmless.
                self.feed(late);
                continue;
            }
            assert!(!self.owed.is_empty(), "nothing is owed and the leg is not settled (turn {turn})");
            self.answer();
        }
        panic!("the leg does not end");
    }

    /// An agent in flight has been silent for a while.
    fn silence(&mut self) {
        let agents = self.inside.iter().filter(|(_, ix)| self.graph.agent(**ix).is_some());
        let Some(intent) = agents.map(|(intent, _)| intent.clone()).next() else { return };
        let seen = vec![Duration::from_secs(60); self.dice.below(5)];
        let lasted = Duration::from_secs(300 * self.dice.below(4) as u64);
        self.feed(Event::Silent { intent, lasted, seen });
    }

    fn dice_stop(&mut self) -> StopReason {
        self.dice.pick(&[StopReason::Signal(2), StopReason::Signal(15), StopReason::Cancel])
    }
}

fn replay(graph: &Graph, names: &Names, history: &[(Leg, Generation, Fact)]) -> RunState {
    let mut state = RunState::new(graph);
    for (leg, generation, fact) in history {
        state.apply(graph, names, *leg, *generation, fact).unwrap();
    }
    state
}

fn run(seed: u64) {
    let mut world = World::new(seed);
    let mut exits = Vec::new();
    for _ in 0..4 {
        exits = world.leg(exits);
    }
}

#[test]
fn the_simulation_notices_what_is_taken_out() {
    for taken_out in [Mutant::NoGenerationCheck, Mutant::Guess] {
        MUTANT.set(Some(taken_out));
        let noticed = (0..200).find(|seed| std::panic::catch_unwind(|| run(*seed)).is_err());
        MUTANT.set(None);
        assert!(noticed.is_some(), "nothing notices {taken_out:?}");
    }
}

#[test]
fn ten_thousand_schedules_keep_the_promises() {
    for seed in 0..10_000 {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "seed {seed} breaks an invariant; `run({seed})` repeats it");
    }
}
