//! What outlives the runner of a run, or its supervisor too, and how it is ended.
#![expect(clippy::disallowed_methods, reason = "waits for a supervisor's lock and for processes to go")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::table;

/// How often it is looked whether something has gone.
const TICK: Duration = Duration::from_millis(10);

/// Signals one process, unless its number has gone to another since it was seen.
pub(super) fn signal_one(process: &table::Process, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid as i32) else { return };
    #[cfg(target_os = "linux")]
    if let Ok(fd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        if table::start_time(process.pid) == Some(process.start_time) {
            let _ = rustix::process::pidfd_send_signal(fd, signal);
        }
        return;
    }
    if table::start_time(process.pid) == Some(process.start_time) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// How long a command that a dead runner was waiting for has to come to its own end, and then between TERM and KILL.
/// A git that is killed leaves its lock files in the user's repository, and one that gets a TERM in the moment in
/// which it makes one does too; most are over in milliseconds.
pub(super) const GRACE: Duration = Duration::from_secs(2);

/// Returns whether a process belongs to a job, and not to a runner itself.
pub(super) fn is_of_job(pid: u32) -> bool {
    table::variable(pid, "OMG_JOB").is_some_and(|job| !job.is_empty())
}

/// Ends every process of a run whose runner and supervisor are gone: what belongs to a job with TERM, a while, KILL;
/// what the runner itself had started, its git, is left to its end first. Returns the names of what was ended.
///
/// They are known by `OMG_RUN_DIR` in their environment, which only our descendants have.
pub fn end_survivors(run_dir: &Path) -> Vec<String> {
    let mut ended = BTreeSet::new();
    let mut asked = BTreeSet::new();
    let start = Instant::now();
    loop {
        let mut rest = table::marked(run_dir);
        rest.retain(|process| !is_self_or_above(process.pid));
        if rest.is_empty() || start.elapsed() >= 4 * GRACE {
            break;
        }
        for process in &rest {
            let linger = if is_of_job(process.pid) { Duration::ZERO } else { GRACE };
            if start.elapsed() < linger {
                continue;
            }
            ended.insert(format!("{} {}", process.pid, process.name));
            if start.elapsed() >= linger + GRACE {
                signal_one(process, Signal::KILL);
            } else if asked.insert((process.pid, process.start_time)) {
                signal_one(process, Signal::TERM);
                // One that was stopped heeds it once it goes on.
                signal_one(process, Signal::CONT);
            }
        }
        std::thread::sleep(TICK);
    }
    ended.into_iter().collect()
}

/// Returns whether a process is this one, or one that this one was started from.
pub fn is_self_or_above(pid: u32) -> bool {
    let own = std::process::id();
    pid == own || is_ancestor(pid, own)
}

fn is_ancestor(candidate: u32, of: u32) -> bool {
    let mut pid = of;
    while let Some(process) = table::process(pid) {
        if process.parent == candidate {
            return true;
        }
        pid = process.parent;
    }
    false
}

/// What becomes of a supervisor that is still there when patience is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// It goes on ending its jobs.
    Leave,
    /// It is killed, and its jobs' leaders die with it.
    Kill,
}

/// Returns whether a supervisor of a run lives.
pub fn is_supervised(run_dir: &Path) -> bool {
    let lock = File::open(run_dir.join("supervisor.lock"));
    lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
}

/// Waits until the supervisor of a run is gone, at the most `patience`. Returns whether it is gone.
pub fn outlive_supervisor(run_dir: &Path, patience: Duration, late: Late) -> io::Result<bool> {
    let path = run_dir.join("supervisor.lock");
    let Ok(lock) = File::open(&path) else { return Ok(true) };
    let deadline = Instant::now() + patience;
    let mut killed = false;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(true),
            Err(fs::TryLockError::Error(error)) => return Err(error),
            Err(fs::TryLockError::WouldBlock) => {}
        }
        if Instant::now() >= deadline && late == Late::Leave {
            return Ok(false);
        }
        if Instant::now() >= deadline && !killed {
            let line = fs::read_to_string(&path)?;
            let mut words = line.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
            if let (Some(pid), Some(start_time)) = (words.next(), words.next())
                && let Some(process) = table::process(pid as u32)
                && process.start_time == start_time
            {
                signal_one(&process, Signal::KILL);
            }
            killed = true;
        }
        std::thread::sleep(TICK);
        if killed && Instant::now() >= deadline + Duration::from_secs(2) {
            return Ok(false);
        }
    }
}
