//! What agents cost, and what keeps it from being spent twice, or on nothing.

use std::fs;

use serde_json::json;

use crate::agents::with_claude;
use crate::support::{World, signal};

#[test]
fn side_by_side_agents_stay_within_what_the_run_may_cost() {
    let world = with_claude(World::bare());
    let mut graph = "name: x\nbudget_usd: 1\nconcurrency: 8\nnodes:\n".to_string();
    for at in 0..8 {
        world.behave(&format!("a{at}"), "cost=0.9; say fine");
        graph.push_str(&format!("- {{id: a{at}, prompt: p}}\n"));
    }
    world.run(&graph).expect(3);
    assert_eq!(world.show()["cost"]["usd"], 1.8, "one at a time, since each may cost all that is left");
    assert_eq!(world.class("a7"), "run-budget-spent");
    let told = world.omg(&["explain", "r1", "a7"]).expect(0).stdout;
    assert!(told.contains("run-budget-spent: the run may cost $1.00, and has cost $1.80"), "{told}");
    assert!(world.omg(&["show", "r1"]).expect(0).stdout.contains("cost $1.80, over its budget of $1.00"));

    let world = with_claude(World::bare());
    let mut graph = "name: x\nbudget_usd: 2\nconcurrency: 4\nnodes:\n".to_string();
    for at in 0..4 {
        // Each ends only when all have begun.
        world.behave(
            &format!("a{at}"),
            "touch $HOME/began-$OMG_NODE; while [ $(ls $HOME | grep -c ^began-) -lt 4 ]; do sleep 0.1; done; say fine",
        );
        graph.push_str(&format!("- {{id: a{at}, prompt: p, budget_usd: 0.5}}\n"));
    }
    world.run(&graph).expect(0);
}

#[test]
fn money_of_nodes_that_are_gone_was_spent() {
    let world = with_claude(World::bare());
    world.behave("a", "cost=0.9; fail no");
    world.run("name: x\nbudget_usd: 1\non_fail: continue\nnodes:\n- {id: a, prompt: p}\n- {id: b, prompt: p, depends_on: [a]}\n").expect(1);
    let other = world.graph("name: x\nbudget_usd: 1\nnodes:\n- {id: b, prompt: p}\n");
    world.omg(&["resume", "r1", "--graph", &other]).expect(0);
    assert_eq!(world.show()["cost"]["usd"], 1.15);
    let last = world.calls().pop().unwrap();
    assert!(last.contains("--max-budget-usd 0.1 "), "{last}");
}

#[test]
fn an_agent_that_nobody_saw_run_is_counted_all_the_same() {
    let world = with_claude(World::bare());
    world.behave(
        "a",
        "if [ ! -f $HOME/again ]; then say half; until grep -q half $OMG_RUN_DIR/nodes/a/attempt-1.stdout; do sleep 0.01; done
kill -9 $(cut -d' ' -f1 $OMG_RUN_DIR/run.lock) $PPID; sleep 9; fi; say fine",
    );
    let graph = world.graph("name: x\nnodes:\n- {id: a, prompt: p}\n");
    let mut running = world.start(&["run", &graph, "--run-id", "r1"]);
    running.wait().unwrap();
    fs::write(world.path().join("again"), "").unwrap();
    world.omg(&["resume", "r1"]).expect(0);
    assert_eq!((world.calls().len(), world.node("a")["attempts"].as_u64()), (2, Some(2)));
    let cost = world.show()["cost"].clone();
    assert_eq!((&cost["usd"], &cost["unknown_attempts"]), (&json!(0.5), &json!(0)), "its envelope was there");
}

#[test]
fn a_verify_that_takes_too_long_is_made_again_without_its_agent() {
    let world = with_claude(World::bare());
    let graph = "name: x\nnodes:\n- id: a\n  prompt: p\n  success_check: {verify: {command: 'echo x >> $HOME/verified; sleep 60', timeout: 200ms}}\n  grace: 1s\n";
    world.run(graph).expect(3);
    assert_eq!((world.class("a"), world.calls().len()), ("verify-timeout".into(), 1));
    assert_eq!(fs::read_to_string(world.path().join("verified")).unwrap(), "x\nx\nx\n");
}

