//! Where a run stands. Changed by [`RunState::apply`] alone, live and replayed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::fact::{Because, EndState, Evidence, Fact, RunStatus, StopReason};
use super::fault::{Fault, FaultClass};
pub use super::lane::{LanePhase, LaneRecord, MadeLane};
pub use super::live::{Act, Live};
pub use super::names::Names;
pub use super::node::{Cost, Decided, Flight, Judged, NodePhase, NodeRecord};
use super::resolver::Next;
use super::settling::{FOUND, OpenAct};
use super::spacing::SPACE;
use crate::graph::Graph;
use crate::graph::model::{On, OnFail, ProvisionWhen};
use crate::ids::{Generation, IntentId, LaneIx, Leg, NodeId, NodeIx};
use crate::money::Usd;

/// Where a run stands.
///
/// Invariant: equal to the fold of its journal, but for what [`Live`] holds, which a new leg begins
/// without.
#[derive(Clone, Debug, PartialEq)]
pub struct RunState {
    /// The present or last leg; 0 before the first.
    pub leg: Leg,
    /// The present or last claim.
    pub generation: Generation,
    /// One a node, in file order.
    pub nodes: Vec<NodeRecord>,
    /// One a lane, in order of first mention.
    pub lanes: Vec<LaneRecord>,
    /// Most processes at a time, in this leg.
    pub slots: u32,
    /// What a task failure does to the rest, in this leg.
    pub on_fail: OnFail,
    /// When lanes are prepared, in this leg.
    pub provision_when: ProvisionWhen,
    /// Whether a failure of this leg halts it.
    pub halted: bool,
    /// Why the leg was asked to stop.
    pub stop: Option<StopReason>,
    /// The provider's limit for which nothing more begins in this leg.
    pub limited: Option<Limited>,
    /// Nodes that are over for this round of their arc, and for their leg once the arc is.
    pub unsettled: BTreeSet<NodeIx>,
    /// What agents have cost so far, those of nodes that an amendment took away among them.
    pub cost: Cost,
    /// Runtimes that were of no use in this leg: agents that have another begin with that.
    pub avoided: BTreeSet<String>,
    /// The limits among the reasons for that.
    pub limits: BTreeMap<String, Fault>,
    /// How the last leg ended; `None` while one lives, or where it was killed.
    pub finished: Option<RunStatus>,
    /// Number of the next act of this generation.
    pub next_intent: u64,
    /// Acts that were announced and have no receipt.
    pub open: BTreeSet<(IntentId, OpenAct)>,
    /// What only the living leg knows.
    pub live: Live,
}

/// A provider's limit that an agent came upon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The runtime that told of it.
    pub runtime: String,
    /// What it is, for people.
    pub detail: String,
    /// When it is over, where that is known.
    pub resets_at: Option<Timestamp>,
}

/// A fact that does not fit the run it claims to be of.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum IllegalFact {
    /// It names a node that the graph does not have.
    #[error("no node `{0}` in this run's graph")]
    UnknownNode(NodeId),
    /// It names a lane that the graph does not have.
    #[error("no lane `{0}` in this run's graph")]
    UnknownLane(crate::ids::LaneName),
}

impl RunState {
    /// Returns the state of a run of `graph` of which nothing is known yet.
    pub fn new(graph: &Graph) -> RunState {
        RunState {
            leg: Leg(0),
            generation: Generation(0),
            nodes: vec![NodeRecord::default(); graph.nodes().len()],
            lanes: vec![LaneRecord::default(); graph.lanes().len()],
            slots: 1,
            on_fail: OnFail::default(),
            provision_when: ProvisionWhen::default(),
            halted: false,
            stop: None,
            limited: None,
            unsettled: BTreeSet::new(),
            cost: Cost::default(),
            avoided: BTreeSet::new(),
            limits: BTreeMap::new(),
            finished: None,
            next_intent: 1,
            open: BTreeSet::new(),
            live: Live::default(),
        }
    }

    /// Returns a node's record.
    pub fn node(&self, ix: NodeIx) -> &NodeRecord {
        &self.nodes[ix.at()]
    }

    /// Returns a lane's record.
    pub fn lane(&self, ix: LaneIx) -> &LaneRecord {
        &self.lanes[ix.at()]
    }

    /// Returns how a node ended, where it is over for this leg.
    pub fn end_of(&self, ix: NodeIx) -> Option<EndState> {
        match self.node(ix).phase {
            NodePhase::Over(end) => Some(end),
            NodePhase::Waiting | NodePhase::InFlight(_) => None,
        }
    }

