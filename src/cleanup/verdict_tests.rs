//! One test a row of the table, and every combination against what must never happen.

use super::*;

const BASE: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

fn at(commit: &str) -> Tip {
    Tip::At { commit: CommitId::from(commit), made_by_run: true, elsewhere: false }
}

fn work(counts: [Option<u64>; 8]) -> Work {
    let [tracked, staged, untracked, flagged, nested, submodule, operation, overlay] = counts;
    Work { tracked, staged, untracked, flagged, nested, submodule, operation, overlay }
}

fn clean() -> Observed {
    Observed {
        folder: Some(Folder::Lane),
        registered: Some(true),
        locked_by_other: Some(false),
        busy: Some(false),
        work: work([Some(0); 8]),
        ignored: Some(0),
        tip: Some(at(BASE)),
        unreached: Some(0),
    }
}

fn judge(observed: &Observed, policy: Policy, ignored_is_needed: bool) -> Verdict {
    decide(observed, &Terms { base: &CommitId::from(BASE), policy, ignored_is_needed })
}

#[track_caller]
fn check(change: impl FnOnce(&mut Observed), tree: Tree, branch: Branch, reason: Reason) {
    let mut observed = clean();
    change(&mut observed);
    assert_eq!(judge(&observed, Policy::Safe, false), Verdict { tree, branch, reason }, "{observed:?}");
}

#[track_caller]
fn check_kept(change: impl FnOnce(&mut Observed), reason: Reason) {
    check(change, Tree::Keep, Branch::Keep, reason);
}

const REMOVE: Tree = Tree::Remove(Permit { rescue: false });

#[test]
fn uncommitted_work_of_any_kind_is_kept() {
    let reasons = [
        Reason::Uncommitted,
        Reason::Uncommitted,
        Reason::Uncommitted,
        Reason::HiddenEdits,
        Reason::NestedRepository,
        Reason::SubmoduleWork,
        Reason::OperationInProgress,
        Reason::OverlayEdited,
    ];
    for (channel, reason) in reasons.into_iter().enumerate() {
        let mut counts = [Some(0); 8];
        counts[channel] = Some(1);
        check_kept(|observed| observed.work = work(counts), reason);
        counts[channel] = None;
        check_kept(|observed| observed.work = work(counts), Reason::Unreadable);
    }
}

#[test]
fn what_is_unread_busy_or_locked_is_kept() {
    check_kept(|observed| observed.folder = None, Reason::Unreadable);
    check_kept(|observed| observed.registered = None, Reason::Unreadable);
    check_kept(|observed| observed.locked_by_other = None, Reason::Unreadable);
    check_kept(|observed| observed.busy = None, Reason::Unreadable);
    check_kept(|observed| observed.ignored = None, Reason::Unreadable);
    check_kept(|observed| observed.tip = None, Reason::Unreadable);
    check_kept(|observed| observed.unreached = None, Reason::Unreadable);
    check_kept(|observed| observed.busy = Some(true), Reason::Busy);
    check_kept(|observed| observed.locked_by_other = Some(true), Reason::Locked);
    check_kept(|observed| observed.folder = Some(Folder::Foreign), Reason::NotTheLane);
}

#[test]
fn ignored_files_that_a_later_node_needs_keep_the_tree() {
    let mut observed = clean();
    observed.ignored = Some(2);
    assert_eq!(judge(&observed, Policy::Safe, true).reason, Reason::IgnoredNeeded);
    assert_eq!(judge(&observed, Policy::Safe, false).tree, REMOVE);
    observed.ignored = Some(0);
    assert_eq!(judge(&observed, Policy::Safe, true).tree, REMOVE);
}

#[test]
fn own_commits_keep_the_branch_alone() {
    check(|observed| observed.unreached = Some(1), REMOVE, Branch::Keep, Reason::OwnCommits);
}

#[test]
fn a_moved_tip_keeps_the_branch_alone() {
    check(|observed| observed.tip = Some(at(OTHER)), REMOVE, Branch::Keep, Reason::TipMoved);
}

#[test]
fn nothing_done_leaves_nothing() {
    let expected = Branch::DeleteAt(Expected(CommitId::from(BASE)));
    check(|_| {}, REMOVE, expected.clone(), Reason::Clean);
    check(|observed| observed.folder = Some(Folder::Judged), Tree::Gone, expected, Reason::Clean);
}

#[test]
fn a_branch_that_is_gone_is_no_reason_to_keep_anything() {
    check(|observed| observed.tip = Some(Tip::Absent), REMOVE, Branch::Absent, Reason::Clean);
}

