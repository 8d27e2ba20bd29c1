//! The mark of an installation under way, and the end of what one left that did not come to its end.
//!
//! It is there from before an installer begins until its receipt is durable. Whoever finds it knows that
//! what lies in the lane's dependency folders proves nothing.
#![expect(clippy::disallowed_methods, reason = "writes the mark, removes half-made dependency folders")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cause::named_in;
use super::durable;
use super::made::is_made_again;
use super::plan::{ProvisionPlan, Step, below};
use crate::ids::Generation;
use crate::worktree::TreeState;

/// Its name in the lane's folder of the run directory.
const NAME: &str = "provision.in-progress";

/// What an installation under way may make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Number of the try.
    pub number: u32,
    /// The leg's claim: what a person did since an older one is not omg's to remove.
    pub generation: Option<Generation>,
    /// What tells the tree from one that takes its place.
    pub tree: u64,
    /// Dependency folders, by their path in the lane, that are omg's to remove: they were not there before
    /// the first try, or an earlier installation made them.
    pub ours: BTreeSet<String>,
    /// Tracked files that differed from the commit before the first try, each with what it was.
    #[serde(with = "by_path")]
    pub changed: BTreeMap<PathBuf, String>,
    /// What was checked out then.
    pub head: String,
    /// What git did not track then.
    pub others: BTreeSet<PathBuf>,
    /// What there was of tracked files when the last try ended; `None` where nobody saw its end.
    #[serde(default)]
    pub left: Option<Left>,
}

/// What a try left of what git tracks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Tracked files that differ from the commit, each with what it is.
    #[serde(with = "by_path")]
    pub changed: BTreeMap<PathBuf, String>,
    /// What is checked out.
    pub head: String,
}

