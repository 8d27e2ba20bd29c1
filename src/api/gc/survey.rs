//! How the runs of this machine stand, seen from outside: which are held, which can't be read, and what dead
//! legs left of the others. Changes nothing; `gc` acts on it, and `doctor` tells of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use super::disk;
use crate::api::ready::find_again;
use crate::api::{Complaint, Refusal};
use crate::ids::{LaneIx, RunId};
use crate::journal::replay::replay;
use crate::journal::{Record, RunDir, RunFile, store};
use crate::process::{survivors, table};
use crate::run::sweep::lanes_left_unswept;
use crate::run::{RunError, leg};
use crate::schedule::fact::RunStatus;
use crate::schedule::state::{LaneRecord, Names, RunState};
use crate::settings::Settings;
use crate::worktree::{EntrySight, GitWorktrees, Repository, beside_lane};

/// Reasons of a cleanup that tell of the look and not of what was found: the next one may see more.
const WORTH_A_LOOK: [&str; 8] = [
    "busy",
    "time-over",
    "unreadable",
    "unfinished",
    "rescue-failed",
    "repository-away",
    "no-repository",
    "bug",
];

/// A run, seen from outside.
pub struct Surveyed {
    /// The run.
    pub id: RunId,
    /// Its folder.
    pub dir: RunDir,
    /// How it stands.
    pub standing: Standing,
}

/// How a run stands.
pub enum Standing {
    /// A living process holds it, or nobody can tell. Who, in words.
    Held(String),
    /// Its files can't be used.
    Unreadable(Complaint),
    /// Nobody holds it.
    Known(Box<Known>),
}

/// What is known of a run that nobody holds.
pub struct Known {
    /// What it is.
    pub file: RunFile,
    /// Its journal.
    pub records: Vec<Record>,
    /// Where it stands by that.
    pub state: RunState,
    /// Its repository.
    pub repository: Place,
    /// The lanes that are due for a verdict.
    pub due: Vec<LaneIx>,
    /// What it left running: `pid name`.
    pub processes: Vec<String>,
}

/// Where the repository of a run is.
#[derive(Clone, Debug)]
pub enum Place {
    /// It has none.
    None,
    /// Where it was.
    Here(Repository),
    /// Not there, or git does not work in it.
    Away(Complaint),
}

impl Known {
    /// Returns whether its last leg was killed: it began, and did not end.
    pub fn was_killed(&self) -> bool {
        !self.records.is_empty() && self.state.finished.is_none()
    }

    /// Returns how it stands.
    pub fn status(&self) -> RunStatus {
        crate::view::run::status(&self.state, false)
    }

    /// Returns whether nothing of it is to be put in order.
    pub fn is_in_order(&self) -> bool {
        self.due.is_empty() && self.processes.is_empty() && !self.was_killed()
    }

    /// Returns the names of the lanes that are due.
    pub fn due_names(&self) -> Vec<&str> {
        self.due.iter().map(|lane| self.file.graph.lane(*lane).name.as_str()).collect()
    }

    /// Returns where its lanes are, one a lane.
    pub fn lane_paths(&self) -> Vec<PathBuf> {
        let of_run = self.file.repository.iter();
        of_run
            .flat_map(|of_run| self.file.graph.lanes().iter().map(|lane| of_run.path_of(&lane.name)))
            .collect()
    }

    /// Returns the folder of its lanes, where that was moved out of the run's own and is not there.
    pub fn lanes_away(&self, dir: &RunDir) -> Option<PathBuf> {
        let root = &self.file.repository.as_ref()?.worktree_root;
        (!root.starts_with(dir.root()) && !disk::is_there(root)).then(|| root.clone())
    }

    /// Returns the trees that were set aside whole and are there.
    pub fn old_trees(&self) -> Vec<PathBuf> {
        let trees = self.state.lanes.iter().flat_map(|lane| &lane.set_aside);
        trees.filter(|tree| disk::is_there(tree)).cloned().collect()
    }
}

/// Looks at runs; asks each repository and the process table once.
pub struct Surveyor<'a> {
    settings: &'a Settings,
    /// Git, as this process would call it.
    pub worktrees: GitWorktrees,
    repositories: RefCell<BTreeMap<(PathBuf, Option<PathBuf>), Place>>,
    entries: RefCell<BTreeMap<PathBuf, Vec<EntrySight>>>,
    processes: BTreeMap<PathBuf, Vec<table::Process>>,
}

