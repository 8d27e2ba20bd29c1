//! The guide, followed as a newcomer follows it: each page from its top to its bottom, in a home of its own.
//!
//! A page is made into one script for one shell, so that `cd`, variables and jobs last from block to block. What a
//! fenced block means is told by the words after its fence:
//!
//! - `console`: lines that begin with `$ ` are typed, those with `> ` go on with the one before; what stands below
//!   them is what they print. A line `…` stands for any lines, `…` in a line for any text. With `any-order` the
//!   lines may come in any order. `exit=N` is the status of the last command; every other one ends with 0, unless
//!   `$ echo $?` follows and shows it.
//! - `<language> file=NAME`: the file that the text above it names, written to the folder one stands in.
//! - `text`: something to look at, without a command.
//!
//! A block behind `<!-- not run: REASON -->` is not run, and stands in `NOT_RUN`. Ids of runs, commits, times, dates
//! and process ids are put in a common form on both sides. `OMG_BLESS=1` writes what a command prints into the page.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "reads the pages, and acts as their reader would"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Page, first command and reason of each block that is not run.
const NOT_RUN: [(&str, &str, &str); 2] = [
    ("01-install.md", "cargo install --path .", "builds the program and fetches what it is built of"),
    ("08-when-things-go-wrong.md", "omg run release.yaml", "needs a keyboard"),
];

/// Seconds after which a page that does not end is a fault.
const TIMEOUT: &str = "120";

/// The home of the reader, as pages show it.
const HOME: &str = "/home/you";

/// A line of the script's output that begins so ends a command, and tells its status.
const MARK: &str = "\u{1}omg-guide:";

/// Of a fenced block: its place in the page and what it is.
struct Block {
    /// Lines of the page between the fences, from and up to, from 0.
    lines: std::ops::Range<usize>,
    kind: Kind,
}

enum Kind {
    Console { commands: Vec<Typed>, exit: i32, any_order: bool },
    File { name: String, text: String },
    Text,
    NotRun { first: String, reason: String },
}

/// A command as typed, and the lines below it.
struct Typed {
    command: String,
    shown: Vec<String>,
}

struct Page {
    name: String,
    lines: Vec<String>,
    blocks: Vec<Block>,
}

/// What a command came to.
struct Outcome {
    printed: Vec<String>,
    status: i32,
}

/// Asked when the test runs: checkouts that share a target folder share this binary too.
fn folder() -> PathBuf {
    let root = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(root).join("docs/guide")
}

impl Page {
    #[track_caller]
    fn read(name: &str) -> Page {
        let text = fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Page::parse(name, &text)
    }

    #[track_caller]
    fn parse(name: &str, text: &str) -> Page {
        assert!(!text.contains("~~~"), "{name}: fences are made of backquotes");
        let lines: Vec<String> = text.lines().map(str::to_string).collect();
        let mut blocks = Vec::new();
        let mut at = 0;
        while at < lines.len() {
            let Some(info) = lines[at].trim_start().strip_prefix("```") else {
                at += 1;
                continue;
            };
            assert!(lines[at].starts_with("```"), "{name}:{}: a fence begins its line", at + 1);
            let length = lines[at + 1..].iter().position(|line| line == "```");
            let end = at + 1 + length.unwrap_or_else(|| panic!("{name}:{}: the fence is not closed", at + 1));
            let kind = kind(&format!("{name}:{}", at + 1), info, &lines[..at], &lines[at + 1..end]);
            blocks.push(Block { lines: at + 1..end, kind });
            at = end + 1;
        }
        Page { name: name.to_string(), lines, blocks }
    }

    /// Returns the commands that are run, with the line on which their block begins.
    fn typed(&self) -> impl Iterator<Item = (usize, &Typed)> {
        self.blocks.iter().flat_map(|block| {
            let commands: &[Typed] =
                if let Kind::Console { commands, .. } = &block.kind { commands } else { &[] };
            commands.iter().map(move |typed| (block.lines.start, typed))
        })
    }

