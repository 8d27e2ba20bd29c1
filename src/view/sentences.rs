//! An [`Explanation`] as plain sentences, one fact a line.

use jiff::Timestamp;

use super::explanation::{Attempt, Ended, Explanation, LegStory, Link, Wait, WaitFor, Why};
use super::style::{Style, duration, printable};
use super::table::columns;
use crate::graph::model::On;
use crate::schedule::Fault;
use crate::schedule::fact::{EndReason, StopReason};
use crate::schedule::fault::{Scope, Then, signal_name};
use crate::schedule::resolver::Next;

/// Things of one kind that are all named; of more it is said how many.
const NAMED_MAX: usize = 6;

/// Shortest wait that is told, in milliseconds: less is omg's own work.
const WAIT_TOLD_MIN: u64 = 10;

/// Returns an explanation for a person.
pub fn sentences(told: &Explanation, style: Style) -> Vec<String> {
    let mut head = format!("{}: {}", told.node, style.state(told.state));
    if let Some(leg) = told.legs.last().filter(|leg| leg.end.is_some()) {
        head.push_str(&format!(" in leg {}", leg.leg));
    }
    let mut lines = vec![head];
    if told.legs.is_empty() {
        lines.push("  no leg has come to it yet".to_string());
    }
    let several = told.legs.len() > 1;
    for (at, leg) in told.legs.iter().enumerate() {
        let is_first = at == 0;
        let facts = of_leg(told, leg, is_first);
        let has_times = was_met(leg) || leg.waits.iter().any(|wait| wait.until.is_none());
        if several || has_times {
            lines.push(format!("  leg {} began {}", leg.leg, leg.began_at.strftime("%Y-%m-%d %H:%M:%SZ")));
        }
        let indent = if several { "    " } else { "  " };
        lines.extend(facts.iter().map(|fact| format!("{indent}{}", printable(fact, Style { color: false }))));
    }
    lines.extend(dependents(told).map(|line| format!("  {line}")));
    let steps: Vec<Vec<String>> =
        told.next.iter().map(|step| vec![format!("  {}", step.command), step.does.clone()]).collect();
    lines.extend(columns(&steps));
    lines
}

fn of_leg(told: &Explanation, leg: &LegStory, is_first: bool) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(leg.amended.as_ref().map(|what| match what.as_str() {
        "" => "the graph was amended, and it was opened again".to_string(),
        what => format!("the graph was amended: {what}"),
    }));
    if was_met(leg) {
        lines.extend(dependencies(told, leg, is_first));
    }
    for attempt in &leg.attempts {
        lines.extend(attempt.waits.iter().filter_map(|wait| waited(told, leg, wait)));
        lines.extend(of_attempt(told, leg, attempt));
    }
    lines.extend(leg.waits.iter().filter_map(|wait| waited(told, leg, wait)));
    lines.extend(end(told, leg));
    lines
}