impl<'a> Surveyor<'a> {
    /// Returns one for what `settings` name.
    pub fn new(settings: &'a Settings) -> Surveyor<'a> {
        Surveyor {
            settings,
            worktrees: GitWorktrees::new(&settings.environment),
            repositories: RefCell::default(),
            entries: RefCell::default(),
            processes: table::marked_by_run(),
        }
    }

    /// Forgets what it read of worktree entries, since some were changed.
    pub fn forget(&self) {
        self.entries.borrow_mut().clear();
    }

    /// Returns how a run stands.
    pub fn look(&self, id: &RunId) -> Surveyed {
        let dir = RunDir::new(&self.settings.home, id);
        let standing = match leg::holder(&dir) {
            Some(holder) => Standing::Held(match holder.pid {
                0 => "its lock is held, by whom is not known".to_string(),
                pid => format!("it is held by a living process (pid {pid}, leg {})", holder.leg.0),
            }),
            None => match self.known(&dir) {
                Ok(known) => Standing::Known(Box::new(known)),
                Err(complaint) => Standing::Unreadable(complaint),
            },
        };
        Surveyed { id: id.clone(), dir, standing }
    }

    /// Returns what is known of a run that nobody holds. Errors: its files can't be used.
    pub fn known(&self, dir: &RunDir) -> Result<Known, Complaint> {
        let unusable = |error: RunError| match error {
            RunError::Newer { .. } => first(error.into()),
            error => Complaint {
                message: error.to_string(),
                hint: Some(format!(
                    "nothing of it was touched: mend that file, or put it back; what the run has is in {}",
                    dir.root().display()
                )),
            },
        };
        let file = leg::load(dir).map_err(unusable)?;
        let records = store::read(&dir.events()).map_err(RunError::from).map_err(unusable)?;
        let state = replay(&file.graph, &Names::of(&file.graph), &records)
            .map_err(|(seq, error)| unusable(RunError::Unfit { seq, reason: error.to_string() }))?;
        let processes = self.processes.get(dir.root()).into_iter().flatten();
        let processes = processes.filter(|process| !survivors::is_self_or_above(process.pid));
        let mut known = Known {
            processes: processes.map(|process| format!("{} {}", process.pid, process.name)).collect(),
            repository: Place::None,
            due: Vec::new(),
            file,
            records,
            state,
        };
        known.repository = self.place(&known);
        known.due = self.due(&known);
        Ok(known)
    }

    fn place(&self, known: &Known) -> Place {
        let Some(of_run) = &known.file.repository else { return Place::None };
        // A run none of whose lanes was ever asked for has nothing there.
        if known.records.is_empty() {
            return Place::None;
        }
        let mut places = self.repositories.borrow_mut();
        let key = (of_run.common_dir.clone(), of_run.top.clone());
        let place = places.entry(key).or_insert_with(|| match find_again(&self.worktrees, of_run) {
            Ok(repository) => Place::Here(repository),
            Err(refusal) => Place::Away(first(refusal)),
        });
        place.clone()
    }

    /// Returns the lanes that a dead leg or a cut cleanup left without a verdict, whose entry leads nowhere,
    /// or that the last look could not judge. A paused run has none: it keeps its lanes whole.
    fn due(&self, known: &Known) -> Vec<LaneIx> {
        let Some(of_run) = &known.file.repository else { return Vec::new() };
        if known.state.finished == Some(RunStatus::Paused) {
            return Vec::new();
        }
        let unswept = lanes_left_unswept(&known.state);
        let is_due = |lane: &LaneIx| {
            let path = of_run.path_of(&known.file.graph.lane(*lane).name);
            unswept.contains(lane)
                || is_worth_a_look(known.state.lane(*lane))
                || beside_lane(&path).iter().any(|cut| disk::is_there(cut))
                || self.leads_nowhere(known, &path)
        };
        known.file.graph.lane_ixs().filter(is_due).collect()
    }

    fn leads_nowhere(&self, known: &Known, path: &std::path::Path) -> bool {
        let Place::Here(repository) = &known.repository else { return false };
        let mut read = self.entries.borrow_mut();
        let entries = read.entry(repository.common_dir.clone()).or_insert_with(|| {
            // What can't be read is nothing to act on.
            self.worktrees.entries(repository).unwrap_or_default()
        });
        let run = known.file.run_id.as_str();
        entries.iter().any(|entry| {
            (entry.is_missing || !entry.whole) && entry.run.as_deref() == Some(run) && entry.is_at(path)
        })
    }
}

fn is_worth_a_look(lane: &LaneRecord) -> bool {
    lane.cleanup.as_ref().is_some_and(|cleanup| {
        WORTH_A_LOOK.contains(&cleanup.reason.as_str())
            && (cleanup.tree == "kept" || cleanup.reason == "unfinished")
    })
}

/// Returns the first complaint of a refusal.
pub fn first(refusal: Refusal) -> Complaint {
    let none = || Complaint { message: "it is not known why".into(), hint: None };
    refusal.complaints.into_iter().next().unwrap_or_else(none)
}
