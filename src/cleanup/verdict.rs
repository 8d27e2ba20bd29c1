//! What may be deleted: DESIGN's table, as a pure function of what was observed.
//!
//! `Option::None` means "could not be read", and what could not be read is kept. Only this file can
//! make a [`Permit`] or an [`Expected`], so nothing is deleted that was not judged here.

use crate::ids::CommitId;

use super::Policy;

/// All that was observed about one lane at leg end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// What is at the lane's path.
    pub folder: Option<Folder>,
    /// Whether its repository lists it.
    pub registered: Option<bool>,
    /// Whether somebody else locked it.
    pub locked_by_other: Option<bool>,
    /// Whether a process that is not ours works in it, or a git holds a lock there.
    pub busy: Option<bool>,
    /// Work that no commit holds, by the channel through which it could be lost.
    pub work: Work,
    /// Ignored files that nothing can rebuild.
    pub ignored: Option<u64>,
    /// The lane's branch.
    pub tip: Option<Tip>,
    /// Commits that only the lane's HEAD and reflogs reach.
    pub unreached: Option<u64>,
}

impl Observed {
    /// Returns whether the tree holds, for all that could be read, anything but commits and what can be
    /// made again.
    pub fn holds_work(&self) -> bool {
        let Work { tracked, staged, untracked, flagged, nested, submodule, operation, overlay } = self.work;
        let channels =
            [tracked, staged, untracked, flagged, nested, submodule, operation, overlay, self.ignored];
        match self.folder {
            Some(Folder::Lane) => channels.iter().any(|count| *count != Some(0)),
            Some(Folder::Absent | Folder::Judged) => false,
            Some(Folder::Foreign) | None => true,
        }
    }
}

/// What is at a lane's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    /// The lane, and git agrees that it is its top.
    Lane,
    /// Nothing.
    Absent,
    /// Nothing; the tree was judged twice and moved away by a sweep that did not end.
    Judged,
    /// Something else.
    Foreign,
}

/// Work that no commit holds: how many things, per channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Tracked files that differ from the index, conflicts included.
    pub tracked: Option<u64>,
    /// Files whose index entry differs from HEAD.
    pub staged: Option<u64>,
    /// Files that git neither tracks nor ignores.
    pub untracked: Option<u64>,
    /// Edits that index flags hide from `git status`.
    pub flagged: Option<u64>,
    /// Repositories inside the lane.
    pub nested: Option<u64>,
    /// Submodules with work of their own.
    pub submodule: Option<u64>,
    /// Rebases, merges, … that are under way.
    pub operation: Option<u64>,
    /// Overlay files that are not as they were copied in.
    pub overlay: Option<u64>,
}

/// The lane's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tip {
    /// It is gone, or was renamed.
    Absent,
    /// It is at `commit`.
    At {
        /// Its commit.
        commit: CommitId,
        /// Whether this run made it.
        made_by_run: bool,
        /// Whether another worktree has it checked out.
        elsewhere: bool,
    },
}

/// What the run says about the lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms<'a> {
    /// The commit it began at.
    pub base: &'a CommitId,
    /// Whether its work is kept, or rescued and removed.
    pub policy: Policy,
    /// Whether ignored files are needed for a node that is yet to pass.
    pub ignored_is_needed: bool,
}

/// What happens to a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// To its tree.
    pub tree: Tree,
    /// To its branch.
    pub branch: Branch,
    /// Why.
    pub reason: Reason,
}

/// What happens to a lane's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    /// It stays.
    Keep,
    /// It is not there.
    Gone,
    /// It may go.
    Remove(Permit),
}

/// The right to remove one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    rescue: bool,
}

impl Permit {
    /// Returns whether the tree holds work, which must be saved first.
    pub fn wants_rescue(self) -> bool {
        self.rescue
    }
}

/// What happens to a lane's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Branch {
    /// It stays.
    Keep,
    /// It is not there.
    Absent,
    /// It goes, provided it is at that very commit.
    DeleteAt(Expected),
}

/// The commit at which a branch may be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected(CommitId);

impl Expected {
    /// Returns the commit.
    pub fn commit(&self) -> &CommitId {
        &self.0
    }
}

/// Why a verdict is as it is. The codes are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nothing was there to keep.
    Clean,
    /// The lane has commits of its own.
    OwnCommits,
    /// The branch is not where it began.
    TipMoved,
    /// The branch is at base, and this run did not make it.
    BranchNotOurs,
    /// The branch is at base, and checked out in another worktree.
    BranchInUse,
    /// Uncommitted changes.
    Uncommitted,
    /// Edits hidden by index flags.
    HiddenEdits,
    /// A rebase, merge, … under way.
    OperationInProgress,
    /// An edited overlay file.
    OverlayEdited,
    /// A submodule with work of its own.
    SubmoduleWork,
    /// A repository inside.
    NestedRepository,
    /// Ignored files that a later node needs.
    IgnoredNeeded,
    /// Something could not be read.
    Unreadable,
    /// Somebody works there.
    Busy,
    /// Somebody else locked it.
    Locked,
    /// Something else is at its path.
    NotTheLane,
    /// Nothing is where its repository was.
    RepositoryAway,
    /// The folder is gone by somebody else's hand; its registration may still find it.
    FolderMissing,
    /// What had to be saved could not be.
    RescueFailed,
    /// Removing failed half-way; the next sweep goes on.
    Unfinished,
    /// The time was over.
    TimeOver,
}

