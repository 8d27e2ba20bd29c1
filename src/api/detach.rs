//! Detached runs: `--detach`, the supervisor that keeps such a run, and the runners that it starts.
#![expect(clippy::disallowed_methods, reason = "asks the supervisor how the start went; opens its log")]

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::leg::{BUILD, Claimed, LegOptions, Link, run_leg};
use super::resume::ready_lanes;
use super::{Refusal, exit};
use crate::ids::{Generation, RunId};
use crate::journal::RunDir;
use crate::journal::replay::replay;
use crate::journal::store;
use crate::process::client;
use crate::process::environment::Environment;
use crate::process::protocol::{Hello, Welcome};
use crate::process::spawn::{own_program, start_keeping};
use crate::process::{supervisor, table};
use crate::run::keep::{RunKeeper, STARTED, SUPERVISOR_LOST, Told, stop_left_open};
use crate::run::leg::{self, Claim};
use crate::run::seams::SystemClock;
use crate::run::{Observer, RunError};
use crate::schedule::fact::StopReason;
use crate::schedule::state::Names;
use crate::settings::Settings;

/// How long a supervisor has for its first runner.
const START_WAIT: Duration = Duration::from_secs(60);

/// What a runner of a detached run is told besides its run and its claim.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Words {
    /// What the user chose for the leg.
    pub options: LegOptions,
}

/// Hands a claimed run to a supervisor that outlives this process and any runner. Returns the first runner's
/// process: it is known to the supervisor, and its receipt is durable.
///
/// Errors: no supervisor or no runner could be had; nothing runs then, and the run can be resumed.
pub fn detach(
    settings: &Settings,
    dir: &RunDir,
    run: &RunId,
    lock: File,
    options: &LegOptions,
    reason: &str,
) -> Result<u32, Refusal> {
    let refused = |why: String| {
        Refusal::new(
            exit::BLOCKED,
            format!("no supervisor could be had for run `{run}`: {why}"),
            Some(format!(
                "nothing of it runs; {} and runner.log in {} may tell more; `omg resume {run}` goes on with it here",
                "supervisor.log",
                dir.root().display()
            )),
        )
    };
    let io = |error: std::io::Error| refused(error.to_string());
    let words = serde_json::to_string(&Words { options: options.clone() })
        .map_err(|error| refused(error.to_string()))?;
    let log = dir.root().join("supervisor.log");
    let log = OpenOptions::new().create(true).append(true).open(log).map_err(io)?;
    let (ours, theirs) = UnixStream::pair().map_err(io)?;
    let words = ["__keep".into(), dir.root().as_os_str().to_owned(), reason.to_string().into(), words.into()];
    let environment = of_keeper(settings);
    start_keeping(&own_program(), &words, dir.root(), (theirs.into(), lock, log), &environment, false)
        .map_err(io)?;
    ours.set_read_timeout(Some(START_WAIT)).map_err(io)?;
    let mut line = String::new();
    BufReader::new(ours).read_line(&mut line).map_err(io)?;
    match serde_json::from_str(&line) {
        Ok(Told::Running { pid }) => Ok(pid),
        Ok(Told::Failed { reason }) => Err(refused(reason)),
        Err(_) => Err(refused("it ended before its runner had begun".into())),
    }
}

/// Returns what a supervisor of a detached run starts with: nothing of it marks a node of another run.
fn of_keeper(settings: &Settings) -> Environment {
    let mut environment = settings.environment.clone();
    for name in ["OMG_RUN_DIR", "OMG_RUN_ID", "OMG_JOB"] {
        environment.remove(name);
    }
    // A runner works in the run's folder, from where a relative one would lead elsewhere.
    environment.set("OMG_HOME", settings.home.as_os_str());
    environment
}

/// Returns the run that is kept in a folder.
fn run_of(folder: &std::path::Path) -> Option<(RunDir, RunId)> {
    let run = RunId::parse(folder.file_name()?.to_str()?)?;
    let home = folder.parent()?.parent()?;
    Some((RunDir::new(home, &run), run))
}

