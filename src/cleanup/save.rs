//! Saves what a lane holds before it goes: commits and changes under a ref, files by rename.
#![expect(clippy::disallowed_methods, reason = "moves files out of a lane that is about to go")]

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::SweepRequest;
use super::look::{Look, status};
use super::rebuildable::{Overlaid, overlaid};
use super::withhold::{Withheld, as_they_are, make_private, path_in, withheld};
use crate::ids::CommitId;
use crate::worktree::git::items;
use crate::worktree::lane::rescue_ref;
use crate::worktree::rescue::{self, IndexCopy, Seat};
use crate::worktree::{Entry, Git, GitError, Repository, move_to};

/// What a save did: enough to take the moves back.
#[derive(Debug, Default)]
pub(super) struct Saved {
    moves: Vec<(PathBuf, PathBuf)>,
}

impl Saved {
    /// Moves every file back to where it was. Best effort: what cannot go back is still saved.
    pub fn take_back(self) {
        for (from, to) in self.moves.into_iter().rev() {
            let _ = move_to(&to, &from);
        }
    }
}

/// Saves all that `look` found in `tree` and that would die with it. On an error the tree is as it
/// was, and refs may hold more than they need.
pub(super) fn save(
    git: &Git,
    repository: &Repository,
    request: &SweepRequest,
    tree: &Path,
    entry: &Entry,
    look: &Look,
    with_work: bool,
) -> Result<(), String> {
    let mut saved = Saved::default();
    let result = save_into(&mut saved, git, repository, request, tree, entry, look, with_work);
    if result.is_err() {
        saved.take_back();
    }
    result
}

#[expect(clippy::too_many_arguments, reason = "one step of `save`, split off for its early returns")]
fn save_into(
    saved: &mut Saved,
    git: &Git,
    repository: &Repository,
    request: &SweepRequest,
    tree: &Path,
    entry: &Entry,
    look: &Look,
    with_work: bool,
) -> Result<(), String> {
    let name = rescue_ref(&request.run, &request.lane);
    let words = |error: GitError| error.to_string();
    let mut held = look.unreached.clone();
    rescue::pin(git, &repository.common_dir, &name, &held).map_err(words)?;
    let mut gone: Vec<&PathBuf> = Vec::new();
    let copies = if with_work { request.copies() } else { &[] };
    let copies = as_they_are(tree, copies, &request.base);
    let withheld = withheld(git, tree, entry, &copies).map_err(words)?;
    let (nested, strays): (&[PathBuf], &[PathBuf]) =
        if with_work { (&look.nested, &look.strays) } else { (&[], &[]) };
    for path in nested.iter().chain(strays).chain(&look.ignored) {
        if gone.iter().any(|gone| path.starts_with(gone)) {
            continue;
        }
        // A worktree of another repository, or a submodule's: its `.git` names a place, and that
        // repository names this one.
        if nested.contains(path) && !tree.join(path).join(".git").is_dir() {
            return Err(format!("{} is a worktree of another repository", path.display()));
        }
        git.allowed().map_err(|overtaken| overtaken.to_string())?;
        let target = move_below(tree, path, &request.rescued).map_err(|error| {
            format!("{} could not be moved to {}: {error}", path.display(), request.rescued.display())
        })?;
        saved.moves.push((tree.join(path), target));
        gone.push(path);
    }
    if with_work {
        save_copies(saved, request, tree, look, &withheld)?;
        withheld.save_staged(git, tree, &request.rescued)?;
        let needed = needs_commit(git, tree, look, &withheld).map_err(words)?;
        let snapshot = snapshot(git, tree, entry, &withheld)?;
        if needed && snapshot.changes.is_none() {
            return Err("work was seen, and no commit of it could be made".into());
        }
        let tips: Vec<CommitId> = snapshot.changes.into_iter().chain(snapshot.sides).collect();
        rescue::pin(git, &repository.common_dir, &name, &tips).map_err(words)?;
        held.extend(tips);
    }
    if !held.is_empty() {
        rescue::prove(git, &repository.common_dir, &name, &held, &request.base).map_err(words)?;
    }
    Ok(())
}

/// Moves edited copies of the overlay, and files with the content of one, to where only their owner reads them.
fn save_copies(
    saved: &mut Saved,
    request: &SweepRequest,
    tree: &Path,
    look: &Look,
    withheld: &Withheld,
) -> Result<(), String> {
    // Edited and then staged, git sees no difference of the file's.
    let is_edited = |path: &&PathBuf| overlaid(tree, path, request.copies()) == Overlaid::Edited;
    let staged =
        withheld.left_out.in_index.iter().filter(is_edited).filter(|path| !look.edited.contains(path));
    for path in look.edited.iter().chain(staged).chain(&withheld.strangers) {
        let from = tree.join(path);
        // Some lie in a folder that was moved whole.
        let with = saved.moves.iter().find_map(|(moved, to)| match from.strip_prefix(moved).ok()? {
            rest if rest.as_os_str().is_empty() => Some(to.clone()),
            rest => Some(to.join(rest)),
        });
        let target = match with {
            Some(target) => target,
            None if fs::symlink_metadata(&from).is_err() => continue,
            None => {
                let target = move_below(tree, path, &request.rescued).map_err(|error| {
                    format!("{} could not be moved to {}: {error}", path.display(), request.rescued.display())
                })?;
                saved.moves.push((from, target.clone()));
                target
            }
        };
        make_private(&request.rescued, &target).map_err(|error| format!("{}: {error}", target.display()))?;
    }
    Ok(())
}

