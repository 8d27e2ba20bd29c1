//! One leg from its claim to its end, for `run` and `resume` alike.
#![expect(clippy::disallowed_methods, reason = "looks which lanes are there")]

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{Refusal, exit};
use crate::cleanup::GitSweeper;
use crate::graph::Graph;
use crate::graph::model::{OnFail, ProvisionWhen};
use crate::ids::{CommitId, LaneIx, Leg};
use crate::journal::mask::Mask;
use crate::journal::replay::replay;
use crate::journal::runfile::RepositoryFile;
use crate::journal::store::Journal;
use crate::journal::{Record, RunDir, RunFile};
use crate::process::client::Supervisor;
use crate::process::protocol::Welcome;
use crate::process::spawn::own_program;
use crate::process::survivors::{Late, end_survivors, outlive_supervisor};
use crate::provision::learned::Learned;
use crate::readiness::judge::{Amount, MARGIN, lanes_that_fit};
use crate::run::driver::{Driver, LegReport, drive};
use crate::run::environment::of_git;
use crate::run::perform::Stage;
use crate::run::seams::{Clock, Seams, SystemClock};
use crate::run::{Observer, RunError, leg, signals};
use crate::schedule::event::LegStart;
use crate::schedule::fact::{RunStatus, StopReason};
use crate::schedule::ready::{lanes_needed, nodes_needed};
use crate::schedule::state::{LaneRecord, Names, RunState};
use crate::settings::{Settings, cores};
use crate::worktree::{GitWorktrees, LaneHistory, LaneRequest, Repository, WorktreeError, Worktrees};

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

/// The lanes that a leg needs, and the room for them.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// What each takes, its installation not counted, in order of first mention.
    pub lanes: Vec<(LaneIx, Amount)>,
    /// What is free; `None` without lanes.
    pub free: Option<Amount>,
}

impl Space {
    /// Returns how many of the lanes fit at once, the first ones, with what installing into them took before. One
    /// whose tree alone fits is tried.
    pub fn lanes_that_fit(&self, learned: &[(LaneIx, Learned)]) -> usize {
        let Some(free) = self.free else { return 0 };
        let with_installation = |(lane, tree): &(LaneIx, Amount)| {
            let took = learned.iter().find(|(of, _)| of == lane).map(|(_, learned)| *learned);
            Amount {
                bytes: tree.bytes + took.map_or(0, |took| took.bytes),
                inodes: tree.inodes + took.map_or(0, |took| took.inodes),
            }
        };
        let amounts: Vec<Amount> = self.lanes.iter().map(with_installation).collect();
        lanes_that_fit(&amounts, free).max(usize::from(!amounts.is_empty()))
    }

    /// Returns what a person is told where not all fit.
    fn note(&self, fit: usize) -> Option<String> {
        let all = self.lanes.len();
        (fit < all).then(|| {
            format!("space for {fit} of {all} lanes at once; the others are prepared at their first use")
        })
    }
}

/// What has to be known before a leg may begin.
#[derive(Debug)]
pub struct Readiness {
    /// The lanes it needs, and the room for them.
    pub space: Space,
    /// Why not even one lane fits on the disk, where that is so.
    pub shortage: Option<super::Complaint>,
    /// What a person should know, one line each.
    pub notes: Vec<String>,
}

impl Readiness {
    /// Returns the room for the lanes. Errors: not even one fits; exit code 3.
    pub fn enough(self) -> Result<Space, Refusal> {
        match self.shortage {
            Some(complaint) => {
                Err(Refusal { exit: exit::BLOCKED, complaints: vec![complaint], problems: Vec::new() })
            }
            None => Ok(self.space),
        }
    }
}

