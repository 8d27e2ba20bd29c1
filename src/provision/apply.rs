//! Carries a [`ProvisionPlan`] out: runs its steps, keeps their log, leaves a receipt.
#![expect(clippy::disallowed_methods, reason = "writes the hook and the log's headings, looks up tools")]

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;

use super::cause::{Cause, cause};
use super::plan::{Hook, ProvisionPlan, Step, StepCommand, fingerprint};
use super::receipt::{self, Receipt, probed, read_files};
use crate::process::client::{end_of, start_of};
use crate::process::environment::Environment;
use crate::process::pauses::{Deadline, Pauses};
use crate::process::protocol::{JobExit, JobSpec, Text};
use crate::process::{JobEnd, JobStart, Spawner};

/// Bytes of a log's tail that are journaled.
const TAIL_MAX: u64 = 4096;
/// Bytes that one provisioning try may write.
const LOG_MAX: u64 = 1 << 28;
/// Time between TERM and KILL: installers roll back on TERM, which takes them a moment (measured).
const GRACE: Duration = Duration::from_secs(10);

/// Installers of git hooks write the configuration that all worktrees share (measured with husky);
/// these tell them not to.
pub const HOOK_INSTALLERS_OFF: [(&str, &str); 5] = [
    ("CAPTAINHOOK_DISABLE", "true"),
    ("HUSKY", "0"),
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
    /// The words before a command line.
    pub shell: Vec<String>,
    /// Longest time of the whole try.
    pub timeout: Duration,
    /// Further files that the fingerprint covers.
    pub inputs: Vec<String>,
    /// The lock for steps that may not run side by side.
    pub cache_lock: PathBuf,
}

