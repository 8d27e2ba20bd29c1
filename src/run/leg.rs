//! A leg's claim on its run: the lock, the generation, and what a dead leg left behind.
#![expect(
    clippy::disallowed_methods,
    reason = "locks, reads and writes the run's own files, and waits for its lock"
)]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

use super::{RunDir, RunError};
use crate::failpoint::{self, Point};
use crate::fence::Fence;
use crate::graph::Graph;
use crate::ids::{Generation, Leg, RunId};
use crate::journal::runfile::SCHEMA;
use crate::journal::store;
use crate::journal::{Record, RunFile};
use crate::process::{survivors, table};
use crate::schedule::Fact;

/// How long a supervisor that lost its runner has for ending its nodes, beyond their grace.
const SUPERVISOR_PATIENCE: Duration = Duration::from_secs(30);

/// Who holds a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The process.
    pub pid: u32,
    /// Its start time, clock ticks since boot.
    pub start_time: u64,
    /// Its generation.
    pub generation: Generation,
    /// Its leg.
    pub leg: Leg,
    /// What it holds the run for.
    pub purpose: Purpose,
    /// The boot of the machine that its start time counts from, where that is known.
    pub boot: Option<String>,
}

impl Holder {
    /// Returns whether its process lives: this number, started at that time, since the same boot.
    pub fn lives(&self) -> bool {
        table::start_time(self.pid) == Some(self.start_time)
            && self.boot.as_ref().is_none_or(|boot| *boot == table::boot())
    }
}

/// A claim on a run. The lock is held for as long as this lives.
#[derive(Debug)]
pub struct Claim {
    lock: File,
    /// The generation that was claimed.
    pub generation: Generation,
}

/// Makes the folder of a new run, private to the user, and writes its `run.json`. Durable on return.
///
/// Errors: `AlreadyExists` where the run id is taken.
pub fn create(dir: &RunDir, file: &RunFile) -> io::Result<()> {
    let runs = dir.root().parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(runs)?;
    // Made beside its place and renamed into it: a run's folder is never seen without its `run.json`.
    let name = format!(".new-{}-", file.run_id);
    clear_drafts(runs, &name);
    let draft = runs.join(format!("{name}{}", std::process::id()));
    let made = make_draft(&draft, file).and_then(|()| {
        // rename(2) replaces an empty folder and refuses any other.
        failpoint::at(Point::RunDrafted);
        fs::rename(&draft, dir.root()).map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty => io::ErrorKind::AlreadyExists.into(),
            _ => error,
        })
    });
    if made.is_err() {
        let _ = fs::remove_dir_all(&draft);
    }
    made?;
    failpoint::at(Point::RunNamed);
    File::open(runs)?.sync_all()
}

/// Removes drafts of that name which a killed process left; they hold nothing but a `run.json`.
fn clear_drafts(runs: &Path, name: &str) {
    for entry in fs::read_dir(runs).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let pid = file.to_str().and_then(|file| file.strip_prefix(name)?.parse::<u32>().ok());
        if pid.is_some_and(|pid| table::start_time(pid).is_none()) {
            // One that stays is in nobody's way.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn make_draft(draft: &Path, file: &RunFile) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(draft)?;
    let mut out = BufWriter::new(File::create(draft.join("run.json"))?);
    // On one line: of a million edges, indentation would be the most.
    serde_json::to_writer(&mut out, file)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_data()?;
    File::open(draft)?.sync_all()
}

/// Returns what a run is, since its newest amendment where there is one.
pub fn load(dir: &RunDir) -> Result<RunFile, RunError> {
    super::amended::load(dir)
}

/// Returns what the file at `path` says a run is.
pub(super) fn read(path: &Path) -> Result<RunFile, RunError> {
    let io = |source| RunError::Io { path: path.into(), source };
    let bytes = fs::read(path).map_err(io)?;
    let newer = |schema| RunError::Newer { path: path.into(), schema };
    let file: RunFile = serde_json::from_slice(&bytes)
        .map_err(|error| newer_schema(&bytes).map_or_else(|| io(error.into()), newer))?;
    if file.schema > SCHEMA { Err(newer(file.schema)) } else { Ok(file) }
}

/// Returns the number of the shape of a `run.json`, where it is newer than ours.
fn newer_schema(bytes: &[u8]) -> Option<u32> {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: u32,
    }
    serde_json::from_slice::<Head>(bytes).ok().map(|head| head.schema).filter(|schema| *schema > SCHEMA)
}