/// Returns whether the lanes that a leg needs can be made, before anything of them is.
///
/// Errors: what stands in the way, with the lanes and nodes concerned; exit code 3.
pub fn readiness(
    worktrees: &dyn Worktrees,
    repository: &Repository,
    file: &RunFile,
    state: &RunState,
) -> Result<Readiness, Refusal> {
    let graph = &file.graph;
    let Some(of_run) = &file.repository else {
        return Ok(Readiness { space: Space::default(), shortage: None, notes: Vec::new() });
    };
    let needed = lanes_needed(graph, state);
    let requests: Vec<LaneRequest> = graph
        .lane_ixs()
        .filter(|ix| needed.contains(ix))
        .map(|ix| {
            let name = &graph.lane(ix).name;
            let record = state.lane(ix);
            LaneRequest {
                run: file.run_id.clone(),
                lane: name.clone(),
                path: of_run.path_of(name),
                branch: of_run.branch_of(&file.run_id, name),
                base: of_run.base_of(name).clone(),
                history: LaneHistory {
                    branch_made_by_run: record.branch_made,
                    kept_by_earlier_leg: record.branch_kept,
                    acquire_open: record.acquire_open,
                },
            }
        })
        .collect();
    let obstacles = worktrees.preflight(repository, &requests)?;
    if !obstacles.is_empty() {
        return Err(Refusal {
            exit: exit::BLOCKED,
            complaints: obstacles
                .into_iter()
                .map(|obstacle| super::Complaint {
                    message: format!(
                        "{}; needed by {}",
                        obstacle.message,
                        concerned(graph, state, &obstacle.lanes)
                    ),
                    hint: Some(obstacle.hint),
                })
                .collect(),
            problems: Vec::new(),
        });
    }
    let mut notes = Vec::new();
    // These looks only inform: where they fail, the run goes on.
    match worktrees.not_in_lanes(repository) {
        Ok(Some(rest)) => notes.push(not_in_lanes(rest.modified, rest.untracked)),
        Ok(None) => {}
        Err(error) => notes.push(format!("what of the checkout is not in the lanes is not known: {error}")),
    }
    if graph.parts().identity.is_none()
        && !requests.is_empty()
        && !worktrees.has_identity(repository).unwrap_or(true)
    {
        notes.push(
            "git does not know who commits here, so commits in lanes will fail: set user.name and user.email, or `identity` in the graph".into(),
        );
    }
    let names: Vec<crate::ids::LaneName> = requests.iter().map(|request| request.lane.clone()).collect();
    let mut amounts = Vec::new();
    let mut of_bases: Vec<(CommitId, Amount)> = Vec::new();
    for request in &requests {
        if request.path.is_dir() {
            amounts.push(Amount { bytes: 0, inodes: 0 });
            continue;
        }
        if let Some((_, known)) = of_bases.iter().find(|(base, _)| *base == request.base) {
            amounts.push(*known);
            continue;
        }
        let amount = match worktrees.footprint(repository, &request.base) {
            Ok(footprint) => Amount { bytes: footprint.bytes, inodes: footprint.inodes },
            Err(error) => {
                notes.push(format!("how much space lane {} needs is not known: {error}", request.lane));
                Amount { bytes: 0, inodes: 0 }
            }
        };
        of_bases.push((request.base.clone(), amount));
        amounts.push(amount);
    }
    let room = worktrees.room(&of_run.worktree_root)?;
    let free = Amount { bytes: room.bytes, inodes: room.inodes };
    let shortage = (lanes_that_fit(&amounts, free) == 0 && !amounts.is_empty()).then(|| super::Complaint {
            message: format!(
                "disk-full: too little space for even one lane at {}: {} MiB and {} inodes are free; a lane needs {} MiB and {}, and {} MiB and {} are left for logs and the journal",
                of_run.worktree_root.display(),
                free.bytes >> 20,
                free.inodes,
                amounts[0].bytes.div_ceil(1 << 20),
                amounts[0].inodes,
                MARGIN.bytes >> 20,
                MARGIN.inodes
            ) + &format!("; needed by {}", concerned(graph, state, &names)),
            hint: Some("make room, or move lanes with `--worktree-root`".into()),
        });
    let space = Space { lanes: needed.into_iter().zip(amounts).collect(), free: Some(free) };
    Ok(Readiness { space, shortage, notes })
}

