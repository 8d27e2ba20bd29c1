//! Carries the steps of a [`ProvisionPlan`] out, one after the other, and looks at what each has left.
#![expect(clippy::disallowed_methods, reason = "writes the hook, reads logs, asks for locks")]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cause::{Cause, DISK_FULL_BESIDE_SUCCESS, Verdict, verdict, verdict_of_script};
use super::ecosystem::{Alone, Ecosystem, Family};
use super::look::{Hole, Witness, look};
use super::mark::{is_real_below, whole};
use super::plan::{Hook, ProvisionPlan, Step, StepCommand, below};
use super::probe::tool_missing;
use super::receipt::{self, Installed};
use super::tools;
use crate::process::client::{end_of, start_of};
use crate::process::environment::Environment;
use crate::process::pauses::{Deadline, Pauses};
use crate::process::protocol::{JobExit, JobSpec, Text};
use crate::process::{JobEnd, JobStart, Spawner};

/// Bytes of a log's tail that are journaled.
const TAIL_MAX: u64 = 4096;
/// Bytes of a step's output in which a cause is looked for.
const SEARCHED_MAX: u64 = 1 << 20;
/// Bytes that one provisioning try may write.
const LOG_MAX: u64 = 1 << 28;
/// Time between TERM and KILL: installers roll back on TERM, which takes them a moment (measured).
const GRACE: Duration = Duration::from_secs(10);

/// Installers of git hooks write the configuration that all worktrees share (measured with husky);
/// these tell them not to.
pub const HOOK_INSTALLERS_OFF: [(&str, &str); 6] = [
    ("CAPTAINHOOK_DISABLE", "true"),
    ("HUSKY", "0"),
    ("HUSKY_SKIP_INSTALL", "1"),
    ("LEFTHOOK", "0"),
    ("SKIP_INSTALL_SIMPLE_GIT_HOOKS", "1"),
    ("SKIP_SIMPLE_GIT_HOOKS", "1"),
];

/// Where and how a lane is provisioned.
#[derive(Clone, Debug)]
pub struct Site {
    /// The lane's root.
    pub root: PathBuf,
    /// The lane's own git folder.
    pub git_dir: PathBuf,
    /// The lane's folder in the run directory.
    pub folder: PathBuf,
    /// Number of the try, which names its log.
    pub number: u32,
    /// What its processes see.
    pub environment: Environment,
    /// Variables in it that the graph set: no row changes them.
    pub own: BTreeSet<String>,
    /// The words before a command line.
    pub shell: Vec<String>,
    /// Longest time of the whole try.
    pub timeout: Duration,
    /// The lock for steps that damage a cache of the machine's side by side.
    pub cache_lock: PathBuf,
    /// The lock for steps that write the repository's configuration.
    pub repository_lock: PathBuf,
}

impl Site {
    /// Returns where the lane's receipt lies.
    pub fn receipt(&self) -> PathBuf {
        self.folder.join(receipt::NAME)
    }

    /// Returns where this try's output goes.
    pub fn log(&self) -> PathBuf {
        self.folder.join(format!("provision-{}.log", self.number))
    }
}

/// A try that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What was run.
    pub cmd: Option<String>,
    /// Its exit status.
    pub exit_code: Option<i32>,
    /// Why, and whether a repeat may end differently.
    pub verdict: Verdict,
    /// What happened, for people.
    pub detail: String,
    /// The last of its output.
    pub log_tail: String,
    /// Whether it was ended from outside, not for its own time.
    pub ended_by_us: bool,
}

impl Failure {
    /// Returns a failure of which no process is the cause.
    pub fn new(cause: Cause, cmd: Option<String>, detail: impl Into<String>) -> Failure {
        Failure {
            cmd,
            exit_code: None,
            verdict: cause.into(),
            detail: detail.into(),
            log_tail: String::new(),
            ended_by_us: false,
        }
    }

    /// Returns what happened with the way out, where one is known.
    pub fn with_way_out(&self) -> String {
        match self.verdict.cause.hint() {
            Some(hint) => format!("{} ({hint})", self.detail),
            None => self.detail.clone(),
        }
    }
}

/// What steps that all ended well left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// What proves each.
    pub installed: Vec<Installed>,
    /// What a person should know, one line each.
    pub remarks: Vec<String>,
}

/// Returns once `asked` says that the act is to end.
async fn is_asked_to_end(asked: &dyn Fn() -> bool) {
    while !asked() {
        tokio::time::sleep(LOCK_TICK).await;
    }
}

/// Who is told that a step begins, with its command.
pub type Told<'a> = &'a dyn Fn(&str);

