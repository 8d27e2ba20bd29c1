//! One test a row of the table, and every combination against what must never happen.

use super::*;
use crate::ids::{CommitId, LaneName, RunId};
use crate::worktree::lane::LaneHistory;

const BASE: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

const NEW: LaneHistory =
    LaneHistory { branch_made_by_run: false, kept_by_earlier_leg: false, acquire_open: false };
const MADE: LaneHistory = LaneHistory { branch_made_by_run: true, ..NEW };
const KEPT: LaneHistory = LaneHistory { kept_by_earlier_leg: true, ..MADE };
const OPEN: LaneHistory = LaneHistory { acquire_open: true, ..NEW };

fn request(history: LaneHistory) -> LaneRequest {
    LaneRequest {
        run: RunId::from("r1"),
        lane: LaneName::from("api"),
        path: "/w/api".into(),
        branch: "omg/r1/api".into(),
        base: CommitId::from(BASE),
        history,
    }
}

fn at(tip: &str, marked: bool) -> BranchState {
    BranchState::At { tip: CommitId::from(tip), marked, elsewhere: None }
}

fn entry(whole: bool, lock: Lock, receipt: Receipt) -> Registration {
    Registration::Entry { whole, lock, receipt, head: HeadSign::Other }
}

/// An entry that nobody locked and without a receipt.
fn unnamed(head: HeadSign) -> Registration {
    Registration::Entry { whole: true, lock: Lock::None, receipt: Receipt::None, head }
}

fn state(place: Place, registration: Registration, branch: BranchState) -> LaneState {
    LaneState {
        place: Some(place),
        aside: Some(false),
        registration: Some(registration),
        branch: Some(branch),
        content: None,
    }
}

fn lane(registration: Registration, content: Option<Content>) -> LaneState {
    LaneState { content, ..state(Place::Lane, registration, at(BASE, false)) }
}

#[track_caller]
fn check(state: &LaneState, history: LaneHistory, expected: AcquirePlan) {
    assert_eq!(decide(state, &request(history)), expected, "{state:?} {history:?}");
}

#[track_caller]
fn check_refusal(state: &LaneState, history: LaneHistory, class: AcquireClass, words: &str) {
    match decide(state, &request(history)) {
        AcquirePlan::Refuse(fault) => {
            assert_eq!(fault.class, class, "{fault:?}");
            assert!(fault.detail.contains(words), "{fault:?} does not say {words:?}");
            assert!(!fault.hint.is_empty(), "{fault:?}");
        }
        plan => panic!("{plan:?} for {state:?}"),
    }
}

#[test]
fn nothing_there_is_created_at_base() {
    for place in [Place::Absent, Place::Empty] {
        for history in [NEW, OPEN, MADE] {
            let state = state(place.clone(), Registration::None, BranchState::Absent);
            check(&state, history, AcquirePlan::Create);
        }
    }
}

#[test]
fn a_branch_of_this_run_is_reattached_whatever_its_tip() {
    for tip in [BASE, OTHER] {
        let state = state(Place::Absent, Registration::None, at(tip, false));
        check(&state, MADE, AcquirePlan::Reattach { branch_is_ours: true });
        check(&state, KEPT, AcquirePlan::Reattach { branch_is_ours: true });
    }
}

#[test]
fn a_marked_branch_is_this_runs_without_the_journals_word() {
    let state = state(Place::Empty, Registration::None, at(OTHER, true));
    check(&state, NEW, AcquirePlan::Reattach { branch_is_ours: true });
}

#[test]
fn the_lone_branch_of_a_killed_acquire_is_worked_on_and_never_called_ours() {
    let at_base = state(Place::Absent, Registration::None, at(BASE, false));
    check(&at_base, OPEN, AcquirePlan::Reattach { branch_is_ours: false });
    let moved = state(Place::Absent, Registration::None, at(OTHER, false));
    check_refusal(&moved, OPEN, AcquireClass::LaneRefused, "omg/r1/api");
}

