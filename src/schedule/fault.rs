//! What was observed → class, scope and policy. The one table of DESIGN.md section 7.
//!
//! Each match names every class, so a class without a policy does not compile.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::graph::model::RetryCause;
use crate::runtime::Told;

/// Why an attempt did not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// What kind.
    pub class: FaultClass,
    /// Whose it is; always the class's own.
    pub scope: Scope,
    /// What happened, for people.
    pub detail: String,
    /// The finer cause, where the class has some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// When a provider's limit is over, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resets_at: Option<Timestamp>,
}

impl Fault {
    /// Returns a fault of `class`, with the scope that the class has.
    pub fn new(class: FaultClass, detail: impl Into<String>) -> Fault {
        Fault { class, scope: class.policy().scope, detail: detail.into(), cause: None, resets_at: None }
    }

    /// Returns this fault with its finer cause.
    pub fn with_cause(mut self, cause: impl Into<String>) -> Fault {
        self.cause = Some(cause.into());
        self
    }
}

/// The kinds of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultClass {
    /// The exit status was not 0.
    NonzeroExit,
    /// `run`'s shell ended with 126 or 127.
    CommandNotFound,
    /// `verify` could not be started, or its shell ended with 126 or 127.
    VerifyNotRun,
    /// The node's own time ran out.
    Timeout,
    /// `result_matches` said no.
    ResultMismatch,
    /// `verify` said no.
    VerifyFailed,
    /// `verify` did not end in its time.
    VerifyTimeout,
    /// Output past its limit, or unreadable.
    OutputError,
    /// Died of SEGV, ABRT, BUS, FPE or ILL.
    Crashed,
    /// Killed by a signal that was not ours.
    Killed,
    /// Could not be started.
    SpawnFailed,
    /// The lane could not be made.
    WorktreeAcquireFailed,
    /// Something of somebody's stands where the lane would be.
    LaneRefused,
    /// An earlier leg kept the lane's branch, and it is gone.
    LaneBranchGone,
    /// The lane's local files could not be copied in.
    OverlayFailed,
    /// The lane's dependencies could not be installed.
    WorkspaceProvisionFailed,
    /// It left manifest and lockfile of its lane at odds.
    LockfileOutOfSync,
    /// No space or no inodes.
    DiskFull,
    /// The runner died or was interrupted.
    Interrupted,
    /// Anything else.
    Unknown,
    /// An agent said itself that it failed.
    AgentError,
    /// An attempt cost more than its `budget_usd`.
    BudgetExceeded,
    /// The run has spent its `budget_usd`.
    RunBudgetSpent,
    /// A person said no at a gate.
    GateRejected,
    /// A runtime's program is not there, or can't be executed.
    RuntimeMissing,
    /// The session that an agent was to go on with is gone.
    SessionGone,
    /// A provider's limit is reached: of a session, a week, or what was paid for.
    ProviderLimit,
    /// A provider takes no more requests for now.
    ProviderRateLimited,
    /// A provider is overloaded, or can't be reached.
    ProviderOverloaded,
    /// A provider does not know who asks: no login, or one that has expired.
    ProviderAuth,
    /// An agent was silent for far longer than any before it, and nothing says how its provider stands.
    ProviderIndeterminate,
    /// Our own fault.
    Bug,
}

/// Whose fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The node's own.
    Task,
    /// The machine's or the repository's set-up.
    Environment,
    /// The harness's.
    Infra,
    /// A model provider's.
    Provider,
    /// A bug of ours.
    Bug,
}

/// What a class leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whose fault it is.
    pub scope: Scope,
    /// What happens next.
    pub then: Then,
}

/// What happens after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// A further attempt where `retry` buys one for this cause, else `failed`.
    Retry(RetryCause),
    /// The same once more, free, up to [`REDISPATCH_MAX`] times, else `blocked`.
    Redispatch,
    /// `failed` at once: nothing was tried that could be tried again.
    Fail,
    /// `blocked` at once: a repeat would end the same.
    Block,
    /// The run is paused until it can go on: what is in flight ends, nothing more begins, nothing is charged.
    Pause,
    /// Left for the next leg.
    NextLeg,
}

/// Free repeats after infra faults, for a node and leg.
pub const REDISPATCH_MAX: u32 = 2;

