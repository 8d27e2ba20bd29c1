//! `omg resume --graph`: the graph with which a run goes on, checked against what the run has done. Makes nothing.
#![expect(clippy::disallowed_methods, reason = "makes the graph file's path absolute")]

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::leg::BUILD;
use super::lint::{check, read, trust};
use super::start::{RunRequest, concerning_lanes, of_run, part, refuse_later_features, through};
use super::{Complaint, Refusal, exit};
use crate::graph::difference::{Difference, Weight, What};
use crate::graph::model::{GraphParts, Lane};
use crate::graph::problem::nearest;
use crate::graph::{Graph, Loaded, Trust, bind_inputs};
use crate::ids::{LaneIx, LaneName, NodeId, NodeIx, sha256};
use crate::journal::replay::replay_before;
use crate::journal::runfile::{RepositoryFile, SelectionFile};
use crate::journal::{Record, RunFile};
use crate::run::amended;
use crate::schedule::amending::closings;
use crate::schedule::fact::{EndState, Fact};
use crate::schedule::state::{LanePhase, Names, NodePhase, RunState};
use crate::settings::Settings;
use crate::worktree::{GitWorktrees, Worktrees};

/// Nodes that passed and changed which are named; what changes for all by mistake may be thousands.
const COMPLAINTS_MAX: usize = 100;

/// What a user asks of an amendment.
#[derive(Clone, Debug, Default)]
pub struct AmendRequest {
    /// The file of the new graph, as written.
    pub graph: PathBuf,
    /// Values of inputs that only the new graph has, in order.
    pub inputs: Vec<(String, String)>,
    /// Nodes that passed and are to run again.
    pub reopen: Vec<String>,
    /// What runs all agents of the new graph, where the user names it.
    pub runtime: Option<String>,
}

/// An amendment that may be made; nothing of it exists yet.
#[derive(Debug)]
pub struct Amendment {
    /// What the run will be.
    pub file: RunFile,
    /// Its number in the run.
    pub number: u32,
    /// What is different.
    pub difference: Difference,
    /// Nodes that passed and were named.
    pub named: Vec<NodeId>,
    /// Nodes that had not passed and run again for it.
    pub reopened: Vec<NodeId>,
    /// What has to be written before its leg begins: ends of attempts at what changed, then `graph.amended`.
    pub facts: Vec<Fact>,
    /// How the run stands once that is written.
    pub state: RunState,
    /// What a person should know of it, one line each.
    pub notes: Vec<String>,
    /// What is odd about the graph but allowed.
    pub warnings: Vec<crate::graph::Problem>,
}

impl Amendment {
    /// Returns whether a leg has something to do for its sake alone.
    pub fn matters(&self) -> bool {
        let of_nodes = self.difference.nodes.iter().any(|(_, what)| what.weight() > Weight::Words);
        let of_graph = self.difference.graph.iter().any(|change| change.weight > Weight::Words);
        of_nodes || of_graph || !self.reopened.is_empty() || !self.named.is_empty()
    }
}

/// Returns the amendment of a run that `records` left in `state`, or `None` where the run has that very graph and
/// nothing is to run again.
///
/// Errors: with code 2 what is wrong with the graph, its inputs or the flags, and everything in it that would
/// change what has passed or where a lane began; with code 3 what keeps a base from being found.
pub fn amend(
    settings: &Settings,
    run: &RunFile,
    records: &[Record],
    state: &RunState,
    request: &AmendRequest,
) -> Result<Option<Amendment>, Refusal> {
    let (mut file, warnings, mut notes) = read_anew(settings, run, request)?;
    let difference = Difference::between(&without_retired(&run.graph), &file.graph);
    let named = named(&run.graph, state, &file.graph, &request.reopen)?;
    if difference.is_empty() && named.is_empty() && file.graph_sha256 == run.graph_sha256 {
        return Ok(None);
    }
    let mut wrong = passed_nodes(&run.graph, state, &difference, &named);
    wrong.extend(made_lanes(&run.graph, state, &file.graph, &difference));
    if !wrong.is_empty() {
        return Err(Refusal { exit: exit::USAGE, complaints: wrong, problems: Vec::new() });
    }
    file.repository = bases(settings, run, &file, state, &difference)?;
    file.graph = with_retired(&run.graph, state, file.graph);

    let number = amended::newest(records) + 1;
    let touched = touched(&run.graph, state, &difference);
    let removed = difference.nodes.iter().filter(|(_, what)| *what == What::Removed);
    let removed: Vec<NodeId> = removed.map(|(id, _)| id.clone()).collect();
    let gone: BTreeSet<&NodeId> = removed.iter().collect();
    let ids = touched.iter().map(|ix| run.graph.node(*ix).id.clone());
    let reopened: Vec<NodeId> = ids.filter(|id| !gone.contains(id)).collect();
    let mut facts = closings(&run.graph, state, &touched);
    facts.push(Fact::GraphAmended {
        from: run.graph_sha256.clone(),
        to: file.graph_sha256.clone(),
        number,
        path: file.graph_path.clone(),
        reopened: reopened.iter().chain(&named).cloned().collect(),
        removed,
        changes: difference.lines(),
    });
    let names = Names::of(&file.graph);
    let mut after = replay_before(&file.graph, &names, records);
    for fact in &facts {
        // One that names what is gone changes nothing.
        let _ = after.apply(&file.graph, &names, after.leg, after.generation, fact);
    }
    notes.extend(stay_passed(&file.graph, &after, &named));
    Ok(Some(Amendment { file, number, difference, named, reopened, facts, state: after, notes, warnings }))
}

