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
use crate::schedule::fault::{FaultClass, Scope};

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
    let open = |dir: &RunDir| {
        let leg = |_: &[Record]| (Leg(1), Generation(1));
        Journal::open(&dir.events(), leg, Mask::default(), Default::default()).unwrap().0
    };
    run_over(nodes, seams, open)
}

fn run_over(
    nodes: &str,
    seams: Seams,
    open: impl FnOnce(&RunDir) -> Journal,
) -> (Result<LegReport, RunError>, Vec<Fact>) {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("name: x\nnodes:\n{nodes}");
    let graph = load("g.yaml", &text, &|_| None, Trust::Reviewed).unwrap().graph;
    let run_id = RunId::from("r1");
    let dir = RunDir::new(folder.path(), &run_id);
    let file = RunFile {
        selection: None,
        planned: false,
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
    let journal = open(&dir);
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
        is_short_of_space: Default::default(),
        installs: Default::default(),
        installing: Default::default(),
        readers: Rc::new(tokio::sync::Semaphore::new(1)),
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
        gates: Vec::new(),
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

/// A disk that loses what was not synced, and one from which the sync was taken out.
#[derive(Clone, Default)]
struct Disk {
    durable: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
    pending: Vec<u8>,
    ignores_syncs: bool,
}

impl crate::journal::Store for Disk {
    fn append(&mut self, lines: &[u8], durable: bool) -> std::io::Result<()> {
        self.pending.extend(lines);
        if durable && !self.ignores_syncs {
            self.durable.lock().unwrap().append(&mut self.pending);
        }
        Ok(())
    }
}

/// Starts jobs, and takes note of those whose intent the loss of power would lose.
struct Witness {
    spawner: Scripted,
    disk: Disk,
    unannounced: RefCell<Vec<String>>,
}

impl Spawner for Witness {
    fn start(&self, spec: JobSpec) -> Job {
        let durable = String::from_utf8(self.disk.durable.lock().unwrap().clone()).unwrap();
        let is_announced = durable
            .lines()
            .any(|line| line.contains("dispatch.requested") && line.contains(&format!("\"{}\"", spec.job)));
        if !is_announced {
            self.unannounced.borrow_mut().push(spec.job.clone());
        }
        self.spawner.start(spec)
    }

    fn adopt(&self, job: &str) -> Option<Job> {
        self.spawner.adopt(job)
    }

    fn inherited(&self) -> Vec<crate::process::protocol::Inherited> {
        self.spawner.inherited()
    }

    fn ask(&self) -> tokio::sync::oneshot::Receiver<()> {
        self.spawner.ask()
    }

    fn abandon(&self) {}

    fn end(&self, job: &str, now: bool) {
        self.spawner.end(job, now);
    }

    fn pause(&self) -> tokio::sync::oneshot::Receiver<()> {
        self.spawner.pause()
    }

    fn go_on(&self, away: Duration) {
        self.spawner.go_on(away);
    }

    fn pauses(&self) -> &crate::process::pauses::Pauses {
        self.spawner.pauses()
    }

    fn lost(&self) -> Option<tokio::sync::oneshot::Receiver<()>> {
        None
    }
}

/// Returns the jobs that were started before their intent was durable.
fn unannounced(ignores_syncs: bool) -> Vec<String> {
    let disk = Disk { ignores_syncs, ..Disk::default() };
    let witness = Rc::new(Witness {
        spawner: Scripted::default(),
        disk: disk.clone(),
        unannounced: RefCell::default(),
    });
    let seams = Seams { spawner: Rc::<Witness>::clone(&witness), ..Seams::refusing() };
    let nodes = "- {id: a, run: x}\n- {id: b, run: x, depends_on: [a]}\n- {id: c, run: x}\n";
    let over = |_: &RunDir| Journal::over(Box::new(disk), Leg(1), Generation(1));
    let (report, _) = run_over(nodes, seams, over);
    assert_eq!(report.unwrap().status, RunStatus::Passed);
    witness.unannounced.take()
}

#[test]
fn nothing_begins_before_its_intent_is_durable_and_a_sync_that_is_left_out_is_noticed() {
    assert_eq!(unannounced(false), [""; 0]);
    assert_eq!(unannounced(true).len(), 3);
}

/// A supervisor that answers nothing, until it is done without.
#[derive(Default)]
struct Silent {
    pauses: crate::process::pauses::Pauses,
    held: RefCell<Vec<Box<dyn std::any::Any>>>,
    lost: RefCell<Option<tokio::sync::oneshot::Sender<()>>>,
}

impl Silent {
    fn never<T: 'static>(&self) -> tokio::sync::oneshot::Receiver<T> {
        let (tell, told) = tokio::sync::oneshot::channel();
        self.held.borrow_mut().push(Box::new(tell));
        told
    }
}

impl Spawner for Silent {
    fn start(&self, _: JobSpec) -> Job {
        Job { started: self.never(), ended: self.never() }
    }

    fn adopt(&self, _: &str) -> Option<Job> {
        None
    }

    fn inherited(&self) -> Vec<crate::process::protocol::Inherited> {
        Vec::new()
    }

    fn ask(&self) -> tokio::sync::oneshot::Receiver<()> {
        self.never()
    }

    fn abandon(&self) {
        self.held.borrow_mut().clear();
        drop(self.lost.borrow_mut().take());
    }

    fn end(&self, _: &str, _: bool) {}

    fn pause(&self) -> tokio::sync::oneshot::Receiver<()> {
        self.never()
    }

    fn go_on(&self, _: Duration) {}

    fn pauses(&self) -> &crate::process::pauses::Pauses {
        &self.pauses
    }

    fn lost(&self) -> Option<tokio::sync::oneshot::Receiver<()>> {
        let (tell, lost) = tokio::sync::oneshot::channel();
        *self.lost.borrow_mut() = Some(tell);
        Some(lost)
    }
}

#[test]
fn a_supervisor_that_answers_nothing_is_told_of_and_done_without() {
    let seams = Seams { spawner: Rc::new(Silent::default()), ..Seams::refusing() };
    let (report, facts) = run("- {id: a, run: x}\n", seams);
    let report = report.unwrap();
    assert_eq!((report.status, report.stop), (RunStatus::Interrupted, Some(StopReason::SupervisorLost)));
    let overdue = facts.iter().find_map(|fact| match fact {
        Fact::ActOverdue { act, of, next, .. } => Some((act.as_str(), of.as_str(), next.as_str())),
        _ => None,
    });
    assert_eq!(overdue, Some(("dispatch", "a", "ask-supervisor")));
    assert_eq!(end_of(&facts, "a"), Some((EndState::Interrupted, Some(Scope::Infra))));
}

/// An agent that writes nothing is ended once it has been silent for far longer than any that gave a reply.
#[test]
fn an_agent_that_is_silent_for_far_too_long_is_ended_and_begun_again() {
    let spawner = Rc::new(Scripted::new(Vec::new()));
    let seams = Seams { spawner: Rc::<Scripted>::clone(&spawner), ..Seams::refusing() };
    let mut nodes = String::new();
    for at in 0..3 {
        nodes.push_str(&format!("- {{id: a{at}, prompt: slow, timeout: 10h}}\n"));
    }
    nodes.push_str("- {id: lost, prompt: hang, timeout: 10h, depends_on: [a0, a1, a2]}\n");
    nodes.push_str("runtime: mine\nruntimes: {mine: {command: [/bin/sh], prompt: arg}}\n");
    let (report, facts) = run(&nodes, seams);
    assert_eq!(report.unwrap().status, RunStatus::Blocked);
    let classes: Vec<FaultClass> = facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::AttemptFinished { fault: Some(fault), .. } => Some(fault.class),
            _ => None,
        })
        .collect();
    assert_eq!(classes, [FaultClass::ProviderIndeterminate; 3], "once, and two free repeats");
}
