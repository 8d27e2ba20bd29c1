//! Named places at which a debug build can be killed: beside each intent, act, receipt, rename and sync. A release
//! build has none of this.
//!
//! `FAILPOINT=NAME@COUNT@FILE` kills the process that comes to NAME for the COUNT-th time, unless FILE is there
//! already: it is made first, so that whoever goes on is not killed too. `NAME@COUNT@FILE@both` kills its
//! counterpart with it, a runner its supervisor and the reverse. `list@0@FILE` kills nobody, and adds the name of
//! each place to FILE as a process comes to it.

/// A place at which a process can be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// The folder of a run is complete under its draft name.
    RunDrafted,
    /// It has its name; its parent is not synced.
    RunNamed,
    /// The lock file names a new holder; not synced.
    LockWritten,
    /// That is durable.
    LockSynced,
    /// A batch of lines is about to be written.
    JournalBefore,
    /// It is written, not synced.
    JournalWritten,
    /// It is durable: what it announces is about to be done.
    JournalSynced,
    /// A job is about to be asked for.
    JobAsked,
    /// The supervisor is about to start a job.
    JobBefore,
    /// It is started, and nobody told.
    JobBorn,
    /// A job and all that it started is over; nothing says so.
    ExitBefore,
    /// Its exit is on disk, and nobody told.
    ExitRecorded,
    /// A job's result is durable under its draft name.
    ResultSynced,
    /// It has its name.
    ResultNamed,
    /// A runner is started that has not said who it is.
    RunnerBorn,
    /// A git command that changes something is about to begin.
    GitBefore,
    /// It is over.
    GitAfter,
    /// A tree or a file is about to be moved.
    MoveBefore,
    /// It is moved.
    MoveAfter,
    /// A lane's receipt is durable under its draft name.
    ReceiptSynced,
    /// It has its name.
    ReceiptNamed,
    /// A file of the run is written under its draft name.
    FileWritten,
    /// That is durable.
    FileSynced,
    /// It has its name.
    FileNamed,
    /// A local file is about to get its name in a lane.
    CopyBefore,
    /// It has it.
    CopyNamed,
    /// A tree that was judged twice is about to be deleted.
    DeleteBefore,
    /// It is deleted.
    DeleteAfter,
}

/// This process has come to a place.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn at(_: Point) {}

/// This process is one of two, and this is the other.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub fn counterpart(_: u32) {}

#[cfg(debug_assertions)]
pub use armed::{at, counterpart};

#[cfg(debug_assertions)]
mod armed {
    #![expect(clippy::disallowed_methods, reason = "debug builds alone: reads what to do, and leaves a mark")]

    use std::fs::OpenOptions;
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use rustix::process::{Pid, Signal, kill_process};

    use super::Point;

    /// What `FAILPOINT` says.
    struct Plan {
        name: String,
        count: u32,
        file: String,
        both: bool,
    }

    static PLAN: OnceLock<Option<Plan>> = OnceLock::new();
    static SEEN: AtomicU32 = AtomicU32::new(0);
    static COUNTERPART: AtomicU32 = AtomicU32::new(0);

    fn plan() -> Option<&'static Plan> {
        let read = || {
            let text = std::env::var("FAILPOINT").ok()?;
            let mut words = text.split('@').map(str::to_string);
            Some(Plan {
                name: words.next()?,
                count: words.next()?.parse().ok()?,
                file: words.next()?,
                both: words.next().is_some_and(|word| word == "both"),
            })
        };
        PLAN.get_or_init(read).as_ref()
    }

    /// This process is one of two, and this is the other.
    pub fn counterpart(pid: u32) {
        COUNTERPART.store(pid, Ordering::Relaxed);
    }

    /// This process has come to a place.
    pub fn at(point: Point) {
        let Some(plan) = plan() else { return };
        let name = format!("{point:?}");
        if plan.name == "list" {
            if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(&plan.file) {
                let _ = file.write_all(format!("{name}\n").as_bytes());
            }
            return;
        }
        if plan.name != name || SEEN.fetch_add(1, Ordering::Relaxed) + 1 != plan.count {
            return;
        }
        if OpenOptions::new().create_new(true).write(true).open(&plan.file).is_err() {
            return;
        }
        let kill = |pid: u32| {
            if let Some(pid) = Pid::from_raw(pid as i32) {
                let _ = kill_process(pid, Signal::KILL);
            }
        };
        let other = COUNTERPART.load(Ordering::Relaxed);
        if plan.both && other != 0 {
            kill(other);
        }
        kill(std::process::id());
        // A signal of our own need not come at once.
        loop {
            std::thread::park();
        }
    }
}
