//! Programs that installs need: where they are, and what versions they have.
#![expect(clippy::disallowed_methods, reason = "looks programs up, reads what they print")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::Mutex;

use super::ecosystem::Ecosystem;
use super::plan::ProvisionPlan;
use crate::process::client::{end_of, start_of};
use crate::process::environment::Environment;
use crate::process::protocol::{JobSpec, Text};
use crate::process::{JobEnd, JobStart, Spawner};

/// Longest time that a program may take to tell its version.
const VERSION_TIME: Duration = Duration::from_secs(10);
/// Bytes of what it prints that count.
const VERSION_BYTES: usize = 500;

/// Versions that were read in this leg. A program is known by its path, inode and time of change, so one
/// that is replaced meanwhile is asked again.
#[derive(Debug, Default)]
pub struct Versions {
    /// Held while one is asked, so that lanes side by side ask once.
    known: Mutex<BTreeMap<Identity, String>>,
}

/// What tells one program from another, and the words that it was asked with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity {
    path: PathBuf,
    inode: u64,
    changed: (i64, i64),
    words: Vec<&'static str>,
}

/// How a program is asked for its version.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    /// Starts it.
    pub spawner: &'a dyn Spawner,
    /// What it sees.
    pub environment: &'a Environment,
    /// Where it runs: what a shim answers depends on it.
    pub folder: &'a Path,
    /// Where what it prints is put.
    pub answers: &'a Path,
    /// Names the job; `None` where the act was ended.
    pub job: &'a dyn Fn(usize) -> Option<String>,
}

impl Versions {
    /// Returns the versions of the programs that the outcome of `plan` depends on. One that can't be told
    /// counts as what was seen instead: it is the change that matters.
    pub async fn of(&self, plan: &ProvisionPlan, asking: &Asking<'_>) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for (program, words) in plan.rows().flat_map(|row: &'static Ecosystem| row.versions) {
            if found.contains_key(*program) {
                continue;
            }
            let version = match find(program, asking.environment, asking.folder) {
                Some(path) => self.one(&path, words, asking).await,
                None => "absent".to_string(),
            };
            found.insert(program.to_string(), version);
        }
        found
    }

    async fn one(&self, path: &Path, words: &[&'static str], asking: &Asking<'_>) -> String {
        let Ok(meta) = fs::metadata(path) else { return "absent".into() };
        let identity = Identity {
            path: path.to_path_buf(),
            inode: meta.ino(),
            changed: (meta.mtime(), meta.mtime_nsec()),
            words: words.to_vec(),
        };
        let mut known = self.known.lock().await;
        if let Some(known) = known.get(&identity) {
            return known.clone();
        }
        match ask(path, words, asking, known.len()).await {
            Ok(version) => known.entry(identity).or_insert(version).clone(),
            // It was not asked, or the act was ended: the next who needs it asks.
            Err(untold) => untold,
        }
    }
}

/// Returns what a program says, or how it failed to. Errors: it could not be asked.
async fn ask(path: &Path, words: &[&str], asking: &Asking<'_>, number: usize) -> Result<String, String> {
    let Some(job) = (asking.job)(number) else { return Err("not asked".into()) };
    let answer = asking.answers.with_extension(format!("{number}"));
    let mut environment = asking.environment.clone();
    environment.set("OMG_JOB", &job);
    let spec = JobSpec {
        job: job.clone(),
        argv: std::iter::once(Text::from(path.as_os_str()))
            .chain(words.iter().copied().map(Text::from))
            .collect(),
        cwd: asking.folder.to_path_buf(),
        environment,
        stdin: None,
        log: asking.answers.to_path_buf(),
        stdout: None,
        result: Some(answer.clone()),
        direct: false,
        record: None,
        output_max: 1 << 20,
        grace_ms: 1000,
    };
    let started = asking.spawner.start(spec);
    match start_of(started.started).await {
        JobStart::Started { .. } => {}
        JobStart::NotStarted { reason, .. } => return Err(format!("not started: {reason}")),
        JobStart::SupervisorLost => return Err("not asked".into()),
    }
    let mut ended = std::pin::pin!(end_of(started.ended));
    let deadline = asking.spawner.pauses().deadline(VERSION_TIME);
    let end = tokio::select! {
        biased;
        end = ended.as_mut() => end,
        () = asking.spawner.pauses().wait(&deadline) => {
            asking.spawner.end(&job, false);
            ended.await
        }
    };
    let text = fs::read_to_string(&answer).unwrap_or_default();
    let _ = fs::remove_file(&answer);
    match end {
        JobEnd::Exited(exit) if exit.code == Some(0) => {
            let end = text.char_indices().nth(VERSION_BYTES).map_or(text.len(), |(at, _)| at);
            Ok(text[..end].trim().to_string())
        }
        JobEnd::Exited(exit) if exit.ended_by_us => Err("not asked".into()),
        JobEnd::Exited(exit) => Ok(format!("exit {:?}", exit.code)),
        JobEnd::SupervisorLost => Err("not asked".into()),
    }
}

/// Returns where a program is: below `folder` where it begins with `./`, else on the `PATH` of
/// `environment`; `None` where it is not, or can't be executed.
pub fn find(program: &str, environment: &Environment, folder: &Path) -> Option<PathBuf> {
    if program.starts_with("./") {
        return Some(folder.join(program)).filter(|path| is_program(path));
    }
    let path = environment.get("PATH").unwrap_or(OsStr::new("/usr/bin:/bin"));
    std::env::split_paths(path).map(|place| place.join(program)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
