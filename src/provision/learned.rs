//! How long provisioning took and what it added to the disk, kept from run to run: what takes longest begins first,
//! and as many lanes are prepared at once as fit.
//!
//! A guess that is wrong or lost costs some waiting and nothing else, so it is written without syncs, and
//! whatever can't be read counts as nothing known.
#![expect(clippy::disallowed_methods, reason = "keeps what was learned in a file of its own")]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::ecosystems::ECOSYSTEMS;
use super::plan::{ProvisionPlan, Seen, below};
use crate::ids::hex;

/// What an installation took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Kept")]
pub struct Learned {
    /// Milliseconds.
    pub ms: u64,
    /// Bytes that it added to the disk; 0 where that is not known.
    pub bytes: u64,
    /// Files and folders that it added.
    pub inodes: u64,
}

/// As it stands in the file: of early builds the time alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Kept {
    Time(u64),
    All { ms: u64, bytes: u64, inodes: u64 },
}

impl From<Kept> for Learned {
    fn from(kept: Kept) -> Learned {
        match kept {
            Kept::Time(ms) => Learned { ms, bytes: 0, inodes: 0 },
            Kept::All { ms, bytes, inodes } => Learned { ms, bytes, inodes },
        }
    }
}

/// Most installations that are kept.
const KEPT_MAX: usize = 1000;

/// Returns by what an installation is found again: the commands and the lockfiles that they install from, whatever
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

/// Returns what `file` says, by key.
pub fn load(file: &Path) -> BTreeMap<String, Learned> {
    fs::read(file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Keeps one more. Two processes that do so at once may lose one of the two.
pub fn learn(file: &Path, key: &str, learned: Learned) {
    let mut known = load(file);
    let mut learned = learned;
    if let Some(before) = known.get(key).filter(|_| learned.bytes == 0) {
        // What could not be measured this time was once.
        (learned.bytes, learned.inodes) = (before.bytes, before.inodes);
    }
    known.insert(key.to_string(), learned);
    while known.len() > KEPT_MAX {
        let other = known.keys().find(|other| *other != key).cloned();
        known.remove(&other.unwrap_or_default());
    }
    let Ok(bytes) = serde_json::to_vec(&known) else { return };
    let draft = file.with_extension(format!("{}.draft", std::process::id()));
    let written = fs::File::create(&draft).and_then(|mut file| file.write_all(&bytes));
    let _ = written.and_then(|()| fs::rename(&draft, file));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_early_builds_kept_is_read_and_what_was_not_measured_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("provision-times.json");
        fs::write(&file, r#"{"a":1200}"#).unwrap();
        assert_eq!(load(&file)["a"], Learned { ms: 1200, bytes: 0, inodes: 0 });
        learn(&file, "a", Learned { ms: 900, bytes: 5000, inodes: 7 });
        learn(&file, "a", Learned { ms: 800, bytes: 0, inodes: 0 });
        assert_eq!(load(&file)["a"], Learned { ms: 800, bytes: 5000, inodes: 7 });
    }
}
