//! What is known of one node: its history, what it has used up, and where it stands.

use super::fact::{AgentRecord, Because, EndReason, EndState, Evidence, SessionStart};
use super::fault::{Fault, FaultClass, Scope};
use super::resolver::{Next, Spent};
use crate::ids::IntentId;
use crate::money::{Tokens, Usd};

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
    /// How it passed.
    pub evidence: Option<Evidence>,
    /// Where in the list of its runtimes the next attempt's stands.
    pub runtime: u32,
    /// Its attempt that did not pass by its own fault, which the next is told of.
    pub remembered: Option<Judged>,
    /// Whether an attempt of it failed by its own fault, or found its session gone, in this round of its arc.
    pub tried: bool,
    /// The session of its last attempt that passed, and the runtime that has it.
    pub session: Option<(String, String)>,
    /// What its attempts cost, over all legs.
    pub cost: Cost,
    /// Rounds of the arc that it judges, over all legs since its budgets were new.
    pub rounds: u32,
    /// Its last attempt that began a round.
    pub sent_back: Option<Judged>,
    /// What a person said of it, where it is a gate.
    pub decision: Option<Decided>,
}

/// What agents cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// What is known to have been spent.
    pub known: Usd,
    /// Attempts that may have cost something of which nothing is known.
    pub unknown: u32,
    /// What is known to have been read and written.
    pub tokens: Tokens,
}

impl Cost {
    /// Returns what one attempt cost.
    pub fn of(agent: &AgentRecord) -> Cost {
        Cost {
            known: agent.cost_usd.unwrap_or_default(),
            unknown: u32::from(agent.cost_usd.is_none()),
            tokens: agent.tokens.unwrap_or_default(),
        }
    }

    /// Returns both together.
    pub fn plus(self, other: Cost) -> Cost {
        Cost {
            known: self.known.plus(other.known),
            unknown: self.unknown.saturating_add(other.unknown),
            tokens: self.tokens.plus(other.tokens),
        }
    }

    /// Returns whether nothing was spent, as far as is known, and nothing is unknown.
    pub fn is_nothing(self) -> bool {
        self == Cost::default()
    }
}

/// An attempt that did not pass by the node's own fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The attempt.
    pub attempt: u32,
    /// In which way.
    pub class: FaultClass,
}

/// What a person said of a gate.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Decided {
    /// Whether it is passed.
    pub approved: bool,
    /// What they said beside that.
    pub note: Option<String>,
}

/// Where a node stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodePhase {
    /// Not begun: waits for others, a slot, its lane, or the end of a pause.
    #[default]
    Waiting,
    /// From dispatch to the end of its checks; it keeps its slot and its lane.
    InFlight(Flight),
    /// Over for this leg, or for this round of its arc.
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
    /// What runs it, where it is an agent.
    pub runtime: Option<String>,
    /// How it came to a session, where it was to go on with one.
    pub session: Option<SessionStart>,
    /// Most money that it may cost, where it is an agent and that has a limit.
    pub budget: Option<Usd>,
}

impl NodeRecord {
    /// Returns whether it is blocked for want of space alone. Any further leg tries it again: it measures what is
    /// free, and does not begin where too little is.
    pub fn wants_room(&self) -> bool {
        self.phase == NodePhase::Over(EndState::Blocked)
            && self.fault.as_ref().is_some_and(|fault| fault.class == FaultClass::DiskFull)
    }

    /// Returns whether it is blocked for want of money alone. Any further leg tries it again, once the run may cost more.
    pub fn wants_money(&self) -> bool {
        self.phase == NodePhase::Over(EndState::Blocked)
            && self.fault.as_ref().is_some_and(|fault| fault.class == FaultClass::RunBudgetSpent)
    }

    /// Returns it as a new leg opens it again. With new budgets its retries begin anew and, where it had failed, its
    /// rounds too, and a gate is asked again; what it has cost, and what it is to be told of, it keeps.
    pub fn opened(&self, new_budgets: bool) -> NodeRecord {
        let NodeRecord {
            phase,
            attempts,
            spent,
            fault: _,
            because: _,
            evidence: _,
            runtime: _,
            remembered,
            tried,
            session: _,
            cost,
            rounds,
            sent_back,
            decision,
        } = self;
        let had_failed = new_budgets && *phase == NodePhase::Over(EndState::Failed);
        NodeRecord {
            attempts: *attempts,
            remembered: *remembered,
            tried: *tried,
            cost: *cost,
            sent_back: *sent_back,
            spent: if new_budgets { Spent::default() } else { Spent { redispatches: 0, ..*spent } },
            rounds: if had_failed { 0 } else { *rounds },
            decision: decision.clone().filter(|_| !had_failed),
            ..NodeRecord::default()
        }
    }

    /// Returns it as another round of its arc begins: what it found before is judged, and what it may use up is new.
    pub fn in_next_round(&self) -> NodeRecord {
        NodeRecord { rounds: self.rounds, remembered: None, tried: false, ..self.opened(true) }
    }

    /// Takes note of how an attempt ended and what follows.
    pub(super) fn ended(
        &mut self,
        attempt: u32,
        fault: Option<&Fault>,
        next: Option<Next>,
        agent: Option<&AgentRecord>,
    ) {
        self.fault = fault.cloned();
        self.phase = NodePhase::Waiting;
        if let Some(agent) = agent {
            self.cost = self.cost.plus(Cost::of(agent));
        }
        self.tried =
            fault.is_some_and(|fault| fault.scope == Scope::Task || fault.class == FaultClass::SessionGone);
        match fault {
            None => {
                self.remembered = None;
                let session = agent.and_then(|agent| Some((agent.runtime.clone(), agent.session.clone()?)));
                self.session = session;
            }
            Some(fault) if fault.scope == Scope::Task => {
                self.remembered = Some(Judged { attempt, class: fault.class });
            }
            Some(_) => {}
        }
        match next {
            Some(Next::Retry(_)) => self.spent.retries += 1,
            Some(Next::Redispatch(_)) => self.spent.redispatches += 1,
            Some(Next::Fallback(_)) => self.spent.redispatches = 0,
            Some(Next::Feedback) => {
                self.rounds += 1;
                self.sent_back = fault.map(|fault| Judged { attempt, class: fault.class });
            }
            Some(Next::Fail | Next::Block | Next::Pause | Next::NextLeg) | None => {}
        }
    }
}
