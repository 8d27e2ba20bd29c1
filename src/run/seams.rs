//! Everything a leg does to the world, by trait; and the set that refuses it all.

use std::rc::Rc;
use std::sync::Arc;

use jiff::Timestamp;

use crate::cleanup::{RefusingSweeper, Sweeper};
use crate::process::{Spawner, fake::Refusing};
use crate::worktree::{RefusingWorktrees, Worktrees};

/// Tells the time.
pub trait Clock {
    /// Returns the present moment, UTC.
    fn now(&self) -> Timestamp;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the system for the time")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands still.
#[derive(Clone, Copy, Debug)]
pub struct FixedClock(pub Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// The seams of a leg.
#[derive(Clone)]
pub struct Seams {
    /// Starts and ends processes.
    pub spawner: Rc<dyn Spawner>,
    /// Makes lanes.
    pub worktrees: Arc<dyn Worktrees>,
    /// Cleans lanes up.
    pub sweeper: Arc<dyn Sweeper>,
    /// Tells the time.
    pub clock: Rc<dyn Clock>,
}

impl Seams {
    /// Returns seams that refuse every call, so that no test passes for want of a fake.
    pub fn refusing() -> Seams {
        Seams {
            spawner: Rc::new(Refusing::default()),
            worktrees: Arc::new(RefusingWorktrees),
            sweeper: Arc::new(RefusingSweeper),
            clock: Rc::new(FixedClock(Timestamp::UNIX_EPOCH)),
        }
    }
}
