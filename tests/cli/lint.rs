//! `omg lint` on everything that can stand in the place of a graph file. What is said of which mistake is
//! pinned in tests/errors; here it is how it arrives, and that nothing stops, floods or commands a terminal.

use std::fs;

use omg::graph::commands;
use serde_json::Value;

use crate::support::World;

const GOOD: &str = "name: x\nnodes: [{id: a, run: 'true'}]\n";
const ODD: &str = "name: x\nnodes: [{id: a, run: 'true', model: m}]\n";

#[track_caller]
fn problems(world: &World, words: &[&str], code: i32) -> Vec<Value> {
    let ended = world.omg(&[&["lint", "--json"], words].concat()).expect(code);
    assert_eq!(ended.stderr, "");
    let json: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(json["schema"], 1);
    json["problems"].as_array().unwrap().clone()
}

#[test]
fn json_names_each_file_by_its_absolute_path() {
    let world = World::bare();
    let here = world.repo().canonicalize().unwrap();
    world.write("bad.yaml", "name: x\nnodes: [{id: a, run: x, tmeout: 1m}]\n");
    world.write("sub/cites.yaml", "name: x\nnodes: [{id: a, use: f}]\n");
    world.write("sub/fragments/f.yaml", "fragment: f\ndescription: d\nnode: {run: x, timeout: 3}\n");
    let found = problems(&world, &["./bad.yaml", "sub/cites.yaml", "nowhere.yaml"], 2);
    let places: Vec<(String, u64, u64, &str)> = found
        .iter()
        .map(|problem| {
            let path = problem["file"].as_str().unwrap();
            let file = std::path::Path::new(path).strip_prefix(&here).unwrap().display().to_string();
            let number = |key: &str| problem[key].as_u64().unwrap();
            (file, number("line"), number("column"), problem["code"].as_str().unwrap())
        })
        .collect();
    let place = |file: &str, line, column, code| (file.to_string(), line, column, code);
    assert_eq!(
        places,
        [
            place("bad.yaml", 2, 25, "unknown-key"),
            place("sub/fragments/f.yaml", 3, 25, "wrong-duration"),
            place("nowhere.yaml", 1, 1, "unreadable"),
        ]
    );
    let mut keys: Vec<&String> = found[0].as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["code", "column", "file", "hint", "line", "message", "severity"]);
    assert_eq!(
        (&found[0]["severity"], &found[0]["hint"]),
        (&"error".into(), &"did you mean `timeout`?".into())
    );
    assert!(found[2]["hint"].is_null());
    // For people the path stays as it was written.
    let text = world.omg(&["lint", "./bad.yaml"]).expect(2).stderr;
    assert!(text.contains("--> ./bad.yaml:2:25") && text.ends_with("1 problem\n"), "{text}");
}

#[test]
fn a_warning_is_told_and_is_no_failure() {
    let world = World::bare();
    let (good, odd) = (world.repo().join("good.yaml"), world.repo().join("odd.yaml"));
    fs::write(&good, GOOD).unwrap();
    fs::write(&odd, ODD).unwrap();
    let ended = world.omg(&["lint", "good.yaml", "odd.yaml"]).expect(0);
    assert_eq!(ended.stdout, "good.yaml, odd.yaml: no problems, 1 warning\n");
    assert!(ended.stderr.starts_with("warning: a command does not heed `model`"), "{}", ended.stderr);
    let found = problems(&world, &["odd.yaml"], 0);
    assert_eq!((found.len(), &found[0]["severity"]), (1, &"warning".into()));
    assert!(problems(&world, &["good.yaml"], 0).is_empty());
}

#[test]
fn what_is_no_file_is_refused_at_once_by_every_command_that_reads_one() {
    let world = World::bare();
    world.shell("mkfifo pipe.yaml && mkdir folder.yaml && mkdir fragments && mkfifo fragments/f.yaml");
    world.shell("printf 'name: x\\nnodes: [{id: a, use: f}]\\n' > cites.yaml");
    world.shell("truncate -s 8388609 large.yaml && truncate -s 1T huge.yaml");
    for (path, words) in [
        ("pipe.yaml", "this is a pipe, not a file"),
        ("folder.yaml", "this is a folder, not a file"),
        ("/dev/zero", "this is a device, not a file"),
        ("nowhere.yaml", "no such file"),
        ("cites.yaml", "fragments/f.yaml:1:1"),
        ("large.yaml", "8388609 bytes; a graph may have 8388608"),
        ("huge.yaml", "1099511627776 bytes"),
    ] {
        for command in [vec!["lint", path], vec!["run", path]] {
            let ended = world.omg(&command).expect(2);
            assert!(ended.stderr.contains(words), "{command:?}: {}", ended.stderr);
        }
    }
    assert!(!world.home().exists());
}

