//! Chooses what an acquire does: DESIGN's table, as a pure function of what was observed.
//!
//! Nothing is reset, forced or pruned wholesale; what could not be read is never acted on.

use super::lane::{
    BranchState, Content, HeadSign, LaneRequest, LaneState, Lock, Phase, Place, Receipt, Registration,
    lock_reason,
};
use super::{AcquireClass, AcquireFault};

/// What an acquire does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcquirePlan {
    /// Put the tree back that a sweep set aside and did not live to judge; then look again.
    PutBack,
    /// Make branch and worktree at the base.
    Create,
    /// Make a worktree on the branch as it is, whatever its tip. The flag: whether this run made
    /// the branch, for all that is known.
    Reattach {
        /// Whether this run made the branch.
        branch_is_ours: bool,
    },
    /// Save what the registration of a vanished folder holds, drop it alone; then look again.
    DropStale,
    /// Take away an entry and a folder that a killed acquire left and that hold nothing; then look
    /// again.
    Redo,
    /// Write the files that are missing, overwriting none; run the hook; hand it out.
    Finish,
    /// Run the hook, which never said yes; hand it out.
    RunHook,
    /// Hand it out as it is.
    Reuse,
    /// Do nothing, and say why.
    Refuse(AcquireFault),
}

/// Returns what an acquire of `request` does in `state`.
///
/// Source: DESIGN.md section 3, one arm a row; the states of a killed `git worktree add` were
/// measured with git 2.47 (120 kills).
pub fn decide(state: &LaneState, request: &LaneRequest) -> AcquirePlan {
    let (Some(place), Some(aside), Some(registration), Some(branch)) =
        (&state.place, state.aside, &state.registration, &state.branch)
    else {
        return refuse(unread(state, request));
    };
    match (place, aside) {
        (Place::Absent | Place::Empty, true) => AcquirePlan::PutBack,
        (_, true) => refuse(two_trees(request)),
        (Place::Absent | Place::Empty, false) => vacant(registration, branch, request),
        (Place::Lane, false) => occupied(registration, branch, state.content.as_ref(), request),
        // What git had made of a lane when it was killed amid taking it away again: a name, and nothing else.
        (Place::Unlinked, false)
            if request.history.acquire_open
                && state.content == Some(Content::Nothing)
                && is_remnant(registration) =>
        {
            AcquirePlan::Redo
        }
        (Place::Unlinked, false) => refuse(refused(
            request,
            "is a worktree that its repository no longer lists",
            format!(
                "bring it back with `git worktree repair {}`, or move it away; then resume",
                request.path.display()
            ),
        )),
        (Place::Folder, false) => refuse(in_the_way(request, "is a folder that no acquire of this run made")),
        (Place::File, false) => refuse(in_the_way(request, "is not a folder")),
        (Place::Symlink, false) => refuse(in_the_way(request, "is a symbolic link")),
        (Place::OtherRepository, false) => {
            refuse(in_the_way(request, "belongs to another repository or another worktree"))
        }
    }
}

/// Nothing is at the path.
fn vacant(registration: &Registration, branch: &BranchState, request: &LaneRequest) -> AcquirePlan {
    if let Registration::Entry { lock: Lock::Foreign(reason), .. } = registration {
        return refuse(locked(request, reason));
    }
    if let Registration::Entry { receipt: Receipt::Foreign | Receipt::Damaged, .. } = registration {
        return refuse(not_this_lanes(request));
    }
    let registered = matches!(registration, Registration::Entry { .. });
    match branch {
        BranchState::Absent if request.history.kept_by_earlier_leg => refuse(branch_gone(request)),
        BranchState::Absent if registered && has_begun(registration, request) => AcquirePlan::DropStale,
        BranchState::Absent if registered => refuse(not_this_lanes(request)),
        BranchState::Absent => AcquirePlan::Create,
        BranchState::At { .. } if ownership(branch, request) == Ownership::Foreign => {
            refuse(branch_taken(request))
        }
        BranchState::At { elsewhere: Some(other), .. } => refuse(branch_elsewhere(request, other)),
        BranchState::At { .. } if registered => AcquirePlan::DropStale,
        BranchState::At { .. } => {
            AcquirePlan::Reattach { branch_is_ours: ownership(branch, request) == Ownership::Ours }
        }
    }
}

