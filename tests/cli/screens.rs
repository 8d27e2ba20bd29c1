//! What people see: on terminals of several sizes, with and without colours, in a pipe and in CI.
//!
//! The screens are files in `tests/cli/screens`; `OMG_BLESS=1` writes them anew. Times and places in them are
//! put in a common form.

use std::path::PathBuf;

use regex::Regex;
use rustix::process::{Signal, kill_process};

use crate::support::World;
use crate::terminal::Terminal;

/// One node of each kind that a screen can show, and a file that lets the long ones end.
fn graph(world: &World) -> String {
    let until =
        |go: &str| format!("while ! test -e {}; do sleep 0.02; done", world.path().join(go).display());
    let (first, second) = (until("go-1"), until("go-2"));
    world.graph(&format!(
        "name: sample\nconcurrency: 4\non_fail: continue\nnodes:\n\
         - {{id: quick, run: 'true'}}\n\
         - {{id: broken, run: 'echo one; echo two; exit 3', depends_on: [quick]}}\n\
         - {{id: long-build, run: '{first}', depends_on: [quick]}}\n\
         - {{id: again, run: 'exit 1', retry: {{max: 1, backoff: 1h}}, depends_on: [{{id: broken, on: finished}}]}}\n\
         - {{id: unpack, run: '{second}', depends_on: [quick]}}\n\
         - {{id: needs-broken, run: 'true', depends_on: [broken]}}\n\
         - {{id: last, run: 'true', depends_on: [long-build, unpack]}}\n"
    ))
}

/// Lets the long nodes end, one after the other.
fn go(world: &World) {
    std::fs::write(world.path().join("go-1"), "").unwrap();
    world.wait_for("the end of the first", || {
        let ended = world.events_named("node.finished");
        ended.iter().any(|event| event["node"] == "long-build")
    });
    std::fs::write(world.path().join("go-2"), "").unwrap();
}

/// Times, ids and places as every machine and moment has them.
fn common(world: &World, text: &str) -> String {
    let text = text.replace(&*world.path().to_string_lossy(), "/W");
    let text = Regex::new(r"\d+\.\d s").unwrap().replace_all(&text, "#.# s");
    let text = Regex::new(r"\d+ min \d+ s").unwrap().replace_all(&text, "# min # s");
    let text = Regex::new(r"\b\d+:\d\d\b").unwrap().replace_all(&text, "#:##");
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n") + "\n"
}

#[track_caller]
fn matches_file(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cli/screens").join(name);
    if std::env::var("OMG_BLESS").is_ok() {
        std::fs::write(&path, text).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{name} is not as it was; `OMG_BLESS=1` writes it anew. It is now:\n{text}");
}

/// A command of the world's on a terminal.
fn on_terminal(world: &World, words: &[&str], size: (u16, u16), variables: &[(&str, &str)]) -> Terminal {
    let mut command = world.command(env!("CARGO_BIN_EXE_omg"));
    command.env("TERM", "xterm-256color").envs(variables.iter().copied()).args(words);
    Terminal::start(command, size)
}

/// The moment at which only the two long nodes and the paused one are left.
fn is_settled(text: &str) -> bool {
    text.contains("3/7 over") && text.contains("again: again in")
}

#[track_caller]
fn check(name: &str, size: (u16, u16), variables: &[(&str, &str)]) {
    let world = World::bare();
    let graph = graph(&world);
    let mut terminal = on_terminal(&world, &["run", &graph, "--run-id", "r1"], size, variables);
    let text = terminal
        .wait_text("the middle of the run", |text| is_settled(text) && text.contains("unpack: running"));
    matches_file(&format!("{name}-middle.txt"), &common(&world, &text));
    let coloured = terminal.raw().contains("\u{1b}[31m");
    assert_eq!(coloured, !variables.iter().any(|(variable, _)| *variable == "NO_COLOR"));
    go(&world);
    terminal.wait_text("the end of the long nodes", |text| text.contains("last: passed"));
    kill_process(terminal.pid(), Signal::INT).unwrap();
    assert_eq!(terminal.wait().code(), Some(130));
    matches_file(&format!("{name}-end.txt"), &common(&world, &terminal.text()));
}

#[test]
fn a_small_terminal() {
    check("80x24", (80, 24), &[]);
}

/// Returns a fenced block of a document: the first that begins with `first`.
#[track_caller]
fn block(path: &str, first: &str) -> String {
    let text = std::fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let found = text.split("```").skip(1).step_by(2).find_map(|block| {
        let (_, body) = block.split_once('\n')?;
        body.starts_with(first).then(|| body.to_string())
    });
    found.unwrap_or_else(|| panic!("{path} has no block that begins with `{first}`"))
}

/// Runs the graph of a document on a terminal, and compares with the picture of it that the document has.
#[track_caller]
fn check_document(path: &str, graph: &str, nodes_in_progress: &[&str]) {
    let mut world = World::bare();
    world.git("init -q .");
    world.write("agent.sh", "#!/bin/sh\nuntil test -e go; do sleep 0.02; done\n");
    world.shell("chmod +x agent.sh && git add -A && git commit -q -m base");
    world.tool("npm", "true");
    world.extra.push(("OMG_HOME".into(), world.path().join("state").into()));
    let graph = world.graph(&block(path, graph));
    let mut terminal = on_terminal(&world, &["run", &graph, "--run-id", "demo", "-j", "4"], (120, 30), &[]);
    let text = terminal.wait_text("what is in progress", |text| {
        nodes_in_progress.iter().all(|node| text.contains(&format!("  {node}: running")))
    });
    let shown =
        common(&world, &block(path, "run demo in ").replace("/home/you/.local/state/omg", "/W/state"));
    kill_process(terminal.pid(), Signal::INT).unwrap();
    terminal.wait();
    assert_eq!(
        sorted(&shown),
        sorted(&common(&world, &text)),
        "{path} shows something else; it is now:\n{text}"
    );
}

/// Lanes are made side by side: which is told first is left open.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn the_readme_shows_a_terminal() {
    check_document("README.md", "# omg\nname: demo", &["api", "docs"]);
}

