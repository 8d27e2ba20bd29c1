//! Agents in number and at length, and in fragments.

use std::fs;

use crate::agents::with_claude;
use crate::support::World;

/// Prints the most memory that the runner and the supervisor have had so far, in KiB, a line each.
const PEAKS: &str = "for pid in $(cut -d\" \" -f1 \"$OMG_RUN_DIR/run.lock\") $PPID; do awk \"/VmHWM/ { print \\$2 }\" /proc/$pid/status; done";

#[track_caller]
fn assert_within(world: &World, id: &str, kib_max: u64) {
    let peaks: Vec<u64> = world.result(id).lines().map(|line| line.parse().unwrap()).collect();
    assert!(peaks.len() == 2 && peaks.iter().all(|peak| *peak < kib_max), "{peaks:?} KiB");
}

#[test]
fn a_reply_of_200_mb_is_kept_to_its_last_mib_in_little_memory() {
    let world = with_claude(World::bare());
    world.behave(
        "a",
        "printf '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"'
         yes 'one more line of it\\n' | tr -d '\\n' | head -c 200000000
         printf ' the end\",\"session_id\":\"s\",\"total_cost_usd\":0.5}\\n'",
    );
    let graph = format!(
        "name: x\nnodes:\n- {{id: a, prompt: p, success_check: {{result_matches: 'the end$'}}}}\n- id: peak\n  depends_on: [a]\n  run: '{PEAKS}'\n"
    );
    world.run(&graph).expect(0);
    let length = fs::metadata(world.node("a")["result"].as_str().unwrap()).unwrap().len();
    assert!(length <= 1 << 20 && length > (1 << 20) - 100, "{length}");
    assert_eq!(world.node("a")["cost"]["usd"], 0.5);
    assert_within(&world, "peak", 200 << 10);
}

#[test]
fn sixty_four_agents_at_once_with_long_prompts_take_little_memory() {
    let world = with_claude(World::bare());
    let long = "x".repeat(300 << 10);
    let mut graph = format!("name: x\nconcurrency: 64\ninputs: {{text: {{default: '{long}'}}}}\nnodes:\n");
    let mut ids = Vec::new();
    for at in 0..64 {
        graph.push_str(&format!("- {{id: a{at}, prompt: 'do {{{{ inputs.text }}}}'}}\n"));
        // Each ends only when all have begun.
        world.behave(
            &format!("a{at}"),
            "touch $HOME/began-$OMG_NODE; while [ $(ls $HOME | grep -c ^began-) -lt 64 ]; do sleep 0.1; done; say fine",
        );
        ids.push(format!("a{at}"));
    }
    graph.push_str(&format!("- id: peak\n  depends_on: [{}]\n  run: '{PEAKS}'\n", ids.join(", ")));
    world.run(&graph).expect(0);
    assert_eq!(world.calls().len(), 64);
    assert_eq!(world.prompt("a63", 1).len(), "do ".len() + long.len());
    assert_within(&world, "peak", 200 << 10);
    assert_eq!(world.show()["cost"]["usd"], 16.0);
}

