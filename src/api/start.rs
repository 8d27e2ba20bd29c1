//! `omg run`: from a graph file to the end of its first leg.
#![expect(clippy::disallowed_methods, reason = "makes paths absolute")]

use std::path::{Path, PathBuf};
use std::rc::Rc;

use indexmap::IndexMap;
use sha2::{Digest, Sha256};

use super::leg::{BUILD, Claimed, Ended, GateChoice, LegOptions, Link, now, run_leg, unborn};
use super::lint::{Source, check, read, trust};
use super::programs;
use super::ready::{Space, readiness};
use super::{Complaint, Refusal, exit};
use crate::graph::model::NodeKind;
use crate::graph::select::{Part, Selection, select};
use crate::graph::{BUILT_IN_RUNTIMES, Graph, Loaded, Trust, bind_inputs};
use crate::ids::{RunId, hex, is_ref_part, sha256};
use crate::journal::runfile::{RepositoryFile, SCHEMA, SelectionFile};
use crate::journal::{RunDir, RunFile};
use crate::run::{Observer, RunError, leg};
use crate::runtime::Runtime;
use crate::settings::{BRANCH_TEMPLATE_DEFAULT, Settings};
use crate::worktree::{GitWorktrees, Repository, Worktrees};

/// What a user asks `omg run` for.
#[derive(Clone, Debug, Default)]
pub struct RunRequest {
    /// The graph file, as written.
    pub graph: PathBuf,
    /// Given inputs, in order.
    pub inputs: Vec<(String, String)>,
    /// The run's id, where the user names it.
    pub run_id: Option<String>,
    /// The base of lanes, over the graph's.
    pub base: Option<String>,
    /// Which nodes are run; all where nothing is named.
    pub selection: Selection,
    /// The graph is untrusted.
    pub planned: bool,
    /// Further variables that reach nodes.
    pub pass_env: Vec<String>,
    /// Where lanes live.
    pub worktree_root: Option<PathBuf>,
    /// What a person says of gates beforehand.
    pub gates: Vec<GateChoice>,
    /// What runs every agent, instead of what the graph says.
    pub runtime: Option<String>,
}

/// A run that is checked and ready to be made; nothing of it exists yet.
#[derive(Debug)]
pub struct Prepared {
    /// What it will be.
    pub file: RunFile,
    /// Its folder.
    pub dir: RunDir,
    /// Its repository.
    pub repository: Option<Repository>,
    /// The lanes it needs, and the room for them.
    pub space: Space,
    /// Why not even one of them fits, where that is so: then the run may be made, and waits for room.
    pub shortage: Option<Complaint>,
    /// What a person should know before it begins.
    pub notes: Vec<String>,
    /// What is odd about the graph but allowed.
    pub warnings: Vec<crate::graph::Problem>,
}

/// Returns a run that may begin, having made nothing.
///
/// Errors: with code 2 what is wrong with the graph, its inputs or the flags; with code 3 what stands
/// in the way of its lanes.
pub fn prepare(settings: &Settings, request: &RunRequest) -> Result<Prepared, Refusal> {
    let source = read(&request.graph).map_err(|problem| Refusal::of_problems(vec![*problem]))?;
    let trust = trust(&source, request.planned);
    let Loaded { graph, warnings } = check(&request.graph, &source, trust).map_err(Refusal::of_problems)?;
    refuse_later_features(&graph, &source)?;
    let graph = through(graph, request.runtime.as_deref())?;
    let inputs = bind_inputs(&graph, &request.inputs).map_err(|wrong| Refusal {
        exit: exit::USAGE,
        complaints: wrong.into_iter().map(|message| Complaint { message, hint: None }).collect(),
        problems: Vec::new(),
    })?;
    let whole = graph.nodes().len() as u32;
    let Part { graph, notes: of_selection } = part(graph, &request.selection)?;
    super::gates::check(&graph, &unborn(&graph), &request.gates, false)?;
    let selection = (!request.selection.is_empty())
        .then(|| SelectionFile { by: request.selection.clone(), nodes_in_graph: whole });
    let run_id = run_id(request.run_id.as_deref())?;
    let dir = RunDir::new(&settings.home, &run_id);
    if dir.root().exists() {
        return Err(taken(&run_id));
    }
    let absolute =
        std::fs::canonicalize(&request.graph).unwrap_or_else(|_| settings.folder.join(&request.graph));
    let mut file = RunFile {
        schema: SCHEMA,
        created_at: now(),
        build: BUILD.into(),
        graph_path: absolute,
        graph_sha256: sha256(source.text.as_bytes()),
        inputs,
        folder: settings.folder.clone(),
        repository: None,
        pass_env: graph.parts().pass_env.iter().chain(&request.pass_env).cloned().collect(),
        run_id,
        graph,
        selection,
        planned: trust == Trust::Planned,
    };
    let mut prepared_repository = None;
    let (mut space, mut shortage) = (Space::default(), None);
    let mut notes: Vec<String> = file.selected().into_iter().chain(of_selection).collect();
    notes.extend(programs::notes(settings, &file.graph));
    if !file.graph.lanes().is_empty() {
        let worktrees = GitWorktrees::new(&settings.environment);
        let repository = worktrees
            .discover(&settings.folder)
            .map_err(|error| concerning_lanes(error.into(), &file.graph))?;
        let of_run = of_run(settings, request, &worktrees, &repository, &file)
            .map_err(|refusal| concerning_lanes(refusal, &file.graph))?;
        file.repository = Some(of_run);
        let ready = readiness(&worktrees, &repository, &file, &unborn(&file.graph))?;
        (space, shortage) = (ready.space, ready.shortage);
        notes.extend(ready.notes);
        prepared_repository = Some(repository);
    }
    Ok(Prepared { file, dir, repository: prepared_repository, space, shortage, notes, warnings })
}