/// How long a lock is waited for whose holder is dead: a child that a killed runner was about to start
/// has its files until it becomes its program.
const FORK_WAIT: Duration = Duration::from_secs(2);

/// Returns who holds a run; `None` where nobody alive does: by lock, pid and start time, never by pid
/// alone.
pub fn holder(dir: &RunDir) -> Option<Holder> {
    let unknown = Holder {
        pid: 0,
        start_time: 0,
        generation: Generation(0),
        leg: Leg(0),
        purpose: Purpose::Leg,
        boot: None,
    };
    let file = match File::open(dir.lock()) {
        Ok(file) => file,
        // Somebody deleted it, and its holder may live: its supervisor does.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return survivors::is_supervised(dir.root()).then_some(unknown);
        }
        // Who can't be asked may live.
        Err(_) => return Some(unknown),
    };
    match lock_unless_held(dir, || file.try_lock_shared()) {
        Ok(()) => None,
        Err(_) => Some(read_holder(dir).unwrap_or(unknown)),
    }
}

/// Tries for the run's lock until it comes, its holder is seen to live, or the wait for a dead one's
/// child is over.
fn lock_unless_held(
    dir: &RunDir,
    try_lock: impl Fn() -> Result<(), fs::TryLockError>,
) -> Result<(), fs::TryLockError> {
    let start = std::time::Instant::now();
    loop {
        match try_lock() {
            Err(fs::TryLockError::WouldBlock) if start.elapsed() < FORK_WAIT => {
                if read_holder(dir).is_some_and(|holder| holder.lives()) {
                    return Err(fs::TryLockError::WouldBlock);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            settled => return settled,
        }
    }
}

/// Returns whom the lock file names, held or not.
pub fn read_holder(dir: &RunDir) -> Option<Holder> {
    let text = fs::read_to_string(dir.lock()).ok()?;
    let purpose = match text.split_whitespace().nth(4) {
        Some("discard") => Purpose::Discard,
        Some("gc") => Purpose::Gc,
        Some("keep") => Purpose::Keep,
        Some("wait") => Purpose::Wait,
        Some(_) | None => Purpose::Leg,
    };
    let boot = text.split_whitespace().nth(5).map(str::to_string);
    let mut words = text.split_whitespace().map(str::parse::<u64>);
    let mut next = || words.next()?.ok();
    Some(Holder {
        purpose,
        boot,
        pid: next()? as u32,
        start_time: next()?,
        generation: Generation(next()?),
        leg: Leg(next()? as u32),
    })
}

/// What a run is claimed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A leg, which a signal ends in order.
    Leg,
    /// A discard, which is left to end by itself.
    Discard,
    /// Putting in order what a dead leg left, which is left to end by itself too.
    Gc,
    /// A supervisor of a detached run, between two of its runners.
    Keep,
    /// The end of a provider's limit, which a signal ends at once.
    Wait,
}

impl Purpose {
    fn word(self) -> &'static str {
        match self {
            Purpose::Leg => "leg",
            Purpose::Discard => "discard",
            Purpose::Gc => "gc",
            Purpose::Keep => "keep",
            Purpose::Wait => "wait",
        }
    }
}

/// Writes into the lock file, which the caller holds, that this process is who holds the run. Durable on return.
pub fn write_holder(lock: &File, generation: Generation, leg: Leg, purpose: Purpose) -> io::Result<()> {
    let pid = std::process::id();
    let start_time = table::start_time(pid).unwrap_or(0);
    let line =
        format!("{pid} {start_time} {} {} {} {}\n", generation.0, leg.0, purpose.word(), table::boot());
    // Never empty: who reads it meanwhile sees one holder or the other.
    std::os::unix::fs::FileExt::write_all_at(lock, line.as_bytes(), 0)?;
    lock.set_len(line.len() as u64)?;
    failpoint::at(Point::LockWritten);
    lock.sync_data()?;
    failpoint::at(Point::LockSynced);
    Ok(())
}

