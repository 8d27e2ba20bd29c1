//! Where a run stands. Changed by [`RunState::apply`] alone, live and replayed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::fact::{Because, Cleanup, EndReason, EndState, Fact, RunStatus, StopReason};
use super::fault::{Exit, Fault, FaultClass};
pub use super::names::Names;
use super::resolver::{Next, Spent};
use super::settling::{FOUND, OpenAct};
use crate::graph::Graph;
use crate::graph::model::{On, OnFail, ProvisionWhen};
use crate::ids::{CommitId, Generation, IntentId, LaneIx, Leg, NodeId, NodeIx};

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
    /// How the last leg ended; `None` while one lives, or where it was killed.
    pub finished: Option<RunStatus>,
    /// Number of the next act of this generation.
    pub next_intent: u64,
    /// Acts that were announced and have no receipt.
    pub open: BTreeSet<(IntentId, OpenAct)>,
    /// What only the living leg knows.
    pub live: Live,
}

/// What only the living leg knows; equal to any other, so that replay can be compared with it.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Nodes whose dependencies are satisfied, in the order of launch.
    pub ready: BTreeSet<(Reverse<u32>, NodeIx)>,
    /// Nodes in a pause between attempts.
    pub parked: BTreeSet<NodeIx>,
    /// Unsatisfied dependencies, one number a node.
    pub unmet: Vec<u32>,
    /// Acts in progress and what they act on.
    pub acts: BTreeMap<IntentId, Act>,
    /// Lanes to prepare before the first node.
    pub early: Vec<LaneIx>,
    /// Nodes in flight whose lane has to be installed anew before their `verify`, once its other users are gone.
    pub stale: BTreeSet<NodeIx>,
    /// Exits that were seen while something else had to come first, each with what was left running.
    pub exits: BTreeMap<IntentId, (Exit, Vec<String>)>,
}

impl PartialEq for Live {
    fn eq(&self, _: &Live) -> bool {
        true
    }
}

/// What an act in progress acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The making of a lane.
    Acquire(LaneIx),
    /// The copying of local files into a lane.
    Overlay(LaneIx),
    /// The provisioning of a lane, with a slot of its own.
    Provision(LaneIx),
    /// The provisioning of a lane in the slot of a node that waits for it before its `verify`.
    ProvisionFor(LaneIx, NodeIx),
    /// A node, from its dispatch to the end of its checks.
    Node(NodeIx),
}

/// A node's history and standing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeRecord {
    /// Where it stands.
    pub phase: NodePhase,
    /// Attempts delivered, over all legs.
    pub attempts: u32,
    /// What it used up since it was last opened.
    pub spent: Spent,
    /// Why it did not pass, as far as known.
    pub fault: Option<Fault>,
    /// The failed node that it needed.
    pub because: Option<Because>,
}

/// Where a node stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodePhase {
    /// Not begun: waits for others, a slot, its lane, or the end of a pause.
    #[default]
    Waiting,
    /// From dispatch to the end of its checks; it keeps its slot and its lane.
    InFlight(Flight),
    /// Over for this leg.
    Over(EndState),
}

/// A node in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct Flight {
    /// The act.
    pub intent: IntentId,
    /// The act by which its process was started: this one, or that of an earlier leg. Its job is named after it.
    pub job: IntentId,
    /// Its attempt, from 1.
    pub attempt: u32,
    /// Whether its process was seen to run.
    pub delivered: bool,
    /// Why its processes are being ended.
    pub ending: Option<EndReason>,
}

/// A lane's history and standing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneRecord {
    /// Where it stands in this leg.
    pub phase: LanePhase,
    /// What is known of its worktree, once there was one.
    pub made: Option<MadeLane>,
    /// Whether this run made its branch.
    pub branch_made: bool,
    /// Whether an earlier acquire began that has no receipt: it may have made anything.
    pub acquire_open: bool,
    /// Whether an earlier leg kept its branch.
    pub branch_kept: bool,
    /// Whether it has its local files, in this leg.
    pub overlaid: bool,
    /// Provisioning tries so far; names logs.
    pub tries: u32,
    /// Provisioning failures in a row.
    pub failures: u32,
    /// How often it was found stale since a node last did anything in it.
    pub renewals: u32,
    /// The hash of its receipt.
    pub receipt: Option<String>,
    /// The node that wrote in it last.
    pub last_writer: Option<NodeIx>,
    /// The node that left manifest and lockfile at odds.
    pub out_of_sync: Option<NodeIx>,
    /// Whether the next acquire sets a tree of before aside.
    pub fresh: bool,
    /// The node that writes in it.
    pub writer: Option<NodeIx>,
    /// How many nodes read in it.
    pub readers: u32,
    /// What the last cleanup did.
    pub cleanup: Option<Cleanup>,
    /// Trees of before that were set aside whole, oldest first.
    pub set_aside: Vec<std::path::PathBuf>,
}

