//! Starting and ending processes. Knows command lines and process ids; nothing of graphs or runs.

#[cfg(target_os = "linux")]
mod birth;
pub mod capture;
pub mod client;
pub mod direct;
pub mod dispositions;
pub mod environment;
pub mod fake;
mod keeping;
mod launch;
mod output;
pub mod pauses;
pub mod protocol;
pub mod runner;
pub mod spawn;
pub mod supervisor;
pub mod survivors;
pub mod table;

use std::time::Duration;

use tokio::sync::oneshot;

use pauses::Pauses;
use protocol::{Inherited, JobExit, JobSpec};

/// Starts jobs and ends their whole trees.
pub trait Spawner {
    /// Starts a job. Returns at once; what became of it comes through the [`Job`].
    fn start(&self, spec: JobSpec) -> Job;

    /// Takes over a job that an earlier runner started and that lives on; `None` where there is none of that
    /// name. It was seen to run already; how it ends comes through the [`Job`].
    fn adopt(&self, job: &str) -> Option<Job>;

    /// Returns the jobs that an earlier runner started and that live on.
    fn inherited(&self) -> Vec<Inherited>;

    /// Asks whether anybody is there who could start or end a job. What is returned tells that somebody is.
    fn ask(&self) -> oneshot::Receiver<()>;

    /// Does without a supervisor that does not answer: it is ended, and every leader of a job with it.
    fn abandon(&self);

    /// Ends a job's whole tree: TERM, its grace, KILL; at once KILL where `now`. A job that is over
    /// is no error.
    fn end(&self, job: &str, now: bool);

    /// Stops every process of every job where it stands, until [`Spawner::go_on`]. What is returned tells
    /// that it is done.
    fn pause(&self) -> oneshot::Receiver<()>;

    /// Lets the jobs go on after `away`, for which no clock of theirs has run.
    fn go_on(&self, away: Duration);

    /// Returns the time that deadlines of jobs do not count.
    fn pauses(&self) -> &Pauses;

    /// Returns, once, what tells that nothing can be started or ended any more.
    fn lost(&self) -> Option<oneshot::Receiver<()>>;
}

/// A job on its way.
#[derive(Debug)]
pub struct Job {
    /// Whether it was seen to run; a dropped sender means that its supervisor is gone.
    pub started: oneshot::Receiver<JobStart>,
    /// How it ended; comes only after it was seen to run.
    pub ended: oneshot::Receiver<JobEnd>,
}

/// Whether a job was seen to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobStart {
    /// It was.
    Started {
        /// Its process, leader of its own group.
        pid: u32,
        /// Its start time, clock ticks since boot.
        start_time: u64,
    },
    /// It could not be started; nothing of it ran.
    NotStarted {
        /// Why.
        reason: String,
        /// Whether the disk was full.
        disk_full: bool,
    },
    /// The supervisor is gone; it may have run.
    SupervisorLost,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// It and all it started are over.
    Exited(JobExit),
    /// The supervisor is gone, and the job's leader with it.
    SupervisorLost,
}
