//! Reads one lane at leg end into [`Observed`], with the names behind the counts.
//!
//! Every answer of git is asked with its settings forced: no configuration of the user's can blind
//! the look, nor a broken `.git` file make git answer for an outer repository.
#![expect(clippy::disallowed_methods, reason = "asks which files of a lane and its entry exist")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::rebuildable::{Overlaid, is_as_made, is_rebuildable, overlaid};
use super::submodule::{gitlinks_in, has_work, repositories_in};
use super::verdict::{Folder, Observed, Tip, Work};
use super::walk::{Walk, list_files};
use super::withhold::path_in;
use super::{OverlayFile, SweepRequest};
use crate::ids::CommitId;
use crate::process::table::worked_in;
use crate::worktree::git::{Call, items, path_of};
use crate::worktree::lane::{Lock, Phase, Receipt};
use crate::worktree::rescue::{IndexCopy, Seat, unreached};
use crate::worktree::{Entry, Git, GitError, Repository, branch_tip, checked_out_at, half_made, lock_of};
use crate::worktree::{OPERATIONS, is_of_lane, marked, receipt};

/// What a git at work holds there.
pub(super) const GIT_LOCKS: [&str; 3] = ["index.lock", "HEAD.lock", "shallow.lock"];

/// One look at a lane.
#[derive(Clone, Debug)]
pub(super) struct Look {
    /// What is judged.
    pub observed: Observed,
    /// Ignored files and folders that nothing can rebuild, below the tree.
    pub ignored: Vec<PathBuf>,
    /// Roots of repositories inside, below the tree.
    pub nested: Vec<PathBuf>,
    /// Files in folders of submodules that were never filled, below the tree: git adds none of them.
    pub strays: Vec<PathBuf>,
    /// Copies of the overlay that were edited, below the tree.
    pub edited: Vec<PathBuf>,
    /// Commits that only the lane reaches.
    pub unreached: Vec<CommitId>,
    /// What HEAD names: a branch, or a commit where it is detached.
    pub head: Head,
    /// Stash entries made on the lane's branch. They lie in the repository and stay.
    pub stash: u64,
    /// The first thing that could not be read, or who works there, in words.
    pub why: Option<String>,
}

/// What HEAD names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Head {
    /// The lane's branch, or nothing that could be read.
    #[default]
    OwnBranch,
    /// Another branch.
    Branch(String),
    /// A commit.
    Detached(CommitId),
}

/// Looks at lanes of one repository.
pub(super) struct Looker<'a> {
    pub git: &'a Git,
    pub repository: &'a Repository,
    pub request: &'a SweepRequest,
}

/// Keeps the first reason for which something stays unread.
fn note<T, E: std::fmt::Display>(why: &mut Option<String>, result: Result<T, E>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            why.get_or_insert_with(|| error.to_string());
            None
        }
    }
}

/// The one status that a judgement may rest on.
pub(super) fn status(git: &Git, tree: &Path) -> Call {
    git.at(
        tree,
        [
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=all",
            "--ignored=matching",
            // Their commits, and not their files: git would enter a submodule where its own settings
            // say it lies, which is wrong once the lane is set aside. `has_work` looks into them.
            "--ignore-submodules=dirty",
            "--no-renames",
        ],
    )
    .unblinded()
}

