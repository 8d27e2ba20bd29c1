//! `run.json`: what a run is, written once. A file of the same shape for each amendment of its graph.

use std::path::PathBuf;

use indexmap::IndexMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::graph::Graph;
use crate::graph::select::Selection;
use crate::ids::{CommitId, LaneName, RunId};

/// Number of the shape of `run.json`.
pub const SCHEMA: u32 = 1;

/// What a run is. Written once, durable before its first event; later legs use it as it stands.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunFile {
    /// Number of its shape.
    pub schema: u32,
    /// The run.
    pub run_id: RunId,
    /// When it was made, UTC.
    pub created_at: Timestamp,
    /// What built the program.
    pub build: String,
    /// The graph file.
    pub graph_path: PathBuf,
    /// The graph file's content, hashed with SHA-256, in hex.
    pub graph_sha256: String,
    /// The graph as resolved; of a selection, the part that was selected.
    pub graph: Graph,
    /// Whether the graph is untrusted, so that an amended one is too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub planned: bool,
    /// What was selected of the graph, where that is not the whole of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionFile>,
    /// Every input with its value.
    pub inputs: IndexMap<String, String>,
    /// The folder the run was started in; nodes without a lane work there.
    pub folder: PathBuf,
    /// The repository; only where the graph has lanes.
    pub repository: Option<RepositoryFile>,
    /// Names of variables that reach nodes although they are scrubbed by default.
    pub pass_env: Vec<String>,
}

/// What a run was narrowed to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectionFile {
    /// The nodes that were asked for.
    #[serde(flatten)]
    pub by: Selection,
    /// How many nodes the whole graph has.
    pub nodes_in_graph: u32,
}

/// The repository of a run with lanes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepositoryFile {
    /// Top level of the checkout that omg was started in; null in a bare repository.
    pub top: Option<PathBuf>,
    /// The git folder that all worktrees share.
    pub common_dir: PathBuf,
    /// The commit that lanes begin at.
    pub base: CommitId,
    /// The commits of lanes with a base of their own.
    pub lane_bases: IndexMap<LaneName, CommitId>,
    /// Where lanes live.
    pub worktree_root: PathBuf,
    /// How lane branches are named, with `{run}` and `{lane}`.
    pub branch_template: String,
}

impl SelectionFile {
    /// Returns what a person is told of it: `3 of 12 nodes: --from build`.
    pub fn describe(&self, selected: usize) -> String {
        format!("{selected} of {} nodes: {}", self.nodes_in_graph, self.by)
    }
}

impl RunFile {
    /// Returns what a person is told of the selection, where there is one.
    pub fn selected(&self) -> Option<String> {
        self.selection.as_ref().map(|selection| selection.describe(self.graph.nodes().len()))
    }
}

impl RepositoryFile {
    /// Returns the commit that a lane begins at.
    pub fn base_of(&self, lane: &LaneName) -> &CommitId {
        self.lane_bases.get(lane).unwrap_or(&self.base)
    }

    /// Returns the name of a lane's branch.
    pub fn branch_of(&self, run: &RunId, lane: &LaneName) -> String {
        // A `/`, which only a fragment makes, stands as `+` in lane names already.
        self.branch_template.replace("{run}", run.as_str()).replace("{lane}", lane.as_str())
    }

    /// Returns the root of a lane.
    pub fn path_of(&self, lane: &LaneName) -> PathBuf {
        self.worktree_root.join(lane.as_str())
    }
}
