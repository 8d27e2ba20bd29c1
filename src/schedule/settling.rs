//! What a dead leg left open, settled by what is seen of the world: one rule an act. And what is done about an
//! act of the living leg that gets no receipt.
//!
//! The list of acts is closed, and so is what can be seen of them: a new one does not compile until it has its
//! rule here. What could not be looked at counts as not done, since every act can be done again.

use std::time::Duration;

use super::action::{Action, Called};
use super::agents::{evidence_of, judge, record_of};
use super::event::{AcquiredLane, Timer};
use super::fact::{EndState, Fact};
use super::fault::{Exit, Fault, FaultClass};
use super::resolver::Next;
use super::state::{Flight, IllegalFact, RunState};
use super::step::Turn;
use crate::graph::Graph;
use crate::ids::{IntentId, LaneIx, NodeIx};
use crate::runtime::Told;

/// An act that was announced, by what it is on. It outlives a crash of whoever began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenAct {
    /// A lane is being made.
    Acquire(LaneIx),
    /// Local files are being copied into a lane.
    Overlay(LaneIx),
    /// A lane is being provisioned.
    Provision(LaneIx),
    /// A node's processes are being ended. Its intent is that of the dispatch.
    Kill(NodeIx),
    /// A node was dispatched.
    Dispatch(NodeIx),
    /// A lane is being judged and cleaned: what is saved, removed and deleted.
    Cleanup(LaneIx),
    /// A runner is being started in place of a dead one.
    Restart,
}

/// What is seen of an open act.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// A lane: of an acquire and of a cleanup.
    Lane(LaneSeen),
    /// Local files: how many the ledger names; `None` where there is no ledger.
    Ledger(Option<usize>),
    /// An installation.
    Installation {
        /// Whether its mark says that it is under way.
        marked: bool,
    },
    /// A node's process.
    Process(ProcessSeen),
    /// What still runs of a node that is being ended: `pid name`.
    Survivors(Vec<String>),
    /// A runner that was being started.
    Runner,
    /// It could not be looked at, and why.
    Unread(String),
}

/// How a lane stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaneSeen {
    /// Neither tree nor branch.
    Nothing,
    /// Its branch without a tree.
    BranchOnly,
    /// An entry of git's without a tree.
    EntryOnly,
    /// A tree that is not complete, or that its hook never said yes to.
    Half,
    /// A tree that was set aside by a cleanup, and comes back.
    Aside,
    /// It is complete.
    Whole(Box<AcquiredLane>),
    /// Something else is in its place; whose, in words.
    Taken(String),
}

/// What is seen of a node's process.
#[derive(Clone, Debug, PartialEq)]
pub enum ProcessSeen {
    /// It ended, and its exit is on disk.
    Exited {
        /// How.
        exit: Box<Exit>,
        /// Whether its lane is as it left it, or it has none: then its checks can be made now.
        in_place: bool,
    },
    /// It lives under a supervisor that outlived its runner.
    Living {
        /// Its process.
        pid: u32,
        /// The process's start time, clock ticks since boot.
        start_time: u64,
        /// For how long it has run, in milliseconds.
        elapsed_ms: u64,
    },
    /// Nothing of it is there.
    Gone {
        /// What an agent had told by then, whose process may have run: that may have cost something.
        left: Option<Box<Told>>,
    },
}

impl OpenAct {
    /// Returns the word for it, as the journal's events have it.
    pub fn word(self) -> &'static str {
        match self {
            OpenAct::Acquire(_) => "acquire",
            OpenAct::Overlay(_) => "overlay",
            OpenAct::Provision(_) => "provision",
            OpenAct::Kill(_) => "kill",
            OpenAct::Dispatch(_) => "dispatch",
            OpenAct::Cleanup(_) => "cleanup",
            OpenAct::Restart => "restart",
        }
    }

    /// Returns what it is on, by name.
    pub fn target(self, graph: &Graph) -> String {
        match self {
            OpenAct::Acquire(lane)
            | OpenAct::Overlay(lane)
            | OpenAct::Provision(lane)
            | OpenAct::Cleanup(lane) => graph.lane(lane).name.to_string(),
            OpenAct::Kill(node) | OpenAct::Dispatch(node) => graph.node(node).id.to_string(),
            OpenAct::Restart => "runner".into(),
        }
    }

    /// Returns how long it may go without a receipt before it counts as overdue.
    ///
    /// An installation has a limit of its own, and so has a node's grace; both come on top.
    pub fn deadline(self, graph: &Graph) -> Duration {
        DEADLINE
            + match self {
                OpenAct::Provision(lane) => graph.provision(lane).timeout,
                OpenAct::Kill(node) => graph.node(node).grace,
                OpenAct::Acquire(_)
                | OpenAct::Overlay(_)
                | OpenAct::Dispatch(_)
                | OpenAct::Cleanup(_)
                | OpenAct::Restart => Duration::ZERO,
            }
    }
}