/// What a run would be, what is odd about its graph, and notes.
type Anew = (RunFile, Vec<crate::graph::Problem>, Vec<String>);

/// Returns what the run would be with the graph in the file, the repository as it was.
fn read_anew(settings: &Settings, run: &RunFile, request: &AmendRequest) -> Result<Anew, Refusal> {
    let source = read(&request.graph).map_err(|problem| Refusal::of_problems(vec![*problem]))?;
    let trust = trust(&source, run.planned);
    let Loaded { graph, warnings } = check(&request.graph, &source, trust).map_err(Refusal::of_problems)?;
    refuse_later_features(&graph, &source)?;
    let graph = through(graph, request.runtime.as_deref())?;
    let inputs = bind_inputs(&graph, &given(run, &graph, &request.inputs)?).map_err(|wrong| Refusal {
        exit: exit::USAGE,
        complaints: wrong.into_iter().map(|message| Complaint { message, hint: None }).collect(),
        problems: Vec::new(),
    })?;
    let whole = graph.nodes().len() as u32;
    let by = run.selection.as_ref().map(|selection| selection.by.clone()).unwrap_or_default();
    let selected = part(graph, &by)?;
    let absolute =
        std::fs::canonicalize(&request.graph).unwrap_or_else(|_| settings.folder.join(&request.graph));
    // Those of the flag come after those of the graph.
    let flags = run.pass_env.iter().skip(run.graph.parts().pass_env.len());
    let pass_env = selected.graph.parts().pass_env.iter().chain(flags).cloned().collect();
    let file = RunFile {
        build: BUILD.into(),
        graph_path: absolute,
        graph_sha256: sha256(source.text.as_bytes()),
        inputs,
        pass_env,
        selection: (!by.is_empty()).then_some(SelectionFile { by, nodes_in_graph: whole }),
        graph: selected.graph,
        // A plan stays one, whatever the run began with.
        planned: trust == Trust::Planned,
        ..run.clone()
    };
    Ok((file, warnings, selected.notes))
}

/// Returns the values of inputs: those of the run, and those given for what is new.
///
/// Errors: another value for one that the run has; nodes that passed may have used it.
fn given(
    run: &RunFile,
    graph: &Graph,
    inputs: &[(String, String)],
) -> Result<Vec<(String, String)>, Refusal> {
    let declared = &graph.parts().inputs;
    let other: Vec<Complaint> = inputs
        .iter()
        .filter(|(name, value)| run.inputs.get(name).is_some_and(|of_run| of_run != value))
        .map(|(name, _)| Complaint {
            message: format!("the input `{name}` has another value in this run"),
            hint: Some("a run keeps the values it began with; a new run may have others".into()),
        })
        .collect();
    if !other.is_empty() {
        return Err(Refusal { exit: exit::USAGE, complaints: other, problems: Vec::new() });
    }
    let of_run = run.inputs.iter().filter(|(name, _)| declared.contains_key(*name));
    let new = inputs.iter().filter(|(name, _)| !run.inputs.contains_key(name));
    Ok(of_run.map(|(name, value)| (name.clone(), value.clone())).chain(new.cloned()).collect())
}

/// Returns the nodes that are named to run again.
///
/// Errors: each that either graph does not have, or that has not passed.
fn named(old: &Graph, state: &RunState, new: &Graph, names: &[String]) -> Result<Vec<NodeId>, Refusal> {
    let mut wrong = Vec::new();
    let mut found = Vec::new();
    for name in names {
        let near = || nearest(name, new.nodes().iter().map(|node| node.id.as_str()));
        let complaint = match (old.node_ix(name), new.node_ix(name)) {
            (_, None) => Complaint {
                message: format!("`--reopen {name}`: the graph has no node `{name}`"),
                hint: near().map(|near| format!("did you mean `{near}`?")),
            },
            (Some(ix), Some(_)) if state.end_of(ix) == Some(EndState::Passed) => {
                let id = old.node(ix).id.clone();
                if !found.contains(&id) {
                    found.push(id);
                }
                continue;
            }
            (Some(_), Some(_)) => Complaint {
                message: format!("`--reopen {name}`: it has not passed"),
                hint: Some("it runs again if it changed, or by `--retry-failed` or `--retry-blocked`".into()),
            },
            (None, Some(_)) => Complaint {
                message: format!("`--reopen {name}`: it is new"),
                hint: Some("it runs without that".into()),
            },
        };
        wrong.push(complaint);
    }
    if wrong.is_empty() {
        return Ok(found);
    }
    Err(Refusal { exit: exit::USAGE, complaints: wrong, problems: Vec::new() })
}

