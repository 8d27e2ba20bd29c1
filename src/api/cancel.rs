//! `omg cancel`: ends the living leg of a run, cleanup included.
#![expect(clippy::disallowed_methods, reason = "leaves the leg a note and waits for its end")]

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::find::{Found, here, run};
use super::{Refusal, exit};
use crate::journal::store;
use crate::run::{RunError, leg};
use crate::schedule::fact::RunStatus;
use crate::settings::Settings;

/// What `omg cancel` came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The leg was asked to stop, and ended; how the run stands.
    Stopped(RunStatus),
    /// Nothing lived; what a dead leg had left running was ended.
    NotRunning {
        /// The names of what was ended.
        ended: Vec<String>,
    },
}

/// Cancels a run: the one named, else the only one here that lives. Waits for its end.
///
/// Errors: no such run, several that live, or its process can't be signalled.
pub fn cancel(settings: &Settings, name: Option<&str>) -> Result<(String, Cancelled), Refusal> {
    let found = match name {
        Some(name) => run(settings, Some(name))?,
        None => only_living(settings)?,
    };
    let id = found.file.run_id.to_string();
    let holder = loop {
        if let Some(holder) = leg::holder(&found.dir) {
            break holder;
        }
        // Under a claim: a leg that begins meanwhile would lose its supervisor to us.
        let records = store::read(&found.dir.events()).map_err(RunError::from)?;
        match leg::claim(&found.dir, &found.file.run_id, &records, leg::Purpose::Gc) {
            Ok(claim) => {
                let ended = leg::end_leftovers(&found.dir, Some(&found.file.graph))?;
                claim.release();
                return Ok((id, Cancelled::NotRunning { ended }));
            }
            Err(RunError::Held { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    };
    let busy = match holder.purpose {
        leg::Purpose::Leg | leg::Purpose::Keep | leg::Purpose::Wait => None,
        leg::Purpose::Discard => Some(format!("a lane of run `{id}` is being discarded")),
        leg::Purpose::Gc => Some(format!("`omg gc` puts run `{id}` in order")),
    };
    if let Some(busy) = busy {
        let message = format!("{busy} (pid {}); no leg of it lives", holder.pid);
        return Err(Refusal::new(exit::HELD, message, Some("that ends by itself".into())));
    }
    std::fs::write(found.dir.cancel(), b"").map_err(|error| {
        Refusal::new(exit::BLOCKED, format!("{}: {error}", found.dir.cancel().display()), None)
    })?;
    let grace = found.file.graph.nodes().iter().map(|node| node.grace).max().unwrap_or_default();
    let deadline = Instant::now() + grace + Duration::from_secs(90);
    let mut asked = None;
    while let Some(holder) = leg::holder(&found.dir) {
        // Of a detached run another runner may take the place of the one that was asked; a supervisor between
        // two of them heeds the note.
        if asked.is_some() && !found.dir.cancel().exists() {
            // A claim took the note away: the leg that was to end has, and somebody has begun another.
            break;
        }
        let hears = matches!(holder.purpose, leg::Purpose::Leg | leg::Purpose::Wait);
        if hears && asked != Some(holder.pid) {
            ask(&holder)?;
            asked = Some(holder.pid);
        }
        if Instant::now() > deadline {
            return Err(Refusal::new(
                exit::HELD,
                format!("run `{id}` does not end (pid {})", holder.pid),
                Some(format!("`kill -9 {}` ends it at once; `omg resume {id}` then goes on", holder.pid)),
            ));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    // The leg takes the note away when it begins; one that ended before that did not.
    let _ = std::fs::remove_file(found.dir.cancel());
    Ok((id, Cancelled::Stopped(found.view()?.status)))
}

/// Asks a leg's process to stop. One that is gone, or whose number went to another process, is not signalled.
fn ask(holder: &leg::Holder) -> Result<(), Refusal> {
    let Some(pid) = Pid::from_raw(holder.pid as i32).filter(|_| holder.lives()) else { return Ok(()) };
    // One that is suspended hears of it once it goes on.
    match kill_process(pid, Signal::TERM).and_then(|()| kill_process(pid, Signal::CONT)) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Refusal::new(exit::BLOCKED, format!("process {}: {error}", holder.pid), None)),
    }
}

fn only_living(settings: &Settings) -> Result<Found, Refusal> {
    let mut living: Vec<Found> =
        here(settings).into_iter().filter(|run| leg::holder(&run.dir).is_some()).collect();
    match (living.len(), living.pop()) {
        (1, Some(found)) => Ok(found),
        (0, _) | (_, None) => Err(Refusal::usage("no run lives here")),
        (count, Some(_)) => Err(Refusal::new(
            exit::USAGE,
            format!("{count} runs live here"),
            Some("name the one to cancel; `omg runs` lists them".into()),
        )),
    }
}
