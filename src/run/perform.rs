//! One action, one actuator. Each answers with one event that echoes its intent.
#![expect(clippy::disallowed_methods, reason = "reads results and hands folders to jobs")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::rc::Rc;

use tokio::sync::{mpsc, oneshot};

use super::environment::Place;
use super::freshness::InLeg;
use super::{Observer, RunDir, Seams};
use crate::cleanup::Policy;
use crate::graph::Graph;
use crate::graph::model::{NodeKind, Template};
use crate::graph::template::Quote;
use crate::ids::{IntentId, LaneIx, NodeIx};
use crate::journal::RunFile;
use crate::process::client::{end_of, start_of};
use crate::process::environment::Environment;
use crate::process::protocol::{JobExit, JobSpec, Text};
use crate::process::{JobEnd, JobStart};
use crate::provision::apply;
use crate::provision::tools::Versions;
use crate::readiness::judge::{Amount, MARGIN, lanes_that_fit};
use crate::schedule::action::{Brief, Called};
use crate::schedule::event::AcquiredLane;
use crate::schedule::fault::Exit;
use crate::schedule::state::{LaneRecord, MadeLane};
use crate::schedule::{Action, Event, Fact, Fault, FaultClass};
use crate::worktree::{AcquireClass, AcquireFault, How, LaneHistory, LaneRequest, Repository, Worktrees};

/// What the actuators of a leg work with.
pub struct Stage {
    /// What the run is.
    pub file: Rc<RunFile>,
    /// Its folder.
    pub dir: RunDir,
    /// What every child starts from: [`Environment::for_child`] of what omg itself was started with.
    pub parent: Environment,
    /// The ways into the world.
    pub seams: Seams,
    /// The repository; there is one where the graph has lanes.
    pub repository: Option<Repository>,
    /// Where answers go.
    pub answers: mpsc::UnboundedSender<Event>,
    /// Where a panic of an actuator is told: its act will have no answer.
    pub panics: mpsc::UnboundedSender<String>,
    /// Who is told what is no fact.
    pub observer: Rc<dyn Observer>,
    /// The lock for installs that may not run side by side.
    pub cache_lock: std::path::PathBuf,
    /// Acts that were asked to end, also where they had no job yet.
    pub ended: RefCell<BTreeSet<IntentId>>,
    /// Lanes that are being made.
    pub acquiring: RefCell<BTreeSet<IntentId>>,
    /// The job in which an act is now.
    pub jobs: RefCell<BTreeMap<IntentId, String>>,
    /// How each lane was provisioned in this leg.
    pub provisioned: RefCell<BTreeMap<LaneIx, InLeg>>,
    /// Versions of programs, as read in this leg.
    pub versions: Versions,
    /// The file of what installations took.
    pub learned: std::path::PathBuf,
    /// Whether not all lanes of this leg fit on the disk: each is measured before it is made.
    pub is_short_of_space: std::cell::Cell<bool>,
    /// How many installations have begun.
    pub installs: std::cell::Cell<u64>,
    /// How many of them are under way.
    pub installing: std::cell::Cell<u32>,
    /// Whose turn it is to read what an agent told.
    pub readers: Rc<tokio::sync::Semaphore>,
    /// The lanes that were made.
    pub lanes: RefCell<Vec<Option<MadeLane>>>,
}

/// How long a supervisor has for saying that it lives.
const SUPERVISOR_ANSWERS: std::time::Duration = std::time::Duration::from_secs(60);

impl Stage {
    pub(super) fn graph(&self) -> &Graph {
        &self.file.graph
    }

    pub(super) fn answer(&self, event: Event) {
        // The loop may be over already; then nobody waits for this.
        let _ = self.answers.send(event);
    }

    /// Returns whether an act was asked to end; it then starts nothing more.
    pub(super) fn is_ended(&self, intent: &IntentId) -> bool {
        self.ended.borrow().contains(intent)
    }

