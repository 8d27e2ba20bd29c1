//! `omg schema` against `omg lint`, on one corpus: what each says of a file, and where the schema can't know.
#![expect(clippy::disallowed_methods, reason = "reads the corpus of this package")]

use std::fs;
use std::path::PathBuf;

use jsonschema::Validator;
use omg::graph::{Code, Severity, Trust, load, render, schema};
use serde_json::Value;

/// Cases of tests/errors whose files are no JSON: a schema is never asked.
const NO_JSON: [&str; 15] = [
    "alias-bomb",
    "alias-in-itself",
    "bad-key",
    "bad-merge",
    "duplicate-key",
    "not-text",
    "not-text.control",
    "not-text.utf16",
    "second-document",
    "tab-indentation",
    "too-deep",
    "unknown-anchor",
    "yaml-syntax",
    "yaml-syntax.indentation",
    "yaml-syntax.quote",
];

/// Cases of tests/errors that a schema can't know to be wrong: it takes another place, another file, or what
/// JSON does not keep of a number's spelling.
const CANT_KNOW: [&str; 38] = [
    "artifacts-inline-in-command",
    "bad-lane-name.per-node",
    "bad-regex",
    "cycle",
    "duplicate-dependency",
    "duplicate-id",
    "duplicate-id.subgraph",
    "duplicate-lane",
    "feedback-in-command",
    "feedback-left-early",
    "feedback-outside-arc",
    "feedback-over-gate",
    "feedback-overlap",
    "feedback-target",
    "fragment-body",
    "fragment-cycle",
    "fragment-depth",
    "fragment-name",
    "missing-key.fragment",
    "not-an-ancestor",
    "same-variable",
    "session-from-outside",
    "subgraph-key",
    "token-without-lane",
    "unbound-substitution",
    "unclosed-token",
    "undeclared-substitution",
    "unknown-input",
    "unknown-key.fragment",
    "unknown-lane",
    "unknown-node",
    "unknown-node.fragment",
    "unknown-runtime",
    "unknown-substitution",
    "unknown-token",
    "unused-lane",
    "wrong-type.octal",
    "yaml-tag",
];

/// Asked when the test runs: checkouts that share a target folder share this binary too.
fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

fn validator() -> Validator {
    jsonschema::draft202012::options().build(&schema()).unwrap()
}

/// Returns a file's text as editors hand it to a schema.
fn json(text: &str) -> Option<Value> {
    let options = serde_yaml::options! { strict_booleans: true };
    serde_yaml::from_str_with_options(text, options).ok()
}

fn lint_accepts(text: &str) -> bool {
    load("graph.yaml", text, &|_| None, Trust::Reviewed).is_ok()
}

#[test]
fn it_is_a_schema_of_its_draft() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
}

#[test]
fn the_schema_accepts_every_graph_that_lint_does() {
    let validator = validator();
    let mut texts: Vec<(String, String)> = Vec::new();
    for folder in ["graphs", "tests/schema"] {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            texts.push((path.display().to_string(), fs::read_to_string(path).unwrap()));
        }
    }
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        let page = if path.is_file() { fs::read_to_string(&path).unwrap() } else { continue };
        for block in page.split("```yaml\n# omg\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            texts.push((path.display().to_string(), block.to_string()));
        }
    }
    assert!(texts.len() > 12, "{}", texts.len());
    for (name, text) in texts {
        if let Err(problems) = load("graph.yaml", &text, &|_| None, Trust::Reviewed) {
            panic!("{name}: {}", render(&problems, false));
        }
        let json = json(&text).unwrap_or_else(|| panic!("{name} is no JSON"));
        let errors: Vec<String> =
            validator.iter_errors(&json).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{name}: {}", errors.join("\n"));
    }
}

