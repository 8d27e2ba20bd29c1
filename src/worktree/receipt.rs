//! The receipt of an acquire: a small file in the lane's own git folder.
//!
//! There it is invisible to `git status`, outlives `git clean -fdx` and dies with the lane. It
//! carries the phase, which git's own `locked` file cannot: that says "initializing" only where no
//! reason of ours replaces it (measured with git 2.47).
#![expect(clippy::disallowed_methods, reason = "reads and writes the receipt file")]

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::lane::{LaneRequest, Phase, Receipt};
use crate::failpoint::{self, Point};

const NAME: &str = "omg-lane.json";

#[derive(Serialize, Deserialize)]
struct Written {
    schema: u32,
    run: String,
    lane: String,
    branch: String,
    base: String,
    phase: Phase,
}

/// Returns the receipt in `git_dir`, a lane's own git folder, as `request` sees it.
pub fn read(git_dir: &Path, request: &LaneRequest) -> Receipt {
    let bytes = match std::fs::read(git_dir.join(NAME)) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Receipt::None,
        Err(_) => return Receipt::Damaged,
    };
    match serde_json::from_slice::<Written>(&bytes) {
        Ok(found) if found.run == request.run.as_str() && found.lane == request.lane.as_str() => {
            Receipt::Ours(found.phase)
        }
        Ok(_) => Receipt::Foreign,
        Err(_) => Receipt::Damaged,
    }
}

/// Returns the run that the receipt in `git_dir` names; `None` where there is none that can be read.
pub fn run_of(git_dir: &Path) -> Option<String> {
    let bytes = std::fs::read(git_dir.join(NAME)).ok()?;
    serde_json::from_slice::<Written>(&bytes).ok().map(|written| written.run)
}

/// Writes the receipt of `request` into `git_dir`. Durable on return; a reader sees the old one or
/// the new one.
pub fn write(git_dir: &Path, request: &LaneRequest, phase: Phase) -> std::io::Result<()> {
    let written = Written {
        schema: 1,
        run: request.run.to_string(),
        lane: request.lane.to_string(),
        branch: request.branch.clone(),
        base: request.base.to_string(),
        phase,
    };
    let draft = git_dir.join(format!("{NAME}.new"));
    let mut file = std::fs::File::create(&draft)?;
    file.write_all(&serde_json::to_vec(&written)?)?;
    file.sync_all()?;
    failpoint::at(Point::ReceiptSynced);
    std::fs::rename(&draft, git_dir.join(NAME))?;
    failpoint::at(Point::ReceiptNamed);
    std::fs::File::open(git_dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CommitId, LaneName, RunId};

    fn request(lane: &str) -> LaneRequest {
        LaneRequest {
            run: RunId::from("r1"),
            lane: LaneName::from(lane),
            path: "/lanes/a".into(),
            branch: format!("omg/r1/{lane}"),
            base: CommitId::from("a".repeat(40)),
            history: Default::default(),
        }
    }

    #[test]
    fn a_receipt_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read(folder.path(), &request("a")), Receipt::None);
        for phase in [Phase::Creating, Phase::CheckedOut, Phase::Ready] {
            write(folder.path(), &request("a"), phase).unwrap();
            assert_eq!(read(folder.path(), &request("a")), Receipt::Ours(phase));
        }
        assert_eq!(read(folder.path(), &request("b")), Receipt::Foreign);
        std::fs::write(folder.path().join(NAME), "{").unwrap();
        assert_eq!(read(folder.path(), &request("a")), Receipt::Damaged);
    }
}
