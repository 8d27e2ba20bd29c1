//! Finding runs: by id, by a unique prefix, or the newest of the repository one stands in.
#![expect(clippy::disallowed_methods, reason = "lists the folders of runs")]

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use super::{Refusal, exit};
use crate::graph::problem::nearest;
use crate::ids::{NodeIx, RunId};
use crate::journal::replay::replay;
use crate::journal::{Record, RunDir, RunFile, store};
use crate::run::{RunError, amended, leg};
use crate::schedule::state::{Names, RunState};
use crate::settings::Settings;
use crate::view::{RunView, Summary};
use crate::worktree::{GitWorktrees, Worktrees};

/// The name of the newest run of the repository one stands in; so no run's id.
pub const LATEST: &str = "latest";

/// A run that was found.
#[derive(Debug)]
pub struct Found {
    /// What it is.
    pub file: RunFile,
    /// Its folder.
    pub dir: RunDir,
}

impl Found {
    /// Returns the run's records.
    pub fn records(&self) -> Result<Vec<Record>, Refusal> {
        store::read(&self.dir.events()).map_err(|error| crate::run::RunError::from(error).into())
    }

    /// Returns the place of the node named `id`. Errors: there is none.
    pub fn node(&self, id: &str) -> Result<NodeIx, Refusal> {
        let graph = &self.file.graph;
        graph.node_ix(id).ok_or_else(|| {
            let near = nearest(id, graph.nodes().iter().map(|node| node.id.as_str()));
            let hint = near.map(|near| format!("did you mean `{near}`?"));
            Refusal::new(exit::USAGE, format!("run `{}` has no node `{id}`", self.file.run_id), hint)
        })
    }

    /// Returns what the run is after `records`, which may have been written since it was found.
    pub fn at<'f>(&'f self, records: &[Record]) -> Result<Cow<'f, RunFile>, Refusal> {
        match amended::newest(records) {
            0 => Ok(Cow::Borrowed(&self.file)),
            _ => Ok(Cow::Owned(amended::at(&self.dir, records)?)),
        }
    }

    /// Takes in what the run is after `records`, which may have been written since it was found.
    pub fn refresh(&mut self, records: &[Record]) -> Result<(), Refusal> {
        if amended::newest(records) > 0 {
            self.file = amended::at(&self.dir, records)?;
        }
        Ok(())
    }

    /// Returns where the run stands by its records.
    pub fn state(&self) -> Result<RunState, Refusal> {
        let records = self.records()?;
        let graph = &self.at(&records)?.graph;
        replay(graph, &Names::of(graph), &records)
            .map_err(|(seq, error)| RunError::Unfit { seq, reason: error.to_string() }.into())
    }

    /// Returns the run as it stands now.
    pub fn view(&self) -> Result<RunView, Refusal> {
        // Asked before the records are read: a leg that ends in between has written all of them.
        let alive = leg::holder(&self.dir).is_some_and(|holder| holder.purpose != leg::Purpose::Wait);
        let records = self.records()?;
        RunView::of(&*self.at(&records)?, &self.dir, &records, alive).map_err(|(seq, reason)| {
            Refusal::new(exit::BLOCKED, format!("record {seq} of run `{}`: {reason}", self.file.run_id), None)
        })
    }
}

/// Returns the ids of all runs, oldest first as far as their names tell.
pub fn ids(home: &Path) -> Vec<RunId> {
    let Ok(entries) = fs::read_dir(home.join("runs")) else { return Vec::new() };
    let mut ids: Vec<RunId> = entries
        .filter_map(|entry| RunId::parse(entry.ok()?.file_name().to_str()?))
        .filter(|id| RunDir::new(home, id).run_file().is_file())
        .collect();
    ids.sort();
    ids
}

/// Returns the names of all folders of runs, also of those without a `run.json`, in order.
pub fn folders(home: &Path) -> Vec<RunId> {
    let Ok(entries) = fs::read_dir(home.join("runs")) else { return Vec::new() };
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    let mut ids: Vec<RunId> = folders.filter_map(|entry| RunId::parse(entry.file_name().to_str()?)).collect();
    ids.sort();
    ids
}

/// Returns the run named `name`: its id, a unique prefix of it, or `latest`.
///
/// Errors: no such run, or several.
pub fn run(settings: &Settings, name: Option<&str>) -> Result<Found, Refusal> {
    load(settings, &id(settings, name.unwrap_or(LATEST))?)
}

/// Returns the id of the run named `name`, which need not be one that can be read.
///
/// Errors: no such run, or several.
pub fn id(settings: &Settings, name: &str) -> Result<RunId, Refusal> {
    if name == LATEST {
        return latest(settings).map(|found| found.file.run_id);
    }
    let ids = folders(&settings.home);
    let matching: Vec<&RunId> = match ids.iter().find(|id| id.as_str() == name) {
        Some(id) => vec![id],
        None => ids.iter().filter(|id| id.as_str().starts_with(name)).collect(),
    };
    match matching.as_slice() {
        [id] => Ok((*id).clone()),
        [] => {
            let near = nearest(name, ids.iter().map(RunId::as_str));
            let hint = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`omg runs` lists them".to_string(),
            };
            Err(Refusal::new(exit::USAGE, format!("no run `{name}`"), Some(hint)))
        }
        several => {
            let names: Vec<&str> = several.iter().map(|id| id.as_str()).collect();
            Err(Refusal::usage(format!("`{name}` could be any of {}", names.join(", "))))
        }
    }
}

fn load(settings: &Settings, id: &RunId) -> Result<Found, Refusal> {
    let dir = RunDir::new(&settings.home, id);
    Ok(Found { file: leg::load(&dir)?, dir })
}

/// Returns the runs that can be read, newest first.
pub fn all(settings: &Settings) -> Vec<Found> {
    let mut runs: Vec<Found> = ids(&settings.home).iter().filter_map(|id| load(settings, id).ok()).collect();
    runs.sort_by(|a, b| {
        b.file.created_at.cmp(&a.file.created_at).then_with(|| b.file.run_id.cmp(&a.file.run_id))
    });
    runs
}

/// Returns the runs of the repository that one stands in, newest first; all where one stands in none.
pub fn here(settings: &Settings) -> Vec<Found> {
    let repository = GitWorktrees::new(&settings.environment).discover(&settings.folder).ok();
    let mut runs = all(settings);
    if let Some(repository) = repository {
        runs.retain(|run| match &run.file.repository {
            Some(of_run) => of_run.common_dir == repository.common_dir,
            None => repository.top.as_ref().is_some_and(|top| run.file.folder.starts_with(top)),
        });
    }
    runs
}

fn latest(settings: &Settings) -> Result<Found, Refusal> {
    here(settings).into_iter().next().ok_or_else(|| {
        Refusal::new(exit::USAGE, "there is no run here yet", Some("`omg run GRAPH` starts one".into()))
    })
}

/// Returns every run in a line, newest first; and, apart, what is wrong with those that can't be read.
pub fn list(settings: &Settings) -> (Vec<Summary>, Vec<String>) {
    let mut damaged: Vec<String> = ids(&settings.home)
        .iter()
        .filter_map(|id| load(settings, id).err())
        .flat_map(|refusal| refusal.complaints.into_iter().map(|complaint| complaint.message))
        .collect();
    let mut list = Vec::new();
    for run in all(settings) {
        match run.view() {
            Ok(view) => list.push(view.summary()),
            Err(refusal) => damaged.extend(refusal.complaints.into_iter().map(|complaint| complaint.message)),
        }
    }
    (list, damaged)
}
