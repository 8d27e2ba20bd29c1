//! Sweeps one lane: look, judge, set aside, look again, save, delete.
//!
//! The names say how far it came, so that a kill anywhere is known to the next sweep and to the next
//! acquire: `.omg-aside-<lane>` was judged once and comes back; `.omg-gone-<lane>` was judged twice,
//! everything of it is saved, and only its deletion is left.
#![expect(clippy::disallowed_methods, reason = "moves a lane aside and deletes it; bounds its own time")]

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::guard::{Carried, carried};
use super::look::{Head, Look, Looker};
use super::record::{Earlier, Record, with_carried};
use super::save::save;
use super::verdict::{Branch, Folder, Permit, Reason, Terms, Tip, Tree, Verdict, decide};
use super::withhold::as_they_are;
use super::{BranchFate, CleanupOutcome, SweepRequest};
use crate::failpoint::{self, Point};
use crate::worktree::lane::{Lock, lock_reason, rescue_ref};
use crate::worktree::{
    Entry, Git, LaneLock, Repository, RepositoryLock, branch_tip, checked_out_at, entry_for, gone_aside,
    is_folder, lock_of, lock_worktree, move_to, set_aside, set_stale_ref_lock_aside, unlock_worktree,
    unregister,
};

/// Judges one lane and removes what may go.
pub(super) fn sweep(git: &Git, repository: &Repository, request: &SweepRequest) -> CleanupOutcome {
    let until = Instant::now() + request.time;
    let record = Record::new(request);
    let (aside, gone) = match (set_aside(&request.path), gone_aside(&request.path)) {
        (Ok(aside), Ok(gone)) => (aside, gone),
        (Err(error), _) | (_, Err(error)) => return record.kept(Reason::Unreadable, &error.to_string()),
    };
    let common = &repository.common_dir;
    if !is_folder(common) {
        let words = format!(
            "nothing is at {} any more; move it back, or run `git worktree repair {}` where it is now",
            common.display(),
            request.path.display()
        );
        return record.kept(Reason::RepositoryAway, &words);
    }
    let lane = match LaneLock::take(&request.path, Some(until)) {
        Ok(lane) => lane,
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            return record.kept(Reason::Busy, &error.to_string());
        }
        Err(error) => return record.kept(Reason::Unreadable, &error.to_string()),
    };
    let looking = git.until(until).looking_at(&request.path);
    let sweep =
        Sweep { looking: &looking, acting: git, repository, request, record, aside, gone, _lane: lane };
    let outcome = sweep.run();
    sweep.release();
    outcome
}

/// Returns whether the tree of a lane holds anything that no commit has and no tool makes again.
pub(super) fn holds_work(git: &Git, repository: &Repository, request: &SweepRequest) -> bool {
    let git = git.until(Instant::now() + request.time).looking_at(&request.path);
    let looker = Looker { git: &git, repository, request };
    let entry = entry_for(repository, &request.path);
    looker.look(&request.path, entry.as_ref().map(Option::as_ref), false).observed.holds_work()
}

/// Returns what a sweep would come to, as far as one look tells: nothing is made, moved or locked for longer
/// than the look. The note of a lane that would go tells of it as gone.
pub(super) fn foresee(git: &Git, repository: &Repository, request: &SweepRequest) -> CleanupOutcome {
    let until = Instant::now() + request.time;
    let record = Record::new(request);
    let (aside, gone) = match (set_aside(&request.path), gone_aside(&request.path)) {
        (Ok(aside), Ok(gone)) => (aside, gone),
        (Err(error), _) | (_, Err(error)) => return record.kept(Reason::Unreadable, &error.to_string()),
    };
    let is_there = |tree: &Path| fs::symlink_metadata(tree).is_ok();
    // A sweep or an acquire that is at it would be disturbed by the look's own index.
    let lane = match LaneLock::take_if_there(&request.path, until) {
        Ok(lane) => lane,
        Err(error) if error.kind() == ErrorKind::TimedOut => {
            return record.kept(Reason::Busy, &error.to_string());
        }
        Err(error) => return record.kept(Reason::Unreadable, &error.to_string()),
    };
    let looking = git.until(until);
    let looker = Looker { git: &looking, repository, request };
    let entry = entry_for(repository, &request.path);
    let tree = if is_there(&aside) { &aside } else { &request.path };
    let look = looker.look(tree, entry.as_ref().map(Option::as_ref), is_there(&gone));
    let terms =
        Terms { base: &request.base, policy: request.policy, ignored_is_needed: request.ignored_is_needed };
    let verdict = decide(&look.observed, &terms);
    drop(lane);
    let branch = match verdict.branch {
        Branch::Keep => BranchFate::Kept,
        Branch::Absent | Branch::DeleteAt(_) => BranchFate::Deleted,
    };
    match verdict.tree {
        Tree::Keep => record.of(&look, &verdict),
        Tree::Gone | Tree::Remove(_) => record.gone(&look, verdict.reason, branch, None, Default::default()),
    }
}