    /// Returns what is asked of a lane, with what the journal knows of it.
    pub fn lane_request(&self, lane: LaneIx, record: &LaneRecord) -> Option<LaneRequest> {
        let repository = self.file.repository.as_ref()?;
        let name = &self.graph().lane(lane).name;
        Some(LaneRequest {
            run: self.file.run_id.clone(),
            lane: name.clone(),
            path: repository.path_of(name),
            branch: repository.branch_of(&self.file.run_id, name),
            base: repository.base_of(name).clone(),
            history: LaneHistory {
                branch_made_by_run: record.branch_made,
                kept_by_earlier_leg: record.branch_kept,
                acquire_open: record.acquire_open,
            },
        })
    }

    /// Does one action. Returns at once; the answer comes as an event.
    ///
    /// `record` is the state's record of the action's lane. `Settled` is the loop's own.
    pub fn perform(self: &Rc<Stage>, action: Action, record: impl Fn(LaneIx) -> LaneRecord) {
        match action {
            Action::Acquire { intent, lane, fresh } => self.acquire(intent, lane, fresh, &record(lane)),
            Action::Overlay { intent, lane } => {
                let stage = Rc::clone(self);
                self.act(async move { stage.overlay(intent, lane).await });
            }
            Action::Provision { intent, lane, number } => {
                let (stage, record) = (Rc::clone(self), record(lane));
                self.act(async move { stage.provision(intent, lane, number, record).await });
            }
            Action::Dispatch { intent, node, attempt, despite_inputs, brief } => {
                let stage = Rc::clone(self);
                self.act(async move { stage.dispatch(intent, node, attempt, despite_inputs, &brief).await });
            }
            Action::Adopt { intent, node, attempt, job, called } => {
                // At once: its end may be asked for next.
                self.jobs.borrow_mut().insert(intent.clone(), job.to_string());
                let stage = Rc::clone(self);
                self.act(async move { stage.adopt(intent, node, attempt, job, called).await });
            }
            Action::Sweep { intent, lane, ignored_is_needed } => {
                let (stage, record) = (Rc::clone(self), record(lane));
                self.act(async move { stage.sweep_early(intent, lane, record, ignored_is_needed).await });
            }
            Action::AskSupervisor => {
                let stage = Rc::clone(self);
                self.act(async move {
                    let spawner = &stage.seams.spawner;
                    if tokio::time::timeout(SUPERVISOR_ANSWERS, spawner.ask()).await.is_err() {
                        spawner.abandon();
                    }
                });
            }
            Action::Verify { intent, node, attempt, is_followed, feedback } => {
                let stage = Rc::clone(self);
                self.act(async move { stage.verify(intent, node, attempt, is_followed, feedback).await });
            }
            Action::End { intent, now } => {
                self.ended.borrow_mut().insert(intent.clone());
                if self.acquiring.borrow().contains(&intent) {
                    self.seams.worktrees.stop(now);
                }
                let job = self.jobs.borrow().get(&intent).cloned();
                if let Some(job) = job {
                    self.seams.spawner.end(&job, now);
                }
            }
            Action::Arm { timer, after } => {
                let stage = Rc::clone(self);
                self.act(async move {
                    let pauses = stage.seams.spawner.pauses();
                    pauses.wait(&pauses.deadline(after)).await;
                    stage.answer(Event::TimerFired(timer));
                });
            }
            Action::Settled => {}
        }
    }

    /// Runs an actuator beside the loop, and tells the loop where it panics.
    fn act(self: &Rc<Stage>, actuator: impl Future<Output = ()> + 'static) {
        let running = tokio::task::spawn_local(actuator);
        let stage = Rc::clone(self);
        tokio::task::spawn_local(async move {
            if let Err(error) = running.await
                && error.is_panic()
            {
                let _ = stage.panics.send(error.to_string());
            }
        });
    }

