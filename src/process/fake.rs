//! Spawners that start nothing: one scripted, one that refuses.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::pauses::Pauses;
use super::protocol::{Inherited, JobExit, JobSpec};
use super::{Job, JobEnd, JobStart, Spawner};

/// Answers each job as its script says and keeps what was asked of it.
#[derive(Debug, Default)]
pub struct Scripted {
    /// Exits by a part of the command line; a job that none matches exits 0.
    pub exits: Vec<(String, JobExit)>,
    asked: Mutex<Vec<JobSpec>>,
    held: Mutex<BTreeMap<String, oneshot::Sender<JobEnd>>>,
    pauses: Pauses,
}

impl Scripted {
    /// Returns a spawner with exits by a part of the command line. A job whose command line holds
    /// `hang` ends only when it is ended; one that holds `slow` takes a minute.
    pub fn new(exits: Vec<(String, JobExit)>) -> Scripted {
        Scripted { exits, ..Scripted::default() }
    }

    /// Returns the command lines that were started, in order, words joined by a space.
    pub fn started(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.iter().map(line).collect()
    }
}

fn line(spec: &JobSpec) -> String {
    let words = spec.argv.iter().map(|word| std::ffi::OsString::from(word.clone()));
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

impl Spawner for Scripted {
    fn start(&self, spec: JobSpec) -> Job {
        let (tell_started, started) = oneshot::channel();
        let (tell_ended, ended) = oneshot::channel();
        let _ = tell_started.send(JobStart::Started { pid: 1, start_time: 1 });
        let line = line(&spec);
        let exit = self.exits.iter().find(|(part, _)| line.contains(part.as_str()));
        if line.contains("hang") {
            self.held.lock().unwrap_or_else(PoisonError::into_inner).insert(spec.job.clone(), tell_ended);
        } else {
            let exit = exit.map_or(JobExit { code: Some(0), ..JobExit::default() }, |(_, exit)| exit.clone());
            let end = JobEnd::Exited(JobExit { job: spec.job.clone(), ..exit });
            if line.contains("slow") {
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    let _ = tell_ended.send(end);
                });
            } else {
                let _ = tell_ended.send(end);
            }
        }
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(spec);
        Job { started, ended }
    }

    fn adopt(&self, _job: &str) -> Option<Job> {
        None
    }

    fn inherited(&self) -> Vec<Inherited> {
        Vec::new()
    }

    fn ask(&self) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        let _ = tell.send(());
        told
    }

    fn abandon(&self) {}

    fn end(&self, job: &str, _now: bool) {
        if let Some(to) = self.held.lock().unwrap_or_else(PoisonError::into_inner).remove(job) {
            let exit =
                JobExit { job: job.to_string(), signal: Some(15), ended_by_us: true, ..JobExit::default() };
            let _ = to.send(JobEnd::Exited(exit));
        }
    }

    fn pause(&self) -> oneshot::Receiver<()> {
        let (tell_paused, paused) = oneshot::channel();
        let _ = tell_paused.send(());
        paused
    }

    fn go_on(&self, away: Duration) {
        self.pauses.add(away);
    }

    fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    fn lost(&self) -> Option<oneshot::Receiver<()>> {
        None
    }
}

/// Refuses every call, so that no test passes for want of a fake.
#[derive(Debug, Default)]
pub struct Refusing {
    pauses: Pauses,
}

impl Spawner for Refusing {
    fn start(&self, spec: JobSpec) -> Job {
        let (tell_started, started) = oneshot::channel();
        let (_, ended) = oneshot::channel();
        let reason = format!("refused: nothing may start `{}` here", line(&spec));
        let _ = tell_started.send(JobStart::NotStarted { reason, disk_full: false });
        Job { started, ended }
    }

    fn adopt(&self, _job: &str) -> Option<Job> {
        None
    }

    fn inherited(&self) -> Vec<Inherited> {
        Vec::new()
    }

    fn ask(&self) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        let _ = tell.send(());
        told
    }

    fn abandon(&self) {}

    fn end(&self, _job: &str, _now: bool) {}

    fn pause(&self) -> oneshot::Receiver<()> {
        let (tell_paused, paused) = oneshot::channel();
        let _ = tell_paused.send(());
        paused
    }

    fn go_on(&self, away: Duration) {
        self.pauses.add(away);
    }

    fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    fn lost(&self) -> Option<oneshot::Receiver<()>> {
        None
    }
}
