//! One leg from its claim to its end, for `run` and `resume` alike.
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::ready::Space;
use super::{Refusal, exit};
use crate::cleanup::GitSweeper;
use crate::graph::Graph;
use crate::graph::model::{OnFail, ProvisionWhen};
use crate::ids::Leg;
use crate::journal::mask::Mask;
use crate::journal::replay::replay;
use crate::journal::store::Journal;
use crate::journal::{RunDir, RunFile};
use crate::process::client::Supervisor;
use crate::process::protocol::Welcome;
use crate::process::spawn::own_program;
use crate::process::survivors::{Late, end_survivors, outlive_supervisor};
use crate::run::driver::{Driver, LegReport, drive};
use crate::run::environment::of_git;
use crate::run::perform::Stage;
use crate::run::seams::{Clock, Seams, SystemClock};
use crate::run::{Observer, RunError, leg, signals};
use crate::schedule::event::LegStart;
use crate::schedule::fact::{RunStatus, StopReason};
use crate::schedule::state::{Names, RunState};
use crate::settings::{Settings, cores};
use crate::worktree::{GitWorktrees, Repository};

/// What built this program; part of every run's record.
pub const BUILD: &str = concat!("omg ", env!("CARGO_PKG_VERSION"));

/// What a user chose for one leg.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct LegOptions {
    /// Most processes at a time.
    pub concurrency: Option<std::num::NonZeroU32>,
    /// A failure prunes only what needed the failed node.
    pub keep_going: bool,
    /// When lanes are prepared.
    pub provision_when: Option<ProvisionWhen>,
    /// Open what failed again.
    pub retry_failed: bool,
    /// Open what is blocked again.
    pub retry_blocked: bool,
    /// What a person says of gates.
    #[serde(default)]
    pub gates: Vec<GateChoice>,
    /// Go on by itself when a provider's limit is over.
    #[serde(default)]
    pub wait: bool,
}

/// What a person says of a gate.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct GateChoice {
    /// The gate.
    pub gate: String,
    /// Whether it is passed.
    pub approved: bool,
    /// What they say beside that.
    pub note: Option<String>,
}

/// How a leg ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How the run stands.
    pub status: RunStatus,
    /// The code to end with.
    pub exit: i32,
    /// Why the leg was asked to stop, where it was.
    pub stop: Option<StopReason>,
}

/// Returns the exit code of a run that stands like this (DESIGN.md section 11).
pub fn exit_code(status: RunStatus, stop: Option<StopReason>) -> i32 {
    match (stop, status) {
        (Some(StopReason::Signal(signal)), _) => exit::SIGNAL + signal,
        (Some(StopReason::Cancel), _) | (None, RunStatus::Cancelled) => exit::SIGNAL + 15,
        (Some(StopReason::SupervisorLost), _) => exit::BLOCKED,
        (None, RunStatus::Passed | RunStatus::Running) => exit::OK,
        (None, RunStatus::Failed) => exit::FAILED,
        (None, RunStatus::Blocked | RunStatus::Interrupted) => exit::BLOCKED,
        (None, RunStatus::Paused) => exit::PAUSED,
    }
}

/// Returns a setting as DESIGN.md orders them: flag, variable, graph, file, default.
fn concurrency(settings: &Settings, graph: &Graph, flag: Option<std::num::NonZeroU32>) -> u32 {
    flag.or(settings.variables.concurrency)
        .or(graph.parts().concurrency)
        .or(settings.file.concurrency)
        .map_or_else(cores, std::num::NonZeroU32::get)
}

fn provision_when(settings: &Settings, graph: &Graph, flag: Option<ProvisionWhen>) -> ProvisionWhen {
    flag.or(settings.variables.provision_when)
        .or(graph.parts().provision.when)
        .or(settings.file.provision_when)
        .unwrap_or_default()
}

/// A run that is claimed and about to get a leg.
pub struct Claimed {
    /// What it is.
    pub file: RunFile,
    /// Its folder.
    pub dir: RunDir,
    /// The claim.
    pub claim: leg::Claim,
    /// Its repository.
    pub repository: Option<Repository>,
    /// The lanes it needs, and the room for them.
    pub space: Space,
    /// How the leg comes to its supervisor.
    pub link: Link,
}