    /// Returns how many slots are taken.
    pub fn slots_held(&self) -> u32 {
        self.live.acts.values().filter(|act| !matches!(act, Act::ProvisionFor(..))).count() as u32
    }

    /// Makes `fact` true. `leg` and `generation` are those of its journal line.
    ///
    /// Errors: a name that the graph does not have. Nothing is changed then.
    pub fn apply(
        &mut self,
        graph: &Graph,
        names: &Names,
        leg: Leg,
        generation: Generation,
        fact: &Fact,
    ) -> Result<(), IllegalFact> {
        match fact {
            Fact::RunStarted {
                concurrency, on_fail, provision_when, retry_failed, retry_blocked, ..
            } => {
                self.leg = leg;
                self.generation = generation;
                self.next_intent = 1;
                self.slots = (*concurrency).max(1);
                self.on_fail = *on_fail;
                self.provision_when = *provision_when;
                self.halted = false;
                self.stop = None;
                self.limited = None;
                self.avoided.clear();
                self.limits.clear();
                self.finished = None;
                self.live = Live::default();
                self.reopen(graph, *retry_failed, *retry_blocked);
            }
            Fact::GraphAmended { reopened, removed, .. } => self.graph_amended(names, reopened, removed),
            Fact::AcquireRequested { lane, intent, .. } => {
                let lane = names.lane(lane)?;
                self.minted(intent);
                let record = &mut self.lanes[lane.at()];
                record.phase = LanePhase::Acquiring(intent.clone());
                self.open.insert((intent.clone(), OpenAct::Acquire(lane)));
                self.live.acts.insert(intent.clone(), Act::Acquire(lane));
            }
            Fact::AcquirePerformed {
                lane,
                intent,
                path,
                branch,
                base,
                branch_made,
                git_dir,
                set_aside,
                how,
            } => {
                let lane = names.lane(lane)?;
                let record = &mut self.lanes[lane.at()];
                // What a dead leg made is taken up by the living one before anything is done in it.
                let phase = if how == FOUND { LanePhase::Pending } else { LanePhase::Bare };
                (record.phase, record.overlaid) = (phase, false);
                record.branch_made |= branch_made;
                record.acquire_open = false;
                record.branch_kept = false;
                record.fresh = false;
                record.cleanup = None;
                record.set_aside.extend(set_aside.clone());
                if how != "reused" {
                    // What was installed is not in this tree.
                    record.receipt = None;
                }
                record.made = Some(MadeLane {
                    path: path.clone(),
                    branch: branch.clone(),
                    base: base.clone(),
                    git_dir: git_dir.clone(),
                });
                self.closed(intent, OpenAct::Acquire(lane));
            }
            Fact::AcquireFailed { lane, intent, fault } => {
                let lane = names.lane(lane)?;
                let record = &mut self.lanes[lane.at()];
                // A refusal comes before anything is made; any other failure may have left something.
                record.acquire_open |=
                    !matches!(fault.class, FaultClass::LaneRefused | FaultClass::LaneBranchGone);
                record.phase = match fault.class {
                    FaultClass::Interrupted => LanePhase::Pending,
                    _ => LanePhase::Broken(fault.clone()),
                };
                self.closed(intent, OpenAct::Acquire(lane));
            }
            Fact::OverlayRequested { lane, intent, .. } => self.overlay_requested(names.lane(lane)?, intent),
            Fact::OverlayPerformed { lane, intent, .. } => self.overlay_performed(names.lane(lane)?, intent),
            Fact::OverlayFailed { lane, intent, fault, .. } => {
                self.no_overlay(names.lane(lane)?, intent, fault)
            }
            Fact::ProvisionRequested { lane, intent, r#try, node, .. } => {
                let lane = names.lane(lane)?;
                self.minted(intent);
                let record = &mut self.lanes[lane.at()];
                record.phase = LanePhase::Provisioning(intent.clone());
                record.tries = *r#try;
                let act = match node {
                    Some(node) => Act::ProvisionFor(lane, names.node(node)?),
                    None => Act::Provision(lane),
                };
                self.open.insert((intent.clone(), OpenAct::Provision(lane)));
                self.live.acts.insert(intent.clone(), act);
            }
            Fact::ProvisionStarted { lane, .. } => {
                names.lane(lane)?;
            }
            Fact::ProvisionPerformed { lane, intent, receipt, .. } => {
                let lane = names.lane(lane)?;
                let record = &mut self.lanes[lane.at()];
                record.phase = LanePhase::Ready;
                record.failures = 0;
                record.receipt = Some(receipt.clone());
                record.out_of_sync = None;
                self.closed(intent, OpenAct::Provision(lane));
            }
            Fact::ProvisionSkipped { lane, intent, .. } => {
                let lane = names.lane(lane)?;
                let record = &mut self.lanes[lane.at()];
                record.phase = LanePhase::Ready;
                record.failures = 0;
                record.out_of_sync = None;
                self.closed(intent, OpenAct::Provision(lane));
            }
            Fact::ProvisionFailed { lane, intent, again, fault, .. } => {
                let lane = names.lane(lane)?;
                let record = &mut self.lanes[lane.at()];
                let node = match self.live.acts.get(intent) {
                    Some(Act::ProvisionFor(_, node)) => Some(*node),
                    Some(
                        Act::Acquire(_) | Act::Overlay(_) | Act::Provision(_) | Act::Node(_) | Act::Sweep(_),
                    )
                    | None => None,
                };
                if fault.class == FaultClass::Interrupted {
                    record.phase = LanePhase::Pending;
                } else if fault.class == FaultClass::LockfileOutOfSync {
                    // That node may try again in it; for all others it is stale.
                    record.phase = LanePhase::Ready;
                    record.out_of_sync = node.or(record.out_of_sync).or(record.last_writer);
                } else {
                    record.failures += 1;
                    record.phase = if *again { LanePhase::Bare } else { LanePhase::Broken(fault.clone()) };
                }
                self.closed(intent, OpenAct::Provision(lane));
            }
            Fact::ProvisionStale { lane, .. } => {
                let record = &mut self.lanes[names.lane(lane)?.at()];
                (record.phase, record.overlaid) = (LanePhase::Bare, false);
                record.failures = 0;
                record.renewals += 1;
            }
            Fact::DispatchRequested { node, attempt, intent, job, runtime, session, budget_usd, .. } => {
                let node = names.node(node)?;
                self.minted(intent);
                if let NodePhase::InFlight(before) = &self.nodes[node.at()].phase {
                    self.open.remove(&(before.intent.clone(), OpenAct::Dispatch(node)));
                }
                self.nodes[node.at()].phase = NodePhase::InFlight(Flight {
                    intent: intent.clone(),
                    job: job.as_ref().unwrap_or(intent).clone(),
                    attempt: *attempt,
                    // What is taken over was seen to run.
                    delivered: job.is_some(),
                    ending: None,
                    runtime: runtime.clone(),
                    session: session.clone(),
                    budget: *budget_usd,
                });
                if job.is_some() {
                    let record = &mut self.nodes[node.at()];
                    record.attempts = record.attempts.max(*attempt);
                }
                self.take_lane(graph, node);
                if job.is_some()
                    && let Some(lane) = graph.node(node).lane
                {
                    // Others wait until it has left; then it is looked at as in any other leg.
                    self.lanes[lane.at()].phase = LanePhase::Bare;
                }
                self.open.insert((intent.clone(), OpenAct::Dispatch(node)));
                self.live.ready.remove(&(Reverse(graph.rank(node)), node));
                self.live.acts.insert(intent.clone(), Act::Node(node));
            }
            Fact::DispatchFailed { node, intent, .. } => {
                let node = names.node(node)?;
                self.land(graph, node, intent);
                self.nodes[node.at()].phase = NodePhase::Waiting;
                self.live.ready.insert((Reverse(graph.rank(node)), node));
            }
            Fact::NodeStarted { node, attempt, .. } => {
                let node = names.node(node)?;
                if let Some(lane) = graph.node(node).lane {
                    let lane = &mut self.lanes[lane.at()];
                    lane.renewals = 0;
                    if graph.node(node).access == crate::graph::model::Access::Write {
                        lane.last_writer = Some(node);
                    }
                }
                let record = &mut self.nodes[node.at()];
                record.attempts = record.attempts.max(*attempt);
                if let NodePhase::InFlight(flight) = &mut record.phase {
                    flight.delivered = true;
                }
            }
            Fact::AttemptFinished {
                node, attempt, intent, fault, next, delivered, agent, evidence, ..
            } => {
                let node = names.node(node)?;
                let runtime = match &self.nodes[node.at()].phase {
                    NodePhase::InFlight(flight) => flight.runtime.clone(),
                    NodePhase::Waiting | NodePhase::Over(_) => None,
                };
                self.land(graph, node, intent);
                self.count(fact);
                if let (Some(Next::Fallback(_)), Some(runtime)) = (next, &runtime) {
                    self.fell_back(graph, node, runtime, fault.as_ref());
                }
                let record = &mut self.nodes[node.at()];
                if *delivered {
                    record.attempts = record.attempts.max(*attempt);
                }
                record.ended(*attempt, fault.as_ref(), *next, agent.as_ref());
                record.evidence = *evidence;
                match next {
                    Some(Next::Retry(_) | Next::Redispatch(_) | Next::Fallback(_)) => {
                        self.live.parked.insert(node);
                    }
                    Some(Next::Feedback) => self.next_round(graph, node),
                    Some(Next::Pause) => self.limited_by(graph, node, fault.as_ref(), runtime.as_deref()),
                    Some(Next::Fail | Next::Block | Next::NextLeg) | None => {}
                }
            }
            Fact::RoundFinished { node, state, .. } => {
                let ix = names.node(node)?;
                self.nodes[ix.at()].phase = NodePhase::Over(*state);
                self.live.parked.remove(&ix);
                self.live.ready.remove(&(Reverse(graph.rank(ix)), ix));
                self.unsettled.insert(ix);
            }
            Fact::GateDecided { node, approved, note } => {
                let decided = Decided { approved: *approved, note: note.clone() };
                self.nodes[names.node(node)?.at()].decision = Some(decided);
            }
            Fact::NodeFinished { node, state, fault, .. } => {
                let ix = names.node(node)?;
                let record = &mut self.nodes[ix.at()];
                record.phase = NodePhase::Over(*state);
                record.fault = fault.clone();
                if graph.is_gate(ix) {
                    record.evidence = (*state == EndState::Passed).then_some(Evidence::Approved);
                }
                self.live.parked.remove(&ix);
                self.live.gates.remove(&ix);
                self.unsettled.remove(&ix);
                self.live.ready.remove(&(Reverse(graph.rank(ix)), ix));
                // A person's no concerns what is behind the gate.
                if *state == EndState::Failed && self.on_fail == OnFail::Halt && !graph.is_gate(ix) {
                    self.halted = true;
                }
            }
            Fact::NodeSkipped { node, because } => {
                self.nodes[names.node(node)?.at()].because = because.clone();
            }
            Fact::KillRequested { node, intent, reason } => {
                let node = names.node(node)?;
                self.open.insert((intent.clone(), OpenAct::Kill(node)));
                if let NodePhase::InFlight(flight) = &mut self.nodes[node.at()].phase
                    && flight.intent == *intent
                {
                    flight.ending.get_or_insert(*reason);
                }
            }
            Fact::KillPerformed { node, intent } | Fact::KillFailed { node, intent, .. } => {
                self.open.remove(&(intent.clone(), OpenAct::Kill(names.node(node)?)));
            }
            Fact::Stopping { reason } => self.stop = Some(*reason),
            Fact::CleanupRequested { lane, intent, reason } => {
                let lane = names.lane(lane)?;
                self.open.insert((intent.clone(), OpenAct::Cleanup(lane)));
                self.minted(intent);
                if reason == SPACE {
                    self.live.acts.insert(intent.clone(), Act::Sweep(lane));
                }
            }
            Fact::CleanupFailed { lane, intent, .. } => {
                self.open.remove(&(intent.clone(), OpenAct::Cleanup(names.lane(lane)?)));
            }
            Fact::RestartRequested { intent, .. } => {
                self.open.insert((intent.clone(), OpenAct::Restart));
            }
            Fact::RestartPerformed { intent, .. } | Fact::RestartFailed { intent, .. } => {
                self.open.remove(&(intent.clone(), OpenAct::Restart));
            }
            Fact::ActOverdue { .. } => {}
            Fact::CleanupPerformed { lane, intent, cleanup } => {
                let lane = names.lane(lane)?;
                self.closed(intent, OpenAct::Cleanup(lane));
                let record = &mut self.lanes[lane.at()];
                record.branch_kept = cleanup.branch == "kept";
                if cleanup.branch == "deleted" {
                    record.branch_made = false;
                }
                let mut cleanup = cleanup.clone();
                // A later look at a lane that is gone finds nothing; what was saved is still saved.
                for (channel, before) in record.cleanup.iter().flat_map(|before| &before.channels) {
                    if before.starts_with("saved")
                        && let Some(now) = cleanup.channels.get_mut(channel).filter(|now| *now == "none")
                    {
                        now.clone_from(before);
                    }
                }
                record.cleanup = Some(cleanup);
            }
            Fact::RunFinished { status } => self.finished = Some(*status),
        }
        Ok(())
    }

