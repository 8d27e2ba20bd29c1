//! Why a node stands where it stands, folded from a run's records: what it waited for, when and why it was
//! dispatched, how each attempt ended and what that led to, and what would open it again.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::RunView;
use super::explanation::{
    Attempt, Dependent, End, Ended, Explanation, LegStory, Link, SCHEMA, Step, Wait, WaitFor, Why,
};
use crate::graph::Graph;
use crate::graph::model::{Access, On, ProvisionWhen};
use crate::ids::{IntentId, NodeId, NodeIx};
use crate::journal::replay::amended_at;
use crate::journal::{Record, RunDir, RunFile};
use crate::schedule::fact::EndState;
use crate::schedule::fault::REDISPATCH_MAX;
use crate::schedule::resolver::{Next, Spent};
use crate::schedule::state::{Act, Edge, LanePhase, Names, NodePhase, RunState, edge};
use crate::schedule::{Fact, Fault, FaultClass};

/// Names of others that a wait lists.
const NAMED_MAX: usize = 20;

impl Explanation {
    /// Returns why node `ix` of a run stands where `view`, of the same records, shows it; `alive` says whether
    /// a living leg holds the run.
    ///
    /// Errors: the number of a record that does not fit, and why.
    pub fn of(
        file: &RunFile,
        dir: &RunDir,
        records: &[Record],
        view: &RunView,
        alive: bool,
        ix: NodeIx,
    ) -> Result<Explanation, (u64, String)> {
        let graph = &file.graph;
        let names = Names::of(graph);
        let mut fold = Fold::new(graph, dir, ix);
        let before = amended_at(records);
        for (at, record) in records.iter().enumerate() {
            fold.is_of_old_graph = at < before;
            fold.take(&names, record).map_err(|error| (record.seq, error.to_string()))?;
        }
        let state = view.nodes[ix.at()].state;
        let legs = fold.finish(alive, records.last().map(|record| record.ts));
        let dependents = graph.dependents(ix).map(|(next, on)| Dependent {
            node: graph.node(next).id.to_string(),
            on,
            state: view.nodes[next.at()].state,
        });
        Ok(Explanation {
            schema: SCHEMA,
            run_id: file.run_id.to_string(),
            node: graph.node(ix).id.to_string(),
            state,
            lane: view.nodes[ix.at()].lane.clone(),
            depends_on: graph.node(ix).depends_on.len(),
            next: next_steps(graph, view, ix, alive, legs.last()),
            legs,
            dependents: dependents.collect(),
        })
    }
}

/// Returns what one would do about a node that stands so.
fn next_steps(graph: &Graph, view: &RunView, ix: NodeIx, alive: bool, last: Option<&LegStory>) -> Vec<Step> {
    let (run, node) = (&view.run_id, &view.nodes[ix.at()]);
    let step = |command: String, does: &str| {
        let once = if alive { ", once this leg is over" } else { "" };
        vec![Step { command, does: format!("{does}{once}") }]
    };
    let root = last.and_then(|leg| leg.end.as_ref()).and_then(|end| match &end.why {
        Why::Chain { links } => links.last(),
        _ => None,
    });
    let failed = format!("omg resume {run} --retry-failed");
    let blocked = format!("omg resume {run} --retry-blocked");
    let is_gate = |id: &str| graph.node_ix(id).is_some_and(|ix| graph.is_gate(ix));
    let approve = |id: &str| format!("omg resume {run} --approve {id}");
    let limit = format!("omg resume {run} --wait");
    match (node.state, root) {
        ("paused", _) if is_gate(&node.id) => step(approve(&node.id), "passes it; --reject says no"),
        ("paused", _) => step(limit, "sleeps until the limit is over, then runs it"),
        ("waiting", Some(root)) if root.state == "paused" && is_gate(&root.needs) => {
            step(approve(&root.needs), &format!("passes {}, and this runs when it can", root.needs))
        }
        ("waiting", Some(root)) if root.state == "paused" => {
            step(limit, "sleeps until the limit is over, and this runs when it can")
        }
        ("failed", _) => step(failed, "opens it again, with a new `retry`"),
        ("blocked", _) => step(blocked, "opens it again; nothing was charged"),
        ("skipped", Some(root)) if root.state == "failed" && root.on == On::Passed => {
            step(failed, &format!("opens {} and what was skipped through it again", root.needs))
        }
        ("waiting", Some(root)) if root.state == "blocked" => {
            step(blocked, &format!("opens {} again, and this runs when it can", root.needs))
        }
        ("running", _) if alive => {
            let command = format!("omg logs {run} {} --follow", node.id);
            vec![Step { command, does: "follows its output".into() }]
        }
        ("cancelled" | "interrupted" | "waiting", _) if !alive => {
            // What it needs may have to be opened first.
            let before = graph.ancestors(ix);
            let closed =
                |state| before.iter().map(|ix| &view.nodes[ix.at()]).find(|node| node.state == state);
            match (closed("blocked"), closed("failed")) {
                (Some(node), _) => {
                    step(blocked, &format!("opens {} again, and this runs when it can", node.id))
                }
                (None, Some(node)) => {
                    step(failed, &format!("opens {} again, and this runs when it can", node.id))
                }
                (None, None) => step(format!("omg resume {run}"), "runs it"),
            }
        }
        _ => Vec::new(),
    }
}

