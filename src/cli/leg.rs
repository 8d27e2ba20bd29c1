//! The commands that show a leg as it goes: `run`, `resume`, `watch`.
#![expect(clippy::disallowed_methods, reason = "writes the file that `--junit` names")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;

use super::args::{LegArgs, ResumeArgs, RunArgs};
use super::output;
use super::presentation::{Presentation, choose};
use super::teller::{Known, Teller, tail};
use crate::api::amend::AmendRequest;
use crate::api::leg_options::{Ended, GateChoice, LegOptions, mask, now};
use crate::api::resume::{Prepared, ResumeRequest, Resumed, Say};
use crate::api::start::RunRequest;
use crate::api::{self, Refusal, exit};
use crate::ids::NodeId;
use crate::journal::mask::Mask;
use crate::journal::{Record, RunDir, RunFile};
use crate::schedule::state::Limited;
use crate::settings::Settings;
use crate::view::ci::{self, Spot};
use crate::view::junit::junit;
use crate::view::live::Live;
use crate::view::style::printable;
use crate::view::{RunView, table};

/// Returns how a leg is shown.
pub fn presentation(settings: &Settings, args: &LegArgs, verbose: bool) -> Presentation {
    let mode = args.output.map(Into::into).or(settings.variables.output).or(settings.file.output);
    choose(mode.unwrap_or_default(), output::is_terminal(), verbose, &settings.environment)
}

/// Returns what the flags of a leg ask for.
pub fn leg_options(args: &LegArgs, retry_failed: bool, retry_blocked: bool) -> LegOptions {
    let approved = |gate: &String| GateChoice { gate: gate.clone(), approved: true, note: None };
    LegOptions {
        concurrency: args.concurrency,
        keep_going: args.keep_going,
        provision_when: args.provision_when.map(Into::into),
        retry_failed,
        retry_blocked,
        gates: args.approve.iter().map(approved).collect(),
        wait: args.wait,
    }
}

fn teller(
    settings: &Settings,
    file: &RunFile,
    dir: &RunDir,
    presentation: Presentation,
    earlier: &[Record],
) -> Rc<Teller> {
    let mut live = Live::new(&file.graph);
    earlier.iter().for_each(|record| live.apply(record));
    let github = presentation == Presentation::Github;
    let summary = settings.environment.get("GITHUB_STEP_SUMMARY").filter(|path| github && !path.is_empty());
    Rc::new(Teller::start(Known {
        presentation,
        dir: dir.clone(),
        mask: mask(settings, file),
        live,
        spots: spots(settings, file),
        summary: summary.map(Into::into),
    }))
}

/// Returns where each node stands, its file named as a CI system names files.
fn spots(settings: &Settings, file: &RunFile) -> BTreeMap<NodeId, Spot> {
    let checkout = settings.environment.get("GITHUB_WORKSPACE").map_or(settings.folder.as_path(), Path::new);
    let path = file.graph_path.strip_prefix(checkout).unwrap_or(&file.graph_path);
    let name = path.to_string_lossy().into_owned();
    let spot = |line| Spot { file: name.clone(), line };
    file.graph.nodes().iter().map(|node| (node.id.clone(), spot(node.line))).collect()
}

/// `omg run`.
pub fn start(settings: &Settings, args: RunArgs, verbose: bool) -> Result<i32, Refusal> {
    let presentation = presentation(settings, &args.leg, verbose);
    let options = leg_options(&args.leg, false, false);
    let junit = args.leg.junit;
    let request = RunRequest {
        graph: args.graph,
        inputs: args.inputs,
        run_id: args.run_id,
        base: args.base,
        selection: args.select.into(),
        planned: args.planned,
        pass_env: args.pass_env,
        worktree_root: args.worktree_root,
        gates: options.gates.clone(),
        runtime: None,
    };
    let prepared = api::start::prepare(settings, &request)?;
    let shown = Shown { presentation, junit };
    if !args.dry_run {
        return claim_and_run(settings, prepared, &options, &shown, args.detach, |_| Ok(()));
    }
    say_before(&prepared);
    let lines = api::plan::describe(settings, &prepared)?;
    lines.iter().for_each(|line| output::result(line));
    match &prepared.shortage {
        Some(complaint) => {
            Err(Refusal::new(exit::BLOCKED, complaint.message.clone(), complaint.hint.clone()))
        }
        None => Ok(exit::OK),
    }
}