impl FaultClass {
    /// Every class.
    pub const ALL: [FaultClass; 32] = [
        FaultClass::NonzeroExit,
        FaultClass::CommandNotFound,
        FaultClass::VerifyNotRun,
        FaultClass::Timeout,
        FaultClass::ResultMismatch,
        FaultClass::VerifyFailed,
        FaultClass::VerifyTimeout,
        FaultClass::OutputError,
        FaultClass::Crashed,
        FaultClass::Killed,
        FaultClass::SpawnFailed,
        FaultClass::WorktreeAcquireFailed,
        FaultClass::LaneRefused,
        FaultClass::LaneBranchGone,
        FaultClass::OverlayFailed,
        FaultClass::WorkspaceProvisionFailed,
        FaultClass::LockfileOutOfSync,
        FaultClass::DiskFull,
        FaultClass::Interrupted,
        FaultClass::Unknown,
        FaultClass::AgentError,
        FaultClass::BudgetExceeded,
        FaultClass::RunBudgetSpent,
        FaultClass::GateRejected,
        FaultClass::RuntimeMissing,
        FaultClass::SessionGone,
        FaultClass::ProviderLimit,
        FaultClass::ProviderRateLimited,
        FaultClass::ProviderOverloaded,
        FaultClass::ProviderAuth,
        FaultClass::ProviderIndeterminate,
        FaultClass::Bug,
    ];

    /// Returns what the class leads to (DESIGN.md section 7).
    pub fn policy(self) -> Policy {
        use RetryCause as Cause;
        use Scope::{Bug, Environment, Infra, Provider, Task};
        let (scope, then) = match self {
            FaultClass::NonzeroExit | FaultClass::Crashed | FaultClass::AgentError => {
                (Task, Then::Retry(Cause::NonzeroExit))
            }
            FaultClass::Timeout => (Task, Then::Retry(Cause::Timeout)),
            FaultClass::ResultMismatch => (Task, Then::Retry(Cause::ResultMismatch)),
            FaultClass::VerifyFailed | FaultClass::LockfileOutOfSync => {
                (Task, Then::Retry(Cause::VerifyFailed))
            }
            FaultClass::OutputError => (Task, Then::Retry(Cause::OutputError)),
            FaultClass::BudgetExceeded => (Task, Then::Retry(Cause::BudgetExceeded)),
            FaultClass::GateRejected => (Task, Then::Fail),
            FaultClass::CommandNotFound
            | FaultClass::VerifyNotRun
            | FaultClass::RuntimeMissing
            | FaultClass::RunBudgetSpent => (Environment, Then::Block),
            FaultClass::ProviderLimit | FaultClass::ProviderRateLimited => (Provider, Then::Pause),
            FaultClass::ProviderOverloaded | FaultClass::ProviderIndeterminate => {
                (Provider, Then::Redispatch)
            }
            FaultClass::ProviderAuth => (Provider, Then::Block),
            FaultClass::VerifyTimeout
            | FaultClass::Killed
            | FaultClass::SpawnFailed
            | FaultClass::SessionGone
            | FaultClass::Unknown => (Infra, Then::Redispatch),
            FaultClass::WorktreeAcquireFailed
            | FaultClass::LaneRefused
            | FaultClass::LaneBranchGone
            | FaultClass::OverlayFailed
            | FaultClass::WorkspaceProvisionFailed
            | FaultClass::DiskFull => (Infra, Then::Block),
            FaultClass::Interrupted => (Infra, Then::NextLeg),
            FaultClass::Bug => (Bug, Then::Block),
        };
        Policy { scope, then }
    }

    /// Returns whether an agent may be given to its next runtime after it: what another runtime could do better at.
    /// Never after a fault of the task's own, nor of the lane or the disk.
    pub fn may_fall_back(self) -> bool {
        match self {
            FaultClass::RuntimeMissing
            | FaultClass::ProviderLimit
            | FaultClass::ProviderRateLimited
            | FaultClass::ProviderOverloaded
            | FaultClass::ProviderAuth
            | FaultClass::ProviderIndeterminate
            | FaultClass::Killed
            | FaultClass::SpawnFailed
            | FaultClass::Unknown => true,
            FaultClass::NonzeroExit
            | FaultClass::CommandNotFound
            | FaultClass::VerifyNotRun
            | FaultClass::Timeout
            | FaultClass::ResultMismatch
            | FaultClass::VerifyFailed
            | FaultClass::VerifyTimeout
            | FaultClass::OutputError
            | FaultClass::Crashed
            | FaultClass::WorktreeAcquireFailed
            | FaultClass::LaneRefused
            | FaultClass::LaneBranchGone
            | FaultClass::OverlayFailed
            | FaultClass::WorkspaceProvisionFailed
            | FaultClass::LockfileOutOfSync
            | FaultClass::DiskFull
            | FaultClass::Interrupted
            | FaultClass::AgentError
            | FaultClass::BudgetExceeded
            | FaultClass::RunBudgetSpent
            | FaultClass::GateRejected
            | FaultClass::SessionGone
            | FaultClass::Bug => false,
        }
    }

