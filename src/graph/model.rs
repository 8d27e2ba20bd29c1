//! What a graph is once it has been read: nodes, edges both ways, lanes, and nothing of YAML.
//!
//! Every name has been resolved and every rule of DESIGN.md section 2 holds. The model does not
//! know where in the file a thing stood; problems were reported before it was made.

use std::num::NonZeroU32;
use std::time::Duration;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize, Serializer};

pub use super::agent::{PermissionMode, PromptWay, ResultWay, RuntimeSpec};
use super::bodies::Bodies;
use super::dependents::Dependents;
use super::duration_ms;
use super::lineage::Lineage;
pub use super::overlay::{DEPENDENCY_FOLDERS, Overlay, dependency_folder};
pub use super::provisioning::{
    PROVISION_TIMEOUT_DEFAULT, Provision, ProvisionChoice, ProvisionRetry, ProvisionStep, ProvisionWhen,
};
use crate::ids::{LaneIx, LaneName, NodeId, NodeIx};
use crate::money::Usd;

/// Bytes that a node may write before it fails, unless the file says otherwise: 1 GiB.
pub const OUTPUT_MAX_DEFAULT: u64 = 1 << 30;
/// Time between TERM and KILL, unless the file says otherwise: 10 s.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(10);
/// Longest time an agent may take, unless the file says otherwise: 20 min.
pub const AGENT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(20 * 60);
/// Longest time `verify` may take, unless the file says otherwise: 2 min.
pub const VERIFY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(2 * 60);

/// A checked graph. Invariant: acyclic, every index in range, node ids and lane names unique.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "GraphParts")]
pub struct Graph {
    parts: GraphParts,
    dependents: Dependents,
    ranks: Vec<u32>,
    pub(super) lineage: Lineage,
    bodies: Bodies,
}

/// What [`Graph::new`] is made from; the graph as data, which `run.json` keeps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GraphParts {
    /// The graph's name.
    pub name: String,
    /// Declared inputs in file order.
    pub inputs: IndexMap<String, Input>,
    /// Variables for every node, in file order.
    pub env: IndexMap<String, Template>,
    /// The words before a command line: `["sh", "-c"]` unless the file names others.
    pub shell: Vec<String>,
    /// Most processes at a time, where the file says so.
    pub concurrency: Option<NonZeroU32>,
    /// What a task failure does to the rest.
    pub on_fail: OnFail,
    /// The commit that lanes begin at, as written (any revision), where the file says so.
    pub base: Option<String>,
    /// How lanes are provisioned, unless a lane says otherwise.
    pub provision: Provision,
    /// Which local files lanes get, unless a lane says otherwise.
    #[serde(default, skip_serializing_if = "Overlay::is_empty")]
    pub overlay: Overlay,
    /// What cleanup does to lanes that hold work, unless a lane says otherwise.
    pub cleanup: CleanupPolicy,
    /// Names of variables that reach nodes although they are scrubbed by default.
    pub pass_env: Vec<String>,
    /// Who commits in lanes, where the file says so.
    pub identity: Option<Identity>,
    /// Lanes in order of first mention by a node.
    pub lanes: Vec<Lane>,
    /// Nodes in file order; never empty.
    pub nodes: Vec<Node>,
    /// Most money of the whole run, over all its legs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Usd>,
    /// Runtimes that the file describes, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub runtimes: IndexMap<String, RuntimeSpec>,
    /// Feedback arcs in file order; no node is in the bodies of two.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback: Vec<FeedbackArc>,
    /// What the file uses and this build can check but not run, in file order.
    pub later: Vec<LaterFeature>,
}

/// A bounded re-run of the path from one node to another, after the latter judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedbackArc {
    /// The node that judges.
    pub node: NodeIx,
    /// The ancestor that is run again, with all between.
    pub rerun: NodeIx,
    /// How often at most; from 1.
    pub max: u32,
}

/// A declared input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// What it is for.
    pub description: Option<String>,
    /// Its value where none is given; without one the input is required.
    pub default: Option<String>,
}

/// What a task failure does to the rest of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnFail {
    /// Launch nothing more, end what is in flight.
    #[default]
    Halt,
    /// Prune only what needed the failed node.
    Continue,
}

