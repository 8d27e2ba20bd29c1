//! A detached run's supervisor, where it decides about runners: each is announced, claimed for, known by its
//! hello, and has its receipt before it begins.
#![expect(clippy::disallowed_methods, reason = "opens the runner's log, tells who detached the run")]

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::leg::{self, Purpose};
use super::{Clock, RunDir};
use crate::fence::{Fence, generation_in};
use crate::ids::{Generation, IntentId, RunId};
use crate::journal::mask::Mask;
use crate::journal::store::{self, Journal};
use crate::journal::{JournalError, Record};
use crate::process::protocol::Hello;
use crate::process::runner::{Keeper, Start};
use crate::process::spawn::own_program;
use crate::process::table;
use crate::schedule::fact::StopReason;
use crate::schedule::{Fact, Scope};

/// Most runners in a row that are started in the place of one that died while none of its nodes came to its own end.
pub const DEATHS_MAX: u32 = 5;

/// What a supervisor that keeps a run tells who detached it, once, as a line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// A runner is known, and its receipt is durable.
    Running {
        /// Its process.
        pid: u32,
    },
    /// None could be had; nothing runs.
    Failed {
        /// Why.
        reason: String,
    },
}

/// Keeps one run.
pub struct RunKeeper {
    dir: RunDir,
    run: RunId,
    lock: File,
    generation: Generation,
    /// That of the first runner.
    first: Generation,
    build: &'static str,
    clock: Box<dyn Clock>,
    /// What the next runner is told besides the run and its claim.
    words: String,
    /// What any later one is told.
    later: String,
    /// Why the next runner is started.
    reason: &'static str,
    /// Who detached the run, until it has been told.
    tell: Option<UnixStream>,
}

/// Returns how many runners died in a row without any node coming to its own end, since a person last had the run
/// started.
pub fn deaths_in_a_row(records: &[Record]) -> u32 {
    let mut count = 0;
    for record in records {
        match &record.fact {
            Fact::RestartRequested { reason, .. } if reason == STARTED => count = 0,
            Fact::RestartRequested { .. } => count += 1,
            // A node that something else ends each time would be started for ever.
            Fact::AttemptFinished { delivered: true, fault, .. }
                if fault.as_ref().is_none_or(|fault| fault.scope == Scope::Task) =>
            {
                count = 0;
            }
            _ => {}
        }
    }
    count
}

/// Returns why the last leg was asked to stop by a person, where it died before it had.
pub fn stop_left_open(records: &[Record]) -> Option<StopReason> {
    let mut open = None;
    for record in records {
        match &record.fact {
            Fact::RunStarted { .. } | Fact::RunFinished { .. } => open = None,
            Fact::Stopping { reason: StopReason::SupervisorLost } => {}
            Fact::Stopping { reason } => open = open.or(Some(*reason)),
            _ => {}
        }
    }
    open
}

/// Why the first runner of a detached run is started.
pub const STARTED: &str = "started";
/// Why a runner is started where the one before died.
pub const RUNNER_DIED: &str = "runner-died";
/// Why a runner is started by a supervisor in the place of one that is gone.
pub const SUPERVISOR_LOST: &str = "supervisor-lost";

/// Returns how long the start of runner number `number` in a row waits.
pub fn pause(number: u32) -> Duration {
    Duration::from_millis(match number {
        0 | 1 => 0,
        2 => 1_000,
        3 => 5_000,
        4 => 30_000,
        _ => 60_000,
    })
}

