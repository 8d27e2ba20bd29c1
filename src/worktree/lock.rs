//! Two locks, both held by the git children too: our own death does not free what they still do.
//!
//! The repository lock covers what git itself races on: the folder of worktree entries. The lane
//! lock covers one lane's whole acquire or sweep, so that a half-made lane has nobody at work.
#![expect(clippy::disallowed_methods, reason = "opens lock files and waits for them")]

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The registration of a lane takes milliseconds; what waits longer waits for something stuck.
const REPOSITORY_WAIT: Duration = Duration::from_secs(120);

/// A checkout can take minutes, and another process may be in the same lane.
const LANE_WAIT: Duration = Duration::from_secs(3600);

/// Held while the worktree entries of one repository are read and changed.
#[derive(Debug)]
pub struct RepositoryLock(File);

/// Held while one lane is acquired or swept.
#[derive(Debug)]
pub struct LaneLock(File);

impl RepositoryLock {
    /// Waits for the lock and returns it. Free again when it and every child that
    /// [`RepositoryLock::share`]d it are gone.
    pub fn take(common_dir: &Path) -> io::Result<RepositoryLock> {
        take(&common_dir.join("omg-worktrees.lock"), Instant::now() + REPOSITORY_WAIT).map(RepositoryLock)
    }

    /// Returns the lock for a child to hold.
    pub fn share(&self) -> io::Result<File> {
        self.0.try_clone()
    }
}

impl LaneLock {
    /// Waits for the lock of the lane at `path`, until `until` at the latest, and returns it. Makes
    /// the folder that holds the lane.
    pub fn take(path: &Path, until: Option<Instant>) -> io::Result<LaneLock> {
        let until = until.unwrap_or_else(|| Instant::now() + LANE_WAIT);
        let file = beside(path, ".omg-lock-")?;
        if let Some(parent) = file.parent() {
            std::fs::create_dir_all(parent)?;
        }
        take(&file, until).map(LaneLock)
    }

    /// Returns the same where the lane ever had a lock; `None` where it had none, and makes none.
    pub fn take_if_there(path: &Path, until: Instant) -> io::Result<Option<LaneLock>> {
        let file = beside(path, ".omg-lock-")?;
        match file.symlink_metadata() {
            Ok(_) => take(&file, until).map(|lock| Some(LaneLock(lock))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the lock for a child to hold.
    pub fn share(&self) -> io::Result<File> {
        self.0.try_clone()
    }
}

/// Returns the name beside `path` that begins with `prefix`. Lane names begin with a letter or a
/// digit, so it is no other lane's.
pub(super) fn beside(path: &Path, prefix: &str) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut own = std::ffi::OsString::from(prefix);
    own.push(name);
    Ok(path.with_file_name(own))
}

/// A child of another thread holds every lock of ours from its fork to its exec; so long is waited for
/// any lock, however late it is.
const FORK_WAIT: Duration = Duration::from_millis(200);

/// Polls: `flock` has no deadline, and a waiting thread could not be called back.
fn take(path: &Path, until: Instant) -> io::Result<File> {
    let until = until.max(Instant::now() + FORK_WAIT);
    let mut options = OpenOptions::new();
    let file = match options.create(true).truncate(false).read(true).write(true).open(path) {
        // Made by another user of a shared repository; a lock needs no right to write.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(path)?,
        opened => opened?,
    };
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("{} is held by another process", path.display()),
                ));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_keeps_the_lock_after_us() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lane");
        let lock = LaneLock::take(&path, None).unwrap();
        let childs = lock.share().unwrap();
        drop(lock);
        let error = LaneLock::take(&path, Some(Instant::now())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(childs);
        LaneLock::take(&path, Some(Instant::now())).unwrap();
    }

    #[test]
    fn names_beside_a_lane_are_its_own() {
        assert_eq!(beside(Path::new("/w/lane1"), ".x-").unwrap(), Path::new("/w/.x-lane1"));
        assert!(beside(Path::new("/"), ".x-").is_err());
    }
}
