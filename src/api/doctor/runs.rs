//! What dead runs left on this machine, and kept branches of this repository that wait to be merged.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::find;
use crate::api::gc::survey::{Known, Place, Standing, Surveyed, Surveyor};
use crate::ids::{CommitId, LaneIx};
use crate::settings::Settings;
use crate::view::doctor::{Finding, State};
use crate::worktree::{GitWorktrees, Repository};

/// Most branches that are named; the rest is counted.
const NAMED_MAX: usize = 10;

/// Returns every run of this machine, seen from outside.
pub fn survey(settings: &Settings) -> Vec<Surveyed> {
    let surveyor = Surveyor::new(settings);
    find::folders(&settings.home).iter().map(|id| surveyor.look(id)).collect()
}

/// Returns what dead runs left: processes, lanes without a verdict, files that can't be read.
pub fn left_behind(runs: &[Surveyed]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for run in runs {
        let finding = |state, detail: String, hint: String| Finding {
            subject: format!("run {}", run.id),
            state,
            detail,
            hint: Some(hint),
        };
        let known = match &run.standing {
            Standing::Held(_) => continue,
            Standing::Unreadable(complaint) => {
                let hint = complaint.hint.clone().unwrap_or_default();
                findings.push(finding(State::Wrong, complaint.message.clone(), hint));
                continue;
            }
            Standing::Known(known) => known,
        };
        if !known.processes.is_empty() {
            let detail =
                format!("it is dead, and what it started still runs: {}", known.processes.join(", "));
            findings.push(finding(State::Wrong, detail, format!("`omg gc {}`", run.id)));
        }
        if !known.due.is_empty() {
            findings.push(match &known.repository {
                Place::Away(complaint) => {
                    let detail = format!("{}; {}", of_lanes(known), complaint.message);
                    finding(State::Note, detail, complaint.hint.clone().unwrap_or_default())
                }
                Place::None | Place::Here(_) => {
                    let hint = format!("`omg gc {0}`, or `omg resume {0}` to go on with it", run.id);
                    finding(State::Note, of_lanes(known), hint)
                }
            });
        }
    }
    findings
}

fn of_lanes(known: &Known) -> String {
    let names = known.due_names();
    let (lanes, wait) = if names.len() == 1 { ("lane", "waits") } else { ("lanes", "wait") };
    format!("{lanes} {} {wait} for a verdict: no leg's end has given one that holds", names.join(", "))
}

/// Returns the kept branches of runs of this repository that HEAD does not reach.
pub fn unmerged(worktrees: &GitWorktrees, repository: &Repository, runs: &[Surveyed]) -> Vec<Finding> {
    let unmerged = match worktrees.unmerged(repository) {
        Ok(unmerged) => unmerged,
        Err(error) => {
            let hint = Some(error.hint().to_string());
            let detail = format!("which are merged is not known: {error}");
            return vec![Finding { subject: "branches".into(), state: State::Note, detail, hint }];
        }
    };
    let note = |detail, hint| Finding { subject: "branches".into(), state: State::Note, detail, hint };
    let kept = runs.iter().filter_map(|run| match &run.standing {
        Standing::Known(known) if is_of(known, repository) => Some(kept_of(known, &unmerged)),
        Standing::Known(_) | Standing::Held(_) | Standing::Unreadable(_) => None,
    });
    let mut findings: Vec<Finding> = kept.flatten().map(|(detail, hint)| note(detail, Some(hint))).collect();
    let more = findings.len().saturating_sub(NAMED_MAX);
    findings.truncate(NAMED_MAX);
    if more > 0 {
        findings.push(note(format!("and {more} more"), Some("`omg lanes RUN` lists those of a run".into())));
    }
    findings
}

fn is_of(known: &Known, repository: &Repository) -> bool {
    known.file.repository.as_ref().is_some_and(|of_run| of_run.common_dir == repository.common_dir)
}

fn kept_of(known: &Known, unmerged: &BTreeMap<String, CommitId>) -> Vec<(String, String)> {
    let (graph, run) = (&known.file.graph, &known.file.run_id);
    let mut found = Vec::new();
    let due: BTreeSet<LaneIx> = known.due.iter().copied().collect();
    for lane in graph.lane_ixs().filter(|lane| known.state.lane(*lane).branch_kept && !due.contains(lane)) {
        let Some(of_run) = &known.file.repository else { continue };
        let name = &graph.lane(lane).name;
        let branch = of_run.branch_of(run, name);
        if !unmerged.contains_key(&branch) {
            continue;
        }
        let has_tree = known.state.lane(lane).cleanup.as_ref().is_some_and(|cleanup| cleanup.tree == "kept");
        let otherwise = match has_tree {
            true => format!("omg lanes discard {run} {name}"),
            false => format!("git branch -D {branch}"),
        };
        found.push((
            format!("{branch}, kept by run {run}, has commits that HEAD has not"),
            format!("`git merge {branch}`, or `{otherwise}`"),
        ));
    }
    found
}