/// How a leg is shown, and what is written of its end.
#[derive(Clone, Debug)]
pub struct Shown {
    /// How.
    pub presentation: Presentation,
    /// The file that `--junit` names.
    pub junit: Option<std::path::PathBuf>,
}

fn say_before(prepared: &api::start::Prepared) {
    output::problems(&prepared.warnings);
    for note in &prepared.notes {
        output::complain(&format!("note: {note}"));
    }
}

/// Makes a prepared run and runs its first leg; `made` is called when its folder is there.
pub fn claim_and_run(
    settings: &Settings,
    prepared: api::start::Prepared,
    options: &LegOptions,
    shown: &Shown,
    is_detached: bool,
    made: impl FnOnce(&RunDir) -> Result<(), Refusal>,
) -> Result<i32, Refusal> {
    let claim = api::start::create(&prepared)?;
    output::complain(&format!("run {} in {}", prepared.file.run_id, prepared.dir.root().display()));
    made(&prepared.dir)?;
    say_before(&prepared);
    let id = prepared.file.run_id.clone();
    if let Some(complaint) = &prepared.shortage {
        let hint = format!(
            "{}; then `omg resume {id}`: nothing of it has begun",
            complaint.hint.clone().unwrap_or_default()
        );
        return Err(Refusal::new(exit::BLOCKED, complaint.message.clone(), Some(hint)));
    }
    if is_detached {
        let pid = api::start::detach(settings, &prepared, claim, options)?;
        return Ok(detached(id.as_str(), pid));
    }
    let Shown { presentation, junit } = shown;
    let teller = teller(settings, &prepared.file, &prepared.dir, *presentation, &[]);
    let ended = api::start::start(settings, prepared, claim, options, Rc::<Teller>::clone(&teller))?;
    let last = Last { teller, ended };
    let Last { teller, ended } = wait_out(settings, id.as_str(), *presentation, options, last)?;
    finish(settings, id.as_str(), *presentation, &teller, junit.as_deref(), ended.exit)
}

/// The last leg of a run so far, and who told of it.
struct Last {
    teller: Rc<Teller>,
    ended: Ended,
}

/// Goes on with a run that a provider's limit paused, each time when that is over, where `--wait` asks for it.
fn wait_out(
    settings: &Settings,
    id: &str,
    presentation: Presentation,
    options: &LegOptions,
    mut last: Last,
) -> Result<Last, Refusal> {
    let options =
        LegOptions { retry_failed: false, retry_blocked: false, gates: Vec::new(), ..options.clone() };
    while options.wait && last.ended.exit == exit::PAUSED {
        let found = api::find::run(settings, Some(id))?;
        let Some(limited) = api::wait::limit(&found, &[])? else { break };
        let at = api::wait::until(&limited, now());
        last.teller.finish();
        say_wait(&limited, at);
        api::wait::sleep_until(&found, at)?;
        let request = ResumeRequest { options: options.clone(), amend: None, dry_run: false };
        let mut say = |what: Say<'_>| {
            if let Say::Note(line) = what {
                output::complain(&format!("{}: {line}", output::style().strong("note")));
            }
        };
        let found = api::find::run(settings, Some(id))?;
        let Prepared::Leg(ready) = api::resume::prepare(settings, found, &request, &mut say)? else { break };
        let teller = teller(settings, &ready.file, &ready.dir, presentation, &ready.records);
        match api::resume::go(settings, *ready, &options, false, Rc::<Teller>::clone(&teller))? {
            Resumed::Leg(ended) => last = Last { teller, ended },
            Resumed::Detached(_) => break,
        }
    }
    Ok(last)
}