/// The records so far, as they concern one node.
struct Fold<'a> {
    graph: &'a Graph,
    dir: &'a RunDir,
    ix: NodeIx,
    /// What it waits for.
    before: BTreeSet<NodeIx>,
    state: RunState,
    legs: Vec<LegStory>,
    /// What it waits for now, and since when.
    waits: Option<(WaitFor, Timestamp)>,
    /// When its pause is over.
    pause_until: Option<Timestamp>,
    /// Whether all its dependencies are satisfied.
    is_met: bool,
    /// Whether this leg has dispatched anything.
    has_dispatched: bool,
    /// The failure that halted this leg.
    halted_by: Option<NodeIx>,
    /// Whether the record was written before the graph was amended: it may be of what is gone.
    is_of_old_graph: bool,
    /// What an amendment made of it, until the leg begins.
    amended: Option<String>,
}

impl<'a> Fold<'a> {
    fn new(graph: &'a Graph, dir: &'a RunDir, ix: NodeIx) -> Fold<'a> {
        Fold {
            graph,
            dir,
            ix,
            before: graph.node(ix).depends_on.iter().map(|edge| edge.node).collect(),
            state: RunState::new(graph),
            legs: Vec::new(),
            waits: None,
            pause_until: None,
            is_met: false,
            has_dispatched: false,
            halted_by: None,
            is_of_old_graph: false,
            amended: None,
        }
    }

    fn take(&mut self, names: &Names, record: &Record) -> Result<(), crate::schedule::state::IllegalFact> {
        self.pass_time(record.ts);
        // A leg's own words before it begins are about the one before.
        if record.leg > self.state.leg {
            self.leg_was_killed();
        }
        let spent = self.state.node(self.ix).spent;
        let applied = self.state.apply(self.graph, names, record.leg, record.r#gen, &record.fact);
        match (applied, self.is_of_old_graph) {
            (Ok(()), _) => self.took(names, record, spent)?,
            (Err(_), true) => {}
            (Err(error), false) => return Err(error),
        }
        self.waits = self.wait(record.ts).map(|wait| (wait, record.ts));
        Ok(())
    }

    fn took(
        &mut self,
        names: &Names,
        record: &Record,
        spent: Spent,
    ) -> Result<(), crate::schedule::state::IllegalFact> {
        match &record.fact {
            Fact::GraphAmended { reopened, changes, .. } => self.graph_amended(reopened, changes),
            Fact::RunStarted { .. } => self.leg_began(record),
            Fact::DispatchRequested { node, attempt, intent, reason, .. } => {
                self.has_dispatched = true;
                if names.node(node)? == self.ix {
                    self.dispatched(record.ts, *attempt, intent, reason, spent);
                }
            }
            Fact::NodeFinished { node, state, fault, .. } => {
                let ix = names.node(node)?;
                if self.state.halted && self.halted_by.is_none() && *state == EndState::Failed {
                    self.halted_by = Some(ix);
                }
                if ix == self.ix {
                    self.node_finished(record.ts, *state, fault.as_ref());
                } else if self.before.contains(&ix) {
                    self.dependency_ended(record.ts, ix, *state);
                }
            }
            Fact::NodeSkipped { node, .. } if names.node(node)? == self.ix => {
                let links = self.chain(|edge| matches!(edge, Edge::Never(_)));
                self.end(End {
                    state: EndState::Skipped.word(),
                    at: Some(record.ts),
                    fault: None,
                    log: None,
                    why: Why::Chain { links },
                });
            }
            // Only now does every node stand where the leg left it.
            Fact::RunFinished { .. } => self.leg_ended(),
            fact => self.attempt_went_on(record, fact),
        }
        Ok(())
    }

    fn graph_amended(&mut self, reopened: &[NodeId], changes: &[String]) {
        let id = &self.graph.node(self.ix).id;
        let own = changes.iter().find_map(|line| line.strip_prefix(id.as_str())?.strip_prefix(": "));
        if own.is_some() || reopened.contains(id) {
            self.amended = Some(own.unwrap_or_default().to_string());
        }
    }

    fn leg_began(&mut self, record: &Record) {
        self.legs.push(LegStory {
            leg: record.leg.0,
            began_at: record.ts,
            amended: self.amended.take(),
            dependencies: Vec::new(),
            attempts: Vec::new(),
            waits: Vec::new(),
            end: None,
        });
        (self.pause_until, self.halted_by, self.has_dispatched) = (None, None, false);
        self.is_met = self.dependencies_are_met();
    }

    fn dispatched(&mut self, at: Timestamp, number: u32, intent: &IntentId, reason: &str, spent: Spent) {
        let node = self.graph.node(self.ix);
        let log = self.dir.attempt_log(&node.id, number);
        let Some(leg) = self.legs.last_mut() else { return };
        leg.attempts.push(Attempt {
            number,
            waits: std::mem::take(&mut leg.waits),
            dispatched_at: at,
            reason: reason.to_string(),
            started_at: None,
            not_started: None,
            ended_by: None,
            ended_at: None,
            found_by_leg: None,
            exit_code: None,
            signal: None,
            fault: None,
            next: None,
            retries_spent: spent.retries,
            retry_max: node.retry.max,
            repeats_spent: spent.redispatches,
            repeat_max: REDISPATCH_MAX,
            leftovers: Vec::new(),
            log,
            intent: intent.clone(),
        });
    }

    /// Takes in what is told of an attempt of the node by its act.
    fn attempt_went_on(&mut self, record: &Record, fact: &Fact) {
        let (Fact::DispatchFailed { intent, .. }
        | Fact::NodeStarted { intent, .. }
        | Fact::KillRequested { intent, .. }
        | Fact::AttemptFinished { intent, .. }) = fact
        else {
            return;
        };
        let attempts = self.legs.iter_mut().rev().flat_map(|leg| {
            let number = leg.leg;
            leg.attempts.iter_mut().rev().map(move |attempt| (number, attempt))
        });
        let Some((leg, attempt)) = attempts.into_iter().find(|(_, attempt)| attempt.intent == *intent) else {
            return;
        };
        match fact {
            Fact::DispatchFailed { reason, .. } => {
                (attempt.not_started, attempt.ended_at) = (Some(reason.clone()), Some(record.ts));
            }
            Fact::NodeStarted { .. } => attempt.started_at = Some(record.ts),
            Fact::KillRequested { reason, .. } => attempt.ended_by = Some(*reason),
            Fact::AttemptFinished { fault, next, exit_code, signal, leftovers, .. } => {
                attempt.ended_at = Some(record.ts);
                attempt.found_by_leg = (leg != record.leg.0).then_some(record.leg.0);
                (attempt.fault, attempt.next) = (fault.clone(), *next);
                (attempt.exit_code, attempt.signal) = (*exit_code, *signal);
                attempt.leftovers.clone_from(leftovers);
                if let Some(Next::Retry(ms) | Next::Redispatch(ms)) = next
                    && attempt.found_by_leg.is_none()
                {
                    let pause = SignedDuration::from_millis(i64::try_from(*ms).unwrap_or(i64::MAX));
                    self.pause_until = record.ts.checked_add(pause).ok();
                }
            }
            _ => {}
        }
    }

    fn dependency_ended(&mut self, at: Timestamp, ix: NodeIx, state: EndState) {
        self.is_met = self.dependencies_are_met();
        let node = self.graph.node(self.ix);
        let on = node.depends_on.iter().find(|edge| edge.node == ix).map(|edge| edge.on).unwrap_or_default();
        if let Some(leg) = self.legs.last_mut() {
            let node = self.graph.node(ix).id.to_string();
            leg.dependencies.push(Ended { node, on, state: state.word(), at });
        }
    }

    fn node_finished(&mut self, at: Timestamp, state: EndState, fault: Option<&Fault>) {
        let why = match state {
            // Told already, with the way to where it came from.
            EndState::Skipped => return,
            EndState::Passed | EndState::Failed | EndState::Paused if self.graph.is_gate(self.ix) => {
                Why::Gate {
                    note: self.state.node(self.ix).decision.as_ref().and_then(|decided| decided.note.clone()),
                }
            }
            EndState::Passed | EndState::Failed | EndState::Paused => Why::Attempts,
            EndState::Blocked => {
                let by_lane = fault.is_some_and(|fault| is_of_lane(fault.class));
                if by_lane { Why::Lane } else { Why::Attempts }
            }
            // The way is looked for when all nodes stand where the leg leaves them.
            EndState::Waiting => Why::Chain { links: Vec::new() },
            EndState::Cancelled | EndState::Interrupted => match self.state.stop {
                Some(reason) => Why::Stopped { reason },
                None => Why::Halted {
                    by: self.halted_by.map(|by| self.graph.node(by).id.to_string()),
                    fault: self.halted_by.and_then(|by| self.state.node(by).fault.clone()),
                },
            },
        };
        let log = fault.filter(|fault| fault.class == FaultClass::WorkspaceProvisionFailed).and_then(|_| {
            let lane = self.graph.node(self.ix).lane?;
            // What was known not to work was not tried.
            let tries = Some(self.state.lane(lane).tries).filter(|tries| *tries > 0)?;
            let name = format!("provision-{tries}.log");
            Some(self.dir.lane(&self.graph.lane(lane).name).join(name))
        });
        self.end(End { state: state.word(), at: Some(at), fault: fault.cloned(), log, why });
    }

    fn end(&mut self, end: End) {
        if let Some(leg) = self.legs.last_mut() {
            leg.end = Some(end);
        }
    }

    fn leg_ended(&mut self) {
        let waits = self.legs.last().and_then(|leg| leg.end.as_ref());
        if waits.is_some_and(|end| end.state == EndState::Waiting.word()) {
            let links = self.chain(|edge| *edge == Edge::Open);
            if let Some(end) = self.legs.last_mut().and_then(|leg| leg.end.as_mut()) {
                end.why = Why::Chain { links };
            }
        }
    }

    /// Says what became of a node that a leg left open by its death.
    fn leg_was_killed(&mut self) {
        let state = match self.state.node(self.ix).phase {
            NodePhase::Waiting => EndState::Cancelled,
            NodePhase::InFlight(_) => EndState::Interrupted,
            NodePhase::Over(_) => return,
        };
        let is_open = self.legs.last().is_some_and(|leg| leg.end.is_none());
        if is_open && self.state.finished.is_none() {
            self.end(End { state: state.word(), at: None, fault: None, log: None, why: Why::LegKilled });
        }
    }

    fn dependencies_are_met(&self) -> bool {
        self.graph
            .node(self.ix)
            .depends_on
            .iter()
            .all(|to| edge(self.graph, &self.state, to.node, to.on) == Edge::Met)
    }

    /// Adds the time up to `to` to what the node waited for.
    fn pass_time(&mut self, to: Timestamp) {
        while let Some((wait, from)) = self.waits.take() {
            match self.pause_until.filter(|until| wait == WaitFor::Pause && *until < to) {
                Some(until) => {
                    let until = until.max(from);
                    self.waited(wait, from, until);
                    self.pause_until = None;
                    self.waits = self.wait(until).map(|wait| (wait, until));
                }
                None => return self.waited(wait, from, to),
            }
        }
    }

    fn waited(&mut self, wait: WaitFor, from: Timestamp, until: Timestamp) {
        let Some(leg) = self.legs.last_mut().filter(|_| from < until) else { return };
        match leg.waits.last_mut() {
            Some(last) if last.r#for.is_like(&wait) && last.until == Some(from) => {
                last.until = Some(until);
                last.r#for.add(wait);
            }
            _ => leg.waits.push(Wait { r#for: wait, from, until: Some(until) }),
        }
    }

    /// Returns what the node waits for at `now`; `None` where it does not wait.
    fn wait(&self, now: Timestamp) -> Option<WaitFor> {
        let state = &self.state;
        if state.leg.0 == 0 || state.finished.is_some() || state.node(self.ix).phase != NodePhase::Waiting {
            return None;
        }
        let lane = self.graph.node(self.ix).lane;
        let in_lane = |act: &Act| match act {
            Act::Acquire(of) | Act::Overlay(of) | Act::Provision(of) | Act::ProvisionFor(of, _) => {
                Some(*of) != lane
            }
            Act::Node(_) | Act::Sweep(_) => false,
        };
        Some(if state.stop.is_some() || state.halted && !self.is_exempt() {
            WaitFor::LegEnd
        } else if !self.is_met {
            WaitFor::Dependencies { open: Vec::new() }
        } else if self.pause_until.is_some_and(|until| now < until) {
            WaitFor::Pause
        } else if let Some(wait) = lane.and_then(|lane| self.wait_for_lane(lane)) {
            wait
        } else if state.provision_when == ProvisionWhen::RunStart
            && !self.has_dispatched
            && state.live.acts.values().any(in_lane)
        {
            WaitFor::OtherLanes { lanes: self.lanes_in_preparation() }
        } else if state.slots_held() >= state.slots {
            let by = state.live.acts.values().map(|act| match act {
                Act::Node(ix) => self.graph.node(*ix).id.to_string(),
                Act::Acquire(lane)
                | Act::Overlay(lane)
                | Act::Provision(lane)
                | Act::ProvisionFor(lane, _)
                | Act::Sweep(lane) => {
                    format!("lane {}", self.graph.lane(*lane).name)
                }
            });
            WaitFor::Slot { slots: state.slots, by: by.take(NAMED_MAX).collect() }
        } else {
            WaitFor::Omg
        })
    }

    fn wait_for_lane(&self, lane: crate::ids::LaneIx) -> Option<WaitFor> {
        let record = self.state.lane(lane);
        let is_alone = match self.graph.node(self.ix).access {
            Access::Write => record.users() == 0,
            Access::Read => record.writer.is_none(),
        };
        match record.phase {
            LanePhase::Acquiring(_) => Some(WaitFor::LaneMaking),
            LanePhase::Overlaying(_) => Some(WaitFor::LaneOverlay),
            LanePhase::Provisioning(_) => Some(WaitFor::LaneProvisioning),
            LanePhase::Bare | LanePhase::Ready if !is_alone => {
                let at_work = self.state.live.acts.values().filter_map(|act| match act {
                    Act::Node(ix) => Some(self.graph.node(*ix)),
                    Act::Acquire(_)
                    | Act::Overlay(_)
                    | Act::Provision(_)
                    | Act::ProvisionFor(..)
                    | Act::Sweep(_) => None,
                });
                let by = at_work.filter(|node| node.lane == Some(lane)).map(|node| node.id.to_string());
                Some(WaitFor::LaneInUse { by: by.take(NAMED_MAX).collect() })
            }
            LanePhase::Pending | LanePhase::Bare | LanePhase::Ready | LanePhase::Broken(_) => None,
        }
    }

    fn lanes_in_preparation(&self) -> Vec<String> {
        let lanes = self.state.live.acts.values().filter_map(|act| match act {
            Act::Acquire(lane) | Act::Overlay(lane) | Act::Provision(lane) => {
                Some(self.graph.lane(*lane).name.to_string())
            }
            Act::ProvisionFor(..) | Act::Node(_) | Act::Sweep(_) => None,
        });
        lanes.take(NAMED_MAX).collect()
    }

    /// Returns whether a halted leg begins the node all the same.
    fn is_exempt(&self) -> bool {
        let mut edges = self.graph.node(self.ix).depends_on.iter();
        edges.any(|edge| edge.on != On::Passed && self.state.end_of(edge.node) == Some(EndState::Failed))
    }

    /// Returns the way from the node to where its standing comes from: at each node the first edge that `is_it`.
    fn chain(&self, is_it: impl Fn(&Edge) -> bool) -> Vec<Link> {
        let mut links = Vec::new();
        let mut who = self.ix;
        while let Some(found) = self
            .graph
            .node(who)
            .depends_on
            .iter()
            .find(|to| is_it(&edge(self.graph, &self.state, to.node, to.on)))
        {
            let (record, needs) = (self.state.node(found.node), &self.graph.node(found.node).id);
            let state = match &record.phase {
                NodePhase::Waiting => "waiting",
                NodePhase::InFlight(_) => "running",
                NodePhase::Over(end) => end.word(),
            };
            links.push(Link {
                node: self.graph.node(who).id.to_string(),
                needs: needs.to_string(),
                on: found.on,
                state,
                fault: record.fault.clone(),
                log: (record.attempts > 0).then(|| self.dir.attempt_log(needs, record.attempts)),
            });
            if !matches!(state, "waiting" | "skipped") {
                break;
            }
            who = found.node;
        }
        links
    }

    /// Returns the legs that did something about the node; `last` is the time of the last record.
    fn finish(mut self, alive: bool, last: Option<Timestamp>) -> Vec<LegStory> {
        if let (false, Some(last)) = (alive, last) {
            self.pass_time(last);
            self.leg_was_killed();
        }
        if let Some((mut wait, from)) = self.waits.take() {
            if let WaitFor::Dependencies { open } = &mut wait {
                let edges = self.graph.node(self.ix).depends_on.iter();
                let edges = edges.filter(|to| edge(self.graph, &self.state, to.node, to.on) == Edge::Open);
                *open = edges.map(|to| self.graph.node(to.node).id.to_string()).take(NAMED_MAX).collect();
            }
            if let Some(leg) = self.legs.last_mut() {
                let from = match leg.waits.last() {
                    Some(before) if before.r#for.is_like(&wait) => {
                        leg.waits.pop().map_or(from, |wait| wait.from)
                    }
                    Some(_) | None => from,
                };
                leg.waits.push(Wait { r#for: wait, from, until: None });
            }
        }
        self.legs.retain(|leg| !leg.attempts.is_empty() || !leg.waits.is_empty() || leg.end.is_some());
        self.legs
    }
}

impl WaitFor {
    fn is_like(&self, other: &WaitFor) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Adds whom another wait of the kind names, where that is told of the whole time.
    fn add(&mut self, other: WaitFor) {
        if let (WaitFor::LaneInUse { by: names }, WaitFor::LaneInUse { by: more })
        | (WaitFor::OtherLanes { lanes: names }, WaitFor::OtherLanes { lanes: more }) = (self, other)
        {
            for name in more {
                if names.len() < NAMED_MAX && !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
}

fn is_of_lane(class: FaultClass) -> bool {
    matches!(
        class,
        FaultClass::WorktreeAcquireFailed
            | FaultClass::LaneRefused
            | FaultClass::LaneBranchGone
            | FaultClass::OverlayFailed
            | FaultClass::WorkspaceProvisionFailed
    )
}
