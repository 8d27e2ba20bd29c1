//! The loop: what happened → what follows → durable → done.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::perform::Stage;
use super::signals::Ask;
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
    let mut settled = driver.take(vec![Event::LegStarted(Box::new(start))])?;
    let mut lost = driver.stage.seams.spawner.lost();
    let mut overdue = Overdue::default();
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
                events.extend(overdue.look(&driver.state, &driver.stage.file.graph, pauses));
            }
        }
        while let Ok(event) = driver.answers.try_recv() {
            events.push(event);
        }
        settled = driver.take(events)?;
    }
    let late = driver.clean_up().await?;
    let status = driver.state.status();
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
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::graph::model::{OnFail, ProvisionWhen};
    use crate::graph::{Trust, load};
    use crate::ids::{Generation, Leg, RunId};
    use crate::journal::mask::Mask;
    use crate::journal::{Record, RunDir, RunFile};
    use crate::process::fake::Scripted;
    use crate::process::protocol::{JobExit, JobSpec};
    use crate::process::{Job, Spawner};
    use crate::run::Seams;
    use crate::schedule::fact::EndState;
    use crate::schedule::fault::Scope;

    #[derive(Default)]
    struct Quiet(RefCell<Vec<Fact>>);

    impl Observer for Quiet {
        fn recorded(&self, record: &Record, _: &str) {
            self.0.borrow_mut().push(record.fact.clone());
        }

        fn warn(&self, _: &str) {}
    }

    /// Drives a graph without lanes over `seams`; no process, no git.
    fn run(nodes: &str, seams: Seams) -> (Result<LegReport, RunError>, Vec<Fact>) {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("name: x\nnodes:\n{nodes}");
        let graph = load("g.yaml", &text, &|_| None, Trust::Reviewed).unwrap().graph;
        let run_id = RunId::from("r1");
        let dir = RunDir::new(folder.path(), &run_id);
        let file = RunFile {
            selection: None,
            schema: 1,
            run_id,
            created_at: jiff::Timestamp::UNIX_EPOCH,
            build: "test".into(),
            graph_path: "g.yaml".into(),
            graph_sha256: String::new(),
            inputs: Default::default(),
            folder: folder.path().into(),
            repository: None,
            pass_env: Vec::new(),
            graph,
        };
        crate::run::leg::create(&dir, &file).unwrap();
        let (journal, _) =
            Journal::open(&dir.events(), |_| (Leg(1), Generation(1)), Mask::default(), Default::default())
                .unwrap();
        let (names, state) = (Names::of(&file.graph), RunState::new(&file.graph));
        let (tell, answers) = mpsc::unbounded_channel();
        let (tell_panic, panics) = mpsc::unbounded_channel();
        let (_asks, asks) = mpsc::unbounded_channel();
        let observer = Rc::new(Quiet::default());
        let stage = Rc::new(Stage {
            file: Rc::new(file),
            dir,
            parent: Default::default(),
            seams,
            repository: None,
            answers: tell,
            panics: tell_panic,
            observer: Rc::<Quiet>::clone(&observer),
            cache_lock: folder.path().join("lock"),
            ended: Default::default(),
            acquiring: Default::default(),
            jobs: Default::default(),
            provisioned: Default::default(),
            versions: Default::default(),
            learned: "/nowhere".into(),
            lanes: Default::default(),
        });
        let driver = Driver {
            stage,
            journal,
            state,
            names,
            answers,
            panics,
            asks,
            observer: Rc::<Quiet>::clone(&observer),
        };
        let start = LegStart {
            format: 1,
            leg: Leg(1),
            generation: Generation(1),
            concurrency: 2,
            on_fail: OnFail::Continue,
            provision_when: ProvisionWhen::RunStart,
            lanes_that_fit: 0,
            retry_failed: false,
            retry_blocked: false,
            unfit: Vec::new(),
            learned: Vec::new(),
            seen: Vec::new(),
            pid: 1,
            build: "test".into(),
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let local = tokio::task::LocalSet::new();
        let report = local.block_on(&runtime, drive(driver, start));
        (report, observer.0.take())
    }

    fn end_of(facts: &[Fact], id: &str) -> Option<(EndState, Option<Scope>)> {
        facts.iter().find_map(|fact| match fact {
            Fact::NodeFinished { node, state, fault, .. } if node.as_str() == id => {
                Some((*state, fault.as_ref().map(|fault| fault.scope)))
            }
            _ => None,
        })
    }

    #[test]
    fn a_graph_runs_over_a_scripted_spawner() {
        let failing = JobExit { code: Some(3), ..JobExit::default() };
        let spawner = Rc::new(Scripted::new(vec![("bad".into(), failing)]));
        let seams = Seams { spawner: Rc::<Scripted>::clone(&spawner), ..Seams::refusing() };
        let nodes = "- {id: a, run: good}\n- {id: b, run: bad, depends_on: [a]}\n- {id: t, run: hang, timeout: 1h, depends_on: [a]}\n";
        let (report, facts) = run(nodes, seams);
        assert_eq!(report.unwrap().status, RunStatus::Failed);
        assert_eq!(spawner.started(), ["sh -c good", "sh -c bad", "sh -c hang"]);
        assert_eq!(end_of(&facts, "a"), Some((EndState::Passed, None)));
        assert_eq!(end_of(&facts, "b"), Some((EndState::Failed, Some(Scope::Task))));
        assert_eq!(end_of(&facts, "t"), Some((EndState::Failed, Some(Scope::Task))));
    }

    #[test]
    fn what_nothing_stands_behind_is_never_a_nodes_fault() {
        let (report, facts) = run("- {id: a, run: x}\n", Seams::refusing());
        assert_eq!(report.unwrap().status, RunStatus::Blocked);
        assert_eq!(end_of(&facts, "a"), Some((EndState::Blocked, Some(Scope::Infra))));
    }

    #[derive(Default)]
    struct Panicking(crate::process::pauses::Pauses);

    impl Spawner for Panicking {
        fn start(&self, _: JobSpec) -> Job {
            panic!("an actuator broke")
        }

        fn adopt(&self, _: &str) -> Option<Job> {
            None
        }

        fn inherited(&self) -> Vec<crate::process::protocol::Inherited> {
            Vec::new()
        }

        fn ask(&self) -> tokio::sync::oneshot::Receiver<()> {
            tokio::sync::oneshot::channel().1
        }

        fn abandon(&self) {}

        fn end(&self, _: &str, _: bool) {}

        fn pause(&self) -> tokio::sync::oneshot::Receiver<()> {
            tokio::sync::oneshot::channel().1
        }

        fn go_on(&self, _: Duration) {}

        fn pauses(&self) -> &crate::process::pauses::Pauses {
            &self.0
        }

        fn lost(&self) -> Option<tokio::sync::oneshot::Receiver<()>> {
            None
        }
    }

    #[test]
    fn an_actuator_that_panics_ends_the_leg_as_our_bug() {
        let seams = Seams { spawner: Rc::new(Panicking::default()), ..Seams::refusing() };
        let (report, _) = run("- {id: a, run: x}\n", seams);
        assert!(matches!(report, Err(RunError::Bug(_))));
    }
}