/// Makes a prepared run, durably, and claims it.
///
/// Errors: its id was taken meanwhile, with code 2; its files can't be written, with code 3.
pub fn create(prepared: &Prepared) -> Result<leg::Claim, Refusal> {
    let Prepared { file, dir, .. } = prepared;
    leg::create(dir, file).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => taken(&file.run_id),
        kind => {
            let word = if kind == std::io::ErrorKind::StorageFull { "disk-full: " } else { "" };
            let hint =
                (!word.is_empty()).then(|| "make room, or name another place with OMG_HOME".to_string());
            Refusal::new(exit::BLOCKED, format!("{word}{}: {error}", dir.root().display()), hint)
        }
    })?;
    Ok(leg::claim(dir, &file.run_id, &[], leg::Purpose::Leg)?)
}

fn taken(run: &RunId) -> Refusal {
    Refusal::new(
        exit::USAGE,
        format!("the run id `{run}` is taken"),
        Some(format!("`omg resume {run}` goes on with it; a new run needs another id")),
    )
}

/// Hands a run that was made to a supervisor that outlives this process. Returns its first runner's process.
///
/// Errors: none could be had; nothing of the run runs then.
pub fn detach(
    settings: &Settings,
    prepared: &Prepared,
    claim: leg::Claim,
    options: &LegOptions,
) -> Result<u32, Refusal> {
    let Prepared { file, dir, .. } = prepared;
    let lock = claim.share().map_err(|source| RunError::Io { path: dir.lock(), source })?;
    super::detach::detach(settings, dir, &file.run_id, lock, options, crate::run::keep::STARTED)
}

/// Runs the first leg of a run that was made to its end.
pub fn start(
    settings: &Settings,
    prepared: Prepared,
    claim: leg::Claim,
    options: &LegOptions,
    observer: Rc<dyn Observer>,
) -> Result<Ended, Refusal> {
    let Prepared { file, dir, repository, space, .. } = prepared;
    let claimed = Claimed { file, dir, claim, repository, space, link: Link::Own };
    run_leg(settings, claimed, options, observer)
}

/// Returns the selected part of a graph; the whole where nothing is named.
pub fn part(graph: Graph, selection: &Selection) -> Result<Part, Refusal> {
    if selection.is_empty() {
        return Ok(Part { graph, notes: Vec::new() });
    }
    select(&graph, selection).map_err(|errors| Refusal {
        exit: exit::USAGE,
        complaints: errors
            .into_iter()
            .map(|error| Complaint { message: error.to_string(), hint: error.hint() })
            .collect(),
        problems: Vec::new(),
    })
}

/// Refuses a graph that uses what this build can check but not run, naming every use.
pub(super) fn refuse_later_features(graph: &Graph, source: &Source) -> Result<(), Refusal> {
    if graph.parts().later.is_empty() {
        return Ok(());
    }
    let complaints = graph.parts().later.iter().map(|later| Complaint {
        message: format!(
            "this graph uses {}, which this version of omg checks but does not run\n  --> {}:{}:{}",
            later.feature, source.shown, later.line, later.column
        ),
        hint: None,
    });
    Err(Refusal { exit: exit::USAGE, complaints: complaints.collect(), problems: Vec::new() })
}

/// Adds to a refusal which lanes and nodes it concerns.
pub(super) fn concerning_lanes(mut refusal: Refusal, graph: &Graph) -> Refusal {
    if let Some(first) = refusal.complaints.first_mut() {
        first.message = format!("{}; {}", first.message, lanes_and_nodes(graph));
    }
    refusal
}

