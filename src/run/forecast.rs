//! What provisioning a lane will take, as the base commit says: before any lane is made.

use std::collections::BTreeMap;
use std::path::Path;

use crate::graph::model::Provision;
use crate::ids::CommitId;
use crate::process::environment::Environment;
use crate::provision::apply::Failure;
use crate::provision::cause::Cause;
use crate::provision::hints;
use crate::provision::learned::key;
use crate::provision::plan::{HOOK_PLACES, Hook, ProvisionPlan, Seen, below, plan};
use crate::provision::probe;
use crate::provision::tools::find;
use crate::worktree::{Repository, WorktreeError, Worktrees};

/// What is known of a lane's provisioning before the lane is made.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// What would be run.
    pub plan: ProvisionPlan,
    /// What speaks against it.
    pub unfit: Option<Failure>,
    /// By which the time it took is found again.
    pub key: String,
    /// What is said of set-up files of other tools.
    pub hints: Vec<String>,
}

/// Returns what provisioning a lane at `root`, made from `base`, will take; `environment` is what its
/// processes will see.
///
/// Errors: the commit can't be read.
pub fn forecast(
    worktrees: &dyn Worktrees,
    repository: &Repository,
    base: &CommitId,
    provision: &Provision,
    root: &Path,
    environment: &Environment,
) -> Result<Forecast, WorktreeError> {
    let mut files = worktrees.files_at(repository, base, &probe::at_base(provision))?;
    let executable: Vec<String> =
        files.iter().filter(|(_, file)| file.executable).map(|(name, _)| name.clone()).collect();
    let hook = HOOK_PLACES.iter().find_map(|place| {
        let file = files.remove(*place)?;
        Some(Hook { place: place.to_string(), bytes: file.bytes, executable: file.executable })
    });
    let tracked = files.keys().cloned().collect();
    let files: BTreeMap<String, Vec<u8>> = files.into_iter().map(|(name, file)| (name, file.bytes)).collect();
    let hints = hints::hints(&files);
    let seen = Seen { tracked, hints: hints.clone(), files, hook, stray_hook: None };
    let plan = plan(&provision.choice, &provision.roots, &seen);
    let key = key(&plan, &seen);
    let is_there = |tool: &str, step_root: &str| match tool.strip_prefix("./") {
        Some(file) => executable.contains(&below(step_root, file)),
        None => find(tool, environment, root).is_some(),
    };
    let missing =
        plan.tools_at_once().find(|(tool, step_root)| !is_there(tool, step_root)).map(|(tool, _)| tool);
    let unfit = match (missing, probe::not_isolated(root, &plan)) {
        (Some(tool), _) => {
            Some(Failure::new(Cause::ToolMissing, plan.display(), probe::tool_missing(tool, &plan)))
        }
        (None, Some(reason)) => Some(Failure::new(Cause::NotIsolated, plan.display(), reason)),
        (None, None) => None,
    };
    Ok(Forecast { plan, unfit, key, hints })
}
