//! Documents through the front door: bad ones with code, place and words, good ones with what they mean.

use std::time::Duration;

use super::model::{
    Access, CleanupPolicy, Dependency, NodeKind, On, OnFail, Piece, ProvisionChoice, ProvisionRetry,
    ProvisionStep, ProvisionWhen, RetryCause, Template,
};
use super::*;
use crate::ids::{LaneIx, NodeIx};

fn no_fragments(_: &str) -> Option<Result<(String, String), Box<Problem>>> {
    None
}

fn problems(text: &str) -> Vec<Problem> {
    load("g.yaml", text, &no_fragments, Trust::Reviewed).err().unwrap_or_default()
}

#[track_caller]
fn good(text: &str) -> Graph {
    match load("g.yaml", text, &no_fragments, Trust::Reviewed) {
        Ok(loaded) if loaded.warnings.is_empty() => loaded.graph,
        Ok(loaded) => panic!("{}", render(&loaded.warnings, false)),
        Err(problems) => panic!("{}", render(&problems, false)),
    }
}

/// Checks that a document has exactly the problems `expected`, each as `line:column code`, and that
/// `words` stand in the message or the hint of the first.
#[track_caller]
fn check(text: &str, expected: &[&str], words: &str) {
    let problems = problems(text);
    let found: Vec<String> = problems
        .iter()
        .map(|problem| format!("{}:{} {}", problem.line, problem.column, problem.code))
        .collect();
    assert_eq!(found, expected, "{text}\n{}", render(&problems, false));
    let first = &problems[0];
    let said = format!("{} {}", first.message, first.hint.as_deref().unwrap_or_default());
    assert!(said.contains(words), "{said:?} lacks {words:?}");
}

/// The same for nodes: the document is a good top and these lines, which begin at line 3.
#[track_caller]
fn check_nodes(nodes: &str, expected: &[&str], words: &str) {
    check(&format!("name: x\nnodes:\n{nodes}"), expected, words);
}

/// The same for the top: these lines, and after them a good node.
#[track_caller]
fn check_top(top: &str, expected: &[&str], words: &str) {
    check(&format!("{top}nodes: [{{id: a, run: x}}]\n"), expected, words);
}

#[test]
fn what_is_wrong_with_the_top_is_pointed_at() {
    check("[1]\n", &["1:1 wrong-type"], "a graph file takes a map, not a list");
    check("name: x\n", &["1:1 missing-key"], "no `nodes`");
    check("name: x\nnodes: []\n", &["2:8 no-nodes"], "at least one node");
    check("name: x\nnodes: {a: {}}\n", &["2:8 wrong-type"], "a list of nodes, not a map");
    check("nodes: [{id: a, run: x}]\n", &["1:1 missing-key"], "no `name`");
    check_top("name: ''\n", &["1:7 empty-value"], "`name` is empty");
    check_top("name: x\nconcurency: 2\n", &["2:1 unknown-key"], "did you mean `concurrency`?");
    check_top("name: x\nworkers: 2\n", &["2:1 unknown-key"], "it takes `name`, `version`");
    check_top("name: x\nconcurrency: 0\n", &["2:14 wrong-value"], "at least 1, not 0");
    check_top("name: x\nconcurrency: '2'\n", &["2:14 wrong-type"], "a whole number, not the text `2`");
    check_top("name: x\nconcurrency: 010\n", &["2:14 wrong-type"], "a whole number");
    check_top("name: x\non_fail: stop\n", &["2:10 unknown-value"], "`halt` or `continue`, not `stop`");
    check_top("name: x\ncleanup: saf\n", &["2:10 unknown-value"], "did you mean `safe`?");
    check_top("name: x\ngrace: 10\n", &["2:8 wrong-duration"], "`10s` or `10m`");
    check_top("name: x\noutput_max: 1GB\n", &["2:13 wrong-size"], "`KiB`, `MiB`, `GiB` and `TiB`");
    check_top("name: x\nbudget_usd: -1\n", &["2:13 wrong-value"], "at least 0, not `-1`");
    check_top("name: x\nbudget_usd: .nan\n", &["2:13 wrong-value"], "not `.nan`");
    check_top("name: x\nidentity: {name: n}\n", &["2:11 missing-key"], "`identity` has no `email`");
    check_top("name: x\nshell: bash -c\n", &["2:8 wrong-type"], "`[bash, -euo, pipefail, -c]`");
    check_top("name: x\ninputs: [a, a]\n", &["2:13 duplicate-input"], "declared twice");
    check_top("name: x\ninputs: {a: {defalt: 1}}\n", &["2:14 unknown-key"], "did you mean `default`?");
    check_top("name: x\ninputs: [a b]\n", &["2:10 bad-input-name"], "can't name an input");
    check_top("name: x\nenv: {OMG_HOME: y}\n", &["2:7 reserved-variable"], "omg's own");
    check_top("name: x\nenv: {A: }\n", &["2:8 wrong-type"], "takes text, not nothing");
    check_top("name: x\npreflight: {identity: yes}\n", &["2:23 wrong-type"], "`true` or `false`, not `yes`");
    check_top("name: x\nprovision: {wen: x}\n", &["2:13 unknown-key"], "did you mean `when`?");
    check_top("name: x\nprovision: [auto, none]\n", &["2:19 wrong-value"], "`none` stands alone");
    check_top("name: x\nprovision: []\n", &["2:12 empty-value"], "write `none`");
    check_top("name: x\noverlay: [../x]\n", &["2:11 path-leaves-repository"], "inside the repository");
    check_top("name: x\nlanes: {api: {}}\n", &["2:9 unused-lane"], "`worktree: api`");
    check_top(
        "name: x\nlanes: {a..b: {}}\n",
        &["2:9 bad-lane-name", "2:9 unused-lane"],
        "git allows no such part",
    );
}

