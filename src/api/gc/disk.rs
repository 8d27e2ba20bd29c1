//! What `gc` does to the folder of runs: measures, lists, renames away, deletes.
#![expect(clippy::disallowed_methods, reason = "lists, measures and deletes folders of runs")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use crate::cleanup::delete_tree;
use crate::failpoint::{self, Point};
use crate::process::table;
use crate::view::gc::{Leftover, Space};

/// How the folder of a run is called once it is to be deleted.
const GONE: &str = ".gone-";

/// How the folder of a run is called while it is made.
const DRAFT: &str = ".new-";

/// Age below which a draft may be somebody's whose process we do not see.
const DRAFT_AGE: Duration = Duration::from_secs(60);

/// Bytes of a unit of `st_blocks` (stat(2)).
const BLOCK: u64 = 512;

/// Returns what `trees` take, each file once whatever its names. What can't be read counts as nothing.
pub fn space(trees: &[PathBuf]) -> Space {
    let mut seen = BTreeSet::new();
    let mut open: Vec<PathBuf> = trees.to_vec();
    let mut space = Space::default();
    while let Some(path) = open.pop() {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if !metadata.is_dir() && metadata.nlink() > 1 && !seen.insert((metadata.dev(), metadata.ino())) {
            continue;
        }
        space = space.and(Space { bytes: metadata.blocks() * BLOCK, inodes: 1 });
        if metadata.is_dir() {
            open.extend(fs::read_dir(&path).into_iter().flatten().flatten().map(|item| item.path()));
        }
    }
    space
}

/// Returns whether anything is at `path`.
pub fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Makes a folder, where it is not there.
pub fn make(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// Returns whether a folder has any file below it; `true` also where that can't be read.
pub fn has_files(folder: &Path) -> bool {
    let mut open = vec![folder.to_path_buf()];
    while let Some(path) = open.pop() {
        match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => return true,
            Ok(items) => {
                for item in items {
                    match item.and_then(|item| Ok((item.file_type()?, item.path()))) {
                        Ok((kind, path)) if kind.is_dir() => open.push(path),
                        Ok(_) | Err(_) => return true,
                    }
                }
            }
        }
    }
    false
}

/// Returns the folders in `folder` that are not empty, by name; one that can't be read stands for itself.
pub fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let items = match fs::read_dir(folder) {
        Ok(items) => items,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(_) => return vec![folder.to_path_buf()],
    };
    let is_empty = |path: &Path| fs::read_dir(path).is_ok_and(|mut items| items.next().is_none());
    let mut found: Vec<PathBuf> = items
        .flatten()
        .filter(|item| !item.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|item| item.path())
        .filter(|path| !is_empty(path))
        .collect();
    found.sort();
    found
}

/// Returns when a folder, or what lies in it directly, was last changed.
pub fn last_change(folder: &Path) -> Option<Timestamp> {
    let changed = |path: &Path| {
        let metadata = fs::symlink_metadata(path).ok()?;
        Timestamp::try_from(metadata.modified().ok()?).ok()
    };
    let items = fs::read_dir(folder).into_iter().flatten().flatten().map(|item| item.path());
    items.chain([folder.to_path_buf()]).filter_map(|path| changed(&path)).max()
}

