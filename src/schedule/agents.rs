//! What concerns agents: what an attempt is given, what its end means, and what it is recorded as.

use std::time::Duration;

use super::action::Brief;
use super::event::Timer;
use super::fact::{AgentRecord, EndReason, EndState, Evidence, SessionStart};
use super::fault::{Exit, Fault, FaultClass, REDISPATCH_MAX, judge_exit};
use super::node::Flight;
use super::resolver::{Next, Spent, resolve};
use super::state::{Act, IllegalFact, RunState};
use super::step::Turn;
use crate::graph::Graph;
use crate::graph::model::NodeKind;
use crate::ids::{IntentId, NodeIx};
use crate::money::Usd;
use crate::runtime::{LimitKind, ReplySeen, Sign, Told};

/// Returns the fault of a node's process, before `verify`; `None` where nothing speaks against it. `ending` says why it
/// was ended, where that was for its own sake.
///
/// `most` is what the attempt was allowed to cost: its node's own budget, or less where the run had less left.
pub fn judge(
    graph: &Graph,
    ix: NodeIx,
    exit: &Exit,
    ending: Option<EndReason>,
    most: Option<Usd>,
) -> Option<Fault> {
    let node = graph.node(ix);
    let is_good = exit.told.as_ref().is_some_and(|told| told.reply == ReplySeen::Good);
    let has_replied = is_good && exit.code == Some(0);
    if ending == Some(EndReason::Silence) && !has_replied {
        let detail =
            "silent for far longer than any agent before it, and nothing says how its provider stands";
        return Some(Fault::new(FaultClass::ProviderIndeterminate, detail));
    }
    let plain = judge_exit(exit, node.check.exit_zero, ending == Some(EndReason::Timeout));
    match &node.kind {
        NodeKind::Agent(agent) => judge_agent(exit, plain, agent.budget, most),
        NodeKind::Command { .. } | NodeKind::Gate => plain,
    }
}

/// Returns the fault of an agent's process. `plain` is what would be said of any process that ended like it.
///
/// What the provider or the program says of itself comes before what its exit status says; a reply that is no
/// error counts only where nothing else speaks against it.
fn judge_agent(exit: &Exit, plain: Option<Fault>, own: Option<Usd>, most: Option<Usd>) -> Option<Fault> {
    if exit.missing {
        let detail = exit.not_started.clone().unwrap_or_default();
        return Some(Fault::new(FaultClass::RuntimeMissing, detail));
    }
    // Time, space, size and signals have nothing to do with what it says.
    let is_of_its_own = |fault: &Fault| {
        matches!(
            fault.class,
            FaultClass::NonzeroExit | FaultClass::CommandNotFound | FaultClass::ResultMismatch
        )
    };
    if let Some(fault) = plain.clone().filter(|fault| !is_of_its_own(fault)) {
        return Some(fault);
    }
    let Some(told) = &exit.told else {
        return Some(plain.unwrap_or_else(|| Fault::new(FaultClass::Unknown, "its reply could not be read")));
    };
    if let Some(fault) = told.sign.as_ref().map(|sign| of_sign(sign, told)) {
        return Some(fault);
    }
    let status = exit.code.unwrap_or_default();
    if matches!(status, 126 | 127) {
        let hint = exit.hint.as_deref().map_or(String::new(), |hint| format!(": {hint}"));
        return Some(Fault::new(FaultClass::RuntimeMissing, format!("exit {status}{hint}")));
    }
    if let Some(fault) = of_money(told, own, most) {
        return Some(fault);
    }
    match told.reply {
        ReplySeen::SaidError => {
            let detail = told.detail.clone().unwrap_or_else(|| "it gave no reason".into());
            Some(Fault::new(FaultClass::AgentError, detail))
        }
        ReplySeen::Good => plain,
        // An exit status says more than the want of a reply.
        ReplySeen::Unreadable => {
            Some(plain.filter(|fault| fault.class == FaultClass::NonzeroExit).map_or_else(
                || {
                    let why = told.detail.as_deref().unwrap_or("its output is no reply of its runtime");
                    Fault::new(FaultClass::OutputError, why)
                },
                |fault| match &told.detail {
                    Some(detail) => Fault { detail: format!("{}: {detail}", fault.detail), ..fault },
                    None => fault,
                },
            ))
        }
    }
}

