//! A record → the lines that tell a person of it while the run goes on.

use super::style::{Style, duration};
use crate::schedule::fact::{EndState, Overlaid};
use crate::schedule::resolver::Next;
use crate::schedule::{Fact, FaultClass};

/// Returns the lines that tell of a fact; none where it says nothing to a person.
pub fn lines(fact: &Fact, style: Style) -> Vec<String> {
    match fact {
        Fact::AcquirePerformed { lane, how, path, branch, set_aside, .. } => {
            let made = format!("lane {lane}: {how} on {branch}, at {}", path.display());
            let old =
                set_aside.as_ref().map(|old| format!("lane {lane}: its old tree is at {}", old.display()));
            old.into_iter().chain([made]).collect()
        }
        Fact::AcquireFailed { lane, fault, .. } => {
            vec![format!("lane {lane}: {} {}: {}", style.bad("not made"), fault.class.word(), fault.detail)]
        }
        Fact::ProvisionStarted { lane, cmd, .. } => vec![format!("lane {lane}: provisioning with `{cmd}`")],
        Fact::ProvisionRequested { .. } | Fact::OverlayRequested { .. } | Fact::AcquireRequested { .. } => {
            Vec::new()
        }
        Fact::OverlayPerformed { lane, files, .. } => overlaid(lane, files),
        Fact::OverlayFailed { lane, fault, .. } if fault.class == FaultClass::Interrupted => {
            vec![format!("lane {lane}: local files not copied: {}", fault.detail)]
        }
        Fact::OverlayFailed { lane, fault, .. } => {
            vec![format!("lane {lane}: {}: {}", style.bad("local files not copied"), fault.detail)]
        }
        Fact::ProvisionPerformed { lane, cmd: Some(cmd), duration_ms, .. } => {
            vec![format!("lane {lane}: provisioned with `{cmd}` in {}", duration(*duration_ms))]
        }
        Fact::ProvisionPerformed { lane, cmd: None, reason, .. } => {
            vec![format!("lane {lane}: nothing to provision ({})", reason.as_deref().unwrap_or("no command"))]
        }
        Fact::ProvisionSkipped { lane, reason, .. } => {
            vec![format!("lane {lane}: still provisioned ({reason})")]
        }
        Fact::ProvisionStale { lane, reason } => vec![format!("lane {lane}: provisioned anew: {reason}")],
        Fact::ProvisionFailed { lane, fault, .. } if fault.class == FaultClass::Interrupted => {
            vec![format!("lane {lane}: not provisioned: {}", fault.detail)]
        }
        Fact::ProvisionFailed { lane, cause, again, fault, .. } => {
            let then = if *again { "; once more" } else { "" };
            vec![format!("lane {lane}: {} ({cause}): {}{then}", style.bad("not provisioned"), fault.detail)]
        }
        Fact::NodeStarted { node, attempt, lane, .. } => {
            let place = lane.as_ref().map(|lane| format!(" in lane {lane}")).unwrap_or_default();
            let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            vec![format!("{node}: started{place}{again}")]
        }
        Fact::AttemptFinished { node, attempt, fault: Some(fault), next, .. } => {
            let then = match next {
                Some(Next::Retry(after)) => format!("; again in {}", duration(*after)),
                Some(Next::Redispatch(after)) => {
                    format!("; not its own fault, again in {}", duration(*after))
                }
                Some(Next::Fallback(_)) => "; not its own fault, through its next runtime".to_string(),
                Some(Next::Feedback) => "; sent back".to_string(),
                Some(Next::Pause) => "; nothing more is started".to_string(),
                Some(Next::Fail | Next::Block | Next::NextLeg) | None => return Vec::new(),
            };
            vec![format!("{node}: attempt {attempt}: {}: {}{then}", fault.class.word(), fault.detail)]
        }
        Fact::AttemptFinished { node, leftovers, .. } if !leftovers.is_empty() => {
            vec![format!("{node}: ended what it left running: {}", leftovers.join(", "))]
        }
        Fact::RoundFinished { node, state, round, .. } => {
            vec![format!("{node}: {} in round {round}", style.state(state.word()))]
        }
        Fact::GateDecided { node, approved, note } => {
            let said = if *approved { "approved" } else { "rejected" };
            let note = note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
            vec![format!("{node}: {said} by a person{note}")]
        }
        Fact::NodeFinished { node, state: EndState::Paused, fault: None, .. } => {
            vec![format!("{node}: {}: a gate, which waits for a person", style.state("paused"))]
        }
        Fact::NodeFinished { node, state, fault, .. } => {
            let word = style.state(state.word());
            match (state, fault) {
                (EndState::Skipped | EndState::Waiting | EndState::Cancelled, _) => Vec::new(),
                (_, Some(fault)) if fault.class.word() == state.word() => {
                    vec![format!("{node}: {word}: {}", fault.detail)]
                }
                (_, Some(fault)) => {
                    vec![format!("{node}: {word}: {}: {}", fault.class.word(), fault.detail)]
                }
                (_, None) => vec![format!("{node}: {word}")],
            }
        }
        Fact::NodeSkipped { node, because } => match because {
            Some(because) => {
                vec![format!("{node}: skipped: {} did not pass ({})", because.node, because.class.word())]
            }
            None => vec![format!("{node}: skipped: its condition was not met")],
        },
        Fact::GraphAmended { changes, .. } => {
            let what = if changes.len() == 1 { "change" } else { "changes" };
            vec![format!("graph amended: {} {what}", changes.len())]
        }
        Fact::Stopping { reason } => vec![format!("stopping: {}", stop(*reason))],
        Fact::KillRequested { node, reason, .. } => {
            use crate::schedule::fact::EndReason;
            let why = match reason {
                EndReason::Timeout => "its time is over",
                EndReason::Silence => "it is silent for far longer than any before it",
                EndReason::Halt => "a failure halts the run",
                EndReason::Signal => "the run is being stopped",
            };
            vec![format!("{node}: ending it: {why}")]
        }
        Fact::KillFailed { node, survivors, .. } => {
            vec![format!("{node}: {}: {}", style.bad("could not be ended"), survivors.join(", "))]
        }
        Fact::CleanupPerformed { cleanup, .. } => cleanup.note.iter().cloned().collect(),
        Fact::CleanupFailed { lane, reason, .. } => vec![format!("lane {lane}: not cleaned up: {reason}")],
        Fact::DispatchRequested { node, job: Some(_), reason, .. } if reason == "checks" => {
            vec![format!("{node}: had ended well; its checks are made now")]
        }
        Fact::DispatchRequested { node, job: Some(_), .. } => {
            vec![format!("{node}: still running; taken over from the runner that died")]
        }
        Fact::RestartPerformed { pid, .. } => vec![format!("runner: started (pid {pid})")],
        Fact::RestartFailed { reason, .. } => vec![format!("runner: {}: {reason}", style.bad("not started"))],
        Fact::RestartRequested { reason, number, .. } if *number > 0 => {
            vec![format!("runner: starting it again, time {number} in a row ({reason})")]
        }
        Fact::ActOverdue { act, of, after_ms, .. } => {
            vec![format!("{of}: its {act} has no answer since {}", duration(*after_ms))]
        }
        Fact::RestartRequested { .. }
        | Fact::RunStarted { .. }
        | Fact::DispatchRequested { .. }
        | Fact::DispatchFailed { .. }
        | Fact::AttemptFinished { .. }
        | Fact::KillPerformed { .. }
        | Fact::CleanupRequested { .. }
        | Fact::RunFinished { .. } => Vec::new(),
    }
}

/// Most paths that one line names.
const NAMED_MAX: usize = 5;

fn overlaid(lane: &crate::ids::LaneName, files: &[Overlaid]) -> Vec<String> {
    let mut lines = Vec::new();
    for (how, words) in [("copied", "copied in"), ("edited", "edited in the lane, so left alone")] {
        let paths: Vec<&str> = files.iter().filter(|file| file.how == how).map(|file| &*file.path).collect();
        if !paths.is_empty() {
            let more = paths.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let named = paths[..paths.len().min(NAMED_MAX)].join(", ");
            lines.push(format!("lane {lane}: local files {words}: {named}{more}"));
        }
    }
    lines
}

fn stop(reason: crate::schedule::fact::StopReason) -> String {
    use crate::schedule::fact::StopReason;
    match reason {
        StopReason::Signal(signal) => {
            format!("SIG{}; once more to kill at once", crate::schedule::fault::signal_name(signal))
        }
        StopReason::Cancel => "cancelled".to_string(),
        StopReason::SupervisorLost => "the run's supervisor is gone".to_string(),
    }
}
