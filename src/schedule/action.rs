//! What the scheduler wants done. Each is announced in the journal, durably, before it is done.

use std::time::Duration;

use super::event::Timer;
use super::fact::SessionStart;
use super::node::Judged;
use crate::ids::{IntentId, LaneIx, NodeIx};
use crate::money::Usd;

/// What an attempt is given beside what its node says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Brief {
    /// What runs it, where it is an agent.
    pub runtime: Option<String>,
    /// Its own attempt that is quoted to it.
    pub remembered: Option<Judged>,
    /// The node that sent its arc back, and the attempt by which it did.
    pub feedback: Option<(NodeIx, Judged)>,
    /// How it comes to a session, where it is to go on with one.
    pub session: Option<SessionStart>,
    /// Most money that it may cost.
    pub budget: Option<Usd>,
}

/// How an agent was called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Called {
    /// What runs it; the first of its runtimes where that is not known.
    pub runtime: Option<String>,
    /// Whether it goes on with a session.
    pub is_resumed: bool,
}

impl Called {
    /// Returns how an agent was called of which this was written down.
    pub fn of(runtime: Option<&String>, session: Option<&SessionStart>) -> Called {
        let is_resumed = matches!(session, Some(SessionStart::Resumed(_)));
        Called { runtime: runtime.cloned(), is_resumed }
    }
}

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
        /// What it is given beside what its node says.
        brief: Box<Brief>,
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
        /// How it was called, where it is an agent.
        called: Called,
    },
    /// Judge a lane and clean it up before its leg ends; answered by `Swept`.
    Sweep {
        /// The act.
        intent: IntentId,
        /// The lane.
        lane: LaneIx,
        /// Whether a node passed in it while another may run again.
        ignored_is_needed: bool,
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
        /// The node that sent its arc back, and the attempt by which it did.
        feedback: Option<(NodeIx, Judged)>,
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