/// Returns the fault of an attempt that cost more than it may, or was stopped for that. Where the run had less left than
/// the node's own budget, being stopped is not the node's fault.
fn of_money(told: &Told, own: Option<Usd>, most: Option<Usd>) -> Option<Fault> {
    let cost = told.cost.unwrap_or_default();
    if own.is_some_and(|own| cost > own) {
        let own = own.unwrap_or_default();
        return Some(Fault::new(
            FaultClass::BudgetExceeded,
            format!("it cost {cost}, over its budget of {own}"),
        ));
    }
    if !told.over_budget {
        return None;
    }
    let having = told.cost.map_or(String::new(), |cost| format!(", having cost {cost}"));
    Some(match (own, most) {
        (own, Some(most)) if own.is_none_or(|own| most < own) => {
            let detail = format!("it was stopped at the {most} that the run had left{having}");
            Fault::new(FaultClass::RunBudgetSpent, detail)
        }
        (Some(own), _) => {
            let detail = format!("it was stopped at its budget of {own}{having}");
            Fault::new(FaultClass::BudgetExceeded, detail)
        }
        (None, _) => Fault::new(FaultClass::BudgetExceeded, format!("it was stopped at a budget{having}")),
    })
}

/// Returns the fault that a sign of the provider's, or of the runtime's own, stands for.
fn of_sign(sign: &Sign, told: &Told) -> Fault {
    let detail = told.detail.clone().unwrap_or_default();
    match sign {
        Sign::Limit { kind, resets_at } => {
            let class = match kind {
                LimitKind::Rate => FaultClass::ProviderRateLimited,
                LimitKind::Session | LimitKind::Weekly | LimitKind::Usage | LimitKind::Credit => {
                    FaultClass::ProviderLimit
                }
            };
            Fault { resets_at: *resets_at, ..Fault::new(class, detail).with_cause(kind.word()) }
        }
        Sign::Overloaded => Fault::new(FaultClass::ProviderOverloaded, detail),
        Sign::LoginExpired => Fault::new(FaultClass::ProviderAuth, detail),
        Sign::SessionGone => Fault::new(FaultClass::SessionGone, detail),
        Sign::Missing => Fault::new(FaultClass::RuntimeMissing, detail),
    }
}

/// Returns what an attempt of an agent is recorded as; `None` for any other node, and for a process that never ran.
pub(super) fn record_of(graph: &Graph, ix: NodeIx, flight: &Flight, exit: &Exit) -> Option<AgentRecord> {
    let agent = graph.agent(ix)?;
    if exit.not_started.is_some() || !flight.delivered && exit.told.is_none() {
        return None;
    }
    let told = exit.told.as_ref();
    Some(AgentRecord {
        runtime: flight.runtime.clone().unwrap_or_else(|| agent.runtimes[0].clone()),
        session: told.and_then(|told| told.session.clone()).or_else(|| match &flight.session {
            Some(SessionStart::Resumed(id)) => Some(id.clone()),
            Some(SessionStart::Cold(_)) | None => None,
        }),
        cost_usd: told.and_then(|told| told.cost),
        tokens: told.and_then(|told| told.tokens),
    })
}

/// Fewest replies after which something is known of how long agents are silent.
const SEEN_MIN: usize = 3;

/// How many times the longest silence that ended in a reply another may last.
const SILENCE_FACTOR: u32 = 4;

/// Shortest silence that is worth a thought: ten minutes.
const SILENCE_MIN: Duration = Duration::from_secs(600);

/// Returns how long an agent may be silent before it is taken for lost, by how long others of its runtime were that gave
/// a reply; `None` where too few have, since silence alone says nothing.
pub fn silence_limit(seen: &[Duration]) -> Option<Duration> {
    let longest = seen.iter().max().filter(|_| seen.len() >= SEEN_MIN)?;
    Some((*longest * SILENCE_FACTOR).max(SILENCE_MIN))
}

