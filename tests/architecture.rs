//! The shape of the program, checked on its own text: who may touch the world, which folder may know
//! which, and that no test sleeps or is left out. Each failure says what to do.
#![expect(clippy::disallowed_methods, reason = "reads the sources of this package")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which folder of `src/` may use which: itself, what stands here, and what that may use in turn.
/// The picture in ARCHITECTURE.md is drawn from this.
const ARROWS: [(&str, &[&str]); 18] = [
    ("cli", &["api", "settings"]),
    ("api", &["run", "view", "settings"]),
    ("view", &["journal"]),
    ("run", &["journal", "cleanup", "provision", "readiness"]),
    ("journal", &["schedule", "fence", "failpoint"]),
    ("schedule", &["runtime"]),
    ("runtime", &["graph"]),
    ("graph", &["ids", "money"]),
    ("cleanup", &["worktree"]),
    ("provision", &["worktree"]),
    ("readiness", &["worktree"]),
    ("worktree", &["process"]),
    ("process", &["ids", "fence", "failpoint"]),
    ("fence", &["ids"]),
    ("failpoint", &[]),
    ("settings", &[]),
    ("ids", &[]),
    ("money", &[]),
];

/// Uses against the arrows that are meant: folder, what it names, why.
const EXCEPTIONS: [(&str, &str, &str); 3] = [
    ("provision", "graph::model", "`ProvisionChoice` is the graph's own word for what the ladder is asked"),
    ("settings", "graph::model", "`ProvisionWhen` is one closed set in the graph, the variable and the file"),
    ("settings", "process::environment", "what it reads of the environment is handed to every child"),
];

/// The one file that may name the type that starts processes.
const SPAWNER: &str = "src/process/spawn.rs";

#[test]
fn the_list_of_files_that_may_touch_the_world_is_true() {
    let mut expected = String::new();
    for (path, text) in sources("src") {
        let reasons = expectations(&text);
        if !reasons.is_empty() {
            expected += &format!("- `{path}`: {}\n", reasons.join("; "));
        }
    }
    let listed = between(&read("ARCHITECTURE.md"), "<!-- fence:begin -->", "<!-- fence:end -->");
    assert!(
        listed == expected,
        "ARCHITECTURE.md, section \"The fence\", and the sources disagree.\n\
         A file may touch the world (files, time, environment, processes, output) only if it opens with\n\
         `#![expect(clippy::disallowed_..., reason = \"...\")]` and stands in that list with that reason.\n\
         First ask whether the effect belongs in a file that is listed already. If not, this is the list:\n\n\
         {expected}"
    );
}

#[test]
fn one_file_starts_processes() {
    let word = ["process", "Command"].join("::");
    let mut found = Vec::new();
    for (path, text) in sources("src") {
        for line in code_lines(&text) {
            let names = line.text.contains(&word)
                || line.text.contains("process::{") && has_word(line.text, "Command");
            if names && path != SPAWNER {
                found.push(format!("{path}:{}: {}", line.number, line.text.trim()));
            }
        }
    }
    assert!(
        read(SPAWNER).contains("use std::process::{Child, Command, Stdio};"),
        "{SPAWNER} does not import `Command` any more: this check would find nothing"
    );
    assert!(
        found.is_empty(),
        "only {SPAWNER} starts processes; go through it, or through `process::Spawner`:\n{}",
        found.join("\n")
    );
}

