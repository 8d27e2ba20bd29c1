//! How a lane gets its dependencies, as a graph says it.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration_ms;

/// Longest time one provisioning try may take, unless the file says otherwise: 600 s.
pub const PROVISION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(600);

/// How a lane gets its dependencies (DESIGN.md section 4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provision {
    /// What is run.
    pub choice: ProvisionChoice,
    /// Longest time of one try.
    #[serde(with = "duration_ms")]
    pub timeout: Duration,
    /// When a failed try is repeated.
    pub retry: ProvisionRetry,
    /// When lanes are prepared.
    pub when: Option<ProvisionWhen>,
    /// Most lanes provisioned at a time, where the file says so.
    pub max_parallel: Option<NonZeroU32>,
    /// Further files, relative to the lane's root, that the fingerprint covers.
    pub inputs: Vec<String>,
    /// Further folders, relative to the lane's root, whose marker files are looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<String>,
    /// A folder in the lane that is trusted where it exists: then nothing is run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_if: Option<String>,
    /// Where a mirror of the receipt lies in the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt_file: Option<String>,
}

impl Default for Provision {
    fn default() -> Self {
        Provision {
            choice: ProvisionChoice::Ladder,
            timeout: PROVISION_TIMEOUT_DEFAULT,
            retry: ProvisionRetry::Transient,
            when: None,
            max_parallel: None,
            inputs: Vec::new(),
            roots: Vec::new(),
            skip_if: None,
            receipt_file: None,
        }
    }
}

/// Which rung of the ladder the file itself answers for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProvisionChoice {
    /// The file names nothing: the repository's hook, else detection, else nothing to do.
    Ladder,
    /// `none`: provably nothing to do.
    Nothing,
    /// These, in order.
    Steps(Vec<ProvisionStep>),
}

/// One entry of a `provision` list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProvisionStep {
    /// `auto`: what the rest of the ladder would do.
    Auto,
    /// A shell command line, verbatim, run in the lane's root.
    Command(String),
}

/// When a failed provisioning try is repeated, once at the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProvisionRetry {
    /// An explicit command or hook, and what may be transient.
    #[default]
    Transient,
    /// Whatever the cause.
    Always,
    /// Not at all.
    Never,
}

/// When lanes are prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProvisionWhen {
    /// Every lane that the leg needs if all goes well, before its first node.
    #[default]
    RunStart,
    /// Each lane just before its first node.
    FirstUse,
}
