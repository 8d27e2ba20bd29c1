//! One function per command: arguments → api → lines.
#![expect(clippy::disallowed_methods, reason = "reads logs to print them, and waits for more of them")]

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::args::{Command, LaneAction, LintArgs};
use super::{leg, output, tools};
use crate::api::cancel::Cancelled;
use crate::api::find::Found;
use crate::api::{self, Refusal, exit};
use crate::graph::{Problem, Severity, Trust, visible};
use crate::journal::RunDir;
use crate::settings::Settings;
use crate::view::sentences::sentences;
use crate::view::{json, table};

/// Number of the shape of `lint --json`.
const LINT_SCHEMA: u32 = 1;

/// Runs a command and returns the code to end with.
pub fn run(settings: &Settings, command: Command, verbose: bool) -> Result<i32, Refusal> {
    match command {
        Command::Run(args) => leg::start(settings, *args, verbose),
        Command::Auto(args) => super::auto::auto(settings, *args, verbose),
        Command::Resume(args) => leg::resume(settings, args, verbose),
        Command::Watch { run, json } => leg::watch(settings, run.as_deref(), json, verbose),
        Command::Attach { run } => leg::attach(settings, run.as_deref(), verbose),
        Command::Lint(args) => lint(settings, &args),
        Command::Graph(args) => tools::graph(settings, args),
        Command::Schema => tools::schema(),
        Command::Completions { shell } => {
            output::raw(super::complete::script(shell).as_bytes());
            Ok(exit::OK)
        }
        Command::Man { folder } => tools::man(folder.as_deref()),
        Command::Doctor { graph, json } => tools::doctor(settings, graph.as_deref(), json),
        Command::Runs { json } => {
            let (list, damaged) = api::find::list(settings);
            for message in &damaged {
                output::complain(&format!("note: a run can't be read: {message}"));
            }
            print(json, &list, || table::runs(&list, output::style()))
        }
        Command::Show { run, json } => {
            let view = api::find::run(settings, run.as_deref())?.view()?;
            print(json, &view, || table::run(&view, output::style()))
        }
        Command::Explain { first, second, json } => {
            let told = api::explain::explain(settings, &first, second.as_deref())?;
            print(json, &told, || sentences(&told, output::style()))
        }
        Command::Logs { run, node, follow } => logs(settings, &run, &node, follow),
        Command::Lanes { action: Some(LaneAction::Discard { run, lane }), .. } => {
            let found = api::find::run(settings, Some(&run))?;
            let cleanup = api::lanes::discard(settings, found, &lane)?;
            let note = cleanup.note.unwrap_or_else(|| format!("lane {lane}: removed; nothing was in it"));
            if cleanup.tree == "kept" {
                let hint = "end or move away what stands in the way, then discard again".to_string();
                return Err(Refusal::new(exit::BLOCKED, note, Some(hint)));
            }
            output::result(&note);
            Ok(exit::OK)
        }
        Command::Lanes { action: None, run, json } => {
            let view = api::find::run(settings, run.as_deref())?.view()?;
            print(json, &view.lanes, || table::lanes(&view.lanes, output::style()))
        }
        Command::Cancel { run } => cancel(settings, run.as_deref()),
        Command::Gc(args) => super::gc::run(settings, args),
        Command::Init { file } => {
            api::init::init(&file)?;
            output::result(&format!("wrote {0}\nrun it with `omg run {0}`", file.display()));
            Ok(exit::OK)
        }
    }
}

fn print<T: Serialize>(json: bool, value: &T, lines: impl FnOnce() -> Vec<String>) -> Result<i32, Refusal> {
    if json {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Refusal::new(exit::BUG, error.to_string(), None))?;
        output::result(&json::harmless(&text));
    } else {
        lines().iter().for_each(|line| output::result(line));
    }
    Ok(exit::OK)
}

#[derive(Serialize)]
struct Lint<'a> {
    schema: u32,
    problems: &'a [Problem],
}