    fn acquire(self: &Rc<Stage>, intent: IntentId, lane: LaneIx, fresh: Option<bool>, record: &LaneRecord) {
        let (Some(request), Some(repository)) = (self.lane_request(lane, record), self.repository.clone())
        else {
            let fault = Fault::new(FaultClass::Bug, "a lane without a repository");
            return self.answer(Event::NotAcquired { intent, fault });
        };
        let worktrees = std::sync::Arc::clone(&self.seams.worktrees);
        let measures = self.is_short_of_space.get();
        self.acquiring.borrow_mut().insert(intent.clone());
        let sweeper = std::sync::Arc::clone(&self.seams.sweeper);
        let look = super::sweep::request_of(self, record, lane, Policy::Safe, true, super::sweep::SWEEP_TIME);
        let stage = Rc::clone(self);
        self.act(async move {
            let wanted = request.clone();
            let made = tokio::task::spawn_blocking(move || {
                let mut request = request;
                if measures {
                    enough_room(&*worktrees, &repository, &request)?;
                }
                let mut set_aside = None;
                if let Some(anew) = fresh {
                    let holds_work =
                        || look.as_ref().is_none_or(|look| sweeper.holds_work(&repository, look));
                    set_aside = worktrees.retire(&repository, &request, anew, &holds_work)?;
                    if anew {
                        request.history = request.history.anew();
                    }
                }
                worktrees.acquire(&repository, &request).map(|made| (made, set_aside))
            })
            .await;
            stage.acquiring.borrow_mut().remove(&intent);
            let event = match made {
                Ok(Ok((made, set_aside))) => {
                    let lane_made = MadeLane {
                        path: made.path.clone(),
                        branch: wanted.branch.clone(),
                        base: wanted.base.clone(),
                        git_dir: made.git_dir.clone(),
                    };
                    stage.lanes.borrow_mut()[lane.at()] = Some(lane_made);
                    let how = match made.how {
                        How::Created => "created",
                        How::Reattached => "reattached",
                        How::Reused => "reused",
                        How::Finished => "finished",
                    };
                    Event::Acquired {
                        intent,
                        lane: AcquiredLane {
                            how: how.into(),
                            path: made.path,
                            branch: wanted.branch,
                            base: wanted.base,
                            branch_made: made.branch_made,
                            git_dir: made.git_dir,
                            set_aside,
                        },
                    }
                }
                Ok(Err(fault)) => {
                    let class = acquire_class(fault.class);
                    let detail = format!("{} ({})", fault.detail, fault.hint);
                    Event::NotAcquired { intent, fault: Fault::new(class, detail) }
                }
                Err(error) => {
                    Event::NotAcquired { intent, fault: Fault::new(FaultClass::Bug, error.to_string()) }
                }
            };
            stage.answer(event);
        });
    }

    /// Judges a lane that nobody needs any more, where others wait for its place on the disk.
    async fn sweep_early(
        self: &Rc<Stage>,
        intent: IntentId,
        lane: LaneIx,
        record: LaneRecord,
        ignored_is_needed: bool,
    ) {
        let (policy, time) = (super::sweep::policy(self, lane), super::sweep::SWEEP_TIME);
        let request = super::sweep::request_of(self, &record, lane, policy, ignored_is_needed, time);
        let fact = match request {
            Some(request) => super::sweep::sweep(self, request, intent.clone()).await,
            None => return,
        };
        if let Fact::CleanupPerformed { cleanup, .. } = fact {
            self.lanes.borrow_mut()[lane.at()] = None;
            self.provisioned.borrow_mut().remove(&lane);
            self.answer(Event::Swept { intent, cleanup });
        }
    }