#[test]
fn only_a_branch_of_this_run_goes() {
    let tip = |made_by_run, elsewhere| Tip::At { commit: CommitId::from(BASE), made_by_run, elsewhere };
    check(|observed| observed.tip = Some(tip(false, false)), REMOVE, Branch::Keep, Reason::BranchNotOurs);
    check(|observed| observed.tip = Some(tip(true, true)), REMOVE, Branch::Keep, Reason::BranchInUse);
}

#[test]
fn a_folder_that_somebody_took_away_keeps_its_entry_and_branch() {
    let gone = |observed: &mut Observed| observed.folder = Some(Folder::Absent);
    check(gone, Tree::Gone, Branch::Keep, Reason::FolderMissing);
}

#[test]
fn discard_saves_first_and_never_drops_a_submodules_repository() {
    let mut observed = clean();
    observed.work.untracked = Some(3);
    let verdict = judge(&observed, Policy::Discard, true);
    assert_eq!(verdict.tree, Tree::Remove(Permit { rescue: true }));
    observed.work.submodule = Some(1);
    assert_eq!(judge(&observed, Policy::Discard, false).reason, Reason::SubmoduleWork);
}

#[test]
fn every_combination_keeps_the_promises() {
    let mut tips = vec![None, Some(Tip::Absent)];
    for commit in [BASE, OTHER] {
        for made_by_run in [true, false] {
            for elsewhere in [true, false] {
                tips.push(Some(Tip::At { commit: CommitId::from(commit), made_by_run, elsewhere }));
            }
        }
    }
    let folders =
        [None, Some(Folder::Lane), Some(Folder::Absent), Some(Folder::Judged), Some(Folder::Foreign)];
    let bools = [None, Some(false), Some(true)];
    let counts = [None, Some(0), Some(1)];
    let mut seen = 0u64;
    // Channels are alike: all at rest, or one of them at each value.
    let mut works = vec![work([Some(0); 8]), work([Some(1); 8]), work([None; 8])];
    for channel in 0..8 {
        for count in [None, Some(1)] {
            let mut all = [Some(0); 8];
            all[channel] = count;
            works.push(work(all));
        }
    }
    for folder in folders {
        for registered in bools {
            for locked_by_other in bools {
                for busy in bools {
                    for work in &works {
                        for ignored in counts {
                            for tip in &tips {
                                for unreached in counts {
                                    let observed = Observed {
                                        folder,
                                        registered,
                                        locked_by_other,
                                        busy,
                                        work: *work,
                                        ignored,
                                        tip: tip.clone(),
                                        unreached,
                                    };
                                    seen += promises(&observed);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    assert_eq!(seen, 5 * 27 * 19 * 3 * 10 * 3 * 4);
}

/// What no combination may lead to, said once more and otherwise than in the decider.
fn promises(observed: &Observed) -> u64 {
    let mut seen = 0;
    for policy in [Policy::Safe, Policy::Discard] {
        for ignored_is_needed in [false, true] {
            let verdict = judge(observed, policy, ignored_is_needed);
            let Work { tracked, staged, untracked, flagged, nested, submodule, operation, overlay } =
                observed.work;
            let all = [tracked, staged, untracked, flagged, nested, submodule, operation, overlay];
            if let Tree::Remove(permit) = verdict.tree {
                assert_eq!(observed.folder, Some(Folder::Lane));
                assert_eq!((observed.busy, observed.locked_by_other), (Some(false), Some(false)));
                assert!(all.iter().all(Option::is_some) && observed.ignored.is_some(), "{observed:?}");
                assert!(observed.unreached.is_some() && observed.tip.is_some(), "{observed:?}");
                assert_eq!(submodule, Some(0));
                assert_eq!(permit.wants_rescue(), all.iter().any(|count| *count != Some(0)));
                assert!(policy == Policy::Discard || !permit.wants_rescue());
                let needed = policy == Policy::Safe && ignored_is_needed && observed.ignored != Some(0);
                assert!(!needed, "{observed:?}");
            }
            if let Branch::DeleteAt(expected) = &verdict.branch {
                assert_eq!(expected.commit().as_str(), BASE);
                assert_eq!(observed.unreached, Some(0));
                let ours = Tip::At { commit: CommitId::from(BASE), made_by_run: true, elsewhere: false };
                assert_eq!(observed.tip.as_ref(), Some(&ours));
                assert_ne!(verdict.tree, Tree::Keep, "{observed:?}");
                assert!(!(observed.folder == Some(Folder::Absent) && observed.registered == Some(true)));
            }
            if verdict.tree == Tree::Keep {
                assert_eq!(verdict.branch, Branch::Keep);
            }
            seen += 1;
        }
    }
    seen
}