#[test]
fn yaml_that_breaks_off_is_one_problem() {
    check_nodes("- id: a\n  run: \"x\n  b: [\n", &["4:8 yaml-syntax"], "this is not YAML");
    check_nodes("- id: a\n   run: x\n", &["4:7 yaml-syntax"], "begin in one column");
    check_nodes("- id: a\n  run: echo: x\n", &["4:12 yaml-syntax"], "needs quotes");
    check_nodes("- id: a\n\trun: x\n", &["4:1 tab-indentation"], "indent with spaces");
    check_nodes("- {id: a, run: x, run: y}\n", &["3:19 duplicate-key"], "the first is at line 3");
}

#[test]
fn what_is_wrong_with_a_node_is_pointed_at() {
    check_nodes("- run: x\n", &["3:3 missing-key"], "this node has no `id`");
    check_nodes("- id: -a\n  run: x\n", &["3:7 bad-id"], "`-a` can't name a node");
    check_nodes("- id: a/b\n  run: x\n", &["3:7 bad-id"], "`a/b` can't name a node");
    check_nodes(&format!("- id: {}\n  run: x\n", "n".repeat(65)), &["3:7 bad-id"], "longer than 64");
    check_nodes("- {id: a, run: x}\n- {id: a, run: y}\n", &["4:8 duplicate-id"], "the other is at line 3");
    // Enough was said of `A` where it stands; and `zq` is not meant to be `zz` itself.
    check_nodes(
        "- {id: a, run: x}\n- {id: A, run: y}\n- {id: b, run: x, depends_on: [A]}\n",
        &["4:8 duplicate-id"],
        "",
    );
    check_nodes("- {id: zz, run: x, depends_on: [zq]}\n", &["3:33 unknown-node"], "not in this graph");
    check_nodes("- {id: a, run: x}\n- {id: A, run: y}\n", &["4:8 duplicate-id"], "differ in case only");
    check_nodes("- {id: a}\n", &["3:8 no-work"], "add `run:` for a command");
    check_nodes("- {id: a, run: x, prompt: y}\n", &["3:19 run-and-prompt"], "not both");
    check_nodes("- {id: a, type: command}\n", &["3:8 no-work"], "a command and has no `run`");
    check_nodes(
        "- {id: a, type: agent, run: x}\n",
        &["3:8 no-work", "3:24 run-and-prompt"],
        "has no `prompt`",
    );
    check_nodes("- {id: a, type: comand, run: x}\n", &["3:17 unknown-value"], "did you mean `command`?");
    check_nodes("- {id: a, type: gate, timeout: 1m}\n", &["3:23 gate-with-more"], "`timeout` has no place");
    check_nodes("- {id: a, run: '  '}\n", &["3:16 empty-value"], "`run` is empty");
    check_nodes("- {id: a, run: [x]}\n", &["3:16 wrong-type"], "takes text, not a list");
    check_nodes("- {id: a, run: x, depend_on: []}\n", &["3:19 unknown-key"], "did you mean `depends_on`?");
    check_nodes("- {id: a, run: x, timeout: 30}\n", &["3:28 wrong-duration"], "`30s` or `30m`");
    check_nodes("- {id: a, run: x, timeout: 0s}\n", &["3:28 wrong-value"], "longer than nothing");
    check_nodes("- {id: a, run: x, retry: {max: -1}}\n", &["3:32 wrong-value"], "at least 0");
    check_nodes("- {id: a, run: x, retry: {max: 1, on: [timeot]}}\n", &["3:40 unknown-value"], "`timeout`?");
    check_nodes("- {id: a, run: x, success_check: {exit_zero: no}}\n", &["3:46 wrong-type"], "not `no`");
    check_nodes(
        "- {id: a, run: x, success_check: {result_matches: '('}}\n",
        &["3:51 bad-regex"],
        "unclosed group",
    );
    check_nodes(
        "- {id: a, run: x, success_check: {verify: {}}}\n",
        &["3:43 missing-key"],
        "has no `command`",
    );
    check_nodes("- {id: a, run: x, env: {OMG_RUN_ID: y}}\n", &["3:25 reserved-variable"], "`OMG_RUN_ID`");
    check_nodes("- {id: a, run: x, use: y}\n", &["3:24 unknown-fragment"], "`fragments/y.yaml`");
    check_nodes("- {id: a, run: x, with: {}}\n", &["3:19 with-without-use"], "binds nothing");
    check_nodes(
        "- {id: a, prompt: x, permission_mode: acceptEdit}\n",
        &["3:39 unknown-value"],
        "`acceptEdits`?",
    );
    check_nodes("- {id: a, prompt: x, budget_usd: lots}\n", &["3:34 wrong-type"], "a number of dollars");
    check_nodes("- {id: a, run: x, cwd: y, worktree: z}\n", &["3:27 cwd-with-worktree"], "not both");
    check_nodes("- {id: a, run: x, worktree: a b}\n", &["3:29 bad-lane-name"], "can't name a lane");
    check_nodes("- {id: a, run: x, worktree: a.lock}\n", &["3:29 bad-lane-name"], "git allows");
    check_nodes("- {id: a, run: x, worktree: per-node}\n", &["3:29 reserved-lane-name"], "`defaults`");
    check_nodes("- {id: a, run: x, worktree: api.old-2}\n", &["3:29 reserved-lane-name"], "reserved");
    check_nodes(
        "- {id: a, run: x, worktree: api}\n- {id: b, run: x, worktree: API}\n",
        &["4:29 duplicate-lane"],
        "differ in case only",
    );
    check(
        "name: x\ndefaults: {id: a}\nnodes: [{run: x, id: b}]\n",
        &["2:12 no-default"],
        "`id` belongs to one node",
    );
    check(
        "name: x\ndefaults: {worktree: per-node}\nnodes: [{run: x, id: a.lock}]\n",
        &["3:22 bad-lane-name"],
        "`a.lock` can't name a lane",
    );
}