/// What is known of a lane's worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeLane {
    /// Its root.
    pub path: std::path::PathBuf,
    /// Its branch.
    pub branch: String,
    /// The commit it began at.
    pub base: CommitId,
    /// The lane's own git folder.
    pub git_dir: std::path::PathBuf,
}

/// Where a lane stands in a leg. The world as seen is `worktree::LaneState`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LanePhase {
    /// Not asked for yet.
    #[default]
    Pending,
    /// Being made.
    Acquiring(IntentId),
    /// Made, not provisioned, or no more.
    Bare,
    /// Getting its local files.
    Overlaying(IntentId),
    /// Being provisioned.
    Provisioning(IntentId),
    /// Fit to work in.
    Ready,
    /// Not usable in this leg.
    Broken(Fault),
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
                self.finished = None;
                self.live = Live::default();
                self.reopen(graph, *retry_failed, *retry_blocked);
            }
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
                    Some(Act::Acquire(_) | Act::Overlay(_) | Act::Provision(_) | Act::Node(_)) | None => None,
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
            Fact::DispatchRequested { node, attempt, intent, job, .. } => {
                let node = names.node(node)?;
                self.minted(intent);
                if let NodePhase::InFlight(before) = &self.nodes[node.at()].phase {
                    self.open.remove(&(before.intent.clone(), OpenAct::Dispatch(node)));
                }
                self.nodes[node.at()].phase = NodePhase::InFlight(Flight {
                    intent: intent.clone(),
                    job: job.as_ref().unwrap_or(intent).clone(),
                    attempt: *attempt,
                    delivered: false,
                    ending: None,
                });
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
            Fact::AttemptFinished { node, attempt, intent, fault, next, delivered, .. } => {
                let node = names.node(node)?;
                self.land(graph, node, intent);
                let record = &mut self.nodes[node.at()];
                if *delivered {
                    record.attempts = record.attempts.max(*attempt);
                }
                record.fault = fault.clone();
                record.phase = NodePhase::Waiting;
                match next {
                    Some(Next::Retry(_)) => record.spent.retries += 1,
                    Some(Next::Redispatch(_)) => record.spent.redispatches += 1,
                    Some(Next::Fail | Next::Block | Next::NextLeg) | None => {}
                }
                if matches!(next, Some(Next::Retry(_) | Next::Redispatch(_))) {
                    self.live.parked.insert(node);
                }
            }
            Fact::NodeFinished { node, state, fault, .. } => {
                let ix = names.node(node)?;
                let record = &mut self.nodes[ix.at()];
                record.phase = NodePhase::Over(*state);
                record.fault = fault.clone();
                self.live.parked.remove(&ix);
                self.live.ready.remove(&(Reverse(graph.rank(ix)), ix));
                if *state == EndState::Failed && self.on_fail == OnFail::Halt {
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
            Fact::CleanupRequested { lane, intent, .. } => {
                self.open.insert((intent.clone(), OpenAct::Cleanup(names.lane(lane)?)));
                self.minted(intent);
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
                self.open.remove(&(intent.clone(), OpenAct::Cleanup(lane)));
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
        for ix in graph.node_ixs() {
            let record = &mut self.nodes[ix.at()];
            let (open, new_budget) = match &record.phase {
                NodePhase::Waiting => (true, false),
                // An open act: the leg settles it before anything else.
                NodePhase::InFlight(_) => (false, false),
                NodePhase::Over(end) => match end {
                    EndState::Waiting | EndState::Cancelled | EndState::Interrupted => (true, false),
                    EndState::Failed => (failed, true),
                    EndState::Blocked => (blocked, true),
                    EndState::Passed => (false, false),
                    // Judged anew by the leg, once its dependencies are.
                    EndState::Skipped => (failed || blocked, true),
                },
            };
            record.spent.redispatches = 0;
            if open {
                let spent = if new_budget { Spent::default() } else { record.spent };
                *record = NodeRecord { attempts: record.attempts, spent, ..NodeRecord::default() };
            }
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
        if let Some(lane) = graph.node(node).lane {
            let record = &mut self.lanes[lane.at()];
            match graph.node(node).access {
                crate::graph::model::Access::Write => record.writer = None,
                crate::graph::model::Access::Read => record.readers = record.readers.saturating_sub(1),
            }
        }
        self.closed(intent, OpenAct::Dispatch(node));
        self.live.exits.remove(intent);
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
        if any(EndState::Failed) {
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

impl LaneRecord {
    /// Returns how many nodes are in it.
    pub fn users(&self) -> u32 {
        self.readers + u32::from(self.writer.is_some())
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
        (EndState::Blocked | EndState::Waiting | EndState::Cancelled | EndState::Interrupted, _) => {
            Edge::Open
        }
    }
}