#[test]
fn what_an_agent_says_of_limits_in_its_work_is_its_work() {
    let world = with_claude(World::bare());
    world.tool("mine", "echo '  client: rate limit exceeded, try again in 1s'; exit 1");
    world.tool("limited", "echo 'Error: rate limit exceeded, try again in 1s' >&2; exit 1");
    let graph = "
name: x
on_fail: continue
runtimes: {mine: {command: [mine]}, limited: {command: [limited]}}
nodes:
- {id: a, prompt: p, runtime: mine}
- {id: b, prompt: p}
- {id: c, prompt: p}
- {id: d, prompt: p, depends_on: [{id: a, on: failed}, {id: b, on: failed}, {id: c, on: failed}], runtime: limited}
";
    world.behave("b", "echo 'running test: rate limit exceeded' >&2; say 'I tried'; exit 1");
    world.behave("c", "fail 'I could not fix the handler of rate limit exceeded'");
    world.run(graph).expect(4);
    let classes = ["a", "b", "c", "d"].map(|id| world.class(id));
    assert_eq!(
        classes,
        ["nonzero-exit", "nonzero-exit", "agent-error", "provider-rate-limited"].map(String::from)
    );
}

#[test]
fn a_session_that_omg_named_is_gone_on_with() {
    let world = World::bare();
    world.tool("mine", "echo \"$OMG_NODE $*\" >> $HOME/mine-calls; cat > /dev/null; echo ok");
    let graph = "
name: x
runtime: mine
runtimes: {mine: {command: [mine, --id, '{session}'], resume: [--resume, '{session}']}}
nodes:
- {id: a, prompt: p}
- {id: b, prompt: q, depends_on: [a], handoff: session}
";
    world.run(graph).expect(0);
    let calls = fs::read_to_string(world.path().join("mine-calls")).unwrap();
    let id = calls.lines().next().unwrap().split(' ').nth(2).unwrap().to_string();
    assert!(calls.lines().nth(1).unwrap().ends_with(&format!("--resume {id}")), "{calls}");
}

#[test]
fn a_wait_ends_by_omg_cancel_and_comes_before_a_resume_that_would_meet_the_limit() {
    let world = with_claude(World::bare());
    world.behave("a", "fail \"You've hit your usage limit. Try again in 3 days.\"; exit 1");
    let graph = world.graph("name: x\nnodes:\n- {id: a, prompt: p}\n");
    let mut running = world.start(&["run", &graph, "--run-id", "r1", "--wait"]);
    let says =
        |what: &str| fs::read_to_string(world.path().join("stderr")).unwrap_or_default().contains(what);
    world.wait_for("the wait", || says("waiting for the limit of claude"));
    world.wait_for("the hold", || {
        fs::read_to_string(world.run_dir().join("run.lock")).unwrap().contains(" wait ")
    });
    assert_eq!(world.show()["status"], "paused");
    world.omg(&["resume", "r1"]).expect(5);
    world.omg(&["cancel", "r1"]).expect(0);
    assert!(!running.wait().unwrap().success());
    let mut waiting = world.start(&["resume", "r1", "--wait"]);
    world.wait_for("the wait", || says("waiting for the limit of claude"));
    assert_eq!(world.calls().len(), 1, "nothing is asked before the limit is over");
    signal(&waiting, rustix::process::Signal::TERM);
    waiting.wait().unwrap();
}

#[test]
fn what_a_person_says_of_a_later_gate_is_kept() {
    let world = World::bare();
    let graph = "name: x\nnodes:\n- {id: g0, type: gate}\n- {id: g1, type: gate, depends_on: [g0]}\n- {id: b, run: 'true', depends_on: [g1]}\n";
    world.run(graph).expect(4);
    world.omg(&["resume", "r1", "--approve", "g1"]).expect(4);
    world.omg(&["resume", "r1", "--approve", "g0"]).expect(0);
    let wrong = world.omg(&["resume", "r1", "--note", "x"]).expect(2);
    assert!(wrong.stderr.contains("none is named"), "{}", wrong.stderr);
}

