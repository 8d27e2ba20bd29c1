//! What the documents say, held against the program: graphs load, tables are whole, links lead somewhere.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "reads the documents of this package, and asks the program for its commands"
)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use omg::cleanup::CHANNELS;
use omg::graph::model::RetryCause;
use omg::graph::{Trust, load, render};
use omg::journal::record::{parse, sealed};
use omg::provision::cause::Cause;
use omg::provision::ecosystems::{ECOSYSTEMS, probed_names};
use omg::provision::plan::HOOK_PLACES;
use omg::schedule::fault::{FaultClass, Then};

/// Marks a fenced example that is a whole graph file.
const MARK: &str = "# omg";

/// Asked when the test runs: checkouts that share a target folder share this binary too.
fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

#[track_caller]
fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the files directly in `folder` with this extension, by path in the package.
fn files(folder: &str, extension: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let mut found: Vec<String> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| path.strip_prefix(root()).unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort();
    assert!(!found.is_empty(), "nothing in {folder} ends in .{extension}");
    found
}

fn documents() -> Vec<String> {
    [files("docs", "md"), files("docs/adr", "md"), files("docs/guide", "md"), files(".", "md")].concat()
}

/// Asserts that a graph loads, that nothing about it is odd, and that this program runs all of it.
#[track_caller]
fn assert_clean(name: &str, text: &str, runs: bool) {
    match load(name, text, &|_| None, Trust::Reviewed) {
        Err(problems) => panic!("{}", render(&problems, false)),
        Ok(loaded) => {
            assert!(loaded.warnings.is_empty(), "{}", render(&loaded.warnings, false));
            let later = &loaded.graph.parts().later;
            assert!(!runs || later.is_empty(), "{name} uses what `run` refuses: {later:?}");
        }
    }
}

#[test]
fn every_graph_that_ships_loads_and_can_be_run() {
    for path in files("graphs", "yaml") {
        assert_clean(&path, &read(&path), true);
    }
}

#[test]
fn every_graph_in_the_documents_loads() {
    let mut count = 0;
    for path in documents() {
        let text = read(&path);
        for (at, block) in text.split("```yaml\n").skip(1).enumerate() {
            let block = block.split("\n```").next().unwrap_or_default();
            if block.starts_with(MARK) {
                assert_clean(&format!("{path}, yaml block {}", at + 1), &format!("{block}\n"), false);
                count += 1;
            }
        }
    }
    assert!(count >= 5, "only {count} examples are marked `{MARK}`");
}

/// Returns the cells of each row of the first table whose header begins with `first`.
#[track_caller]
fn table(path: &str, first: &str) -> Vec<Vec<String>> {
    let text = read(path);
    let mut lines = text.lines().skip_while(|line| !line.starts_with(&format!("| {first} |")));
    assert!(lines.next().is_some(), "{path} has no table that begins with `{first}`");
    lines
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_string()).collect())
        .collect()
}

#[test]
fn the_table_of_faults_is_the_programs() {
    let rows = table("docs/faults.md", "class");
    let shown: Vec<[String; 3]> =
        rows.iter().map(|row| [row[0].clone(), row[1].clone(), row[2].clone()]).collect();
    let expected = FaultClass::ALL.map(|class| {
        let policy = class.policy();
        let then = match policy.then {
            Then::Retry(cause) => format!("`retry` for `{}`, else `failed`", cause.word()),
            Then::Redispatch => "again, else `blocked`".to_string(),
            Then::Block => "`blocked`".to_string(),
            Then::Fail => "`failed`".to_string(),
            Then::Pause => "the run is `paused`".to_string(),
            Then::NextLeg => "the next leg".to_string(),
        };
        [format!("`{}`", class.word()), policy.scope.word().to_string(), then]
    });
    assert_eq!(shown, expected, "docs/faults.md: class, scope and what follows, in the order of the code");
}