/// Takes the folder of a run out of the way, and deletes it. Killed in between, [`leftovers`] finds it.
///
/// Only for the holder of the run's lock, which lies in it. Errors: nothing was renamed, or a part is left.
pub fn remove(run: &Path) -> io::Result<()> {
    let (Some(runs), Some(name)) = (run.parent(), run.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut gone = std::ffi::OsString::from(GONE);
    gone.push(name);
    let gone = runs.join(gone);
    delete_tree(&gone)?;
    failpoint::at(Point::MoveBefore);
    fs::rename(run, &gone)?;
    failpoint::at(Point::MoveAfter);
    File::open(runs)?.sync_all()?;
    delete_tree(&gone)
}

/// Deletes the lock files of lanes in `folder`, and the folder where nothing else is in it.
pub fn remove_empty_root(folder: &Path) {
    for item in fs::read_dir(folder).into_iter().flatten().flatten() {
        if item.file_name().to_string_lossy().starts_with(".omg-lock-") {
            let _ = fs::remove_file(item.path());
        }
    }
    let _ = fs::remove_dir(folder);
}

/// Returns what killed commands left in the folder of runs, and deletes what may go unless `dry_run`.
pub fn leftovers(runs: &Path, dry_run: bool, now: Timestamp) -> Vec<Leftover> {
    let mut found = Vec::new();
    let mut paths: Vec<PathBuf> =
        fs::read_dir(runs).into_iter().flatten().flatten().map(|item| item.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let judged = if name.starts_with(GONE) {
            Ok("a run that was to be removed".to_string())
        } else if let Some(draft) = name.strip_prefix(DRAFT) {
            draft_of(&path, draft, now)
        } else {
            continue;
        };
        let space = space(std::slice::from_ref(&path));
        let done = judged.and_then(|what| match dry_run {
            true => Ok(what),
            false => delete_tree(&path).map(|()| what).map_err(|error| error.to_string()),
        });
        let removed = done.is_ok();
        let what = done.unwrap_or_else(|why| why);
        found.push(Leftover { path, removed, what, space });
    }
    found
}

/// Returns what a draft of a run is, where it may go; else why it stays.
fn draft_of(path: &Path, name: &str, now: Timestamp) -> Result<String, String> {
    let Some(pid) = name.rsplit_once('-').and_then(|(_, pid)| pid.parse::<u32>().ok()) else {
        return Err("its name is none that omg gives".into());
    };
    if table::process(pid).is_some() {
        return Err(format!("process {pid} may be making a run of it"));
    }
    let age = last_change(path).map(|at| now.duration_since(at));
    if age.is_none_or(|age| age < jiff::SignedDuration::try_from(DRAFT_AGE).unwrap_or_default()) {
        return Err("it is younger than a minute".into());
    }
    let is_ours = |item: io::Result<fs::DirEntry>| item.is_ok_and(|item| item.file_name() == "run.json");
    let mut items = fs::read_dir(path).map_err(|error| error.to_string())?;
    match items.all(is_ours) {
        true => Ok(format!("process {pid} was killed while it made this run")),
        false => Err("it holds more than a run that is being made".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_two_names_takes_its_space_once() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a"), vec![1; 10_000]).unwrap();
        let once = space(&[folder.path().to_path_buf()]);
        fs::hard_link(at("a"), at("b")).unwrap();
        assert_eq!(space(&[folder.path().to_path_buf()]), once);
        assert!(once.inodes == 2 && once.bytes >= 10_000, "{once:?}");
    }

    #[test]
    fn only_a_draft_that_is_old_enough_and_nobodys_goes() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path();
        let own = std::process::id();
        // No process has this number: it is above what the kernel gives.
        let dead = u32::MAX / 2;
        for (name, file) in [
            (format!(".new-r1-{dead}"), "run.json"),
            (format!(".new-r2-{own}"), "run.json"),
            (format!(".new-r3-{dead}"), "work"),
            (".gone-r4".to_string(), "x"),
            ("r5".to_string(), "run.json"),
        ] {
            fs::create_dir(runs.join(&name)).unwrap();
            fs::write(runs.join(name).join(file), "").unwrap();
        }
        let names = |now| {
            let gone = leftovers(runs, true, now).into_iter().filter(|leftover| leftover.removed);
            gone.map(|leftover| leftover.path.file_name().unwrap().to_string_lossy().into_owned())
                .collect::<Vec<_>>()
        };
        let now = last_change(runs).unwrap();
        assert_eq!(names(now), [".gone-r4"]);
        let later = now + Duration::from_secs(61);
        assert_eq!(names(later), [".gone-r4".to_string(), format!(".new-r1-{dead}")]);
        assert_eq!(leftovers(runs, false, later).len(), 4);
        let name = |item: io::Result<fs::DirEntry>| item.unwrap().file_name().to_string_lossy().into_owned();
        let mut left: Vec<String> = fs::read_dir(runs).unwrap().map(name).collect();
        left.sort();
        assert_eq!(left, [format!(".new-r2-{own}"), format!(".new-r3-{dead}"), "r5".into()]);
    }
}
