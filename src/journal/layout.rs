//! Where the files of a run are (DESIGN.md section 8).

use std::path::{Path, PathBuf};

use crate::ids::{LaneName, NodeId, RunId};

/// The folder of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// Returns the folder of `run` under the home of all runs.
    pub fn new(home: &Path, run: &RunId) -> RunDir {
        RunDir(home.join("runs").join(run.as_str()))
    }

    /// Returns the folder itself.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Returns the file that says what the run is.
    pub fn run_file(&self) -> PathBuf {
        self.0.join("run.json")
    }

    /// Returns the file that says what the run is since its amendment of this number.
    pub fn amended(&self, number: u32) -> PathBuf {
        self.0.join("amended").join(format!("{number}.json"))
    }

    /// Returns the journal.
    pub fn events(&self) -> PathBuf {
        self.0.join("events.jsonl")
    }

    /// Returns the file that the living leg holds locked.
    pub fn lock(&self) -> PathBuf {
        self.0.join("run.lock")
    }

    /// Returns the log of a detached run's runners.
    pub fn runner_log(&self) -> PathBuf {
        self.0.join("runner.log")
    }

    /// Returns the file that tells a leg that it is being cancelled.
    pub fn cancel(&self) -> PathBuf {
        self.0.join("cancel")
    }

    /// Returns the folder of a node.
    pub fn node(&self, node: &NodeId) -> PathBuf {
        self.0.join("nodes").join(node.file_name())
    }

    /// Returns the log of an attempt.
    pub fn attempt_log(&self, node: &NodeId, attempt: u32) -> PathBuf {
        self.node(node).join(format!("attempt-{attempt}.log"))
    }

    /// Returns the prompt that an attempt of an agent was given.
    pub fn prompt(&self, node: &NodeId, attempt: u32) -> PathBuf {
        self.node(node).join(format!("attempt-{attempt}.prompt"))
    }

    /// Returns the standard output of an attempt of an agent, alone.
    pub fn stdout(&self, node: &NodeId, attempt: u32) -> PathBuf {
        self.node(node).join(format!("attempt-{attempt}.stdout"))
    }

    /// Returns the file into which a runtime that wants one puts the reply of an attempt.
    pub fn reply(&self, node: &NodeId, attempt: u32) -> PathBuf {
        self.node(node).join(format!("attempt-{attempt}.reply"))
    }

    /// Returns the result of one attempt, of an agent and of a node in a feedback arc.
    pub fn result_of(&self, node: &NodeId, attempt: u32) -> PathBuf {
        self.node(node).join(format!("result-{attempt}"))
    }

    /// Returns the file in which the supervisor says how attempts ended, a line each.
    pub fn exits(&self) -> PathBuf {
        self.0.join("exits.jsonl")
    }

    /// Returns the log of an attempt's `verify`.
    pub fn verify_log(&self, node: &NodeId, attempt: u32) -> PathBuf {
        self.node(node).join(format!("verify-{attempt}.log"))
    }

    /// Returns the result of a node's last attempt.
    pub fn result(&self, node: &NodeId) -> PathBuf {
        self.node(node).join("result")
    }

    /// Returns the folder of a lane's logs and receipts.
    pub fn lane(&self, lane: &LaneName) -> PathBuf {
        self.0.join("lanes").join(lane.as_str())
    }

    /// Returns the folder of all lanes, unless the user moved them.
    pub fn worktrees(&self) -> PathBuf {
        self.0.join("worktrees")
    }

    /// Returns the folder of files rescued from a lane.
    pub fn rescued(&self, lane: &LaneName) -> PathBuf {
        self.0.join("rescued").join(lane.as_str())
    }
}
