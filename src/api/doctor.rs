//! `omg doctor`: what is wrong here, before a run meets it. Nothing is made or started.

mod faults;
mod locks;
mod runs;

use std::path::Path;

use super::gc::survey::Surveyed;
use super::leg::BUILD;
use super::plan::{what_is_run, worth_knowing};
use super::{Refusal, lint, programs, start};
use crate::graph::model::{Piece, Provision};
use crate::graph::{Graph, Trust};
use crate::ids::{CommitId, RunId};
use crate::process::environment::Environment;
use crate::provision::tools::find;
use crate::run::forecast::{Forecast, forecast};
use crate::run::seams::{Clock, SystemClock};
use crate::settings::Settings;
use crate::view::doctor::{Diagnosis, Finding, SCHEMA, State};
use crate::worktree::{GitWorktrees, Repository, WorktreeError, Worktrees};

/// Returns what is found here: of the lanes of `graph`, or of a lane as any graph without `provision` would
/// make it. Errors: the graph can't be read.
pub fn doctor(settings: &Settings, graph: Option<&Path>) -> Result<Diagnosis, Refusal> {
    let graph = match graph {
        Some(path) => Some(lint::graph(path, Trust::Reviewed).map_err(Refusal::of_problems)?.graph),
        None => None,
    };
    let worktrees = GitWorktrees::new(&settings.environment);
    let needs_lanes = graph.as_ref().is_some_and(|graph| !graph.lanes().is_empty());
    let mut findings = vec![git(settings, needs_lanes), space("home", &settings.home, &worktrees)];
    let lanes_at = start::worktree_root(settings, None, &RunId::from("doctor"));
    if !lanes_at.starts_with(&settings.home) {
        findings.push(space("lanes", &lanes_at, &worktrees));
    }
    findings.extend(graph.iter().flat_map(|graph| programs::findings(settings, graph)));
    findings.extend(faults::of_version(&worktrees));
    let runs = runs::survey(settings);
    findings.extend(runs::left_behind(&runs));
    match worktrees.discover(&settings.folder) {
        Ok(repository) => {
            let seen = of_repository(&worktrees, &repository, needs_lanes || graph.is_none());
            let is_usable = seen.state != State::Wrong;
            findings.push(seen);
            findings.extend(of_git(settings, &worktrees, &repository, &runs));
            if is_usable {
                findings.extend(lanes(settings, &worktrees, &repository, graph.as_ref(), &lanes_at));
            }
        }
        Err(error) => {
            let state = if needs_lanes { State::Wrong } else { State::Note };
            let (detail, hint) = (error.to_string(), Some(error.hint().to_string()));
            findings.push(Finding { subject: "repository".into(), state, detail, hint });
        }
    }
    Ok(Diagnosis { schema: SCHEMA, build: BUILD.into(), findings })
}

fn git(settings: &Settings, is_needed: bool) -> Finding {
    let subject = "git".to_string();
    match find("git", &settings.environment, &settings.folder) {
        Some(path) => Finding { subject, state: State::Ok, detail: path.display().to_string(), hint: None },
        None => Finding {
            subject,
            state: if is_needed { State::Wrong } else { State::Note },
            detail: "it is not on the PATH; graphs without lanes run all the same".into(),
            hint: Some("install git".into()),
        },
    }
}

/// What of git itself is in the way here.
fn of_git(
    settings: &Settings,
    worktrees: &GitWorktrees,
    repository: &Repository,
    runs: &[Surveyed],
) -> Vec<Finding> {
    let template = start::branch_template(settings);
    let mut findings = faults::of_repository(worktrees, repository, &template);
    let entries = match worktrees.entries(repository) {
        Ok(entries) => entries,
        Err(error) => {
            let (detail, hint) = (error.to_string(), Some(error.hint().to_string()));
            findings.push(Finding { subject: "worktrees".into(), state: State::Wrong, detail, hint });
            Vec::new()
        }
    };
    findings.extend(locks::stale(repository, &entries, SystemClock.now()));
    findings.extend(faults::of_entries(&entries, runs));
    findings.extend(runs::unmerged(worktrees, repository, runs));
    findings
}