    /// Opens again what a new leg may run: what did not end, and what the flags name, with what was
    /// skipped through it. A lane broken by its provisioning gets a fresh tree.
    fn reopen(&mut self, graph: &Graph, failed: bool, blocked: bool) {
        for lane in &mut self.lanes {
            if let LanePhase::Broken(fault) = &lane.phase
                && fault.class == FaultClass::WorkspaceProvisionFailed
                && blocked
            {
                lane.fresh = true;
            }
            lane.phase = LanePhase::Pending;
            lane.failures = 0;
            lane.renewals = 0;
            lane.writer = None;
            lane.readers = 0;
        }
        let has_money = super::agents::has_money(graph, self.cost.known);
        for ix in graph.node_ixs() {
            let record = &mut self.nodes[ix.at()];
            let (open, new_budget) = match &record.phase {
                NodePhase::Waiting => (true, false),
                // An open act: the leg settles it before anything else.
                NodePhase::InFlight(_) => (false, false),
                NodePhase::Over(end) => match end {
                    EndState::Paused | EndState::Waiting | EndState::Cancelled | EndState::Interrupted => {
                        (true, false)
                    }
                    EndState::Failed => (failed, true),
                    // Room is measured before a leg begins, so something has changed.
                    EndState::Blocked => {
                        (blocked || record.wants_room() || record.wants_money() && has_money, true)
                    }
                    EndState::Passed => (false, false),
                    // Judged anew by the leg, once its dependencies are.
                    EndState::Skipped => (failed || blocked, true),
                },
            };
            record.spent.redispatches = 0;
            if open {
                *record = record.opened(new_budget);
            }
        }
    }