    pub(super) fn place<'a>(&'a self, lanes: &'a [Option<MadeLane>], feedback: Option<&'a str>) -> Place<'a> {
        Place { file: &self.file, dir: &self.dir, parent: &self.parent, lanes, feedback }
    }

    async fn dispatch(
        &self,
        intent: IntentId,
        node: NodeIx,
        attempt: u32,
        despite_inputs: bool,
        brief: &Brief,
    ) {
        if let Some(reason) = self.not_overlaid(node) {
            return self.answer(Event::LaneStale { intent, reason, overlay_gone: true });
        }
        if let Some(stale) = self.not_fit(node).await
            && !(stale.tree_holds() && despite_inputs)
        {
            return self.answer(stale.told(intent));
        }
        let spec = match self.node_spec(&intent, node, attempt, brief) {
            Ok(spec) => spec,
            Err(exit) => {
                return self.answer(Event::Exited { intent, exit: *exit, leftovers: Vec::new() });
            }
        };
        if self.is_ended(&intent) {
            return self.answer(Event::Exited { intent, exit: never_begun(), leftovers: Vec::new() });
        }
        self.jobs.borrow_mut().insert(intent.clone(), spec.job.clone());
        let job = self.seams.spawner.start(spec);
        match start_of(job.started).await {
            JobStart::Started { pid, start_time } => {
                self.answer(Event::Started { intent: intent.clone(), pid, start_time });
            }
            JobStart::NotStarted { reason, disk_full } => {
                let exit = Exit { not_started: Some(reason), disk_full, ..Exit::default() };
                return self.answer(Event::Exited { intent, exit, leftovers: Vec::new() });
            }
            JobStart::SupervisorLost => {
                return self.answer(Event::Exited { intent, exit: lost(), leftovers: Vec::new() });
            }
        }
        let called = Called::of(brief.runtime.as_ref(), brief.session.as_ref());
        self.see_end(intent, node, attempt, &called, job.ended).await;
    }

    /// Takes over a node that lives under a supervisor which outlived its runner.
    async fn adopt(&self, intent: IntentId, node: NodeIx, attempt: u32, job: IntentId, called: Called) {
        match self.seams.spawner.adopt(job.as_str()) {
            Some(job) => self.see_end(intent, node, attempt, &called, job.ended).await,
            None => self.answer(Event::Exited { intent, exit: lost(), leftovers: Vec::new() }),
        }
    }

    /// Tells of the end of a node's process once it comes.
    async fn see_end(
        &self,
        intent: IntentId,
        node: NodeIx,
        attempt: u32,
        called: &Called,
        ended: oneshot::Receiver<JobEnd>,
    ) {
        let end = end_of(ended).await;
        self.jobs.borrow_mut().remove(&intent);
        let (exit, leftovers) = match end {
            JobEnd::Exited(exit) => {
                (self.exit_of_attempt(node, attempt, called, &exit).await, exit.leftovers)
            }
            JobEnd::SupervisorLost => (lost(), Vec::new()),
        };
        self.answer(Event::Exited { intent, exit, leftovers });
    }

    /// Returns how an attempt's process ended, and what its checks that need no process say. Of an agent, the reply
    /// is the node's result on return, durably.
    pub(super) async fn exit_of_attempt(
        &self,
        node: NodeIx,
        attempt: u32,
        called: &Called,
        exit: &JobExit,
    ) -> Exit {
        let id = &self.graph().node(node).id;
        let missing = matches!(exit.code, Some(126 | 127));
        let hint = missing.then(|| last_line(&self.dir.attempt_log(id, attempt))).flatten();
        if self.graph().agent(node).is_some() {
            return match self.agent_exit(node, attempt, called, exit).await {
                Ok(exit) => Exit { hint, ..exit },
                Err(error) => {
                    let full =
                        matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
                    let plain = exit_of(exit, None, Some(error.to_string()));
                    Exit { disk_full: plain.disk_full || full, ..plain }
                }
            };
        }
        super::agent::keep_round(&self.dir, self.graph(), node, attempt);
        exit_of(exit, result_matches(self.graph(), node, &self.dir.result(id)), hint)
    }

    fn node_spec(
        &self,
        intent: &IntentId,
        node: NodeIx,
        attempt: u32,
        brief: &Brief,
    ) -> Result<JobSpec, Box<Exit>> {
        let spec = match &self.graph().node(node).kind {
            NodeKind::Command { run } => self.command_spec(intent, node, attempt, run, brief),
            NodeKind::Agent(agent) => return self.agent_spec(intent, node, attempt, agent, brief),
            NodeKind::Gate => Err("a gate runs nothing".into()),
        };
        spec.map_err(|reason| Box::new(Exit { not_started: Some(reason), ..Exit::default() }))
    }

    fn command_spec(
        &self,
        intent: &IntentId,
        node: NodeIx,
        attempt: u32,
        run: &Template,
        brief: &Brief,
    ) -> Result<JobSpec, String> {
        let graph = self.graph();
        let this = graph.node(node);
        let findings = self.feedback(brief.feedback);
        let lanes = self.lanes.borrow();
        let place = self.place(&lanes, findings.as_deref());
        let line = place.render(node, run, Quote::Shell, &read_result).map_err(|error| error.to_string())?;
        let mut environment =
            place.of_node(node, attempt, intent.as_str(), &read_result).map_err(|error| error.to_string())?;
        self.add_variables_of_installation(node, &mut environment);
        Ok(JobSpec {
            job: intent.to_string(),
            argv: shell_argv(graph, &line),
            cwd: place.folder(node, None, &read_result).map_err(|error| error.to_string())?,
            environment,
            stdin: None,
            log: self.dir.attempt_log(&this.id, attempt),
            stdout: None,
            result: Some(self.dir.result(&this.id)),
            direct: true,
            record: Some(self.dir.exits()),
            output_max: this.output_max,
            grace_ms: this.grace.as_millis() as u64,
        })
    }
}

