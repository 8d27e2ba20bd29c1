//! What has become true, in the journal's own words.
//!
//! A line of `events.jsonl` is a fact with its place and time (DESIGN.md section 14). Facts name
//! nodes and lanes by their ids, so that a line can be read without its graph.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::resolver::Next;
pub use super::words::{
    AgentRecord, Because, Carried, Cleanup, EndReason, EndState, Evidence, Overlaid, RunStatus, SessionStart,
    StopReason,
};
use crate::graph::model::{OnFail, ProvisionWhen};
use crate::ids::{CommitId, IntentId, LaneName, NodeId};
use crate::money::Usd;

/// Something that has become true of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event")]
pub enum Fact {
    /// A leg began.
    #[serde(rename = "run.started")]
    RunStarted {
        /// The format of the lines from here on; 0 in those of early builds.
        #[serde(default)]
        format: u32,
        /// Most processes at a time.
        concurrency: u32,
        /// What a task failure does to the rest, in this leg.
        on_fail: OnFail,
        /// When lanes are prepared, in this leg.
        provision_when: ProvisionWhen,
        /// Whether `--retry-failed` re-opened what failed.
        retry_failed: bool,
        /// Whether `--retry-blocked` re-opened what was blocked.
        retry_blocked: bool,
        /// The process that runs this leg.
        pid: u32,
        /// What built the program.
        build: String,
    },
    /// The run goes on with another graph, which is durable; what is written after this is of it. Written before
    /// the `run.started` of its leg, after the ends of attempts at nodes that changed and were open.
    #[serde(rename = "graph.amended")]
    GraphAmended {
        /// The file of the graph so far, hashed with SHA-256, in hex.
        from: String,
        /// The same of the new graph's file.
        to: String,
        /// Number of the amendment in this run, from 1; names its file in `amended/`.
        number: u32,
        /// The new graph's file.
        path: PathBuf,
        /// Nodes that run again, with new budgets: those that changed, and those that were named.
        reopened: Vec<NodeId>,
        /// Nodes that the run has no more.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        removed: Vec<NodeId>,
        /// What is different, one line each, without values.
        changes: Vec<String>,
    },
    /// A lane is about to be made.
    #[serde(rename = "lane.acquire.requested")]
    AcquireRequested {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// Why.
        reason: String,
    },
    /// A lane's worktree is there.
    #[serde(rename = "lane.acquire.performed")]
    AcquirePerformed {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// `created`, `reattached`, `reused` or `finished`.
        how: String,
        /// Its root.
        path: PathBuf,
        /// Its branch.
        branch: String,
        /// The commit it began at.
        base: CommitId,
        /// Whether this act made the branch.
        branch_made: bool,
        /// The lane's own git folder.
        git_dir: PathBuf,
        /// Where a tree of before was set aside whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_aside: Option<PathBuf>,
    },
    /// A lane could not be made.
    #[serde(rename = "lane.acquire.failed")]
    AcquireFailed {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// Why.
        fault: Fault,
    },
    /// A lane is about to get its local files.
    #[serde(rename = "overlay.requested")]
    OverlayRequested {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// Why.
        reason: String,
    },
    /// A lane has its local files; their hashes are on disk.
    #[serde(rename = "overlay.performed")]
    OverlayPerformed {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// The copies that are there, by path.
        files: Vec<Overlaid>,
    },
    /// A lane's local files could not be copied.
    #[serde(rename = "overlay.failed")]
    OverlayFailed {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// The nodes that it held up.
        nodes: Vec<NodeId>,
        /// Why.
        fault: Fault,
    },
    /// A lane is about to be provisioned.
    #[serde(rename = "provision.requested")]
    ProvisionRequested {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// Why: `first`, `retry` or `stale`; `preflight` or `given-up` where it can't be done, as is known
        /// without trying.
        reason: String,
        /// Number of the try in this run, from 1; names its log.
        r#try: u32,
        /// The node in whose slot it runs, where it is one in flight.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        node: Option<NodeId>,
    },
    /// A step of a provisioning is about to run. Not durable at once: it announces nothing that lasts.
    #[serde(rename = "provision.started")]
    ProvisionStarted {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// What is run, for people.
        cmd: String,
    },
    /// A lane is provisioned; its receipt is on disk.
    #[serde(rename = "provision.performed")]
    ProvisionPerformed {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// What was run, for people; `None` where there was nothing to do.
        cmd: Option<String>,
        /// The exit status.
        exit_code: Option<i32>,
        /// How long it took.
        duration_ms: u64,
        /// What the outcome depends on, hashed.
        fingerprint: String,
        /// The hash of its receipt: only a receipt with this content counts.
        #[serde(default)]
        receipt: String,
        /// What a person should know, one line each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
        /// Why nothing was run, where nothing was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A provisioning try failed.
    #[serde(rename = "provision.failed")]
    ProvisionFailed {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// The nodes that it held up.
        nodes: Vec<NodeId>,
        /// What was run.
        cmd: Option<String>,
        /// Its exit status; null without one.
        exit_code: Option<i32>,
        /// The finer cause.
        cause: String,
        /// The last of its output.
        log_tail: String,
        /// Whether another try follows.
        again: bool,
        /// What it means for the lane's nodes.
        fault: Fault,
    },
    /// A lane's receipt still holds; nothing was run.
    #[serde(rename = "provision.skipped")]
    ProvisionSkipped {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// Why.
        reason: String,
    },
    /// What a lane's receipt covers has changed.
    #[serde(rename = "provision.stale")]
    ProvisionStale {
        /// The lane.
        lane: LaneName,
        /// What changed, for people.
        reason: String,
    },
    /// A node is about to be started.
    #[serde(rename = "node.dispatch.requested")]
    DispatchRequested {
        /// The node.
        node: NodeId,
        /// Its attempt, from 1.
        attempt: u32,
        /// The act.
        intent: IntentId,
        /// Why: `ready`, or `again` after an attempt that did not pass.
        #[serde(default)]
        reason: String,
        /// Its lane.
        lane: Option<LaneName>,
        /// The act of an earlier leg by which the process was started that is taken over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<IntentId>,
        /// What runs the agent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        runtime: Option<String>,
        /// Of an agent that is to go on with a session: whether it does, or why it starts cold.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionStart>,
        /// Most money that an agent's attempt may cost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget_usd: Option<Usd>,
    },
    /// A node was not started after all.
    #[serde(rename = "node.dispatch.failed")]
    DispatchFailed {
        /// The node.
        node: NodeId,
        /// The act.
        intent: IntentId,
        /// Why.
        reason: String,
    },
    /// A node's process was seen to run: the receipt of its dispatch.
    #[serde(rename = "node.started")]
    NodeStarted {
        /// The node.
        node: NodeId,
        /// Its attempt.
        attempt: u32,
        /// The act.
        intent: IntentId,
        /// Its process, leader of its own group.
        pid: u32,
        /// The process's start time in clock ticks since boot; with `pid` its identity.
        start_time: u64,
        /// Its lane.
        lane: Option<LaneName>,
    },
    /// A node's process ended and its checks were made.
    #[serde(rename = "node.attempt.finished")]
    AttemptFinished {
        /// The node.
        node: NodeId,
        /// Its attempt.
        attempt: u32,
        /// The act.
        intent: IntentId,
        /// Why it did not pass.
        fault: Option<Fault>,
        /// What follows; null where it passed.
        next: Option<Next>,
        /// Its exit status.
        exit_code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// What it left running, ended by us: `pid name`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        leftovers: Vec<String>,
        /// Whether its process was seen to run, so that the attempt counts.
        delivered: bool,
        /// What an agent's process told of itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<AgentRecord>,
        /// How it passed; null where it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<Evidence>,
    },
    /// A node of a feedback arc's body is over for this round; it is over for the leg once the arc is.
    #[serde(rename = "node.round.finished")]
    RoundFinished {
        /// The node.
        node: NodeId,
        /// The node that judges the arc.
        judge: NodeId,
        /// The round, from 1.
        round: u32,
        /// How it ended.
        state: EndState,
    },
    /// A person said what becomes of a gate.
    #[serde(rename = "gate.decided")]
    GateDecided {
        /// The gate.
        node: NodeId,
        /// Whether it is passed.
        approved: bool,
        /// What the person said beside that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        note: Option<String>,
    },
    /// A node is over for this leg.
    #[serde(rename = "node.finished")]
    NodeFinished {
        /// The node.
        node: NodeId,
        /// Attempts delivered, over all legs.
        attempts: u32,
        /// How it ended.
        state: EndState,
        /// Why it did not pass.
        fault: Option<Fault>,
    },
    /// A node will not run: what it needed did not come.
    #[serde(rename = "node.skipped")]
    NodeSkipped {
        /// The node.
        node: NodeId,
        /// The node that failed; null where its own condition was not met.
        because: Option<Because>,
    },
    /// A node's processes are about to be ended.
    #[serde(rename = "node.kill.requested")]
    KillRequested {
        /// The node.
        node: NodeId,
        /// The act that is ended.
        intent: IntentId,
        /// Why: `timeout`, `halt`, `signal` or `silence`.
        reason: EndReason,
    },
    /// A node's processes have ended.
    #[serde(rename = "node.kill.performed")]
    KillPerformed {
        /// The node.
        node: NodeId,
        /// The act that was ended.
        intent: IntentId,
    },
    /// Some of a node's processes could not be ended.
    #[serde(rename = "node.kill.failed")]
    KillFailed {
        /// The node.
        node: NodeId,
        /// The act that was to be ended.
        intent: IntentId,
        /// Always false: it was not done.
        executed: bool,
        /// What still runs: `pid name`.
        survivors: Vec<String>,
    },
    /// The leg was asked to stop.
    #[serde(rename = "run.stopping")]
    Stopping {
        /// Why.
        reason: StopReason,
    },
    /// A lane is about to be judged and cleaned.
    #[serde(rename = "lane.cleanup.requested")]
    CleanupRequested {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// Why: `leg-end`, `discard` or `gc`.
        reason: String,
    },
    /// A lane was judged and cleaned.
    #[serde(rename = "lane.cleanup.performed")]
    CleanupPerformed {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// What became of it.
        #[serde(flatten)]
        cleanup: Cleanup,
    },
    /// A lane was not judged to the end, or not cleaned as it was judged; it is judged again.
    #[serde(rename = "lane.cleanup.failed")]
    CleanupFailed {
        /// The lane.
        lane: LaneName,
        /// The act.
        intent: IntentId,
        /// Why, and how the lane stands.
        reason: String,
    },
    /// A runner is about to be started in place of a dead one.
    #[serde(rename = "restart.requested")]
    RestartRequested {
        /// The act.
        intent: IntentId,
        /// Why: `started`, `runner-died` or `supervisor-lost`.
        reason: String,
        /// How often in a row, without any node coming to its end in between; 0 for the first runner.
        #[serde(default)]
        number: u32,
    },
    /// A runner said which run, which claim and which build it is of: the receipt of its start.
    #[serde(rename = "restart.performed")]
    RestartPerformed {
        /// The act.
        intent: IntentId,
        /// The runner's process.
        pid: u32,
        /// The process's start time in clock ticks since boot; with `pid` its identity.
        started_at: u64,
        /// What built it.
        build: String,
    },
    /// A runner could not be started, or did not answer.
    #[serde(rename = "restart.failed")]
    RestartFailed {
        /// The act.
        intent: IntentId,
        /// Always false: it was not done.
        executed: bool,
        /// Why.
        reason: String,
    },
    /// An act has no receipt, and its deadline has passed.
    #[serde(rename = "act.overdue")]
    ActOverdue {
        /// The act.
        intent: IntentId,
        /// What it is: `acquire`, `overlay`, `provision`, `dispatch`, `kill`.
        act: String,
        /// The lane or node that it is on.
        of: String,
        /// For how long it has been open.
        after_ms: u64,
        /// What is done about it: `wait`, `end`, `end-now` or `ask-supervisor`.
        next: String,
    },
    /// The leg is over.
    #[serde(rename = "run.finished")]
    RunFinished {
        /// How the run stands.
        status: RunStatus,
    },
}

impl Fact {
    /// Returns what an act that is announced is on, by name; `None` for any other fact.
    pub fn target(&self) -> Option<&str> {
        match self {
            Fact::AcquireRequested { lane, .. }
            | Fact::OverlayRequested { lane, .. }
            | Fact::ProvisionRequested { lane, .. }
            | Fact::CleanupRequested { lane, .. } => Some(lane.as_str()),
            Fact::DispatchRequested { node, .. } | Fact::KillRequested { node, .. } => Some(node.as_str()),
            Fact::RestartRequested { .. } => Some("runner"),
            Fact::RunStarted { .. }
            | Fact::GraphAmended { .. }
            | Fact::AcquirePerformed { .. }
            | Fact::AcquireFailed { .. }
            | Fact::ProvisionStarted { .. }
            | Fact::OverlayPerformed { .. }
            | Fact::OverlayFailed { .. }
            | Fact::ProvisionPerformed { .. }
            | Fact::ProvisionFailed { .. }
            | Fact::ProvisionSkipped { .. }
            | Fact::ProvisionStale { .. }
            | Fact::DispatchFailed { .. }
            | Fact::NodeStarted { .. }
            | Fact::AttemptFinished { .. }
            | Fact::RoundFinished { .. }
            | Fact::GateDecided { .. }
            | Fact::NodeFinished { .. }
            | Fact::NodeSkipped { .. }
            | Fact::KillPerformed { .. }
            | Fact::KillFailed { .. }
            | Fact::Stopping { .. }
            | Fact::CleanupPerformed { .. }
            | Fact::CleanupFailed { .. }
            | Fact::RestartPerformed { .. }
            | Fact::RestartFailed { .. }
            | Fact::ActOverdue { .. }
            | Fact::RunFinished { .. } => None,
        }
    }

    /// Returns whether the fact has to be durable at once. One that a process was seen to run need not: it
    /// announces nothing, and what would lose it loses the process too.
    pub fn must_last(&self) -> bool {
        !matches!(self, Fact::NodeStarted { .. } | Fact::ProvisionStarted { .. })
    }
}
