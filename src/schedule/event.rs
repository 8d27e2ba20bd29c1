//! What the world tells the scheduler.

use super::fault::{Exit, Fault, VerifyOutcome};
use crate::graph::model::{OnFail, ProvisionWhen};
use crate::ids::{CommitId, Generation, IntentId, LaneIx, Leg};
use std::path::PathBuf;
use std::time::Duration;

use super::fact::{Cleanup, Overlaid, StopReason};
use super::settling::{OpenAct, Seen};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A leg begins, with what was found out about acts that the last one left open.
    LegStarted(Box<LegStart>),
    /// A lane's worktree is there.
    Acquired {
        /// The act.
        intent: IntentId,
        /// What was made.
        lane: AcquiredLane,
    },
    /// A lane could not be made.
    NotAcquired {
        /// The act.
        intent: IntentId,
        /// Why.
        fault: Fault,
    },
    /// A step of a provisioning is about to run.
    Provisioning {
        /// The act.
        intent: IntentId,
        /// What is run, for people.
        cmd: String,
    },
    /// A lane has its local files, and their ledger is durable.
    Overlaid {
        /// The act.
        intent: IntentId,
        /// The copies that are there.
        files: Vec<Overlaid>,
    },
    /// A lane's local files could not be copied.
    NotOverlaid {
        /// The act.
        intent: IntentId,
        /// Why.
        fault: Fault,
    },
    /// A lane is provisioned, and its receipt durable.
    Provisioned {
        /// The act.
        intent: IntentId,
        /// What was done.
        receipt: Provisioned,
    },
    /// A provisioning try failed.
    NotProvisioned {
        /// The act.
        intent: IntentId,
        /// How.
        failure: ProvisionFailure,
    },
    /// A dispatch or a `verify` was refused: the lane's receipt does not hold any more.
    LaneStale {
        /// The act that was refused; nothing of it was done.
        intent: IntentId,
        /// What changed.
        reason: String,
        /// Whether the record of its local files is gone.
        overlay_gone: bool,
    },
    /// A lane was looked at after a node without a `verify`: its receipt holds.
    LaneFit {
        /// The act of the node.
        intent: IntentId,
    },
    /// A node's process was seen to run.
    Started {
        /// The act.
        intent: IntentId,
        /// The process.
        pid: u32,
        /// Its start time, clock ticks since boot.
        start_time: u64,
    },
    /// A node's process and all it started have ended.
    Exited {
        /// The act.
        intent: IntentId,
        /// How.
        exit: Exit,
        /// What it left running: `pid name`.
        leftovers: Vec<String>,
    },
    /// `verify` came to an end.
    Verified {
        /// The act of the node that it judges.
        intent: IntentId,
        /// How.
        outcome: VerifyOutcome,
    },
    /// A timer that was armed is due.
    TimerFired(Timer),
    /// A lane was judged and cleaned before its leg ends.
    Swept {
        /// The act.
        intent: IntentId,
        /// What became of it.
        cleanup: Cleanup,
    },
    /// An act has no receipt, and its deadline has passed.
    Overdue {
        /// The act.
        intent: IntentId,
        /// What it is.
        act: OpenAct,
        /// How often its deadline has passed, from 1.
        times: u32,
        /// For how long it has been open.
        after: Duration,
    },
    /// An agent has written nothing for a while.
    Silent {
        /// The act.
        intent: IntentId,
        /// For how long.
        lasted: Duration,
        /// How long those of its runtime that gave a reply in this leg were silent at most, each.
        seen: Vec<Duration>,
    },
    /// The leg is asked to stop: TERM, grace, KILL.
    StopRequested(StopReason),
    /// The leg is asked to stop without grace.
    StopNow,
}

/// What a person said of a gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The gate.
    pub node: crate::ids::NodeIx,
    /// Whether it is passed.
    pub approved: bool,
    /// What they said beside that.
    pub note: Option<String>,
}

/// What a leg begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct LegStart {
    /// The format of the journal that it is written into.
    pub format: u32,
    /// Its number.
    pub leg: Leg,
    /// The generation it claimed.
    pub generation: Generation,
    /// Most processes at a time.
    pub concurrency: u32,
    /// What a task failure does to the rest.
    pub on_fail: OnFail,
    /// When lanes are prepared.
    pub provision_when: ProvisionWhen,
    /// Most lanes that fit on the disk at once, as far as predicted; the rest wait for their first use.
    pub lanes_that_fit: usize,
    /// Whether what failed is opened again.
    pub retry_failed: bool,
    /// Whether what is blocked is opened again.
    pub retry_blocked: bool,
    /// Lanes that can't be made fit, as is known before any is made.
    pub unfit: Vec<(LaneIx, ProvisionFailure)>,
    /// What a person said of gates.
    pub gates: Vec<Gate>,
    /// What provisioning took the last time, in milliseconds, where that is known.
    pub learned: Vec<(LaneIx, u64)>,
    /// What is seen of each act that the last leg left open.
    pub seen: Vec<(IntentId, OpenAct, Seen)>,
    /// The process that runs this leg.
    pub pid: u32,
    /// What built the program.
    pub build: String,
}

/// A lane's worktree, as made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcquiredLane {
    /// `created`, `reattached`, `reused` or `finished`.
    pub how: String,
    /// Its root.
    pub path: PathBuf,
    /// Its branch.
    pub branch: String,
    /// The commit it began at.
    pub base: CommitId,
    /// Whether the branch was made now.
    pub branch_made: bool,
    /// The lane's own git folder.
    pub git_dir: PathBuf,
    /// Where a tree of before was set aside.
    pub set_aside: Option<PathBuf>,
}

/// A provisioning that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provisioned {
    /// What was run; `None` where nothing was.
    pub cmd: Option<String>,
    /// The exit status.
    pub exit_code: Option<i32>,
    /// How long it took.
    pub duration_ms: u64,
    /// What the outcome depends on, hashed.
    pub fingerprint: String,
    /// The hash of its receipt, by which that is known again.
    pub receipt: String,
    /// Why nothing was run.
    pub reason: Option<String>,
    /// Whether a receipt of before still held.
    pub skipped: bool,
    /// What a person should know, one line each.
    pub notes: Vec<String>,
}

/// A provisioning try that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvisionFailure {
    /// What was run.
    pub cmd: Option<String>,
    /// Its exit status.
    pub exit_code: Option<i32>,
    /// The finer cause.
    pub cause: String,
    /// What happened, for people.
    pub detail: String,
    /// The last of its output.
    pub log_tail: String,
    /// Whether a repeat may end differently.
    pub may_differ: bool,
    /// Whether we ended it.
    pub ended_by_us: bool,
    /// Whether manifest and lockfile are at odds, and a node changed one of them.
    pub edited: bool,
    /// Whether what was installed before is as it was.
    pub kept: bool,
}

/// A timer, by what it is for. One of an act that is over means nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The time of the attempt that this act began is over.
    Timeout(IntentId),
    /// The pause before a node's next attempt is over.
    Backoff(crate::ids::NodeIx),
}
