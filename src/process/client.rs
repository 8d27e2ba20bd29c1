//! The runner's end of its supervisor.
#![expect(clippy::disallowed_methods, reason = "opens the supervisor's log")]

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use super::environment::Environment;
use super::pauses::Pauses;
use super::protocol::{self, Difference, Hello, Inherited, JobSpec, Reply, Request, Welcome};
use super::survivors::signal_one;
use super::{Job, JobEnd, JobStart, Spawner, spawn, table};
use crate::failpoint::{self, Point};
use crate::fence::Fence;

/// How long a supervisor has for knowing a runner.
const WELCOME_WAIT: Duration = Duration::from_secs(30);

/// Starts jobs through the run's own supervisor process.
#[derive(Debug)]
pub struct Supervisor {
    /// What the supervisor was started with.
    environment: Environment,
    requests: mpsc::UnboundedSender<Request>,
    waiting: Arc<Mutex<Waiting>>,
    lost: Mutex<Option<oneshot::Receiver<()>>>,
    pauses: Pauses,
    /// Asked before each start.
    fence: Fence,
    /// The supervisor's process.
    pid: u32,
    /// Its start time, clock ticks since boot.
    start_time: u64,
}

#[derive(Debug, Default)]
struct Waiting {
    started: BTreeMap<String, oneshot::Sender<JobStart>>,
    ended: BTreeMap<String, oneshot::Sender<JobEnd>>,
    paused: Vec<oneshot::Sender<()>>,
    asked: Vec<oneshot::Sender<()>>,
    inherited: BTreeMap<String, (Inherited, oneshot::Receiver<JobEnd>)>,
    gone: bool,
}

impl Supervisor {
    /// Starts `program`, which is this one, as the supervisor of the run in `run_dir`; must be called
    /// inside a tokio runtime. Where `fence` says that the run was taken over, no job is started any more.
    ///
    /// Errors: it could not be started.
    pub fn start(
        program: &Path,
        run_dir: &Path,
        environment: &Environment,
        fence: Fence,
    ) -> io::Result<Supervisor> {
        let (ours, theirs) = StdStream::pair()?;
        let log = OpenOptions::new().create(true).append(true).open(run_dir.join("supervisor.log"))?;
        let mut child = spawn::start_supervisor(program, run_dir, theirs.into(), log, environment)?;
        let pid = child.id();
        let reaped = move || drop(child.try_wait());
        Supervisor::connected(ours, pid, environment.clone(), Vec::new(), fence, reaped)
    }

    /// Goes on over a connection on which [`greet`] was answered; must be called inside a tokio runtime.
    ///
    /// `environment` is what the supervisor was started with. Errors: the connection can't be used.
    pub fn take_up(
        stream: StdStream,
        welcome: Welcome,
        environment: Environment,
        fence: Fence,
    ) -> io::Result<Supervisor> {
        Supervisor::connected(stream, welcome.supervisor, environment, welcome.jobs, fence, || ())
    }

    /// Says that the leg is over, and returns once that is on its way: nobody is started in our place.
    pub async fn say_goodbye(&self) {
        let _ = self.requests.send(Request::Bye);
        // Answered in order, so that nothing is left unsent. A supervisor that is gone needs no goodbye.
        let _ = tokio::time::timeout(WELCOME_WAIT, self.ask()).await;
    }

    fn connected(
        stream: StdStream,
        pid: u32,
        environment: Environment,
        jobs: Vec<Inherited>,
        fence: Fence,
        mut reap: impl FnMut() + Send + 'static,
    ) -> io::Result<Supervisor> {
        let ours = stream;
        let start_time = table::start_time(pid).unwrap_or(0);
        failpoint::counterpart(pid);
        ours.set_nonblocking(true)?;
        let (read, mut write) = UnixStream::from_std(ours)?.into_split();
        let (requests, mut to_write) = mpsc::unbounded_channel::<Request>();
        let (tell_lost, lost) = oneshot::channel();
        let mut table = Waiting::default();
        for job in jobs {
            // How it ends may be told before anybody takes it over.
            let (tell_ended, ended) = oneshot::channel();
            table.ended.insert(job.job.clone(), tell_ended);
            table.inherited.insert(job.job.clone(), (job, ended));
        }
        let waiting = Arc::new(Mutex::new(table));
        tokio::spawn(async move {
            while let Some(lines) = protocol::gather(&mut to_write).await {
                if write.write_all(&lines).await.is_err() {
                    return;
                }
            }
        });
        let table = Arc::clone(&waiting);
        tokio::spawn(async move {
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(reply) = serde_json::from_str(&line) {
                    answer(&table, reply);
                }
            }
            // Dropping what waits tells every job's owner that its supervisor is gone.
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            table.gone = true;
            table.started.clear();
            table.ended.clear();
            table.paused.clear();
            table.asked.clear();
            let _ = tell_lost.send(());
            drop(table);
            reap();
        });
        Ok(Supervisor {
            environment,
            requests,
            waiting,
            lost: Mutex::new(Some(lost)),
            pauses: Pauses::default(),
            fence,
            pid,
            start_time,
        })
    }
}

