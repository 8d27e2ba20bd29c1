//! What the runner and its supervisor say to each other: one JSON object a line, each way.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::environment::Environment;

/// From the runner. The end of the stream means that the runner is gone: every job is ended.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Start a job.
    Start(Box<JobSpec>),
    /// End a job's whole tree: TERM, its grace, KILL; at once KILL where `now`.
    End {
        /// The job.
        job: String,
        /// Without grace.
        now: bool,
    },
}

/// From the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// A job's process was seen to run.
    Started {
        /// The job.
        job: String,
        /// Its process, leader of its own group.
        pid: u32,
        /// Its start time, clock ticks since boot.
        start_time: u64,
    },
    /// A job could not be started; nothing of it ran.
    NotStarted {
        /// The job.
        job: String,
        /// Why.
        reason: String,
        /// Whether the disk was full.
        disk_full: bool,
    },
    /// A job and all it started have ended; its exit record is on disk.
    Exited {
        /// The job.
        job: String,
        /// How.
        exit: JobExit,
    },
}

/// A process to start, with what it may use.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    /// The job's name, unique in its run; every process of it carries it as `OMG_JOB`.
    pub job: String,
    /// The program and its arguments.
    pub argv: Vec<Text>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// All it sees.
    pub environment: Vec<(Text, Text)>,
    /// The file that its output is added to, as it comes.
    pub log: PathBuf,
    /// The file that holds the last of its standard output at the end, where wanted.
    pub result: Option<PathBuf>,
    /// The file that says how it ended, where wanted; durable before the end is reported.
    pub record: Option<PathBuf>,
    /// Bytes of output after which it is ended.
    pub output_max: u64,
    /// Milliseconds between TERM and KILL.
    pub grace_ms: u64,
}

/// How a job ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobExit {
    /// The job.
    pub job: String,
    /// The exit status; `None` where a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether we had asked for its end before it came.
    pub ended_by_us: bool,
    /// Whether it wrote more than it may.
    pub output_overflow: bool,
    /// Whether its output could not be written for want of space.
    pub disk_full: bool,
    /// What it left running, ended by us: `pid name`.
    pub leftovers: Vec<String>,
    /// What could not be ended: `pid name`.
    #[serde(default)]
    pub survivors: Vec<String>,
}

/// Text of the operating system's, which need not be Unicode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    /// Unicode.
    Unicode(String),
    /// Anything else.
    Bytes(Vec<u8>),
}

impl From<&OsStr> for Text {
    fn from(text: &OsStr) -> Text {
        match text.to_str() {
            Some(text) => Text::Unicode(text.to_string()),
            None => Text::Bytes(text.as_bytes().to_vec()),
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text::Unicode(text.to_string())
    }
}

impl From<Text> for OsString {
    fn from(text: Text) -> OsString {
        match text {
            Text::Unicode(text) => text.into(),
            Text::Bytes(bytes) => OsString::from_vec(bytes),
        }
    }
}

/// Returns an environment as pairs of [`Text`].
pub fn pairs(environment: &Environment) -> Vec<(Text, Text)> {
    environment.0.iter().map(|(name, value)| (Text::from(&**name), Text::from(&**value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_unicode_survives_the_wire() {
        for original in [OsString::from("plain"), OsString::from_vec(vec![b'a', 0xff, b'b'])] {
            let line = serde_json::to_string(&Text::from(&*original)).unwrap();
            let back: Text = serde_json::from_str(&line).unwrap();
            assert_eq!(OsString::from(back), original);
        }
    }
}
