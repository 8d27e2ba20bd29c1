//! The loop: what happened → what follows → durable → done.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::perform::Stage;
use super::signals::Ask;
use super::silence::Silences;
use super::sweep;
use super::{Observer, RunError};
use crate::graph::Graph;
use crate::ids::IntentId;
use crate::journal::store::Journal;
use crate::process::pauses::{Deadline, Pauses};
use crate::schedule::event::LegStart;
use crate::schedule::fact::{Fact, RunStatus, StopReason};
use crate::schedule::settling::OpenAct;
use crate::schedule::state::{Names, RunState};
use crate::schedule::{Action, Event, step};

/// How long the supervisor has for stopping the nodes before the program itself is suspended.
const PAUSE_WAIT: Duration = Duration::from_secs(2);

/// How a leg ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegReport {
    /// How the run stands.
    pub status: RunStatus,
    /// Why the leg was asked to stop, where it was; also where its nodes were over by then.
    pub stop: Option<StopReason>,
}

/// A leg on its way.
pub struct Driver {
    /// The actuators.
    pub stage: Rc<Stage>,
    /// The journal; who has it holds the run's lock.
    pub journal: Journal,
    /// Where the run stands.
    pub state: RunState,
    /// Names to places.
    pub names: Names,
    /// Where answers come from.
    pub answers: mpsc::UnboundedReceiver<Event>,
    /// Where actuators that panic are told of.
    pub panics: mpsc::UnboundedReceiver<String>,
    /// What the user's signals ask for.
    pub asks: mpsc::UnboundedReceiver<Ask>,
    /// Who is told.
    pub observer: Rc<dyn Observer>,
}

/// Runs a leg to its end, its cleanup included; must be called inside a tokio `LocalSet`.
///
/// Each batch of facts is durable before any action that follows from it begins.
/// Errors: the journal failed, or a bug; every node is then ended by the supervisor, and lanes stay.
pub async fn drive(mut driver: Driver, start: LegStart) -> Result<LegReport, RunError> {
    driver.stage.keep_notes(&start.gates);
    let mut settled = driver.take(vec![Event::LegStarted(Box::new(start))])?;
    let mut lost = driver.stage.seams.spawner.lost();
    let mut overdue = Overdue::default();
    let mut silences = Silences::default();
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !settled {
        let mut events = Vec::new();
        tokio::select! {
            biased;
            Some(ask) = driver.asks.recv() => match ask {
                Ask::Stop(reason) => events.push(Event::StopRequested(reason)),
                Ask::Now => events.push(Event::StopNow),
                Ask::Abandon(signal) => return Err(RunError::Abandoned { signal }),
                Ask::Show => driver.observer.show(),
                Ask::Suspend => driver.suspend().await,
            },
            Some(panic) = driver.panics.recv() => return Err(RunError::Bug(panic)),
            () = gone(&mut lost) => events.push(Event::StopRequested(StopReason::SupervisorLost)),
            Some(event) = driver.answers.recv() => events.push(event),
            _ = look.tick() => {
                let pauses = driver.stage.seams.spawner.pauses();
                let graph = &driver.stage.file.graph;
                events.extend(overdue.look(&driver.state, graph, pauses));
                events.extend(silences.look(graph, &driver.state, &driver.stage.dir, pauses.total()));
            }
        }
        while let Ok(event) = driver.answers.try_recv() {
            events.push(event);
        }
        silences.learn(&events, driver.stage.seams.spawner.pauses().total());
        settled = driver.take(events)?;
    }
    let status = driver.state.status();
    // A run that waits for a person or a limit goes on where it is: its lanes stay as they are, and locked.
    let late = if status == RunStatus::Paused { None } else { driver.clean_up().await? };
    driver.record(vec![Fact::RunFinished { status }])?;
    Ok(LegReport { status, stop: driver.state.stop.or(late) })
}

/// How often it is looked for acts without a receipt.
const LOOK: Duration = Duration::from_secs(5);

/// Since when each open act is open, and how often its deadline has passed.
#[derive(Default)]
struct Overdue(BTreeMap<(IntentId, OpenAct), (Deadline, tokio::time::Instant, u32)>);

impl Overdue {
    /// Returns an event for each act whose deadline has passed since the last look. A suspension does not count.
    fn look(&mut self, state: &RunState, graph: &Graph, pauses: &Pauses) -> Vec<Event> {
        self.0.retain(|act, _| state.open.contains(act));
        let mut events = Vec::new();
        for act in &state.open {
            let limit = act.1.deadline(graph);
            let known = self.0.entry(act.clone());
            let (deadline, since, times) =
                known.or_insert_with(|| (pauses.deadline(limit), tokio::time::Instant::now(), 0));
            if pauses.is_over(deadline) {
                *times += 1;
                *deadline = pauses.deadline(limit);
                let (intent, act) = act.clone();
                events.push(Event::Overdue { intent, act, times: *times, after: since.elapsed() });
            }
        }
        events
    }
}

