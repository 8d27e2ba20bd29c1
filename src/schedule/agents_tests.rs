//! What agents' ends mean, as tables.

use super::*;
use crate::graph::{Trust, load};
use crate::schedule::fault::Scope;

fn graph(node: &str) -> Graph {
    let text = format!("name: x\nnodes:\n- {{id: a, prompt: p{node}}}\n");
    load("g.yaml", &text, &|_| None, Trust::Reviewed).unwrap().graph
}

fn good() -> Told {
    Told { reply: ReplySeen::Good, ..Told::default() }
}

fn error(sign: Option<Sign>) -> Told {
    Told { reply: ReplySeen::SaidError, sign, detail: Some("its words".into()), ..Told::default() }
}

#[track_caller]
fn check(node: &str, exit: Exit, ending: Option<EndReason>, expected: Option<(FaultClass, Scope)>) {
    let graph = graph(node);
    let most = graph.agent(NodeIx(0)).and_then(|agent| agent.budget);
    let fault = judge(&graph, NodeIx(0), &exit, ending, most);
    assert_eq!(fault.map(|fault| (fault.class, fault.scope)), expected, "{exit:?}");
}

fn exit(code: i32, told: Told) -> Exit {
    Exit { code: Some(code), told: Some(told), ..Exit::default() }
}

#[test]
fn each_ending_of_an_agent_has_its_class() {
    use FaultClass as C;
    let limit = |kind| Some(Sign::Limit { kind, resets_at: None });
    for kind in [LimitKind::Session, LimitKind::Weekly, LimitKind::Usage, LimitKind::Credit] {
        check("", exit(1, error(limit(kind))), None, Some((C::ProviderLimit, Scope::Provider)));
    }
    for (told, expected) in [
        (error(limit(LimitKind::Rate)), (C::ProviderRateLimited, Scope::Provider)),
        (error(Some(Sign::Overloaded)), (C::ProviderOverloaded, Scope::Provider)),
        (error(Some(Sign::LoginExpired)), (C::ProviderAuth, Scope::Provider)),
        (error(Some(Sign::SessionGone)), (C::SessionGone, Scope::Infra)),
        (error(Some(Sign::Missing)), (C::RuntimeMissing, Scope::Environment)),
        (error(None), (C::AgentError, Scope::Task)),
    ] {
        for code in [0, 1] {
            check("", exit(code, told.clone()), None, Some(expected));
        }
    }
    check("", exit(0, good()), None, None);
    check("", exit(2, good()), None, Some((C::NonzeroExit, Scope::Task)));
    check("", exit(0, Told::default()), None, Some((C::OutputError, Scope::Task)));
    check("", exit(3, Told::default()), None, Some((C::NonzeroExit, Scope::Task)));
    check("", exit(127, Told::default()), None, Some((C::RuntimeMissing, Scope::Environment)));
    check("", Exit { code: Some(0), ..Exit::default() }, None, Some((C::Unknown, Scope::Infra)));
    let mismatch = Exit { result_matches: Some(false), ..exit(0, good()) };
    check(", success_check: {result_matches: x}", mismatch, None, Some((C::ResultMismatch, Scope::Task)));
    let missing = Exit { not_started: Some("x".into()), missing: true, ..Exit::default() };
    check("", missing, None, Some((C::RuntimeMissing, Scope::Environment)));
    let killed = Exit { signal: Some(9), told: Some(Told::default()), ..Exit::default() };
    check("", killed.clone(), None, Some((C::Killed, Scope::Infra)));
    check("", killed.clone(), Some(EndReason::Timeout), Some((C::Timeout, Scope::Task)));
    check("", killed, Some(EndReason::Silence), Some((C::ProviderIndeterminate, Scope::Provider)));
    check("", exit(0, good()), Some(EndReason::Silence), None);
}

#[test]
fn money_is_judged_by_what_was_spent() {
    let cost = |micros| Told { cost: Some(Usd::from_micros(micros)), ..good() };
    let over = Some((FaultClass::BudgetExceeded, Scope::Task));
    check(", budget_usd: 1", exit(0, cost(1_000_000)), None, None);
    check(", budget_usd: 1", exit(0, cost(1_000_001)), None, over);
    check("", exit(0, cost(9_000_000)), None, None);
    let stopped = Told { over_budget: true, ..error(None) };
    check(", budget_usd: 1", exit(1, stopped.clone()), None, over);
    // Where the run had less left than the node may cost, it is not the node's fault.
    let graph = graph(", budget_usd: 5");
    let left = Some(Usd::from_micros(50_000));
    let fault = judge(&graph, NodeIx(0), &exit(1, stopped), None, left).unwrap();
    assert_eq!((fault.class, fault.scope), (FaultClass::RunBudgetSpent, Scope::Environment));
}

#[test]
fn silence_alone_ends_nobody() {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    for (seen, expected) in [
        (vec![], None),
        (vec![minutes(1), minutes(30)], None),
        (vec![minutes(1), minutes(30), minutes(2)], Some(minutes(120))),
        (vec![minutes(1); 3], Some(minutes(10))),
    ] {
        assert_eq!(silence_limit(&seen), expected, "{seen:?}");
    }
}
