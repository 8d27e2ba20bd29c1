//! What the runner and its supervisor say to each other: one JSON object a line, each way.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::environment::Environment;

/// From the runner. The end of the stream means that the runner is gone: every job is ended.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Start a job.
    Start {
        /// The job.
        spec: Box<JobSpec>,
        /// Its environment, as against the supervisor's own: sixty variables a job that hardly differ
        /// cost more than all else that is said of it.
        environment: Difference,
    },
    /// End a job's whole tree: TERM, its grace, KILL; at once KILL where `now`.
    End {
        /// The job.
        job: String,
        /// Without grace.
        now: bool,
    },
    /// Stop every process of every job where it stands.
    Pause,
    /// Let them go on.
    GoOn,
    /// Say that you live.
    Ask,
    /// Which run, which claim and which build a runner is of: the first that one says which its supervisor
    /// started.
    Hello(Hello),
    /// The leg is over: nobody is to be started in the runner's place.
    Bye,
}

/// Who a runner is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its run.
    pub run_id: String,
    /// The generation that it acts in.
    pub generation: u64,
    /// What built it.
    pub build: String,
    /// Its process.
    pub pid: u32,
    /// Its start time, clock ticks since boot.
    pub start_time: u64,
}

/// What a runner is told that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The supervisor's process.
    pub supervisor: u32,
    /// Jobs that outlived the runner before.
    pub jobs: Vec<Inherited>,
}

/// A job that outlived the runner that started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inherited {
    /// Its name.
    pub job: String,
    /// Its process, leader of its own group.
    pub pid: u32,
    /// Its start time, clock ticks since boot.
    pub start_time: u64,
    /// For how long it has run, in milliseconds.
    pub elapsed_ms: u64,
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
    /// Every process of every job stands still.
    Paused,
    /// The supervisor lives.
    Here,
    /// A runner is known now, and its receipt durable: it may begin. These jobs live on.
    Welcome(Welcome),
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
    /// All it sees. On the wire it is a [`Difference`].
    #[serde(skip)]
    pub environment: Environment,
    /// The file that is its standard input; nothing where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<PathBuf>,
    /// The file that its output is added to, as it comes.
    pub log: PathBuf,
    /// The file that gets its standard output alone, whole, as it comes; durable before its end is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<PathBuf>,
    /// The file that holds the last of its standard output at the end, where wanted.
    pub result: Option<PathBuf>,
    /// Whether `sh -c LINE` may be done without `sh` where the outcome is the same
    /// (`process::direct`).
    pub direct: bool,
    /// The file to which a line is added that says how it ended, where wanted: written before the end is
    /// reported, and not synced, since the journal is what lasts.
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

/// What makes one environment of another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Variables that the other lacks or has with another value.
    set: Vec<(Text, Text)>,
    /// Variables that only the other has.
    unset: Vec<Text>,
}

impl Difference {
    /// Returns what makes `environment` of `base`.
    pub fn between(base: &Environment, environment: &Environment) -> Difference {
        let set = environment.0.iter().filter(|(name, value)| base.0.get(*name) != Some(*value));
        let unset = base.0.keys().filter(|name| !environment.0.contains_key(*name));
        Difference {
            set: set.map(|(name, value)| (Text::from(&**name), Text::from(&**value))).collect(),
            unset: unset.map(|name| Text::from(&**name)).collect(),
        }
    }

    /// Returns `base` with the difference made; the order of the variables may be another.
    pub fn applied_to(self, base: &Environment) -> Environment {
        let mut made = base.clone();
        for name in self.unset {
            made.0.swap_remove(&OsString::from(name));
        }
        for (name, value) in self.set {
            made.set(OsString::from(name), OsString::from(value));
        }
        made
    }
}

/// How long a message that nobody waits for may wait for others.
const PATIENCE: Duration = Duration::from_millis(5);

/// A message on its way to the other end.
pub trait Message: Serialize {
    /// Returns whether somebody may wait for it: it is then sent at once.
    fn is_urgent(&self) -> bool;
}

impl Message for Request {
    fn is_urgent(&self) -> bool {
        true
    }
}

impl Message for Reply {
    fn is_urgent(&self) -> bool {
        // That a job began is a receipt. A short job's is worth no journey of its own.
        !matches!(self, Reply::Started { .. })
    }
}

/// Returns the messages that are there, once there is one that is urgent or a few milliseconds have passed, as
/// lines to be written at once; `None` at the end.
pub async fn gather<M: Message>(messages: &mut mpsc::UnboundedReceiver<M>) -> Option<Vec<u8>> {
    let mut lines = Vec::new();
    let mut message = messages.recv().await?;
    let mut urgent = false;
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        urgent |= message.is_urgent();
        // A message of ours always has a JSON form.
        if serde_json::to_writer(&mut lines, &message).is_ok() {
            lines.push(b'\n');
        }
        let next = match messages.try_recv() {
            Ok(next) => Some(next),
            Err(_) if urgent => None,
            Err(_) => tokio::time::timeout_at(until, messages.recv()).await.ok().flatten(),
        };
        match next {
            Some(next) => message = next,
            None => return Some(lines),
        }
    }
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

    #[test]
    fn only_a_receipt_waits_for_others() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (to, mut messages) = mpsc::unbounded_channel();
            let started = || Reply::Started { job: "a".into(), pid: 1, start_time: 1 };
            let start = tokio::time::Instant::now();
            let count = |lines: Option<Vec<u8>>| lines.unwrap().iter().filter(|byte| **byte == b'\n').count();
            to.send(started()).unwrap();
            to.send(Reply::Paused).unwrap();
            assert_eq!(count(gather(&mut messages).await), 2);
            assert_eq!(start.elapsed(), Duration::ZERO);
            to.send(started()).unwrap();
            assert_eq!(count(gather(&mut messages).await), 1);
            assert!(start.elapsed() >= PATIENCE);
            to.send(started()).unwrap();
            drop(to);
            assert_eq!(count(gather(&mut messages).await), 1);
            assert_eq!(gather(&mut messages).await, None);
        });
    }

    #[test]
    fn a_difference_makes_the_one_of_the_other() {
        let of = |pairs: &[(&str, &str)]| Environment::from_iter(pairs.iter().copied());
        let base = of(&[("A", "1"), ("B", "2"), ("C", "3")]);
        for other in [of(&[]), base.clone(), of(&[("C", "4"), ("A", "1"), ("D", "5")])] {
            let difference = Difference::between(&base, &other);
            assert_eq!(difference.applied_to(&base), other);
        }
        assert_eq!(Difference::between(&base, &base), Difference::default());
    }
}