struct Sweep<'a> {
    /// Ends with the request's time.
    looking: &'a Git,
    /// Does not: what was decided is carried out.
    acting: &'a Git,
    repository: &'a Repository,
    request: &'a SweepRequest,
    record: Record<'a>,
    aside: PathBuf,
    gone: PathBuf,
    _lane: LaneLock,
}

/// Why a tree stays after all.
type Stays = (Reason, String);

/// How a removal ended, with the look that counted.
enum Removal {
    /// Only its deletion is left.
    Done(Look, Verdict),
    /// It is where it was.
    Stays(Look, Stays),
}

impl Sweep<'_> {
    fn run(&self) -> CleanupOutcome {
        if let Err(error) = self.put_back() {
            return self.record.kept(Reason::Unreadable, &error.to_string());
        }
        let (look, verdict, entry) = self.judge(&self.request.path);
        let carried = self.carried(&look);
        let outcome = match (&verdict.tree, entry) {
            (Tree::Keep, _) => {
                // What a sweep of an earlier tree of the lane left: judged twice then, and saved.
                if look.observed.folder == Some(Folder::Lane) {
                    let _ = delete(&self.gone);
                }
                self.record.of(&look, &verdict)
            }
            (Tree::Gone, entry) => self.finish(look, &verdict, entry.as_ref()),
            (Tree::Remove(_), Some(entry)) => match self.remove(look, &entry) {
                Removal::Done(look, verdict) => self.finish(look, &verdict, Some(&entry)),
                Removal::Stays(look, (reason, words)) => self.record.stays(&look, reason, &words),
            },
            (Tree::Remove(_), None) => self.record.stays(&look, Reason::NotTheLane, "it is not registered"),
        };
        with_carried(outcome, &self.request.lane, carried)
    }

    /// Returns which commits of the lane carry a local file: of its branch, of its HEAD, and of its reflogs.
    fn carried(&self, look: &Look) -> Result<Vec<Carried>, String> {
        let copies = match &self.request.overlay {
            Some(copies) if copies.is_empty() => return Ok(Vec::new()),
            Some(copies) => copies,
            None => return Err("the record of the local files in it can't be read".into()),
        };
        let common = &self.repository.common_dir;
        let words = |error: crate::worktree::GitError| error.to_string();
        let mut tips = look.unreached.clone();
        match &look.observed.tip {
            Some(Tip::At { commit, .. }) => tips.push(commit.clone()),
            Some(Tip::Absent) => {}
            None => return Err("its branch could not be read".into()),
        }
        match &look.head {
            Head::OwnBranch => {}
            Head::Detached(commit) => tips.push(commit.clone()),
            Head::Branch(other) => {
                let name = format!("refs/heads/{other}");
                tips.extend(branch_tip(self.looking, common, &name).map_err(words)?);
            }
        }
        let copies = as_they_are(&self.request.path, copies, &self.request.base);
        carried(self.looking, common, &self.request.base, &tips, &copies).map_err(words)
    }

    /// A tree that was set aside and not judged again comes back; an empty folder gives way to it.
    fn put_back(&self) -> io::Result<()> {
        if fs::symlink_metadata(&self.aside).is_err() {
            return Ok(());
        }
        self.acting.allowed()?;
        match fs::remove_dir(&self.request.path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        move_to(&self.aside, &self.request.path)
    }

    fn judge(&self, tree: &Path) -> (Look, Verdict, Option<Entry>) {
        self.judge_as(tree, entry_for(self.repository, &self.request.path))
    }

    fn judge_as(&self, tree: &Path, entry: io::Result<Option<Entry>>) -> (Look, Verdict, Option<Entry>) {
        let looker = Looker { git: self.looking, repository: self.repository, request: self.request };
        let judged = fs::symlink_metadata(&self.gone).is_ok();
        let look = looker.look(tree, entry.as_ref().map(Option::as_ref), judged);
        let terms = Terms {
            base: &self.request.base,
            policy: self.request.policy,
            ignored_is_needed: self.request.ignored_is_needed,
        };
        let mut verdict = decide(&look.observed, &terms);
        if verdict.reason == Reason::Unreadable && self.looking.is_over() {
            verdict.reason = Reason::TimeOver;
        }
        (look, verdict, entry.ok().flatten())
    }

    /// Sets the tree aside, looks again where no writer by path can reach it, saves, and names it as
    /// only waiting for its deletion.
    fn remove(&self, first: Look, entry: &Entry) -> Removal {
        if let Err(words) = self.set_aside(entry) {
            return Removal::Stays(first, (Reason::Unfinished, words));
        }
        let (look, verdict, _) = self.judge_as(&self.aside, Ok(Some(entry.clone())));
        let done = match verdict.tree {
            Tree::Remove(permit) => self.save(entry, &look, permit).and_then(|()| {
                move_to(&self.aside, &self.gone).map_err(|error| (Reason::Unfinished, error.to_string()))
            }),
            Tree::Keep | Tree::Gone => {
                let words = look.why.clone().unwrap_or_else(|| "it changed while it was judged".into());
                Err((verdict.reason, words))
            }
        };
        let Err((reason, words)) = done else { return Removal::Done(look, verdict) };
        match move_to(&self.aside, &self.request.path) {
            Ok(()) => Removal::Stays(look, (reason, words)),
            Err(error) => {
                let words = format!("{words}; it waits at {}: {error}", self.aside.display());
                Removal::Stays(look, (reason, words))
            }
        }
    }

    fn set_aside(&self, entry: &Entry) -> Result<(), String> {
        // What a sweep of an earlier tree left: judged then, and in the way of this one's name.
        delete(&self.gone).map_err(|error| format!("{}: {error}", self.gone.display()))?;
        self.hold(entry).map_err(|error| error.to_string())?;
        self.acting.allowed().map_err(|overtaken| overtaken.to_string())?;
        move_to(&self.request.path, &self.aside).map_err(|error| error.to_string())
    }

    /// Saves what would die, then looks a last time: nothing may have come since.
    fn save(&self, entry: &Entry, look: &Look, permit: Permit) -> Result<(), Stays> {
        let failed = |words: String| (Reason::RescueFailed, words);
        save(self.looking, self.repository, self.request, &self.aside, entry, look, permit.wants_rescue())
            .map_err(failed)?;
        if !permit.wants_rescue() && look.ignored.is_empty() && look.unreached.is_empty() {
            return Ok(());
        }
        let (after, verdict, _) = self.judge_as(&self.aside, Ok(Some(entry.clone())));
        match verdict.tree {
            Tree::Remove(_)
                if after.ignored.is_empty() && after.nested.is_empty() && after.unreached.is_empty() =>
            {
                Ok(())
            }
            Tree::Remove(_) | Tree::Keep | Tree::Gone => {
                Err((verdict.reason, "it changed while it was saved".into()))
            }
        }
    }

    /// Locks the lane, so that nobody prunes its entry while its folder is away, and makes the entry
    /// look fresh: git rewrites where an entry points once that file is a day old (setup.c).
    fn hold(&self, entry: &Entry) -> Result<(), Box<dyn std::error::Error>> {
        if lock_of(entry, &self.request.run) == Lock::None {
            let lock = RepositoryLock::take(&self.repository.common_dir)?;
            let reason = lock_reason(&self.request.run);
            lock_worktree(self.acting, self.repository, &self.request.path, &reason, &lock)?;
        }
        let file = fs::File::options().append(true).open(entry.git_dir.join("gitdir"))?;
        file.set_modified(std::time::SystemTime::now())?;
        Ok(())
    }

    /// The tree is gone, or waits for its deletion: its entry, its branch and its files follow.
    fn finish(&self, look: Look, verdict: &Verdict, entry: Option<&Entry>) -> CleanupOutcome {
        let mut verdict = verdict.clone();
        let mut trouble = None;
        let by_us = look.observed.folder != Some(Folder::Absent);
        // Asked where nothing can be seen of it any more: of a tree that is there, the look tells.
        let was_judged = !by_us || look.observed.folder == Some(Folder::Judged);
        let earlier = if was_judged { self.saved_before() } else { Earlier::default() };
        let mut may_delete = by_us;
        if let Some(entry) = entry
            && by_us
            && let Err(error) = self.unregister(entry)
        {
            trouble = Some(error);
            may_delete = false;
            verdict.branch = Branch::Keep;
        }
        let branch = match &verdict.branch {
            Branch::Absent => BranchFate::Deleted,
            Branch::Keep => BranchFate::Kept,
            Branch::DeleteAt(expected) => match self.delete_branch(expected.commit().as_str()) {
                Ok(true) => BranchFate::Deleted,
                Ok(false) => {
                    verdict.reason = Reason::BranchInUse;
                    BranchFate::Kept
                }
                // Somebody committed to it since, or git's own locks were in the way: its words tell.
                Err(error) => {
                    trouble = Some(error.to_string());
                    BranchFate::Kept
                }
            },
        };
        // Last, as it is slow. Killed before: the next sweep finds it by its name.
        if may_delete && let Err(error) = self.acting.allowed().and_then(|()| delete(&self.gone)) {
            trouble = Some(format!("{} could not be deleted: {error}", self.gone.display()));
        }
        if let Some(words) = trouble {
            return self.record.gone(&look, Reason::Unfinished, branch, Some(&words), earlier);
        }
        self.record.gone(&look, verdict.reason, branch, None, earlier)
    }

    /// Returns what a sweep that was killed had saved of this lane, or one of an earlier leg.
    fn saved_before(&self) -> Earlier {
        let files = fs::read_dir(&self.request.rescued).is_ok_and(|mut entries| entries.next().is_some());
        let name = rescue_ref(&self.request.run, &self.request.lane);
        let tip = branch_tip(self.looking, &self.repository.common_dir, &name);
        Earlier { files, commits: tip.is_ok_and(|tip| tip.is_some()) }
    }

    fn unregister(&self, entry: &Entry) -> Result<(), String> {
        let _ = fs::remove_dir(&self.request.path);
        let lock = RepositoryLock::take(&self.repository.common_dir).map_err(|error| error.to_string())?;
        let path = entry.path.as_deref().unwrap_or(&self.request.path);
        if fs::symlink_metadata(path).is_ok() {
            return Err(format!("{} is there again", path.display()));
        }
        unregister(self.acting, self.repository, path, &lock).map_err(|error| error.to_string())
    }

    /// Returns whether the branch was deleted, at that very commit; not where another worktree has
    /// it checked out, of which `update-ref` knows nothing (measured with git 2.47).
    fn delete_branch(&self, expected: &str) -> Result<bool, crate::worktree::GitError> {
        let name = format!("refs/heads/{}", self.request.branch);
        if checked_out_at(self.acting, self.repository, &name, None)?.is_some() {
            return Ok(false);
        }
        let common = &self.repository.common_dir;
        let _ = set_stale_ref_lock_aside(common, &name);
        self.acting.inside(common, ["update-ref", "--no-deref", "-d", &name, expected]).output()?;
        Ok(true)
    }

    /// A lane that is kept is nobody's any more.
    fn release(&self) {
        let Ok(Some(entry)) = entry_for(self.repository, &self.request.path) else { return };
        let is_away = |tree: &Path| fs::symlink_metadata(tree).is_ok();
        if lock_of(&entry, &self.request.run) != Lock::Ours || is_away(&self.gone) || is_away(&self.aside) {
            return;
        }
        if let Ok(lock) = RepositoryLock::take(&self.repository.common_dir) {
            let _ = unlock_worktree(self.acting, self.repository, &self.request.path, &lock);
        }
    }
}

/// Deletes a tree, such as one that was judged twice. Folders that forbid writing are opened first: tools make
/// such (Go's module cache). Links are not followed.
pub fn delete(tree: &Path) -> io::Result<()> {
    failpoint::at(Point::DeleteBefore);
    let deleted = delete_whole(tree);
    failpoint::at(Point::DeleteAfter);
    deleted
}

fn delete_whole(tree: &Path) -> io::Result<()> {
    match fs::remove_dir_all(tree) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_up(tree)?;
            fs::remove_dir_all(tree)
        }
        done => done,
    }
}

fn open_up(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for item in fs::read_dir(folder)? {
        let item = item?;
        if item.file_type()?.is_dir() {
            open_up(&item.path())?;
        }
    }
    Ok(())
}
