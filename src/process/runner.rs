//! The runner of a detached run, as its supervisor sees it: started, known by its hello, and started again in its
//! place where it dies.

use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::environment::Environment;
use super::protocol::Hello;
use super::spawn;

/// How long a runner has for saying who it is.
pub(super) const HELLO_WAIT: Duration = Duration::from_secs(15);

/// Who decides about runners and writes down what becomes of them.
pub trait Keeper {
    /// Announces the start of a runner, durably, and returns what to start; `None` where it is given up.
    ///
    /// Errors: it can't be announced, so nothing may be started.
    fn announce(&mut self) -> io::Result<Option<Start>>;

    /// Takes a runner's hello in: its receipt is durable on return. Errors: it is not the one that was started,
    /// or that can't be written.
    fn known(&mut self, hello: &Hello, pid: u32) -> io::Result<()>;

    /// Returns whether nobody is to wait for the next runner: it is awaited by who wants the run to end.
    fn is_hurried(&self) -> bool;

    /// Takes note of a start that came to nothing. Returns whether another is tried.
    fn failed(&mut self, reason: &str) -> bool;
}

/// What to start.
#[derive(Debug)]
pub struct Start {
    /// The program.
    pub program: PathBuf,
    /// What it is told.
    pub words: Vec<std::ffi::OsString>,
    /// Where it works.
    pub cwd: PathBuf,
    /// The run's lock, which it holds with us.
    pub lock: File,
    /// Where its words go.
    pub log: File,
    /// How long to wait first.
    pub pause: Duration,
}

/// Where a supervisor stands with its runner.
pub(super) enum Standing {
    /// There is none; the next is announced at that moment.
    None(Instant),
    /// One was announced, and is started at that moment.
    Announced(Instant, Box<Start>),
    /// It was started, and has until that moment for its hello.
    Started(u32, Instant),
    /// It is known.
    Known(u32),
    /// It said that its leg is over; it is about to go.
    Leaving(u32),
    /// Nobody is started any more.
    Over,
}

impl Standing {
    /// Returns the runner's process, where there is one.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Standing::Started(pid, _) | Standing::Known(pid) | Standing::Leaving(pid) => Some(*pid),
            Standing::None(_) | Standing::Announced(..) | Standing::Over => None,
        }
    }

    /// Returns when something is due.
    pub fn due(&self) -> Option<Instant> {
        match self {
            Standing::None(at) | Standing::Announced(at, _) | Standing::Started(_, at) => Some(*at),
            Standing::Known(_) | Standing::Leaving(_) | Standing::Over => None,
        }
    }
}

/// Starts a runner. Returns its process and our end of the connection. Errors: it could not be started.
pub(super) fn start(start: Start, environment: &Environment) -> io::Result<(u32, StdStream)> {
    let (ours, theirs) = StdStream::pair()?;
    let files = (theirs.into(), start.lock, start.log);
    let child = spawn::start_keeping(&start.program, &start.words, &start.cwd, files, environment, true)?;
    Ok((child.id(), ours))
}