#[test]
fn of_each_case_of_the_error_corpus_it_is_known_what_the_schema_says() {
    let validator = validator();
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(root().join("tests/errors")).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(name) = file.strip_suffix(".yaml") else { continue };
        let code = name.split('.').next().unwrap_or(name);
        // What a planned graph may not have is a good graph's otherwise; what lies in fragments is not here.
        if code == Code::PlannedRefused.word() {
            continue;
        }
        count += 1;
        let bytes = fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let is_only_odd = match load("graph.yaml", &text, &|_| None, Trust::Reviewed) {
            Ok(_) => true,
            Err(problems) => problems.iter().all(|problem| problem.severity == Severity::Warning),
        };
        let json = std::str::from_utf8(&bytes).ok().and_then(json);
        let said = match json.map(|json| validator.is_valid(&json)) {
            None => "no json",
            Some(true) => "accepted",
            Some(false) => "refused",
        };
        let expected = if NO_JSON.contains(&name) {
            "no json"
        } else if is_only_odd || CANT_KNOW.contains(&name) {
            "accepted"
        } else {
            "refused"
        };
        if said != expected {
            wrong.push(format!("{name}: {said}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for name in NO_JSON.iter().chain(&CANT_KNOW) {
        assert!(root().join(format!("tests/errors/{name}.yaml")).is_file(), "there is no case {name}");
    }
    assert!(count > 80, "{count}");
}

/// Checks that lint and the schema say the same of one file.
#[track_caller]
fn check(validator: &Validator, text: &str, expected: bool) {
    let by_schema = validator.is_valid(&json(text).unwrap_or_else(|| panic!("no JSON: {text}")));
    assert_eq!((lint_accepts(text), by_schema), (expected, expected), "lint and schema: {text}");
}

#[test]
fn lint_and_the_schema_agree_on_single_values() {
    let validator = validator();
    for (top, good) in [
        ("concurrency: 0", false),
        ("concurrency: '2'", false),
        ("concurrency: 4294967295", true),
        ("concurrency: 4294967296", false),
        ("on_fail: stop", false),
        ("grace: 10", false),
        ("grace: 1h30m5.5s", true),
        ("grace: 1d", false),
        ("output_max: 1GB", false),
        ("output_max: 17", true),
        ("output_max: '17 B'", true),
        ("output_max: 0", false),
        ("output_max: 1.5KiB", true),
        ("budget_usd: -1", false),
        ("budget_usd: 1.5", true),
        ("identity: {name: n}", false),
        ("shell: bash -c", false),
        ("shell: []", false),
        ("inputs: [a, a]", false),
        ("inputs: [_a, b.c]", true),
        ("inputs: [a b]", false),
        ("inputs: {a b: }", false),
        ("inputs: {a: {defalt: 1}}", false),
        ("env: {OMG_HOME: y}", false),
        ("env: {A: }", false),
        ("env: {A: 1}", true),
        ("pass_env: [A=B]", false),
        ("preflight: {identity: yes}", false),
        ("provision: {wen: x}", false),
        ("provision: [auto, none]", false),
        ("provision: none", true),
        ("provision: []", false),
        ("provision: {command: [none]}", false),
        ("provision: {timeout: 0s}", false),
        ("overlay: [../x]", false),
        ("overlay: [a/..b]", true),
        ("overlay: [~/x]", false),
        ("overlay: none", true),
        ("overlay: .env", false),
        ("overlay: []", true),
        ("overlay: [./.env, config/, 'a b']", true),
        ("overlay: [.]", false),
        ("overlay: [a/.git/config]", false),
        ("overlay: [web/node_modules]", false),
        ("overlay: [my-vendor]", true),
        ("overlay: ['*.env']", false),
        ("overlay: {paths: [.env], include_file: true}", true),
        ("overlay: {include_file: yes}", false),
        ("overlay: {path: [.env]}", false),
        ("lanes: {none: {}}", false),
        ("lanes: {a.old-1: {}}", false),
        ("lanes: {a.lock: {}}", false),
        ("defaults: {id: a}", false),
        ("defaults: {cwd: x, worktree: y}", false),
        ("defaults: {worktree: per-node}", true),
        ("x-anything: [1, {2: 3}]", true),
        ("y-anything: 1", false),
        ("name: y", false),
    ] {
        let text = format!(
            "{}{top}\nnodes: [{{id: a, run: x}}]\n",
            if top == "name: y" { "names: x\n" } else { "name: x\n" }
        );
        check(&validator, &text, good);
    }
    for (node, good) in [
        ("run: x", false),
        ("id: -a, run: x", false),
        ("id: 1, run: 2", true),
        ("id: a/b, run: x", false),
        ("id: a", false),
        ("id: a, run: x, prompt: y", false),
        ("id: a, type: command", false),
        ("id: a, type: agent, run: x", false),
        ("id: a, type: agent, prompt: x", true),
        ("id: a, type: gate", true),
        ("id: a, type: gate, timeout: 1m", false),
        ("id: a, type: comand, run: x", false),
        ("id: a, run: '  '", false),
        ("id: a, run: [x]", false),
        ("id: a, run: x, depend_on: []", false),
        ("id: a, run: x, depends_on: b", false),
        ("id: a, run: x, timeout: 30", false),
        ("id: a, run: x, timeout: 0s", false),
        ("id: a, run: x, retry: {max: -1}", false),
        ("id: a, run: x, retry: {max: 0, on: [run_error]}", true),
        ("id: a, run: x, retry: {max: 1, on: []}", false),
        ("id: a, run: x, success_check: {exit_zero: no}", false),
        ("id: a, run: x, success_check: {verify: {}}", false),
        ("id: a, run: x, success_check: {verify: {command: x, expect_exit: 256}}", false),
        ("id: a, run: x, with: {}", false),
        ("id: a, prompt: x, permission_mode: acceptEdit", false),
        ("id: a, prompt: x, budget_usd: lots", false),
        ("id: a, run: x, cwd: y, worktree: z", false),
        ("id: a, run: x, cwd: y, worktree: none", true),
        ("id: a, run: x, worktree: a b", false),
        ("id: a, run: x, worktree: a..b", false),
        ("id: a, run: x, worktree: per-node", false),
        ("id: a, run: x, worktree: Per-Node", false),
        ("id: a, prompt: x, handoff: session", false),
        ("id: a, run: x, handoff: session", false),
        ("id: a, run: x, protect: [], scope: a", true),
        ("id: a, run: x, expect_changes: 1", false),
    ] {
        check(&validator, &format!("name: x\nnodes: [{{{node}}}]\n"), good);
    }
    // What a node lacks, defaults may give.
    check(&validator, "name: x\ndefaults: {run: make}\nnodes: [{id: a}]\n", true);
    check(&validator, "name: x\ndefaults: {timeout: 1m}\nnodes: [{id: a}]\n", false);
    check(&validator, "name: x\nnodes: []\n", false);
    check(&validator, "[1]\n", false);
}
