//! Every problem that a graph author can meet: its text, line and column, and docs/errors.md made of them.
//!
//! A case is `tests/errors/<code>.yaml` or `<code>.<what>.yaml`, read as `graph.yaml` with the fragments
//! in `tests/errors/fragments/`; what is said of it stands beside it as `.txt`. What can't be a small
//! file is made here. `OMG_BLESS=1 cargo test --test errors` writes the texts and the page anew.
#![expect(clippy::disallowed_methods, reason = "reads and writes the corpus of this package")]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use omg::api::lint;
use omg::graph::{Code, Problem, Severity, Trust, commands, load, render, visible};

/// What a file is called in the texts.
const NAME: &str = "graph.yaml";

/// A file, and what is said of it.
struct Case {
    name: String,
    code: Code,
    /// The file as the page shows it: in a fence, or in words.
    shown: String,
    problems: Vec<Problem>,
}

/// Asked when the test runs: checkouts that share a target folder share this binary too.
fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from)
}

fn corpus() -> PathBuf {
    root().join("tests/errors")
}

fn is_blessing() -> bool {
    std::env::var_os("OMG_BLESS").is_some_and(|value| value == "1")
}

#[track_caller]
fn code_of(name: &str) -> Code {
    let word = name.split('.').next().unwrap_or(name);
    let code = Code::ALL.iter().find(|code| code.word() == word);
    *code.unwrap_or_else(|| panic!("tests/errors/{name}: there is no code `{word}`"))
}

/// Returns the problems of a file as `omg lint` finds them, and the fragments that were asked for.
fn problems_of(path: &Path, trust: Trust) -> (Vec<Problem>, BTreeSet<String>) {
    let asked = RefCell::new(BTreeSet::new());
    let fragments = |name: &str| {
        let text = fs::read_to_string(corpus().join(format!("fragments/{name}.yaml"))).ok()?;
        asked.borrow_mut().insert(name.to_string());
        Some(Ok((format!("fragments/{name}.yaml"), text)))
    };
    let problems = match lint::read(path) {
        Ok(source) => match load(NAME, &source.text, &fragments, trust) {
            Ok(loaded) => loaded.warnings,
            Err(problems) => problems,
        },
        Err(problem) => vec![Problem { file: NAME.into(), ..*problem }],
    };
    (problems, asked.into_inner())
}

fn fence(text: &str) -> String {
    let shown: Vec<String> = text.trim_end().lines().map(|line| visible(line).into_owned()).collect();
    format!("```yaml\n{}\n```\n", shown.join("\n"))
}

fn written() -> Vec<Case> {
    let mut names: Vec<String> = fs::read_dir(corpus())
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".yaml")?.to_string()))
        .collect();
    names.sort();
    let case = |name: String| {
        let path = corpus().join(format!("{name}.yaml"));
        let code = code_of(&name);
        let trust = if code == Code::PlannedRefused { Trust::Planned } else { Trust::Reviewed };
        let (problems, fragments) = problems_of(&path, trust);
        let mut shown = fence(&String::from_utf8_lossy(&fs::read(path).unwrap()));
        if trust == Trust::Planned {
            shown = format!("With `--planned`:\n\n{shown}");
        }
        for fragment in fragments {
            let text = fs::read_to_string(corpus().join(format!("fragments/{fragment}.yaml"))).unwrap();
            shown.push_str(&format!("\nwith `fragments/{fragment}.yaml`:\n\n{}", fence(&text)));
        }
        Case { name, code, shown, problems }
    };
    names.into_iter().map(case).collect()
}

/// What is too large for a repository, or no file.
fn made() -> Vec<Case> {
    let folder = tempfile::tempdir().unwrap();
    let case = |code: Code, words: &str, text: String| {
        let path = folder.path().join("made.yaml");
        fs::write(&path, text).unwrap();
        let (problems, _) = problems_of(&path, Trust::Reviewed);
        Case { name: code.word().into(), code, shown: format!("{words}\n"), problems }
    };
    let nodes = |count: usize| format!("name: demo\nnodes: [{}]\n", "1,".repeat(count));
    let point = "{{ with.what }}".repeat(1_000);
    let large =
        format!("name: demo\nnodes: [{{id: a, use: large, with: {{what: {}}}}}]\n", "x".repeat(100_000));
    let fragment =
        format!("fragment: large\ndescription: d\nsubstitutions: [what]\nnode: {{run: '{point}'}}\n");
    let fragments = |name: &str| Some(Ok((format!("fragments/{name}.yaml"), fragment.clone())));
    let more = case(Code::MoreProblems, "A list of 10,003 nodes that are no maps.", nodes(10_003));
    vec![
        Case {
            name: "expansion-too-large".into(),
            code: Code::ExpansionTooLarge,
            shown: "A fragment that names its point a thousand times, bound to 100,000 characters.\n".into(),
            problems: load(NAME, &large, &fragments, Trust::Reviewed).unwrap_err(),
        },
        case(Code::FileTooLarge, "A file of 8 MiB and one byte.", " ".repeat((8 << 20) + 1)),
        Case { problems: more.problems[10_000..].to_vec(), ..more },
        case(Code::TooManyNodes, "A list of 1,000,001 nodes.", nodes(1_000_001)),
        case(
            Code::TooManyValues,
            "A list of 2,500,001 values.",
            format!("x-list: [{}]\n", "1,".repeat(2_500_001)),
        ),
        Case {
            name: "unreadable".into(),
            code: Code::Unreadable,
            shown: "A folder in the place of a file.\n".into(),
            problems: problems_of(folder.path(), Trust::Reviewed).0,
        },
    ]
}

