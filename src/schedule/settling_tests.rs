use super::*;
use crate::graph::model::{OnFail, ProvisionWhen};
use crate::graph::{Graph, Trust, load};
use crate::ids::{CommitId, Generation, LaneName, Leg, NodeId};
use crate::schedule::event::{Event, LegStart};
use crate::schedule::fact::{EndReason, EndState};
use crate::schedule::state::{LanePhase, Names, RunState};
use crate::schedule::step;

const LANE: LaneIx = LaneIx(0);
const NODE: NodeIx = NodeIx(0);

const GRAPH: &str =
    "name: x\nnodes:\n- {id: a, worktree: l, run: x, timeout: 1h}\n- {id: b, run: x, depends_on: [a]}\n";

fn graph() -> Graph {
    load("g.yaml", GRAPH, &|_| None, Trust::Reviewed).unwrap().graph
}

fn whole() -> LaneSeen {
    LaneSeen::Whole(Box::new(AcquiredLane {
        how: String::new(),
        path: "/lane".into(),
        branch: "omg/r/l".into(),
        base: CommitId::from("0"),
        branch_made: true,
        git_dir: "/lane/.git".into(),
        set_aside: None,
    }))
}

/// Every act of a lane and a node, each announced in generation 1.
fn requests(act: OpenAct) -> Vec<Fact> {
    let (lane, intent) = (LaneName::from("l"), IntentId::from("g1-1"));
    let reason = "test".to_string();
    let dispatch = Fact::DispatchRequested {
        node: NodeId::from("a"),
        attempt: 1,
        intent: intent.clone(),
        reason: reason.clone(),
        lane: Some(lane.clone()),
        job: None,
        runtime: None,
        session: None,
        budget_usd: None,
    };
    match act {
        OpenAct::Acquire(_) => vec![Fact::AcquireRequested { lane, intent, reason }],
        OpenAct::Overlay(_) => vec![Fact::OverlayRequested { lane, intent, reason }],
        OpenAct::Provision(_) => {
            vec![Fact::ProvisionRequested { lane, intent, reason, r#try: 1, node: None }]
        }
        OpenAct::Dispatch(_) => vec![dispatch],
        OpenAct::Kill(_) => {
            let kill = Fact::KillRequested { node: NodeId::from("a"), intent, reason: EndReason::Timeout };
            vec![dispatch, kill]
        }
        OpenAct::Cleanup(_) => vec![Fact::CleanupRequested { lane, intent, reason }],
        OpenAct::Restart => vec![Fact::RestartRequested { intent, reason, number: 1 }],
    }
}

/// Begins a leg that finds `act` open and sees `seen` of it. Returns the facts after `run.started`, the actions,
/// and where the run stands.
fn settled(act: OpenAct, seen: Option<Seen>) -> (Vec<Fact>, Vec<Action>, RunState) {
    settled_in(GRAPH, act, seen)
}

fn settled_in(text: &str, act: OpenAct, seen: Option<Seen>) -> (Vec<Fact>, Vec<Action>, RunState) {
    let graph = load("g.yaml", text, &|_| None, Trust::Reviewed).unwrap().graph;
    let (names, mut state) = (Names::of(&graph), RunState::new(&graph));
    (state.leg, state.generation) = (Leg(1), Generation(1));
    for fact in requests(act) {
        state.apply(&graph, &names, Leg(1), Generation(1), &fact).unwrap();
    }
    let intent = IntentId::from("g1-1");
    let mut all: Vec<(IntentId, OpenAct, Seen)> =
        seen.into_iter().map(|seen| (intent.clone(), act, seen)).collect();
    if act == OpenAct::Kill(NODE) {
        all.push((intent, OpenAct::Dispatch(NODE), Seen::Process(ProcessSeen::Gone { left: None })));
    }
    let start = LegStart {
        format: 1,
        leg: Leg(2),
        generation: Generation(2),
        concurrency: 1,
        on_fail: OnFail::Halt,
        provision_when: ProvisionWhen::FirstUse,
        lanes_that_fit: 0,
        retry_failed: false,
        retry_blocked: false,
        unfit: Vec::new(),
        gates: Vec::new(),
        learned: Vec::new(),
        seen: all,
        pid: 1,
        build: "test".into(),
    };
    let decision = step(&mut state, &graph, &names, &Event::LegStarted(Box::new(start))).unwrap();
    assert!(
        state.open.iter().all(|(intent, _)| intent.generation() == Some(Generation(2))),
        "{:?} is open still",
        state.open
    );
    (decision.facts[1..].to_vec(), decision.actions, state)
}

#[track_caller]
fn detail(facts: &[Fact]) -> String {
    match &facts[0] {
        Fact::AcquireFailed { fault, .. }
        | Fact::OverlayFailed { fault, .. }
        | Fact::ProvisionFailed { fault, .. } => {
            assert_eq!(fault.class, FaultClass::Interrupted);
            fault.detail.clone()
        }
        Fact::CleanupFailed { reason, .. } | Fact::RestartFailed { reason, .. } => reason.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lane_that_was_made_has_its_receipt_and_any_other_is_made_again() {
    let (facts, _, state) = settled(OpenAct::Acquire(LANE), Some(Seen::Lane(whole())));
    assert!(matches!(&facts[0], Fact::AcquirePerformed { how, branch_made: true, .. } if how == FOUND));
    assert_eq!(state.lane(LANE).made.as_ref().map(|made| made.branch.as_str()), Some("omg/r/l"));
    for (seen, words) in [
        (LaneSeen::Nothing, "neither its tree nor its branch"),
        (LaneSeen::BranchOnly, "its branch is there"),
        (LaneSeen::EntryOnly, "git lists it"),
        (LaneSeen::Half, "in part"),
        (LaneSeen::Aside, "set aside"),
        (LaneSeen::Taken("a stranger".into()), "a stranger"),
    ] {
        let (facts, actions, state) = settled(OpenAct::Acquire(LANE), Some(Seen::Lane(seen)));
        assert!(detail(&facts).contains(words), "{facts:?}");
        assert!(state.lane(LANE).acquire_open);
        assert!(matches!(actions[0], Action::Acquire { lane: LANE, .. }), "{actions:?}");
    }
}

#[test]
fn what_could_not_be_looked_at_was_not_done() {
    for act in [
        OpenAct::Acquire(LANE),
        OpenAct::Overlay(LANE),
        OpenAct::Provision(LANE),
        OpenAct::Cleanup(LANE),
        OpenAct::Restart,
    ] {
        for seen in [None, Some(Seen::Unread("no permission".into()))] {
            let (facts, _, _) = settled(act, seen.clone());
            assert_eq!(
                detail(&facts).contains("no permission"),
                seen.is_some() && act != OpenAct::Restart,
                "{act:?}: {facts:?}"
            );
        }
    }
    let (facts, actions, _) = settled(OpenAct::Dispatch(NODE), None);
    let Fact::AttemptFinished { fault: Some(fault), delivered: false, .. } = &facts[0] else {
        panic!("{facts:?}")
    };
    assert_eq!(fault.class, FaultClass::Interrupted);
    assert!(matches!(actions[0], Action::Acquire { .. }), "{actions:?}");
}

#[test]
fn a_cleanup_is_judged_again() {
    let (facts, _, state) = settled(OpenAct::Cleanup(LANE), Some(Seen::Lane(LaneSeen::BranchOnly)));
    assert!(detail(&facts).contains("its branch is there, and no tree"));
    assert_eq!(state.lane(LANE).cleanup, None);
}

#[test]
fn an_installation_begins_anew() {
    for (marked, words) in [(true, "was under way"), (false, "no installation")] {
        let (facts, _, state) = settled(OpenAct::Provision(LANE), Some(Seen::Installation { marked }));
        assert!(detail(&facts).contains(words), "{facts:?}");
        assert!(matches!(state.lane(LANE).phase, LanePhase::Acquiring(_)));
    }
    for (seen, words) in [(None, "nothing was copied"), (Some(3), "names 3 files")] {
        let (facts, _, _) = settled(OpenAct::Overlay(LANE), Some(Seen::Ledger(seen)));
        assert!(detail(&facts).contains(words), "{facts:?}");
    }
}

#[test]
fn a_kill_is_done_where_nothing_lives_and_is_told_where_something_does() {
    let (facts, _, _) = settled(OpenAct::Kill(NODE), Some(Seen::Survivors(Vec::new())));
    assert!(matches!(facts[0], Fact::KillPerformed { .. }), "{facts:?}");
    let (facts, _, _) = settled(OpenAct::Kill(NODE), Some(Seen::Survivors(vec!["7 x".into()])));
    assert!(
        matches!(&facts[0], Fact::KillFailed { survivors, executed: false, .. } if survivors == &["7 x"]),
        "{facts:?}"
    );
    let (facts, _, _) = settled(OpenAct::Kill(NODE), None);
    assert!(matches!(&facts[0], Fact::KillFailed { executed: false, .. }), "{facts:?}");
}

#[test]
fn a_dispatched_node_is_settled_by_its_process() {
    let exit = |code| Exit { code: Some(code), ..Exit::default() };
    for (exit, end) in [(exit(0), EndState::Passed), (exit(3), EndState::Failed)] {
        let seen = Seen::Process(ProcessSeen::Exited { exit: Box::new(exit), in_place: true });
        let (_, _, state) = settled(OpenAct::Dispatch(NODE), Some(seen));
        assert_eq!(state.end_of(NODE), Some(end));
    }
    let ended_by_us = Exit { ended_by_us: true, ..exit(0) };
    let (_, _, state) = settled(
        OpenAct::Dispatch(NODE),
        Some(Seen::Process(ProcessSeen::Exited { exit: Box::new(ended_by_us), in_place: true })),
    );
    assert_eq!(state.end_of(NODE), None);
}

#[test]
fn checks_that_a_kill_cut_short_are_made_without_the_node() {
    let text = "name: x\nnodes:\n- {id: a, worktree: l, run: x, success_check: {verify: {command: y}}}\n\
        - {id: b, run: x, depends_on: [a]}\n";
    let seen = |in_place, code| {
        let exit = Exit { code: Some(code), ..Exit::default() };
        Some(Seen::Process(ProcessSeen::Exited { exit: Box::new(exit), in_place }))
    };
    let (facts, actions, state) = settled_in(text, OpenAct::Dispatch(NODE), seen(true, 0));
    let Fact::DispatchRequested { reason, job: Some(job), attempt: 1, .. } = &facts[0] else {
        panic!("{facts:?}")
    };
    assert_eq!((reason.as_str(), job.as_str()), (CHECKS, "g1-1"));
    assert!(matches!(&actions[0], Action::Verify { node: NODE, attempt: 1, .. }), "{actions:?}");
    assert_eq!(state.node(NODE).attempts, 1);
    // Where its lane is not as it was, or it did not end well, there is nothing to go on with.
    let (facts, _, _) = settled_in(text, OpenAct::Dispatch(NODE), seen(false, 0));
    assert!(matches!(&facts[0], Fact::AttemptFinished { fault: Some(_), .. }), "{facts:?}");
    let (_, _, state) = settled_in(text, OpenAct::Dispatch(NODE), seen(true, 1));
    assert_eq!(state.end_of(NODE), Some(EndState::Failed));
}

#[test]
fn a_living_node_is_taken_over_and_not_started() {
    let living = ProcessSeen::Living { pid: 7, start_time: 9, elapsed_ms: 60_000 };
    let (facts, actions, state) = settled(OpenAct::Dispatch(NODE), Some(Seen::Process(living)));
    // Its own act has its receipt first: that leg did not live to write it.
    assert!(matches!(&facts[0], Fact::NodeStarted { intent, .. } if intent.as_str() == "g1-1"), "{facts:?}");
    let Fact::DispatchRequested { intent, job: Some(job), attempt: 1, .. } = &facts[1] else {
        panic!("{facts:?}")
    };
    assert_eq!((job.as_str(), intent.generation()), ("g1-1", Some(Generation(2))));
    assert!(matches!(&facts[2], Fact::NodeStarted { pid: 7, start_time: 9, .. }), "{facts:?}");
    assert!(matches!(&actions[0], Action::Adopt { node: NODE, job, .. } if job.as_str() == "g1-1"));
    // Of its hour a minute is over.
    let left = Duration::from_secs(59 * 60);
    assert!(matches!(&actions[1], Action::Arm { timer: Timer::Timeout(_), after } if *after == left));
    assert_eq!(actions.len(), 2, "{actions:?}");
    assert_eq!(state.slots_held(), 1);
}

#[test]
fn an_act_without_a_receipt_is_never_forgotten() {
    let graph = graph();
    let (names, mut state) = (Names::of(&graph), RunState::new(&graph));
    (state.leg, state.generation) = (Leg(1), Generation(1));
    let intent = IntentId::from("g1-1");
    let mut overdue = |act: OpenAct, times: u32| {
        for fact in requests(act) {
            state.apply(&graph, &names, Leg(1), Generation(1), &fact).unwrap();
        }
        let event = Event::Overdue { intent: intent.clone(), act, times, after: act.deadline(&graph) };
        step(&mut state, &graph, &names, &event).unwrap()
    };
    let end = |now| vec![Action::End { intent: IntentId::from("g1-1"), now }];
    for (act, times, actions) in [
        (OpenAct::Acquire(LANE), 1, vec![]),
        (OpenAct::Acquire(LANE), 10, end(false)),
        (OpenAct::Overlay(LANE), 10, end(false)),
        (OpenAct::Provision(LANE), 9, vec![]),
        (OpenAct::Provision(LANE), 10, end(false)),
        (OpenAct::Kill(NODE), 1, end(true)),
        (OpenAct::Dispatch(NODE), 1, vec![Action::AskSupervisor]),
    ] {
        let decision = overdue(act, times);
        assert!(matches!(&decision.facts[..], [Fact::ActOverdue { .. }]), "{act:?}: {:?}", decision.facts);
        assert_eq!(decision.actions, actions, "{act:?}");
    }
}
