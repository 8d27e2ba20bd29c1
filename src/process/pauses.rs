//! Time that stands still while the program is suspended.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

/// How long this program has been suspended so far, all together.
#[derive(Debug, Default)]
pub struct Pauses(Cell<Duration>);

/// A moment that moves on by as much as the program is suspended.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    before: Duration,
}

impl Pauses {
    /// Takes note of a suspension that is over.
    pub fn add(&self, away: Duration) {
        self.0.set(self.0.get().saturating_add(away));
    }

    /// Returns how long this program has been suspended so far, all together.
    pub fn total(&self) -> Duration {
        self.0.get()
    }

    /// Returns the moment `after` which time has passed, suspensions from now on not counted.
    pub fn deadline(&self, after: Duration) -> Deadline {
        let far = Duration::from_secs(u32::MAX.into());
        Deadline { at: Instant::now() + after.min(far), before: self.0.get() }
    }

    fn moved(&self, deadline: &Deadline) -> Instant {
        deadline.at + (self.0.get() - deadline.before)
    }

    /// Returns whether the moment has come.
    pub fn is_over(&self, deadline: &Deadline) -> bool {
        Instant::now() >= self.moved(deadline)
    }

    /// Returns once the moment has come.
    pub async fn wait(&self, deadline: &Deadline) {
        while !self.is_over(deadline) {
            tokio::time::sleep_until(self.moved(deadline)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspension_does_not_count() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let pauses = Pauses::default();
            let (second, start) = (Duration::from_secs(1), Instant::now());
            let deadline = pauses.deadline(second);
            pauses.add(second * 10);
            assert_eq!(pauses.deadline(second).at, start + second);
            pauses.wait(&deadline).await;
            assert!(start.elapsed() >= second * 11 && start.elapsed() < second * 12);
            assert!(pauses.is_over(&deadline));
        });
    }
}