#[test]
fn the_guide_shows_a_terminal() {
    check_document("docs/guide/07-looking.md", "name: site", &["build"]);
}

#[test]
fn a_large_terminal() {
    check("200x50", (200, 50), &[]);
}

#[test]
fn a_terminal_without_colours() {
    check("80x24-no-color", (80, 24), &[("NO_COLOR", "1")]);
}

#[track_caller]
fn check_piped(name: &str, words: &[&str], variables: &[(&str, &str)]) {
    let mut world = World::bare();
    for go in ["go-1", "go-2"] {
        std::fs::write(world.path().join(go), "").unwrap();
    }
    let graph = graph(&world);
    let text = std::fs::read_to_string(&graph).unwrap().replace("backoff: 1h", "backoff: 1ms");
    std::fs::write(&graph, text).unwrap();
    world.extra.extend(variables.iter().map(|(name, value)| (name.into(), value.into())));
    let ended = world.omg(&[&["run", &graph, "--run-id", "r1", "-j", "1"], words].concat()).expect(1);
    assert!(!ended.text().contains("\u{1b}[A") && !ended.text().contains("\u{1b}[J"), "{}", ended.text());
    let text = common(&world, &format!("{}{}", ended.stderr, ended.stdout));
    let guard = Regex::new("[0-9a-f]{32}").unwrap().replace_all(&text, "<word>").into_owned();
    let clock = Regex::new(r"section_(start|end):\d+").unwrap().replace_all(&guard, "section_$1:<time>");
    matches_file(name, &clock.replace('\u{1b}', "<esc>").replace('\r', "<cr>"));
}

#[test]
fn a_pipe_gets_plain_lines() {
    check_piped("pipe.txt", &[], &[]);
}

#[test]
fn ci_gets_plain_lines() {
    check_piped("ci.txt", &[], &[("CI", "true"), ("TERM", "xterm")]);
}

#[test]
fn github_gets_folds_and_annotations() {
    let summary = tempfile::NamedTempFile::new().unwrap();
    let path = summary.path().to_string_lossy().into_owned();
    check_piped("github.txt", &["--output", "github"], &[("GITHUB_STEP_SUMMARY", &path)]);
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page.contains("### omg: sample failed"), "{page}");
    assert!(page.contains("| broken | failed | 1 |"), "{page}");
}