/// Returns what an amendment would change of nodes that have passed.
fn passed_nodes(old: &Graph, state: &RunState, difference: &Difference, named: &[NodeId]) -> Vec<Complaint> {
    let names = Names::of(old);
    let passed = |id: &NodeId| names.node(id).is_ok_and(|ix| state.end_of(ix) == Some(EndState::Passed));
    let complaint = |(id, what): &(NodeId, What)| match what {
        What::Added => None,
        What::Removed => Some(Complaint {
            message: format!("node `{id}` has passed, and the graph does not have it any more"),
            hint: Some("what has passed stays in the run".into()),
        }),
        What::Changed(changes) => {
            let of_outcome: Vec<&str> = changes
                .iter()
                .filter(|change| change.weight == Weight::Outcome)
                .map(|change| change.key.as_str())
                .collect();
            (!of_outcome.is_empty() && !named.contains(id)).then(|| Complaint {
                message: format!("node `{id}` has passed, and it changed: {}", of_outcome.join(", ")),
                hint: Some(format!("`--reopen {id}` runs it again as it is now")),
            })
        }
    };
    let mut wrong: Vec<Complaint> =
        difference.nodes.iter().filter(|(id, _)| passed(id)).filter_map(complaint).collect();
    if wrong.len() > COMPLAINTS_MAX {
        let more = wrong.len() - COMPLAINTS_MAX;
        wrong.truncate(COMPLAINTS_MAX);
        let message = format!("{more} more nodes have passed, and they changed or are gone");
        wrong.push(Complaint { message, hint: None });
    }
    wrong
}

/// Whether something of a lane is there, or may be.
fn is_made(state: &RunState, lane: LaneIx) -> bool {
    let record = state.lane(lane);
    record.made.is_some()
        || record.branch_made
        || record.acquire_open
        || matches!(record.phase, LanePhase::Acquiring(_))
}

fn lane_ix(graph: &Graph, name: &LaneName) -> Option<LaneIx> {
    graph.lane_ixs().find(|ix| graph.lane(*ix).name == *name)
}

/// Returns what an amendment would change of where lanes began that are made, or of their names.
fn made_lanes(old: &Graph, state: &RunState, new: &Graph, difference: &Difference) -> Vec<Complaint> {
    let of_graph = difference.graph.iter().any(|change| change.key == "base");
    let mut wrong = Vec::new();
    for ix in old.lane_ixs().filter(|ix| is_made(state, *ix)) {
        let Lane { name, base, .. } = old.lane(ix);
        let Some(now) = lane_ix(new, name) else {
            let same = new.lanes().iter().find(|lane| lane.name.as_str().eq_ignore_ascii_case(name.as_str()));
            wrong.extend(same.map(|lane| Complaint {
                message: format!(
                    "lane `{}` differs in case only from lane `{name}`, which is made",
                    lane.name
                ),
                hint: Some("give it another name".into()),
            }));
            continue;
        };
        if *base != new.lane(now).base || of_graph && base.is_none() {
            wrong.push(Complaint {
                message: format!("lane `{name}` is made, and its `base` changed"),
                hint: Some("a lane stays where it began; a lane of another name may begin elsewhere".into()),
            });
        }
    }
    wrong
}

/// Returns the graph with the lanes that some node of it names.
fn without_retired(graph: &Graph) -> Graph {
    let parts = graph.parts();
    // In order of first mention, so retired ones, which stand last, come after the highest place that is named.
    let used = parts.nodes.iter().filter_map(|node| node.lane).map(|ix| ix.at() + 1).max().unwrap_or(0);
    if used == parts.lanes.len() {
        return graph.clone();
    }
    Graph::from(GraphParts { lanes: parts.lanes[..used].to_vec(), ..parts.clone() })
}

