//! Whether a lane is still as fit as it was made: its receipt against what is there now.
#![expect(clippy::disallowed_methods, reason = "asks what is in a lane")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use super::perform::Stage;
use crate::ids::{IntentId, NodeIx};
use crate::process::environment::Environment;
use crate::provision::mark;
use crate::provision::plan::ProvisionPlan;
use crate::provision::probe;
use crate::provision::receipt::{self, Known, Staleness, Standing};
use crate::schedule::Event;
use crate::worktree::Room;

/// How a lane was made fit in this leg.
#[derive(Clone, Debug)]
pub struct InLeg {
    /// What was run, or would have been.
    pub plan: ProvisionPlan,
    /// Versions by program.
    pub tools: BTreeMap<String, String>,
    /// The hash of its receipt.
    pub receipt: String,
    /// What the overlay copied in, hashed.
    pub overlay: Option<String>,
    /// The state of the lane's index when its tracked manifests were last listed.
    pub index: Option<IndexState>,
}

/// What tells one state of an index from another: its size, and its time of change in seconds and nanoseconds.
pub(super) type IndexState = (u64, i64, i64);

pub(super) fn index_state(git_dir: &Path) -> Option<IndexState> {
    let meta = std::fs::metadata(git_dir.join("index")).ok()?;
    Some((meta.len(), meta.mtime(), meta.mtime_nsec()))
}

impl Stage {
    /// Returns why a lane's receipt does not hold now; `None` where it does, or there is no lane.
    pub(super) async fn not_fit(&self, node: NodeIx) -> Option<Staleness> {
        let lane = self.graph().node(node).lane?;
        let made = self.lanes.borrow()[lane.at()].clone()?;
        let missing = |reason: &str| Staleness { reason: reason.into(), of_inputs: false, whole: false };
        let in_leg = self.provisioned.borrow().get(&lane).cloned();
        let Some(in_leg) = in_leg else { return Some(missing("its receipt is not there")) };
        let folder = self.dir.lane(&self.graph().lane(lane).name);
        let provision = self.graph().provision(lane).clone();
        let worktrees = Arc::clone(&self.seams.worktrees);
        let looked = tokio::task::spawn_blocking(move || {
            if !is_the_lane(&made.path, &made.git_dir) {
                return (Standing::Missing("its folder is not the lane's any more".into()), in_leg.index);
            }
            if mark::find(&folder).is_some() {
                let why = "an installation in it did not come to its end";
                return (Standing::Missing(why.into()), in_leg.index);
            }
            let standing = receipt::standing(&Known {
                path: &folder.join(receipt::NAME),
                sha256: Some(&in_leg.receipt),
                root: &made.path,
                plan: &in_leg.plan,
                tools: &in_leg.tools,
                overlay: in_leg.overlay.as_deref(),
            });
            // A manifest that git tracks since is in no receipt; git is asked only where its index changed.
            let index = index_state(&made.git_dir);
            match standing {
                Standing::Fresh(receipt) if index != in_leg.index => {
                    let tracked = worktrees.tracked(&made.path, &probe::patterns(&provision));
                    let known = |name: &String| receipt.inputs.contains(name);
                    match tracked.unwrap_or_default().into_iter().find(|name| !known(name)) {
                        Some(new) => {
                            let reason = format!("{new} is there since it was provisioned");
                            (
                                Standing::Stale(Staleness { reason, of_inputs: true, whole: true }),
                                in_leg.index,
                            )
                        }
                        None => (Standing::Fresh(receipt), index),
                    }
                }
                standing => (standing, in_leg.index),
            }
        });
        let (standing, index) = match looked.await {
            Ok(looked) => looked,
            Err(error) => return Some(missing(&error.to_string())),
        };
        if let Some(in_leg) = self.provisioned.borrow_mut().get_mut(&lane) {
            in_leg.index = index;
        }
        match standing {
            Standing::Fresh(_) => None,
            Standing::Stale(staleness) => Some(staleness),
            Standing::Missing(reason) => Some(missing(&reason)),
        }
    }

    /// Returns whether the lane of `node` was installed from a lockfile.
    pub(super) fn has_lockfile(&self, node: NodeIx) -> bool {
        let provisioned = self.provisioned.borrow();
        let in_leg = self.graph().node(node).lane.and_then(|lane| provisioned.get(&lane));
        in_leg.is_some_and(|in_leg| in_leg.plan.rows().any(|row| !row.locks.is_empty()))
    }

    /// Adds what a node sees because of what was installed in its lane, where it does not have that already.
    pub(super) fn add_variables_of_installation(&self, node: NodeIx, environment: &mut Environment) {
        let Some(lane) = self.graph().node(node).lane else { return };
        let provisioned = self.provisioned.borrow();
        let rows = provisioned.get(&lane).into_iter().flat_map(|in_leg| in_leg.plan.rows());
        for (name, value) in rows.flat_map(|row| row.for_nodes) {
            if environment.get(name).is_none() {
                environment.set(*name, *value);
            }
        }
    }

    /// Returns the room on the disk before an installation; `None` where it can't be told apart from others' by it.
    pub(super) fn space_before(&self, root: &Path) -> Option<(Room, u64)> {
        let begun = self.installs.get() + 1;
        self.installs.set(begun);
        let is_alone = self.installing.replace(self.installing.get() + 1) == 0;
        let room = self.seams.worktrees.room(root).ok().filter(|_| is_alone);
        room.map(|room| (room, begun))
    }

    /// Returns the bytes and inodes that an installation took; nothing where another one ran meanwhile.
    pub(super) fn space_taken(&self, root: &Path, before: Option<(Room, u64)>) -> (u64, u64) {
        self.installing.set(self.installing.get().saturating_sub(1));
        let Some((before, _)) = before.filter(|(_, begun)| *begun == self.installs.get()) else {
            return (0, 0);
        };
        match self.seams.worktrees.room(root) {
            Ok(now) => (before.bytes.saturating_sub(now.bytes), before.inodes.saturating_sub(now.inodes)),
            Err(_) => (0, 0),
        }
    }
}

/// Returns whether the folder at `path` is the worktree whose own git folder is `git_dir`.
fn is_the_lane(path: &Path, git_dir: &Path) -> bool {
    let is_folder = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    let named = std::fs::read(path.join(".git")).unwrap_or_default();
    let named = named.trim_ascii_end().strip_prefix(b"gitdir: ").filter(|_| is_folder);
    let Some(named) = named.map(OsStr::from_bytes) else { return false };
    let real = |place: &Path| std::fs::canonicalize(place).ok();
    real(&path.join(named)).is_some_and(|named| Some(named) == real(git_dir))
}

impl Staleness {
    /// Returns whether only what the installation depends on changed, and what was installed is as it was.
    pub(super) fn tree_holds(&self) -> bool {
        self.of_inputs && self.whole
    }

    /// Returns it as the scheduler takes it, for the act that it stands in the way of.
    pub(super) fn told(self, intent: IntentId) -> Event {
        Event::LaneStale { intent, overlay_gone: false, reason: self.reason }
    }
}
