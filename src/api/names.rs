//! Names that a shell completes: runs, and nodes and lanes of a run or of a graph file.
//!
//! Reads no journal, and starts nothing unless the latest run is meant; what can't be read has no names.

use std::path::Path;

use super::find::{self, LATEST};
use super::lint;
use crate::graph::{Graph, Trust};
use crate::settings::Settings;

/// Returns the ids of all runs, newest first as far as their names tell, and `latest`.
pub fn runs(settings: &Settings) -> Vec<String> {
    let mut names: Vec<String> = find::ids(&settings.home).iter().rev().map(ToString::to_string).collect();
    names.push(LATEST.to_string());
    names
}

/// Returns the nodes of a run, else of a graph file, else of the latest run.
pub fn nodes(settings: &Settings, run: Option<&str>, file: Option<&str>) -> Vec<String> {
    let names = |graph: &Graph| graph.nodes().iter().map(|node| node.id.to_string()).collect();
    of_graph(settings, run, file, names)
}

/// Returns the lanes of a run, else of a graph file, else of the latest run.
pub fn lanes(settings: &Settings, run: Option<&str>, file: Option<&str>) -> Vec<String> {
    let names = |graph: &Graph| graph.lanes().iter().map(|lane| lane.name.to_string()).collect();
    of_graph(settings, run, file, names)
}

fn of_graph(
    settings: &Settings,
    run: Option<&str>,
    file: Option<&str>,
    names: impl Fn(&Graph) -> Vec<String>,
) -> Vec<String> {
    if let (None, Some(file)) = (run, file) {
        return lint::graph(Path::new(file), Trust::Reviewed)
            .map(|loaded| names(&loaded.graph))
            .unwrap_or_default();
    }
    find::run(settings, run).map(|found| names(&found.file.graph)).unwrap_or_default()
}