#[test]
fn what_is_wrong_between_nodes_is_pointed_at() {
    let lint = "- {id: lint, run: x}\n";
    check_nodes(
        &format!("{lint}- id: build\n  run: x\n  depends_on: [lnit]\n"),
        &["6:16 unknown-node"],
        "node `build` depends on `lnit`, which is not in this graph did you mean `lint`?",
    );
    check_nodes(
        &format!("{lint}- {{id: b, run: x, depends_on: [lint, {{id: lint, on: failed}}]}}\n"),
        &["4:43 duplicate-dependency"],
        "depends on `lint` twice",
    );
    check_nodes(
        &format!("{lint}- {{id: b, run: x, depends_on: lint}}\n"),
        &["4:31 wrong-type"],
        "write `[lint]`",
    );
    check_nodes(
        &format!("{lint}- {{id: b, run: x, depends_on: [{{id: lint, on: ended}}]}}\n"),
        &["4:47 unknown-value"],
        "`passed`, `finished` or `failed`",
    );
    check_nodes("- {id: a, run: x, depends_on: [a]}\n", &["3:32 cycle"], "depends on itself: a → a");
    check_nodes(
        "- {id: a, run: x, depends_on: [b]}\n- {id: b, run: x, depends_on: [c]}\n- {id: c, run: x, depends_on: [a]}\n\
         - {id: d, run: x, depends_on: [e, a]}\n- {id: e, run: x, depends_on: [d]}\n",
        &["3:32 cycle", "6:32 cycle"],
        "a → b → c → a",
    );
    check_nodes(
        "- {id: a-b, run: x}\n- {id: a_b, run: x}\n- {id: c, run: x, depends_on: [a-b, a_b]}\n",
        &["5:8 same-variable"],
        "`$OMG_ARTIFACT_A_B`",
    );
}