/// Returns how a node that passed did so.
pub(super) fn evidence_of(graph: &Graph, ix: NodeIx) -> Evidence {
    let check = &graph.node(ix).check;
    match (&check.verify, &check.result_matches, check.exit_zero) {
        (Some(_), ..) => Evidence::Verified,
        (None, Some(_), _) => Evidence::SaidSo,
        (None, None, true) => Evidence::ExitOnly,
        (None, None, false) => Evidence::Ended,
    }
}

/// Returns the least that is worth beginning with under a budget: with less than a cent, or a tenth of it all, an agent
/// would be stopped before it has begun to work.
fn least(budget: Usd) -> Usd {
    Usd::from_micros(10_000.min(budget.micros() / 10))
}

/// Whether there is money for an agent's attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Money {
    /// There is: as much as it may cost, or no limit at all.
    Enough,
    /// It may be spoken for by who is in flight.
    Wait,
    /// It is spent.
    Gone,
}

/// Returns whether there is money for an attempt of `ix` beside what is in flight, so that all together stay within what
/// the run may cost. One without a budget of its own may cost all that is left, and so runs alone.
pub fn money_for(graph: &Graph, state: &RunState, ix: NodeIx) -> Money {
    let (Some(agent), Some(left)) = (graph.agent(ix), money_left(graph, state)) else { return Money::Enough };
    let reserved = state.reserved();
    match agent.budget {
        _ if !has_money(graph, state.cost.known) => Money::Gone,
        _ if reserved == Usd::default() => Money::Enough,
        Some(own) if own <= left.less(reserved) => Money::Enough,
        Some(_) | None => Money::Wait,
    }
}

/// Returns whether a run that has cost `known` may begin another agent.
pub fn has_money(graph: &Graph, known: Usd) -> bool {
    graph.parts().budget.is_none_or(|budget| budget > known && budget.less(known) >= least(budget))
}

/// Returns what is left of the run's money; `None` where it has no limit.
pub fn money_left(graph: &Graph, state: &RunState) -> Option<Usd> {
    graph.parts().budget.map(|budget| budget.less(state.cost.known))
}

/// Returns what the next attempt of `ix` is given beside what its node says.
pub fn brief(graph: &Graph, state: &RunState, ix: NodeIx) -> Brief {
    let record = state.node(ix);
    let arc = graph.arc_of(ix);
    let feedback = arc.and_then(|arc| Some((arc.node, state.node(arc.node).sent_back?)));
    let Some(agent) = graph.agent(ix) else { return Brief { feedback, ..Brief::default() } };
    let from = (record.runtime as usize).min(agent.runtimes.len().saturating_sub(1));
    let rest = &agent.runtimes[from..];
    let runtime = rest.iter().find(|name| !state.avoided.contains(*name)).or(rest.first()).cloned();
    let session = agent.goes_on.then(|| session_of(graph, state, ix, runtime.as_deref()));
    let left = money_left(graph, state).map(|left| left.less(state.reserved()));
    let budget = match (agent.budget, left) {
        (Some(own), Some(left)) => Some(own.min(left)),
        (own, left) => own.or(left),
    };
    Brief { runtime, remembered: record.remembered, feedback, session, budget }
}

/// Returns how an agent that goes on with a session begins. A further attempt starts cold: what went wrong stands in
/// the session.
fn session_of(graph: &Graph, state: &RunState, ix: NodeIx, runtime: Option<&str>) -> SessionStart {
    let [parent] = graph.node(ix).depends_on.as_slice() else {
        return SessionStart::Cold("no one node comes before it in this part of the graph".into());
    };
    let id = &graph.node(parent.node).id;
    let cold = |why: String| SessionStart::Cold(why);
    if state.node(ix).tried {
        return cold("an attempt before did not pass".into());
    }
    match &state.node(parent.node).session {
        Some((of, session)) if Some(of.as_str()) == runtime => SessionStart::Resumed(session.clone()),
        Some((of, _)) => cold(format!("`{id}` ran through {of}")),
        None => cold(format!("`{id}` told of no session")),
    }
}