#[test]
fn of_very_many_problems_some_are_shown_and_all_are_in_json() {
    let world = World::bare();
    let nodes = |name: &str| -> String {
        (0..5_000)
            .map(|at| {
                let odd = if at < 100 { ", model: m" } else { "" };
                format!("- {{id: n{at}, run: x{odd}, depends_on: [{name}{at}]}}\n")
            })
            .collect()
    };
    world.write("many.yaml", &format!("name: x\nnodes:\n{}", nodes("m")));
    world.write("few.yaml", "name: x\nnodes: []\n");
    let text = world.omg(&["lint", "many.yaml", "few.yaml"]).expect(2).stderr;
    assert_eq!(text.matches("error: ").count(), 51, "errors come before warnings");
    assert!(text.contains("few.yaml:2:8"), "one file does not hide another");
    assert!(text.contains("\nmany.yaml: 5050 more not shown; `omg lint --json` lists them all\n"), "{text}");
    assert!(text.ends_with("\n5001 problems, 100 warnings\n") && text.len() < 20_000, "{text}");
    assert_eq!(problems(&world, &["many.yaml", "few.yaml"], 2).len(), 5_101);
}

/// Returns texts that are made to stop a reader, or to take something over.
fn hostile() -> Vec<(&'static str, String)> {
    let node = |rest: &str| format!("name: x\nnodes:\n- {{id: a, run: x, {rest}}}\n");
    let deep = |open: &str| format!("a: {}\n", open.repeat(100_000));
    let big = "v".repeat(1 << 20);
    let chain: String = (1..4_000)
        .map(|at| {
            let (id, before) = (at, at - 1);
            format!("- {{id: n{id}, prompt: x, depends_on: [n{before}], feedback: {{rerun: n{before}, max: 1}}}}\n")
        })
        .collect();
    let alike: String = (0..2_000)
        .map(|at| format!("- {{id: a-{at}, run: x}}\n- {{id: a_{at}, run: x}}\n- {{id: c{at}, run: x, depends_on: [a-{at}, a_{at}]}}\n"))
        .collect();
    vec![
        ("lists in lists", deep("[")),
        ("maps in maps", deep("{a: ")),
        ("maps in lists", deep("[{")),
        ("blocks in blocks", "- ".repeat(100_000)),
        ("keys of keys", "? ".repeat(100_000)),
        ("anchors of anchors", deep("&a [")),
        ("an open quote", format!("name: \"{}", "x".repeat(1_000_000))),
        ("colons", format!("name{}", ":".repeat(1_000_000))),
        ("a key of a megabyte", node(&format!("? {big} : 1"))),
        ("a value of a megabyte", node(&format!("timeout: {big}, type: {big}"))),
        (
            "a megabyte, again and again",
            format!(
                "x-a: &a {big}\nname: x\nnodes: [{{id: a, run: x, depends_on: [{}]}}]\n",
                vec!["*a"; 100_000].join(",")
            ),
        ),
        (
            "huge numbers",
            node(&format!("retry: {{max: {0}}}, timeout: {0}h, output_max: {0}", "9".repeat(10_000))),
        ),
        ("controls", node("\"\\e]0;title\\a\": 1, \"\\x9b31m\": 2, \"\\u202e\": 3, description: \"\\0\"")),
        ("controls as they are", "name: \u{1b}[2J\nnodes: []\n".into()),
        ("a name of marks", "name: x\n\"\u{202e}\u{2066}\u{200f}\": 1\nnodes: []\n".into()),
        ("breaks in a key", node("\"a\\nerror: b\\n --> c.yaml:1:1\": 1")),
        ("only carriage returns", "name: x\rnodes:\r- {id: a, rn: x}\r".into()),
        ("arcs in a row", format!("name: x\nnodes:\n- {{id: n0, prompt: x}}\n{chain}")),
        ("tokens without end", node(&format!("env: {{A: '{}'}}", "{{ x ".repeat(100_000)))),
        ("tokens in a row", node(&format!("env: {{A: '{}'}}", "{{ x }}".repeat(100_000)))),
        ("variables alike", format!("name: x\nnodes:\n{alike}")),
    ]
}

#[test]
fn nothing_hostile_stops_floods_or_commands() {
    let world = World::bare();
    for (what, text) in hostile() {
        let graph = world.graph(&text);
        for words in [vec!["lint", &graph], vec!["lint", "--json", &graph]] {
            let ended = world.omg(&words);
            assert_eq!(ended.code, Some(2), "{what}: {}", ended.stderr);
            assert!(!ended.stderr.contains("panicked"), "{what}: {}", ended.stderr);
            let bad = ended.text().chars().find(|c| *c != '\n' && commands(*c));
            assert_eq!(bad, None, "{what}");
            assert!(words.len() == 3 || ended.stderr.len() < 50_000, "{what}: {} bytes", ended.stderr.len());
        }
    }
    let ended = world.omg(&["lint", "no\u{1b}[31m\u{202e}where\n.yaml"]).expect(2);
    assert!(!ended.stderr.trim_end().chars().any(|c| c != '\n' && commands(c)), "{:?}", ended.stderr);
}

#[test]
fn words_that_other_readers_take_for_truths_are_names() {
    let world = World::bare();
    world
        .run("name: 0644\nnodes: [{id: on, run: 'echo yes'}, {id: yes, run: 'true', depends_on: [on]}, {id: 'no', run: 'true', depends_on: [yes]}]\n")
        .expect(0);
    assert_eq!(world.result("on"), "yes");
    assert_eq!(world.show()["graph"], "0644");
}