#[test]
fn what_follows_from_a_reported_mistake_is_not_reported() {
    check_nodes(
        "- {id: lint, run: x}\n- {id: b, run: x, depends_on: [lnit]}\n\
         - {id: c, run: '{{ artifacts.lint }}', depends_on: [b]}\n",
        &["4:32 unknown-node"],
        "did you mean `lint`?",
    );
    check_nodes(
        "- {id: a, run: x, depends_on: [b]}\n- {id: b, run: '{{ artifacts.b }}', depends_on: [a]}\n",
        &["3:32 cycle"],
        "a → b → a",
    );
}

#[test]
fn tokens_are_pointed_at_where_they_stand() {
    check_nodes(
        "- {id: a, run: 'x {{ input.a }}'}\n",
        &["3:19 unknown-token"],
        "did you mean `{{ inputs.a }}`?",
    );
    check_nodes(
        "- {id: a, run: 'x {{ .Foo }}'}\n",
        &["3:19 unknown-token"],
        "write `{{{{` for a literal `{{`",
    );
    check_nodes("- {id: a, run: 'x {{ y'}\n", &["3:19 unclosed-token"], "no `}}` after it");
    check_nodes("- {id: a, run: 'x {{ inputs.a }}'}\n", &["3:19 unknown-input"], "add `a` to `inputs`");
    check_nodes(
        "- id: a\n  run: |\n    echo é\n    echo {{ run.id }} é {{ inputs.a }}\n",
        &["6:25 unknown-input"],
        "`{{ inputs.a }}`",
    );
    check_nodes("- {id: a, run: \"x\\n \\\"{{ inputs.a }}\"}\n", &["3:23 unknown-input"], "no input `a`");
    check_nodes("- {id: a, run: 'x {{ artifacts.b }}'}\n", &["3:19 unknown-node"], "reads the result of `b`");
    let two = |second: &str| format!("- {{id: a, run: x}}\n- {{id: b, depends_on: [a], {second}}}\n");
    check_nodes(
        &two("run: '{{ artifacts.a | inline }}'"),
        &["4:34 artifacts-inline-in-command"],
        "`\"$OMG_ARTIFACT_A\"`",
    );
    check_nodes(
        &two("run: x, success_check: {verify: {command: '{{ artifacts.a | inline }}'}}"),
        &["4:71 artifacts-inline-in-command"],
        "{{ artifacts.a }}",
    );
    check_nodes(&two("run: '{{ artifacts.b }}'"), &["4:34 not-an-ancestor"], "does not wait for it");
    check_nodes(
        "- {id: a, run: '{{ artifacts.b }}'}\n- {id: b, run: x}\n",
        &["3:17 not-an-ancestor"],
        "`depends_on`",
    );
    check_nodes(
        "- {id: a, run: '{{ lane.path }}'}\n",
        &["3:17 token-without-lane"],
        "give the node a `worktree`",
    );
    check_nodes(
        "- {id: a, run: '{{ lanes.z.path }}'}\n",
        &["3:17 unknown-lane"],
        "no node works in a lane `z`",
    );
    check_nodes(
        "- {id: a, run: x, worktree: l}\n- {id: b, run: '{{ lanes.l.branch }}'}\n",
        &["4:17 not-an-ancestor"],
        "waits for no node in it",
    );
    check_nodes(
        "- {id: a, prompt: '{{ feedback.a }}'}\n",
        &["3:20 feedback-outside-arc"],
        "has no `feedback`",
    );
    check_nodes(
        "- {id: a, run: 'x {{ feedback.d }}'}\n- {id: d, run: x, depends_on: [a], feedback: {rerun: a, max: 1}}\n",
        &["3:19 feedback-in-command"],
        "would be read by a shell",
    );
    check_nodes("- {id: a, run: '{{ with.x }}'}\n", &["3:17 unknown-token"], "in a fragment only");
    check(
        "name: x\nenv: {P: '{{ lane.path }}'}\nnodes: [{id: a, run: x}]\n",
        &["2:11 token-without-lane"],
        "`a`",
    );
}

