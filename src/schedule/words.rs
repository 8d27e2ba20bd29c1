//! The words of facts: how things ended, and why.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::ids::{CommitId, NodeId};
use crate::money::{Tokens, Usd};

/// How a pass was reached: the strongest of what held (DESIGN.md section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Its process ended, and nothing was asked of how.
    Ended,
    /// Its exit status was 0.
    ExitOnly,
    /// It said so: its result matches what was asked for.
    SaidSo,
    /// A command of the engine's held.
    Verified,
    /// A person approved it.
    Approved,
}

impl Evidence {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            Evidence::Ended => "ended",
            Evidence::ExitOnly => "exit-only",
            Evidence::SaidSo => "said-so",
            Evidence::Verified => "verified",
            Evidence::Approved => "approved",
        }
    }
}

/// What an agent's process told of itself in one attempt, also in one that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRecord {
    /// What ran it.
    pub runtime: String,
    /// Its session, by which it can go on.
    pub session: Option<String>,
    /// What it cost; null where that is not known.
    pub cost_usd: Option<Usd>,
    /// What its model read and wrote; null where that is not known.
    pub tokens: Option<Tokens>,
}

/// How an agent that is to go on with a session begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionStart {
    /// With that session.
    Resumed(String),
    /// Without; why.
    Cold(String),
}

/// The node that failed, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Because {
    /// The node.
    pub node: NodeId,
    /// Its fault's class.
    pub class: super::fault::FaultClass,
}

/// How a node stands when its leg is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndState {
    /// Its checks held.
    Passed,
    /// Its own fault, its attempts spent.
    Failed,
    /// An infra, environment or provider fault; nothing charged.
    Blocked,
    /// At a gate that waits for a person, or at a provider's limit; nothing charged.
    Paused,
    /// Behind something blocked, paused or unfinished.
    Waiting,
    /// Needed what did not come.
    Skipped,
    /// Not begun, or halted.
    Cancelled,
    /// In flight when a signal or a crash ended the leg.
    Interrupted,
}

/// Why a node's processes are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// Its own time is over.
    Timeout,
    /// A failure halts the run.
    Halt,
    /// The leg was asked to stop.
    Signal,
    /// It was silent for far longer than any agent before it, and nothing says how its provider stands.
    Silence,
}

/// Why a leg stops early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// A signal of this number.
    Signal(i32),
    /// `omg cancel`.
    Cancel,
    /// The supervisor is gone; nothing can be started or ended any more.
    SupervisorLost,
}

/// What became of a lane at its cleanup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleanup {
    /// `kept` or `removed`.
    pub tree: String,
    /// `kept` or `deleted`.
    pub branch: String,
    /// A short stable word for why.
    pub reason: String,
    /// One line for people, where the outcome is not silent.
    pub note: Option<String>,
    /// Every channel through which work could be lost, with what was found there.
    pub channels: IndexMap<String, String>,
    /// Commits of the lane that carry a local file which the overlay had copied in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlay_in_commits: Vec<Carried>,
    /// Why that is not known, where it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay_unchecked: Option<String>,
}

/// A commit that carries a local file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried {
    /// The file, as the commit names it.
    pub path: String,
    /// The commit that brought it in.
    pub commit: CommitId,
}

/// A local file in a lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlaid {
    /// Its path in the lane.
    pub path: String,
    /// `copied` now; `kept`, as an earlier leg copied it; or `edited` since, and left alone.
    pub how: String,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunStatus {
    /// A living leg.
    Running,
    /// Every node passed, or was skipped by its own condition.
    Passed,
    /// A node failed.
    Failed,
    /// Something is blocked, nothing failed.
    Blocked,
    /// Waits for a person or a limit.
    Paused,
    /// `omg cancel`.
    Cancelled,
    /// A signal or a crash.
    Interrupted,
}

impl EndState {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            EndState::Passed => "passed",
            EndState::Failed => "failed",
            EndState::Blocked => "blocked",
            EndState::Paused => "paused",
            EndState::Waiting => "waiting",
            EndState::Skipped => "skipped",
            EndState::Cancelled => "cancelled",
            EndState::Interrupted => "interrupted",
        }
    }
}

impl RunStatus {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            RunStatus::Running => "running",
            RunStatus::Passed => "passed",
            RunStatus::Failed => "failed",
            RunStatus::Blocked => "blocked",
            RunStatus::Paused => "paused",
            RunStatus::Cancelled => "cancelled",
            RunStatus::Interrupted => "interrupted",
        }
    }
}