/// How long an act may go without a receipt.
const DEADLINE: Duration = Duration::from_secs(60);

/// How often its deadline passes before an act is ended that may only be slow: a checkout of a huge tree is.
const PATIENCE: u32 = 10;

/// What is done about an act that gets no receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// It is told of, and goes on: it may only be slow.
    Wait,
    /// It is ended, and with that comes its receipt: done again, or its lane is given up.
    End,
    /// The end is asked for again, without grace.
    EndNow,
    /// The supervisor is asked whether it lives; one that does not answer is done without.
    AskSupervisor,
}

/// Returns what is done when an act's deadline has passed for the `times`th time, from 1.
pub fn overdue(act: OpenAct, times: u32) -> Overdue {
    match act {
        OpenAct::Acquire(_) | OpenAct::Overlay(_) | OpenAct::Provision(_) if times < PATIENCE => {
            Overdue::Wait
        }
        OpenAct::Acquire(_) | OpenAct::Overlay(_) | OpenAct::Provision(_) => Overdue::End,
        OpenAct::Kill(_) => Overdue::EndNow,
        OpenAct::Dispatch(_) => Overdue::AskSupervisor,
        // Both have a limit of time where they are done, and always answer.
        OpenAct::Cleanup(_) | OpenAct::Restart => Overdue::Wait,
    }
}

impl Overdue {
    /// Returns the word for it.
    pub fn word(self) -> &'static str {
        match self {
            Overdue::Wait => "wait",
            Overdue::End => "end",
            Overdue::EndNow => "end-now",
            Overdue::AskSupervisor => "ask-supervisor",
        }
    }
}

fn interrupted(detail: impl Into<String>) -> Fault {
    Fault::new(FaultClass::Interrupted, detail)
}

/// Returns what stands of a lane whose making or cleaning was cut short, in words.
fn in_words(seen: &LaneSeen) -> String {
    match seen {
        LaneSeen::Nothing => "neither its tree nor its branch is there".into(),
        LaneSeen::BranchOnly => "its branch is there, and no tree".into(),
        LaneSeen::EntryOnly => "git lists it, and no tree is there".into(),
        LaneSeen::Half => "its tree is there in part".into(),
        LaneSeen::Aside => "its tree is set aside, and comes back".into(),
        LaneSeen::Whole(_) => "its tree is complete".into(),
        LaneSeen::Taken(words) => words.clone(),
    }
}

/// Returns what is said of an act of which something else was seen than its kind has, or nothing.
fn not_seen(seen: Option<&Seen>) -> String {
    match seen {
        Some(Seen::Unread(why)) => {
            format!("its leg ended before it did; what it left could not be read: {why}")
        }
        Some(_) | None => "its leg ended before it did".into(),
    }
}

/// Returns what closes the start of a runner whose supervisor is gone.
fn unanswered_restart(intent: IntentId) -> Fact {
    Fact::RestartFailed {
        intent,
        executed: false,
        reason: "the supervisor was gone before the runner had answered".into(),
    }
}

/// Returns what closes the acts of a dead leg that need no further leg: who claims the run has ended whatever lived,
/// and judges lanes itself. What was being made or had been dispatched is left to the next leg.
pub fn closed_by_a_claim(graph: &Graph, state: &RunState) -> Vec<Fact> {
    let close = |(intent, act): &(IntentId, OpenAct)| {
        let intent = intent.clone();
        match *act {
            OpenAct::Cleanup(lane) => {
                let reason = "its leg ended before it did; the lane is judged again".into();
                Some(Fact::CleanupFailed { lane: graph.lane(lane).name.clone(), intent, reason })
            }
            OpenAct::Kill(node) => Some(Fact::KillPerformed { node: graph.node(node).id.clone(), intent }),
            OpenAct::Restart => Some(unanswered_restart(intent)),
            OpenAct::Acquire(_) | OpenAct::Overlay(_) | OpenAct::Provision(_) | OpenAct::Dispatch(_) => None,
        }
    };
    state.open.iter().filter_map(close).collect()
}