/// Runs the steps of `plan` in a lane, and returns what proves that each did its work.
///
/// `job` names each step's job and is told which one runs, so that it can be ended; where it names
/// none, the act has been ended already and no further step begins. `asked` says whether it is to end. Errors: the
/// step that failed.
pub async fn run(
    plan: &ProvisionPlan,
    site: &Site,
    spawner: &dyn Spawner,
    job: &dyn Fn(usize) -> Option<String>,
    asked: &dyn Fn() -> bool,
    told: Told<'_>,
) -> Result<Ran, Failure> {
    let ended = || Failure {
        ended_by_us: true,
        ..Failure::new(Cause::Killed, plan.display(), "it was ended before it began")
    };
    let harness = |detail: String| Failure::new(Cause::Unknown, plan.display(), detail);
    let mut ran = Ran::default();
    let mut spent = Duration::ZERO;
    for (at, step) in plan.steps.iter().enumerate() {
        let place = match step.alone() {
            Alone::No => None,
            Alone::Cache => Some(&site.cache_lock),
            Alone::Repository => Some(&site.repository_lock),
        };
        let _one = match place {
            Some(place) => {
                let waiting = lock(place, site.timeout, spawner.pauses(), asked);
                Some(waiting.await.map_err(|unlocked| match unlocked {
                    Unlocked::Ended => ended(),
                    Unlocked::TimeOver => Failure::new(
                        Cause::Timeout,
                        plan.display(),
                        "another install held its lock for too long",
                    ),
                    Unlocked::Io(error) => harness(format!("{}: {error}", place.display())),
                })?)
            }
            None => None,
        };
        // Waiting for others takes nothing from its own time.
        let deadline = spawner.pauses().deadline(site.timeout.saturating_sub(spent));
        let Some(job) = job(at) else { return Err(ended()) };
        let begun = tokio::time::Instant::now();
        if let Some(done) = done_already(step, site).await {
            ran.installed.push(done);
            continue;
        }
        if let Some(row) = step.row()
            && tools::find(row.tool, &site.environment, &site.root.join(&step.root)).is_none()
        {
            return Err(Failure::new(Cause::ToolMissing, plan.display(), tool_missing(row.tool, plan)));
        }
        told(&step.display());
        let from = fs::metadata(site.log()).map_or(0, |meta| meta.len());
        run_step(step, site, spawner, job, &deadline, from).await?;
        spent += begun.elapsed();
        let output = written(&site.log(), from, SEARCHED_MAX);
        ran.remarks.extend(remarks(step, &output));
        let looking = proved(plan, step, site, &output);
        let proof = tokio::select! {
            biased;
            proof = looking => proof?,
            () = spawner.pauses().wait(&deadline) => {
                let detail = format!("`{}` ended, and a look at what it left did not", step.display());
                return Err(Failure::new(Cause::Timeout, Some(step.display()), detail));
            }
            () = is_asked_to_end(asked) => return Err(ended()),
        };
        ran.installed.push(proof);
    }
    Ok(ran)
}

/// Returns what proves a step whose work is done and not to be done again; `None` where it has to run.
async fn done_already(step: &Step, site: &Site) -> Option<Installed> {
    let row = step.row().filter(|row| row.once)?;
    let place = site.root.join(&step.root);
    let seen = tokio::task::spawn_blocking(move || look_at(row, &place)).await;
    let witnesses = seen.ok()?.ok()?;
    Some(Installed {
        root: step.root.clone(),
        by: step.display(),
        folders: Vec::new(),
        witnesses,
        products: Vec::new(),
    })
}

/// Returns what proves that a step which ended with 0 did its work. Errors: it did not.
async fn proved(plan: &ProvisionPlan, step: &Step, site: &Site, output: &str) -> Result<Installed, Failure> {
    let failure = |cause: Cause, detail: String| Failure {
        exit_code: Some(0),
        log_tail: tail(&site.log()),
        ..Failure::new(cause, Some(step.display()), detail)
    };
    let line = step.display();
    if let Some(said) = DISK_FULL_BESIDE_SUCCESS.iter().find(|text| output.contains(**text)) {
        return Err(failure(Cause::DiskFull, format!("`{line}` ended with 0, and says {said}")));
    }
    let root = site.root.join(&step.root);
    let Some(row) = step.row() else {
        let here = whole(plan).into_iter().filter(|folder| is_real_below(&site.root, Path::new(folder)));
        return Ok(Installed {
            root: String::new(),
            by: line,
            folders: here.collect(),
            witnesses: Vec::new(),
            products: Vec::new(),
        });
    };
    let incomplete = |hole: String| failure(Cause::Incomplete, format!("`{line}` ended with 0, and {hole}"));
    if let Some(mark) = row.mark.filter(|mark| fs::symlink_metadata(root.join(mark)).is_err()) {
        return Err(incomplete(format!("{} is not there", below(&step.root, mark))));
    }
    let place = root.clone();
    let seen =
        tokio::task::spawn_blocking(move || look_at(row, &place).map_err(|hole| hole.to_string())).await;
    let seen = seen.unwrap_or_else(|error| Err(error.to_string()));
    let witnesses = seen.map_err(incomplete)?;
    let folders = row.folders.iter().filter(|folder| is_real_below(&root, Path::new(folder)));
    Ok(Installed {
        root: step.root.clone(),
        by: line,
        folders: folders.map(|folder| folder.to_string()).collect(),
        witnesses,
        products: Vec::new(),
    })
}

