//! The per-run process that starts, reaps and ends everything a run starts.
//!
//! It has a session of its own, so that a terminal's signals do not reach it, and is the reaper of
//! whatever its jobs double-fork. When the runner's end of the lifeline closes, it ends its jobs and
//! goes. It knows jobs and processes; nothing of nodes, lanes or graphs.
#![expect(clippy::disallowed_methods, reason = "waits with deadlines, writes exit records")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::capture::{Capture, Written};
use super::environment::Environment;
use super::launch::launch;
use super::output::{Output, write_output};
use super::protocol::{self, JobExit, JobSpec, Reply, Request};
use super::runner::{Keeper, Standing};
use super::survivors::signal_one;
use super::{direct, spawn, table};
use crate::failpoint::{self, Point};

/// How long what a job left running has to end by itself: git's background maintenance, for one, is
/// on its way out when the git that started it ends.
const LINGER: Duration = Duration::from_millis(50);
/// How long what a job left running has for its TERM, at the most.
const LEFTOVER_GRACE: Duration = Duration::from_millis(500);
/// How often it is looked whose processes are, where several jobs run.
const LOOK: Duration = Duration::from_millis(100);
/// How long after its KILL a process is waited for. One that is still there can't be ended by us: it
/// runs as another user, or hangs in the kernel.
const KILL_WAIT: Duration = Duration::from_secs(5);
/// How often a tree that is being ended is looked at.
const TICK: Duration = Duration::from_millis(10);

/// The bit of a wait status that says that there is a core file: wait(2), WCOREDUMP.
const CORE_DUMPED: i32 = 0x80;

/// Runs the supervisor of the run in `run_dir` until its runner is gone and its jobs have ended.
///
/// `lifeline` is one end of a socket pair, `environment` our own. Returns nothing; errors: it could not
/// be set up.
pub fn supervise(run_dir: &Path, lifeline: OwnedFd, environment: Environment) -> io::Result<()> {
    let (_lock, runtime) = set_up(run_dir)?;
    runtime.block_on(async {
        let stream = StdStream::from(lifeline);
        stream.set_nonblocking(true)?;
        failpoint::counterpart(rustix::process::getppid().map_or(0, |pid| pid.as_raw_pid() as u32));
        let mut supervisor = Supervisor::unconnected(run_dir, environment);
        supervisor.connect(UnixStream::from_std(stream)?);
        supervisor.run().await
    })
}

/// Runs the supervisor of the detached run in `run_dir` until its leg is over or its runner is given up: whenever
/// its runner dies, `keeper` says what is started in its place. Jobs whose exit goes to disk live on meanwhile,
/// any other is ended.
///
/// Returns nothing; errors: it could not be set up.
pub fn keep(run_dir: &Path, keeper: Box<dyn Keeper>, environment: Environment) -> io::Result<()> {
    let (_lock, runtime) = set_up(run_dir)?;
    runtime.block_on(async {
        let mut supervisor = Supervisor::unconnected(run_dir, environment);
        supervisor.runner = Standing::None(Instant::now());
        supervisor.keeper = Some(keeper);
        supervisor.run().await
    })
}