    /// Opens the body of the arc at `judge` for another round.
    fn next_round(&mut self, graph: &Graph, judge: NodeIx) {
        for ix in graph.body(judge) {
            let record = &mut self.nodes[ix.at()];
            *record = record.in_next_round();
            self.live.parked.remove(ix);
            self.unsettled.remove(ix);
        }
    }

    /// An agent is given to the runtime after `runtime`; others that have another need not try it again in this leg.
    fn fell_back(&mut self, graph: &Graph, node: NodeIx, runtime: &str, fault: Option<&Fault>) {
        let names = graph.agent(node).map_or(&[][..], |agent| &agent.runtimes);
        if let Some(at) = names.iter().position(|name| name == runtime) {
            self.nodes[node.at()].runtime = at as u32 + 1;
        }
        let Some(fault) = fault.filter(|fault| fault.class.is_of_runtime()) else { return };
        self.avoided.insert(runtime.to_string());
        if fault.class.is_limit() {
            self.limits.insert(runtime.to_string(), fault.clone());
        }
    }

    /// A provider's limit was come upon: the one that lasts longest counts.
    fn limited_by(&mut self, graph: &Graph, node: NodeIx, fault: Option<&Fault>, runtime: Option<&str>) {
        let own = fault.filter(|fault| fault.class.is_limit()).and_then(|fault| Some((runtime?, fault)));
        let names = graph.agent(node).map_or(&[][..], |agent| &agent.runtimes);
        let before = || names.iter().find_map(|name| Some((name.as_str(), self.limits.get(name)?)));
        let Some((runtime, fault)) =
            own.or_else(before).map(|(name, fault)| (name.to_string(), fault.clone()))
        else {
            return;
        };
        let before = self.limited.as_ref().and_then(|limited| limited.resets_at);
        if self.limited.is_none() || fault.resets_at > before {
            self.limited =
                Some(Limited { runtime, detail: fault.detail.clone(), resets_at: fault.resets_at });
        }
    }

