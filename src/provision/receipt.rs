//! The receipt of a provisioning, and whether it still holds.
//!
//! It lies in the run directory; a copy lies in the lane's own git folder, where it can't dirty the
//! tree or be committed. Only the one in the run directory counts: nodes can write the other.
#![expect(clippy::disallowed_methods, reason = "reads markers, reads and writes receipts")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::plan::{MARKERS, ProvisionPlan, Rung, fingerprint};

/// Name of the copy in the lane's own git folder.
pub const COPY_NAME: &str = "omg-provision.json";

/// Proof that a lane was provisioned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// What was run; null where there was nothing to do.
    pub cmd: Option<String>,
    /// Its exit status: 0; null where nothing was run.
    pub exit_code: Option<i32>,
    /// When it was done, UTC.
    pub at: Timestamp,
    /// How long it took.
    pub duration_ms: u64,
    /// What the outcome depends on, hashed.
    pub fingerprint: String,
    /// Which rung of the ladder answered.
    pub rung: Rung,
    /// Why nothing was run, where nothing was.
    pub reason: Option<String>,
    /// The probed files, relative to the lane's root.
    pub inputs: Vec<String>,
    /// Dependency folders at the lane's root that the provisioning left: they can be made again.
    pub made: Vec<PathBuf>,
}

/// Whether a lane's receipt holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Fresh(Box<Receipt>),
    /// What it covers has changed.
    Stale(String),
    /// There is none.
    Missing,
}

/// Returns the names probed in a lane: the markers and the graph's further inputs.
pub fn probed(further: &[String]) -> Vec<String> {
    let mut names: Vec<String> = MARKERS.iter().map(|name| name.to_string()).collect();
    names.extend(further.iter().cloned());
    names.sort();
    names.dedup();
    names
}

/// Returns the content of those of `names` that exist as plain files under `root`.
pub fn read_files(root: &Path, names: &[String]) -> BTreeMap<String, Vec<u8>> {
    names
        .iter()
        .filter_map(|name| {
            let path = root.join(name);
            let plain = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
            plain.then(|| fs::read(path).ok()).flatten().map(|bytes| (name.clone(), bytes))
        })
        .collect()
}

/// Returns whether the receipt at `path` holds for a lane at `root` that `plan` would provision now.
pub fn standing(path: &Path, root: &Path, plan: &ProvisionPlan) -> Standing {
    let Ok(bytes) = fs::read(path) else { return Standing::Missing };
    let Ok(receipt) = serde_json::from_slice::<Receipt>(&bytes) else { return Standing::Missing };
    if receipt.exit_code.is_some_and(|code| code != 0) {
        return Standing::Missing;
    }
    if plan.rung == Rung::Nothing && receipt.rung == Rung::Nothing && plan.reason == receipt.reason {
        return Standing::Fresh(Box::new(receipt));
    }
    let files = read_files(root, &receipt.inputs);
    if fingerprint(plan, &receipt.inputs, &files, &root.to_string_lossy()) != receipt.fingerprint {
        return Standing::Stale(
            "manifests, lockfiles or the command changed since it was provisioned".into(),
        );
    }
    if let Some(gone) = receipt.made.iter().find(|made| !root.join(made).is_dir()) {
        return Standing::Stale(format!("{} is gone since it was provisioned", gone.display()));
    }
    Standing::Fresh(Box::new(receipt))
}

/// Returns the receipt at `path`, where there is one.
pub fn load(path: &Path) -> Option<Receipt> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Writes a receipt and its copy. The first is durable on return; the copy is a convenience.
pub fn save(receipt: &Receipt, path: &Path, git_dir: &Path) -> io::Result<()> {
    let bytes = serde_json::to_vec(receipt)?;
    let draft = path.with_extension("draft");
    let mut file = File::create(&draft)?;
    file.write_all(&bytes)?;
    file.sync_data()?;
    fs::rename(&draft, path)?;
    if let Some(folder) = path.parent() {
        File::open(folder)?.sync_all()?;
    }
    let _ = fs::write(git_dir.join(COPY_NAME), &bytes);
    Ok(())
}

/// Takes a receipt away before what it proves is changed, so that no failed try leaves one behind.
pub fn withdraw(path: &Path, git_dir: &Path) -> io::Result<()> {
    let _ = fs::remove_file(git_dir.join(COPY_NAME));
    match fs::remove_file(path) {
        Ok(()) => path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