/// Leaves the session of whoever started us, and takes over whatever our jobs leave behind. Returns the lock that
/// says that we live, and what we run on.
fn set_up(run_dir: &Path) -> io::Result<(File, tokio::runtime::Runtime)> {
    rustix::process::setsid()?;
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let lock = mark_alive(run_dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok((lock, runtime))
}

/// Holds `supervisor.lock`, which says who we are, for as long as the returned file lives.
fn mark_alive(run_dir: &Path) -> io::Result<File> {
    let mut lock =
        OpenOptions::new().create(true).truncate(false).write(true).open(run_dir.join("supervisor.lock"))?;
    lock.lock()?;
    lock.set_len(0)?;
    let pid = std::process::id();
    writeln!(lock, "{pid} {}", table::start_time(pid).unwrap_or(0))?;
    Ok(lock)
}

/// A job in progress.
pub(super) struct Job {
    pub(super) spec: JobSpec,
    pub(super) leader: u32,
    /// The leader's start time, clock ticks since boot.
    pub(super) start_time: u64,
    pub(super) since: Instant,
    /// Whether the leader is the program itself where a shell was asked for.
    direct: bool,
    exit: JobExit,
    /// Whether the leader has been reaped.
    over: bool,
    /// When what it left running gets its TERM.
    linger_until: Option<Instant>,
    /// When what is left of the tree gets its KILL; set once it has got its TERM.
    kill_at: Option<Instant>,
    /// Whether the KILL was sent.
    killed: bool,
    /// What to tell the task that writes its output: nothing more will come.
    drained: Option<tokio::sync::oneshot::Sender<String>>,
    /// What a shell would have said of its end.
    last_words: String,
    /// Whether its output is on disk.
    written: bool,
}

pub(super) struct Supervisor {
    /// Our own, against which those of jobs are told.
    pub(super) environment: Environment,
    pub(super) jobs: BTreeMap<String, Job>,
    /// Jobs that wait for another's end: the system has no more files or processes for us until then.
    pub(super) waiting: VecDeque<JobSpec>,
    /// Where programs are looked for.
    pub(super) disk: spawn::Disk,
    /// The files that exits are added to.
    pub(super) records: BTreeMap<PathBuf, File>,
    /// Whose each process is, by id and start time, as seen while it still descended from a leader.
    pub(super) owners: BTreeMap<(u32, u64), String>,
    /// When the process table is looked at next, to keep `owners`.
    pub(super) look_at: Instant,
    pub(super) replies: mpsc::UnboundedSender<Reply>,
    pub(super) outputs: mpsc::UnboundedSender<Output>,
    pub(super) from_outputs: mpsc::UnboundedReceiver<Output>,
    /// What the runner asks for; `None` where there is none.
    pub(super) requests: Option<mpsc::UnboundedReceiver<Request>>,
    pub(super) closing: bool,
    /// The folder of the run.
    pub(super) run_dir: PathBuf,
    /// The runner, where we started it.
    pub(super) runner: Standing,
    /// Who decides about it.
    pub(super) keeper: Option<Box<dyn Keeper>>,
    /// Since when a dead runner's own commands may still be at it.
    pub(super) strays_since: Option<Instant>,
    /// Why no further runner can be announced.
    pub(super) trouble: Option<io::Error>,
    /// Since when every job stands still.
    pub(super) paused_at: Option<Instant>,
}

/// Returns the next request; never where nobody is there to ask.
async fn next(requests: &mut Option<mpsc::UnboundedReceiver<Request>>) -> Option<Request> {
    match requests {
        Some(requests) => requests.recv().await,
        None => std::future::pending().await,
    }
}

/// Returns whether something is wanting that another job's end gives back: open files, processes, memory.
fn is_short_of_something(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let wanting = [Errno::MFILE, Errno::NFILE, Errno::AGAIN, Errno::NOMEM];
    error.raw_os_error().is_some_and(|number| wanting.iter().any(|errno| errno.raw_os_error() == number))
}

impl Supervisor {
    fn unconnected(run_dir: &Path, environment: Environment) -> Supervisor {
        let (outputs, from_outputs) = mpsc::unbounded_channel();
        Supervisor {
            environment,
            jobs: BTreeMap::new(),
            waiting: VecDeque::new(),
            disk: spawn::Disk::default(),
            records: BTreeMap::new(),
            owners: BTreeMap::new(),
            look_at: Instant::now(),
            replies: mpsc::unbounded_channel().0,
            outputs,
            from_outputs,
            requests: None,
            closing: false,
            run_dir: run_dir.to_path_buf(),
            runner: Standing::Over,
            keeper: None,
            strays_since: None,
            trouble: None,
            paused_at: None,
        }
    }

    /// Hears and answers the runner at the other end of `stream` from here on.
    pub(super) fn connect(&mut self, stream: UnixStream) {
        let (read, mut write) = stream.into_split();
        let (replies, mut to_write) = mpsc::unbounded_channel::<Reply>();
        let (to_us, requests) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(lines) = protocol::gather(&mut to_write).await {
                if write.write_all(&lines).await.is_err() {
                    return;
                }
            }
        });
        tokio::spawn(async move {
            let mut lines = BufReader::new(read).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(request) = serde_json::from_str(&line) else { return };
                if to_us.send(request).is_err() {
                    return;
                }
            }
        });
        (self.replies, self.requests) = (replies, Some(requests));
    }

    async fn run(mut self) -> io::Result<()> {
        let mut child = signal(SignalKind::child())?;
        // Handled, not ignored: what is ignored would be ignored by every job too.
        let mut ignored = (
            signal(SignalKind::terminate())?,
            signal(SignalKind::interrupt())?,
            signal(SignalKind::hangup())?,
        );
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        while !(self.closing && self.jobs.is_empty() && self.runner.pid().is_none()) {
            let ending = self.jobs.values().any(|job| job.over || job.kill_at.is_some());
            let several = self.jobs.len() > 1;
            let look_at = tokio::time::Instant::from_std(self.look_at);
            // A pause is looked at now and then: somebody may be in a hurry.
            let due = self.runner.due().map(|at| at.min(Instant::now() + LOOK));
            let due_at = tokio::time::Instant::from_std(due.unwrap_or(self.look_at));
            tokio::select! {
                _ = child.recv() => self.reap(),
                () = tokio::time::sleep_until(due_at), if due.is_some() && !self.closing => self.see_to_runner(),
                request = next(&mut self.requests), if !self.closing => match request {
                    Some(Request::Hello(hello)) => self.greeted(&hello),
                    Some(Request::Bye) => self.leaving(),
                    Some(Request::Start { mut spec, environment }) => {
                        spec.environment = environment.applied_to(&self.environment);
                        self.start(*spec);
                    }
                    Some(Request::End { job, now }) => self.end(&job, now),
                    Some(Request::Ask) => self.reply(Reply::Here),
                    Some(Request::Pause) => self.pause(),
                    Some(Request::GoOn) => self.go_on(),
                    None if self.keeper.is_some() => self.runner_gone(),
                    None => self.close(),
                },
                output = self.from_outputs.recv() => match output {
                    Some(Output::Trouble(job, written)) => self.output_trouble(&job, written),
                    Some(Output::Done(job, outcome)) => self.output_done(&job, outcome),
                    None => {}
                },
                _ = tick.tick(), if ending => self.reap(),
                () = tokio::time::sleep_until(look_at), if several => self.remember_owners(),
                _ = ignored.0.recv() => {}
                _ = ignored.1.recv() => {}
                _ = ignored.2.recv() => {}
            }
            self.advance();
        }
        self.kill_descendants();
        self.trouble.map_or(Ok(()), Err)
    }

    fn start(&mut self, spec: JobSpec) {
        failpoint::at(Point::JobBefore);
        let opened = spec.record.as_ref().map_or(Ok(()), |record| self.open_record(record));
        let started = opened
            .and_then(|()| {
                Capture::open(&spec.log, spec.result.as_deref(), spec.stdout.as_deref(), spec.output_max)
            })
            .and_then(|capture| Ok((capture, launch(&spec, &self.disk)?)));
        let (capture, (started, direct)) = match started {
            Ok(started) => started,
            Err(error) if is_short_of_something(&error) && !self.jobs.is_empty() => {
                self.waiting.push_back(spec);
                return;
            }
            Err(error) => {
                let disk_full =
                    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
                self.reply(Reply::NotStarted { job: spec.job, reason: error.to_string(), disk_full });
                return;
            }
        };
        let (drained, drain) = tokio::sync::oneshot::channel();
        let pipes = (OwnedFd::from(started.stdout), OwnedFd::from(started.stderr));
        tokio::spawn(write_output(spec.job.clone(), capture, pipes, drain, self.outputs.clone()));
        let start_time = table::start_time(started.pid).unwrap_or(0);
        failpoint::at(Point::JobBorn);
        self.reply(Reply::Started { job: spec.job.clone(), pid: started.pid, start_time });
        let exit = JobExit { job: spec.job.clone(), ..JobExit::default() };
        let job = Job {
            leader: started.pid,
            start_time,
            since: Instant::now(),
            direct,
            exit,
            over: false,
            linger_until: None,
            kill_at: None,
            killed: false,
            drained: Some(drained),
            last_words: String::new(),
            written: false,
            spec,
        };
        self.jobs.insert(job.spec.job.clone(), job);
    }

    pub(super) fn reply(&self, reply: Reply) {
        // A runner that is gone needs no answer: the exit record is on disk.
        let _ = self.replies.send(reply);
    }

    /// Stops every process of every job. What is being ended has its time stand still too.
    fn pause(&mut self) {
        if self.paused_at.is_none() {
            self.paused_at = Some(Instant::now());
            self.signal_all(Signal::STOP);
        }
        self.reply(Reply::Paused);
    }

    pub(super) fn go_on(&mut self) {
        let Some(since) = self.paused_at.take() else { return };
        for job in self.jobs.values_mut() {
            for deadline in [&mut job.kill_at, &mut job.linger_until].into_iter().flatten() {
                *deadline += since.elapsed();
            }
        }
        self.signal_all(Signal::CONT);
    }

    fn signal_all(&mut self, signal: Signal) {
        let jobs: Vec<String> = self.jobs.keys().cloned().collect();
        for job in jobs {
            self.signal_tree(&job, signal);
        }
    }

    pub(super) fn close(&mut self) {
        // A runner that was killed while it was suspended: what stands still can't heed a TERM.
        self.go_on();
        self.closing = true;
        self.waiting.clear();
        let jobs: Vec<String> = self.jobs.keys().cloned().collect();
        for job in jobs {
            self.end(&job, false);
        }
    }

    /// Begins to end a job's tree, or hurries where it has begun.
    pub(super) fn end(&mut self, name: &str, now: bool) {
        if let Some(at) = self.waiting.iter().position(|spec| spec.job == name) {
            self.waiting.remove(at);
            let reason = "it was ended before there was room for it".to_string();
            self.reply(Reply::NotStarted { job: name.to_string(), reason, disk_full: false });
        }
        let Some(job) = self.jobs.get_mut(name) else { return };
        if !job.over {
            job.exit.ended_by_us = true;
        }
        if now {
            job.kill_at = Some(Instant::now());
        } else if job.kill_at.is_none() {
            job.kill_at = Some(Instant::now() + Duration::from_millis(job.spec.grace_ms));
            self.signal_tree(name, Signal::TERM);
        }
    }

    fn output_trouble(&mut self, name: &str, written: Written) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        match written {
            Written::All => return,
            Written::Overflow => job.exit.output_overflow = true,
            Written::DiskFull => job.exit.disk_full = true,
        }
        self.end(name, false);
    }

    fn output_done(&mut self, name: &str, outcome: io::Result<()>) {
        let Some(job) = self.jobs.get_mut(name) else { return };
        job.written = true;
        if outcome.is_err() {
            job.exit.disk_full = true;
        }
    }

    /// Takes note of every child that has ended, a job's leader or something adopted.
    pub(super) fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let pid = pid.as_raw_pid() as u32;
            if self.runner.pid() == Some(pid) {
                self.runner_ended();
            }
            if let Some(job) = self.jobs.values_mut().find(|job| job.leader == pid && !job.over) {
                job.over = true;
                job.exit.code = status.exit_status();
                job.exit.signal = status.terminating_signal();
                if let Some(signal) = job.exit.signal
                    && job.direct
                    && !job.exit.ended_by_us
                    && let Some((code, words)) =
                        direct::told_of_signal(signal, status.as_raw() & CORE_DUMPED != 0)
                {
                    (job.exit.code, job.exit.signal, job.last_words) = (Some(code), None, words);
                }
            }
        }
    }

    /// Moves every job along that is over or being ended.
    fn advance(&mut self) {
        let names: Vec<String> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.over || job.kill_at.is_some())
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            self.advance_job(&name);
        }
    }

    fn advance_job(&mut self, name: &str) {
        if self.paused_at.is_some() {
            return;
        }
        // Nothing was left of it, and its output is on its way to disk. The next look comes with that: the
        // kernel's list of children may lack one while another ends (proc(5), task/children).
        if self.jobs.get(name).is_some_and(|job| job.drained.is_none() && !job.written) {
            return;
        }
        let rest = self.rest_of(name);
        let Some(job) = self.jobs.get_mut(name) else { return };
        let given_up = job.killed && job.kill_at.is_some_and(|at| Instant::now() >= at + KILL_WAIT);
        let alive = !job.over || !rest.is_empty();
        if alive && given_up && job.exit.survivors.is_empty() {
            job.exit.survivors =
                rest.iter().map(|process| format!("{} {}", process.pid, process.name)).collect();
            if !job.over {
                job.exit.survivors.push(format!("{} (its leader)", job.leader));
            }
        }
        if alive && !given_up {
            match job.kill_at {
                None if Instant::now() < *job.linger_until.get_or_insert_with(|| Instant::now() + LINGER) => {
                }
                None => {
                    // The leader is over and has left something running.
                    job.exit.leftovers =
                        rest.iter().map(|process| format!("{} {}", process.pid, process.name)).collect();
                    let grace = Duration::from_millis(job.spec.grace_ms).min(LEFTOVER_GRACE);
                    job.kill_at = Some(Instant::now() + grace);
                    self.signal_tree(name, Signal::TERM);
                }
                Some(at) if Instant::now() >= at => {
                    job.killed = true;
                    self.signal_tree(name, Signal::KILL);
                }
                Some(_) => {}
            }
            return;
        }
        if let Some(drained) = job.drained.take() {
            let _ = drained.send(std::mem::take(&mut job.last_words));
        }
        if job.written {
            self.report(name);
        }
    }

    /// Starts what had to wait for another job's end. What can't be had even alone is then said.
    fn start_waiting(&mut self) {
        for _ in 0..self.waiting.len() {
            if let Some(spec) = self.waiting.pop_front() {
                self.start(spec);
            }
        }
    }

    fn report(&mut self, name: &str) {
        let Some(mut job) = self.jobs.remove(name) else { return };
        failpoint::at(Point::ExitBefore);
        if let Some(record) = &job.spec.record
            && self.write_record(record, &job.exit).is_err()
        {
            job.exit.disk_full = true;
        }
        failpoint::at(Point::ExitRecorded);
        self.reply(Reply::Exited { job: name.to_string(), exit: job.exit });
        self.start_waiting();
    }

    fn open_record(&mut self, path: &Path) -> io::Result<()> {
        if !self.records.contains_key(path) {
            let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
            // A line that a kill or a full disk cut short would swallow the next.
            let length = file.metadata()?.len();
            let mut last = [b'\n'];
            if length > 0 {
                std::os::unix::fs::FileExt::read_exact_at(&file, &mut last, length - 1)?;
            }
            if last != [b'\n'] {
                file.write_all(b"\n")?;
            }
            self.records.insert(path.to_path_buf(), file);
        }
        Ok(())
    }

    /// Adds a line that says how a job ended. Not durable: it outlives us and the runner, and what
    /// outlives the machine is the journal.
    fn write_record(&mut self, path: &Path, exit: &JobExit) -> io::Result<()> {
        self.open_record(path)?;
        let mut line = serde_json::to_vec(exit)?;
        line.push(b'\n');
        self.records.get_mut(path).map_or(Ok(()), |file| file.write_all(&line))
    }

    /// Returns what lives of a job besides its leader.
    fn rest_of(&mut self, name: &str) -> Vec<table::Process> {
        let Some(job) = self.jobs.get(name) else { return Vec::new() };
        if job.over && self.nothing_adopted(job.leader) {
            return Vec::new();
        }
        let leader = job.leader;
        let mut trees = self.trees();
        let mut rest = trees.remove(name).unwrap_or_default();
        rest.retain(|process| process.pid != leader);
        rest
    }

    /// Returns whether every child of ours is a job's leader and the group of `leader` is empty: then
    /// nothing can be left of its job. One small file instead of the whole process table.
    fn nothing_adopted(&self, leader: u32) -> bool {
        let leaders: BTreeSet<u32> =
            self.jobs.values().map(|job| job.leader).chain(self.runner.pid()).collect();
        let Some(children) = table::children() else { return false };
        let group_gone = Pid::from_raw(leader as i32)
            .is_some_and(|pid| rustix::process::test_kill_process_group(pid).is_err());
        group_gone && children.iter().all(|child| leaders.contains(child))
    }

    /// Takes note of whose each process is while its parents tell. Needed where several jobs run: what
    /// sheds environment, group and session and is then adopted could be anybody's.
    fn remember_owners(&mut self) {
        self.look_at = Instant::now() + LOOK;
        // Jobs that come and go faster than we look would have us look for nothing.
        if !self.jobs.values().any(|job| job.since.elapsed() >= LOOK / 2) {
            return;
        }
        let all = table::scan();
        let leaders: Vec<(u32, String)> =
            self.jobs.iter().map(|(name, job)| (job.leader, name.clone())).collect();
        self.owners
            .retain(|(pid, start), _| all.get(pid).is_some_and(|process| process.start_time == *start));
        for (leader, name) in leaders {
            for process in table::descendants(&all, leader).iter().filter_map(|pid| all.get(pid)) {
                self.owners.entry((process.pid, process.start_time)).or_insert_with(|| name.clone());
            }
        }
    }

    /// Returns the living processes of every job.
    ///
    /// A process belongs to the job whose leader it descends from; once adopted, to the one it was seen
    /// to descend from, else to the one named in its environment, else to the one whose group or
    /// session it is in. What has shed all of these belongs to the only job there is; where there are
    /// several, to one that is over and began before it, and else is a stray.
    fn trees(&self) -> BTreeMap<String, Vec<table::Process>> {
        let all = table::scan();
        let leaders: BTreeMap<u32, &str> =
            self.jobs.iter().map(|(name, job)| (job.leader, name.as_str())).collect();
        let only = if self.jobs.len() == 1 { self.jobs.keys().next().map(String::as_str) } else { None };
        let mut trees: BTreeMap<String, Vec<table::Process>> = BTreeMap::new();
        let mut owners: BTreeMap<u32, Option<&str>> = BTreeMap::new();
        let mut runners: BTreeSet<u32> = self.runner.pid().into_iter().collect();
        // Parents come before their children here, so that an owner is handed down.
        for pid in table::descendants(&all, std::process::id()) {
            let Some(process) = all.get(&pid) else { continue };
            // What a runner started is no job's: its git children are not jobs.
            if runners.contains(&pid) || runners.contains(&process.parent) {
                runners.insert(pid);
                continue;
            }
            let handed = owners.get(&process.parent).copied().flatten();
            let seen = self.owners.get(&(pid, process.start_time));
            let seen = seen.and_then(|name| self.jobs.get_key_value(name)).map(|(name, _)| name.as_str());
            let owner = leaders.get(&pid).copied().or(handed).or(seen).or_else(|| {
                let named = table::variable(pid, "OMG_JOB").and_then(|name| String::from_utf8(name).ok());
                named
                    .and_then(|name| self.jobs.get_key_value(&name).map(|(name, _)| name.as_str()))
                    .or_else(|| leaders.get(&process.group).copied())
                    .or_else(|| leaders.get(&process.session).copied())
                    .or(only)
                    .or_else(|| {
                        let over = |job: &&Job| job.over && job.start_time <= process.start_time;
                        self.jobs.values().find(over).map(|job| job.spec.job.as_str())
                    })
            });
            owners.insert(pid, owner);
            if process.zombie {
                continue;
            }
            // A stray ends with us.
            if let Some(owner) = owner {
                trees.entry(owner.to_string()).or_default().push(process.clone());
            }
        }
        trees
    }

    /// Signals every process of a job: its group at once, then what left the group.
    fn signal_tree(&mut self, name: &str, signal: Signal) {
        let Some(job) = self.jobs.get(name) else { return };
        let leader = job.leader;
        if !job.over {
            spawn::end_group(leader, signal);
        }
        let mut trees = self.trees();
        for process in trees.remove(name).unwrap_or_default() {
            if process.group != leader || self.jobs.get(name).is_some_and(|job| job.over) {
                signal_one(&process, signal);
            }
        }
    }

    /// Kills whatever descends from us, until nothing does.
    fn kill_descendants(&mut self) {
        for _ in 0..100 {
            let all = table::scan();
            let rest: Vec<&table::Process> = table::descendants(&all, std::process::id())
                .iter()
                .filter_map(|pid| all.get(pid))
                .filter(|process| !process.zombie)
                .collect();
            if rest.is_empty() {
                return;
            }
            for process in rest {
                signal_one(process, Signal::KILL);
            }
            self.reap();
            std::thread::sleep(TICK);
        }
    }
}