    /// Returns the page as a script: the status of each command is printed behind it, and handed on to the next.
    fn script(&self) -> String {
        let mut script = String::new();
        for block in &self.blocks {
            match &block.kind {
                Kind::Console { commands, .. } => {
                    for typed in commands {
                        script +=
                            &format!("{}\n__=$?; printf '\\n{MARK}%d\\n' $__; (exit $__)\n", typed.command);
                    }
                }
                Kind::File { name, text } => {
                    script += &format!("cat >{name} <<'END OF FILE'\n{text}END OF FILE\n");
                }
                Kind::Text | Kind::NotRun { .. } => {}
            }
        }
        script
    }
}

#[track_caller]
fn kind(place: &str, info: &str, above: &[String], inside: &[String]) -> Kind {
    let marker = above.iter().rev().find(|line| !line.is_empty());
    let reason = marker.and_then(|line| line.strip_prefix("<!-- not run: ")?.strip_suffix(" -->"));
    let first = inside.iter().find_map(|line| line.strip_prefix("$ "));
    if let Some(reason) = reason {
        let first = first.unwrap_or_default().to_string();
        return Kind::NotRun { first, reason: reason.to_string() };
    }
    let words: Vec<&str> = info.split_whitespace().collect();
    match words[..] {
        ["console", ref attributes @ ..] => console(place, attributes, inside),
        ["text"] => {
            assert!(first.is_none(), "{place}: a command in a block that is not run");
            Kind::Text
        }
        [_, file] => {
            let name =
                file.strip_prefix("file=").unwrap_or_else(|| panic!("{place}: what is `{info}` to mean?"));
            let named = above.iter().any(|line| line.contains(&format!("`{name}`")));
            assert!(named, "{place}: the text above does not say that this is `{name}`");
            Kind::File {
                name: name.to_string(),
                text: inside.iter().map(|line| format!("{line}\n")).collect(),
            }
        }
        _ => panic!("{place}: what is `{info}` to mean?"),
    }
}

#[track_caller]
fn console(place: &str, attributes: &[&str], inside: &[String]) -> Kind {
    let (mut exit, mut any_order) = (0, false);
    for attribute in attributes {
        match attribute.split_once('=') {
            Some(("exit", number)) => exit = number.parse().unwrap(),
            None if *attribute == "any-order" => any_order = true,
            _ => panic!("{place}: what is `{attribute}` to mean?"),
        }
    }
    let mut commands: Vec<Typed> = Vec::new();
    for line in inside {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push(Typed { command: command.to_string(), shown: Vec::new() });
            continue;
        }
        let last = commands.last_mut().unwrap_or_else(|| panic!("{place}: begins without a command"));
        match line.strip_prefix("> ") {
            Some(more) if last.shown.is_empty() => last.command += &format!("\n{more}"),
            _ => last.shown.push(line.clone()),
        }
    }
    assert!(!commands.is_empty(), "{place}: has no command");
    Kind::Console { commands, exit, any_order }
}

/// Does what a page says in a new home, and returns what each command came to.
#[track_caller]
fn follow(page: &Page) -> Vec<Outcome> {
    let world = tempfile::tempdir().unwrap();
    // What tools print is the real path, also where the folder for temporary files is a link.
    let world = (fs::canonicalize(world.path()).unwrap(), world);
    let (home, bin) = (world.0.join("home"), world.0.join("bin"));
    fs::create_dir(&home).unwrap();
    fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_omg"), bin.join("omg")).unwrap();
    fs::write(home.join(".gitconfig"), "[user]\n name = You\n email = you@example.invalid\n").unwrap();
    let script = world.0.join("script");
    fs::write(&script, page.script()).unwrap();
    let system = std::env::var("PATH").unwrap();
    let log = fs::File::create(world.0.join("log")).unwrap();
    let status = Command::new("timeout")
        .args(["--kill-after=5", TIMEOUT, "bash", "--norc", "--noprofile"])
        .arg(&script)
        .env_clear()
        .env("PATH", format!("{}:{system}", bin.display()))
        .env("HOME", &home)
        .env("LC_ALL", "C.UTF-8")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .current_dir(&home)
        .stdin(Stdio::null())
        .stderr(log.try_clone().unwrap())
        .stdout(log)
        .status()
        .unwrap();
    let log = String::from_utf8_lossy(&fs::read(world.0.join("log")).unwrap()).into_owned();
    assert_ne!(status.code(), Some(124), "{} does not end:\n{log}", page.name);
    outcomes(&log.replace(&*home.to_string_lossy(), HOME))
}