/// Returns whether nothing is registered for the path but what git leaves when it is killed amid its own tidying.
fn is_remnant(registration: &Registration) -> bool {
    match registration {
        Registration::None => true,
        Registration::Entry { whole, lock, receipt, .. } => {
            !whole && *receipt == Receipt::None && !matches!(lock, Lock::Foreign(_))
        }
    }
}

/// A worktree of this repository is at the path, and its entry names the path.
fn occupied(
    registration: &Registration,
    branch: &BranchState,
    content: Option<&Content>,
    request: &LaneRequest,
) -> AcquirePlan {
    let Registration::Entry { whole, lock, receipt, head } = registration else {
        return refuse(not_this_lanes(request));
    };
    let begun = match receipt {
        Receipt::Foreign | Receipt::Damaged => return refuse(not_this_lanes(request)),
        Receipt::Ours(Phase::Ready | Phase::CheckedOut) if !whole => return refuse(broken(request)),
        Receipt::Ours(Phase::Ready) => return AcquirePlan::Reuse,
        Receipt::Ours(Phase::CheckedOut) => return AcquirePlan::RunHook,
        Receipt::Ours(Phase::Creating) => true,
        Receipt::None => false,
    };
    // From here on no receipt says that the lane was ever complete.
    let history = request.history;
    // An acquire of ours was killed here, and git too, perhaps amid taking its own work away: no HEAD, no index, no
    // file. Whatever name it still bears, it holds nothing of anyone's.
    if history.acquire_open && content == Some(&Content::Nothing) && is_remnant(registration) {
        return AcquirePlan::Redo;
    }
    // A node can delete a receipt, and a user can put a worktree of their own in the lane's place: the
    // journal knows of lanes, not of this tree. It must bear the lane's name somewhere itself.
    let bears_our_name = *lock == Lock::Ours
        || match head {
            HeadSign::Marked => true,
            HeadSign::OnBranch => ownership(branch, request) != Ownership::Foreign,
            HeadSign::Other => false,
        };
    if !begun && !bears_our_name {
        return refuse(not_this_lanes(request));
    }
    let was_handed_out = history.branch_made_by_run || history.kept_by_earlier_leg;
    let is_bare = history.acquire_open && content == Some(&Content::Nothing);
    if !begun && was_handed_out && !is_bare {
        // A node was in it: what is missing, it deleted.
        return if *whole { AcquirePlan::Reuse } else { refuse(broken(request)) };
    }
    // Both names of ours, on the lock and in the branch's reflog, prove it without the journal.
    let ours = begun
        || match ownership(branch, request) {
            Ownership::Ours => history.acquire_open || *lock == Lock::Ours,
            Ownership::Plausible => history.acquire_open && !matches!(lock, Lock::Foreign(_)),
            Ownership::Foreign => false,
        };
    if !ours {
        return refuse(not_this_lanes(request));
    }
    match (lock, content, whole) {
        (Lock::Foreign(reason), _, _) => refuse(locked(request, reason)),
        (_, None, _) => refuse(AcquireFault {
            class: AcquireClass::AcquireFailed,
            detail: format!("what {} holds could not be read", request.path.display()),
            hint: "see that git works there, then resume".into(),
        }),
        (_, Some(Content::Foreign(path)), _) => refuse(AcquireFault {
            class: AcquireClass::LaneRefused,
            detail: format!(
                "lane `{}` was never finished, and `{}` in {} is not of its commit",
                request.lane,
                path.display(),
                request.path.display()
            ),
            hint: "move that file away, then resume".into(),
        }),
        (_, Some(Content::Nothing | Content::OnlyCheckout), true) => AcquirePlan::Finish,
        (_, Some(Content::Nothing), false) => AcquirePlan::Redo,
        (_, Some(Content::OnlyCheckout), false) => refuse(broken(request)),
    }
}

/// Whose the lane's branch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// This run made it.
    Ours,
    /// An acquire of this run was killed, and the branch is as it would have left it. Good enough
    /// to work on, not to delete.
    Plausible,
    /// Nothing speaks for this run.
    Foreign,
}