#[test]
fn a_folder_deleted_by_hand_costs_one_registration() {
    let whole = entry(true, Lock::Ours, Receipt::Ours(Phase::Ready));
    check(&state(Place::Absent, whole.clone(), at(OTHER, false)), MADE, AcquirePlan::DropStale);
    check(&state(Place::Empty, whole, at(OTHER, false)), MADE, AcquirePlan::DropStale);
}

#[test]
fn a_whole_lane_is_reused_whatever_its_branch() {
    let ready = entry(true, Lock::Ours, Receipt::Ours(Phase::Ready));
    for branch in [BranchState::Absent, at(BASE, true), at(OTHER, false)] {
        for history in [NEW, OPEN, MADE, KEPT] {
            check(&state(Place::Lane, ready.clone(), branch.clone()), history, AcquirePlan::Reuse);
        }
    }
}

#[test]
fn a_lane_whose_receipt_a_node_deleted_is_reused_where_it_bears_our_name() {
    let work = Some(Content::Foreign("work".into()));
    for registration in
        [entry(true, Lock::Ours, Receipt::None), unnamed(HeadSign::Marked), unnamed(HeadSign::OnBranch)]
    {
        let bare = lane(registration, work.clone());
        check(&bare, MADE, AcquirePlan::Reuse);
        check(&bare, KEPT, AcquirePlan::Reuse);
        let open = LaneHistory { acquire_open: true, ..MADE };
        check(&bare, open, AcquirePlan::Reuse);
        // A node deleted what is missing; nothing is written anew.
        check(&LaneState { content: Some(Content::OnlyCheckout), ..bare }, open, AcquirePlan::Reuse);
    }
    for history in [NEW, OPEN, MADE, KEPT] {
        let strange = lane(unnamed(HeadSign::Other), Some(Content::OnlyCheckout));
        check_refusal(&strange, history, AcquireClass::LaneRefused, "not by this lane");
    }
    // A branch that is not ours proves nothing.
    let strange = lane(unnamed(HeadSign::OnBranch), Some(Content::OnlyCheckout));
    check_refusal(&strange, NEW, AcquireClass::LaneRefused, "not by this lane");
}

#[test]
fn a_half_made_lane_is_finished_where_it_holds_nothing_of_anyones() {
    for (lock, receipt, head) in [
        (Lock::Ours, Receipt::Ours(Phase::Creating), HeadSign::Other),
        (Lock::Ours, Receipt::None, HeadSign::Other),
        (Lock::Initializing, Receipt::None, HeadSign::OnBranch),
        (Lock::None, Receipt::None, HeadSign::OnBranch),
    ] {
        let half =
            |whole, content| lane(Registration::Entry { whole, lock: lock.clone(), receipt, head }, content);
        check(&half(true, Some(Content::Nothing)), OPEN, AcquirePlan::Finish);
        check(&half(true, Some(Content::OnlyCheckout)), OPEN, AcquirePlan::Finish);
        check(&half(false, Some(Content::Nothing)), OPEN, AcquirePlan::Redo);
        let broken = half(false, Some(Content::OnlyCheckout));
        check_refusal(&broken, OPEN, AcquireClass::LaneRefused, "git cannot read");
        let foreign = half(true, Some(Content::Foreign("notes.txt".into())));
        check_refusal(&foreign, OPEN, AcquireClass::LaneRefused, "notes.txt");
        check_refusal(&half(true, None), OPEN, AcquireClass::AcquireFailed, "could not be read");
    }
    // A git killed amid somebody's `worktree add`.
    let half = lane(entry(true, Lock::Initializing, Receipt::None), Some(Content::Nothing));
    check_refusal(&half, OPEN, AcquireClass::LaneRefused, "not by this lane");
}

#[test]
fn a_registration_that_bears_both_our_names_is_ours_without_the_journal() {
    let registered = entry(true, Lock::Ours, Receipt::None);
    let mut half = state(Place::Lane, registered, at(BASE, true));
    half.content = Some(Content::Nothing);
    check(&half, NEW, AcquirePlan::Finish);
    half.branch = Some(at(BASE, false));
    check_refusal(&half, NEW, AcquireClass::LaneRefused, "not by this lane");
}