impl Looker<'_> {
    /// Returns what is seen of the lane in `tree`, its path or where a sweep put it, whose entry is
    /// `entry`. `judged`: a tree judged twice waits to be deleted.
    pub fn look(&self, tree: &Path, entry: Result<Option<&Entry>, &io::Error>, judged: bool) -> Look {
        let mut why = None;
        let folder = note(&mut why, self.folder(tree, entry, judged));
        let registered = note(&mut why, entry).map(|entry| entry.is_some());
        let entry = entry.ok().flatten();
        let tip = note(&mut why, self.tip(entry));
        let mut look = Look {
            observed: Observed {
                folder,
                registered,
                locked_by_other: Some(matches!(
                    entry.map(|entry| lock_of(entry, &self.request.run)),
                    Some(Lock::Foreign(_))
                )),
                busy: None,
                work: Work::default(),
                ignored: None,
                tip,
                unreached: None,
            },
            ignored: Vec::new(),
            nested: Vec::new(),
            strays: Vec::new(),
            edited: Vec::new(),
            unreached: Vec::new(),
            head: Head::default(),
            stash: self.stash().unwrap_or(0),
            why,
        };
        if folder == Some(Folder::Foreign) && registered == Some(false) && tree.join(".git").exists() {
            let common = self.repository.common_dir.display();
            look.why.get_or_insert_with(|| {
                format!("{common} does not list it; `git worktree repair {}` may mend that", tree.display())
            });
        }
        match (folder, entry) {
            (Some(Folder::Lane), Some(entry)) => self.inside(tree, entry, &mut look),
            (Some(Folder::Absent | Folder::Judged), _) => {
                let seat = Seat::GitDir(&self.repository.common_dir);
                let no_branch = look.observed.tip == Some(Tip::Absent);
                self.commits(seat, &mut look, no_branch);
            }
            (Some(Folder::Lane | Folder::Foreign) | None, _) => {}
        }
        look
    }

    fn folder(
        &self,
        tree: &Path,
        entry: Result<Option<&Entry>, &io::Error>,
        judged: bool,
    ) -> Result<Folder, String> {
        let words = |error: io::Error| format!("{}: {error}", tree.display());
        let nothing = if judged { Folder::Judged } else { Folder::Absent };
        let metadata = match fs::symlink_metadata(tree) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(nothing),
            Err(error) => return Err(words(error)),
        };
        if !metadata.is_dir() {
            return Ok(Folder::Foreign);
        }
        if fs::read_dir(tree).map_err(words)?.next().is_none() {
            return Ok(nothing);
        }
        let Some(entry) = entry.map_err(|error| error.to_string())? else { return Ok(Folder::Foreign) };
        let asked =
            self.git.at(tree, ["rev-parse", "--show-toplevel", "--absolute-git-dir"]).reading().path();
        let answer = asked.map_err(|error| error.to_string())?;
        let mut expected = fs::canonicalize(tree).map_err(words)?.into_os_string();
        expected.push("\n");
        expected.push(fs::canonicalize(&entry.git_dir).map_err(words)?);
        if answer != expected {
            return Err(format!("{}: git takes it for {}", tree.display(), answer.display()));
        }
        let ours = is_of_lane(self.git, self.repository, entry, &self.request.lane_request());
        Ok(if ours.map_err(|error| error.to_string())? { Folder::Lane } else { Folder::Foreign })
    }

    fn tip(&self, entry: Option<&Entry>) -> Result<Tip, GitError> {
        let (common, request) = (&self.repository.common_dir, self.request);
        let name = format!("refs/heads/{}", request.branch);
        let Some(commit) = branch_tip(self.git, common, &name)? else { return Ok(Tip::Absent) };
        Ok(Tip::At {
            commit,
            made_by_run: request.branch_made_by_run
                || marked(self.git, common, &request.run, &request.lane, &request.branch)?,
            elsewhere: checked_out_at(self.git, self.repository, &name, entry)?.is_some(),
        })
    }

    fn stash(&self) -> Result<u64, GitError> {
        let common = &self.repository.common_dir;
        if !self.git.inside(common, ["reflog", "exists", "refs/stash"]).reading().asks()? {
            return Ok(0);
        }
        let log =
            self.git.inside(common, ["log", "-g", "--format=%gs", "refs/stash", "--"]).reading().line()?;
        let ours = format!("n {}: ", self.request.branch);
        Ok(log.lines().filter(|line| line.contains(&ours)).count() as u64)
    }

    fn inside(&self, tree: &Path, entry: &Entry, look: &mut Look) {
        let never_handed_out = self.never_handed_out(tree, entry);
        look.observed.busy = note(&mut look.why, busy(tree, entry, never_handed_out));
        if look.observed.busy == Some(true) {
            look.why.get_or_insert_with(|| "a process works in it, or a git holds a lock there".into());
        }
        if never_handed_out {
            // Only the checkout's own files, whole, missing or torn off: nothing of anyone's.
            let none = Some(0);
            look.observed.work = Work {
                tracked: none,
                staged: none,
                untracked: none,
                flagged: none,
                nested: none,
                submodule: none,
                operation: none,
                overlay: none,
            };
            look.observed.ignored = none;
        } else {
            let seen = self.files(tree, entry, look);
            note(&mut look.why, seen);
        }
        self.commits(Seat::Tree(tree), look, false);
        match self.head(tree) {
            Ok(head) => look.head = head,
            Err(error) => {
                look.observed.unreached = None;
                note::<(), _>(&mut look.why, Err(error));
            }
        }
    }

    fn never_handed_out(&self, tree: &Path, entry: &Entry) -> bool {
        let lane = self.request.lane_request();
        let begun = match receipt::read(&entry.git_dir, &lane) {
            Receipt::Ours(Phase::Creating) => true,
            Receipt::None => !entry.git_dir.join("index").exists(),
            Receipt::Ours(Phase::CheckedOut | Phase::Ready) | Receipt::Foreign | Receipt::Damaged => false,
        };
        begun && half_made(self.git, tree, entry).is_ok_and(|foreign| foreign.is_none())
    }

    fn head(&self, tree: &Path) -> Result<Head, GitError> {
        let symbolic = self.git.at(tree, ["symbolic-ref", "--quiet", "--short", "HEAD"]).reading().line();
        match symbolic {
            Ok(branch) if branch == self.request.branch => Ok(Head::OwnBranch),
            Ok(branch) => Ok(Head::Branch(branch)),
            Err(GitError::Failed { code: Some(1), .. }) => self
                .git
                .at(tree, ["rev-parse", "--verify", "HEAD^{commit}"])
                .reading()
                .commit()
                .map(Head::Detached),
            Err(error) => Err(error),
        }
    }

    fn commits(&self, seat: Seat<'_>, look: &mut Look, nothing_to_ask: bool) {
        if nothing_to_ask {
            look.observed.unreached = Some(0);
            return;
        }
        let found = match seat {
            Seat::Tree(_) => unreached(self.git, seat, &self.request.branch, &self.request.base),
            Seat::GitDir(_) => self.unreached_of_branch(),
        };
        if let Some(found) = note(&mut look.why, found) {
            look.observed.unreached = found.as_ref().map(|found| found.len() as u64);
            if found.is_none() {
                look.why.get_or_insert_with(|| "it has no reflog, so nothing proves what it held".into());
            }
            look.unreached = found.unwrap_or_default();
        }
    }

    /// A lane without a tree: its HEAD is gone with its entry, the branch's own reflog is not.
    fn unreached_of_branch(&self) -> Result<Option<Vec<CommitId>>, GitError> {
        let (common, branch) = (&self.repository.common_dir, &self.request.branch);
        crate::worktree::rescue::unreached_by_branch(self.git, common, branch, &self.request.base)
    }

    /// Counts all that no commit holds.
    fn files(&self, tree: &Path, entry: &Entry, look: &mut Look) -> Result<(), String> {
        let words = |error: GitError| error.to_string();
        let Some(copies) = &self.request.overlay else {
            return Err("the record of the local files in it can't be read".into());
        };
        let (listing, complaints) = status(self.git, tree).spoken().map_err(words)?;
        if complaints.contains("could not open") || complaints.contains("unable to") {
            return Err(complaints.trim().lines().next().unwrap_or_default().to_string());
        }
        let index = self.git.at(tree, ["ls-files", "--stage", "-z"]).reading().output().map_err(words)?;
        let gitlinks = gitlinks_in(&index);
        let walk = Walk::of(self.git, tree, &gitlinks).map_err(|error| error.to_string())?;
        let (mut tracked, mut staged, mut untracked, mut flagged) = (0, 0, walk.strays.len() as u64, 0);
        let mut overlay = BTreeSet::new();
        let mut submodules = BTreeSet::new();
        for item in items(&listing) {
            let fields: Vec<&[u8]> = item.splitn(9, |byte| *byte == b' ').collect();
            match (item[0], fields.as_slice()) {
                (b'1', [_, states, sub, _, _, _, _, _, path]) => {
                    let path = path_of(path);
                    if sub.first() == Some(&b'S') {
                        submodules.insert(path.clone());
                    }
                    match (states[1], overlaid(tree, &path, copies)) {
                        // A deletion that git sees is like any other; one that a flag hides leaves nothing
                        // to lose.
                        (b'D', _) | (_, Overlaid::No) if states[1] != b'.' => tracked += 1,
                        (b'.', _) | (_, Overlaid::Unchanged | Overlaid::No) => {}
                        (_, Overlaid::Edited) => drop(overlay.insert(path)),
                    }
                    staged += u64::from(states[0] != b'.');
                }
                (b'u', _) => {
                    tracked += 1;
                    let copy = path_in(item).filter(|path| overlaid(tree, path, copies) == Overlaid::Edited);
                    overlay.extend(copy);
                }
                // A repository inside is a channel of its own; git shows it as one path.
                (b'?', _)
                    if walk.nested.contains(&path_of(item[2..].strip_suffix(b"/").unwrap_or(&item[2..]))) => {
                }
                (b'?', _) => {
                    let path = path_of(&item[2..]);
                    match overlaid(tree, &path, copies) {
                        Overlaid::Unchanged => {}
                        Overlaid::Edited => drop(overlay.insert(path)),
                        Overlaid::No => untracked += u64::from(!self.is_installed(tree, &path)),
                    }
                }
                (b'!', _) => self.ignored(tree, path_of(&item[2..]), copies, look, &mut overlay)?,
                (b'#', _) => {}
                _ => return Err(format!("git status: {}", String::from_utf8_lossy(item))),
            }
        }
        for hidden in self.flagged(tree, entry)? {
            match overlaid(tree, &hidden, copies) {
                Overlaid::Unchanged => {}
                Overlaid::Edited => drop(overlay.insert(hidden)),
                Overlaid::No => flagged += 1,
            }
        }
        submodules.extend(self.submodules(tree, entry, &gitlinks).map_err(words)?);
        let operations = OPERATIONS.iter().filter(|name| entry.git_dir.join(name).exists()).count();
        look.edited = overlay.iter().cloned().collect();
        look.nested = walk.nested;
        look.strays = walk.strays;
        look.observed.ignored = Some(look.ignored.len() as u64);
        look.observed.work = Work {
            tracked: Some(tracked),
            staged: Some(staged),
            untracked: Some(untracked),
            flagged: Some(flagged),
            submodule: Some(submodules.len() as u64),
            operation: Some(operations as u64),
            overlay: Some(overlay.len() as u64),
            nested: Some(look.nested.len() as u64),
        };
        Ok(())
    }

    fn ignored(
        &self,
        tree: &Path,
        path: PathBuf,
        copies: &[OverlayFile],
        look: &mut Look,
        edited: &mut BTreeSet<PathBuf>,
    ) -> Result<(), String> {
        if is_rebuildable(tree, &path, &self.request.rebuildable) {
            return Ok(());
        }
        // A folder counts by its files: an empty one, or one of overlay files only, holds no work.
        let path: PathBuf = path.components().collect();
        let mut files = Vec::new();
        list_files(tree, &path, &mut files).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut all_known = true;
        for file in files {
            if self.git.is_over() {
                return Err(format!("{}: no time left to look at its files", path.display()));
            }
            match overlaid(tree, &file, copies) {
                Overlaid::Unchanged => {}
                Overlaid::Edited => {
                    edited.insert(file);
                    all_known = false;
                }
                Overlaid::No => all_known &= self.is_installed(tree, &file),
            }
        }
        if !all_known {
            look.ignored.push(path);
        }
        Ok(())
    }

    /// Returns whether the lane's installation made a file and it is as that left it, or lies in a folder
    /// into which nothing else writes.
    fn is_installed(&self, tree: &Path, file: &Path) -> bool {
        let is_only_theirs = |folder: &PathBuf| {
            let name = folder.file_name().and_then(|name| name.to_str());
            matches!(name, Some("node_modules" | ".venv")) && file.starts_with(folder)
        };
        self.request.rebuildable.iter().any(is_only_theirs)
            || is_as_made(tree, file, &self.request.provisioned)
    }

    /// Returns the files whose edit a flag hides: `assume-unchanged`, or `skip-worktree`. One that is
    /// not on disk holds no work.
    fn flagged(&self, tree: &Path, entry: &Entry) -> Result<Vec<PathBuf>, String> {
        let words = |error: GitError| error.to_string();
        let copy = IndexCopy::of(&entry.git_dir).map_err(|error| format!("its index: {error}"))?;
        let seat = Seat::Tree(tree);
        let hidden = copy.unhide(self.git, seat).map_err(words)?;
        if hidden.is_empty() {
            return Ok(Vec::new());
        }
        copy.on(self.git.at(tree, ["update-index", "-q", "--refresh"]).unblinded()).asks().map_err(words)?;
        let listing = copy
            .on(self.git.at(tree, ["diff-files", "--name-status", "-z", "--no-renames"]).unblinded())
            .output()
            .map_err(words)?;
        let (mut edited, mut listing) = (Vec::new(), items(&listing));
        while let (Some(how), Some(path)) = (listing.next(), listing.next()) {
            if how != b"D" && hidden.iter().any(|hidden| hidden == path) {
                edited.push(path_of(path));
            }
        }
        Ok(edited)
    }

    /// Returns the submodules with work that no remote of theirs has. Their repositories lie in the
    /// lane's git folder and die with it, so also one that no gitlink names counts.
    fn submodules(&self, tree: &Path, entry: &Entry, gitlinks: &[PathBuf]) -> Result<Vec<PathBuf>, GitError> {
        let mut found = Vec::new();
        let mut filled = 0;
        for path in gitlinks {
            if tree.join(path).join(".git").symlink_metadata().is_ok() {
                filled += 1;
                if has_work(self.git, &tree.join(path))? {
                    found.push(path.clone());
                }
            }
        }
        if repositories_in(&entry.git_dir.join("modules")) > filled {
            found.push(PathBuf::from(".git/modules"));
        }
        Ok(found)
    }
}

/// A lane that was never handed out can hold the lock file of a killed checkout; we hold the lane's
/// own lock, so nobody is behind it.
fn busy(tree: &Path, entry: &Entry, never_handed_out: bool) -> Result<bool, String> {
    let locked = !never_handed_out && GIT_LOCKS.iter().any(|name| entry.git_dir.join(name).exists());
    Ok(locked || worked_in(tree).map_err(|error| format!("/proc: {error}"))?)
}