impl Reason {
    /// Returns the stable code.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Clean => "clean",
            Reason::OwnCommits => "own-commits",
            Reason::TipMoved => "tip-moved",
            Reason::BranchNotOurs => "branch-not-ours",
            Reason::BranchInUse => "branch-in-use",
            Reason::Uncommitted => "uncommitted",
            Reason::HiddenEdits => "hidden-edits",
            Reason::OperationInProgress => "operation-in-progress",
            Reason::OverlayEdited => "overlay-edited",
            Reason::SubmoduleWork => "submodule-work",
            Reason::NestedRepository => "nested-repository",
            Reason::IgnoredNeeded => "ignored-needed",
            Reason::Unreadable => "unreadable",
            Reason::Busy => "busy",
            Reason::Locked => "locked",
            Reason::NotTheLane => "not-the-lane",
            Reason::RepositoryAway => "repository-away",
            Reason::FolderMissing => "folder-missing",
            Reason::RescueFailed => "rescue-failed",
            Reason::Unfinished => "unfinished",
            Reason::TimeOver => "time-over",
        }
    }
}

/// Returns what happens to a lane that is as `observed`.
///
/// Source: DESIGN.md section 10, its table row by row.
pub fn decide(observed: &Observed, terms: &Terms<'_>) -> Verdict {
    let keep = |reason| Verdict { tree: Tree::Keep, branch: Branch::Keep, reason };
    let (Some(folder), Some(registered)) = (observed.folder, observed.registered) else {
        return keep(Reason::Unreadable);
    };
    let tree = match folder {
        Folder::Foreign => return keep(Reason::NotTheLane),
        // Moved by hand, perhaps: its entry is all that still ties it to the repository.
        Folder::Absent if registered => {
            return Verdict { tree: Tree::Gone, branch: Branch::Keep, reason: Reason::FolderMissing };
        }
        Folder::Absent | Folder::Judged => Tree::Gone,
        Folder::Lane => match of_tree(observed, terms) {
            Ok(permit) => Tree::Remove(permit),
            Err(reason) => return keep(reason),
        },
    };
    match of_branch(observed, terms) {
        Ok((branch, reason)) => Verdict { tree, branch, reason },
        Err(reason) if tree == Tree::Gone => Verdict { tree, branch: Branch::Keep, reason },
        Err(reason) => keep(reason),
    }
}

fn of_tree(observed: &Observed, terms: &Terms<'_>) -> Result<Permit, Reason> {
    match observed.locked_by_other {
        None => return Err(Reason::Unreadable),
        Some(true) => return Err(Reason::Locked),
        Some(false) => {}
    }
    match observed.busy {
        None => return Err(Reason::Unreadable),
        Some(true) => return Err(Reason::Busy),
        Some(false) => {}
    }
    let Work { tracked, staged, untracked, flagged, nested, submodule, operation, overlay } = observed.work;
    let channels = [
        (operation, Reason::OperationInProgress),
        (submodule, Reason::SubmoduleWork),
        (nested, Reason::NestedRepository),
        (tracked, Reason::Uncommitted),
        (staged, Reason::Uncommitted),
        (untracked, Reason::Uncommitted),
        (flagged, Reason::HiddenEdits),
        (overlay, Reason::OverlayEdited),
    ];
    let Some(ignored) = observed.ignored else { return Err(Reason::Unreadable) };
    if observed.unreached.is_none() || channels.iter().any(|(count, _)| count.is_none()) {
        return Err(Reason::Unreadable);
    }
    let found = channels.iter().find(|(count, _)| *count != Some(0)).map(|(_, reason)| *reason);
    match (terms.policy, found) {
        // Its repository lies in the lane's git folder and would go with it.
        (Policy::Discard, Some(_)) if submodule != Some(0) => Err(Reason::SubmoduleWork),
        (Policy::Discard, found) => Ok(Permit { rescue: found.is_some() }),
        (Policy::Safe, Some(reason)) => Err(reason),
        (Policy::Safe, None) if terms.ignored_is_needed && ignored > 0 => Err(Reason::IgnoredNeeded),
        (Policy::Safe, None) => Ok(Permit { rescue: false }),
    }
}

fn of_branch(observed: &Observed, terms: &Terms<'_>) -> Result<(Branch, Reason), Reason> {
    let (Some(tip), Some(unreached)) = (&observed.tip, observed.unreached) else {
        return Err(Reason::Unreadable);
    };
    Ok(match tip {
        Tip::Absent if unreached > 0 => (Branch::Absent, Reason::OwnCommits),
        Tip::Absent => (Branch::Absent, Reason::Clean),
        Tip::At { .. } if unreached > 0 => (Branch::Keep, Reason::OwnCommits),
        Tip::At { commit, .. } if commit != terms.base => (Branch::Keep, Reason::TipMoved),
        Tip::At { made_by_run: false, .. } => (Branch::Keep, Reason::BranchNotOurs),
        Tip::At { elsewhere: true, .. } => (Branch::Keep, Reason::BranchInUse),
        Tip::At { commit, .. } => (Branch::DeleteAt(Expected(commit.clone())), Reason::Clean),
    })
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