#[test]
fn a_lane_whose_hook_failed_runs_it_again() {
    let complete = lane(entry(true, Lock::Ours, Receipt::Ours(Phase::CheckedOut)), None);
    check(&complete, NEW, AcquirePlan::RunHook);
}

#[test]
fn a_kept_branch_that_is_gone_is_never_made_again() {
    let whole = entry(true, Lock::None, Receipt::Ours(Phase::Ready));
    for registration in [Registration::None, whole] {
        let gone = state(Place::Absent, registration, BranchState::Absent);
        check_refusal(&gone, KEPT, AcquireClass::LaneBranchGone, "omg/r1/api");
    }
}

#[test]
fn a_branch_of_somebody_else_is_named() {
    for history in [NEW, OPEN] {
        let taken = state(Place::Absent, Registration::None, at(OTHER, false));
        check_refusal(&taken, history, AcquireClass::LaneRefused, "`omg/r1/api`");
    }
}

#[test]
fn a_branch_checked_out_elsewhere_names_the_place() {
    let branch =
        BranchState::At { tip: CommitId::from(BASE), marked: true, elsewhere: Some("/home/me/x".into()) };
    let state = state(Place::Absent, Registration::None, branch);
    check_refusal(&state, MADE, AcquireClass::LaneRefused, "/home/me/x");
}

#[test]
fn what_is_not_a_lane_is_named() {
    for place in [Place::File, Place::Folder, Place::Symlink, Place::OtherRepository, Place::Unlinked] {
        let state = state(place, Registration::None, at(BASE, true));
        check_refusal(&state, MADE, AcquireClass::LaneRefused, "/w/api");
    }
}

#[test]
fn a_tree_set_aside_comes_back_first() {
    let entry = entry(true, Lock::Ours, Receipt::Ours(Phase::Ready));
    let mut seen = state(Place::Absent, entry, at(BASE, true));
    seen.aside = Some(true);
    check(&seen, MADE, AcquirePlan::PutBack);
    seen.place = Some(Place::Folder);
    check_refusal(&seen, MADE, AcquireClass::LaneRefused, "set aside");
}