#[test]
fn closed_sets_are_named_whole() {
    let provisioning = read("docs/provisioning.md");
    let causes = Cause::ALL.map(Cause::word);
    for word in probed_names().into_iter().chain(HOOK_PLACES).chain(causes) {
        assert!(provisioning.contains(&format!("`{word}`")), "docs/provisioning.md does not name `{word}`");
    }
    let covered =
        provisioning.split_once("by their content:").and_then(|(_, rest)| rest.split_once("A copy lies"));
    assert!(
        covered.is_some_and(|(names, _)| !names.contains("&&")),
        "a command stands among the names of files"
    );
    for row in ECOSYSTEMS {
        let (name, line) = (format!("| {} |", row.name), format!("`{}`", row.command));
        assert!(provisioning.contains(&name), "docs/provisioning.md has no row `{name}`");
        assert!(provisioning.contains(&line), "docs/provisioning.md does not give {line}");
    }
    let lanes = read("docs/lanes.md");
    for channel in CHANNELS {
        assert!(
            lanes.contains(&format!("`{channel}`")),
            "docs/lanes.md does not name the channel `{channel}`"
        );
    }
    let verdict = read("src/cleanup/verdict.rs");
    for rest in verdict.split("Reason::").skip(1) {
        let Some((_, code)) = rest.lines().next().and_then(|line| line.split_once("=> \"")) else { continue };
        let code = code.trim_end_matches("\",");
        assert!(lanes.contains(&format!("`{code}`")), "docs/lanes.md does not name the reason `{code}`");
    }
    let graph = read("docs/graph.md");
    for cause in RetryCause::ALL {
        assert!(
            graph.contains(&format!("`{}`", cause.word())),
            "docs/graph.md does not name `{}`",
            cause.word()
        );
    }
}

#[test]
fn the_journal_is_as_shown() {
    let text = read("docs/runs.md");
    let lines: String =
        text.lines().filter(|line| line.starts_with("{\"seq\"")).map(|line| format!("{line}\n")).collect();
    let parsed = parse(lines.as_bytes()).unwrap();
    assert!(parsed.records.len() > 3 && parsed.length == lines.len());
    for (shown, record) in lines.lines().zip(&parsed.records) {
        assert_eq!(sealed(serde_json::to_string(record).unwrap()), shown, "docs/runs.md");
    }
    for rest in read("src/schedule/fact.rs").split("rename = \"").skip(1) {
        let event = rest.split('"').next().unwrap_or_default();
        assert!(text.contains(&format!("`{event}`")), "docs/runs.md does not name the event `{event}`");
    }
}

#[test]
fn variables_are_named_whole() {
    let text = read("docs/runs.md");
    for path in ["src/settings.rs", "src/run/environment.rs"] {
        for rest in read(path).split("\"OMG_").skip(1) {
            let is_part = |c: &char| c.is_ascii_uppercase() || matches!(c, '_' | '{' | '}');
            let name: String = rest.chars().take_while(is_part).collect();
            let of = if name.starts_with("LANE") { "<NAME>" } else { "<ID>" };
            let name = if name.ends_with('_') { name + of } else { name.replace("{}", of) };
            let shown = format!("`OMG_{name}`");
            assert!(text.contains(&shown), "{path} knows {shown}, and docs/runs.md does not");
        }
    }
}

/// Uses everything that is checked and not run.
const LATER: &str = "\
name: later
preflight: {tools: [git]}
on_fault: {}
lanes: {l: {ports: 2}}
nodes:
  - {id: plan, prompt: plan, protect: [a], scope: [b], expect_changes: true}
  - {id: do, prompt: do, worktree: l, depends_on: [plan], on_fault: {}}
";

#[test]
fn commands_are_named_whole() {
    let output = Command::new(env!("CARGO_BIN_EXE_omg")).arg("-h").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.len() > 10, "{help}");
    let rows = table("docs/runs.md", "command");
    let named = |cell: &str, command: &str| {
        cell.split('`')
            .any(|word| word == format!("omg {command}") || word.starts_with(&format!("omg {command} ")))
    };
    let readme = table("README.md", "command");
    for command in commands.into_iter().filter(|command| *command != "help") {
        assert!(rows.iter().any(|row| named(&row[0], command)), "docs/runs.md does not name `omg {command}`");
        assert!(readme.iter().any(|row| named(&row[0], command)), "README.md does not name `omg {command}`");
    }
}

#[test]
fn what_is_not_run_is_named() {
    let text = read("docs/planned.md");
    let loaded = load("later.yaml", LATER, &|_| None, Trust::Reviewed);
    let loaded = loaded.unwrap_or_else(|problems| panic!("{}", render(&problems, false)));
    let later = &loaded.graph.parts().later;
    assert_eq!(later.len(), 7, "{later:?}");
    for found in later {
        assert!(
            text.contains(&found.feature),
            "docs/planned.md does not say that {} is not run",
            found.feature
        );
    }
}

#[test]
fn links_lead_to_files() {
    for path in documents() {
        let folder = root().join(&path).parent().map(PathBuf::from).unwrap_or_default();
        let text = read(&path);
        for rest in text.split("](").skip(1) {
            let target = rest.split(')').next().unwrap_or_default();
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !target.contains("://") {
                assert!(folder.join(file).exists(), "{path} links to {target}, which is not there");
            }
        }
    }
}