/// Returns the new graph with the lanes after its own that it has no more and of which something is there: no
/// node names them, and cleanup, `lanes` and `lanes discard` still know them.
fn with_retired(old: &Graph, state: &RunState, new: Graph) -> Graph {
    let retired = old
        .lane_ixs()
        .filter(|ix| is_made(state, *ix) && lane_ix(&new, &old.lane(*ix).name).is_none())
        .map(|ix| old.lane(ix).clone());
    let retired: Vec<Lane> = retired.collect();
    if retired.is_empty() {
        return new;
    }
    let mut parts = new.parts().clone();
    for mut lane in retired {
        // What the old graph said for all lanes goes with it.
        let ix = lane_ix(old, &lane.name);
        lane.cleanup = ix.map(|ix| old.cleanup(ix));
        parts.lanes.push(lane);
    }
    Graph::from(parts)
}

/// Returns the repository with the commits at which lanes begin: those that are made, and those whose base is
/// written as before, where they did; the others where their base is now.
fn bases(
    settings: &Settings,
    run: &RunFile,
    file: &RunFile,
    state: &RunState,
    difference: &Difference,
) -> Result<Option<RepositoryFile>, Refusal> {
    let (old, new) = (&run.graph, &file.graph);
    let worktrees = GitWorktrees::new(&settings.environment);
    let Some(before) = &run.repository else {
        if new.lanes().is_empty() {
            return Ok(None);
        }
        let found = worktrees.discover(&run.folder).map_err(|error| concerning_lanes(error.into(), new))?;
        return of_run(settings, &RunRequest::default(), &worktrees, &found, file).map(Some);
    };
    let mut after = before.clone();
    after.lane_bases.clear();
    let mut found = None;
    let mut resolve = |revision: &str| -> Result<_, Refusal> {
        let repository = match &found {
            Some(repository) => repository,
            None => found.insert(super::ready::find_again(&worktrees, before)?),
        };
        Ok(worktrees.resolve(repository, revision)?)
    };
    if difference.graph.iter().any(|change| change.key == "base") {
        after.base = resolve(new.parts().base.as_deref().unwrap_or("HEAD"))?;
    }
    for lane in new.lanes() {
        let was =
            lane_ix(old, &lane.name).filter(|ix| old.lane(*ix).base == lane.base || is_made(state, *ix));
        let commit = match (was, &lane.base) {
            (Some(ix), None) if !is_made(state, ix) => after.base.clone(),
            (Some(_), _) => before.base_of(&lane.name).clone(),
            (None, Some(base)) => resolve(base)?,
            (None, None) => after.base.clone(),
        };
        if lane.base.is_some() || commit != after.base {
            after.lane_bases.insert(lane.name.clone(), commit);
        }
    }
    let retired = old.lane_ixs().filter(|ix| is_made(state, *ix)).map(|ix| &old.lane(ix).name);
    for name in retired.filter(|name| lane_ix(new, name).is_none()) {
        after.lane_bases.insert(name.clone(), before.base_of(name).clone());
    }
    Ok(Some(after))
}

/// Returns the nodes of the old graph that have not passed and run again, or never more, for the amendment: what
/// changed or went, and all that had begun where a key of all nodes changed.
fn touched(old: &Graph, state: &RunState, difference: &Difference) -> Vec<NodeIx> {
    let changed: BTreeSet<&NodeId> =
        difference.nodes.iter().filter(|(_, what)| what.weight() > Weight::Words).map(|(id, _)| id).collect();
    let all = difference.concerns_all();
    let has_begun = |ix: &NodeIx| state.node(*ix).attempts > 0 || state.node(*ix).phase != NodePhase::Waiting;
    old.node_ixs()
        .filter(|ix| state.end_of(*ix) != Some(EndState::Passed))
        .filter(|ix| changed.contains(&old.node(*ix).id) || all && has_begun(ix))
        .collect()
}

/// Returns what is said of nodes that passed after what runs again.
fn stay_passed(new: &Graph, state: &RunState, named: &[NodeId]) -> Vec<String> {
    let mut order: Vec<NodeIx> = new.node_ixs().collect();
    // What is waited for has a longer path before it than what waits.
    order.sort_by_key(|ix| std::cmp::Reverse(new.rank(*ix)));
    let is_named = |ix: NodeIx| named.contains(&new.node(ix).id);
    let mut is_after = vec![false; new.nodes().len()];
    for ix in order {
        let mut before = new.node(ix).depends_on.iter().map(|edge| edge.node);
        is_after[ix.at()] = before.any(|ix| is_after[ix.at()] || is_named(ix));
    }
    let stays =
        |ix: &NodeIx| is_after[ix.at()] && !is_named(*ix) && state.end_of(*ix) == Some(EndState::Passed);
    let ids: Vec<NodeId> = new.node_ixs().filter(stays).map(|ix| new.node(ix).id.clone()).collect();
    let note = || {
        let ids = crate::view::outlook::named(&ids);
        format!("what comes after and has passed stays passed unless it is re-opened too: {ids}")
    };
    (!ids.is_empty()).then(note).into_iter().collect()
}