/// Returns whether all that the node waits for was there at some time of the leg.
fn was_met(leg: &LegStory) -> bool {
    let is_later = |wait: &Wait| !matches!(wait.r#for, WaitFor::Dependencies { .. } | WaitFor::LegEnd);
    !leg.attempts.is_empty() || leg.waits.iter().any(is_later)
}

fn dependencies(told: &Explanation, leg: &LegStory, is_first: bool) -> Vec<String> {
    let all = &leg.dependencies;
    if told.depends_on == 0 {
        return if is_first { vec!["it waits for no other node".to_string()] } else { Vec::new() };
    }
    if all.is_empty() {
        return vec!["all that it waits for had ended before this leg".to_string()];
    }
    let one = |ended: &Ended| {
        let Ended { node, on, state, at } = ended;
        format!("it waited for {node} ({}), which {} at {}", word(*on), was(state), since(leg, *at))
    };
    let (earlier, last) = all.split_at(all.len().saturating_sub(NAMED_MAX));
    let mut lines: Vec<String> = Vec::new();
    if !earlier.is_empty() {
        lines.push(format!("it waited for {} others, which ended before these:", earlier.len()));
    }
    lines.extend(last.iter().map(one));
    lines
}

fn of_attempt(told: &Explanation, leg: &LegStory, attempt: &Attempt) -> Vec<String> {
    let number = attempt.number;
    let place = told.lane.as_ref().map(|lane| format!(" in lane {lane}")).unwrap_or_default();
    let at = since(leg, attempt.started_at.unwrap_or(attempt.dispatched_at));
    if let Some(reason) = &attempt.not_started {
        return vec![format!("it was to begin at {at} and did not: {reason}")];
    }
    let mut lines = vec![match attempt.started_at {
        Some(_) => format!("attempt {number} began at {at}{place}"),
        None => format!("attempt {number} was dispatched at {at}{place}; its process was not seen to run"),
    }];
    if let Some(reason) = attempt.ended_by {
        lines.push(format!("omg ended it: {}", ended_by(reason)));
    }
    let Some(ended_at) = attempt.ended_at else {
        lines.push(format!("its log: {}", attempt.log.display()));
        return lines;
    };
    let took = duration(between(attempt.started_at.unwrap_or(attempt.dispatched_at), ended_at));
    let after = match attempt.found_by_leg {
        Some(later) => format!(", as leg {later} found"),
        None => format!(" after {took}"),
    };
    match &attempt.fault {
        None => lines.push(format!("attempt {number} passed{after}")),
        Some(fault) => {
            lines.push(format!("attempt {number} did not pass{after}: {}", of_fault(fault)));
            lines.push(then(attempt, fault));
        }
    }
    if attempt.started_at.is_some() {
        lines.push(format!("its log: {}", attempt.log.display()));
    }
    if !attempt.leftovers.is_empty() {
        lines.push(format!("omg ended what it left running: {}", attempt.leftovers.join(", ")));
    }
    lines
}

/// Returns what a fault led to, and what of the node's own means it spent.
fn then(attempt: &Attempt, fault: &Fault) -> String {
    let policy = fault.class.policy();
    let pause =
        |ms: u64| if ms == 0 { String::new() } else { format!(", after a pause of {}", duration(ms)) };
    let (max, scope) = (attempt.retry_max, scope(policy.scope));
    match attempt.next {
        Some(Next::Retry(ms)) => {
            format!("{scope}: it spent retry {} of {max}{}", attempt.retries_spent + 1, pause(ms))
        }
        Some(Next::Redispatch(ms)) => {
            let (nth, of) = (attempt.repeats_spent + 1, attempt.repeat_max);
            format!("{scope}: free repeat {nth} of {of} followed{}", pause(ms))
        }
        Some(Next::Fallback(_)) => format!("{scope}: nothing was charged; its next runtime was tried"),
        Some(Next::Feedback) => format!("{scope}: it sent its arc back for another round"),
        Some(Next::Pause) => format!("{scope}: nothing was charged; the run paused"),
        Some(Next::Fail) if max == 0 => format!("{scope}, and it has no `retry`"),
        Some(Next::Fail) if attempt.retries_spent >= max => {
            format!("{scope}, and its retries are spent ({max} of {max})")
        }
        Some(Next::Fail) => format!("{scope}, and its `retry` does not name that cause"),
        Some(Next::Block) => match policy.then {
            Then::Redispatch => {
                format!("{scope}, and its free repeats are spent ({0} of {0})", attempt.repeat_max)
            }
            Then::Retry(_) | Then::Fail | Then::Block | Then::Pause | Then::NextLeg => {
                format!("{scope}: no attempt was charged; a repeat would end the same")
            }
        },
        Some(Next::NextLeg) | None => format!("{scope}: nothing was charged; it was left for the next leg"),
    }
}

fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Task => "the node's own fault (scope task)",
        Scope::Environment => "not the node's fault (scope environment)",
        Scope::Infra => "not the node's fault (scope infra)",
        Scope::Provider => "not the node's fault (scope provider)",
        Scope::Bug => "a bug of omg's own (scope bug)",
    }
}

/// Returns what a wait was or is for; `None` where that is not worth a line.
fn waited(told: &Explanation, leg: &LegStory, wait: &Wait) -> Option<String> {
    let lane = || told.lane.as_deref().unwrap_or_default();
    let what = match &wait.r#for {
        // Told by the nodes that ended, or by the way to those that did not.
        WaitFor::Dependencies { .. } | WaitFor::LegEnd if wait.until.is_some() => return None,
        WaitFor::Dependencies { open } => format!("for {}", some(open)),
        WaitFor::LegEnd => "for the leg to end, which begins nothing more".to_string(),
        WaitFor::Pause => "in its pause between attempts".to_string(),
        WaitFor::LaneMaking => format!("for lane {} to be made", lane()),
        WaitFor::LaneOverlay => format!("for local files to be copied into lane {}", lane()),
        WaitFor::LaneProvisioning => format!("for lane {} to be provisioned", lane()),
        WaitFor::OtherLanes { lanes } => {
            format!("for lanes to be prepared, which comes before the first node: {}", some(lanes))
        }
        WaitFor::LaneInUse { by } => format!("for lane {}, where another was at work: {}", lane(), some(by)),
        WaitFor::Slot { slots, by } => {
            format!("for a slot: all {slots} were taken, at first by {}", some(by))
        }
        WaitFor::Omg => "for omg itself".to_string(),
    };
    match wait.until {
        None => Some(format!("it waits {what} (since {})", since(leg, wait.from))),
        Some(until) => {
            let ms = between(wait.from, until);
            (ms >= WAIT_TOLD_MIN).then(|| format!("it waited {} {what}", duration(ms)))
        }
    }
}