/// How a leg comes to its supervisor.
#[derive(Debug)]
pub enum Link {
    /// It starts one, which ends its nodes when this process ends.
    Own,
    /// The supervisor started this process, and outlives it.
    Handed {
        /// The connection to it.
        stream: std::os::unix::net::UnixStream,
        /// What it told us.
        welcome: Welcome,
        /// Why the leg before was to stop, where it died before it had.
        stop: Option<StopReason>,
    },
}

/// Runs one leg of a claimed run to its end.
pub fn run_leg(
    settings: &Settings,
    claimed: Claimed,
    options: &LegOptions,
    observer: Rc<dyn Observer>,
) -> Result<Ended, Refusal> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Refusal::new(exit::BLOCKED, format!("no event loop: {error}"), None))?;
    let dir = claimed.dir.clone();
    let is_kept = matches!(claimed.link, Link::Handed { .. });
    let local = tokio::task::LocalSet::new();
    let outcome = local.block_on(&runtime, leg_inside(settings, claimed, options, observer));
    // Dropping what is left closes the lifeline, and with it whatever still runs.
    drop(local);
    runtime.shutdown_background();
    // Usually it is gone at once; where nodes take their grace, it ends them without us. One that started us
    // waits for our own end.
    let patience = if is_kept { Duration::ZERO } else { Duration::from_secs(2) };
    let _ = outlive_supervisor(dir.root(), patience, Late::Leave);
    signals::give_back();
    let report = outcome?;
    if report.stop == Some(StopReason::SupervisorLost) {
        // Nobody else looks after what the nodes had started.
        end_survivors(dir.root());
    }
    Ok(Ended { status: report.status, exit: exit_code(report.status, report.stop), stop: report.stop })
}