/// Returns whether the lane, its repositories and ignored files moved out, still holds what only a
/// commit can save.
fn needs_commit(git: &Git, tree: &Path, look: &Look, withheld: &Withheld) -> Result<bool, GitError> {
    let listing = status(git, tree).output()?;
    let covered = |item: &[u8]| path_in(item).is_some_and(|path| withheld.covers(tree, &path));
    let seen = items(&listing).any(|item| !matches!(item[0], b'#' | b'!') && !covered(item));
    Ok(seen || look.observed.work.flagged != Some(0))
}

/// What a lane holds, as commits.
struct Snapshot {
    /// Its changes, on top of what was staged; `None` where its files are what HEAD has.
    changes: Option<CommitId>,
    /// The sides of an operation under way.
    sides: Vec<CommitId>,
}

/// Writes every change of the lane, and proves it: against an index of the written commit, which knows
/// nothing of these files, each of them is compared by its content.
fn snapshot(git: &Git, tree: &Path, entry: &Entry, withheld: &Withheld) -> Result<Snapshot, String> {
    let words = |error: GitError| error.to_string();
    let copy = IndexCopy::of(&entry.git_dir).map_err(|error| error.to_string())?;
    let changes = rescue::worktree(git, tree, &copy, &withheld.left_out).map_err(words)?;
    let seat = Seat::Tree(tree);
    let sides = rescue::commits_at(git, seat, &SIDES).map_err(words)?;
    let mut sides: Vec<CommitId> = sides.into_iter().flatten().collect();
    for file in SIDE_FILES {
        let Ok(text) = fs::read_to_string(entry.git_dir.join(file)) else { continue };
        sides.extend(CommitId::parse(text.trim()));
    }
    let written = changes.as_ref().map_or("HEAD", CommitId::as_str);
    match (&changes, rescue::commits_at(git, seat, &["HEAD"]).map_err(words)?.as_slice()) {
        // A branch without a commit, and nothing on disk: any file would have become a commit.
        (None, [None]) => copy.empty(),
        _ => copy.read(git, seat, written).map_err(words)?,
    }
    let after = copy.on(status(git, tree)).output().map_err(words)?;
    for item in items(&after) {
        let differs = match item[0] {
            b'1' => item.get(3) != Some(&b'.'),
            b'u' | b'?' | b'2' => true,
            _ => false,
        };
        let covered = path_in(item).is_some_and(|path| withheld.covers(tree, &path));
        if differs && !covered {
            return Err(format!("a change could not be written: {}", String::from_utf8_lossy(item)));
        }
    }
    Ok(Snapshot { changes, sides })
}

/// Commits that an operation under way names by a ref of its own.
const SIDES: [&str; 5] = ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "MERGE_AUTOSTASH"];

/// Commits that a rebase or an `am` names in a file of its own.
const SIDE_FILES: [&str; 6] = [
    "rebase-merge/orig-head",
    "rebase-merge/stopped-sha",
    "rebase-merge/autostash",
    "rebase-apply/orig-head",
    "rebase-apply/autostash",
    "rebase-merge/onto",
];

/// Moves `path`, below `tree`, to the same place below `rescued`, and returns where it is. Nothing
/// is overwritten: a name that is taken gets a number.
fn move_below(tree: &Path, path: &Path, rescued: &Path) -> io::Result<PathBuf> {
    let wanted = rescued.join(path);
    if let Some(parent) = wanted.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut target = wanted.clone();
    for number in 1u32.. {
        match move_to(&tree.join(path), &target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut name = OsString::from(wanted.file_name().unwrap_or_default());
                name.push(format!(".{number}"));
                target = wanted.with_file_name(name);
            }
            Err(error) => return Err(error),
            Ok(()) => break,
        }
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_overwrites_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, rescued) = (folder.path().join("tree"), folder.path().join("rescued"));
        for text in ["one", "two", "three"] {
            fs::create_dir_all(tree.join("a")).unwrap();
            fs::write(tree.join("a/x.log"), text).unwrap();
            move_below(&tree, Path::new("a/x.log"), &rescued).unwrap();
        }
        let read = |name: &str| fs::read_to_string(rescued.join("a").join(name)).unwrap();
        assert_eq!(
            (read("x.log"), read("x.log.1"), read("x.log.2")),
            ("one".into(), "two".into(), "three".into())
        );
    }
}
