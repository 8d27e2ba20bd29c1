//! A graph file as typed: every value read, no name resolved, nothing compared with anything else.

use std::time::Duration;

use indexmap::IndexMap;

use super::keys::NodeKey;
use super::model::{
    Access, CleanupPolicy, Identity, Input, On, OnFail, Overlay, PermissionMode, Provision, Retry,
    RuntimeSpec, SuccessCheck,
};
use super::problem::Pos;
use super::reader::At;
use super::tree::Word;
use crate::money::Usd;

/// Text in which tokens may stand.
pub(super) type RawText = At<String>;

/// A variable: its name, and its text with its place.
#[derive(Clone, Debug)]
pub(super) struct RawVar {
    pub name: String,
    pub text: RawText,
}

/// The top of a file, without its nodes.
#[derive(Debug, Default)]
pub(super) struct RawGraph {
    pub name: String,
    pub inputs: IndexMap<String, Input>,
    pub env: Vec<RawVar>,
    pub shell: Option<Vec<String>>,
    pub concurrency: Option<std::num::NonZeroU32>,
    pub on_fail: OnFail,
    pub base: Option<String>,
    pub provision: Provision,
    pub overlay: Overlay,
    pub cleanup: CleanupPolicy,
    pub grace: Option<Duration>,
    pub output_max: Option<u64>,
    pub pass_env: Vec<String>,
    pub identity: Option<Identity>,
    pub runtime: Vec<At<String>>,
    pub runtimes: IndexMap<String, RuntimeSpec>,
    pub budget: Option<Usd>,
    pub lanes: Vec<RawLane>,
    pub defaults: RawNode,
    /// What is checked but not run, with its place.
    pub later: Vec<At<String>>,
}

/// An entry of `lanes`.
#[derive(Clone, Debug)]
pub(super) struct RawLane {
    pub name: At<String>,
    pub base: Option<String>,
    pub provision: Option<Provision>,
    pub overlay: Option<Overlay>,
    pub cleanup: Option<CleanupPolicy>,
}

/// A node, or `defaults`.
#[derive(Clone, Debug, Default)]
pub(super) struct RawNode {
    pub id: Option<At<String>>,
    pub kind: Option<At<RawKind>>,
    pub description: Option<String>,
    pub run: Option<RawText>,
    pub prompt: Option<RawText>,
    pub depends_on: Vec<RawDependency>,
    pub worktree: Option<At<RawWorktree>>,
    pub access: Option<Access>,
    pub cwd: Option<RawText>,
    pub env: Option<Vec<RawVar>>,
    pub timeout: Option<Duration>,
    pub check: Option<RawCheck>,
    pub retry: Option<Retry>,
    pub feedback: Option<RawFeedback>,
    pub wants_session: Option<Pos>,
    pub allowed_tools: Vec<String>,
    pub permission: Option<PermissionMode>,
    pub agent: Option<String>,
    pub model: Option<String>,
    pub budget: Option<Usd>,
    pub runtime: Vec<At<String>>,
    pub grace: Option<Duration>,
    pub output_max: Option<u64>,
    /// The keys that were given, with their places; also those whose value was wrong. Its own come
    /// first, then those that `defaults` gave.
    pub keys: Vec<(NodeKey, Pos)>,
    /// How many of `keys` are its own.
    pub own_keys: usize,
}

impl RawNode {
    /// Returns where `key` was given.
    pub fn key(&self, key: NodeKey) -> Option<Pos> {
        self.keys.iter().find(|(given, _)| *given == key).map(|(_, at)| *at)
    }

    /// Returns where the node itself, not `defaults`, gave `key`.
    pub fn own_key(&self, key: NodeKey) -> Option<Pos> {
        self.keys[..self.own_keys].iter().find(|(given, _)| *given == key).map(|(_, at)| *at)
    }
}

/// The `type` of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RawKind {
    Command,
    Agent,
    Gate,
}

/// A `worktree`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RawWorktree {
    /// `none`
    Nothing,
    /// `per-node`
    PerNode,
    Lane(String),
}

/// An entry of `depends_on`.
#[derive(Clone, Debug)]
pub(super) struct RawDependency {
    pub id: At<Word>,
    pub on: On,
}

/// A `feedback`.
#[derive(Clone, Debug)]
pub(super) struct RawFeedback {
    pub rerun: At<String>,
    pub max: u32,
}

/// A `success_check`; the templates of `verify` are empty in `check` and stand beside it.
#[derive(Clone, Debug, Default)]
pub(super) struct RawCheck {
    pub check: SuccessCheck,
    pub verify_command: Option<RawText>,
    pub verify_cwd: Option<RawText>,
}