fn say_wait(limited: &Limited, at: jiff::Timestamp) {
    output::complain(&format!("waiting for the limit of {} until {}", limited.runtime, clock(at)));
}

/// Returns a moment as people here read it.
fn clock(at: jiff::Timestamp) -> String {
    at.to_zoned_datetime(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}

/// `omg resume`.
pub fn resume(settings: &Settings, args: ResumeArgs, verbose: bool) -> Result<i32, Refusal> {
    let presentation = presentation(settings, &args.leg, verbose);
    let amend = args.graph.map(|graph| AmendRequest {
        graph,
        inputs: args.inputs,
        reopen: args.reopen,
        runtime: None,
    });
    if args.note.is_some() && args.leg.approve.is_empty() && args.reject.is_empty() {
        let hint = "`--approve GATE` or `--reject GATE` says of which";
        let message = "`--note` is what a gate is told, and none is named";
        return Err(Refusal::new(exit::USAGE, message, Some(hint.into())));
    }
    let mut options = leg_options(&args.leg, args.retry_failed, args.retry_blocked);
    options.gates.iter_mut().for_each(|gate| gate.note.clone_from(&args.note));
    options.gates.extend(args.reject.iter().map(|gate| GateChoice {
        gate: gate.clone(),
        approved: false,
        note: args.note.clone(),
    }));
    let request = ResumeRequest { options, amend, dry_run: args.dry_run };
    let found = api::find::run(settings, args.run.as_deref())?;
    let shown = Shown { presentation, junit: args.leg.junit };
    next_leg(settings, found, &request, &shown, args.detach)
}

/// Goes on with a run as asked.
pub fn next_leg(
    settings: &Settings,
    found: api::find::Found,
    request: &ResumeRequest,
    shown: &Shown,
    is_detached: bool,
) -> Result<i32, Refusal> {
    let (presentation, junit) = (shown.presentation, shown.junit.as_deref());
    // Before the limit is over, an attempt would only meet it again.
    if request.options.wait
        && !request.dry_run
        && let Some(limited) = api::wait::limit(&found, &request.options.gates)?
        && limited.resets_at.is_some_and(|at| at > now())
    {
        api::resume::check(settings, &found, request)?;
        let at = api::wait::until(&limited, now());
        say_wait(&limited, at);
        api::wait::sleep_until(&found, at)?;
    }
    output::complain(&format!("run {} in {}", found.file.run_id, found.dir.root().display()));
    if let Some(selected) = found.file.selected() {
        output::complain(&format!("note: {selected}"));
    }
    // What is said here may hold what a file or a node said.
    let fit = |line: &str| {
        let line = printable(line, output::style());
        if presentation == Presentation::Github { ci::github_line(&line) } else { line }
    };
    let mut say = |what: Say<'_>| match what {
        Say::Note(line) => output::complain(&fit(&format!("{}: {line}", output::style().strong("note")))),
        Say::Warnings(warnings) => output::problems(warnings),
    };
    let ready = match api::resume::prepare(settings, found, request, &mut say)? {
        Prepared::Leg(ready) => *ready,
        Prepared::Outlook(lines) => {
            lines.iter().for_each(|line| output::result(&fit(line)));
            return Ok(exit::OK);
        }
        Prepared::NothingToDo { exit, message } => {
            output::complain(&message);
            return Ok(exit);
        }
    };
    ready.outlook.iter().for_each(|line| output::complain(&fit(line)));
    let id = ready.file.run_id.clone();
    let teller = teller(settings, &ready.file, &ready.dir, presentation, &ready.records);
    match api::resume::go(settings, ready, &request.options, is_detached, Rc::<Teller>::clone(&teller))? {
        Resumed::Leg(ended) => {
            let last = Last { teller, ended };
            let Last { teller, ended } =
                wait_out(settings, id.as_str(), presentation, &request.options, last)?;
            finish(settings, id.as_str(), presentation, &teller, junit, ended.exit)
        }
        Resumed::Detached(pid) => {
            teller.finish();
            Ok(detached(id.as_str(), pid))
        }
    }
}

