//! `omg explain`: why a node stands where it stands.

use super::find::{self, Found};
use super::{Refusal, exit};
use crate::run::leg;
use crate::settings::Settings;
use crate::view::RunView;
use crate::view::explanation::Explanation;

/// Returns why a node stands where it stands: `words` are a node of the latest run, or a run and a node.
///
/// Errors: no such run or node, or the run's records can't be used.
pub fn explain(settings: &Settings, first: &str, second: Option<&str>) -> Result<Explanation, Refusal> {
    let (run, node) = match second {
        Some(node) => (Some(first), node),
        None => (None, first),
    };
    let mut found = find::run(settings, run).map_err(|refusal| of_run(settings, first, second, refusal))?;
    // Asked before the records are read: a leg that ends in between has written all of them.
    let alive = leg::holder(&found.dir).is_some_and(|holder| holder.purpose != leg::Purpose::Wait);
    let records = found.records()?;
    found.refresh(&records)?;
    let ix = found.node(node).map_err(|refusal| of_run(settings, first, second, refusal))?;
    let Found { file, dir } = &found;
    RunView::of(file, dir, &records, alive)
        .and_then(|view| Explanation::of(file, dir, &records, &view, alive, ix))
        .map_err(|(seq, reason)| {
            Refusal::new(exit::BLOCKED, format!("record {seq} of run `{}`: {reason}", file.run_id), None)
        })
}

/// Adds to a refusal that the only word names a run.
fn of_run(settings: &Settings, first: &str, second: Option<&str>, mut refusal: Refusal) -> Refusal {
    let is_run = || find::ids(&settings.home).iter().any(|id| id.as_str() == first);
    if let (None, Some(complaint), true) = (second, refusal.complaints.first_mut(), is_run()) {
        complaint.hint = Some(format!("`{first}` is a run: `omg explain {first} NODE`"));
    }
    refusal
}
