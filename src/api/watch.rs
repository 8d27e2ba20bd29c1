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

/// From here on an interrupt says `words` on standard error and ends this process, and nothing else.
///
/// Errors: signals can't be listened for.
pub fn say_when_interrupted(words: String) -> Result<(), Refusal> {
    let heard = |error: std::io::Error| Refusal::new(super::exit::BLOCKED, error.to_string(), None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(heard)?;
    let interrupts = {
        let _inside = runtime.enter();
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt()).map_err(heard)?
    };
    std::thread::spawn(move || {
        let mut interrupts = interrupts;
        runtime.block_on(interrupts.recv());
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("\n{words}\n").as_bytes());
        std::process::exit(super::exit::SIGNAL + 2);
    });
    Ok(())
}