impl Site {
    /// Returns where the lane's receipt lies.
    pub fn receipt(&self) -> PathBuf {
        self.folder.join("receipt.json")
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
    /// Why.
    pub cause: Cause,
    /// What happened, for people.
    pub detail: String,
    /// The last of its output.
    pub log_tail: String,
    /// Whether it was ended from outside, not for its own time.
    pub ended_by_us: bool,
}

/// Runs `plan` in a lane and returns its receipt, which is durable.
///
/// `job` names each step's job and is told which one runs, so that it can be ended; where it names
/// none, the act has been ended already and no further step begins. `now` is asked
/// for the time at the start and at the end. Errors: the try that failed; no receipt is left then.
pub async fn apply(
    plan: &ProvisionPlan,
    site: &Site,
    spawner: &dyn Spawner,
    job: &dyn Fn(usize) -> Option<String>,
    now: &dyn Fn() -> Timestamp,
) -> Result<Receipt, Failure> {
    let start = now();
    let harness = |detail: String| Failure {
        cmd: plan.display(),
        exit_code: None,
        cause: Cause::Unknown,
        detail,
        log_tail: String::new(),
        ended_by_us: false,
    };
    fs::create_dir_all(&site.folder).map_err(|error| harness(error.to_string()))?;
    receipt::withdraw(&site.receipt(), &site.git_dir).map_err(|error| harness(error.to_string()))?;
    let ended = || Failure { ended_by_us: true, ..harness("it was ended before it began".into()) };
    let mut spent = Duration::ZERO;
    for (at, step) in plan.steps.iter().enumerate() {
        let _one = match step.one_at_a_time {
            true => Some(lock(site, spawner.pauses(), &|| job(at).is_none()).await.map_err(|unlocked| {
                match unlocked {
                    Unlocked::Ended => ended(),
                    Unlocked::TimeOver => Failure {
                        cause: Cause::Timeout,
                        ..harness("another install held the package cache for too long".into())
                    },
                    Unlocked::Io(error) => harness(error.to_string()),
                }
            })?),
            false => None,
        };
        // Waiting for others takes nothing from its own time.
        let deadline = spawner.pauses().deadline(site.timeout.saturating_sub(spent));
        let Some(job) = job(at) else { return Err(ended()) };
        let begun = tokio::time::Instant::now();
        run_step(step, site, spawner, job, &deadline).await?;
        spent += begun.elapsed();
    }
    let names = probed(&site.inputs);
    let files = read_files(&site.root, &names);
    let made = dependency_folders(&site.root);
    let end = now();
    let receipt = Receipt {
        cmd: plan.display(),
        exit_code: (!plan.steps.is_empty()).then_some(0),
        at: end,
        duration_ms: (end.as_millisecond() - start.as_millisecond()).max(0) as u64,
        fingerprint: fingerprint(plan, &names, &files, &site.root.to_string_lossy()),
        rung: plan.rung,
        reason: plan.reason.clone(),
        inputs: names,
        made,
    };
    receipt::save(&receipt, &site.receipt(), &site.git_dir).map_err(|error| harness(error.to_string()))?;
    Ok(receipt)
}

async fn run_step(
    step: &Step,
    site: &Site,
    spawner: &dyn Spawner,
    job: String,
    deadline: &Deadline,
) -> Result<(), Failure> {
    let failure = |cause: Cause, exit_code: Option<i32>, detail: String| Failure {
        cmd: Some(step.display().to_string()),
        exit_code,
        cause,
        detail,
        log_tail: tail(&site.log()),
        ended_by_us: false,
    };
    if let Some(tool) = step.tool
        && !is_on_path(tool, &site.environment)
    {
        let detail = format!("`{tool}` is not on the PATH, and `{}` needs it", step.display());
        return Err(failure(Cause::ToolMissing, None, detail));
    }
    let argv = argv(step, site).map_err(|error| failure(Cause::Unknown, None, error.to_string()))?;
    let mut environment = site.environment.clone();
    environment.set("OMG_JOB", &job);
    let spec = JobSpec {
        job: job.clone(),
        argv,
        cwd: site.root.clone(),
        environment,
        log: site.log(),
        result: None,
        direct: false,
        record: None,
        output_max: LOG_MAX,
        grace_ms: GRACE.as_millis() as u64,
    };
    let started = spawner.start(spec);
    match start_of(started.started).await {
        JobStart::Started { .. } => {}
        JobStart::NotStarted { reason, disk_full } => {
            let cause = if disk_full { Cause::DiskFull } else { Cause::Unknown };
            return Err(failure(cause, None, format!("`{}` could not be started: {reason}", step.display())));
        }
        JobStart::SupervisorLost => {
            let detail = "its supervisor is gone".to_string();
            return Err(Failure { ended_by_us: true, ..failure(Cause::Killed, None, detail) });
        }
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
    let exit = match end {
        JobEnd::Exited(exit) => exit,
        JobEnd::SupervisorLost => {
            let detail = "its supervisor is gone".to_string();
            return Err(Failure { ended_by_us: true, ..failure(Cause::Killed, None, detail) });
        }
    };
    match judge(step, &exit, timed_out, site) {
        None => Ok(()),
        Some((cause, detail)) => Err(Failure {
            ended_by_us: exit.ended_by_us && !timed_out && !exit.output_overflow,
            ..failure(cause, exit.code, detail)
        }),
    }
}

/// Returns why a step that ended like this failed; `None` where it did not.
fn judge(step: &Step, exit: &JobExit, timed_out: bool, site: &Site) -> Option<(Cause, String)> {
    let line = step.display();
    if timed_out {
        let seconds = site.timeout.as_secs_f64();
        return Some((Cause::Timeout, format!("`{line}` did not end in {seconds} s")));
    }
    if exit.disk_full {
        return Some((Cause::DiskFull, format!("no space for the output of `{line}`")));
    }
    match (exit.code, exit.signal) {
        (Some(0), _) => None,
        (code, signal) => {
            let how = match (code, signal) {
                (Some(code), _) => format!("exit {code}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => "no status".to_string(),
            };
            Some((cause(code, &tail(&site.log()), step.is_opaque()), format!("`{line}` ended with {how}")))
        }
    }
}

fn argv(step: &Step, site: &Site) -> io::Result<Vec<Text>> {
    let line = |shell: &[String], line: &str| {
        shell.iter().map(String::as_str).chain([line]).map(Text::from).collect::<Vec<_>>()
    };
    Ok(match &step.command {
        StepCommand::Line(text) => line(&site.shell, text),
        StepCommand::Ours(text) => line(&["sh".to_string(), "-c".to_string()], text),
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

/// Returns whether a program is found on the `PATH` of `environment`.
pub fn is_on_path(program: &str, environment: &Environment) -> bool {
    let path = environment.get("PATH").unwrap_or(OsStr::new("/usr/bin:/bin"));
    std::env::split_paths(path).any(|folder| {
        fs::metadata(folder.join(program))
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    })
}

/// Returns the last of a log as text, cut at a line start.
pub fn tail(log: &Path) -> String {
    let Ok(bytes) = read_last(log, TAIL_MAX) else { return String::new() };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    match (bytes.len() as u64 >= TAIL_MAX, text.split_once('\n')) {
        (true, Some((_, rest))) => rest.to_string(),
        (true, None) | (false, _) => text,
    }
}

fn read_last(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    use std::io::{Read, Seek, SeekFrom};
    let mut file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the folders at a lane's root that hold nothing but what an install puts there, and can be
/// made again. Any other folder may come to hold what a node makes, so it is never listed.
fn dependency_folders(root: &Path) -> Vec<PathBuf> {
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    let mut found = Vec::new();
    if is_folder(&root.join("node_modules")) {
        found.push(PathBuf::from("node_modules"));
    }
    if is_folder(&root.join(".venv")) && root.join(".venv/pyvenv.cfg").is_file() {
        found.push(PathBuf::from(".venv"));
    }
    found
}

/// How often the lock of a package cache is tried for.
const LOCK_TICK: Duration = Duration::from_millis(50);

/// Why the lock of a package cache was not had.
enum Unlocked {
    /// The act was ended meanwhile.
    Ended,
    /// It took longer than the provisioning may.
    TimeOver,
    /// The lock file can't be used.
    Io(io::Error),
}

/// Waits for the lock of the package caches and holds it until the returned file is dropped.
async fn lock(site: &Site, pauses: &Pauses, ended: &dyn Fn() -> bool) -> Result<fs::File, Unlocked> {
    if let Some(folder) = site.cache_lock.parent() {
        fs::create_dir_all(folder).map_err(Unlocked::Io)?;
    }
    let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&site.cache_lock);
    let file = file.map_err(Unlocked::Io)?;
    let deadline = pauses.deadline(site.timeout);
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