#[test]
fn every_combination_keeps_the_promises() {
    let places = [
        Place::Absent,
        Place::Empty,
        Place::Lane,
        Place::Unlinked,
        Place::Folder,
        Place::File,
        Place::Symlink,
        Place::OtherRepository,
    ];
    let mut registrations = vec![Registration::None];
    for whole in [true, false] {
        for lock in [Lock::None, Lock::Ours, Lock::Initializing, Lock::Foreign("mine".into())] {
            for receipt in [
                Receipt::None,
                Receipt::Ours(Phase::Creating),
                Receipt::Ours(Phase::CheckedOut),
                Receipt::Ours(Phase::Ready),
                Receipt::Foreign,
                Receipt::Damaged,
            ] {
                for head in [HeadSign::Other, HeadSign::OnBranch, HeadSign::Marked] {
                    registrations.push(Registration::Entry { whole, lock: lock.clone(), receipt, head });
                }
            }
        }
    }
    let mut branches = vec![BranchState::Absent];
    for tip in [BASE, OTHER] {
        for marked in [true, false] {
            for elsewhere in [None, Some("/x".into())] {
                branches.push(BranchState::At { tip: CommitId::from(tip), marked, elsewhere });
            }
        }
    }
    let contents = [Content::Nothing, Content::OnlyCheckout, Content::Foreign("f".into())];
    let histories: Vec<LaneHistory> = (0..8)
        .map(|bits| LaneHistory {
            branch_made_by_run: bits & 1 != 0,
            kept_by_earlier_leg: bits & 2 != 0,
            acquire_open: bits & 4 != 0,
        })
        .collect();
    let mut seen = 0;
    for place in unread_or(&places) {
        for registration in unread_or(&registrations) {
            for branch in unread_or(&branches) {
                for content in unread_or(&contents) {
                    for aside in [None, Some(false), Some(true)] {
                        let state = LaneState {
                            place: place.clone(),
                            aside,
                            registration: registration.clone(),
                            branch: branch.clone(),
                            content: content.clone(),
                        };
                        for history in &histories {
                            promises(&state, &request(*history));
                            seen += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(seen, 9 * 146 * 10 * 4 * 3 * 8);
}

fn unread_or<T: Clone>(values: &[T]) -> Vec<Option<T>> {
    std::iter::once(None).chain(values.iter().cloned().map(Some)).collect()
}

/// What no combination may lead to, said once more and otherwise than in the decider.
fn promises(state: &LaneState, request: &LaneRequest) {
    let plan = decide(state, request);
    let acts = !matches!(plan, AcquirePlan::Refuse(_));
    let unread = state.place.is_none()
        || state.aside.is_none()
        || state.registration.is_none()
        || state.branch.is_none();
    assert!(!(acts && unread), "acts on the unread: {state:?} {plan:?}");
    let vacant = matches!(state.place, Some(Place::Absent | Place::Empty));
    let is_lane = state.place == Some(Place::Lane);
    let (entry_is_whole, entry_lock) = match &state.registration {
        Some(Registration::Entry { whole, lock, .. }) => (*whole, Some(lock)),
        Some(Registration::None) | None => (false, None),
    };
    // No HEAD, no index, no file, at our path, where an acquire of ours was killed: nothing of anyone's.
    let is_remnant = plan == AcquirePlan::Redo
        && request.history.acquire_open
        && !entry_is_whole
        && !matches!(entry_lock, Some(Lock::Foreign(_)))
        && state.content == Some(Content::Nothing)
        && matches!(state.place, Some(Place::Lane | Place::Unlinked));
    assert!(!acts || vacant || is_lane || is_remnant, "touches what is not a lane: {state:?} {plan:?}");
    let (whole, lock, receipt, head) = match &state.registration {
        Some(Registration::Entry { whole, lock, receipt, head }) => (*whole, Some(lock), *receipt, *head),
        Some(Registration::None) | None => (false, None, Receipt::None, HeadSign::Other),
    };
    let destroys = matches!(plan, AcquirePlan::DropStale | AcquirePlan::Redo);
    if destroys {
        assert!(!matches!(lock, Some(Lock::Foreign(_))), "breaks a lock: {state:?}");
        assert!(!matches!(receipt, Receipt::Foreign | Receipt::Damaged), "another lane's: {state:?}");
    }
    if acts && is_lane && receipt == Receipt::None && head == HeadSign::Other && !is_remnant {
        assert_eq!(lock, Some(&Lock::Ours), "takes a tree without our name: {state:?} {plan:?}");
    }
    match plan {
        AcquirePlan::Create => {
            assert_eq!(state.branch, Some(BranchState::Absent));
            assert!(!request.history.kept_by_earlier_leg, "made anew: {state:?}");
            assert!(vacant && lock.is_none() && state.aside == Some(false));
        }
        AcquirePlan::Reattach { .. } => {
            assert!(vacant && lock.is_none() && state.aside == Some(false));
            assert!(matches!(&state.branch, Some(BranchState::At { elsewhere: None, .. })));
        }
        AcquirePlan::PutBack => assert_eq!(state.aside, Some(true)),
        AcquirePlan::DropStale => assert!(vacant && lock.is_some()),
        AcquirePlan::Redo => {
            assert!((is_lane || is_remnant) && !whole && state.content == Some(Content::Nothing));
            assert!(!matches!(receipt, Receipt::Ours(Phase::Ready | Phase::CheckedOut)));
        }
        AcquirePlan::Finish => {
            assert!(is_lane && whole);
            assert!(matches!(state.content, Some(Content::Nothing | Content::OnlyCheckout)));
        }
        AcquirePlan::RunHook => assert!(is_lane && whole && receipt == Receipt::Ours(Phase::CheckedOut)),
        AcquirePlan::Reuse => {
            assert!(is_lane && whole);
            assert!(!matches!(receipt, Receipt::Foreign | Receipt::Damaged | Receipt::Ours(Phase::Creating)));
        }
        AcquirePlan::Refuse(fault) => assert!(!fault.detail.is_empty() && !fault.hint.is_empty()),
    }
}
