//! What the scheduler wants done. Each is announced in the journal, durably, before it is done.

use std::time::Duration;

use super::event::Timer;
use crate::ids::{IntentId, LaneIx, NodeIx};

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make a lane's worktree; answered by `Acquired` or `NotAcquired`.
    Acquire {
        /// The act.
        intent: IntentId,
        /// The lane.
        lane: LaneIx,
        /// Whether a tree of before is set aside first; then, whether the branch begins anew too.
        fresh: Option<bool>,
    },
    /// Copy a lane's local files in; answered by `Overlaid` or `NotOverlaid`.
    Overlay {
        /// The act.
        intent: IntentId,
        /// The lane.
        lane: LaneIx,
    },
    /// Install a lane's dependencies; answered by `Provisioned` or `NotProvisioned`.
    Provision {
        /// The act.
        intent: IntentId,
        /// The lane.
        lane: LaneIx,
        /// Number of the try in this run, from 1.
        number: u32,
    },
    /// Start a node; answered by `Started` and `Exited`, or by `LaneStale`.
    Dispatch {
        /// The act.
        intent: IntentId,
        /// The node.
        node: NodeIx,
        /// Its attempt, from 1.
        attempt: u32,
        /// Whether it may begin although manifest and lockfile of its lane are at odds: it is its own
        /// doing, and its to mend.
        despite_inputs: bool,
    },
    /// Take over a node that lives under a supervisor which outlived its runner; answered by `Exited`.
    Adopt {
        /// The act.
        intent: IntentId,
        /// The node.
        node: NodeIx,
        /// Its attempt.
        attempt: u32,
        /// The act that it was started by, after which its job is named.
        job: IntentId,
    },
    /// Ask the supervisor whether it lives; one that does not answer is ended, and the leg with it.
    AskSupervisor,
    /// Run a node's `verify`; answered by `Verified` or by `LaneStale`. Where it has none, its lane is looked
    /// at; answered by `LaneFit` or by `LaneStale`.
    Verify {
        /// The act that the node's process began with.
        intent: IntentId,
        /// The node.
        node: NodeIx,
        /// Its attempt.
        attempt: u32,
        /// Whether another node of its lane is to come after it.
        is_followed: bool,
    },
    /// End all processes of an act: TERM, its grace, KILL; at once KILL where `now`.
    End {
        /// The act.
        intent: IntentId,
        /// Without grace.
        now: bool,
    },
    /// Answer with `TimerFired` after a while.
    Arm {
        /// The timer.
        timer: Timer,
        /// The while.
        after: Duration,
    },
    /// Nothing more will happen in this leg.
    Settled,
}
