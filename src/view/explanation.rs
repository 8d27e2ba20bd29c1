//! An explanation as `omg explain --json` has it; `explain` makes it, `sentences` tells it.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use crate::graph::model::On;
use crate::ids::IntentId;
use crate::schedule::Fault;
use crate::schedule::fact::{EndReason, StopReason};
use crate::schedule::resolver::Next;

/// Number of the JSON shape. Fields are added, never renamed or removed, under one number.
pub const SCHEMA: u32 = 1;

/// Why a node stands where it stands.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The run.
    pub run_id: String,
    /// The node.
    pub node: String,
    /// Where it stands: a word of DESIGN.md section 6.
    pub state: &'static str,
    /// Its lane.
    pub lane: Option<String>,
    /// How many others it waits for.
    pub depends_on: usize,
    /// The legs that did something about it, oldest first.
    pub legs: Vec<LegStory>,
    /// What waits for it.
    pub dependents: Vec<Dependent>,
    /// What one would do next.
    pub next: Vec<Step>,
}

/// What a leg did about the node.
#[derive(Clone, Debug, Serialize)]
pub struct LegStory {
    /// The leg.
    pub leg: u32,
    /// When it began.
    pub began_at: Timestamp,
    /// What an amendment of the graph before this leg made of the node, where it made it run again: the keys that
    /// changed; empty where it was re-opened as it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amended: Option<String>,
    /// What it waits for that ended in this leg, in order.
    pub dependencies: Vec<Ended>,
    /// Its attempts.
    pub attempts: Vec<Attempt>,
    /// What it waited for after the last of them.
    pub waits: Vec<Wait>,
    /// How it stood when the leg was over.
    pub end: Option<End>,
}

/// A dependency that ended.
#[derive(Clone, Debug, Serialize)]
pub struct Ended {
    /// The node.
    pub node: String,
    /// The ending that is waited for.
    pub on: On,
    /// How it ended.
    pub state: &'static str,
    /// When.
    pub at: Timestamp,
}

/// A stretch of time in which the node waited.
#[derive(Clone, Debug, Serialize)]
pub struct Wait {
    /// What for.
    pub r#for: WaitFor,
    /// Since when.
    pub from: Timestamp,
    /// Until when; null where it still does.
    pub until: Option<Timestamp>,
}

/// What a node waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum WaitFor {
    /// For other nodes to end.
    Dependencies {
        /// Those that have not, while it waits.
        open: Vec<String>,
    },
    /// For the end of the pause between attempts.
    Pause,
    /// For its lane to be made.
    LaneMaking,
    /// For its lane to get its local files.
    LaneOverlay,
    /// For its lane to be provisioned.
    LaneProvisioning,
    /// For the preparation of other lanes, which comes first.
    OtherLanes {
        /// The lanes.
        lanes: Vec<String>,
    },
    /// For others to leave its lane.
    LaneInUse {
        /// The nodes at work there.
        by: Vec<String>,
    },
    /// For a free slot.
    Slot {
        /// How many there are.
        slots: u32,
        /// What held them when the wait began.
        by: Vec<String>,
    },
    /// For the leg to end: it begins nothing more.
    LegEnd,
    /// For nothing but omg itself.
    Omg,
}

/// One try.
#[derive(Clone, Debug, Serialize)]
pub struct Attempt {
    /// Its number over all legs, from 1.
    pub number: u32,
    /// What the node waited for before.
    pub waits: Vec<Wait>,
    /// When it was dispatched.
    pub dispatched_at: Timestamp,
    /// Why: `ready` or `again`.
    pub reason: String,
    /// When its process was seen to run.
    pub started_at: Option<Timestamp>,
    /// Why it was not started after all.
    pub not_started: Option<String>,
    /// Why omg ended it.
    pub ended_by: Option<EndReason>,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// The leg that saw its end, where that is a later one.
    pub found_by_leg: Option<u32>,
    /// Its exit status.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why it did not pass.
    pub fault: Option<Fault>,
    /// What that led to.
    pub next: Option<Next>,
    /// Further attempts spent before it, of `retry_max`.
    pub retries_spent: u32,
    /// Further attempts that `retry` allows.
    pub retry_max: u32,
    /// Free repeats spent before it, of `repeat_max`.
    pub repeats_spent: u32,
    /// Free repeats of a leg.
    pub repeat_max: u32,
    /// What it left running.
    pub leftovers: Vec<String>,
    /// Its log.
    pub log: PathBuf,
    /// Its act.
    #[serde(skip)]
    pub intent: IntentId,
}

/// How the node stood at a leg's end.
#[derive(Clone, Debug, Serialize)]
pub struct End {
    /// The state.
    pub state: &'static str,
    /// When; null where the leg was killed.
    pub at: Option<Timestamp>,
    /// Its fault.
    pub fault: Option<Fault>,
    /// The log that tells more of that, where it is not an attempt's.
    pub log: Option<PathBuf>,
    /// Where that came from.
    pub why: Why,
}

/// Where an ending came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Why {
    /// From its own attempts.
    Attempts,
    /// From a person: it is a gate.
    Gate {
        /// What they said beside yes or no.
        note: Option<String>,
    },
    /// From its lane, which can't be used.
    Lane,
    /// From what it waits for, and that from what it waits for, and so on.
    Chain {
        /// The way to where it came from.
        links: Vec<Link>,
    },
    /// From a failure that halted the leg.
    Halted {
        /// The node that failed.
        by: Option<String>,
        /// Why.
        fault: Option<Fault>,
    },
    /// From a leg that was asked to stop.
    Stopped {
        /// Why.
        reason: StopReason,
    },
    /// From a leg that was killed.
    LegKilled,
}

/// One edge on the way to where something came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// The node that waits.
    pub node: String,
    /// The node waited for.
    pub needs: String,
    /// The ending waited for.
    pub on: On,
    /// How the latter stood.
    pub state: &'static str,
    /// Why it did not pass.
    pub fault: Option<Fault>,
    /// The log of its last attempt.
    pub log: Option<PathBuf>,
}

/// A node that waits for the explained one.
#[derive(Clone, Debug, Serialize)]
pub struct Dependent {
    /// The node.
    pub node: String,
    /// The ending it waits for.
    pub on: On,
    /// Where it stands.
    pub state: &'static str,
}

/// Something to do.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The command.
    pub command: String,
    /// What it does.
    pub does: String,
}