#[test]
fn arrows_point_one_way() {
    let allowed = closure();
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for (path, text) in sources("src") {
        let Some(from) = module(&path) else { continue };
        let Some(reach) = allowed.get(from) else {
            panic!("{path}: `{from}` is in no row of ARROWS in tests/architecture.rs; give it one");
        };
        for use_of in uses(&text) {
            let to = use_of.path.split("::").next().unwrap_or_default();
            if to == from || reach.contains(to) {
                continue;
            }
            let exception = EXCEPTIONS.iter().find(|(whose, what, _)| {
                *whose == from && (use_of.path == *what || use_of.path.starts_with(&format!("{what}::")))
            });
            match exception {
                Some((whose, what, _)) => drop(used.insert((*whose, *what))),
                None => wrong
                    .push(format!("{path}:{}: `{from}` may not use `crate::{}`", use_of.line, use_of.path)),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "arrows between the folders of src/ point one way (ARROWS in this file, picture in ARCHITECTURE.md).\n\
         Move what both need to the right, or turn the call round with a trait; an exception needs a reason:\n{}",
        wrong.join("\n")
    );
    for (whose, what, _) in EXCEPTIONS {
        assert!(
            used.contains(&(whose, what)),
            "nothing in src/{whose} uses `crate::{what}` any more: take the exception out of EXCEPTIONS"
        );
    }
}

#[test]
fn paths_into_the_crate_say_so() {
    // `super::super::x` would pass by the check of arrows.
    let way_up = ["super", "super", ""].join("::");
    let mut found = Vec::new();
    for (path, text) in sources("src") {
        let lines = code_lines(&text).filter(|line| line.text.contains(&way_up));
        found.extend(lines.map(|line| format!("{path}:{}: {}", line.number, line.text.trim())));
    }
    assert!(found.is_empty(), "write `crate::` for what is two levels up:\n{}", found.join("\n"));
}

/// Test targets that run and print themselves: their result is a table.
const WITHOUT_LIBTEST: [&str; 2] = ["crash", "repositories"];

#[test]
fn every_test_runs() {
    let manifest = read("Cargo.toml");
    let switches = ["autotests", "autobins", "harness", "test", "doctest"];
    let mut section = String::new();
    for line in manifest.lines().map(|line| line.replace(' ', "")) {
        if line.starts_with('[') || line.starts_with("name=") {
            section = if line.starts_with('[') { line.clone() } else { section + &line };
        }
        let own_main = WITHOUT_LIBTEST.iter().any(|name| section == format!("[[test]]name=\"{name}\""));
        let is_bench = section.starts_with("[[bench]]");
        if (own_main || is_bench) && line == "harness=false" {
            continue;
        }
        let off = switches.iter().any(|switch| line.starts_with(&format!("{switch}=false")));
        assert!(!off, "Cargo.toml says `{line}`: tests would exist and not run");
    }
    let (test, ignore) = (["#[", "test]"].concat(), ["#[", "ignore"].concat());
    let is_test = |text: &str| text.contains(&test) || text.contains("::test]") || text.contains("::test(");
    let mut by_target: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (path, text) in sources("tests") {
        let rest = path.strip_prefix("tests/").unwrap_or(&path);
        let target = rest.split_once('/').map_or(rest, |(folder, _)| folder).to_string();
        by_target.entry(target).or_default().push((path, text));
    }
    for (target, files) in &by_target {
        let has_main = target.ends_with(".rs") || files.iter().any(|(path, _)| path.ends_with("/main.rs"));
        let tests = files.iter().filter(|(_, text)| is_test(text)).count();
        assert!(has_main || tests == 0, "tests/{target} holds tests and no main.rs: cargo never builds it");
        let has_own = WITHOUT_LIBTEST.contains(&target.as_str());
        assert!(!has_own || tests == 0, "tests/{target} has no libtest, so its `#[test]`s never run");
        assert!(!has_main || has_own || tests > 0, "tests/{target} is a test target without a test");
        if has_main {
            assert_all_declared(target, files);
        }
    }
    for (path, text) in sources("tests").into_iter().chain(sources("src")) {
        let left_out = code_lines(&text).find(|line| line.text.contains(&ignore));
        if let Some(line) = left_out {
            panic!("{path}:{}: an ignored test guards nothing; mend it or remove it", line.number);
        }
    }
}

/// Asserts that each file of a test target is part of it: one that nothing declares never runs.
fn assert_all_declared(target: &str, files: &[(String, String)]) {
    let declared = |name: &str| {
        files.iter().any(|(_, text)| {
            code_lines(text).any(|line| {
                let line = line.text.trim();
                line.trim_start_matches("pub ") == format!("mod {name};")
                    || line.starts_with("#[path") && line.contains(&format!("{name}.rs"))
            })
        })
    };
    for (path, _) in files {
        let path = Path::new(path);
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = if stem == "mod" {
            path.parent().and_then(Path::file_name).and_then(|name| name.to_str()).unwrap_or_default()
        } else {
            stem
        };
        let is_root = stem == "main" || target.ends_with(".rs");
        assert!(is_root || declared(name), "{}: no file of its target says `mod {name};`", path.display());
    }
}

#[test]
fn order_never_varies_and_no_test_sleeps() {
    let maps = [["Hash", "Map"].concat(), ["Hash", "Set"].concat()];
    let sleep = ["thread", "sleep"].join("::");
    let mut found = Vec::new();
    for (path, text) in sources("src") {
        for line in code_lines(&text).filter(|line| maps.iter().any(|map| has_word(line.text, map))) {
            found.push(format!("{path}:{}: its order varies; use IndexMap or BTreeMap", line.number));
        }
    }
    for (path, text) in sources("tests").into_iter().filter(|(path, _)| !path.starts_with("tests/fence/")) {
        for line in code_lines(&text).filter(|line| line.text.contains(&sleep)) {
            found.push(format!("{path}:{}: a test waits for an event, never for a time", line.number));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_canary_trips_every_wire() {
    // `.ci/run` lints tests/fence/canary.rs and expects a report on each of its lines that end in
    // `//~`: a path in clippy.toml that no longer resolves would be a wire that nothing trips.
    let canary = read("tests/fence/canary.rs");
    let tripped: Vec<&str> =
        canary.lines().filter_map(|line| line.split_once("//~ ")).map(|(_, path)| path).collect();
    let mut wires = Vec::new();
    for line in read("clippy.toml").lines() {
        // What may be out of reach can't be tripped.
        if let (Some((_, rest)), false) = (line.split_once("path = \""), line.contains("allow-invalid")) {
            wires.push(rest.split('"').next().unwrap_or_default().to_string());
        }
    }
    assert!(wires.len() > 20, "clippy.toml could not be read as this test expects");
    let missing: Vec<&String> = wires.iter().filter(|wire| !tripped.contains(&wire.as_str())).collect();
    assert!(
        missing.is_empty(),
        "add one line for each of these to tests/fence/canary.rs, ending in `//~ PATH`: {missing:?}"
    );
    let stale: Vec<&&str> = tripped.iter().filter(|path| !wires.iter().any(|wire| wire == *path)).collect();
    assert!(stale.is_empty(), "tests/fence/canary.rs names what clippy.toml does not forbid: {stale:?}");
}

#[test]
fn the_map_names_every_file() {
    let map = read("ARCHITECTURE.md");
    let mut missing = Vec::new();
    for (path, _) in sources("src") {
        let rest = path.strip_prefix("src/").unwrap_or(&path);
        let is_tests = rest.ends_with("tests.rs");
        let short = rest.split_once('/').map_or(rest, |(_, file)| file);
        if !is_tests && short != "mod.rs" && short != "fake.rs" && !map.contains(&format!("`{short}`")) {
            missing.push(path);
        }
    }
    assert!(missing.is_empty(), "ARCHITECTURE.md, \"Code map\", has no line for {missing:?}");
}

// How the sources are read: as text, comments left out.

/// Asked when the test runs: checkouts that share a target folder share this binary too.
fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

#[track_caller]
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns every Rust file under `folder` with its path in the package, in order of paths.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut open: Vec<PathBuf> = vec![root().join(folder)];
    let mut found = Vec::new();
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let shown = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
                found.push((shown, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no sources under {folder}");
    found
}

struct Line<'t> {
    number: usize,
    text: &'t str,
}

/// Returns the lines of a file, comments cut off.
fn code_lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    text.lines().enumerate().map(|(at, line)| {
        let code = if line.trim_start().starts_with("//") { "" } else { line };
        Line { number: at + 1, text: code.split(" // ").next().unwrap_or_default() }
    })
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
}

#[track_caller]
fn between(text: &str, begin: &str, end: &str) -> String {
    let inner = text.split_once(begin).and_then(|(_, rest)| rest.split_once(end)).map(|(inner, _)| inner);
    inner.unwrap_or_else(|| panic!("{begin} or {end} is missing")).trim_start().to_string()
}

/// Returns the reasons of a file's expectations that a wire of clippy.toml is tripped.
fn expectations(text: &str) -> Vec<String> {
    let mut reasons = Vec::new();
    for (at, _) in text.match_indices("[expect(") {
        let line_start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        let lead = text[line_start..at].trim();
        let Some((attribute, _)) = text[at..].split_once(")]") else { continue };
        if !matches!(lead, "#" | "#!") || !attribute.contains("clippy::disallowed_") {
            continue;
        }
        let reason = attribute.split_once("reason = \"").and_then(|(_, rest)| rest.rsplit_once('"'));
        reasons.push(reason.map_or("no reason given", |(reason, _)| reason).to_string());
    }
    reasons
}

/// Returns the folder of `src/` that a file belongs to; `None` for the crate's own two.
fn module(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("src/")?;
    let name = rest.split('/').next()?.trim_end_matches(".rs");
    (!matches!(name, "lib" | "main")).then_some(name)
}

fn closure() -> BTreeMap<&'static str, BTreeSet<&'static str>> {
    let direct: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let mut closure = BTreeMap::new();
    for from in direct.keys() {
        let mut reach = BTreeSet::new();
        let mut open = vec![*from];
        while let Some(next) = open.pop() {
            let row = direct.get(next).unwrap_or_else(|| panic!("ARROWS has no row for `{next}`"));
            open.extend(row.iter().filter(|to| reach.insert(**to)));
        }
        assert!(!reach.contains(from), "the arrows of `{from}` lead back to it");
        closure.insert(*from, reach);
    }
    closure
}

#[derive(Debug, PartialEq)]
struct Use {
    line: usize,
    /// What follows `crate::`.
    path: String,
}

/// Returns every path into the crate in a file, groups in braces taken apart.
fn uses(text: &str) -> Vec<Use> {
    let code: String = code_lines(text).map(|line| format!("{}\n", line.text)).collect();
    let mut found = Vec::new();
    for (at, word) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        // `$crate::` in a macro and `some_crate::` are something else.
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + word.len()..];
        for path in heads(rest) {
            found.push(Use { line, path });
        }
    }
    found
}

/// Returns the paths that begin here: one, or each of a group in braces.
fn heads(rest: &str) -> Vec<String> {
    if !rest.starts_with('{') {
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(rest.len());
        return vec![rest[..end].trim_end_matches(':').to_string()];
    }
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for c in rest.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => parts.push(String::new()),
            c if depth == 1 && !c.is_whitespace() => parts.last_mut().unwrap().push(c),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.into_iter().map(|part| part.trim_end_matches(':').to_string()).collect()
}

#[test]
fn the_reading_of_sources_reads() {
    let text = "use crate::{a::{B, C}, d};\n// crate::no\nlet x = crate::e::F::new();\nuse $crate::no;\n";
    let paths: Vec<(usize, String)> = uses(text).into_iter().map(|found| (found.line, found.path)).collect();
    let expected = [(1, "a"), (1, "d"), (3, "e::F::new")].map(|(line, path)| (line, path.to_string()));
    assert_eq!(paths, expected);
    let attribute = "#![expect(\n    clippy::disallowed_methods,\n    reason = \"x (y)\"\n)]\n#[expect(dead_code, reason = \"no\")]";
    assert_eq!(expectations(attribute), ["x (y)"]);
    assert!(has_word("a Command b", "Command") && !has_word("ShortCommand", "Command"));
}