#[test]
fn what_is_missing_for_agents_is_said_before_they_run() {
    let world = World::new();
    let graph = world.graph(
        "name: x\nbudget_usd: 1\nruntimes: {mine: {command: [no-such-agent]}, there: {command: [sh]}}\nnodes:\n- {id: a, prompt: p, runtime: mine}\n- {id: b, prompt: p, runtime: [mine, there]}\n",
    );
    let told = world.omg(&["doctor", &graph]).expect(1).stdout;
    assert!(told.contains("`no-such-agent` is not in PATH"), "{told}");
    let planned = world.omg(&["run", &graph, "--dry-run"]).expect(0);
    assert!(
        planned.stderr.contains("the program of `mine` is not in PATH: a will be blocked"),
        "{}",
        planned.stderr
    );
    assert!(planned.stderr.contains("`there` does not tell what it costs"), "{}", planned.stderr);
}

#[test]
fn a_limit_is_waited_for_where_the_next_runtime_is_of_no_use() {
    let world = with_claude(World::bare());
    world.behave("a", "fail \"You've hit your session limit · resets 3pm\"; exit 1");
    let graph = "name: x\nruntime: [claude, other]\nruntimes: {other: {command: [no-such-agent]}}\nnodes:\n- {id: a, prompt: p}\n- {id: b, prompt: p, depends_on: [{id: a, on: finished}]}\n";
    world.run(graph).expect(4);
    assert_eq!((world.state("a"), world.class("a")), ("paused".into(), "provider-limit".into()));
    assert!(world.node("a")["fault"]["resets_at"].is_string());
}

#[test]
fn what_the_run_has_no_more_money_for_is_not_the_nodes_fault_and_more_money_lets_it_go_on() {
    let world = with_claude(World::bare());
    let stops = "case \"$arguments\" in *--max-budget-usd*) envelope error_max_budget_usd true ''; exit 1;; esac; say fine";
    world.behave("b", stops);
    let graph = |budget: &str| {
        format!(
            "name: x\nbudget_usd: {budget}\nnodes:\n- {{id: a, prompt: p}}\n- {{id: b, prompt: p, depends_on: [a], budget_usd: 5, retry: {{max: 1}}}}\n"
        )
    };
    world.run(&graph("0.3")).expect(3);
    assert_eq!((world.state("b"), world.class("b")), ("blocked".into(), "run-budget-spent".into()));
    world.behave("b", "say fine");
    let more = world.graph(&graph("9"));
    world.omg(&["resume", "r1", "--graph", &more]).expect(0);
    assert_eq!(world.state("b"), "passed");
}

#[test]
fn a_plan_keeps_its_ceilings_also_in_a_run_that_was_reviewed() {
    let world = with_claude(World::bare());
    world.behave("a", "fail no");
    world.run("name: x\nnodes:\n- {id: a, prompt: p}\n").expect(1);
    let plan = "# planned by an agent\nname: x\nnodes:\n- {id: b, prompt: p, allowed_tools: [Read]}\n";
    let plan = world.graph(plan);
    world.omg(&["resume", "r1", "--graph", &plan]).expect(0);
    let last = world.calls().pop().unwrap();
    assert!(
        last.starts_with("b ") && last.contains("--strict-mcp-config") && last.contains("--tools Read"),
        "{last}"
    );
    for (key, value) in [("model", "--dangerously-skip-permissions"), ("agent", "-x")] {
        let ended = world
            .run_with(&format!("name: x\nnodes:\n- {{id: a, prompt: p, {key}: '{value}'}}\n"), &[])
            .expect(2);
        assert!(ended.stderr.contains("would be read as a flag"), "{}", ended.stderr);
    }
}

#[test]
fn a_plan_is_corrected_through_the_runtime_that_was_named() {
    let world = World::bare();
    world.tool(
        "codex",
        "case \"$OMG_NODE\" in
plan) text='name: x\\nnodes: [{id: a, run: ls}]';;
correct) text='name: x\\nnodes: [{id: a, prompt: p, allowed_tools: [Read]}]';;
*) text=fine;;
esac
echo '{\"type\":\"thread.started\",\"thread_id\":\"t-1\"}'
printf '%s\\n' '{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"'\"$text\"'\"}}'
echo '{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}'",
    );
    world.omg(&["auto", "do it", "--runtime", "codex", "--yes", "--run-id", "r1"]).expect(0);
    assert_eq!(world.result("a"), "fine");
}