/// Keeps the run in `folder` until it is over or given up: the hidden subcommand that [`detach`] starts. Standard
/// input leads to who detached the run, standard output is the run's lock.
///
/// Errors: it could not be set up, or its journal can't be written.
pub fn keep(
    folder: &std::path::Path,
    reason: &str,
    words: String,
    environment: Environment,
) -> std::io::Result<()> {
    let (dir, run) = run_of(folder).ok_or(std::io::ErrorKind::InvalidInput)?;
    let tell = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let lock = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let later = later(&words).unwrap_or_else(|| words.clone());
    let reason = if reason == SUPERVISOR_LOST { SUPERVISOR_LOST } else { STARTED };
    let keeper = RunKeeper::new(dir, run, lock, BUILD, Box::new(SystemClock), (reason, words, later), tell)?;
    supervisor::keep(folder, Box::new(keeper), environment)
}

/// Returns what a runner is told that takes a dead one's place: what was opened again is open.
fn later(words: &str) -> Option<String> {
    let mut words: Words = serde_json::from_str(words).ok()?;
    (words.options.retry_failed, words.options.retry_blocked) = (false, false);
    serde_json::to_string(&words).ok()
}

/// Runs a leg of the detached run in `folder`: the hidden subcommand that its supervisor starts. Standard input
/// leads to the supervisor, standard output is the run's lock. Returns the code to end with.
///
/// Errors: the leg can't begin or go on; nobody is started in its place then.
pub fn runner(
    settings: &Settings,
    folder: &std::path::Path,
    generation: Generation,
    words: &str,
    observer: impl FnOnce(&crate::journal::RunFile, &RunDir, &[crate::journal::Record]) -> Rc<dyn Observer>,
) -> Result<i32, Refusal> {
    let usage = || Refusal::new(exit::BUG, "a runner was started with words that it does not know", None);
    let (dir, run) = run_of(folder).ok_or_else(usage)?;
    let words: Words = serde_json::from_str(words).map_err(|_| usage())?;
    let io = |source| Refusal::from(RunError::Io { path: dir.root().into(), source });
    let mut stream = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(io)?);
    let lock = File::from(std::io::stdout().as_fd().try_clone_to_owned().map_err(io)?);
    // From here on what is printed goes to the log.
    rustix::stdio::dup2_stdout(std::io::stderr().as_fd()).map_err(|error| io(error.into()))?;
    let claim = Claim::handed(lock, generation);
    let pid = std::process::id();
    let hello = Hello {
        run_id: run.to_string(),
        generation: generation.0,
        build: BUILD.into(),
        pid,
        start_time: table::start_time(pid).unwrap_or(0),
    };
    // At once: what comes before a leg can take long.
    let welcome = client::greet(&mut stream, &hello).map_err(io)?;
    let mut line = stream.try_clone().map_err(io)?;
    let ended = kept_leg(settings, &dir, &run, claim, (stream, welcome), words.options, observer);
    if ended.is_err() {
        // What stands in its way would stand in the next one's too.
        client::say_goodbye(&mut line);
    }
    ended
}

/// Runs the leg of a runner that is known.
fn kept_leg(
    settings: &Settings,
    dir: &RunDir,
    run: &RunId,
    claim: Claim,
    (stream, welcome): (UnixStream, Welcome),
    options: LegOptions,
    observer: impl FnOnce(&crate::journal::RunFile, &RunDir, &[crate::journal::Record]) -> Rc<dyn Observer>,
) -> Result<i32, Refusal> {
    let io = |source| Refusal::from(RunError::Io { path: dir.root().into(), source });
    let file = leg::load(dir)?;
    let records = store::read(&dir.events()).map_err(RunError::from)?;
    let kept = claim.share().map_err(io)?;
    let names = Names::of(&file.graph);
    let state = replay(&file.graph, &names, &records)
        .map_err(|(seq, error)| RunError::Unfit { seq, reason: error.to_string() })?;
    let told = observer(&file, dir, &records);
    let (repository, space) =
        ready_lanes(settings, &file, dir, &state, &options, &mut |note| told.warn(note))?;
    // Who was to stop, and died before it had, is followed by one that stops.
    let link = Link::Handed { stream, welcome, stop: stop_left_open(&records) };
    let claimed = Claimed { file, dir: dir.clone(), claim, repository, space, link };
    let ended = run_leg(settings, claimed, &options, told)?;
    if ended.stop == Some(StopReason::SupervisorLost) {
        // Its nodes died with it. Another one goes on.
        let options = LegOptions { retry_failed: false, retry_blocked: false, ..options };
        detach(settings, dir, run, kept, &options, SUPERVISOR_LOST)?;
    }
    Ok(ended.exit)
}