#[test]
fn arcs_and_sessions_have_rules() {
    let arc = |extra: &str, feedback: &str| {
        format!(
            "- {{id: a, prompt: p}}\n{extra}- {{id: d, prompt: p, depends_on: [a], feedback: {feedback}}}\n"
        )
    };
    check_nodes(&arc("", "{rerun: a}"), &["4:49 missing-key"], "no `max`");
    check_nodes(&arc("", "{rerun: a, max: 0}"), &["4:65 wrong-value"], "at least 1");
    check_nodes(&arc("", "{rerun: d, max: 1}"), &["4:57 feedback-target"], "no ancestor of `d`");
    check_nodes(&arc("", "{rerun: z, max: 1}"), &["4:57 unknown-node"], "the feedback of `d` re-runs `z`");
    check_nodes(
        &arc("- {id: o, prompt: p, depends_on: [a]}\n", "{rerun: a, max: 1}"),
        &["5:57 feedback-left-early"],
        "`o` depends on `a`",
    );
    check_nodes(
        "- {id: a, prompt: p}\n- {id: g, type: gate, depends_on: [a]}\n\
         - {id: d, prompt: p, depends_on: [g], feedback: {rerun: a, max: 1}}\n",
        &["5:57 feedback-over-gate"],
        "the gate `g`",
    );
    check_nodes(
        "- {id: a, prompt: p}\n- {id: b, prompt: p, depends_on: [a], feedback: {rerun: a, max: 1}}\n\
         - {id: c, prompt: p, depends_on: [b], feedback: {rerun: b, max: 1}}\n",
        &["5:57 feedback-overlap"],
        "of `b` and of `c`",
    );
    check_nodes(
        "- {id: a, prompt: p}\n- {id: b, prompt: p, depends_on: [a], handoff: session}\n\
         - {id: c, prompt: '{{ feedback.c }}', depends_on: [b], feedback: {rerun: b, max: 1}}\n",
        &["4:48 session-from-outside"],
        "the session of `a`",
    );
    check_nodes(
        "- {id: a, prompt: p, handoff: session}\n",
        &["3:31 session-parents"],
        "exactly one node, not 0",
    );
    check_nodes(
        "- {id: a, run: x}\n- {id: b, prompt: p, depends_on: [a], handoff: session}\n",
        &["4:48 session-parents"],
        "a command has none",
    );
    check_nodes("- {id: a, run: x, handoff: session}\n", &["3:28 session-of-command"], "has no session");
    good(
        "name: x\nnodes:\n- {id: a, prompt: 'p {{ feedback.d }}'}\n- {id: d, prompt: p, depends_on: [a], feedback: {rerun: a, max: 2}}\n",
    );
}

#[test]
fn everything_is_reported_in_one_go_and_in_order() {
    check(
        "nme: x\nnodes:\n- {id: a, run: x, timeout: 5, depends_on: [b, c]}\n- {id: b, run: '{{ nope }}', depends_on: [a]}\n\
         - {id: b, worktree: none}\n",
        &[
            "1:1 missing-key",
            "1:1 unknown-key",
            "3:28 wrong-duration",
            "3:44 cycle",
            "3:47 unknown-node",
            "4:17 unknown-token",
            "5:8 duplicate-id",
            "5:8 no-work",
        ],
        "no `name`",
    );
}

#[test]
fn what_is_odd_but_allowed_is_a_warning() {
    let warnings = |text: &str| {
        let loaded =
            load("g.yaml", text, &no_fragments, Trust::Reviewed).map_err(|p| render(&p, false)).unwrap();
        loaded.warnings.iter().map(|warning| (warning.column, warning.code.word())).collect::<Vec<_>>()
    };
    let node = |rest: &str| format!("name: x\nnodes:\n- {{id: a, run: x, {rest}}}\n");
    assert_eq!(warnings(&node("allowed_tools: [Read]")), [(19, "for-agents-only")]);
    assert_eq!(warnings(&node("retry: {on: [timeout]}")), [(26, "retry-without-max")]);
    assert_eq!(warnings(&node("access: read")), [(19, "access-without-lane")]);
}

#[test]
fn the_smallest_graph_has_the_defaults_of_the_contract() {
    let graph = good("name: x\nnodes: [{id: a, run: make}]\n");
    let parts = graph.parts();
    assert_eq!(parts.shell, ["sh", "-c"]);
    assert_eq!((parts.on_fail, parts.cleanup, parts.concurrency), (OnFail::Halt, CleanupPolicy::Safe, None));
    assert_eq!(parts.provision.choice, ProvisionChoice::Ladder);
    let node = graph.node(NodeIx(0));
    assert!(matches!(&node.kind, NodeKind::Command { run } if *run == Template::literal("make")));
    assert_eq!((node.timeout, node.grace, node.output_max), (None, Duration::from_secs(10), 1 << 30));
    assert_eq!((node.access, node.lane, node.retry.max), (Access::Write, None, 0));
    assert!(node.check.exit_zero && parts.later.is_empty() && parts.lanes.is_empty());
}

