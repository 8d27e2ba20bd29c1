//! Signals of the operating system → how the leg is asked to stop.
#![expect(
    clippy::disallowed_methods,
    reason = "looks which signals are ignored, and for a cancel note; takes the time of a suspension"
)]

use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::RunDir;
use crate::process::dispositions::give_back as give_back_to_the_system;
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
    /// SIGUSR1: say what is in progress.
    Show,
    /// SIGTSTP, a Ctrl-Z: nodes and clocks stand still, then the program itself, until SIGCONT.
    Suspend,
}

/// Returns what tells of signals, of `stop` first where there is one; `heard` is called once they are listened for; must be called inside a tokio runtime.
///
/// An ignored SIGHUP stays ignored: that is how `nohup` works; and so does an ignored SIGTSTP.
pub fn listen(
    dir: &RunDir,
    stop: Option<StopReason>,
    heard: impl FnOnce() -> std::io::Result<()>,
) -> std::io::Result<mpsc::UnboundedReceiver<Ask>> {
    let (tell, asks) = mpsc::unbounded_channel();
    let kind = |signal: Signal| SignalKind::from_raw(signal.as_raw());
    let unless_ignored = |of: Signal| if is_ignored(of) { Ok(None) } else { signal(kind(of)).map(Some) };
    let mut int = signal(SignalKind::interrupt())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut term = signal(SignalKind::terminate())?;
    let mut show = signal(SignalKind::user_defined1())?;
    let mut hup = unless_ignored(Signal::HUP)?;
    let mut suspend = unless_ignored(Signal::TSTP)?;
    let cancel = dir.cancel();
    heard()?;
    // A note is left for a runner that was not there yet, or not any more.
    let noted = cancel.exists().then_some(StopReason::Cancel);
    if let Some(reason) = noted.or(stop) {
        let _ = tell.send(Ask::Stop(reason));
    }
    tokio::spawn(async move {
        let mut seen = 0;
        let mut is_cancelled = noted.is_some();
        loop {
            let number = tokio::select! {
                _ = int.recv() => Signal::INT,
                _ = quit.recv() => Signal::QUIT,
                _ = term.recv() => Signal::TERM,
                () = received(&mut hup) => Signal::HUP,
                _ = show.recv() => Signal::USR1,
                () = received(&mut suspend) => Signal::TSTP,
            };
            let ask = match number {
                Signal::USR1 => Ask::Show,
                Signal::TSTP => Ask::Suspend,
                // A further `omg cancel` wants the same, and not that its run is left where it stands.
                Signal::TERM if is_cancelled && cancel.exists() => continue,
                stop => {
                    seen += 1;
                    match seen {
                        1 if stop == Signal::TERM && cancel.exists() => {
                            is_cancelled = true;
                            Ask::Stop(StopReason::Cancel)
                        }
                        1 => Ask::Stop(StopReason::Signal(stop.as_raw())),
                        2 => Ask::Now,
                        _ => Ask::Abandon(stop.as_raw()),
                    }
                }
            };
            if tell.send(ask).is_err() {
                return;
            }
        }
    });
    Ok(asks)
}

/// Returns when the signal comes; never where it is not listened for.
async fn received(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Gives back what [`listen`] took: nobody hears of it any more, and a Ctrl-C ends the program again.
pub fn give_back() {
    let may_be_ignored = [Signal::HUP, Signal::TSTP].into_iter().filter(|signal| !is_ignored(*signal));
    let always = [Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1];
    give_back_to_the_system(&always.into_iter().chain(may_be_ignored).collect::<Vec<_>>());
}

/// Suspends this program until somebody lets it go on. Returns how long that took.
///
/// SIGCONT is what says that it is over: a stop that another thread takes can come a moment after it was
/// asked for. Errors: signals can't be listened for or sent; nothing was suspended then.
pub async fn suspend() -> std::io::Result<Duration> {
    let mut goes_on = signal(SignalKind::from_raw(Signal::CONT.as_raw()))?;
    let since = std::time::Instant::now();
    kill_process(getpid(), Signal::STOP)?;
    goes_on.recv().await;
    Ok(since.elapsed())
}

/// Returns whether this process was started with a signal ignored.
fn is_ignored(signal: Signal) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}