/// Bytes of a lockfile below which it names no package: each has a version and more.
const NAMES_NONE: u64 = 64;

/// Returns what proves the work of a row at `root`. A lockfile that names no package leaves nothing to be looked
/// for.
fn look_at(row: &Ecosystem, root: &Path) -> Result<Vec<Witness>, Hole> {
    let is_short = |lock: &str| fs::metadata(root.join(lock)).is_ok_and(|meta| meta.len() < NAMES_NONE);
    if row.family == Family::Node && row.locks.iter().any(|lock| is_short(lock)) {
        return Ok(Vec::new());
    }
    let mut witnesses = look(row.look, root)?;
    if row.family == Family::Node {
        witnesses.extend(programs(root));
    }
    // A name that is no text has no place in a receipt; its neighbours prove as much.
    witnesses.retain(|witness| witness.path.to_str().is_some());
    Ok(witnesses)
}

/// Returns the links by which a lane's nodes call what was installed.
fn programs(root: &Path) -> Vec<Witness> {
    let folder = Path::new("node_modules/.bin");
    let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
    let witness = |entry: fs::DirEntry| {
        let size = entry.path().symlink_metadata().ok()?.len();
        Some(Witness { path: folder.join(entry.file_name()), size })
    };
    entries.filter_map(witness).collect()
}

/// Returns what a step said that a person should know.
fn remarks(step: &Step, output: &str) -> Vec<String> {
    let of_row = step.row().map_or(&[][..], |row| row.remarks);
    of_row
        .iter()
        .filter_map(|(text, advice)| {
            let line = output.lines().find(|line| line.contains(text))?;
            let plain = line.trim_matches(|c: char| !c.is_alphanumeric() && c != '.');
            Some(format!("`{}` says \"{plain}\": {advice}", step.display()))
        })
        .collect()
}

async fn run_step(
    step: &Step,
    site: &Site,
    spawner: &dyn Spawner,
    job: String,
    deadline: &Deadline,
    from: u64,
) -> Result<(), Failure> {
    let failure = |verdict: Verdict, exit_code: Option<i32>, detail: String| Failure {
        cmd: Some(step.display()),
        exit_code,
        verdict,
        detail,
        log_tail: tail(&site.log()),
        ended_by_us: false,
    };
    let argv = argv(step, site).map_err(|error| failure(Cause::Unknown.into(), None, error.to_string()))?;
    let mut environment = environment_of(step, site);
    environment.set("OMG_JOB", &job);
    let spec = JobSpec {
        job: job.clone(),
        argv,
        cwd: site.root.join(&step.root),
        environment,
        stdin: None,
        log: site.log(),
        stdout: None,
        result: None,
        direct: false,
        record: None,
        output_max: LOG_MAX,
        grace_ms: GRACE.as_millis() as u64,
    };
    let lost = || Failure {
        ended_by_us: true,
        ..failure(Cause::Killed.into(), None, "its supervisor is gone".to_string())
    };
    let started = spawner.start(spec);
    match start_of(started.started).await {
        JobStart::Started { .. } => {}
        JobStart::NotStarted { reason, disk_full } => {
            let cause = if disk_full { Cause::DiskFull } else { Cause::Unknown };
            let detail = format!("`{}` could not be started: {reason}", step.display());
            return Err(failure(cause.into(), None, detail));
        }
        JobStart::SupervisorLost => return Err(lost()),
    }
    let mut ended = std::pin::pin!(end_of(started.ended));
    let (end, timed_out) = tokio::select! {
        biased;
        end = ended.as_mut() => (end, false),
        () = spawner.pauses().wait(deadline) => {
            spawner.end(&job, false);
            (ended.await, true)
        }
    };
    let JobEnd::Exited(exit) = end else { return Err(lost()) };
    match judge(step, &exit, timed_out, site, from) {
        None => Ok(()),
        Some((verdict, detail)) => Err(Failure {
            ended_by_us: exit.ended_by_us && !timed_out && !exit.output_overflow,
            ..failure(verdict, exit.code, detail)
        }),
    }
}

