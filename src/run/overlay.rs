//! The overlay of lanes: its actuator, what cleanup is told of it, and whether the user's files went on.

use std::path::PathBuf;

use super::perform::Stage;
use crate::cleanup::OverlayFile;
use crate::ids::{IntentId, LaneIx, LaneName, NodeIx};
use crate::journal::RunDir;
use crate::provision::copy::{self, NotDone, Site};
use crate::schedule::fact::Overlaid;
use crate::schedule::{Event, Fault, FaultClass};

impl Stage {
    /// Copies a lane's local files in.
    pub(super) async fn overlay(&self, intent: IntentId, lane: LaneIx) {
        let made = self.lanes.borrow()[lane.at()].clone();
        let (Some(made), Some(overlay)) = (made, self.graph().overlay(lane).cloned()) else {
            let fault = Fault::new(FaultClass::Bug, "an overlay without a lane");
            return self.answer(Event::NotOverlaid { intent, fault });
        };
        let name = &self.graph().lane(lane).name;
        let site =
            Site { top: self.users_tree(), lane: made.path, base: made.base, folder: self.dir.lane(name) };
        let worktrees = std::sync::Arc::clone(&self.seams.worktrees);
        // Its git is ended like that of an acquire.
        self.acquiring.borrow_mut().insert(intent.clone());
        let done = tokio::task::spawn_blocking(move || copy::perform(&*worktrees, &overlay, &site)).await;
        self.acquiring.borrow_mut().remove(&intent);
        self.answer(match done {
            Ok(Ok(done)) => {
                for warning in &done.warnings {
                    self.observer.warn(&format!("lane `{name}`: {warning}"));
                }
                let files = done.files.into_iter().map(|(path, how)| Overlaid { path, how: how.into() });
                Event::Overlaid { intent, files: files.collect() }
            }
            Ok(Err(error)) => Event::NotOverlaid { intent, fault: fault_of(&error) },
            Err(error) => {
                Event::NotOverlaid { intent, fault: Fault::new(FaultClass::Bug, error.to_string()) }
            }
        });
    }

    /// The tree that the run was started in: the same in every leg.
    fn users_tree(&self) -> Option<PathBuf> {
        self.file.repository.as_ref().and_then(|repository| repository.top.clone())
    }

    /// Returns why the lane of `node` can't be used, where the receipt of its overlay is gone.
    pub(super) fn not_overlaid(&self, node: NodeIx) -> Option<String> {
        let lane = self.graph().node(node).lane?;
        self.graph().overlay(lane)?;
        let missing = match copy::ledger(&self.dir.lane(&self.graph().lane(lane).name)) {
            Ok(Some(_)) => return None,
            Ok(None) => "it is not there".to_string(),
            Err(error) => error.to_string(),
        };
        Some(format!("the record of its local files: {missing}"))
    }

    /// Says which local files the user has changed since a lane got its copies. Never copied over.
    pub(super) async fn tell_of_drift(&self, lane: &LaneName, path: &std::path::Path) {
        let (top, folder, path) = (self.users_tree(), self.dir.lane(lane), path.to_path_buf());
        let look = tokio::task::spawn_blocking(move || {
            copy::tidy(&path);
            let (Some(top), Ok(Some(ledger))) = (top, copy::ledger(&folder)) else { return Vec::new() };
            copy::drifted(&top, &ledger)
        });
        let drifted = look.await.unwrap_or_default();
        if !drifted.is_empty() {
            let words = "changed in your tree since they were copied; the lane has them as they were";
            self.observer.warn(&format!("lane `{lane}`: {words}: {}", drifted.join(", ")));
        }
    }
}

fn fault_of(error: &NotDone) -> Fault {
    let class = match error {
        NotDone::Refused(_) | NotDone::Failed(_) => FaultClass::OverlayFailed,
        NotDone::DiskFull(_) => FaultClass::DiskFull,
    };
    Fault::new(class, error.to_string())
}

/// Returns what cleanup has to know of the local files in a lane. Errors: that is not known, so the lane
/// can't be judged.
pub fn copies(dir: &RunDir, lane: &LaneName) -> std::io::Result<Vec<OverlayFile>> {
    let ledger = copy::ledger(&dir.lane(lane))?.unwrap_or_default();
    let file = |entry: crate::provision::overlay::Entry| OverlayFile {
        path: entry.path.into(),
        sha256: entry.sha256,
        size: entry.size,
        tracked: entry.git == crate::provision::overlay::Hidden::Tracked,
        blobs: entry.blobs,
    };
    Ok(ledger.files.into_iter().map(file).collect())
}
