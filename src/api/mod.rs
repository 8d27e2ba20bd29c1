//! One function per operation, its types and its exit codes. No printing; `cli` does that.

pub mod amend;
pub mod auto;
pub mod cancel;
pub mod detach;
pub mod doctor;
pub mod explain;
pub mod find;
mod gates;
pub mod gc;
pub mod init;
pub mod lanes;
pub mod lint;
pub mod names;
pub mod outlook;
#[cfg(test)]
mod outlook_tests;
pub mod plan;
mod programs;
pub mod resume;
pub mod start;
pub mod wait;
pub mod watch;

mod leg;
mod ready;

pub mod leg_options {
    //! What a user chooses for a leg, and what is taken out of what is shown.
    pub use super::leg::{Ended, GateChoice, LegOptions, mask, now};
}

use crate::graph::Problem;
use crate::run::RunError;
use crate::settings::SettingsError;
use crate::worktree::WorktreeError;

/// Exit codes (DESIGN.md section 11).
pub mod exit {
    /// Every node passed, or was skipped by its own condition.
    pub const OK: i32 = 0;
    /// A node failed.
    pub const FAILED: i32 = 1;
    /// Bad usage, bad graph, bad input, unknown run: nothing ran.
    pub const USAGE: i32 = 2;
    /// Infra, environment or provider; no node is to blame.
    pub const BLOCKED: i32 = 3;
    /// Waits for a person or a limit.
    pub const PAUSED: i32 = 4;
    /// The run is held by a living process.
    pub const HELD: i32 = 5;
    /// A bug of ours.
    pub const BUG: i32 = 70;
    /// Added to the number of the signal that ended a run.
    pub const SIGNAL: i32 = 128;
}

/// Why an operation was not done, with the code to end with.
#[derive(Debug)]
pub struct Refusal {
    /// The exit code.
    pub exit: i32,
    /// What is wrong, one entry a thing.
    pub complaints: Vec<Complaint>,
    /// What is wrong with graph files.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong, and the way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What, with its value.
    pub message: String,
    /// The way out.
    pub hint: Option<String>,
}

impl Refusal {
    /// Returns a refusal with one complaint.
    pub fn new(exit: i32, message: impl Into<String>, hint: Option<String>) -> Refusal {
        Refusal { exit, complaints: vec![Complaint { message: message.into(), hint }], problems: Vec::new() }
    }

    /// Returns a refusal for bad usage.
    pub fn usage(message: impl Into<String>) -> Refusal {
        Refusal::new(exit::USAGE, message, None)
    }

    /// Returns a refusal for what is wrong with graph files.
    pub fn of_problems(problems: Vec<Problem>) -> Refusal {
        Refusal { exit: exit::USAGE, complaints: Vec::new(), problems }
    }
}

impl From<SettingsError> for Refusal {
    fn from(error: SettingsError) -> Refusal {
        Refusal::usage(error.to_string())
    }
}

impl From<WorktreeError> for Refusal {
    fn from(error: WorktreeError) -> Refusal {
        let hint = Some(error.hint().to_string());
        let exit = if matches!(error, WorktreeError::Refused { .. }) { exit::BUG } else { exit::BLOCKED };
        Refusal::new(exit, error.to_string(), hint)
    }
}

impl From<RunError> for Refusal {
    fn from(error: RunError) -> Refusal {
        let word = if error.is_disk_full() { "disk-full: " } else { "" };
        let message = format!("{word}{error}");
        match error {
            RunError::Held { run, .. } => {
                Refusal::new(exit::HELD, message, Some(format!("wait, or `omg cancel {run}`")))
            }
            RunError::Overtaken(_) => Refusal::new(
                exit::HELD,
                message,
                Some("its lanes, branches and journal are that process's now".into()),
            ),
            RunError::Abandoned { signal } => Refusal::new(exit::SIGNAL + signal, message, None),
            RunError::Bug(_) => Refusal::new(
                exit::BUG,
                message,
                Some("every lane, branch and file of the run is as it was; `omg resume` goes on".into()),
            ),
            RunError::Newer { .. } => {
                Refusal::new(exit::BLOCKED, message, Some("use the omg that made it, or a newer one".into()))
            }
            RunError::Journal(_) | RunError::Io { .. } | RunError::Unfit { .. } => Refusal::new(
                exit::BLOCKED,
                message,
                Some("nothing that a node made was touched; see to that file, then `omg resume`".into()),
            ),
        }
    }
}