/// Says how to come back to a run that goes on by itself; its id alone goes to standard output.
fn detached(id: &str, pid: u32) -> i32 {
    output::complain(&format!("detached (pid {pid}): `omg attach {id}` looks on, `omg cancel {id}` ends it"));
    output::result(id);
    exit::OK
}

/// A runner of a detached run, which its supervisor started. Returns the code to end with; what goes wrong is in
/// its log.
pub fn kept(run_dir: &Path, generation: crate::ids::Generation, words: &str) -> i32 {
    let outcome = Settings::read().map_err(Refusal::from).and_then(|settings| {
        let told = |file: &RunFile, dir: &RunDir, records: &[Record]| -> Rc<dyn crate::run::Observer> {
            teller(&settings, file, dir, Presentation::Plain, records)
        };
        api::detach::runner(&settings, run_dir, generation, words, told)
    });
    outcome.unwrap_or_else(|refusal| {
        output::refusal(&refusal);
        refusal.exit
    })
}

/// `omg attach`.
pub fn attach(settings: &Settings, run: Option<&str>, verbose: bool) -> Result<i32, Refusal> {
    let found = api::find::run(settings, run)?;
    let id = found.file.run_id.to_string();
    api::watch::say_when_interrupted(format!(
        "detached; run {id} goes on: `omg attach {id}` looks on, `omg cancel {id}` ends it"
    ))?;
    watch(settings, Some(&id), false, verbose)
}

/// `omg watch`.
pub fn watch(settings: &Settings, run: Option<&str>, json: bool, verbose: bool) -> Result<i32, Refusal> {
    let found = api::find::run(settings, run)?;
    let mode = if json { crate::settings::OutputMode::Json } else { Default::default() };
    let presentation = choose(mode, output::is_terminal(), verbose, &settings.environment);
    if !json {
        output::complain(&format!("run {} in {}", found.file.run_id, found.dir.root().display()));
    }
    let teller = teller(settings, &found.file, &found.dir, presentation, &[]);
    let code = api::watch::watch(&found, &*teller)?;
    teller.finish();
    if !json {
        show_end(&found.view()?, presentation);
    }
    Ok(code)
}

/// Shows how a run stands once its leg is over, and returns the code to end with.
fn finish(
    settings: &Settings,
    id: &str,
    presentation: Presentation,
    teller: &Teller,
    junit: Option<&Path>,
    code: i32,
) -> Result<i32, Refusal> {
    teller.finish();
    let found = api::find::run(settings, Some(id))?;
    let view = found.view()?;
    if presentation != Presentation::Json {
        show_end(&view, presentation);
    }
    teller.summarize(&view);
    let Some(path) = junit else { return Ok(code) };
    match write_junit(&settings.folder.join(path), &view, &mask(settings, &found.file)) {
        Ok(()) => Ok(code),
        Err(error) => {
            output::complain(&format!("{}: {}: {error}", output::style().bad("error"), path.display()));
            Ok(if code == exit::OK { exit::BLOCKED } else { code })
        }
    }
}

fn show_end(view: &RunView, presentation: Presentation) {
    output::result("");
    for line in table::end(view, output::style()) {
        // What a node said stands in it too.
        let line = if presentation == Presentation::Github { ci::github_line(&line) } else { line };
        output::result(&line);
    }
}

/// Writes the file beside its place and renames it into it, so that nobody reads half of it; what is no plain
/// file, a pipe or a device, is written to as it is.
fn write_junit(path: &Path, view: &RunView, mask: &Mask) -> std::io::Result<()> {
    let log = |node: &crate::view::NodeView| node.log.as_deref().map(tail).unwrap_or_default().join("\n");
    let text = mask.text(&junit(view, log));
    // Where there is a link, the file behind it is meant.
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if std::fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
        return std::fs::OpenOptions::new().write(true).open(&path)?.write_all(text.as_bytes());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let written = std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, &path));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}