/// What cleanup does to a lane that holds work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CleanupPolicy {
    /// Keep it.
    #[default]
    Safe,
    /// Rescue its content, then remove its tree.
    Discard,
}

/// Author and committer of commits made in lanes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Value of `user.name`.
    pub name: String,
    /// Value of `user.email`.
    pub email: String,
}

/// A lane as the file describes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lane {
    /// Its name; unique, also when case is ignored.
    pub name: LaneName,
    /// Its own base, as written, which wins over the graph's and the flag's.
    pub base: Option<String>,
    /// Its own provisioning, which wins over the graph's.
    pub provision: Option<Provision>,
    /// Its own local files, instead of the graph's; an empty one switches those off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlay: Option<Overlay>,
    /// Its own cleanup, which wins over the graph's.
    pub cleanup: Option<CleanupPolicy>,
}

/// One unit of work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub id: NodeId,
    /// What it does.
    pub kind: NodeKind,
    /// Where the graph file names it, or the node that its fragment was spliced into: line, from 1; 0 where a
    /// record of before does not say.
    #[serde(default)]
    pub line: u32,
    /// Shown in views.
    pub description: Option<String>,
    /// What must have ended before it begins; no node twice.
    pub depends_on: Vec<Dependency>,
    /// The lane it works in.
    pub lane: Option<LaneIx>,
    /// What it does to its lane.
    pub access: Access,
    /// Where it runs; excludes a lane.
    pub cwd: Option<Template>,
    /// Its variables, merged over the graph's.
    pub env: IndexMap<String, Template>,
    /// Longest time of one attempt.
    #[serde(with = "duration_ms::option")]
    pub timeout: Option<Duration>,
    /// What must hold for it to pass.
    pub check: SuccessCheck,
    /// What its own failures buy.
    pub retry: Retry,
    /// Time between TERM and KILL.
    #[serde(with = "duration_ms")]
    pub grace: Duration,
    /// Bytes of output after which it fails.
    pub output_max: u64,
}

/// What a node does.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    /// Runs a shell command line.
    Command {
        /// The command line.
        run: Template,
    },
    /// Runs a coding agent.
    Agent(Box<Agent>),
    /// Waits for a person.
    Gate,
}

/// What a coding agent is asked, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Agent {
    /// What it is asked.
    pub prompt: Template,
    /// What runs it: names of runtimes, the first that works; never empty.
    pub runtimes: Vec<String>,
    /// The model, where the file names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The runtime's own agent to use, where the file names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// How it asks before it acts.
    pub permission: PermissionMode,
    /// The tools it may use unasked, as its runtime writes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Most money of one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Usd>,
    /// Whether it goes on with the session of the node before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
}

impl NodeKind {
    /// Returns the word for it in views and files: `command`, `agent` or `gate`.
    pub fn word(&self) -> &'static str {
        match self {
            NodeKind::Command { .. } => "command",
            NodeKind::Agent(_) => "agent",
            NodeKind::Gate => "gate",
        }
    }
}

/// An edge, seen from the node that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dependency {
    /// The node waited for.
    pub node: NodeIx,
    /// The ending that satisfies it.
    pub on: On,
}

/// The ending of a dependency that satisfies an edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum On {
    /// It passed: its result is needed.
    #[default]
    Passed,
    /// It passed, failed or was skipped.
    Finished,
    /// It failed.
    Failed,
}

/// What a node does to its lane: one writer, or any number of readers, at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Changes it.
    #[default]
    Write,
    /// Only looks.
    Read,
}

/// What must hold for a node to pass; everything given must.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuccessCheck {
    /// The exit status must be 0.
    pub exit_zero: bool,
    /// A regular expression that must match somewhere in the result.
    pub result_matches: Option<String>,
    /// A command of the engine's that must hold.
    pub verify: Option<Verify>,
}

impl Default for SuccessCheck {
    fn default() -> Self {
        SuccessCheck { exit_zero: true, result_matches: None, verify: None }
    }
}

/// A command that the engine runs where the node ran, in the node's slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verify {
    /// The command line.
    pub command: Template,
    /// Where it runs, if not where the node ran.
    pub cwd: Option<Template>,
    /// Longest time.
    #[serde(with = "duration_ms")]
    pub timeout: Duration,
    /// The exit status that holds.
    pub expect_exit: i32,
    /// A regular expression that must match somewhere in its output.
    pub output_matches: Option<String>,
}

