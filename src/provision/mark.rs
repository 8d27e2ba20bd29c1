//! The mark of an installation under way, and the end of what one left that did not come to its end.
//!
//! It is there from before an installer begins until its receipt is durable. Whoever finds it knows that
//! what lies in the lane's dependency folders proves nothing.
#![expect(clippy::disallowed_methods, reason = "writes the mark, removes half-made dependency folders")]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::durable;
use super::ecosystems::dependency_folders;
use super::made::is_made_again;
use super::plan::{ProvisionPlan, below};

/// Its name in the lane's folder of the run directory.
const NAME: &str = "provision.in-progress";

/// What an installation under way may make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Number of the try.
    pub number: u32,
    /// Dependency folders, by their path in the lane, that are omg's to remove: they were not there before
    /// the first try, or an earlier installation made them.
    pub ours: BTreeSet<String>,
}

/// Returns the mark in a lane's folder of the run directory; `None` where none is there. One that can't be
/// read names no folder.
pub fn find(folder: &Path) -> Option<Mark> {
    match fs::read(folder.join(NAME)) {
        Ok(bytes) => Some(serde_json::from_slice(&bytes).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(_) => Some(Mark::default()),
    }
}

/// Leaves the mark, durable on return. `made` are folders of an earlier installation's.
pub fn set(
    folder: &Path,
    root: &Path,
    plan: &ProvisionPlan,
    number: u32,
    made: &[PathBuf],
) -> io::Result<Mark> {
    let mut ours: BTreeSet<String> = find(folder).map(|mark| mark.ours).unwrap_or_default();
    ours.extend(made.iter().map(|path| path.to_string_lossy().into_owned()));
    let absent = |path: &String| fs::symlink_metadata(root.join(path)).is_err();
    ours.extend(candidates(plan).into_iter().filter(absent));
    let mark = Mark { number, ours };
    durable::write(&folder.join(NAME), &serde_json::to_vec(&mark)?)?;
    Ok(mark)
}

/// Takes the mark away.
pub fn clear(folder: &Path) -> io::Result<()> {
    match fs::remove_file(folder.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the folders that a plan may make: those of its rows; of any row where a person wrote the command.
pub fn candidates(plan: &ProvisionPlan) -> BTreeSet<String> {
    let of_rows = plan.steps.iter().flat_map(|step| {
        step.row().into_iter().flat_map(|row| row.folders).map(|folder| below(&step.root, folder))
    });
    let opaque = plan.steps.iter().any(|step| step.row().is_none());
    let of_any = plan
        .roots
        .iter()
        .filter(|_| opaque)
        .flat_map(|root| dependency_folders().into_iter().map(|folder| below(root, folder)));
    of_rows.chain(of_any).collect()
}

/// Returns the folders below `root`, of those named, that are real ones and hold nothing that git tracks.
/// Whatever is a symbolic link, or lies behind one, is none.
pub fn removable<'a>(
    root: &Path,
    folders: impl Iterator<Item = &'a String>,
    tracked: &BTreeSet<String>,
) -> Vec<PathBuf> {
    let holds_tracked = |folder: &str| {
        let inside = format!("{folder}/");
        tracked.range(inside.clone()..).next().is_some_and(|path| path.starts_with(&inside))
    };
    folders
        .filter(|folder| is_real_below(root, Path::new(folder)) && !holds_tracked(folder))
        .map(|folder| root.join(folder))
        .collect()
}

/// Returns whether `path` below `root` is a folder and so is all that leads to it, no links among them.
pub fn is_real_below(root: &Path, path: &Path) -> bool {
    let mut at = root.to_path_buf();
    path.components().all(|part| {
        let Component::Normal(name) = part else { return false };
        at.push(name);
        fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_dir())
    })
}

/// Returns the folders that a plan makes whole, by their path in the lane: of a command that a person wrote, those
/// that only package managers write into.
pub fn whole(plan: &ProvisionPlan) -> Vec<String> {
    let of_rows = plan.steps.iter().flat_map(|step| {
        step.row().into_iter().flat_map(|row| row.folders).map(|folder| below(&step.root, folder))
    });
    let of_rows: BTreeSet<String> = of_rows.collect();
    candidates(plan)
        .into_iter()
        .filter(|folder| of_rows.contains(folder) || is_made_again(Path::new(folder)))
        .collect()
}

/// Returns those of [`whole`] that are symbolic links: an install through one empties what it leads to (measured
/// with npm).
pub fn links(root: &Path, plan: &ProvisionPlan) -> Vec<String> {
    let is_link = |path: &String| fs::symlink_metadata(root.join(path)).is_ok_and(|meta| meta.is_symlink());
    whole(plan).into_iter().filter(is_link).collect()
}

/// Removes half-made folders. Nothing is followed out of them.
pub fn remove(folders: &[PathBuf]) -> io::Result<()> {
    for folder in folders {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Removes a symbolic link itself.
pub fn unlink(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// Returns the nearest folder above `root` that holds `node_modules`: Node would look there too, and an
/// empty lane would seem complete (measured).
pub fn node_modules_above(root: &Path) -> Option<PathBuf> {
    root.ancestors().skip(1).find(|folder| folder.join("node_modules").is_dir()).map(Path::to_path_buf)
}