    /// Returns what the agents in flight may cost at most.
    pub fn reserved(&self) -> Usd {
        let of = |act: &Act| match act {
            Act::Node(ix) => match &self.node(*ix).phase {
                NodePhase::InFlight(flight) => flight.budget,
                NodePhase::Waiting | NodePhase::Over(_) => None,
            },
            Act::Acquire(_) | Act::Overlay(_) | Act::Provision(_) | Act::ProvisionFor(..) | Act::Sweep(_) => {
                None
            }
        };
        self.live.acts.values().filter_map(of).sum()
    }

    /// Takes note of what an attempt cost; also of one, of before the newest graph, of a node that the run has no more.
    pub fn count(&mut self, fact: &Fact) {
        if let Fact::AttemptFinished { agent: Some(agent), .. } = fact {
            self.cost = self.cost.plus(Cost::of(agent));
        }
    }

    /// Takes note of an act's number, so that no other gets it.
    pub(super) fn minted(&mut self, intent: &IntentId) {
        if intent.generation() == Some(self.generation)
            && let Some(number) = intent.number()
        {
            self.next_intent = self.next_intent.max(number + 1);
        }
    }

    /// An act has its receipt.
    pub(super) fn closed(&mut self, intent: &IntentId, act: OpenAct) {
        self.open.remove(&(intent.clone(), act));
        self.live.acts.remove(intent);
    }