fn space(subject: &str, at: &Path, worktrees: &GitWorktrees) -> Finding {
    let subject = subject.to_string();
    let place = at.display();
    match worktrees.room(at) {
        Ok(room) => {
            let inodes =
                if room.inodes == u64::MAX { "any number of".into() } else { room.inodes.to_string() };
            let detail = format!("{place}: {} MiB and {inodes} inodes are free", room.bytes >> 20);
            let enough = room.bytes > 1 << 30 && room.inodes > 50_000;
            let state = if enough { State::Ok } else { State::Wrong };
            let hint = (!enough)
                .then(|| "make room, or name another place with OMG_HOME or `--worktree-root`".to_string());
            Finding { subject, state, detail, hint }
        }
        Err(error) => Finding {
            subject,
            state: State::Wrong,
            detail: format!("{place}: {error}"),
            hint: Some("name another place with OMG_HOME".into()),
        },
    }
}

fn of_repository(worktrees: &GitWorktrees, repository: &Repository, is_needed: bool) -> Finding {
    let subject = "repository".to_string();
    let place = repository.folder().display().to_string();
    match worktrees.resolve(repository, "HEAD") {
        Ok(head) => {
            let (state, detail, hint) = match worktrees.has_identity(repository) {
                Ok(false) => (
                    State::Note,
                    format!("{place}, at {head}; git does not know who commits here"),
                    Some("set user.name and user.email, or `identity` in the graph".to_string()),
                ),
                Ok(true) | Err(_) => (State::Ok, format!("{place}, at {head}"), None),
            };
            Finding { subject, state, detail, hint }
        }
        Err(error) => {
            let hint = Some(error.hint().to_string());
            let state = if is_needed { State::Wrong } else { State::Note };
            Finding { subject, state, detail: format!("{place}: {error}"), hint }
        }
    }
}

/// What would be run in each lane, why, and what is missing.
fn lanes(
    settings: &Settings,
    worktrees: &GitWorktrees,
    repository: &Repository,
    graph: Option<&Graph>,
    // Where the lane of a run would lie: what is above it counts.
    root: &Path,
) -> Vec<Finding> {
    let of = |name: &str, provision: &Provision, base: &str, environment: &Environment| {
        let base: Result<CommitId, _> = worktrees.resolve(repository, base);
        let root = root.join("lane");
        let found =
            base.and_then(|base| forecast(worktrees, repository, &base, provision, &root, environment));
        findings_of(&format!("lane {name}"), provision, found)
    };
    let Some(graph) = graph else {
        let environment = settings.environment.for_child(&[]).for_lane(&[]);
        return of("of any graph", &Provision::default(), "HEAD", &environment);
    };
    let parts = graph.parts();
    let mut environment = settings.environment.for_child(&parts.pass_env).for_lane(&parts.pass_env);
    for (name, value) in &parts.env {
        if let [Piece::Text(text)] = value.0.as_slice() {
            environment.set(name, text);
        }
    }
    let of_lane = |ix| {
        let lane = graph.lane(ix);
        let base = lane.base.as_deref().or(parts.base.as_deref()).unwrap_or("HEAD");
        of(lane.name.as_str(), graph.provision(ix), base, &environment)
    };
    graph.lane_ixs().flat_map(of_lane).collect()
}

fn findings_of(subject: &str, provision: &Provision, found: Result<Forecast, WorktreeError>) -> Vec<Finding> {
    let finding = |state, detail: String, hint| Finding { subject: subject.to_string(), state, detail, hint };
    let forecast = match found {
        Ok(forecast) => forecast,
        Err(error) => return vec![finding(State::Wrong, error.to_string(), Some(error.hint().to_string()))],
    };
    let run = what_is_run(&forecast).into_iter().map(|line| finding(State::Ok, line, None));
    let known = worth_knowing(&forecast, provision).into_iter().map(|line| finding(State::Note, line, None));
    let unfit = forecast.unfit.iter().map(|failure| {
        let hint = failure.verdict.cause.hint().map(str::to_string);
        finding(State::Wrong, failure.detail.clone(), hint)
    });
    run.chain(known).chain(unfit).collect()
}