async fn leg_inside(
    settings: &Settings,
    claimed: Claimed,
    options: &LegOptions,
    observer: Rc<dyn Observer>,
) -> Result<LegReport, RunError> {
    let Claimed { file, dir, claim, repository, space, link } = claimed;
    let io = |path: &std::path::Path, source| RunError::Io { path: path.into(), source };
    let fence = claim.fence(&dir)?;
    let stop = match &link {
        Link::Own => None,
        Link::Handed { stop, .. } => *stop,
    };
    // Only who listens for signals is named as who may be sent one; until then a note is left.
    let named = || match &link {
        Link::Own => Ok(()),
        Link::Handed { .. } => claim.name_us(&dir),
    };
    let asks = signals::listen(&dir, stop, named).map_err(|error| io(dir.root(), error))?;
    let marked = of_git(&settings.environment, &file.run_id, &dir);
    let is_kept = matches!(link, Link::Handed { .. });
    let supervisor = match link {
        Link::Own => Supervisor::start(&own_program(), dir.root(), &marked, fence.clone()),
        Link::Handed { stream, welcome, .. } => {
            Supervisor::take_up(stream, welcome, settings.environment.clone(), fence.clone())
        }
    };
    let supervisor = Rc::new(supervisor.map_err(|error| io(dir.root(), error))?);
    let seams = Seams {
        spawner: Rc::<Supervisor>::clone(&supervisor),
        worktrees: Arc::new(GitWorktrees::passing(&marked, &file.pass_env).fenced(fence.clone())),
        sweeper: Arc::new(GitSweeper::new(&marked).fenced(fence.clone())),
        clock: Rc::new(SystemClock),
    };
    let mask = mask(settings, &file);
    let generation = claim.generation;
    let (journal, records) = Journal::open(
        &dir.events(),
        |records| (Leg(leg::last_leg(records).0 + 1), generation),
        mask,
        fence.clone(),
    )?;
    let names = Names::of(&file.graph);
    let state = replay(&file.graph, &names, &records)
        .map_err(|(seq, error)| RunError::Unfit { seq, reason: error.to_string() })?;
    let mut start = LegStart {
        format: crate::journal::record::FORMAT,
        leg: Leg(leg::last_leg(&records).0 + 1),
        generation,
        concurrency: concurrency(settings, &file.graph, options.concurrency),
        on_fail: if options.keep_going { OnFail::Continue } else { file.graph.parts().on_fail },
        provision_when: provision_when(settings, &file.graph, options.provision_when),
        lanes_that_fit: 0,
        retry_failed: options.retry_failed,
        retry_blocked: options.retry_blocked,
        unfit: Vec::new(),
        gates: super::gates::chosen(&file.graph, &options.gates),
        learned: Vec::new(),
        seen: Vec::new(),
        pid: std::process::id(),
        build: BUILD.into(),
    };
    let (answers, from_answers) = mpsc::unbounded_channel();
    let (panics, from_panics) = mpsc::unbounded_channel();
    let lanes = state.lanes.iter().map(|lane| lane.made.clone()).collect();
    let parent = settings.environment.for_child(&file.pass_env);
    let stage = Rc::new(Stage {
        file: Rc::new(file),
        dir: dir.clone(),
        parent,
        seams,
        repository,
        answers,
        panics,
        observer: Rc::clone(&observer),
        cache_lock: settings.home.join("locks/package-cache.lock"),
        ended: Default::default(),
        acquiring: Default::default(),
        jobs: Default::default(),
        provisioned: Default::default(),
        versions: Default::default(),
        learned: settings.home.join("provision-times.json"),
        is_short_of_space: Default::default(),
        installs: Default::default(),
        installing: Default::default(),
        readers: Rc::new(tokio::sync::Semaphore::new(crate::run::agent::READERS_MAX)),
        lanes: std::cell::RefCell::new(lanes),
    });
    start.seen = stage.look_at_open(&state).await;
    let learned;
    (start.unfit, learned) = stage.forecasts().await;
    start.lanes_that_fit = space.lanes_that_fit(&learned);
    if let Some(note) = space.note(start.lanes_that_fit) {
        observer.warn(&note);
        stage.is_short_of_space.set(true);
    }
    start.learned = learned.into_iter().map(|(lane, learned)| (lane, learned.ms)).collect();
    let driver =
        Driver { stage, journal, state, names, answers: from_answers, panics: from_panics, asks, observer };
    let report = drive(driver, start).await;
    if is_kept {
        supervisor.say_goodbye().await;
    }
    claim.release();
    report
}

/// Returns what is taken out of the journal and the terminal.
pub fn mask(settings: &Settings, file: &RunFile) -> Mask {
    let graph = &file.graph;
    let own = graph.parts().env.iter().chain(graph.nodes().iter().flat_map(|node| &node.env));
    let literals =
        own.filter(|(name, _)| crate::journal::mask::is_secret(name)).filter_map(|(_, template)| {
            match template.0.as_slice() {
                [crate::graph::model::Piece::Text(text)] => Some(text.clone()),
                [crate::graph::model::Piece::Input(name)] => file.inputs.get(name).cloned(),
                _ => None,
            }
        });
    Mask::of(&settings.environment.0, &file.pass_env).and(literals)
}

/// Returns the state of a run before its first leg.
pub fn unborn(graph: &Graph) -> RunState {
    RunState::new(graph)
}

/// Returns the present moment.
pub fn now() -> jiff::Timestamp {
    SystemClock.now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_comes_before_what_the_nodes_came_to() {
        for (status, stop, expected) in [
            (RunStatus::Passed, None, 0),
            (RunStatus::Failed, None, 1),
            (RunStatus::Blocked, None, 3),
            (RunStatus::Paused, None, 4),
            (RunStatus::Failed, Some(StopReason::Signal(2)), 130),
            (RunStatus::Passed, Some(StopReason::Signal(1)), 129),
            (RunStatus::Cancelled, Some(StopReason::Cancel), 143),
            (RunStatus::Interrupted, Some(StopReason::SupervisorLost), 3),
        ] {
            assert_eq!(exit_code(status, stop), expected, "{status:?} {stop:?}");
        }
    }
}