/// What a node's own failures buy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Further attempts at most.
    pub max: u32,
    /// The causes that buy one; every task cause where the file names none.
    pub on: Vec<RetryCause>,
    /// Pause before the first further attempt, doubled each time.
    #[serde(with = "duration_ms")]
    pub backoff: Duration,
}

/// A cause that a `retry` may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryCause {
    /// The exit status was not 0.
    NonzeroExit,
    /// The node's own time ran out.
    Timeout,
    /// `verify` said no.
    VerifyFailed,
    /// `result_matches` said no.
    ResultMismatch,
    /// Output past its limit, or a reply that can't be read.
    OutputError,
    /// More money than allowed.
    BudgetExceeded,
    /// Accepted for old graphs; never spends.
    RunError,
}

impl RetryCause {
    /// Every cause, in the order of DESIGN.md.
    pub const ALL: [RetryCause; 7] = [
        RetryCause::NonzeroExit,
        RetryCause::Timeout,
        RetryCause::VerifyFailed,
        RetryCause::ResultMismatch,
        RetryCause::OutputError,
        RetryCause::BudgetExceeded,
        RetryCause::RunError,
    ];

    /// Returns the word for it in a graph file.
    pub fn word(self) -> &'static str {
        match self {
            RetryCause::NonzeroExit => "nonzero_exit",
            RetryCause::Timeout => "timeout",
            RetryCause::VerifyFailed => "verify_failed",
            RetryCause::ResultMismatch => "result_mismatch",
            RetryCause::OutputError => "output_error",
            RetryCause::BudgetExceeded => "budget_exceeded",
            RetryCause::RunError => "run_error",
        }
    }
}

/// Text with tokens in it, already taken apart and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Template(pub Vec<Piece>);

impl Template {
    /// Returns a template that is just `text`.
    pub fn literal(text: impl Into<String>) -> Template {
        Template(vec![Piece::Text(text.into())])
    }
}

/// A stretch of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Piece {
    /// Itself.
    Text(String),
    /// `{{ inputs.NAME }}`.
    Input(String),
    /// `{{ artifacts.ID }}`: the path of that node's result.
    ArtifactPath(NodeIx),
    /// `{{ artifacts.ID | inline }}`: that node's result itself; never in a command.
    ArtifactText(NodeIx),
    /// `{{ feedback.ID }}`; never in a command.
    Feedback(NodeIx),
    /// `{{ run.id }}`.
    RunId,
    /// `{{ lane.path }}`.
    LanePath,
    /// `{{ lane.branch }}`.
    LaneBranch,
    /// `{{ lane.base }}`.
    LaneBase,
    /// `{{ lanes.NAME.branch }}`.
    OtherLaneBranch(LaneIx),
    /// `{{ lanes.NAME.path }}`.
    OtherLanePath(LaneIx),
}

/// Something the file uses that this build checks but does not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaterFeature {
    /// What it is, in words that follow "this graph uses": `agent nodes`, `` `overlay` ``.
    pub feature: String,
    /// Where it stands: line, from 1.
    pub line: u32,
    /// Where it stands: column in characters, from 1.
    pub column: u32,
}

impl Graph {
    /// Returns the graph of `parts`, or one cycle (its nodes in order, the first not repeated).
    ///
    /// Errors: only a cycle. Panics where an index is out of range: that is the loader's fault.
    pub fn new(parts: GraphParts) -> Result<Graph, Vec<NodeIx>> {
        let dependents = Dependents::of(&parts.nodes);
        let order = dependents.order(&parts.nodes)?;
        let lineage = Lineage::of(&parts.nodes, parts.lanes.len(), order.iter().copied());
        let bodies = Bodies::of(&parts, &dependents, &order);
        let mut ranks = vec![0; parts.nodes.len()];
        for ix in order.into_iter().rev() {
            let after = dependents.after(ix).iter().map(|next| ranks[next.node.at()] + 1);
            ranks[ix.at()] = after.max().unwrap_or(0);
        }
        Ok(Graph { parts, dependents, ranks, lineage, bodies })
    }

    /// Returns the graph as data.
    pub fn parts(&self) -> &GraphParts {
        &self.parts
    }

