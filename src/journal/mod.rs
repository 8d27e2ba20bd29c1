//! The run's only truth: one line a fact, appended, durable before the act it announces.

pub mod follow;
pub mod layout;
pub mod mask;
pub mod record;
pub mod replay;
pub mod runfile;
pub mod store;

pub use layout::RunDir;
pub use record::Record;
pub use runfile::RunFile;

/// What is wrong with a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line other than a torn last one can't be read.
    #[error("{path}, line {line}: {reason}")]
    Damaged {
        /// The file.
        path: std::path::PathBuf,
        /// The line, from 1.
        line: usize,
        /// Why.
        reason: String,
    },
    /// A newer holder writes it now; nothing was written.
    #[error(transparent)]
    Overtaken(#[from] crate::fence::Overtaken),
    /// An earlier write failed; what is on disk is not known any more.
    #[error("{path}: an earlier write failed, so nothing more is written")]
    Poisoned {
        /// The file.
        path: std::path::PathBuf,
    },
}

/// Where lines go.
pub trait Store: Send {
    /// Appends lines, each with its line break. With `durable`, they and all before them are durable on
    /// return; without, they outlive this process and not the machine. After an error nothing more may be
    /// appended.
    fn append(&mut self, lines: &[u8], durable: bool) -> std::io::Result<()>;
}
