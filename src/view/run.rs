//! A run as `omg show --json` has it (DESIGN.md section 14).

use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use super::cost::{CostView, LegCost};
use crate::ids::{CommitId, LaneIx, Leg, NodeIx};
use crate::journal::replay::replay;
use crate::journal::runfile::SelectionFile;
use crate::journal::{Record, RunDir, RunFile};
use crate::schedule::Fault;
use crate::schedule::fact::{Cleanup, EndState, Evidence, Fact, RunStatus};
use crate::schedule::state::{Cost, Edge, LanePhase, Names, NodePhase, RunState, edge};

/// Number of the shape. Fields are added, never renamed or removed, under one number.
pub const SCHEMA: u32 = 1;

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct RunView {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The run.
    pub run_id: String,
    /// The graph's name.
    pub graph: String,
    /// How it stands.
    pub status: RunStatus,
    /// Legs so far.
    pub legs: u32,
    /// The commit that lanes begin at; null without lanes.
    pub base: Option<CommitId>,
    /// Top level of the checkout, or the git folder of a bare repository; null without lanes.
    pub repo: Option<PathBuf>,
    /// When the first leg began.
    pub started_at: Option<Timestamp>,
    /// When the last leg ended; null where none did, or one lives.
    pub finished_at: Option<Timestamp>,
    /// How long its legs took, together.
    pub duration_ms: u64,
    /// Its folder.
    pub folder: PathBuf,
    /// What the run was narrowed to, where it is not of the whole graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionFile>,
    /// What its agents cost, over all legs; left out where none has run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostView>,
    /// What the agents of each leg cost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cost_by_leg: Vec<LegCost>,
    /// What the run may cost at most, over all legs; left out where there is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<crate::money::Usd>,
    /// Nodes, in file order.
    pub nodes: Vec<NodeView>,
    /// Lanes, in order of first mention.
    pub lanes: Vec<LaneView>,
}

/// A node of a run.
#[derive(Clone, Debug, Serialize)]
pub struct NodeView {
    /// Its name.
    pub id: String,
    /// What it does.
    pub r#type: &'static str,
    /// Where it stands: a word of DESIGN.md section 6.
    pub state: &'static str,
    /// Attempts delivered, over all legs.
    pub attempts: u32,
    /// Its lane.
    pub lane: Option<String>,
    /// How long its attempts took, together; null before the first.
    pub duration_ms: Option<u64>,
    /// Why it did not pass.
    pub fault: Option<Fault>,
    /// The log of its last attempt.
    pub log: Option<PathBuf>,
    /// The result of its last attempt that ended.
    pub result: Option<PathBuf>,
    /// The failed node that it needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// How it passed: `exit-only`, `said-so`, `verified`, `approved`, or `ended` where nothing was asked of how.
    pub evidence: Option<Evidence>,
    /// What its attempts cost, over all legs; left out where no agent has run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostView>,
    /// Rounds that it sent its feedback arc back for, since its budgets were new; left out where it judges none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
}

/// A lane of a run.
#[derive(Clone, Debug, Serialize)]
pub struct LaneView {
    /// Its name.
    pub name: String,
    /// Its root.
    pub path: Option<PathBuf>,
    /// Its branch.
    pub branch: String,
    /// The commit it began at.
    pub base: Option<CommitId>,
    /// `pending`, `active`, `kept`, `removed` or `refused`.
    pub state: &'static str,
    /// What the last cleanup did.
    pub cleanup: Option<Cleanup>,
    /// Trees of before that were set aside whole, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<PathBuf>,
    /// What the agents in it cost, over all legs; left out where none has run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostView>,
}

/// A run in a list.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The run.
    pub run_id: String,
    /// The graph's name.
    pub graph: String,
    /// How it stands.
    pub status: RunStatus,
    /// Its repository; null without lanes.
    pub repo: Option<PathBuf>,
    /// When the first leg began.
    pub started_at: Option<Timestamp>,
    /// When the last leg ended.
    pub finished_at: Option<Timestamp>,
}

/// Times that the state does not hold.
#[derive(Default)]
struct Times {
    started: Option<Timestamp>,
    finished: Option<Timestamp>,
    total_ms: u64,
    nodes: Vec<NodeTimes>,
}

#[derive(Clone, Default)]
struct NodeTimes {
    since: Option<Timestamp>,
    total_ms: Option<u64>,
    last_log: Option<u32>,
    has_result: bool,
}

fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millisecond() - from.as_millisecond()).unwrap_or(0)
}