#[test]
fn a_node_gives_github_no_commands_through_our_own_words() {
    let world = World::bare();
    let graph = world.graph(
        "name: x\nnodes: [{id: a, run: \"echo '##[add-mask]passed' >&2; echo '::stop-commands::x' >&2; exit 127\"}]\n",
    );
    let ended = world.omg(&["run", &graph, "--run-id", "r1", "--output", "github"]).expect(3);
    let mut fenced: Option<String> = None;
    for line in ended.text().lines() {
        if let Some(word) = line.strip_prefix("::stop-commands::") {
            fenced = Some(format!("::{word}::"));
        } else if fenced.as_deref() == Some(line) {
            fenced = None;
        } else if fenced.is_none() {
            assert!(!line.contains("##["), "{line}");
            let ours = ["::group::", "::endgroup::", "::error file="].iter().any(|own| line.starts_with(own));
            assert!(ours || !line.trim_start().starts_with("::"), "{line}");
        }
    }
    assert_eq!(fenced, None);
}

#[test]
fn gitlab_gets_sections() {
    check_piped("gitlab.txt", &[], &[("GITLAB_CI", "true")]);
}

#[test]
fn a_terminal_that_cannot_move_its_cursor_gets_plain_lines() {
    for variables in [[("TERM", "dumb"), ("X", "")], [("TERM", "xterm"), ("CI", "true")]] {
        let world = World::bare();
        let graph = world.graph("name: x\nnodes: [{id: a, run: 'true'}]\n");
        let mut terminal = on_terminal(&world, &["run", &graph, "--run-id", "r1"], (80, 24), &variables);
        assert_eq!(terminal.wait().code(), Some(0));
        assert!(!terminal.raw().contains("\u{1b}[J"), "{}", terminal.raw());
        assert!(terminal.raw().contains("a: started"), "{}", terminal.raw());
    }
}

#[test]
fn a_terminal_that_changes_its_size_is_not_torn() {
    let world = World::bare();
    let graph = graph(&world);
    let mut terminal = on_terminal(&world, &["run", &graph, "--run-id", "r1"], (120, 40), &[]);
    terminal.wait_text("the middle of the run", is_settled);
    for (columns, rows) in [(40, 12), (30, 10), (100, 30), (20, 5), (80, 24)] {
        terminal.resize(columns, rows);
        let text = terminal.wait_text("the picture in its new size", |text| {
            let over = text.lines().filter(|line| line.contains("3/7 over")).count();
            over >= 1 && text.lines().all(|line| line.chars().count() <= usize::from(columns))
        });
        assert!(text.contains("3/7 over"), "{text}");
    }
    go(&world);
    terminal.wait_text("the end of the long nodes", |text| text.contains("last: passed"));
    kill_process(terminal.pid(), Signal::INT).unwrap();
    terminal.wait();
}

#[test]
fn what_a_node_prints_does_not_move_the_cursor() {
    let world = World::bare();
    let graph = world.graph(
        "name: x\nnodes: [{id: a, run: 'printf \"\\033[2J\\033[1;1Hwiped\\033]0;title\\007\\r\\n\"; exit 1'}]\n",
    );
    let mut terminal = on_terminal(&world, &["run", &graph, "--run-id", "r1"], (80, 24), &[]);
    assert_eq!(terminal.wait().code(), Some(1));
    assert!(terminal.text().contains("  | wiped"), "{}", terminal.text());
    assert!(terminal.text().starts_with("run r1 in "), "{}", terminal.text());
}

#[test]
fn ten_thousand_nodes_leave_a_readable_end() {
    let world = World::bare();
    let nodes: String = (0..2000).map(|n| format!("- {{id: n{n}, run: 'true'}}\n")).collect();
    let graph = world.graph(&format!("name: x\nnodes:\n{nodes}- {{id: bad, run: 'exit 1'}}\n"));
    let words = ["run", &graph, "--run-id", "r1", "--keep-going", "-j", "8"];
    let mut terminal = on_terminal(&world, &words, (80, 24), &[]);
    assert_eq!(terminal.wait().code(), Some(1));
    let text = terminal.text();
    assert!(text.contains("2000 more passed; `omg show r1` lists them"), "{text}");
    assert!(text.contains("omg resume r1 --retry-failed"), "{text}");
}