/// A graph of the kind that people bring: `claude-run`, nested fragments with a loop inside, lanes at the citation, a
/// session, retries by cause.
#[test]
fn fragments_with_a_loop_inside_run_in_the_lane_of_who_cites_them() {
    let world = with_claude(World::new());
    fs::create_dir(world.path().join("fragments")).unwrap();
    let fragment = |name: &str, text: &str| {
        fs::write(world.path().join(format!("fragments/{name}.yaml")), text).unwrap();
    };
    fragment(
        "lane",
        "
fragment: lane
description: implement, check, review
substitutions: [task, tools]
exit: review
nodes:
- id: impl
  type: claude-run
  prompt: 'implement {{ with.task }}. {{ feedback.review }}'
  allowed_tools: '{{ with.tools }}'
- id: check
  use: checked
  depends_on: [impl]
  with: {command: 'test -f done'}
- id: review
  prompt: 'review {{ artifacts.check | inline }}'
  depends_on: [check]
  success_check: {result_matches: '(?m)^VERDICT: APPROVE$'}
  feedback: {rerun: impl, max: 2}
",
    );
    fragment(
        "checked",
        "
fragment: checked
description: goes on in the session, and is verified
substitutions: [command]
node:
  prompt: check it
  handoff: session
  retry: {max: 1, on: [nonzero_exit, verify_failed]}
  success_check: {exit_zero: true, verify: {command: '{{ with.command }}', timeout: 10s}}
",
    );
    for lane in ["one", "two"] {
        world
            .behave(&format!("{lane}/impl"), "touch done; git add done; git commit -qm $OMG_ATTEMPT; say ok");
        world.behave(
            &format!("{lane}/review"),
            "case $OMG_ATTEMPT in 1) say 'VERDICT: REJECT';; *) say 'fine\nVERDICT: APPROVE';; esac",
        );
    }
    let graph = "
name: x
version: 1
on_fail: continue
nodes:
- {id: one, use: lane, worktree: lane-one, with: {task: the first, tools: [Read, Edit]}}
- {id: two, use: lane, worktree: lane-two, with: {task: the second, tools: [Read]}}
- {id: end, run: 'echo {{ lanes.lane-one.branch }}', depends_on: [one, two]}
";
    world.run(graph).expect(0);
    for lane in ["one", "two"] {
        assert_eq!(world.node(&format!("{lane}/impl"))["attempts"], 2);
        assert_eq!(world.node(&format!("{lane}/review"))["rounds"], 1);
        assert_eq!(world.lane_view(&format!("lane-{lane}"))["cleanup"]["branch"], "kept");
    }
    assert!(world.node("one/check")["evidence"] == "verified" && world.result("end") == "omg/r1/lane-one");
    let calls = world.calls();
    assert_eq!(
        calls.iter().filter(|call| call.starts_with("one/check ") && call.contains("--resume")).count(),
        2
    );
    assert_eq!(world.show()["cost"]["usd"], 3.0);
}

#[test]
fn a_runtime_of_ones_own_gets_its_prompt_and_gives_its_reply_as_described() {
    let world = World::bare();
    world.tool("by-stdin", "printf 'stdin: %s' \"$(cat)\"");
    world.tool(
        "by-arg",
        "printf '{\"session_id\":\"s-7\",\"out\":{\"text\":\"arg: %s\"},\"total_cost_usd\":0.1}\\n' \"$2\"",
    );
    world.tool("by-file", "{ printf 'file: '; cat \"$1\"; } > \"$OMG_RESULT_FILE\"; echo noise");
    world.tool("silent", "true");
    let graph = "
name: x
on_fail: continue
runtimes:
  one: {command: [by-stdin]}
  two: {command: [by-arg, --ask, '{prompt}'], prompt: arg, result: 'json:/out/text', resume: [--go-on, '{session}']}
  three: {command: [by-file, '{prompt_file}'], prompt: file, result: file}
  four: {command: [silent], result: file}
nodes:
- {id: a, prompt: hello, runtime: one}
- {id: b, prompt: hello, runtime: two}
- {id: c, prompt: hello, runtime: three}
- {id: d, prompt: hello, runtime: four}
";
    world.run(graph).expect(1);
    let of = |id: &str| world.result(id);
    assert_eq!([of("a"), of("b"), of("c")], ["stdin: hello", "arg: hello", "file: hello"].map(String::from));
    assert_eq!(
        (world.node("b")["cost"]["usd"].as_f64(), world.node("a")["cost"]["usd"].as_f64()),
        (Some(0.1), None)
    );
    assert_eq!(world.class("d"), "output-error");
    let finished = world.events_named("node.attempt.finished");
    let of_b = finished.iter().find(|event| event["node"] == "b").unwrap();
    assert_eq!(of_b["agent"]["session"], "s-7");
}