/// Returns the folder of a run's lanes, where the user moved it out of the run's own, trees of lanes should be there,
/// and it is not: on a disk that is away, for one.
pub fn lanes_away<'a>(file: &'a RunFile, dir: &RunDir, state: &RunState) -> Option<&'a std::path::Path> {
    let root = &file.repository.as_ref()?.worktree_root;
    let has_tree = |lane: &LaneRecord| {
        lane.made.is_some() && lane.cleanup.as_ref().is_none_or(|cleanup| cleanup.tree == "kept")
    };
    let is_away = !root.starts_with(dir.root()) && !root.exists() && state.lanes.iter().any(has_tree);
    is_away.then_some(root.as_path())
}

/// Returns that a run without a journal never began. Errors: it did, and its journal is gone; exit code 3.
pub fn journal_is_there(dir: &RunDir, records: &[Record]) -> Result<(), Refusal> {
    if !records.is_empty() || !dir.exits().exists() {
        return Ok(());
    }
    Err(Refusal::new(
        exit::BLOCKED,
        format!("{}: it is empty or gone, and nodes have run", dir.events().display()),
        Some("bring it back: without it, what has passed would run again; lanes and results are where they were".into()),
    ))
}

/// Returns that the lanes of a run can be reached. Errors: they are away; exit code 3.
pub fn lanes_in_reach(file: &RunFile, dir: &RunDir, state: &RunState) -> Result<(), Refusal> {
    let Some(root) = lanes_away(file, dir, state) else { return Ok(()) };
    Err(Refusal::new(
        exit::BLOCKED,
        format!("the lanes of run `{}` are in {}, and that is not there", file.run_id, root.display()),
        Some(format!(
            "bring its disk back, then try again; if they are gone for good, `mkdir -p {}`",
            root.display()
        )),
    ))
}

/// Returns the repository of a run, found again where it was.
///
/// Errors: it is away, is another one now, or git does not work there; exit code 3.
pub fn find_again(worktrees: &dyn Worktrees, of_run: &RepositoryFile) -> Result<Repository, Refusal> {
    let common = &of_run.common_dir;
    let from = of_run.top.as_ref().filter(|top| top.is_dir()).unwrap_or(common);
    let found = worktrees.discover(from).map_err(|error| match error {
        WorktreeError::NotARepository { .. } => WorktreeError::Away { at: common.clone() },
        other => other,
    })?;
    if found.common_dir != *common {
        let message = format!(
            "{} is now of another repository, {}; this run is of {}",
            from.display(),
            found.common_dir.display(),
            common.display()
        );
        let hint = "move that one away and this one back, then try again; its lanes are where they were";
        return Err(Refusal::new(exit::BLOCKED, message, Some(hint.into())));
    }
    Ok(found)
}

