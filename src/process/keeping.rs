//! A supervisor that keeps a detached run: what it does about its runner.
#![expect(clippy::disallowed_methods, reason = "looks how late it is")]

use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::net::UnixStream;

use super::protocol::{Hello, Inherited, Reply, Welcome};
use super::runner::{self, HELLO_WAIT, Standing};
use super::supervisor::{Job, Supervisor};
use super::survivors::{GRACE, is_of_job, signal_one};
use super::table;
use crate::failpoint::{self, Point};

/// How often it is looked whether a dead runner's commands are over.
const STRAY_TICK: Duration = Duration::from_millis(20);

impl Supervisor {
    /// Does what is due for a runner: announces one, starts it, or does without one that says nothing.
    pub(super) fn see_to_runner(&mut self) {
        let now = Instant::now();
        let is_hurried = || self.keeper.as_ref().is_some_and(|keeper| keeper.is_hurried());
        let may_hurry = matches!(self.runner, Standing::Announced(..));
        if self.runner.due().is_none_or(|at| now < at && !(may_hurry && is_hurried())) {
            return;
        }
        if matches!(self.runner, Standing::None(_)) && self.has_strays() {
            self.runner = Standing::None(now + STRAY_TICK);
            return;
        }
        match std::mem::replace(&mut self.runner, Standing::Over) {
            Standing::None(_) => match self.keeper.as_mut().map(|keeper| keeper.announce()) {
                Some(Ok(Some(start))) => {
                    self.runner = Standing::Announced(now + start.pause, Box::new(start));
                }
                Some(Ok(None)) | None => self.close(),
                Some(Err(error)) => {
                    self.trouble = Some(error);
                    self.close();
                }
            },
            Standing::Announced(_, start) => {
                let started = runner::start(*start, &self.environment).and_then(|(pid, stream)| {
                    stream.set_nonblocking(true)?;
                    Ok((pid, UnixStream::from_std(stream)?))
                });
                match started {
                    Ok((pid, stream)) => {
                        failpoint::counterpart(pid);
                        failpoint::at(Point::RunnerBorn);
                        self.connect(stream);
                        self.runner = Standing::Started(pid, now + HELLO_WAIT);
                    }
                    Err(error) => self.not_started(&format!("it could not be started: {error}")),
                }
            }
            Standing::Started(pid, _) => {
                self.kill_runner(pid);
                self.not_started("it did not say who it is in time");
            }
            other => self.runner = other,
        }
    }

    /// A runner says who it is. Its receipt is durable before it may begin.
    pub(super) fn greeted(&mut self, hello: &Hello) {
        let Standing::Started(pid, _) = self.runner else { return };
        let known = self.keeper.as_mut().map(|keeper| keeper.known(hello, pid));
        match known {
            Some(Ok(())) => {
                self.runner = Standing::Known(pid);
                let living = |job: &Job| Inherited {
                    job: job.spec.job.clone(),
                    pid: job.leader,
                    start_time: job.start_time,
                    elapsed_ms: job.since.elapsed().as_millis() as u64,
                };
                let jobs = self.jobs.values().map(living).collect();
                self.reply(Reply::Welcome(Welcome { supervisor: std::process::id(), jobs }));
            }
            Some(Err(error)) => {
                self.kill_runner(pid);
                self.not_started(&error.to_string());
            }
            None => {}
        }
    }

    pub(super) fn leaving(&mut self) {
        if let Standing::Known(pid) = self.runner {
            self.runner = Standing::Leaving(pid);
        }
    }

    /// The connection to the runner is closed: it is dead, or as good as that.
    pub(super) fn runner_gone(&mut self) {
        self.requests = None;
        if let Some(pid) = self.runner.pid() {
            if !matches!(self.runner, Standing::Leaving(_)) {
                self.kill_runner(pid);
            }
            self.reap();
        }
    }

    /// The runner has been reaped.
    pub(super) fn runner_ended(&mut self) {
        self.requests = None;
        match std::mem::replace(&mut self.runner, Standing::Over) {
            Standing::Leaving(_) => self.close(),
            Standing::Started(..) => self.not_started("it ended before it had said who it is"),
            Standing::Known(_) => {
                self.end_bound();
                self.runner = Standing::None(Instant::now());
            }
            other => self.runner = other,
        }
    }

    fn not_started(&mut self, reason: &str) {
        self.requests = None;
        let again = self.keeper.as_mut().is_some_and(|keeper| keeper.failed(reason));
        if again {
            self.runner = Standing::None(Instant::now());
        } else {
            self.close();
        }
    }

    fn kill_runner(&mut self, pid: u32) {
        if let Some(process) = table::process(pid) {
            signal_one(&process, Signal::KILL);
        }
    }

    /// Ends what does not outlive a runner: jobs whose exit nobody writes down, and commands of its own, which it
    /// waited for itself. The git of a dead runner would work under the next one.
    fn end_bound(&mut self) {
        self.go_on();
        self.waiting.clear();
        let bound: Vec<String> = self
            .jobs
            .values()
            .filter(|job| job.spec.record.is_none())
            .map(|job| job.spec.job.clone())
            .collect();
        for job in bound {
            self.end(&job, true);
        }
        self.strays_since = Some(Instant::now());
    }

    /// Returns whether commands that a dead runner had started by itself are still at it: left to their end for a
    /// while, then ended. Two runners' work in one lane would be at odds.
    fn has_strays(&mut self) -> bool {
        let Some(since) = self.strays_since else { return false };
        let signal = match since.elapsed() {
            waited if waited < GRACE => None,
            waited if waited < 2 * GRACE => Some(Signal::TERM),
            _ => Some(Signal::KILL),
        };
        let strays = self.strays();
        for stray in strays.iter().filter(|_| signal.is_some()) {
            signal_one(stray, signal.unwrap_or(Signal::TERM));
        }
        // What can't be killed is not waited for.
        if strays.is_empty() || since.elapsed() > 4 * GRACE {
            self.strays_since = None;
        }
        self.strays_since.is_some()
    }

    /// Returns the processes of the run that are no job's, and not of the living runner.
    fn strays(&self) -> Vec<table::Process> {
        let all = table::scan();
        let mark = self.run_dir.as_os_str().as_bytes();
        let of_runner: Vec<u32> =
            self.runner.pid().map(|pid| table::descendants(&all, pid)).unwrap_or_default();
        let is_stray = |process: &&table::Process| {
            let is_of_run = table::variable(process.pid, "OMG_RUN_DIR").is_some_and(|of| of == mark);
            is_of_run && !process.zombie && !is_of_job(process.pid) && !of_runner.contains(&process.pid)
        };
        let ours = table::descendants(&all, std::process::id());
        ours.iter().filter_map(|pid| all.get(pid)).filter(is_stray).cloned().collect()
    }
}