fn times(names: &Names, count: usize, records: &[Record]) -> Times {
    let mut times = Times { nodes: vec![NodeTimes::default(); count], ..Times::default() };
    let mut leg_start: Option<Timestamp> = None;
    let mut last: Option<Timestamp> = None;
    let mut leg = Leg(0);
    // A leg that was killed ends with its last sign of life: what `gc` or `discard` wrote later is none.
    let mut is_over = false;
    for record in records {
        // What a leg writes before it begins, to amend the graph, is no time of the one before.
        let is_of_leg = record.leg <= leg;
        match &record.fact {
            Fact::RunStarted { .. } => {
                is_over = false;
                if let (Some(from), Some(to)) = (leg_start, last) {
                    times.total_ms += between(from, to);
                }
                times.started.get_or_insert(record.ts);
                times.finished = None;
                leg_start = Some(record.ts);
                leg = record.leg;
                for node in &mut times.nodes {
                    node.since = None;
                }
            }
            Fact::RunFinished { .. } => {
                times.finished = if is_over { last } else { Some(record.ts) };
                if !is_over {
                    last = Some(record.ts);
                }
                is_over = true;
            }
            Fact::CleanupRequested { reason, .. } => is_over |= matches!(reason.as_str(), "gc" | "discard"),
            Fact::NodeStarted { node, attempt, .. } => {
                if let Ok(ix) = names.node(node) {
                    times.nodes[ix.at()].since = Some(record.ts);
                    times.nodes[ix.at()].last_log = Some(*attempt);
                }
            }
            Fact::AttemptFinished { node, delivered, attempt, .. } => {
                if let Ok(ix) = names.node(node) {
                    let node = &mut times.nodes[ix.at()];
                    if let Some(since) = node.since.take().filter(|_| is_of_leg) {
                        node.total_ms = Some(node.total_ms.unwrap_or(0) + between(since, record.ts));
                    }
                    if *delivered {
                        node.last_log = Some(*attempt);
                        node.has_result = true;
                    }
                }
            }
            _ => {}
        }
        if record.leg <= leg && !is_over {
            last = Some(record.ts);
        }
    }
    if let (Some(from), Some(to)) = (leg_start, last) {
        times.total_ms += between(from, to);
    }
    times
}

/// Returns when a run last gave a sign of life: what was written of it later by no leg is none.
pub fn last_sign(file: &RunFile, records: &[Record]) -> Timestamp {
    let mut last = file.created_at;
    let mut is_over = false;
    for record in records {
        match &record.fact {
            Fact::RunStarted { .. } => is_over = false,
            Fact::CleanupRequested { reason, .. } => is_over |= matches!(reason.as_str(), "gc" | "discard"),
            _ => {}
        }
        if !is_over {
            last = record.ts;
        }
        is_over |= matches!(record.fact, Fact::RunFinished { .. });
    }
    last
}

impl RunView {
    /// Returns a run as its records have it; `alive` says whether a living leg holds it.
    ///
    /// Errors: the number of a record that does not fit, and why.
    pub fn of(
        file: &RunFile,
        dir: &RunDir,
        records: &[Record],
        alive: bool,
    ) -> Result<RunView, (u64, String)> {
        let names = Names::of(&file.graph);
        let state = replay(&file.graph, &names, records).map_err(|(seq, error)| (seq, error.to_string()))?;
        let times = times(&names, file.graph.nodes().len(), records);
        let repository = file.repository.as_ref();
        Ok(RunView {
            schema: SCHEMA,
            run_id: file.run_id.to_string(),
            graph: file.graph.parts().name.clone(),
            status: status(&state, alive),
            legs: state.leg.0,
            base: repository.map(|repository| repository.base.clone()),
            repo: repository
                .map(|repository| repository.top.clone().unwrap_or_else(|| repository.common_dir.clone())),
            started_at: times.started,
            finished_at: if alive { None } else { times.finished },
            duration_ms: times.total_ms,
            folder: dir.root().to_path_buf(),
            selection: file.selection.clone(),
            cost: (!state.cost.is_nothing()).then(|| state.cost.into()),
            budget_usd: file.graph.parts().budget,
            cost_by_leg: super::cost::by_leg(records),
            nodes: file
                .graph
                .node_ixs()
                .map(|ix| node_view(file, dir, &state, ix, &times.nodes[ix.at()], alive))
                .collect(),
            lanes: file.graph.lane_ixs().map(|ix| lane_view(file, &state, ix)).collect(),
        })
    }

    /// Returns this run as it stands in a list.
    pub fn summary(&self) -> Summary {
        Summary {
            run_id: self.run_id.clone(),
            graph: self.graph.clone(),
            status: self.status,
            repo: self.repo.clone(),
            started_at: self.started_at,
            finished_at: self.finished_at,
        }
    }
}

/// Returns how a run stands: a leg that neither lives nor finished was killed.
pub fn status(state: &RunState, alive: bool) -> RunStatus {
    match (alive, state.finished) {
        (true, _) => RunStatus::Running,
        (false, Some(status)) => status,
        (false, None) => RunStatus::Interrupted,
    }
}