fn end(told: &Explanation, leg: &LegStory) -> Vec<String> {
    let Some(end) = &leg.end else { return Vec::new() };
    match &end.why {
        // What no attempt told of came about without one.
        Why::Attempts => match &end.fault {
            Some(fault) if leg.attempts.iter().all(|attempt| attempt.fault.as_ref() != Some(fault)) => {
                vec![of_fault(fault), format!("{}: nothing was charged", scope(fault.scope))]
            }
            Some(_) | None => Vec::new(),
        },
        Why::Gate { note } => {
            let said = match end.state {
                "passed" => "a person approved it",
                "failed" => "a person said no",
                _ => "it waits for a person: `omg resume` with --approve or --reject",
            };
            vec![note.as_ref().map_or_else(|| said.to_string(), |note| format!("{said}: {note}"))]
        }
        Why::Lane => {
            let lane = told.lane.as_deref().unwrap_or_default();
            let mut lines = vec![format!("its lane {lane} could not be used")];
            if let Some(fault) = &end.fault {
                lines.push(of_fault(fault));
                lines.push(format!("{}: nothing was charged", scope(fault.scope)));
            }
            lines.extend(end.log.as_ref().map(|log| format!("the log of that: {}", log.display())));
            lines
        }
        Why::Chain { links } => chain(links),
        Why::Halted { by: Some(by), fault } => {
            let why = fault.as_ref().map(|fault| format!(": {}", of_fault(fault))).unwrap_or_default();
            let what = if end.fault.is_some() { "which ended it" } else { "before it had begun" };
            vec![format!("{by} failed{why}"), format!("that halted the run, {what}")]
        }
        Why::Halted { by: None, .. } => vec!["the run was halted".to_string()],
        Why::Stopped { reason } => vec![match reason {
            StopReason::Signal(signal) => format!("the leg was ended by SIG{}", signal_name(*signal)),
            StopReason::Cancel => "the leg was ended by `omg cancel`".to_string(),
            StopReason::SupervisorLost => "the leg ended because its supervisor was gone".to_string(),
        }],
        Why::LegKilled => vec!["the leg was killed: it ended without its own doing".to_string()],
    }
}

/// Returns the way to where an ending came from, a line an edge; the middle of a long one left out.
fn chain(links: &[Link]) -> Vec<String> {
    let mut lines = Vec::new();
    let left_out = links.len().saturating_sub(NAMED_MAX);
    for (at, link) in links.iter().enumerate() {
        if left_out > 0 && at == NAMED_MAX / 2 {
            lines.push(format!("… and so on through {left_out} more"));
        }
        if left_out > 0 && (NAMED_MAX / 2..NAMED_MAX / 2 + left_out).contains(&at) {
            continue;
        }
        let who = if at == 0 { "it" } else { link.node.as_str() };
        let is_condition = link.on == On::Failed && matches!(link.state, "passed" | "skipped");
        lines.push(match (&link.fault, is_condition) {
            (_, true) => format!(
                "{who} runs only if {} fails, and that {}: its own condition, no failure",
                link.needs,
                was(link.state)
            ),
            (Some(fault), false) => {
                format!(
                    "{who} needed {} ({}), which {}: {}",
                    link.needs,
                    word(link.on),
                    was(link.state),
                    of_fault(fault)
                )
            }
            (None, false) => {
                format!("{who} needed {} ({}), which {}", link.needs, word(link.on), was(link.state))
            }
        });
    }
    if let Some(Link { needs, log: Some(log), fault: Some(_), .. }) = links.last() {
        lines.push(format!("{needs}'s log: {}", log.display()));
    }
    lines
}

fn dependents(told: &Explanation) -> Option<String> {
    let named =
        told.dependents.iter().map(|next| format!("{} ({}, {})", next.node, word(next.on), next.state));
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| format!("what waits for it: {}", some(&named)))
}

fn some(names: &[String]) -> String {
    match names.len() {
        0 => "nothing that is named".to_string(),
        count if count <= NAMED_MAX => names.join(", "),
        count => format!("{} and {} more", names[..NAMED_MAX].join(", "), count - NAMED_MAX),
    }
}

fn of_fault(fault: &Fault) -> String {
    let cause = fault.cause.as_ref().map(|cause| format!(" ({cause})")).unwrap_or_default();
    let detail = fault.detail.lines().next().unwrap_or_default();
    format!("{}{cause}: {detail}", fault.class.word())
}

fn ended_by(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Timeout => "its time was over",
        EndReason::Silence => "it was silent for far longer than any before it",
        EndReason::Halt => "a failure halted the run",
        EndReason::Signal => "the leg was asked to stop",
    }
}

fn word(on: On) -> &'static str {
    match on {
        On::Passed => "on: passed",
        On::Finished => "on: finished",
        On::Failed => "on: failed",
    }
}

/// Returns a state as a sentence about the past has it.
fn was(state: &str) -> String {
    match state {
        "passed" | "failed" => state.to_string(),
        "waiting" => "waited in turn".to_string(),
        state => format!("was {state}"),
    }
}

fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millisecond() - from.as_millisecond()).unwrap_or(0)
}

/// Returns a time as what had passed of the leg by then.
fn since(leg: &LegStory, at: Timestamp) -> String {
    duration(between(leg.began_at, at))
}