    /// Returns whether any agent would meet it with the same runtime, for a while.
    pub fn is_of_runtime(self) -> bool {
        matches!(
            self,
            FaultClass::RuntimeMissing
                | FaultClass::ProviderLimit
                | FaultClass::ProviderRateLimited
                | FaultClass::ProviderAuth
        )
    }

    /// Returns whether it is a provider's limit, which is over some time.
    pub fn is_limit(self) -> bool {
        matches!(self, FaultClass::ProviderLimit | FaultClass::ProviderRateLimited)
    }

    /// Returns whether it is a judgment on what a node did, which a feedback arc answers (DESIGN.md section 2).
    pub fn is_judgment(self) -> bool {
        matches!(self, FaultClass::NonzeroExit | FaultClass::ResultMismatch | FaultClass::VerifyFailed)
    }

    /// Returns the word for it in the journal and on screen.
    pub fn word(self) -> &'static str {
        match self {
            FaultClass::NonzeroExit => "nonzero-exit",
            FaultClass::CommandNotFound => "command-not-found",
            FaultClass::VerifyNotRun => "verify-not-run",
            FaultClass::Timeout => "timeout",
            FaultClass::ResultMismatch => "result-mismatch",
            FaultClass::VerifyFailed => "verify-failed",
            FaultClass::VerifyTimeout => "verify-timeout",
            FaultClass::OutputError => "output-error",
            FaultClass::Crashed => "crashed",
            FaultClass::Killed => "killed",
            FaultClass::SpawnFailed => "spawn-failed",
            FaultClass::WorktreeAcquireFailed => "worktree-acquire-failed",
            FaultClass::LaneRefused => "lane-refused",
            FaultClass::LaneBranchGone => "lane-branch-gone",
            FaultClass::OverlayFailed => "overlay-failed",
            FaultClass::WorkspaceProvisionFailed => "workspace-provision-failed",
            FaultClass::LockfileOutOfSync => "lockfile-out-of-sync",
            FaultClass::DiskFull => "disk-full",
            FaultClass::Interrupted => "interrupted",
            FaultClass::Unknown => "unknown",
            FaultClass::AgentError => "agent-error",
            FaultClass::BudgetExceeded => "budget-exceeded",
            FaultClass::RunBudgetSpent => "run-budget-spent",
            FaultClass::GateRejected => "gate-rejected",
            FaultClass::RuntimeMissing => "runtime-missing",
            FaultClass::SessionGone => "session-gone",
            FaultClass::ProviderLimit => "provider-limit",
            FaultClass::ProviderRateLimited => "provider-rate-limited",
            FaultClass::ProviderOverloaded => "provider-overloaded",
            FaultClass::ProviderAuth => "provider-auth",
            FaultClass::ProviderIndeterminate => "provider-indeterminate",
            FaultClass::Bug => "bug",
        }
    }
}

impl Scope {
    /// Returns the word for it in the journal and on screen.
    pub fn word(self) -> &'static str {
        match self {
            Scope::Task => "task",
            Scope::Environment => "environment",
            Scope::Infra => "infra",
            Scope::Provider => "provider",
            Scope::Bug => "bug",
        }
    }
}

/// How a node's process ended, and what its checks that need no process say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// Its exit status; `None` where a signal ended it or it never ran.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why it could not be started.
    pub not_started: Option<String>,
    /// Whether we asked for its end before it came.
    pub ended_by_us: bool,
    /// Whether it wrote more than it may.
    pub output_overflow: bool,
    /// Whether its output could not be written for want of space.
    pub disk_full: bool,
    /// What `result_matches` says; `None` where the node has none.
    pub result_matches: Option<bool>,
    /// The log's tail, where it helps to explain.
    pub hint: Option<String>,
    /// What of it could not be ended: `pid name`.
    #[serde(default)]
    pub survivors: Vec<String>,
    /// What an agent told; `None` of any other node, and of one whose output could not be read.
    #[serde(default)]
    pub told: Option<Told>,
    /// Whether the program itself was not there to be started.
    #[serde(default)]
    pub missing: bool,
}