impl Turn<'_> {
    /// Closes an act that a dead leg left open.
    pub(super) fn settle(
        &mut self,
        intent: &IntentId,
        act: OpenAct,
        seen: Option<&Seen>,
    ) -> Result<(), IllegalFact> {
        match act {
            OpenAct::Acquire(lane) => self.settle_acquire(intent, lane, seen),
            OpenAct::Overlay(lane) => {
                let detail = match seen {
                    Some(Seen::Ledger(Some(count))) => {
                        format!("its leg ended before it did; its ledger names {count} files")
                    }
                    Some(Seen::Ledger(None)) => "its leg ended before it did; nothing was copied".into(),
                    seen => not_seen(seen),
                };
                self.note_overlay_failed(lane, intent, interrupted(detail))
            }
            OpenAct::Provision(lane) => {
                let detail = match seen {
                    Some(Seen::Installation { marked: true }) => {
                        "its leg ended before it did; an installation was under way".into()
                    }
                    Some(Seen::Installation { marked: false }) => {
                        "its leg ended before it did; no installation was under way".into()
                    }
                    seen => not_seen(seen),
                };
                self.note(Fact::ProvisionFailed {
                    lane: self.graph.lane(lane).name.clone(),
                    intent: intent.clone(),
                    nodes: Vec::new(),
                    cmd: None,
                    exit_code: None,
                    cause: "killed".into(),
                    log_tail: String::new(),
                    again: true,
                    fault: interrupted(detail),
                })
            }
            OpenAct::Kill(node) => self.settle_kill(intent, node, seen),
            OpenAct::Dispatch(node) => self.settle_dispatch(intent, node, seen),
            OpenAct::Cleanup(lane) => {
                let reason = match seen {
                    Some(Seen::Lane(seen)) => format!("its leg ended before it did; {}", in_words(seen)),
                    seen => not_seen(seen),
                };
                let lane = self.graph.lane(lane).name.clone();
                self.note(Fact::CleanupFailed { lane, intent: intent.clone(), reason })
            }
            OpenAct::Restart => self.note(unanswered_restart(intent.clone())),
        }
    }

    fn settle_acquire(
        &mut self,
        intent: &IntentId,
        ix: LaneIx,
        seen: Option<&Seen>,
    ) -> Result<(), IllegalFact> {
        let lane = self.graph.lane(ix).name.clone();
        let (intent, detail) = match seen {
            // It was done, and only its receipt is missing.
            Some(Seen::Lane(LaneSeen::Whole(made))) => {
                return self.note(Fact::AcquirePerformed {
                    lane,
                    intent: intent.clone(),
                    how: FOUND.into(),
                    path: made.path.clone(),
                    branch: made.branch.clone(),
                    base: made.base.clone(),
                    branch_made: made.branch_made,
                    git_dir: made.git_dir.clone(),
                    set_aside: None,
                });
            }
            Some(Seen::Lane(seen)) => (intent, format!("its leg ended before it did; {}", in_words(seen))),
            seen => (intent, not_seen(seen)),
        };
        self.note(Fact::AcquireFailed { lane, intent: intent.clone(), fault: interrupted(detail) })
    }

    /// Whatever a dead leg left running was ended before the leg began; a supervisor that outlived its runner
    /// still has its nodes, and is asked again.
    fn settle_kill(&mut self, intent: &IntentId, ix: NodeIx, seen: Option<&Seen>) -> Result<(), IllegalFact> {
        let (node, intent) = (self.graph.node(ix).id.clone(), intent.clone());
        match seen {
            Some(Seen::Survivors(survivors)) if !survivors.is_empty() => {
                self.note(Fact::KillFailed { node, intent, executed: false, survivors: survivors.clone() })
            }
            Some(Seen::Survivors(_)) => self.note(Fact::KillPerformed { node, intent }),
            Some(_) | None => {
                self.note(Fact::KillFailed { node, intent, executed: false, survivors: Vec::new() })
            }
        }
    }

    /// A node that lives is taken over; one whose exit is on disk, and was its own, is judged by it; any other
    /// runs again.
    fn settle_dispatch(
        &mut self,
        intent: &IntentId,
        ix: NodeIx,
        seen: Option<&Seen>,
    ) -> Result<(), IllegalFact> {
        let Some(flight) = self.flight(ix).filter(|flight| flight.intent == *intent).cloned() else {
            return Ok(());
        };
        match seen {
            Some(Seen::Process(ProcessSeen::Living { pid, start_time, elapsed_ms })) => {
                self.adopt(ix, &flight, (*pid, *start_time), Duration::from_millis(*elapsed_ms))
            }
            Some(Seen::Process(ProcessSeen::Exited { exit, in_place: true }))
                if self.awaits_checks(ix, exit) =>
            {
                self.take_up(ix, &flight, exit)
            }
            Some(Seen::Process(ProcessSeen::Exited { exit, .. })) => {
                self.settle_node(ix, &flight, Some(exit))
            }
            Some(Seen::Process(ProcessSeen::Gone { left: Some(told) })) => {
                // It counts as delivered, though nobody saw it run: what it was paid for is not forgotten.
                let ended_by_us = true;
                let exit = Exit { ended_by_us, told: Some((**told).clone()), ..Exit::default() };
                self.settle_node(ix, &flight, Some(&exit))
            }
            Some(_) | None => self.settle_node(ix, &flight, None),
        }
    }

    /// Returns whether a process ended well by itself, and only its `verify` was not made.
    fn awaits_checks(&self, ix: NodeIx, exit: &Exit) -> bool {
        let check = &self.graph.node(ix).check;
        check.verify.is_some()
            && !exit.ended_by_us
            && judge(self.graph, ix, exit, None, self.flight(ix).and_then(|flight| flight.budget)).is_none()
    }

    /// Goes on with the checks of a node whose process is over: it is not started again, its act is minted anew.
    fn take_up(&mut self, ix: NodeIx, flight: &Flight, exit: &Exit) -> Result<(), IllegalFact> {
        let intent = self.mint();
        self.note(Fact::DispatchRequested {
            node: self.graph.node(ix).id.clone(),
            attempt: flight.attempt,
            intent: intent.clone(),
            reason: CHECKS.into(),
            lane: self.lane_of(ix),
            job: Some(flight.job.clone()),
            runtime: flight.runtime.clone(),
            session: flight.session.clone(),
            budget_usd: flight.budget,
        })?;
        self.exited(ix, &intent, exit, &[])
    }

    /// Takes a living node over: it is not started again, its act is minted anew.
    fn adopt(
        &mut self,
        ix: NodeIx,
        flight: &Flight,
        (pid, start_time): (u32, u64),
        elapsed: Duration,
    ) -> Result<(), IllegalFact> {
        let intent = self.mint();
        let node = self.graph.node(ix).id.clone();
        if !flight.delivered {
            // The receipt that its own leg did not live to write.
            self.note(Fact::NodeStarted {
                node: node.clone(),
                attempt: flight.attempt,
                intent: flight.intent.clone(),
                pid,
                start_time,
                lane: self.lane_of(ix),
            })?;
        }
        self.note(Fact::DispatchRequested {
            node: node.clone(),
            attempt: flight.attempt,
            intent: intent.clone(),
            reason: ADOPTED.into(),
            lane: self.lane_of(ix),
            job: Some(flight.job.clone()),
            runtime: flight.runtime.clone(),
            session: flight.session.clone(),
            budget_usd: flight.budget,
        })?;
        self.note(Fact::NodeStarted {
            node,
            attempt: flight.attempt,
            intent: intent.clone(),
            pid,
            start_time,
            lane: self.lane_of(ix),
        })?;
        self.decision.actions.push(Action::Adopt {
            intent: intent.clone(),
            node: ix,
            attempt: flight.attempt,
            job: flight.job.clone(),
            called: Called::of(flight.runtime.as_ref(), flight.session.as_ref()),
        });
        if let Some(timeout) = self.graph.node(ix).timeout {
            self.arm(Timer::Timeout(intent), timeout.saturating_sub(elapsed));
        }
        match flight.ending {
            Some(reason) => self.end(ix, reason),
            None => Ok(()),
        }
    }

    /// Closes a node's act that a killed leg left open: by its exit where that is on disk and was
    /// the process's own, else it runs again.
    fn settle_node(&mut self, ix: NodeIx, flight: &Flight, found: Option<&Exit>) -> Result<(), IllegalFact> {
        let node = self.graph.node(ix);
        let judged = found.filter(|exit| !exit.ended_by_us);
        let (exit, fault) = match judged {
            Some(exit) => {
                let own = judge(self.graph, ix, exit, None, flight.budget);
                // Its checks were not all made, so it has not passed.
                let unchecked =
                    node.check.verify.as_ref().map(|_| interrupted("its leg ended before its `verify`"));
                (exit.clone(), own.or(unchecked))
            }
            None => (found.cloned().unwrap_or_default(), Some(interrupted("its leg ended before it did"))),
        };
        // A limit of before may be over by now: the leg that begins goes on.
        let next = fault.as_ref().map(|fault| match self.next_after(ix, fault) {
            Next::Pause => Next::NextLeg,
            next => next,
        });
        self.note(Fact::AttemptFinished {
            node: node.id.clone(),
            attempt: flight.attempt,
            intent: flight.intent.clone(),
            fault: fault.clone(),
            next,
            exit_code: exit.code,
            signal: exit.signal,
            leftovers: Vec::new(),
            delivered: flight.delivered || found.is_some_and(|exit| exit.not_started.is_none()),
            agent: record_of(self.graph, ix, flight, &exit),
            evidence: fault.is_none().then(|| evidence_of(self.graph, ix)),
        })?;
        // A pause of before is over by now.
        self.state.live.parked.remove(&ix);
        match (fault, next) {
            (None, _) => self.finish(ix, EndState::Passed, None)?,
            (Some(fault), Some(Next::Fail)) => self.finish(ix, EndState::Failed, Some(fault))?,
            (Some(fault), Some(Next::Block)) => self.finish(ix, EndState::Blocked, Some(fault))?,
            (
                Some(_),
                Some(
                    Next::Retry(_)
                    | Next::Redispatch(_)
                    | Next::Fallback(_)
                    | Next::Feedback
                    | Next::Pause
                    | Next::NextLeg,
                )
                | None,
            ) => {}
        }
        Ok(())
    }

    /// An act of this leg has no receipt, and its time is over.
    pub(super) fn act_overdue(
        &mut self,
        intent: &IntentId,
        act: OpenAct,
        times: u32,
        after: Duration,
    ) -> Result<(), IllegalFact> {
        let is_open = self.state.open.contains(&(intent.clone(), act));
        let has_receipt = match act {
            OpenAct::Dispatch(node) => self.flight(node).is_none_or(|flight| flight.delivered),
            OpenAct::Acquire(_)
            | OpenAct::Overlay(_)
            | OpenAct::Provision(_)
            | OpenAct::Kill(_)
            | OpenAct::Cleanup(_)
            | OpenAct::Restart => false,
        };
        if !is_open || has_receipt {
            return Ok(());
        }
        let next = overdue(act, times);
        self.note(Fact::ActOverdue {
            intent: intent.clone(),
            act: act.word().into(),
            of: act.target(self.graph),
            after_ms: after.as_millis() as u64,
            next: next.word().into(),
        })?;
        match next {
            Overdue::Wait => {}
            Overdue::End => self.decision.actions.push(Action::End { intent: intent.clone(), now: false }),
            Overdue::EndNow => self.decision.actions.push(Action::End { intent: intent.clone(), now: true }),
            Overdue::AskSupervisor => self.decision.actions.push(Action::AskSupervisor),
        }
        Ok(())
    }
}

/// How a lane came to be that a dead leg had made and no receipt told of.
pub(super) const FOUND: &str = "found";
/// Why a node whose process is over is dispatched: its checks are still to be made.
pub(super) const CHECKS: &str = "checks";
/// Why a node that lives is dispatched: it was started by a dead leg.
pub(super) const ADOPTED: &str = "adopted";

#[cfg(test)]
#[path = "settling_tests.rs"]
mod tests;