impl Turn<'_> {
    /// An agent is silent: where that has lasted longer than anything seen before speaks for, it is ended.
    pub(super) fn silent(
        &mut self,
        intent: &IntentId,
        lasted: Duration,
        seen: &[Duration],
    ) -> Result<(), IllegalFact> {
        let is_lost = silence_limit(seen).is_some_and(|limit| lasted > limit);
        match self.state.live.acts.get(intent) {
            Some(Act::Node(ix)) if is_lost && !self.state.live.exits.contains_key(intent) => {
                let ix = *ix;
                self.end(ix, EndReason::Silence)
            }
            _ => Ok(()),
        }
    }

    /// Returns what follows `fault` of a node.
    pub(super) fn next_after(&self, ix: NodeIx, fault: &Fault) -> Next {
        let (node, record) = (self.graph.node(ix), self.state.node(ix));
        let used = self.flight(ix).and_then(|flight| flight.runtime.clone());
        let has_fallback = self.graph.agent(ix).is_some_and(|agent| agent.runtimes.last() != used.as_ref());
        // What was made again by itself is not begun again.
        let is_spent = fault.class == FaultClass::VerifyTimeout && self.graph.agent(ix).is_some();
        let spent =
            if is_spent { Spent { redispatches: REDISPATCH_MAX, ..record.spent } } else { record.spent };
        let next = resolve(fault, &node.retry, spent, has_fallback);
        // With a limit met on the way to a runtime that is of no use, there is something to wait for.
        if next == Next::Block && fault.class.may_fall_back() && self.limit_of(ix).is_some() {
            return Next::Pause;
        }
        match self.graph.arc_at(ix) {
            Some(arc)
                if next == Next::Fail
                    && fault.class.is_judgment()
                    && record.rounds < arc.max
                    && self.is_whole(ix) =>
            {
                Next::Feedback
            }
            Some(_) | None => next,
        }
    }

    /// Returns the limit of a runtime of the node's that was met in this leg.
    pub(super) fn limit_of(&self, ix: NodeIx) -> Option<&Fault> {
        let agent = self.graph.agent(ix)?;
        agent.runtimes.iter().find_map(|name| self.state.limits.get(name))
    }

    /// Returns what a node is paused for: the limit that `fault` is, or the one that was met before it.
    pub(super) fn paused_for(&self, ix: NodeIx, fault: Fault) -> Fault {
        if fault.class.is_limit() { fault } else { self.limit_of(ix).cloned().unwrap_or(fault) }
    }

    /// Returns whether a node has no money to begin with: it waits for who is in flight, or is ended where none is
    /// left.
    pub(super) fn is_out_of_money(&mut self, ix: NodeIx) -> Result<bool, IllegalFact> {
        match money_for(self.graph, self.state, ix) {
            Money::Enough => return Ok(false),
            Money::Wait => return Ok(true),
            Money::Gone => {}
        }
        let budget = self.graph.parts().budget.unwrap_or_default();
        let known = self.state.cost.known;
        let detail = format!(
            "the run may cost {budget}, and has cost {known}: `omg resume --graph` with a higher `budget_usd` goes on"
        );
        self.finish(ix, EndState::Blocked, Some(Fault::new(FaultClass::RunBudgetSpent, detail)))?;
        Ok(true)
    }

    /// Makes an agent's `verify` again that did not end in its time: its work is there, and was paid for. Returns whether
    /// it does; after [`REDISPATCH_MAX`] times, the attempt is judged.
    pub(super) fn verifies_again(
        &mut self,
        ix: NodeIx,
        intent: &IntentId,
        fault: Option<&Fault>,
    ) -> Result<bool, IllegalFact> {
        let is_late = fault.is_some_and(|fault| fault.class == FaultClass::VerifyTimeout);
        if !is_late || self.graph.agent(ix).is_none() {
            return Ok(false);
        }
        let times = self.state.live.verified.entry(intent.clone()).or_default();
        *times += 1;
        if *times > REDISPATCH_MAX {
            return Ok(false);
        }
        self.verify(ix)?;
        Ok(true)
    }

    /// Lets a node pause before its next attempt.
    pub(super) fn park(&mut self, ix: NodeIx, after_ms: u64) {
        self.arm(Timer::Backoff(ix), Duration::from_millis(after_ms));
    }
}

#[cfg(test)]
#[path = "agents_tests.rs"]
mod tests;