fn lint(settings: &Settings, args: &LintArgs) -> Result<i32, Refusal> {
    let trust = if args.planned { Trust::Planned } else { Trust::Reviewed };
    let mut problems = api::lint::lint(&args.graphs, trust);
    let count = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let (wrong, odd) = (count(Severity::Error), count(Severity::Warning));
    let counted = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let odd = if odd == 0 { String::new() } else { format!(", {}", counted(odd, "warning")) };
    if args.json {
        api::lint::absolute(&mut problems, &settings.folder);
        print(true, &Lint { schema: LINT_SCHEMA, problems: &problems }, Vec::new)?;
    } else {
        output::problems(&problems);
        if wrong == 0 {
            let names: Vec<String> = args.graphs.iter().map(|path| path.display().to_string()).collect();
            output::result(&visible(&format!("{}: no problems{odd}", names.join(", "))));
        } else {
            output::complain(&format!("{}{odd}", counted(wrong, "problem")));
        }
    }
    Ok(if wrong == 0 { exit::OK } else { exit::USAGE })
}

fn cancel(settings: &Settings, run: Option<&str>) -> Result<i32, Refusal> {
    let (id, outcome) = api::cancel::cancel(settings, run)?;
    match outcome {
        Cancelled::Stopped(status) => output::result(&format!("run {id} is {}", status.word())),
        Cancelled::NotRunning { ended } => {
            output::result(&format!("run {id} is not running"));
            for name in ended {
                output::result(&format!("ended what it had left running: {name}"));
            }
        }
    }
    Ok(exit::OK)
}

/// How often a followed log is looked at.
const FOLLOW_TICK: std::time::Duration = std::time::Duration::from_millis(50);

fn logs(settings: &Settings, run: &str, node: &str, follow: bool) -> Result<i32, Refusal> {
    let found = api::find::run(settings, Some(run))?;
    let graph = &found.file.graph;
    let ix = found.node(node)?;
    let id = graph.node(ix).id.clone();
    let mut shown: Option<(PathBuf, u64)> = None;
    loop {
        let over = is_over(&found, ix)?;
        let last = last_attempt(&found.dir, &id);
        if let Some(log) = last {
            let from = shown.as_ref().filter(|(path, _)| *path == log).map_or(0, |(_, length)| *length);
            let length = copy_from(&log, from)?;
            shown = Some((log, length));
        }
        if !follow || over {
            break;
        }
        std::thread::sleep(FOLLOW_TICK);
    }
    if shown.is_none() {
        output::complain(&format!("node {node} has no log: it has not begun"));
        if let Some(lane) = graph.node(ix).lane {
            let folder = found.dir.lane(&graph.lane(lane).name);
            output::complain(&format!("what its lane's provisioning said is in {}", folder.display()));
        }
    }
    Ok(exit::OK)
}

fn is_over(found: &Found, ix: crate::ids::NodeIx) -> Result<bool, Refusal> {
    let view = found.view()?;
    let state = view.nodes[ix.at()].state;
    Ok(!matches!(state, "running" | "ready" | "waiting")
        || view.status != crate::schedule::fact::RunStatus::Running)
}

fn last_attempt(dir: &RunDir, id: &crate::ids::NodeId) -> Option<PathBuf> {
    let mut last = None;
    for attempt in 1.. {
        let log = dir.attempt_log(id, attempt);
        if !log.is_file() {
            break;
        }
        last = Some(log);
    }
    last
}

/// Prints a log from a place on and returns where it ends now.
fn copy_from(log: &Path, from: u64) -> Result<u64, Refusal> {
    let io = |error: std::io::Error| Refusal::new(exit::BLOCKED, format!("{}: {error}", log.display()), None);
    let mut file = std::fs::File::open(log).map_err(io)?;
    file.seek(SeekFrom::Start(from)).map_err(io)?;
    let mut at = from;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = file.read(&mut buffer).map_err(io)?;
        if read == 0 || !output::raw(&buffer[..read]) {
            return Ok(at);
        }
        at += read as u64;
    }
}