const WHOLE: &str = r#"
x-anchors: {retry: &retry {max: 2, on: [timeout, verify_failed], backoff: 2s}}
name: 12
version: 1
description: everything that runs
inputs: {who: {description: d, default: 7}, what: }
env: {WHO: "{{ inputs.who }}", RUN: "{{ run.id }}"}
shell: [bash, -euo, pipefail, -c]
concurrency: 3
on_fail: continue
base: main
lanes:
  api: {base: v1, provision: {command: make deps, timeout: 90s, retry: never, when: first-use, max_parallel: 2, inputs: [a.txt]}, cleanup: discard}
  web: {provision: none}
provision: [auto, make assets]
cleanup: safe
grace: 3s
output_max: 64MiB
pass_env: [CI]
identity: {name: n, email: e@x}
defaults: {worktree: api, timeout: 1h30m, env: {D: d}}
nodes:
- id: 1
  run: echo {{{{ {{ inputs.what }} }}
  retry: *retry
- {id: b, run: 'cat {{ artifacts.1 }}', depends_on: ["1"], access: read, env: {}, grace: 1s}
- {id: c, run: x, depends_on: [{id: b, on: failed}, {id: "1", on: finished}], worktree: web, timeout: 500ms}
- id: d
  run: git merge {{ lanes.web.branch }} # at {{ nothing }}
  depends_on: [c]
  worktree: none
  output_max: 10
  success_check:
    exit_zero: false
    result_matches: ^ok
    verify: {command: 'test -d {{ lanes.api.path }}', cwd: sub, timeout: 10s, expect_exit: 3, output_matches: x}
- {id: e, run: pwd, cwd: sub}
"#;

#[test]
fn a_whole_graph_means_what_it_says() {
    let graph = good(WHOLE);
    let parts = graph.parts();
    assert_eq!((parts.name.as_str(), parts.base.as_deref()), ("12", Some("main")));
    assert_eq!(parts.inputs["who"].default.as_deref(), Some("7"));
    assert_eq!(parts.env["RUN"], Template(vec![Piece::RunId]));
    assert_eq!(parts.shell.len(), 4);
    assert_eq!((parts.concurrency.map(u32::from), parts.on_fail), (Some(3), OnFail::Continue));
    let steps = vec![ProvisionStep::Auto, ProvisionStep::Command("make assets".into())];
    assert_eq!(parts.provision.choice, ProvisionChoice::Steps(steps));
    assert_eq!(parts.pass_env, ["CI"]);
    assert_eq!(parts.identity.as_ref().unwrap().email, "e@x");
    assert_eq!(parts.later, []);

    let names: Vec<&str> = graph.lanes().iter().map(|lane| lane.name.as_str()).collect();
    assert_eq!(names, ["api", "web"]);
    let api = graph.provision(LaneIx(0));
    assert_eq!(api.choice, ProvisionChoice::Steps(vec![ProvisionStep::Command("make deps".into())]));
    assert_eq!(
        (api.timeout.as_secs(), api.retry, api.when),
        (90, ProvisionRetry::Never, Some(ProvisionWhen::FirstUse))
    );
    assert_eq!(graph.provision(LaneIx(1)).choice, ProvisionChoice::Nothing);
    assert_eq!(graph.cleanup(LaneIx(0)), CleanupPolicy::Discard);

    let [one, b, c, d, e] = graph.nodes() else { panic!("five nodes") };
    assert_eq!(
        (one.id.as_str(), one.lane, one.timeout),
        ("1", Some(LaneIx(0)), Some(Duration::from_secs(5400)))
    );
    let NodeKind::Command { run } = &one.kind else { panic!("a command") };
    let text = |text: &str| Piece::Text(text.into());
    assert_eq!(run.0, [text("echo {{ "), Piece::Input("what".into()), text(" }}")]);
    assert_eq!((one.retry.max, one.retry.backoff.as_secs()), (2, 2));
    assert_eq!(one.retry.on, [RetryCause::Timeout, RetryCause::VerifyFailed]);
    assert_eq!((b.access, b.env.len(), b.grace.as_secs(), one.env.len()), (Access::Read, 0, 1, 1));
    assert_eq!(one.grace.as_secs(), 3);
    let edges =
        [Dependency { node: NodeIx(1), on: On::Failed }, Dependency { node: NodeIx(0), on: On::Finished }];
    assert_eq!(c.depends_on, edges);
    assert_eq!(
        (c.lane, c.timeout, c.output_max),
        (Some(LaneIx(1)), Some(Duration::from_millis(500)), 64 << 20)
    );
    assert_eq!((d.lane, d.output_max), (None, 10));
    let verify = d.check.verify.as_ref().unwrap();
    assert_eq!((verify.expect_exit, verify.timeout.as_secs(), d.check.exit_zero), (3, 10, false));
    assert_eq!(verify.command.0, [text("test -d "), Piece::OtherLanePath(LaneIx(0))]);
    assert_eq!((e.lane, e.cwd.clone()), (None, Some(Template::literal("sub"))));

    let again: Graph = serde_json::from_str(&serde_json::to_string(&graph).unwrap()).unwrap();
    assert_eq!(serde_json::to_string(&again).unwrap(), serde_json::to_string(&graph).unwrap());
}

#[test]
fn a_lane_for_every_node_is_named_like_it() {
    let graph = good(
        "name: x\ndefaults: {worktree: per-node}\nlanes: {b: {base: v1}}\nnodes:\n\
         - {id: a, run: x}\n- {id: b, run: x}\n- {id: c, run: x, worktree: a}\n- {id: d, run: x, worktree: none}\n\
         - {id: e, run: x, cwd: y}\n- {id: g, type: gate}\n",
    );
    let lanes: Vec<Option<LaneIx>> = graph.nodes().iter().map(|node| node.lane).collect();
    assert_eq!(lanes, [Some(LaneIx(0)), Some(LaneIx(1)), Some(LaneIx(0)), None, None, None]);
    assert_eq!(graph.lane(LaneIx(1)).base.as_deref(), Some("v1"));
}

#[test]
fn defaults_go_to_the_nodes_that_heed_them() {
    let graph = good(
        "name: x\ndefaults: {permission_mode: plan, run: make, allowed_tools: [Read], timeout: 1m, retry: {max: 1}}\n\
         nodes:\n- {id: a}\n- {id: b, prompt: p}\n- {id: c, type: gate}\n",
    );
    let words: Vec<&str> = graph.nodes().iter().map(|node| node.kind.word()).collect();
    assert_eq!(words, ["command", "agent", "gate"]);
    assert_eq!(graph.node(NodeIx(0)).retry.on.len(), 6);
    assert!(!graph.node(NodeIx(0)).retry.on.contains(&RetryCause::RunError));
    assert_eq!(graph.node(NodeIx(2)).timeout, None);

    let graph = good("name: x\ndefaults: {type: agent}\nnodes: [{id: a, run: x}, {id: b, prompt: p}]\n");
    let words: Vec<&str> = graph.nodes().iter().map(|node| node.kind.word()).collect();
    assert_eq!(words, ["command", "agent"]);
}

#[test]
fn agents_have_a_time_limit_and_old_words_load() {
    let graph =
        good("name: x\nnodes: [{id: a, type: claude-run, prompt: p, retry: {max: 1, on: [run_error]}}]\n");
    assert_eq!(graph.node(NodeIx(0)).timeout, Some(Duration::from_secs(20 * 60)));
}

#[test]
fn a_lanes_overlay_wins_and_none_switches_it_off() {
    let text = "\
name: x
overlay: {paths: [./.env, config/], include_file: true}
lanes: {a: {overlay: none}, b: {overlay: [.env.b, .env.b]}}
nodes:
- {id: a, run: x, worktree: a}
- {id: b, run: x, worktree: b}
- {id: c, run: x, worktree: c}
";
    let graph = good(text);
    let of = |ix| graph.overlay(LaneIx(ix)).map(|overlay| (overlay.paths.join(" "), overlay.include_file));
    assert_eq!(
        [of(0), of(1), of(2)],
        [None, Some((".env.b".into(), false)), Some((".env config".into(), true))]
    );
    assert_eq!(good("name: x\nnodes: [{id: a, run: x, worktree: a}]\n").overlay(LaneIx(0)), None);
}

#[test]
fn what_this_build_does_not_run_is_listed_with_its_place() {
    let text = "\
name: x
preflight: {tools: [git], env: [A], min_free: 1GiB, identity: true, baseline: make}
on_fault: {killed: retry}
provision: {roots: [a], skip_if: node_modules, receipt_file: .r}
lanes: {l: {ports: 2}}
nodes:
- {id: a, prompt: p, worktree: l}
- {id: d, run: x, protect: [a], scope: [b], expect_changes: true, on_fault: {}}
";
    let graph = good(text);
    let found: Vec<String> = graph
        .parts()
        .later
        .iter()
        .map(|later| format!("{}:{} {}", later.line, later.column, later.feature.replace('`', "")))
        .collect();
    assert_eq!(
        found,
        [
            "2:1 preflight",
            "3:1 on_fault",
            "5:13 ports",
            "8:19 protect",
            "8:33 scope",
            "8:45 expect_changes",
            "8:67 on_fault",
        ]
    );
}

#[test]
fn inputs_are_bound_or_refused_all_at_once() {
    let graph = good("name: x\ninputs: {task: , repo: {default: .}}\nnodes: [{id: a, run: x}]\n");
    let given = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    };
    let bound = bind_inputs(&graph, &given(&[("task", "t")])).unwrap();
    assert_eq!(bound.into_iter().collect::<Vec<_>>(), given(&[("task", "t"), ("repo", ".")]));
    assert_eq!(
        bind_inputs(&graph, &given(&[("tsk", "t"), ("repo", "a"), ("repo", "b"), ("zzzzzz", "")]))
            .unwrap_err(),
        [
            "the graph declares no input `tsk`; did you mean `task`?",
            "the input `repo` is given twice",
            "the graph declares no input `zzzzzz`; it declares `task` or `repo`",
            "the input `task` is missing; give it with `--input task=VALUE`",
        ]
    );
}

/// Every way to cut a document short is a document too: whatever is said of it can be shown.
#[test]
fn no_stump_of_a_document_is_too_odd_to_read() {
    for (at, _) in WHOLE.char_indices().step_by(7) {
        render(&problems(&WHOLE[..at]), false);
        render(&problems(&format!("{}{}", &WHOLE[..at], &WHOLE[at + 3..])), true);
    }
}

#[test]
fn a_mark_never_cuts_a_character() {
    check_nodes("- {id: a, run: \"\\u007b\\u007b é }}\"}\n", &["3:16 unknown-token"], "`{{ é }}`");
    check_nodes("- {id: a, run: \"{{ \\u00e9ééé }}é\"}\n", &["3:17 unknown-token"], "is no token");
}

fn on_a_small_stack(test: fn()) {
    std::thread::Builder::new().stack_size(512 << 10).spawn(test).unwrap().join().unwrap();
}

#[test]
fn ten_thousand_nodes_load() {
    on_a_small_stack(|| {
        let mut text = String::from("name: x\nnodes:\n- {id: n0, run: x}\n");
        for at in 1..10_000 {
            let (before, half) = (at - 1, at / 2);
            let edges = if before == half { format!("n{half}") } else { format!("n{before}, n{half}") };
            text.push_str(&format!(
                "- {{id: n{at}, run: 'x {{{{ artifacts.n{half} }}}}', depends_on: [{edges}]}}\n"
            ));
        }
        assert_eq!(good(&text).nodes().len(), 10_000);
    });
}

/// Straight to the checks: the parser of a flat list has nothing to recurse into, and takes its time.
#[test]
fn a_chain_of_a_hundred_thousand_nodes_is_checked() {
    use super::problem::{Pos, Report};
    use super::raw::{RawDependency, RawGraph, RawNode};
    use super::reader::At;
    use super::validate::{Placed, validate};
    on_a_small_stack(|| {
        let mut report = Report::default();
        let at = Pos { file: report.add_file("g.yaml", ""), line: 1, column: 1, start: 0, end: 0 };
        let text = |value: String| At { at, value };
        let word = |value: String| At { at, value: value.into() };
        let node = |ix: u32| RawNode {
            id: Some(text(format!("n{ix}"))),
            run: Some(text(if ix == 0 { "x".into() } else { "{{ artifacts.n0 }}".into() })),
            depends_on: ix
                .checked_sub(1)
                .map(|ix| RawDependency { id: word(format!("n{ix}")), on: On::Passed })
                .into_iter()
                .collect(),
            keys: vec![(keys::NodeKey::Run, at)],
            own_keys: 1,
            ..RawNode::default()
        };
        let nodes = (0..100_000).map(|ix| Placed { raw: node(ix), at, cited_at: at }).collect();
        let parts = validate(&mut report, RawGraph::default(), nodes, &Default::default(), Vec::new());
        let graph = Graph::new(parts.unwrap()).unwrap();
        assert_eq!(graph.rank(NodeIx(0)), 99_999);
    });
}

#[test]
fn ten_thousand_wrong_names_are_all_reported_without_comparing_all_with_all() {
    let mut text = String::from("name: x\nnodes:\n");
    for at in 0..10_000 {
        text.push_str(&format!("- {{id: n{at}, run: x, depends_on: [m{at}]}}\n"));
    }
    assert_eq!(problems(&text).len(), 10_000);
}