/// Takes the run's lock and raises its generation. Durable on return.
///
/// Errors: a living process holds it, or its files can't be used.
pub fn claim(dir: &RunDir, run: &RunId, records: &[Record], purpose: Purpose) -> Result<Claim, RunError> {
    let path = dir.lock();
    let io = |source| RunError::Io { path: path.clone(), source };
    if !path.exists() && survivors::is_supervised(dir.root()) {
        // Somebody deleted the lock under a living leg.
        return Err(RunError::Held { run: run.clone(), pid: 0, leg: last_leg(records).0 });
    }
    let lock =
        OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(io)?;
    match lock_unless_held(dir, || lock.try_lock()) {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            let holder = read_holder(dir);
            return Err(RunError::Held {
                run: run.clone(),
                pid: holder.as_ref().map_or(0, |holder| holder.pid),
                leg: holder.as_ref().map_or(0, |holder| holder.leg.0),
            });
        }
        Err(fs::TryLockError::Error(error)) => return Err(io(error)),
    }
    // Whoever held it before may have removed the run, lock and all.
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    let (held, named) = (lock.metadata().map_err(io)?, fs::metadata(&path).map_err(io)?);
    if identity(held) != identity(named) {
        return Err(io(io::ErrorKind::NotFound.into()));
    }
    let written = records.last().map_or(0, |record| record.r#gen.0);
    let claimed = read_holder(dir).map_or(0, |holder| holder.generation.0);
    let generation = Generation(written.max(claimed) + 1);
    let leg = last_leg(records).0 + 1;
    write_holder(&lock, generation, Leg(leg), purpose).map_err(io)?;
    let _ = fs::remove_file(dir.cancel());
    Ok(Claim { lock, generation })
}

/// Returns the number of the last leg; 0 before the first.
pub fn last_leg(records: &[Record]) -> Leg {
    // What amends its graph is written in the name of a leg that has not begun.
    let mut begun = records.iter().rev().filter(|record| matches!(record.fact, Fact::RunStarted { .. }));
    begun.next().map_or(Leg(0), |record| record.leg)
}

/// Ends whatever a dead leg left running, before anything else is done. Returns the names of what
/// had to be killed.
pub fn end_leftovers(dir: &RunDir, graph: Option<&Graph>) -> Result<Vec<String>, RunError> {
    let grace = graph
        .map(|graph| graph.nodes().iter().map(|node| node.grace).max().unwrap_or_default())
        .unwrap_or_default();
    survivors::outlive_supervisor(dir.root(), grace + SUPERVISOR_PATIENCE, survivors::Late::Kill)
        .map_err(|source| RunError::Io { path: dir.root().join("supervisor.lock"), source })?;
    Ok(survivors::end_survivors(dir.root()))
}

impl Claim {
    /// Returns the claim of a runner whose supervisor handed it the lock that it holds itself.
    pub fn handed(lock: File, generation: Generation) -> Claim {
        Claim { lock, generation }
    }

    /// Writes into the lock file that this process is who holds the run. Durable on return.
    pub fn name_us(&self, dir: &RunDir) -> io::Result<()> {
        let records = store::read(&dir.events()).map_err(io::Error::other)?;
        write_holder(&self.lock, self.generation, Leg(last_leg(&records).0 + 1), Purpose::Leg)
    }

    /// Returns the lock, for a process that holds it with us. Errors: it can't be shared.
    pub fn share(&self) -> io::Result<File> {
        self.lock.try_clone()
    }

    /// Returns what tells whether the claim is still the newest. Errors: its file can't be shared.
    pub fn fence(&self, dir: &RunDir) -> Result<Fence, RunError> {
        let lock = self.lock.try_clone();
        let lock = lock.map_err(|source| RunError::Io { path: dir.lock(), source })?;
        Ok(Fence::of(&dir.lock(), lock, self.generation))
    }

    /// Gives the run free for the next leg.
    pub fn release(self) {
        drop(self.lock);
    }
}
