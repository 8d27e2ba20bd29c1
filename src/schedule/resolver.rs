//! Fault and history → what next. Pure; the waiting and doing is the driver's.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fault::{Fault, REDISPATCH_MAX, Then};
use crate::graph::model::Retry;

/// What follows an attempt that did not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Next {
    /// A further attempt, paid from `retry`, after this many milliseconds.
    Retry(u64),
    /// The same once more, free, after this many milliseconds.
    Redispatch(u64),
    /// The same through the node's next runtime, free, after this many milliseconds.
    Fallback(u64),
    /// A round of the feedback arc that it judges: from the arc's beginning, with what was found.
    Feedback,
    /// `failed`.
    Fail,
    /// `blocked`.
    Block,
    /// The run is paused; free.
    Pause,
    /// Left for the next leg.
    NextLeg,
}

/// What a node has used up in its present opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Further attempts paid from `retry`.
    pub retries: u32,
    /// Free repeats after infra faults.
    pub redispatches: u32,
}

/// Pause before the first free repeat; doubled before the next.
const REDISPATCH_BACKOFF: Duration = Duration::from_millis(500);

/// Longest pause: a doubled `backoff` stops growing here.
const BACKOFF_MAX: Duration = Duration::from_secs(3600);

/// Returns what follows `fault`. `has_fallback` says that the node has a further runtime to be given to.
pub fn resolve(fault: &Fault, retry: &Retry, spent: Spent, has_fallback: bool) -> Next {
    let falls_back = has_fallback && fault.class.may_fall_back();
    match fault.class.policy().then {
        Then::Retry(cause) => {
            let bought = retry.on.is_empty() || retry.on.contains(&cause);
            if bought && spent.retries < retry.max {
                Next::Retry(doubled(retry.backoff, spent.retries))
            } else {
                Next::Fail
            }
        }
        Then::Redispatch if spent.redispatches < REDISPATCH_MAX => {
            Next::Redispatch(doubled(REDISPATCH_BACKOFF, spent.redispatches))
        }
        Then::Redispatch | Then::Block | Then::Pause if falls_back => Next::Fallback(0),
        Then::Redispatch | Then::Block => Next::Block,
        Then::Pause => Next::Pause,
        Then::Fail => Next::Fail,
        Then::NextLeg => Next::NextLeg,
    }
}

fn doubled(first: Duration, times: u32) -> u64 {
    let factor = 1_u32.checked_shl(times.min(31)).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(BACKOFF_MAX).as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::model::RetryCause;
    use crate::schedule::fault::FaultClass;

    #[track_caller]
    fn check(class: FaultClass, retry: &Retry, spent: Spent, expected: Next) {
        assert_eq!(resolve(&Fault::new(class, ""), retry, spent, false), expected);
    }

    #[test]
    fn retries_are_the_authors_and_repeats_are_free() {
        let retry = Retry { max: 2, on: vec![], backoff: Duration::from_millis(100) };
        let spent = |retries, redispatches| Spent { retries, redispatches };
        check(FaultClass::NonzeroExit, &retry, spent(0, 0), Next::Retry(100));
        check(FaultClass::NonzeroExit, &retry, spent(1, 9), Next::Retry(200));
        check(FaultClass::NonzeroExit, &retry, spent(2, 0), Next::Fail);
        check(FaultClass::Killed, &retry, spent(2, 0), Next::Redispatch(500));
        check(FaultClass::Killed, &retry, spent(2, 1), Next::Redispatch(1000));
        check(FaultClass::Killed, &retry, spent(0, 2), Next::Block);
        check(FaultClass::CommandNotFound, &retry, spent(0, 0), Next::Block);
        check(FaultClass::Interrupted, &retry, spent(0, 0), Next::NextLeg);
        let only = Retry { on: vec![RetryCause::Timeout], ..retry };
        check(FaultClass::NonzeroExit, &only, spent(0, 0), Next::Fail);
        check(FaultClass::Timeout, &only, spent(0, 0), Next::Retry(100));
    }

    #[test]
    fn another_runtime_is_tried_after_faults_that_it_may_not_have() {
        let retry = Retry { max: 1, on: vec![], backoff: Duration::ZERO };
        let spent = |redispatches| Spent { retries: 0, redispatches };
        for (class, spent, alone, with_another) in [
            (FaultClass::ProviderLimit, spent(0), Next::Pause, Next::Fallback(0)),
            (FaultClass::ProviderAuth, spent(0), Next::Block, Next::Fallback(0)),
            (FaultClass::RuntimeMissing, spent(0), Next::Block, Next::Fallback(0)),
            (FaultClass::ProviderOverloaded, spent(0), Next::Redispatch(500), Next::Redispatch(500)),
            (FaultClass::ProviderOverloaded, spent(2), Next::Block, Next::Fallback(0)),
            (FaultClass::NonzeroExit, spent(0), Next::Retry(0), Next::Retry(0)),
            (FaultClass::DiskFull, spent(0), Next::Block, Next::Block),
            (FaultClass::WorkspaceProvisionFailed, spent(0), Next::Block, Next::Block),
        ] {
            let fault = Fault::new(class, "");
            assert_eq!(resolve(&fault, &retry, spent, false), alone, "{class:?}");
            assert_eq!(resolve(&fault, &retry, spent, true), with_another, "{class:?}");
        }
    }

    #[test]
    fn a_doubled_pause_has_an_end() {
        let retry = Retry { max: 100, on: vec![], backoff: Duration::from_secs(60) };
        let spent = Spent { retries: 60, redispatches: 0 };
        check(FaultClass::NonzeroExit, &retry, spent, Next::Retry(3_600_000));
    }
}