/// Maps by path as JSON: a path that is no text is a NUL, which no path holds, and its bytes in hexadecimal.
mod by_path {
    use std::collections::BTreeMap;
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(map: &BTreeMap<PathBuf, String>, to: S) -> Result<S::Ok, S::Error> {
        let text = |path: &Path| match path.to_str() {
            Some(text) => text.to_string(),
            None => format!("\0{}", crate::ids::hex(path.as_os_str().as_bytes())),
        };
        to.collect_map(map.iter().map(|(path, value)| (text(path), value)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<PathBuf, String>, D::Error> {
        let path = |text: String| match text.strip_prefix('\0') {
            None => PathBuf::from(text),
            Some(hex) => {
                let pairs = hex.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok());
                let bytes = pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect();
                PathBuf::from(OsString::from_vec(bytes))
            }
        };
        let map = BTreeMap::<String, String>::deserialize(from)?;
        Ok(map.into_iter().map(|(text, value)| (path(text), value)).collect())
    }
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

/// A try that is about to begin.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    /// The lane's folder in the run directory.
    pub folder: &'a Path,
    /// The lane's root.
    pub root: &'a Path,
    /// What is run.
    pub plan: &'a ProvisionPlan,
    /// Number of the try.
    pub number: u32,
    /// The leg's claim.
    pub generation: Option<Generation>,
    /// Folders of an earlier installation's.
    pub made: &'a [PathBuf],
}

/// Leaves the mark, durable on return. `now` is what the tree holds besides its commit; where an earlier try in
/// the same tree came to no end, what it held before that counts.
pub fn set(beginning: &Beginning<'_>, now: &TreeState) -> io::Result<Mark> {
    let tree = fs::metadata(beginning.root)?.ino();
    let earlier = of_tree(beginning.folder, beginning.root);
    let mut ours: BTreeSet<String> = earlier.iter().flat_map(|mark| mark.ours.clone()).collect();
    // Into the others a node may have put its own since.
    let alone = beginning.made.iter().filter(|path| is_made_again(path));
    ours.extend(alone.map(|path| path.to_string_lossy().into_owned()));
    let absent = |path: &String| fs::symlink_metadata(beginning.root.join(path)).is_err();
    ours.extend(whole(beginning.plan).into_iter().filter(absent));
    let others =
        || now.untracked.union(&now.ignored).filter(|path| path.to_str().is_some()).cloned().collect();
    let mut mark = match earlier {
        Some(mark) if mark.generation == beginning.generation => Mark { ours, left: None, ..mark },
        // What somebody did since an older leg is not the installer's; what that left and nobody touched is.
        Some(old) => Mark {
            ours,
            changed: old.baseline(&now.changed),
            head: old.head_before(&now.head),
            others: others(),
            ..Mark::default()
        },
        None => Mark {
            ours,
            changed: now.changed.clone(),
            head: now.head.clone(),
            others: others(),
            ..Mark::default()
        },
    };
    (mark.number, mark.generation, mark.tree) = (beginning.number, beginning.generation, tree);
    durable::write(&beginning.folder.join(NAME), &serde_json::to_vec(&mark)?)?;
    Ok(mark)
}

/// Notes in the mark what a try left, durably.
pub fn ended(folder: &Path, mark: &Mark, after: &TreeState) -> io::Result<()> {
    let left = Some(Left { changed: after.changed.clone(), head: after.head.clone() });
    durable::write(&folder.join(NAME), &serde_json::to_vec(&Mark { left, ..mark.clone() })?)
}

impl Mark {
    /// Returns what a try of a later leg is held against, where tracked files differ as in `now`: what nobody
    /// touched since the last try ended counts as it was before that. Where nobody saw its end, all does.
    fn baseline(&self, now: &BTreeMap<PathBuf, String>) -> BTreeMap<PathBuf, String> {
        let Some(left) = &self.left else { return self.changed.clone() };
        let paths: BTreeSet<&PathBuf> =
            now.keys().chain(left.changed.keys()).chain(self.changed.keys()).collect();
        let counts = |path: &&PathBuf| {
            if now.get(*path) == left.changed.get(*path) { &self.changed } else { now }.get(*path).cloned()
        };
        paths.iter().filter_map(|path| Some((path.to_path_buf(), counts(path)?))).collect()
    }

    /// Returns what was checked out before the last try, unless somebody checked out something else since.
    fn head_before(&self, now: &str) -> String {
        let is_theirs = self.left.as_ref().is_some_and(|left| left.head != now);
        if is_theirs { now.to_string() } else { self.head.clone() }
    }

    /// Returns the folders that a try that finds this mark may remove: those it made itself, of an older leg's only
    /// those that nobody puts work into.
    pub fn removable(&self, generation: Option<Generation>) -> Vec<String> {
        let same = self.generation.is_some() && self.generation == generation;
        self.ours.iter().filter(|folder| same || is_made_again(Path::new(folder))).cloned().collect()
    }
}

/// Returns the mark of an installation in this very tree.
pub fn of_tree(folder: &Path, root: &Path) -> Option<Mark> {
    let tree = fs::metadata(root).ok()?.ino();
    find(folder).filter(|mark| mark.tree == tree)
}

/// Takes the mark away.
pub fn clear(folder: &Path) -> io::Result<()> {
    match fs::remove_file(folder.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the folders that a plan makes whole, by their path in the lane: those of its rows; of a command that a
/// person wrote, of the rows whose tools it names those that only package managers write into.
pub fn whole(plan: &ProvisionPlan) -> BTreeSet<String> {
    let of_step = |step: &Step| -> Vec<String> {
        let below_root = |folder: &&str| below(&step.root, folder);
        match step.row() {
            Some(row) => row.folders.iter().map(below_root).collect(),
            None => {
                let script = step.script();
                let named = named_in(&script).flat_map(|row| row.folders);
                let alone = named.filter(|folder| is_made_again(Path::new(folder)));
                plan.roots.iter().flat_map(|root| alone.clone().map(|folder| below(root, folder))).collect()
            }
        }
    };
    plan.steps.iter().flat_map(of_step).collect()
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