pub(super) fn ownership(branch: &BranchState, request: &LaneRequest) -> Ownership {
    match branch {
        BranchState::Absent => Ownership::Plausible,
        BranchState::At { marked, .. } if *marked || request.history.branch_made_by_run => Ownership::Ours,
        BranchState::At { tip, .. } if request.history.acquire_open && *tip == request.base => {
            Ownership::Plausible
        }
        BranchState::At { .. } => Ownership::Foreign,
    }
}

/// Returns whether an acquire of this run is behind the entry.
fn has_begun(registration: &Registration, request: &LaneRequest) -> bool {
    let history = request.history;
    let receipted = match registration {
        Registration::None => false,
        Registration::Entry { lock, receipt, .. } => {
            *lock == Lock::Ours || matches!(receipt, Receipt::Ours(_))
        }
    };
    receipted || history.acquire_open || history.branch_made_by_run
}

fn refuse(fault: AcquireFault) -> AcquirePlan {
    AcquirePlan::Refuse(fault)
}

fn refused(request: &LaneRequest, what: &str, hint: String) -> AcquireFault {
    AcquireFault {
        class: AcquireClass::LaneRefused,
        detail: format!("{}, the place of lane `{}`, {what}", request.path.display(), request.lane),
        hint,
    }
}

fn in_the_way(request: &LaneRequest, what: &str) -> AcquireFault {
    refused(request, what, format!("move {} away, then resume", request.path.display()))
}

fn not_this_lanes(request: &LaneRequest) -> AcquireFault {
    refused(
        request,
        "is registered as a worktree, and not by this lane",
        format!("move it away (`git worktree move {} NEW-PATH`), then resume", request.path.display()),
    )
}

fn broken(request: &LaneRequest) -> AcquireFault {
    refused(
        request,
        "is a worktree that git cannot read",
        format!("try `git worktree repair {}`, then resume", request.path.display()),
    )
}

pub(super) fn locked(request: &LaneRequest, reason: &str) -> AcquireFault {
    refused(
        request,
        &format!(
            "is locked by somebody else: {}",
            if reason.is_empty() { "no reason given" } else { reason }
        ),
        format!(
            "`git worktree unlock {}` once that is over, then resume; ours says `{}`",
            request.path.display(),
            lock_reason(&request.run)
        ),
    )
}

fn two_trees(request: &LaneRequest) -> AcquireFault {
    refused(
        request,
        "is taken, while the lane's own tree waits beside it, set aside by an earlier cleanup",
        format!("move {} away, then resume", request.path.display()),
    )
}

pub(super) fn branch_elsewhere(request: &LaneRequest, other: &std::path::Path) -> AcquireFault {
    AcquireFault {
        class: AcquireClass::LaneRefused,
        detail: format!(
            "branch `{}` of lane `{}` is checked out at {}",
            request.branch,
            request.lane,
            other.display()
        ),
        hint: "check out another branch there, then resume".into(),
    }
}

pub(super) fn branch_taken(request: &LaneRequest) -> AcquireFault {
    AcquireFault {
        class: AcquireClass::LaneRefused,
        detail: format!(
            "branch `{}` of lane `{}` is there, and this run did not make it",
            request.branch, request.lane
        ),
        hint: format!("rename it: `git branch -m {} NEW-NAME`", request.branch),
    }
}

fn branch_gone(request: &LaneRequest) -> AcquireFault {
    AcquireFault {
        class: AcquireClass::LaneBranchGone,
        detail: format!(
            "branch `{}` of lane `{}` was kept by an earlier leg and is gone",
            request.branch, request.lane
        ),
        hint: format!("bring it back: `git branch {} COMMIT`, then resume", request.branch),
    }
}

fn unread(state: &LaneState, request: &LaneRequest) -> AcquireFault {
    let what = match state {
        LaneState { place: None, .. } => "its path",
        LaneState { aside: None, .. } => "what lies beside its path",
        LaneState { registration: None, .. } => "its registration",
        LaneState { .. } => "its branch",
    };
    AcquireFault {
        class: AcquireClass::AcquireFailed,
        detail: format!("lane `{}` at {}: {what} could not be read", request.lane, request.path.display()),
        hint: "see that git works in the repository, then resume".into(),
    }
}

#[cfg(test)]
#[path = "acquire_tests.rs"]
mod tests;