fn lanes_and_nodes(graph: &Graph) -> String {
    let lanes = graph.lane_ixs().map(|lane| {
        let nodes: Vec<&str> = graph
            .nodes()
            .iter()
            .filter(|node| node.lane == Some(lane))
            .map(|node| node.id.as_str())
            .collect();
        format!("lane {} ({})", graph.lane(lane).name, nodes.join(", "))
    });
    format!("needed by {}", lanes.collect::<Vec<_>>().join(", "))
}

/// Returns a graph whose agents all run through `runtime`, where one is named. Errors: there is no such runtime; exit
/// code 2.
pub(super) fn through(graph: Graph, runtime: Option<&str>) -> Result<Graph, Refusal> {
    let Some(runtime) = runtime else { return Ok(graph) };
    let mut parts = graph.parts().clone();
    if Runtime::named(runtime, &parts.runtimes).is_none() {
        let known = BUILT_IN_RUNTIMES.join("` and `");
        let message = format!("no runtime is named `{runtime}`");
        return Err(Refusal::new(exit::USAGE, message, Some(format!("there are `{known}`"))));
    }
    for node in &mut parts.nodes {
        if let NodeKind::Agent(agent) = &mut node.kind {
            agent.runtimes = vec![runtime.to_string()];
        }
    }
    Ok(Graph::from(parts))
}

/// Returns the id of a new run: as named, else made from the time. Errors: it can't be one; exit code 2.
pub(super) fn run_id(named: Option<&str>) -> Result<RunId, Refusal> {
    match named {
        Some(text) => RunId::parse(text).filter(|id| id.as_str() != super::find::LATEST).ok_or_else(|| {
            Refusal::new(
                exit::USAGE,
                format!("`{text}` can't be a run id"),
                Some(
                    "letters, digits, `.`, `_` and `-`, at most 40, a valid part of a branch name, not `latest`".into(),
                ),
            )
        }),
        None => {
            let now = now();
            let mut hash = Sha256::new();
            hash.update(now.as_nanosecond().to_le_bytes());
            hash.update(std::process::id().to_le_bytes());
            let nonce = hex(&hash.finalize()[..2]);
            Ok(RunId::from(format!("{}-{nonce}", now.strftime("%Y%m%d-%H%M%S"))))
        }
    }
}

/// Returns the folder of a run's lanes: by flag, variable or file, else in the run's own.
pub fn worktree_root(settings: &Settings, flag: Option<&Path>, run: &RunId) -> PathBuf {
    let set = settings.variables.worktree_root.as_deref().or(settings.file.worktree_root.as_deref());
    match flag.or(set) {
        Some(root) => settings.folder.join(root).join(run.as_str()),
        None => RunDir::new(&settings.home, run).worktrees(),
    }
}

/// Returns how lane branches are named: variable, then file, then default.
pub fn branch_template(settings: &Settings) -> String {
    let set = settings.variables.branch_template.as_ref().or(settings.file.branch_template.as_ref());
    set.cloned().unwrap_or_else(|| BRANCH_TEMPLATE_DEFAULT.into())
}

pub(super) fn of_run(
    settings: &Settings,
    request: &RunRequest,
    worktrees: &GitWorktrees,
    repository: &Repository,
    file: &RunFile,
) -> Result<RepositoryFile, Refusal> {
    let graph = &file.graph;
    let revision = request.base.as_deref().or(graph.parts().base.as_deref()).unwrap_or("HEAD");
    let base = worktrees.resolve(repository, revision)?;
    let mut lane_bases = IndexMap::new();
    for lane in graph.lanes() {
        if let Some(own) = &lane.base {
            lane_bases.insert(lane.name.clone(), worktrees.resolve(repository, own)?);
        }
    }
    let worktree_root = worktree_root(settings, request.worktree_root.as_deref(), &file.run_id);
    let branch_template = branch_template(settings);
    let sample = branch_template.replace("{run}", "r").replace("{lane}", "l");
    if !branch_template.contains("{lane}") || !sample.split('/').all(is_ref_part) {
        return Err(Refusal::new(
            exit::USAGE,
            format!("the branch template `{branch_template}` makes no usable branch names"),
            Some("it needs `{lane}`, better `{run}` too, and git's rules for branch names".into()),
        ));
    }
    Ok(RepositoryFile {
        top: repository.top.clone(),
        common_dir: repository.common_dir.clone(),
        base,
        lane_bases,
        worktree_root,
        branch_template,
    })
}
