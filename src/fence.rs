//! The generation check: asked right before what can't be taken back.
//!
//! The lock on `run.lock` keeps two holders of a run apart where locks hold. Where they don't (a network file
//! system, a lock file that somebody deleted) the generation in it tells the older of two, and that one stops.
#![expect(clippy::disallowed_methods, reason = "asks whether the lock file is still the one that is held")]

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ids::Generation;

/// Longest content of a lock file that is looked at.
const LENGTH_MAX: usize = 256;

/// A claim on a run, as those see it who act in its name.
#[derive(Clone, Debug, Default)]
pub struct Fence(Option<Arc<Held>>);

#[derive(Debug)]
struct Held {
    path: PathBuf,
    lock: File,
    generation: Generation,
}

/// The run has a newer holder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "another process has taken the run over (generation {}; this one holds {}), so this one does nothing more",
    newer.0,
    ours.0
)]
pub struct Overtaken {
    /// The generation that was claimed by us.
    pub ours: Generation,
    /// The one that holds the run now.
    pub newer: Generation,
}

impl Fence {
    /// Returns the fence of a claim of `generation` that holds `lock`, the file at `path`.
    pub fn of(path: &Path, lock: File, generation: Generation) -> Fence {
        Fence(Some(Arc::new(Held { path: path.to_path_buf(), lock, generation })))
    }

    /// Asks whether the claim is still the newest. Two system calls.
    ///
    /// Errors: a newer one is there. A lock file that is gone is no newer claim: who makes it anew claims it,
    /// and is then seen.
    pub fn check(&self) -> Result<(), Overtaken> {
        let Some(held) = &self.0 else { return Ok(()) };
        let newest = match (std::fs::metadata(&held.path), held.lock.metadata()) {
            (Ok(there), Ok(ours)) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => {
                generation_in(&held.lock)
            }
            (Ok(_), _) => File::open(&held.path).ok().and_then(|lock| generation_in(&lock)),
            (Err(_), _) => None,
        };
        match newest {
            Some(newer) if newer > held.generation => Err(Overtaken { ours: held.generation, newer }),
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns the generation that a lock file names: `PID START GENERATION …`.
pub fn generation_in(lock: &File) -> Option<Generation> {
    let mut bytes = [0; LENGTH_MAX];
    let length = lock.read_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes[..length]).ok()?;
    text.split_whitespace().nth(2)?.parse().ok().map(Generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(path: &Path, generation: u64) -> File {
        std::fs::write(path, format!("1 2 {generation} 1 leg\n")).unwrap();
        File::open(path).unwrap()
    }

    #[test]
    fn the_older_holder_is_stopped_and_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.lock");
        let held = Fence::of(&path, lock(&path, 2), Generation(2));
        assert_eq!(held.check(), Ok(()));
        assert_eq!(Fence::default().check(), Ok(()));
        // Written by who did not heed the lock.
        lock(&path, 3);
        let overtaken = Overtaken { ours: Generation(2), newer: Generation(3) };
        assert_eq!(held.check(), Err(overtaken.clone()));
        // Deleted, and made anew.
        let held = Fence::of(&path, lock(&path, 2), Generation(2));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(held.check(), Ok(()));
        lock(&path, 3);
        assert_eq!(held.check(), Err(overtaken));
        // An older one that comes late overtakes nobody.
        std::fs::remove_file(&path).unwrap();
        lock(&path, 1);
        assert_eq!(held.check(), Ok(()));
    }
}