    fn take_lane(&mut self, graph: &Graph, node: NodeIx) {
        if let Some(lane) = graph.node(node).lane {
            let record = &mut self.lanes[lane.at()];
            match graph.node(node).access {
                crate::graph::model::Access::Write => record.writer = Some(node),
                crate::graph::model::Access::Read => record.readers += 1,
            }
        }
    }

    /// Gives back what a node in flight held.
    fn land(&mut self, graph: &Graph, node: NodeIx, intent: &IntentId) {
        // What a dead leg had in a lane, the leg that closes it never gave it.
        let is_of_leg = intent.generation() == Some(self.generation);
        if let Some(lane) = graph.node(node).lane.filter(|_| is_of_leg) {
            let record = &mut self.lanes[lane.at()];
            match graph.node(node).access {
                crate::graph::model::Access::Write => record.writer = None,
                crate::graph::model::Access::Read => record.readers = record.readers.saturating_sub(1),
            }
        }
        self.closed(intent, OpenAct::Dispatch(node));
        self.live.exits.remove(intent);
        self.live.verified.remove(intent);
        self.live.stale.remove(&node);
    }

    /// Returns how the run stands once nothing is in flight: what its nodes and its stop say.
    pub fn status(&self) -> RunStatus {
        let any = |end| self.nodes.iter().any(|node| node.phase == NodePhase::Over(end));
        match self.stop {
            Some(StopReason::Cancel) => return RunStatus::Cancelled,
            Some(StopReason::Signal(_) | StopReason::SupervisorLost) => return RunStatus::Interrupted,
            None => {}
        }
        if any(EndState::Paused) {
            RunStatus::Paused
        } else if any(EndState::Failed) {
            RunStatus::Failed
        } else if any(EndState::Blocked) {
            RunStatus::Blocked
        } else if any(EndState::Interrupted) || any(EndState::Cancelled) || any(EndState::Waiting) {
            RunStatus::Interrupted
        } else {
            RunStatus::Passed
        }
    }
}

/// What a dependency's ending means for one edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edge {
    /// Satisfied.
    Met,
    /// It can't be any more in this leg; the failed node, where there is one.
    Never(Option<Because>),
    /// Not decided.
    Open,
}

/// Returns what the ending of `dependency` means for an edge that waits for `on`.
pub fn edge(graph: &Graph, state: &RunState, dependency: NodeIx, on: On) -> Edge {
    let record = state.node(dependency);
    let failed = || {
        record
            .fault
            .as_ref()
            .map(|fault| Because { node: graph.node(dependency).id.clone(), class: fault.class })
    };
    let NodePhase::Over(end) = record.phase else { return Edge::Open };
    match (end, on) {
        (EndState::Passed, On::Passed | On::Finished)
        | (EndState::Failed, On::Failed | On::Finished)
        | (EndState::Skipped, On::Finished) => Edge::Met,
        (EndState::Passed, On::Failed) | (EndState::Skipped, On::Failed) => Edge::Never(None),
        (EndState::Failed, On::Passed) => Edge::Never(failed()),
        (EndState::Skipped, On::Passed) => Edge::Never(record.because.clone()),
        (
            EndState::Blocked
            | EndState::Paused
            | EndState::Waiting
            | EndState::Cancelled
            | EndState::Interrupted,
            _,
        ) => Edge::Open,
    }
}