/// What `verify` came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerifyOutcome {
    /// It ended by itself.
    Exited {
        /// Its exit status; `None` where a signal ended it.
        code: Option<i32>,
        /// Whether `output_matches` holds; true where there is none.
        output_matches: bool,
    },
    /// It did not end in its time.
    TimedOut,
    /// It could not be started.
    NotStarted(String),
    /// Its output passed the limit, and was ended for that.
    Overflow,
    /// Its output could not be written for want of space.
    DiskFull,
    /// We ended it.
    Ended,
}

/// Signals that a program gets for its own doing.
const CRASHES: [i32; 5] = [4, 6, 7, 8, 11];

/// Returns the fault of a node's process that was not ended by us, before `verify`; `None` where
/// nothing speaks against it. `timed_out` says that the node's own time was over.
pub fn judge_exit(exit: &Exit, exit_zero: bool, timed_out: bool) -> Option<Fault> {
    if let Some(reason) = &exit.not_started {
        let class = if exit.disk_full { FaultClass::DiskFull } else { FaultClass::SpawnFailed };
        return Some(Fault::new(class, reason.clone()));
    }
    if timed_out {
        return Some(Fault::new(FaultClass::Timeout, "ran longer than its `timeout`"));
    }
    if exit.disk_full {
        return Some(Fault::new(FaultClass::DiskFull, "its output could not be written: no space left"));
    }
    if exit.output_overflow {
        return Some(Fault::new(FaultClass::OutputError, "wrote more than its `output_max`"));
    }
    if let Some(signal) = exit.signal {
        return Some(if CRASHES.contains(&signal) {
            Fault::new(FaultClass::Crashed, format!("died of signal {signal} ({})", signal_name(signal)))
        } else {
            Fault::new(
                FaultClass::Killed,
                format!("killed by signal {signal} ({}), which omg did not send", signal_name(signal)),
            )
        });
    }
    let mismatch = exit.result_matches == Some(false);
    match exit.code {
        None => Some(Fault::new(FaultClass::Unknown, "ended without a status")),
        Some(code @ (126 | 127)) if exit_zero || mismatch => {
            let what = if code == 127 { "command not found" } else { "command can't be executed" };
            let detail = match &exit.hint {
                Some(hint) => format!("exit {code}, {what}: {hint}"),
                None => format!("exit {code}, {what}"),
            };
            Some(Fault::new(FaultClass::CommandNotFound, detail))
        }
        Some(code) if code != 0 && exit_zero => {
            Some(Fault::new(FaultClass::NonzeroExit, format!("exit {code}")))
        }
        Some(_) if mismatch => {
            Some(Fault::new(FaultClass::ResultMismatch, "the result does not match `result_matches`"))
        }
        Some(_) => None,
    }
}

/// Returns the fault that `verify` shows; `None` where it holds.
pub fn judge_verify(outcome: &VerifyOutcome, expect_exit: i32) -> Option<Fault> {
    match outcome {
        VerifyOutcome::NotStarted(reason) => {
            Some(Fault::new(FaultClass::VerifyNotRun, format!("`verify` could not be started: {reason}")))
        }
        VerifyOutcome::TimedOut => {
            Some(Fault::new(FaultClass::VerifyTimeout, "`verify` did not end in its time"))
        }
        VerifyOutcome::Overflow => {
            Some(Fault::new(FaultClass::OutputError, "`verify` wrote more than `output_max`"))
        }
        VerifyOutcome::DiskFull => Some(Fault::new(
            FaultClass::DiskFull,
            "the output of `verify` could not be written: no space left",
        )),
        VerifyOutcome::Ended => Some(Fault::new(FaultClass::Interrupted, "`verify` was ended")),
        VerifyOutcome::Exited { code: Some(code @ (126 | 127)), .. } if *code != expect_exit => {
            Some(Fault::new(FaultClass::VerifyNotRun, format!("`verify` ended with {code}: not found")))
        }
        VerifyOutcome::Exited { code, .. } if *code != Some(expect_exit) => {
            let detail = match code {
                Some(code) => format!("`verify` ended with {code}, not {expect_exit}"),
                None => "`verify` was killed".to_string(),
            };
            let class = if code.is_some() { FaultClass::VerifyFailed } else { FaultClass::Killed };
            Some(Fault::new(class, detail))
        }
        VerifyOutcome::Exited { output_matches: false, .. } => Some(Fault::new(
            FaultClass::VerifyFailed,
            "the output of `verify` does not match `output_matches`",
        )),
        VerifyOutcome::Exited { .. } => None,
    }
}