/// Returns every case, made and read once.
fn cases() -> &'static [Case] {
    static CASES: OnceLock<Vec<Case>> = OnceLock::new();
    CASES.get_or_init(read_cases)
}

fn read_cases() -> Vec<Case> {
    let mut cases = written();
    cases.extend(made());
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

/// Returns the page of all cases, without its head.
fn sections(cases: &[Case]) -> String {
    let mut page = String::from("| code | stands for |\n|---|---|\n");
    for code in Code::ALL {
        page.push_str(&format!("| [`{code}`](#{code}) | {} |\n", code.meaning()));
    }
    for code in Code::ALL {
        page.push_str(&format!("\n## `{code}`\n\n{}\n", code.meaning()));
        for case in cases.iter().filter(|case| case.code == *code) {
            let text = render(&case.problems, false);
            page.push_str(&format!("\n{}\n```text\n{}\n```\n", case.shown, text.trim_end()));
        }
    }
    page
}

const MARK: &str = "<!-- what follows is made from tests/errors: OMG_BLESS=1 cargo test --test errors -->\n";

#[test]
fn every_case_says_what_it_is_pinned_to_say_and_the_page_shows_it() {
    let cases = cases();
    let mut wrong = Vec::new();
    let mut check = |path: PathBuf, expected: String| {
        let found = fs::read_to_string(&path).unwrap_or_default();
        if found != expected {
            if is_blessing() {
                fs::write(&path, &expected).unwrap();
            } else {
                wrong.push(format!("{}\n--- is\n{found}\n--- should be\n{expected}", path.display()));
            }
        }
    };
    for case in cases {
        let text = render(&case.problems, false);
        assert!(case.problems.iter().any(|problem| problem.code == case.code), "{}:\n{text}", case.name);
        check(corpus().join(format!("{}.txt", case.name)), text);
    }
    let page = root().join("docs/errors.md");
    let head = fs::read_to_string(&page).unwrap_or_default();
    let head = head.split(MARK).next().unwrap_or_default().to_string();
    check(page, format!("{head}{MARK}\n{}", sections(cases)));
    assert!(
        wrong.is_empty(),
        "the corpus and the program disagree; if the program is right: OMG_BLESS=1 cargo test --test errors\n{}",
        wrong.join("\n\n")
    );
}

#[test]
fn every_code_has_a_case_and_every_text_a_file() {
    let cases = cases();
    let missing: Vec<&Code> =
        Code::ALL.iter().filter(|code| cases.iter().all(|case| case.code != **code)).collect();
    assert!(missing.is_empty(), "add tests/errors/<code>.yaml for {missing:?}");
    for entry in fs::read_dir(corpus()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(stem) = name.strip_suffix(".txt") {
            assert!(cases.iter().any(|case| case.name == stem), "tests/errors/{name} belongs to no case");
        }
    }
    for entry in fs::read_dir(corpus().join("fragments")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let stem = name.trim_end_matches(".yaml");
        let is_cited = |text: &str| text.contains(&format!("use: {stem}"));
        let folders = [corpus(), corpus().join("fragments")];
        let cited = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).any(|entry| {
            fs::read(entry.unwrap().path()).is_ok_and(|text| is_cited(&String::from_utf8_lossy(&text)))
        });
        assert!(cited, "tests/errors/fragments/{name} is cited by nothing");
    }
}

#[test]
fn no_case_commands_the_terminal() {
    for case in cases() {
        let text = render(&case.problems, false);
        let bad = text.chars().find(|c| *c != '\n' && commands(*c));
        assert_eq!(bad, None, "{}:\n{text}", case.name);
        let colored = render(&case.problems, true);
        let stripped: String = colored.split('\u{1b}').map(|part| part.trim_start_matches('[')).collect();
        assert!(!stripped.chars().any(|c| c != '\n' && commands(c)), "{}", case.name);
    }
}

#[test]
fn a_problem_says_one_thing_and_points_into_its_line() {
    for case in written() {
        let path = corpus().join(format!("{}.yaml", case.name));
        let source = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        for problem in case.problems.iter().filter(|problem| problem.file == NAME) {
            let Problem { message, line, column, .. } = problem;
            let shown = format!("{}: {message}", case.name);
            assert!(!message.ends_with('.') && !message.contains('\n'), "{shown}");
            assert!(!message.starts_with(char::is_uppercase), "{shown}");
            let text = source.lines().nth(*line as usize - 1).unwrap_or_default();
            assert!(*column as usize <= text.chars().count() + 1, "{shown}: column {column} of `{text}`");
        }
        let has_errors = case.problems.iter().any(|problem| problem.severity == Severity::Error);
        let is_odd =
            matches!(case.code, Code::AccessWithoutLane | Code::ForAgentsOnly | Code::RetryWithoutMax);
        assert_eq!(has_errors, !is_odd, "{}", case.name);
    }
}