fn node_view(
    file: &RunFile,
    dir: &RunDir,
    state: &RunState,
    ix: NodeIx,
    times: &NodeTimes,
    alive: bool,
) -> NodeView {
    let graph = &file.graph;
    let node = graph.node(ix);
    let record = state.node(ix);
    let word = match &record.phase {
        NodePhase::Over(end) => end.word(),
        NodePhase::InFlight(_) if alive => "running",
        NodePhase::InFlight(_) => "interrupted",
        NodePhase::Waiting if !alive => "cancelled",
        NodePhase::Waiting => {
            let met = node
                .depends_on
                .iter()
                .all(|dependency| edge(graph, state, dependency.node, dependency.on) == Edge::Met);
            if met { "ready" } else { "waiting" }
        }
    };
    NodeView {
        id: node.id.to_string(),
        r#type: node.kind.word(),
        state: word,
        attempts: record.attempts,
        lane: node.lane.map(|lane| graph.lane(lane).name.to_string()),
        duration_ms: times.total_ms,
        fault: record.fault.clone(),
        log: times.last_log.map(|attempt| dir.attempt_log(&node.id, attempt)),
        result: times.has_result.then(|| dir.result(&node.id)),
        because: record.because.as_ref().map(|because| because.node.to_string()),
        evidence: record.evidence.filter(|_| record.phase == NodePhase::Over(EndState::Passed)),
        cost: of_nodes(state, [ix]),
        rounds: graph.arc_at(ix).map(|_| record.rounds),
    }
}

/// Returns what these nodes cost together; `None` where no agent among them has run.
fn of_nodes(state: &RunState, nodes: impl IntoIterator<Item = NodeIx>) -> Option<CostView> {
    let cost = nodes.into_iter().map(|ix| state.node(ix).cost).fold(Cost::default(), Cost::plus);
    (!cost.is_nothing()).then(|| cost.into())
}

fn lane_view(file: &RunFile, state: &RunState, ix: LaneIx) -> LaneView {
    let lane = file.graph.lane(ix);
    let record = state.lane(ix);
    let word = match (&record.cleanup, &record.made, &record.phase) {
        (Some(cleanup), ..) if cleanup.tree == "removed" => "removed",
        (Some(_), ..) => "kept",
        (None, Some(_), _) => "active",
        (None, None, LanePhase::Broken(_)) => "refused",
        (None, None, _) => "pending",
    };
    let repository = file.repository.as_ref();
    LaneView {
        name: lane.name.to_string(),
        path: repository.map(|repository| repository.path_of(&lane.name)),
        branch: repository
            .map(|repository| repository.branch_of(&file.run_id, &lane.name))
            .unwrap_or_default(),
        base: repository.map(|repository| repository.base_of(&lane.name).clone()),
        state: word,
        cleanup: record.cleanup.clone(),
        set_aside: record.set_aside.clone(),
        cost: of_nodes(state, file.graph.node_ixs().filter(|node| file.graph.node(*node).lane == Some(ix))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::model::{OnFail, ProvisionWhen};
    use crate::graph::{Trust, load};
    use crate::ids::{Generation, IntentId};

    fn started() -> Fact {
        Fact::RunStarted {
            concurrency: 1,
            on_fail: OnFail::Halt,
            provision_when: ProvisionWhen::RunStart,
            retry_failed: false,
            retry_blocked: false,
            pid: 1,
            build: String::new(),
            format: 1,
        }
    }

    #[test]
    fn what_is_closed_before_a_leg_begins_took_no_time() {
        let graph =
            load("g.yaml", "name: x\nnodes: [{id: a, run: x}]\n", &|_| None, Trust::Reviewed).unwrap();
        let (node, intent) = (graph.graph.nodes()[0].id.clone(), IntentId::from("g1-1"));
        let begun = Fact::NodeStarted {
            node: node.clone(),
            attempt: 1,
            intent: intent.clone(),
            pid: 1,
            start_time: 1,
            lane: None,
        };
        let closed = Fact::AttemptFinished {
            node,
            attempt: 1,
            intent,
            fault: None,
            next: None,
            exit_code: None,
            signal: None,
            leftovers: Vec::new(),
            delivered: true,
            agent: None,
            evidence: None,
        };
        let over = Fact::RunFinished { status: RunStatus::Passed };
        // Killed after three seconds, and amended a hundred later.
        let facts = [(0, 1, started()), (3, 1, begun), (100, 2, closed), (100, 2, started()), (102, 2, over)];
        let record = |(at, leg, fact)| Record {
            seq: 1,
            ts: Timestamp::from_second(at).unwrap(),
            leg: Leg(leg),
            r#gen: Generation(u64::from(leg)),
            fact,
            target: None,
            synced: None,
            batch: None,
        };
        let records: Vec<Record> = facts.into_iter().map(record).collect();
        let times = times(&Names::of(&graph.graph), 1, &records);
        assert_eq!((times.total_ms, times.nodes[0].total_ms), (5000, None));
    }
}