/// Returns whether a lane that is not there fits beside what is kept free for logs and the journal.
///
/// Errors: it does not. What can't be measured is tried.
fn enough_room(
    worktrees: &dyn Worktrees,
    repository: &Repository,
    request: &LaneRequest,
) -> Result<(), AcquireFault> {
    if request.path.is_dir() {
        return Ok(());
    }
    let (Ok(takes), Ok(room)) =
        (worktrees.footprint(repository, &request.base), worktrees.room(&request.path))
    else {
        return Ok(());
    };
    let lane = Amount { bytes: takes.bytes, inodes: takes.inodes };
    match lanes_that_fit(&[lane], Amount { bytes: room.bytes, inodes: room.inodes }) {
        0 => Err(AcquireFault {
            class: AcquireClass::DiskFull,
            detail: format!(
                "lane `{}` needs {} MiB, and {} MiB are free, of which {} are left for logs and the journal",
                request.lane,
                lane.bytes.div_ceil(1 << 20),
                room.bytes >> 20,
                MARGIN.bytes >> 20
            ),
            hint: "make room, then resume".into(),
        }),
        _ => Ok(()),
    }
}

pub(super) fn shell_argv(graph: &Graph, line: &str) -> Vec<Text> {
    graph.parts().shell.iter().map(String::as_str).chain([line]).map(Text::from).collect()
}

/// An act whose supervisor is gone: its leader died with it.
fn lost() -> Exit {
    Exit { ended_by_us: true, signal: Some(9), ..Exit::default() }
}

/// An act that was ended before its process began.
fn never_begun() -> Exit {
    Exit { ended_by_us: true, ..Exit::default() }
}

fn acquire_class(class: AcquireClass) -> FaultClass {
    match class {
        AcquireClass::AcquireFailed => FaultClass::WorktreeAcquireFailed,
        AcquireClass::LaneRefused => FaultClass::LaneRefused,
        AcquireClass::LaneBranchGone => FaultClass::LaneBranchGone,
        AcquireClass::DiskFull => FaultClass::DiskFull,
        AcquireClass::Bug => FaultClass::Bug,
    }
}

/// Returns a job's end as the scheduler judges it.
pub fn exit_of(exit: &JobExit, result_matches: Option<bool>, hint: Option<String>) -> Exit {
    Exit {
        code: exit.code,
        signal: exit.signal,
        not_started: None,
        ended_by_us: exit.ended_by_us,
        output_overflow: exit.output_overflow,
        disk_full: exit.disk_full,
        result_matches,
        hint,
        survivors: exit.survivors.clone(),
        told: None,
        missing: false,
    }
}

/// Returns what a node's `result_matches` says of the result at `path`; `None` where it has none.
pub fn result_matches(graph: &Graph, node: NodeIx, path: &Path) -> Option<bool> {
    let pattern = graph.node(node).check.result_matches.as_ref()?;
    let result = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    Some(regex::Regex::new(pattern).is_ok_and(|regex| regex.is_match(&result)))
}

pub(super) fn read_result(path: &Path) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the end of a log: its last `max` bytes, from a line's start where that is within them.
pub(super) fn last_lines(path: &Path, max: u64) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let mut bytes = Vec::new();
    let Ok(mut file) = fs::File::open(path) else { return String::new() };
    let length = file.metadata().map_or(0, |found| found.len());
    let is_cut = length > max;
    if file.seek(SeekFrom::Start(length.saturating_sub(max))).is_err()
        || file.read_to_end(&mut bytes).is_err()
    {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match text.split_once('\n') {
        Some((_, rest)) if is_cut => rest.to_string(),
        Some(_) | None => text,
    }
}

fn last_line(log: &Path) -> Option<String> {
    let tail = apply::tail(log);
    tail.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_string)
}