/// Returns the name of a Linux signal, or `?`.
pub fn signal_name(signal: i32) -> &'static str {
    const NAMES: [&str; 16] = [
        "?", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM",
    ];
    NAMES.get(signal.max(0) as usize).copied().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(exit: Exit, exit_zero: bool, timed_out: bool, expected: Option<(FaultClass, Scope)>) {
        let fault = judge_exit(&exit, exit_zero, timed_out);
        assert_eq!(fault.map(|fault| (fault.class, fault.scope)), expected, "{exit:?}");
    }

    fn code(code: i32) -> Exit {
        Exit { code: Some(code), ..Exit::default() }
    }

    fn signal(signal: i32) -> Exit {
        Exit { signal: Some(signal), ..Exit::default() }
    }

    #[test]
    fn each_ending_has_its_class() {
        use FaultClass as C;
        check(code(0), true, false, None);
        check(code(3), true, false, Some((C::NonzeroExit, Scope::Task)));
        check(code(3), false, false, None);
        for missing in [126, 127] {
            check(code(missing), true, false, Some((C::CommandNotFound, Scope::Environment)));
            check(code(missing), false, false, None);
            let mismatch = Exit { result_matches: Some(false), ..code(missing) };
            check(mismatch, false, false, Some((C::CommandNotFound, Scope::Environment)));
        }
        check(signal(15), true, true, Some((C::Timeout, Scope::Task)));
        for crash in CRASHES {
            check(signal(crash), true, false, Some((C::Crashed, Scope::Task)));
        }
        for kill in [1, 2, 9, 15] {
            check(signal(kill), true, false, Some((C::Killed, Scope::Infra)));
        }
        let mismatch = Exit { result_matches: Some(false), ..code(0) };
        check(mismatch, true, false, Some((C::ResultMismatch, Scope::Task)));
        let overflow = Exit { output_overflow: true, ..signal(9) };
        check(overflow, true, false, Some((C::OutputError, Scope::Task)));
        let full = Exit { disk_full: true, ..code(1) };
        check(full, true, false, Some((C::DiskFull, Scope::Infra)));
        let unborn = Exit { not_started: Some("x".into()), ..Exit::default() };
        check(unborn, true, false, Some((C::SpawnFailed, Scope::Infra)));
        check(Exit::default(), true, false, Some((C::Unknown, Scope::Infra)));
    }

    #[test]
    fn verify_is_judged_by_its_own_rows() {
        use FaultClass as C;
        let exited = |code, output_matches| VerifyOutcome::Exited { code, output_matches };
        let class = |outcome| judge_verify(&outcome, 0).map(|fault| fault.class);
        assert_eq!(class(exited(Some(0), true)), None);
        assert_eq!(class(exited(Some(0), false)), Some(C::VerifyFailed));
        assert_eq!(class(exited(Some(1), true)), Some(C::VerifyFailed));
        assert_eq!(class(exited(Some(127), true)), Some(C::VerifyNotRun));
        assert_eq!(class(exited(None, true)), Some(C::Killed));
        assert_eq!(class(VerifyOutcome::TimedOut), Some(C::VerifyTimeout));
        assert_eq!(class(VerifyOutcome::NotStarted("x".into())), Some(C::VerifyNotRun));
        assert_eq!(judge_verify(&exited(Some(127), true), 127), None);
    }

    #[test]
    fn only_the_tasks_own_faults_can_spend_its_attempts() {
        for class in FaultClass::ALL {
            let policy = class.policy();
            assert_eq!(
                matches!(policy.then, Then::Retry(_) | Then::Fail),
                policy.scope == Scope::Task,
                "{class:?} spends without being the task's own"
            );
            assert_eq!(serde_json::to_value(class).unwrap(), class.word());
        }
    }
}