#[test]
fn a_terminal_that_stands_still_stalls_nobody() {
    let world = World::bare();
    let nodes: String = (0..300).map(|n| format!("- {{id: n{n}, run: 'true'}}\n")).collect();
    let graph = world.graph(&format!("name: x\nnodes:\n{nodes}"));
    // Nobody reads: the pipe is full after a while, and the engine goes on all the same.
    let (_reader, writer) = std::io::pipe().unwrap();
    let mut command = world.command(env!("CARGO_BIN_EXE_omg"));
    command.args(["run", &graph, "--run-id", "r1", "--output", "plain"]).stderr(writer);
    command.env("PADDING", "x").stdout(std::process::Stdio::null());
    rustix::pipe::fcntl_setpipe_size(&_reader, 4096).unwrap();
    let mut child = command.spawn().unwrap();
    drop(command);
    world.wait_for("the end of the run", || {
        world.event_names().last().is_some_and(|name| name == "run.finished")
    });
    drop(_reader);
    assert!(child.wait().unwrap().success());
}

#[test]
fn watch_shows_a_run_of_another_process_to_its_end() {
    let world = World::bare();
    let graph = graph(&world);
    let mut runner = world.start(&["run", &graph, "--run-id", "r1"]);
    world.wait_started("unpack");
    let mut terminal = on_terminal(&world, &["watch", "r1"], (80, 24), &[]);
    terminal.wait_text("what is running", |text| is_settled(text) && text.contains("unpack: running"));
    go(&world);
    terminal.wait_text("the end of the long nodes", |text| text.contains("last: passed"));
    world.omg(&["cancel", "r1"]).expect(0);
    assert_eq!(terminal.wait().code(), Some(143));
    assert!(terminal.text().contains("run r1 cancelled"), "{}", terminal.text());
    assert_eq!(runner.wait().unwrap().code(), Some(143));
    let journal = std::fs::read_to_string(world.run_dir().join("events.jsonl")).unwrap();
    let watched = world.omg(&["watch", "r1", "--json"]).expect(143);
    assert_eq!(watched.stdout, journal);
}

#[test]
fn a_junit_file_says_how_each_node_ended() {
    let world = World::bare();
    let graph = world.graph(
        "name: 'a & b'\non_fail: continue\nnodes:\n\
         - {id: good, run: 'true'}\n\
         - {id: bad, run: 'printf \"<&\\001\\n\"; exit 3'}\n\
         - {id: after, run: 'true', depends_on: [bad]}\n\
         - {id: missing, run: 'no-such-program'}\n",
    );
    let path = world.path().join("reports/junit.xml");
    world.omg(&["run", &graph, "--run-id", "r1", "--junit", &path.display().to_string()]).expect(1);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("<testsuites name=\"a &amp; b\" tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""),
        "{text}"
    );
    assert!(
        text.contains("<failure message=\"exit 3\" type=\"nonzero-exit\">&lt;&amp;\u{fffd}</failure>"),
        "{text}"
    );
    assert!(text.contains("<skipped message=\"needs bad\"></skipped>"), "{text}");
    assert!(text.contains("type=\"command-not-found\""), "{text}");
    // A link is followed, and what is no plain file stays what it is.
    let (link, target) = (world.path().join("link.xml"), world.path().join("target.xml"));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    std::fs::write(&target, "before").unwrap();
    world.omg(&["run", &graph, "--run-id", "r3", "--junit", &link.display().to_string()]).expect(1);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&target).unwrap().contains("<testsuites"));
    let folder = world.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    world.omg(&["run", &graph, "--run-id", "r4", "--junit", &folder.display().to_string()]).expect(1);
    assert!(
        std::fs::read_dir(world.path())
            .unwrap()
            .flatten()
            .all(|entry| { !entry.file_name().to_string_lossy().starts_with("folder.") })
    );
    let blocked = world.omg(&["run", &graph, "--run-id", "r2", "--junit", "/dev/null/x"]).expect(1);
    assert!(blocked.stderr.contains("/dev/null/x"), "{}", blocked.stderr);
}

#[test]
fn what_is_being_installed_is_on_the_screen() {
    let world = World::new();
    let until = format!("while ! test -e {}; do sleep 0.02; done", world.path().join("go-1").display());
    let graph = world.graph(&format!(
        "name: sample\nprovision: '{until}'\nnodes: [{{id: a, worktree: web, run: 'true'}}]\n"
    ));
    let mut terminal = on_terminal(&world, &["run", &graph, "--run-id", "r1"], (200, 30), &[]);
    let row = Regex::new(r"lane web: provisioning \d+\.\d s, `while ! test").unwrap();
    terminal.wait_text("the installation", |text| row.is_match(text));
    std::fs::write(world.path().join("go-1"), "").unwrap();
    assert_eq!(terminal.wait().code(), Some(0));
}
