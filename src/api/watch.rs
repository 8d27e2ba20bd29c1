//! `omg watch`: a run's journal as it grows.
#![expect(clippy::disallowed_methods, reason = "waits for more of a journal, which sends no event")]

use std::time::Duration;

use super::Refusal;
use super::find::Found;
use super::leg::exit_code;
use crate::journal::follow::Follower;
use crate::run::{Observer, RunError, leg};
use crate::schedule::Fact;

/// How often the journal is looked at.
const TICK: Duration = Duration::from_millis(100);

/// Tells `observer` of every record of a run, from the first on, until no leg of it lives. Returns the
/// run's own exit code.
///
/// Errors: the journal can't be read, or is damaged.
pub fn watch(found: &Found, observer: &dyn Observer) -> Result<i32, Refusal> {
    let mut follower = Follower::new(&found.dir.events());
    loop {
        // Asked before the journal is read: a leg that ends in between has written all of it.
        let alive = leg::holder(&found.dir).is_some();
        let lines = follower.more().map_err(RunError::from)?;
        for line in &lines {
            observer.recorded(&line.record, &line.text);
        }
        if !alive {
            break;
        }
        let finished = lines.last().is_some_and(|line| matches!(line.record.fact, Fact::RunFinished { .. }));
        if !finished {
            std::thread::sleep(TICK);
        }
    }
    let state = found.state()?;
    Ok(exit_code(crate::view::run::status(&state, false), state.finished.and(state.stop)))
}
