//! Signals of the operating system → how the leg is asked to stop.
#![expect(clippy::disallowed_methods, reason = "looks whether SIGHUP is ignored, and for a cancel note")]

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::RunDir;
use crate::schedule::fact::StopReason;

/// What the user's signals ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The first: TERM, grace, KILL, cleanup.
    Stop(StopReason),
    /// The second: KILL now, then cleanup.
    Now,
    /// The third: stop, cleanup is somebody else's.
    Abandon(i32),
}

/// Returns what tells of SIGINT, SIGTERM and SIGHUP; must be called inside a tokio runtime.
///
/// An ignored SIGHUP stays ignored: that is how `nohup` works.
pub fn listen(dir: &RunDir) -> std::io::Result<mpsc::UnboundedReceiver<Ask>> {
    let (tell, asks) = mpsc::unbounded_channel();
    let mut int = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    let mut hup = if hangup_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) };
    let cancel = dir.cancel();
    tokio::spawn(async move {
        let mut seen = 0;
        loop {
            let number = tokio::select! {
                _ = int.recv() => 2,
                _ = term.recv() => 15,
                () = async { match &mut hup {
                    Some(hup) => { hup.recv().await; }
                    None => std::future::pending().await,
                } } => 1,
            };
            seen += 1;
            let ask = match seen {
                1 if number == 15 && cancel.exists() => Ask::Stop(StopReason::Cancel),
                1 => Ask::Stop(StopReason::Signal(number)),
                2 => Ask::Now,
                _ => Ask::Abandon(number),
            };
            if tell.send(ask).is_err() {
                return;
            }
        }
    });
    Ok(asks)
}

/// Returns whether this process was started with SIGHUP ignored.
fn hangup_is_ignored() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}