/// Cuts what the script printed at its marks.
fn outcomes(log: &str) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let mut printed: Vec<String> = Vec::new();
    for line in log.lines() {
        let Some(status) = line.strip_prefix(MARK) else {
            printed.push(line.trim_end().to_string());
            continue;
        };
        // The mark stands on a line of its own, also behind output that does not end one.
        if printed.last().is_some_and(String::is_empty) {
            printed.pop();
        }
        outcomes.push(Outcome { printed: std::mem::take(&mut printed), status: status.parse().unwrap() });
    }
    outcomes
}

/// What differs from run to run, and its common form.
static FORMS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"\b\d{8}-\d{6}-[0-9a-f]{4}\b", "<run>"),
        (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z?", "<date>"),
        (r"\b\d+\.\d s\b", "<time>"),
        (r#"time="\d+\.\d+""#, "time=<time>"),
        (r#"(_ms"?[:=] ?)\d+"#, "${1}<time>"),
        (r#"(pid"?[: ] ?|start_time"?: ?|section_(start|end):)\d+"#, "${1}<number>"),
        (r"\b[0-9a-f]{7,64}\b", "<hex>"),
        (r" {2,}", "  "),
    ]
    .map(|(pattern, form)| (Regex::new(pattern).unwrap(), form))
    .into()
});

fn common(line: &str) -> String {
    FORMS.iter().fold(line.trim_end().to_string(), |line, (pattern, form)| {
        pattern.replace_all(&line, *form).into_owned()
    })
}

/// Says whether what was printed is what a page shows.
fn agrees(shown: &[String], printed: &[String], any_order: bool) -> bool {
    let mut shown: Vec<String> = shown.iter().map(|line| common(line)).collect();
    let mut printed: Vec<String> = printed.iter().map(|line| common(line)).collect();
    if any_order {
        let all = shown.len();
        shown.retain(|line| line != "…");
        for line in &shown {
            let Some(at) = printed.iter().position(|other| other == line) else { return false };
            printed.remove(at);
        }
        return printed.is_empty() || shown.len() < all;
    }
    let mut pattern = String::new();
    for line in &shown {
        pattern += &match line.as_str() {
            "…" => r"(?:[^\n]*\n)*?".to_string(),
            _ => line.split('…').map(regex::escape).collect::<Vec<_>>().join(r"[^\n]*") + "\n",
        };
    }
    let text: String = printed.iter().map(|line| format!("{line}\n")).collect();
    Regex::new(&format!("^{pattern}$")).unwrap().is_match(&text)
}

/// Writes what was printed into the page, where it shows something else. Ids of runs are numbered in the order in
/// which they come up.
fn bless(page: &Page, outcomes: &[Outcome]) {
    let mut runs: Vec<String> = Vec::new();
    let mut outcomes = outcomes.iter();
    let mut text = String::new();
    let mut from = 0;
    for block in &page.blocks {
        let Kind::Console { commands, any_order, .. } = &block.kind else { continue };
        text += &page.lines[from..block.lines.start].join("\n");
        from = block.lines.end;
        for (typed, outcome) in commands.iter().zip(&mut outcomes) {
            text += &format!("\n$ {}", typed.command.replace('\n', "\n> "));
            let printed = outcome.printed.join("\n");
            let keeps = agrees(&typed.shown, &outcome.printed, *any_order);
            let shown = if keeps { typed.shown.join("\n") } else { printed.clone() };
            // Of both the first id is the same run, and so on.
            let of_page: Vec<(String, String)> = ids(&shown)
                .into_iter()
                .zip(ids(&printed))
                .map(|(shown, real)| (shown, numbered(&mut runs, real)))
                .collect();
            let renamed = ID.replace_all(&shown, |found: &Captures| {
                let known = of_page.iter().find(|(shown, _)| *shown == found[0]);
                known.map_or_else(|| found[0].to_string(), |(_, new)| new.clone())
            });
            if !shown.is_empty() {
                text += &format!("\n{renamed}");
            }
        }
        text += "\n";
    }
    text += &page.lines[from..].join("\n");
    fs::write(folder().join(&page.name), text + "\n").unwrap();
}

/// The id of a run, as it is made of the time.
static ID: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b\d{8}-\d{6}-[0-9a-f]{4}\b").unwrap());

/// Returns each id in a text once, in order.
fn ids(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for id in ID.find_iter(text) {
        if !found.iter().any(|known| known == id.as_str()) {
            found.push(id.as_str().to_string());
        }
    }
    found
}

/// Returns the id by which a page calls this run.
fn numbered(runs: &mut Vec<String>, real: String) -> String {
    let at = runs.iter().position(|known| *known == real).unwrap_or(runs.len());
    if at == runs.len() {
        runs.push(real);
    }
    format!("20261201-09{:02}{:02}-{:04x}", at * 7 / 60, at * 7 % 60, 0x3a1c + at * 0x1b47)
}

#[track_caller]
fn check(name: &str) {
    let page = Page::read(name);
    let outcomes = follow(&page);
    if std::env::var("OMG_BLESS").is_ok() {
        bless(&page, &outcomes);
    }
    judge(&Page::read(name), &outcomes);
}

/// Holds what a page shows against what its commands came to.
#[track_caller]
fn judge(page: &Page, outcomes: &[Outcome]) {
    let name = &page.name;
    let count = page.typed().count();
    assert_eq!(outcomes.len(), count, "{name}: the shell ended before the page did");
    let mut outcomes = outcomes.iter();
    for block in &page.blocks {
        let Kind::Console { commands, exit, any_order } = &block.kind else { continue };
        for (at, typed) in commands.iter().enumerate() {
            let outcome = outcomes.next().unwrap();
            let place = format!("docs/guide/{name}:{}: `{}`", block.lines.start, typed.command);
            let printed = outcome.printed.join("\n");
            let next = commands.get(at + 1).map(|next| next.command.as_str());
            let expected = if next.is_some() { 0 } else { *exit };
            assert!(
                outcome.status == expected || next == Some("echo $?"),
                "{place} ended with {}, not {expected}:\n{printed}",
                outcome.status
            );
            assert!(
                agrees(&typed.shown, &outcome.printed, *any_order),
                "{place} printed\n{printed}\nand the page shows\n{}\n(`OMG_BLESS=1` writes the page anew)",
                typed.shown.join("\n")
            );
        }
    }
}

macro_rules! pages {
    ($($test:ident $name:literal)*) => {
        /// Every page of the guide; each is a test.
        const PAGES: &[&str] = &[$($name),*];
        $(#[test]
        fn $test() {
            check($name);
        })*
    };
}

pages! {
    page_01 "01-install.md"
    page_02 "02-first-graph.md"
    page_03 "03-order-and-failure.md"
    page_04 "04-lanes.md"
    page_05 "05-provisioning.md"
    page_06 "06-results.md"
    page_07 "07-looking.md"
    page_08 "08-when-things-go-wrong.md"
    page_09 "09-side-by-side.md"
    page_10 "10-ci.md"
    page_11 "11-agents.md"
}

#[test]
fn every_page_is_followed_and_listed() {
    let entries = fs::read_dir(folder()).unwrap();
    let mut found: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    found.sort();
    assert_eq!(found, [PAGES, &["README.md"]].concat());
    let index = fs::read_to_string(folder().join("README.md")).unwrap();
    assert!(!index.contains("```"), "commands belong in pages, which are followed");
    let mut from = 0;
    for name in PAGES {
        let at = index[from..].find(&format!("({name})"));
        from += at.unwrap_or_else(|| panic!("docs/guide/README.md does not list {name} in its place"));
        let lines = fs::read_to_string(folder().join(name)).unwrap().lines().count();
        assert!((40..=200).contains(&lines), "{name} has {lines} lines");
    }
}

#[test]
fn what_is_not_run_is_known() {
    let pages: Vec<Page> = PAGES.iter().map(|name| Page::read(name)).collect();
    let mut found = Vec::new();
    for page in &pages {
        for block in &page.blocks {
            if let Kind::NotRun { first, reason } = &block.kind {
                found.push((page.name.as_str(), first.as_str(), reason.as_str()));
            }
        }
        let marked = page.lines.iter().filter(|line| line.contains("not run:")).count();
        let blocks = page.blocks.iter().filter(|block| matches!(block.kind, Kind::NotRun { .. })).count();
        assert_eq!(marked, blocks, "{}: a marker stands before no block", page.name);
    }
    assert_eq!(found, NOT_RUN);
}

#[test]
fn a_page_that_can_not_be_followed_fails() {
    let fails = |text: &str| {
        let follow_it = || {
            let page = Page::parse("page", text);
            judge(&page, &follow(&page));
        };
        std::panic::catch_unwind(follow_it).is_err()
    };
    let console = |info: &str, inside: &str| format!("This is `a.txt`:\n\n```{info}\n{inside}\n```\n");
    for (info, inside, expected) in [
        ("console", "$ echo a\na\n$ (exit 3)\n$ echo $?\n3", false),
        ("console exit=3", "$ (exit 3)", false),
        ("console any-order", "$ printf 'a\\nb'\nb\na", false),
        ("text", "a", false),
        ("txt file=a.txt", "a", false),
        ("console", "$ echo a\nb", true),
        ("console", "$ echo a", true),
        ("console", "$ (exit 3)", true),
        ("console exit=3", "$ (exit 3)\n$ (exit 3)", true),
        ("console", "$ exit 0\n$ echo a\na", true),
        ("console", "echo a", true),
        ("console later", "$ echo a\na", true),
        ("text", "$ echo a", true),
        ("sh", "echo a", true),
        ("", "echo a", true),
        ("txt file=b.txt", "a", true),
    ] {
        assert_eq!(fails(&console(info, inside)), expected, "{info}: {inside}");
    }
    assert!(fails("- in a list\n\n  ```console\n  $ echo a\n  ```\n"));
    assert!(fails("~~~console\n$ echo a\n~~~\n"));
    assert!(fails("```console\n$ echo a\na\n"));
}

#[test]
fn a_page_that_says_something_else_fails() {
    let lines = |text: &str| text.lines().map(str::to_string).collect::<Vec<_>>();
    let printed = lines("run 20260101-101010-abcd in /x\na: passed\nb: passed in 1.2 s");
    for (shown, any_order, expected) in [
        ("run 20270202-202020-0000 in /x\na: passed\nb: passed in 0.1 s", false, true),
        ("run 20270202-202020-0000 in /x\nb: passed in 0.1 s\na: passed", false, false),
        ("a: passed\nb: passed in 0.1 s\nrun 20270202-202020-0000 in /x", true, true),
        ("a: passed\na: passed\nrun 20270202-202020-0000 in /x", true, false),
        ("a: passed\n…", true, true),
        ("…\na: passed\n…", false, true),
        ("…\na: failed\n…", false, false),
        ("run … in /x\na: …\nb: passed in 0.1 s", false, true),
        ("a: passed", false, false),
        ("", false, false),
    ] {
        assert_eq!(agrees(&lines(shown), &printed, any_order), expected, "{shown}");
    }
}