impl RunKeeper {
    /// Returns what keeps the run in `dir`, whose `lock` this process holds; the first runner acts in the
    /// generation that the lock names. What the first runner is told, and any later one; `tell` hears how the first
    /// start went.
    ///
    /// Errors: the lock names no holder.
    pub fn new(
        dir: RunDir,
        run: RunId,
        lock: File,
        build: &'static str,
        clock: Box<dyn Clock>,
        (reason, words, later): (&'static str, String, String),
        tell: UnixStream,
    ) -> io::Result<RunKeeper> {
        // Of the lock that is held: the file of that name may be another's by now.
        let generation =
            generation_in(&lock).ok_or_else(|| io::Error::other("the run's lock names nobody"))?;
        Ok(RunKeeper {
            dir,
            run,
            lock,
            generation,
            first: generation,
            build,
            clock,
            words,
            later,
            reason,
            tell: Some(tell),
        })
    }

    fn intent(&self) -> IntentId {
        // Number 0: a leg counts its own from 1, in the same generation.
        IntentId::new(self.generation, 0)
    }

    fn fence(&self) -> io::Result<Fence> {
        Ok(Fence::of(&self.dir.lock(), self.lock.try_clone()?, self.generation))
    }

    fn append(&self, facts: Vec<Fact>) -> io::Result<()> {
        let fence = self.fence()?;
        let leg = |records: &[Record]| (leg::last_leg(records), self.generation);
        let written = Journal::open(&self.dir.events(), leg, Mask::default(), fence)
            .and_then(|(mut journal, _)| journal.append(facts, self.clock.now()));
        written.map(|_| ()).map_err(|error| match error {
            JournalError::Io { source, .. } => source,
            other => io::Error::other(other.to_string()),
        })
    }

    fn tell(&mut self, told: &Told) {
        if let Some(mut stream) = self.tell.take()
            && let Ok(mut line) = serde_json::to_vec(told)
        {
            line.push(b'\n');
            // Who detached the run may be gone; it goes on all the same.
            let _ = stream.write_all(&line);
        }
    }
}

impl Keeper for RunKeeper {
    fn announce(&mut self) -> io::Result<Option<Start>> {
        let records = store::read(&self.dir.events()).map_err(|error| io::Error::other(error.to_string()))?;
        // The start that a person asked for begins anew.
        let number = if self.reason == STARTED { 0 } else { deaths_in_a_row(&records) + 1 };
        // Who took the run over has a newer generation in the lock, or in the journal; to mint one past it would be
        // to take it back.
        self.fence()?.check().map_err(io::Error::other)?;
        let written = records.last().map_or(Generation(0), |record| record.r#gen);
        if written > self.generation {
            return Err(io::Error::other("another process has written to the run's journal"));
        }
        // Each runner has a generation of its own; the first has that of the claim, where nobody wrote in it.
        if written == self.generation {
            self.generation = Generation(written.0 + 1);
        }
        let has_begun =
            |record: &Record| matches!(record.fact, Fact::RunStarted { .. }) && record.r#gen >= self.first;
        // What was to be opened again is open once a leg has begun.
        let words = if records.iter().any(has_begun) { &self.later } else { &self.words }.clone();
        leg::write_holder(&self.lock, self.generation, leg::last_leg(&records), Purpose::Keep)?;
        let requested = Fact::RestartRequested { intent: self.intent(), reason: self.reason.into(), number };
        self.append(vec![requested])?;
        self.reason = RUNNER_DIED;
        if number > DEATHS_MAX {
            let reason = format!("{number} runners in a row died before any node came to its end; given up");
            self.append(vec![Fact::RestartFailed {
                intent: self.intent(),
                executed: false,
                reason: reason.clone(),
            }])?;
            self.tell(&Told::Failed { reason });
            return Ok(None);
        }
        let log = OpenOptions::new().create(true).append(true).open(self.dir.runner_log())?;
        Ok(Some(Start {
            program: own_program(),
            words: vec![
                "__leg".into(),
                self.dir.root().as_os_str().to_owned(),
                self.generation.0.to_string().into(),
                words.into(),
            ],
            cwd: self.dir.root().to_path_buf(),
            lock: self.lock.try_clone()?,
            log,
            pause: pause(number),
        }))
    }

    fn known(&mut self, hello: &Hello, pid: u32) -> io::Result<()> {
        let ours = (self.run.as_str(), self.generation.0, self.build, pid, table::start_time(pid));
        let theirs = (
            hello.run_id.as_str(),
            hello.generation,
            hello.build.as_str(),
            hello.pid,
            Some(hello.start_time),
        );
        if ours != theirs {
            return Err(io::Error::other(format!("it says that it is {hello:?}, which was not started")));
        }
        self.append(vec![Fact::RestartPerformed {
            intent: self.intent(),
            pid,
            started_at: hello.start_time,
            build: hello.build.clone(),
        }])?;
        self.tell(&Told::Running { pid });
        Ok(())
    }

    fn is_hurried(&self) -> bool {
        self.dir.cancel().exists()
    }

    fn failed(&mut self, reason: &str) -> bool {
        let failed =
            Fact::RestartFailed { intent: self.intent(), executed: false, reason: reason.to_string() };
        let written = self.append(vec![failed]);
        // Who waits for the first one is told; then nothing runs.
        let is_first = self.tell.is_some();
        self.tell(&Told::Failed { reason: reason.to_string() });
        written.is_ok() && !is_first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Leg, NodeId};
    use crate::schedule::{Fault, FaultClass};

    fn record(fact: Fact) -> Record {
        Record {
            seq: 1,
            ts: jiff::Timestamp::UNIX_EPOCH,
            leg: Leg(1),
            r#gen: Generation(1),
            fact,
            target: None,
            synced: None,
            batch: None,
        }
    }

    fn start(reason: &str) -> Record {
        let intent = IntentId::new(Generation(1), 0);
        record(Fact::RestartRequested { intent, reason: reason.into(), number: 0 })
    }

    fn ended(fault: Option<FaultClass>) -> Record {
        record(Fact::AttemptFinished {
            node: NodeId::from("a"),
            attempt: 1,
            intent: IntentId::new(Generation(1), 1),
            fault: fault.map(|class| Fault::new(class, "test")),
            next: None,
            exit_code: None,
            signal: None,
            leftovers: Vec::new(),
            delivered: true,
            agent: None,
            evidence: None,
        })
    }

    #[test]
    fn deaths_are_counted_while_nothing_comes_of_the_runners() {
        let died = || start(RUNNER_DIED);
        assert_eq!(deaths_in_a_row(&[start(STARTED)]), 0);
        assert_eq!(deaths_in_a_row(&[start(STARTED), died(), start(SUPERVISOR_LOST)]), 2);
        // What ended with its supervisor, or was killed by who kills runners, did not come to its own end.
        for fault in [FaultClass::Interrupted, FaultClass::Killed] {
            assert_eq!(deaths_in_a_row(&[died(), ended(Some(fault)), died()]), 2);
        }
        for fault in [None, Some(FaultClass::NonzeroExit)] {
            assert_eq!(deaths_in_a_row(&[died(), died(), ended(fault), died()]), 1);
        }
        // A person who has it started again begins anew.
        assert_eq!(deaths_in_a_row(&[died(), died(), start(STARTED)]), 0);
    }

    #[test]
    fn a_stop_that_a_person_asked_for_outlives_the_runner() {
        let stopping = |reason| record(Fact::Stopping { reason });
        let begun = || record(Fact::RunFinished { status: crate::schedule::fact::RunStatus::Interrupted });
        assert_eq!(stop_left_open(&[stopping(StopReason::Cancel)]), Some(StopReason::Cancel));
        assert_eq!(stop_left_open(&[stopping(StopReason::Cancel), begun()]), None);
        assert_eq!(stop_left_open(&[stopping(StopReason::SupervisorLost)]), None);
    }

    #[test]
    fn each_start_in_a_row_waits_longer_than_the_one_before() {
        assert_eq!(pause(1), Duration::ZERO);
        assert!((2..DEATHS_MAX).all(|number| pause(number) < pause(number + 1)));
    }
}