    /// Returns the nodes in file order.
    pub fn nodes(&self) -> &[Node] {
        &self.parts.nodes
    }

    /// Returns the lanes in order of first mention.
    pub fn lanes(&self) -> &[Lane] {
        &self.parts.lanes
    }

    /// Returns one node.
    pub fn node(&self, ix: NodeIx) -> &Node {
        &self.parts.nodes[ix.at()]
    }

    /// Returns one lane.
    pub fn lane(&self, ix: LaneIx) -> &Lane {
        &self.parts.lanes[ix.at()]
    }

    /// Returns every node's index, in file order.
    pub fn node_ixs(&self) -> impl Iterator<Item = NodeIx> + use<> {
        (0..self.parts.nodes.len() as u32).map(NodeIx)
    }

    /// Returns every lane's index, in order of first mention.
    pub fn lane_ixs(&self) -> impl Iterator<Item = LaneIx> + use<> {
        (0..self.parts.lanes.len() as u32).map(LaneIx)
    }

    /// Returns the index of the node named `id`.
    pub fn node_ix(&self, id: &str) -> Option<NodeIx> {
        self.parts.nodes.iter().position(|node| node.id.as_str() == id).map(|at| NodeIx(at as u32))
    }

    /// Returns the nodes that wait for `ix`, in file order, with the ending each waits for.
    pub fn dependents(&self, ix: NodeIx) -> impl Iterator<Item = (NodeIx, On)> + '_ {
        self.dependents.after(ix).iter().map(|edge| (edge.node, edge.on))
    }

    /// Returns the number of edges on the longest path from `ix` to a node that nothing waits for.
    pub fn rank(&self, ix: NodeIx) -> u32 {
        self.ranks[ix.at()]
    }

    /// Returns the arc whose rounds run `ix` again, where there is one: it judges, is re-run from, or is between.
    pub fn arc_of(&self, ix: NodeIx) -> Option<FeedbackArc> {
        self.bodies.arc_of(ix).map(|at| self.parts.feedback[at])
    }

    /// Returns the arc that `ix` judges, where it judges one.
    pub fn arc_at(&self, ix: NodeIx) -> Option<FeedbackArc> {
        self.arc_of(ix).filter(|arc| arc.node == ix)
    }

    /// Returns the nodes that a round of the arc at `judge` runs again, `judge` among them, in file order.
    pub fn body(&self, judge: NodeIx) -> &[NodeIx] {
        self.bodies.arc_of(judge).map_or(&[], |at| &self.bodies.of_arc[at])
    }

    /// Returns whether `ix` waits for a person.
    pub fn is_gate(&self, ix: NodeIx) -> bool {
        matches!(self.node(ix).kind, NodeKind::Gate)
    }

    /// Returns what `ix` asks an agent; `None` for any other node.
    pub fn agent(&self, ix: NodeIx) -> Option<&Agent> {
        match &self.node(ix).kind {
            NodeKind::Agent(agent) => Some(agent),
            NodeKind::Command { .. } | NodeKind::Gate => None,
        }
    }

    /// Returns how lane `ix` is provisioned: its own way, else the graph's.
    pub fn provision(&self, ix: LaneIx) -> &Provision {
        self.lane(ix).provision.as_ref().unwrap_or(&self.parts.provision)
    }

    /// Returns which local files lane `ix` gets; `None` where it gets none.
    pub fn overlay(&self, ix: LaneIx) -> Option<&Overlay> {
        Some(self.lane(ix).overlay.as_ref().unwrap_or(&self.parts.overlay))
            .filter(|overlay| !overlay.is_empty())
    }

    /// Returns what cleanup does to lane `ix` where it holds work.
    pub fn cleanup(&self, ix: LaneIx) -> CleanupPolicy {
        self.lane(ix).cleanup.unwrap_or(self.parts.cleanup)
    }
}

impl From<GraphParts> for Graph {
    /// Returns the graph of parts that were checked when they were written.
    ///
    /// Panics on a cycle: `run.json` is written from a [`Graph`], which has none.
    fn from(parts: GraphParts) -> Graph {
        Graph::new(parts).unwrap_or_else(|cycle| panic!("a recorded graph has a cycle: {cycle:?}"))
    }
}

impl Serialize for Graph {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.parts.serialize(serializer)
    }
}