/// Returns what a step's processes see: a row's own variables go in where the graph does not say otherwise.
fn environment_of(step: &Step, site: &Site) -> Environment {
    let mut environment = site.environment.clone();
    let Some(row) = step.row() else { return environment };
    for name in row.unset.iter().filter(|name| !site.own.contains(**name)) {
        environment.remove(name);
    }
    for (name, value) in row.set.iter().filter(|(name, _)| !site.own.contains(*name)) {
        environment.set(*name, *value);
    }
    environment
}

/// Returns why a step that ended like this failed; `None` where it did not.
fn judge(step: &Step, exit: &JobExit, timed_out: bool, site: &Site, from: u64) -> Option<(Verdict, String)> {
    let line = step.display();
    if timed_out {
        let seconds = site.timeout.as_secs_f64();
        return Some((Cause::Timeout.into(), format!("`{line}` did not end in {seconds} s")));
    }
    if exit.disk_full {
        return Some((Cause::DiskFull.into(), format!("no space for the output of `{line}`")));
    }
    if exit.output_overflow {
        return Some((Cause::ScriptFailed.into(), format!("`{line}` wrote more than {} MiB", LOG_MAX >> 20)));
    }
    let how = match (exit.code, exit.signal) {
        (Some(0), _) => return None,
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no status".to_string(),
    };
    let output = written(&site.log(), from, SEARCHED_MAX);
    let verdict = match step.row() {
        Some(row) => verdict(exit.code, &output, row.says, false),
        None => verdict_of_script(exit.code, &output, &step.script()),
    };
    Some((verdict, format!("`{line}` ended with {how}")))
}

fn argv(step: &Step, site: &Site) -> io::Result<Vec<Text>> {
    let line = |shell: &[String], line: &str| {
        shell.iter().map(String::as_str).chain([line]).map(Text::from).collect::<Vec<_>>()
    };
    Ok(match &step.command {
        StepCommand::Line(text) => line(&site.shell, text),
        StepCommand::Ours(row) => {
            // A signal that ends it is then seen as one.
            let command =
                if row.command.contains("&&") { row.command.into() } else { format!("exec {}", row.command) };
            line(&["sh".to_string(), "-c".to_string()], &command)
        }
        StepCommand::Hook(hook) => {
            let place = write_hook(hook, &site.folder)?;
            let place = Text::from(place.as_os_str());
            if hook.runs_itself() { vec![place] } else { vec![Text::from("sh"), place] }
        }
    })
}

/// Puts the hook's bytes of the base commit into the run directory: the lane's copy may have been
/// edited by a node, and would then run with our rights.
fn write_hook(hook: &Hook, folder: &Path) -> io::Result<PathBuf> {
    let place = folder.join("hook.sh");
    fs::write(&place, &hook.bytes)?;
    fs::set_permissions(&place, fs::Permissions::from_mode(0o700))?;
    Ok(place)
}

/// Returns the last of a log as text, cut at a line start.
pub fn tail(log: &Path) -> String {
    let text = written(log, 0, TAIL_MAX);
    match (text.len() as u64 >= TAIL_MAX, text.split_once('\n')) {
        (true, Some((_, rest))) => rest.to_string(),
        (true, None) | (false, _) => text,
    }
}

/// Returns what a log holds from byte `from` on, the last `most` bytes of it.
fn written(log: &Path, from: u64, most: u64) -> String {
    use std::io::{Read, Seek, SeekFrom};
    let read = || -> io::Result<Vec<u8>> {
        let mut file = fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(from.max(length.saturating_sub(most))))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// How often the lock of an installer is tried for.
const LOCK_TICK: Duration = Duration::from_millis(50);

/// Why a lock was not had.
enum Unlocked {
    /// The act was ended meanwhile.
    Ended,
    /// It took longer than the provisioning may.
    TimeOver,
    /// The lock file can't be used.
    Io(io::Error),
}

/// Waits for a lock and holds it until the returned file is dropped.
async fn lock(
    place: &Path,
    most: Duration,
    pauses: &Pauses,
    ended: &dyn Fn() -> bool,
) -> Result<fs::File, Unlocked> {
    if let Some(folder) = place.parent() {
        fs::create_dir_all(folder).map_err(Unlocked::Io)?;
    }
    let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(place);
    let file = file.map_err(Unlocked::Io)?;
    let deadline = pauses.deadline(most);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(fs::TryLockError::Error(error)) => return Err(Unlocked::Io(error)),
            Err(fs::TryLockError::WouldBlock) if ended() => return Err(Unlocked::Ended),
            Err(fs::TryLockError::WouldBlock) if pauses.is_over(&deadline) => {
                return Err(Unlocked::TimeOver);
            }
            Err(fs::TryLockError::WouldBlock) => tokio::time::sleep(LOCK_TICK).await,
        }
    }
}
