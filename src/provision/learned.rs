//! How long provisioning took, kept from run to run: what takes longest begins first.
//!
//! A guess that is wrong or lost costs some waiting and nothing else, so it is written without syncs, and
//! whatever can't be read counts as nothing known.
#![expect(clippy::disallowed_methods, reason = "keeps durations in a file of its own")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::ecosystems::ECOSYSTEMS;
use super::plan::{ProvisionPlan, Seen, below};
use crate::ids::hex;

/// Most durations that are kept.
const KEPT_MAX: usize = 1000;

/// Returns by what a duration is found again: the commands and the lockfiles that they install from, whatever
/// the lane and the run.
pub fn key(plan: &ProvisionPlan, seen: &Seen) -> String {
    let mut hash = Sha256::new();
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for step in &plan.steps {
        field(step.display().as_bytes());
    }
    for root in &plan.roots {
        for lock in ECOSYSTEMS.iter().flat_map(|row| row.locks) {
            let name = below(root, lock);
            if let Some(content) = seen.files.get(&name) {
                field(name.as_bytes());
                field(content);
            }
        }
    }
    hex(&hash.finalize())
}

/// Returns the durations in `file`, in milliseconds by key.
pub fn load(file: &Path) -> BTreeMap<String, u64> {
    fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Keeps one more. Two processes that do so at once may lose one of the two.
pub fn learn(file: &Path, key: &str, duration_ms: u64) {
    let mut known = load(file);
    known.insert(key.to_string(), duration_ms);
    while known.len() > KEPT_MAX {
        let other = known.keys().find(|other| *other != key).cloned();
        known.remove(&other.unwrap_or_default());
    }
    let Ok(bytes) = serde_json::to_vec(&known) else { return };
    let draft = file.with_extension(format!("{}.draft", std::process::id()));
    let written = fs::File::create(&draft).and_then(|mut file| file.write_all(&bytes));
    let _ = written.and_then(|()| fs::rename(&draft, file));
}
