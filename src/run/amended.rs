//! What a run is since its graph was amended: `amended/<n>.json`, each written once, of the shape of `run.json`.
//!
//! Such a file counts only once the journal says so: without its `graph.amended` it is nothing.
#![expect(clippy::disallowed_methods, reason = "makes the folder of amended/ durable")]

use std::fs::File;
use std::io;

use super::{RunDir, RunError, leg};
use crate::journal::{Record, RunFile, store};
use crate::provision::durable;
use crate::schedule::Fact;

/// Writes what a run will be after its amendment of this number. Durable on return; until the journal has the
/// event nothing has changed, and a file of this number that was left without one is replaced.
pub fn write(dir: &RunDir, number: u32, file: &RunFile) -> Result<(), RunError> {
    let path = dir.amended(number);
    let write = || -> io::Result<()> {
        durable::write(&path, &serde_json::to_vec(file)?)?;
        // The folder may be new itself.
        File::open(dir.root())?.sync_all()
    };
    write().map_err(|source| RunError::Io { path: path.clone(), source })
}

/// Returns what a run is.
///
/// Errors: its files can't be read, or are not what the journal says.
pub fn load(dir: &RunDir) -> Result<RunFile, RunError> {
    // Few runs are amended, and the journals of the others need not be read for this.
    let records = if dir.amended(0).parent().is_some_and(std::path::Path::is_dir) {
        store::read(&dir.events())?
    } else {
        Vec::new()
    };
    at(dir, &records)
}

/// Returns what a run is after `records`.
///
/// Errors: as [`load`].
pub fn at(dir: &RunDir, records: &[Record]) -> Result<RunFile, RunError> {
    let newest = records.iter().rev().find_map(|record| match &record.fact {
        Fact::GraphAmended { number, to, .. } => Some((*number, to)),
        _ => None,
    });
    let path = newest.map_or_else(|| dir.run_file(), |(number, _)| dir.amended(number));
    let file = leg::read(&path)?;
    match newest {
        Some((_, to)) if file.graph_sha256 != *to => {
            let source = io::Error::other("its graph is not the one that the journal says");
            Err(RunError::Io { path, source })
        }
        Some(_) | None => Ok(file),
    }
}

/// Returns the number of a run's newest amendment; 0 before the first.
pub fn newest(records: &[Record]) -> u32 {
    let numbers = records.iter().rev().find_map(|record| match record.fact {
        Fact::GraphAmended { number, .. } => Some(number),
        _ => None,
    });
    numbers.unwrap_or(0)
}
