//! The shell around the scheduler: one loop that turns the world's answers into events, makes what
//! follows durable, and only then has it done.

pub mod agent;
pub mod amended;
pub mod driver;
pub mod environment;

pub mod forecast;
mod freshness;
mod install;
pub mod keep;
pub mod leg;
pub mod overlay;
pub mod perform;
mod provision;
pub mod seams;
pub mod settle;
pub mod signals;
mod silence;
pub mod sweep;
mod verify;

pub use crate::journal::RunDir;
pub use driver::{LegReport, drive};
pub use seams::{Clock, Seams};

use crate::journal::Record;

/// Who is told what happens in a leg, as it happens. Must not block: it is called between what happened
/// and what follows from it.
pub trait Observer {
    /// A record is durable. `line` is it as it stands in the journal.
    fn recorded(&self, record: &Record, line: &str);

    /// Something a person should know that is no fact of the run.
    fn warn(&self, line: &str);

    /// Somebody asks what is in progress.
    fn show(&self) {}

    /// The program is about to be suspended: returns once the terminal may be another's.
    fn leave(&self) {}

    /// The program goes on after it was suspended for so long.
    fn come_back(&self, _away: std::time::Duration) {}
}

/// Why a leg could not go on. Every lane and file is as it was.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The journal can't be written or read.
    #[error(transparent)]
    Journal(crate::journal::JournalError),
    /// A newer process holds the run.
    #[error(transparent)]
    Overtaken(#[from] crate::fence::Overtaken),
    /// A living process holds the run.
    #[error("run `{run}` is held by a living process (pid {pid}, leg {leg})")]
    Held {
        /// The run.
        run: crate::ids::RunId,
        /// The process.
        pid: u32,
        /// Its leg.
        leg: u32,
    },
    /// A file of the run can't be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A newer omg made the run.
    #[error("{}: a newer omg made this run, in shape {schema}; this one reads shapes up to {}", path.display(), crate::journal::runfile::SCHEMA)]
    Newer {
        /// The file.
        path: std::path::PathBuf,
        /// The number of its shape.
        schema: u32,
    },
    /// A record does not fit the run.
    #[error("record {seq} of the journal does not fit the run's graph: {reason}")]
    Unfit {
        /// Its number.
        seq: u64,
        /// Why.
        reason: String,
    },
    /// An event could not have happened.
    #[error("bug: {0}")]
    Bug(String),
    /// The third signal: the leg is left as it is.
    #[error("stopped at once; the next `omg resume` or `omg gc` cleans up")]
    Abandoned {
        /// The signal.
        signal: i32,
    },
}

impl From<crate::journal::JournalError> for RunError {
    fn from(error: crate::journal::JournalError) -> RunError {
        match error {
            crate::journal::JournalError::Overtaken(overtaken) => RunError::Overtaken(overtaken),
            other => RunError::Journal(other),
        }
    }
}

impl RunError {
    /// Returns whether a file could not be written for want of space.
    pub fn is_disk_full(&self) -> bool {
        let (RunError::Journal(crate::journal::JournalError::Io { source, .. })
        | RunError::Io { source, .. }) = self
        else {
            return false;
        };
        matches!(source.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
    }
}