/// Returns when the supervisor is gone; never where nobody can tell.
async fn gone(lost: &mut Option<tokio::sync::oneshot::Receiver<()>>) {
    match lost {
        Some(receiver) => {
            let _ = receiver.await;
            *lost = None;
        }
        None => std::future::pending().await,
    }
}

impl Driver {
    /// Takes events in as one batch. Returns whether the leg is settled.
    fn take(&mut self, events: Vec<Event>) -> Result<bool, RunError> {
        let mut facts = Vec::new();
        let mut actions = Vec::new();
        for event in events {
            let decision = step(&mut self.state, &self.stage.file.graph, &self.names, &event)
                .map_err(|error| RunError::Bug(error.to_string()))?;
            tracing::debug!(?event, facts = decision.facts.len(), actions = ?decision.actions, "step");
            facts.extend(decision.facts);
            actions.extend(decision.actions);
        }
        self.append(facts)?;
        let settled = actions.contains(&Action::Settled);
        for action in actions {
            self.stage.perform(action, |lane| self.state.lane(lane).clone());
        }
        Ok(settled)
    }

    /// Stands still with every node until the user lets it go on; no clock of a node runs meanwhile.
    async fn suspend(&self) {
        let spawner = &self.stage.seams.spawner;
        self.observer.leave();
        // A supervisor that is gone has nothing left to stop.
        let _ = tokio::time::timeout(PAUSE_WAIT, spawner.pause()).await;
        let away = super::signals::suspend().await.unwrap_or_default();
        spawner.go_on(away);
        self.observer.come_back(away);
    }

    /// Makes facts durable and tells of them.
    fn append(&mut self, facts: Vec<Fact>) -> Result<(), RunError> {
        for line in self.journal.append(facts, self.stage.seams.clock.now())? {
            self.observer.recorded(&line.record, &line.text);
        }
        Ok(())
    }

    /// Makes facts true and durable that come from outside the scheduler.
    pub fn record(&mut self, facts: Vec<Fact>) -> Result<(), RunError> {
        let (leg, generation) = (self.state.leg, self.state.generation);
        for fact in &facts {
            self.state
                .apply(&self.stage.file.graph, &self.names, leg, generation, fact)
                .map_err(|error| RunError::Bug(error.to_string()))?;
        }
        self.append(facts)
    }

    /// Gives every lane that this leg touched its verdict, several at a time.
    ///
    /// Returns the first signal that came meanwhile: it changes nothing about the nodes, which are over,
    /// nor hurries what keeps work safe, but the exit code tells of it.
    async fn clean_up(&mut self) -> Result<Option<StopReason>, RunError> {
        let lanes = sweep::lanes_to_sweep(&self.state);
        let deadline = tokio::time::Instant::now() + sweep::SWEEP_TIME;
        let mut waiting = Vec::new();
        let mut intents = Vec::new();
        for lane in lanes {
            let intent = IntentId::new(self.state.generation, self.state.next_intent);
            let name = self.stage.file.graph.lane(lane).name.clone();
            self.state.next_intent += 1;
            intents.push(Fact::CleanupRequested {
                lane: name,
                intent: intent.clone(),
                reason: "leg-end".into(),
            });
            waiting.push((lane, intent));
        }
        self.record(intents)?;
        let (tell, mut done) = mpsc::unbounded_channel();
        let mut waiting = waiting.into_iter();
        let mut running = 0;
        let mut late = None;
        loop {
            while running < self.state.slots
                && let Some((lane, intent)) = waiting.next()
            {
                let left = deadline.saturating_duration_since(tokio::time::Instant::now());
                let policy = sweep::policy(&self.stage, lane);
                let Some(request) = sweep::request(&self.stage, &self.state, lane, policy, left) else {
                    continue;
                };
                let (stage, tell) = (Rc::clone(&self.stage), tell.clone());
                tokio::task::spawn_local(async move {
                    let _ = tell.send(sweep::sweep(&stage, request, intent).await);
                });
                running += 1;
            }
            if running == 0 {
                return Ok(late);
            }
            tokio::select! {
                biased;
                Some(fact) = done.recv() => {
                    running -= 1;
                    self.record(vec![fact])?;
                }
                Some(ask) = self.asks.recv() => match ask {
                    Ask::Stop(reason) => late = late.or(Some(reason)),
                    Ask::Now => {}
                    Ask::Abandon(signal) => return Err(RunError::Abandoned { signal }),
                    Ask::Show => self.observer.show(),
                    Ask::Suspend => self.suspend().await,
                },
                else => return Ok(late),
            }
        }
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