fn concerned(graph: &Graph, state: &RunState, lanes: &[crate::ids::LaneName]) -> String {
    let nodes = nodes_needed(graph, state);
    let of = |name: &crate::ids::LaneName| {
        let ids: Vec<&str> = nodes
            .iter()
            .filter(|ix| graph.node(**ix).lane.is_some_and(|lane| graph.lane(lane).name == *name))
            .map(|ix| graph.node(*ix).id.as_str())
            .collect();
        format!("lane {name} ({})", ids.join(", "))
    };
    lanes.iter().map(of).collect::<Vec<_>>().join(", ")
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

/// Returns what is said of changes in the checkout; at least one of the numbers is not 0.
fn not_in_lanes(modified: usize, untracked: usize) -> String {
    let counts: Vec<String> = [(modified, "modified"), (untracked, "untracked")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let files = if modified + untracked == 1 { "file is" } else { "files are" };
    format!("{} {files} not in the lanes", counts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Trust, load};
    use crate::ids::{CommitId, RunId};
    use crate::worktree::fake::FakeWorktrees;
    use crate::worktree::{Footprint, Room};

    fn ready(room: Room) -> Result<Readiness, Refusal> {
        let text = "name: x\nidentity: {name: a, email: b}\nnodes:\n\
            - {id: a, worktree: l, run: x}\n- {id: b, worktree: m, run: x}\n";
        let graph = load("g.yaml", text, &|_| None, Trust::Reviewed).unwrap().graph;
        let base = CommitId::from("0".repeat(40));
        let file = RunFile {
            selection: None,
            planned: false,
            schema: 1,
            run_id: RunId::from("r1"),
            created_at: jiff::Timestamp::UNIX_EPOCH,
            build: BUILD.into(),
            graph_path: "g.yaml".into(),
            graph_sha256: String::new(),
            inputs: Default::default(),
            folder: "/".into(),
            repository: Some(RepositoryFile {
                top: None,
                common_dir: "/nowhere".into(),
                base,
                lane_bases: Default::default(),
                worktree_root: "/nowhere/lanes".into(),
                branch_template: "omg/{run}/{lane}".into(),
            }),
            pass_env: Vec::new(),
            graph,
        };
        let repository =
            Repository { top: None, git_dir: "/nowhere".into(), common_dir: "/nowhere".into(), bare: true };
        let mut worktrees = FakeWorktrees::default();
        worktrees.repository = Some(repository.clone());
        worktrees.footprint = Some(Footprint { bytes: 100 << 20, inodes: 10, exact: true });
        worktrees.room = Some(room);
        readiness(&worktrees, &repository, &file, &unborn(&file.graph))
    }

    #[test]
    fn lanes_that_do_not_fit_at_once_wait_for_their_first_use() {
        let ready = ready(Room { bytes: 200 << 20, inodes: u64::MAX }).unwrap();
        assert_eq!(ready.notes, [""; 0]);
        let space = ready.enough().unwrap();
        assert_eq!(space.lanes_that_fit(&[]), 1);
        let note = "space for 1 of 2 lanes at once; the others are prepared at their first use";
        assert_eq!(space.note(1).as_deref(), Some(note));
    }

    #[test]
    fn what_installing_took_before_counts_but_never_keeps_a_lane_from_being_tried() {
        let room = Room { bytes: 1 << 30, inodes: u64::MAX };
        let space = ready(room).unwrap().enough().unwrap();
        assert_eq!(space.lanes_that_fit(&[]), 2);
        let learned = |bytes| [0, 1].map(|lane| (LaneIx(lane), Learned { ms: 1, bytes, inodes: 1 }));
        assert_eq!(space.lanes_that_fit(&learned(600 << 20)), 1);
        assert_eq!(space.lanes_that_fit(&learned(6 << 30)), 1);
    }

    #[test]
    fn too_little_space_or_inodes_for_one_lane_blocks_before_anything_is_made() {
        for room in [Room { bytes: 1 << 20, inodes: u64::MAX }, Room { bytes: u64::MAX, inodes: 3 }] {
            let refusal = ready(room).unwrap().enough().unwrap_err();
            assert_eq!(refusal.exit, exit::BLOCKED);
            assert!(refusal.complaints[0].message.contains("disk-full: too little space for even one lane"));
        }
    }

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

    #[test]
    fn what_is_not_in_the_lanes_is_counted_without_noughts() {
        for (modified, untracked, expected) in [
            (3, 2, "3 modified, 2 untracked files are not in the lanes"),
            (0, 2, "2 untracked files are not in the lanes"),
            (1, 0, "1 modified file is not in the lanes"),
        ] {
            assert_eq!(not_in_lanes(modified, untracked), expected);
        }
    }
}