fn answer(table: &Mutex<Waiting>, reply: Reply) {
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    match reply {
        Reply::Started { job, pid, start_time } => {
            if let Some(to) = table.started.remove(&job) {
                let _ = to.send(JobStart::Started { pid, start_time });
            }
        }
        Reply::NotStarted { job, reason, disk_full } => {
            table.ended.remove(&job);
            if let Some(to) = table.started.remove(&job) {
                let _ = to.send(JobStart::NotStarted { reason, disk_full });
            }
        }
        Reply::Paused => {
            for to in table.paused.drain(..) {
                let _ = to.send(());
            }
        }
        // Read where the connection is made.
        Reply::Welcome(_) => {}
        Reply::Here => {
            for to in table.asked.drain(..) {
                let _ = to.send(());
            }
        }
        Reply::Exited { job, exit } => {
            if let Some(to) = table.ended.remove(&job) {
                let _ = to.send(JobEnd::Exited(exit));
            }
        }
    }
}

impl Spawner for Supervisor {
    fn start(&self, spec: JobSpec) -> Job {
        let (tell_started, started) = oneshot::channel();
        let (tell_ended, ended) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Who is overtaken says so with the next line of the journal, which is refused.
        if !waiting.gone && self.fence.check().is_ok() {
            waiting.started.insert(spec.job.clone(), tell_started);
            waiting.ended.insert(spec.job.clone(), tell_ended);
            drop(waiting);
            let environment = Difference::between(&self.environment, &spec.environment);
            failpoint::at(Point::JobAsked);
            let _ = self.requests.send(Request::Start { spec: Box::new(spec), environment });
        }
        Job { started, ended }
    }

    fn adopt(&self, job: &str) -> Option<Job> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (living, ended) = waiting.inherited.remove(job)?;
        let (tell_started, started) = oneshot::channel();
        let _ = tell_started.send(JobStart::Started { pid: living.pid, start_time: living.start_time });
        Some(Job { started, ended })
    }

    fn inherited(&self) -> Vec<Inherited> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.inherited.values().map(|(job, _)| job.clone()).collect()
    }

    fn ask(&self) -> oneshot::Receiver<()> {
        let (tell_here, here) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.gone {
            waiting.asked.push(tell_here);
            let _ = self.requests.send(Request::Ask);
        }
        here
    }

    fn abandon(&self) {
        if let Some(process) =
            table::process(self.pid).filter(|process| process.start_time == self.start_time)
        {
            signal_one(&process, Signal::KILL);
        }
    }

    fn end(&self, job: &str, now: bool) {
        let _ = self.requests.send(Request::End { job: job.to_string(), now });
    }

    fn pause(&self) -> oneshot::Receiver<()> {
        let (tell_paused, paused) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.gone {
            waiting.paused.push(tell_paused);
            let _ = self.requests.send(Request::Pause);
        }
        paused
    }

    fn go_on(&self, away: Duration) {
        self.pauses.add(away);
        let _ = self.requests.send(Request::GoOn);
    }

    fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    fn lost(&self) -> Option<oneshot::Receiver<()>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Says to the supervisor that started this process who we are, and returns what it answers: we are known then, and
/// our receipt is durable.
///
/// Errors: it does not answer in time, or does not know us.
pub fn greet(stream: &mut StdStream, hello: &Hello) -> io::Result<Welcome> {
    send(stream, &Request::Hello(hello.clone()))?;
    stream.set_read_timeout(Some(WELCOME_WAIT))?;
    // Byte by byte: what follows the line is for whoever reads on.
    let mut line = Vec::new();
    let mut byte = [0];
    while byte != *b"\n" {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
    }
    stream.set_read_timeout(None)?;
    match serde_json::from_slice(&line)? {
        Reply::Welcome(welcome) => Ok(welcome),
        _ => Err(io::Error::other("the supervisor answered something else")),
    }
}

/// Says to the supervisor that this process goes and nobody is to be started in its place.
pub fn say_goodbye(stream: &mut StdStream) {
    // A supervisor that is gone needs no goodbye.
    let _ = send(stream, &Request::Bye);
}

fn send(stream: &mut StdStream, request: &Request) -> io::Result<()> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Returns how a job ended, its supervisor's death included.
pub async fn end_of(ended: oneshot::Receiver<JobEnd>) -> JobEnd {
    ended.await.unwrap_or(JobEnd::SupervisorLost)
}

/// Returns whether a job was seen to run, its supervisor's death included.
pub async fn start_of(started: oneshot::Receiver<JobStart>) -> JobStart {
    started.await.unwrap_or(JobStart::SupervisorLost)
}
