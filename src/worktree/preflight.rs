//! What would keep a whole leg from its lanes, found before anything is made: a place where lanes may
//! not live, a branch that git has no room for, a lane branch that is checked out elsewhere.
//!
//! What concerns one lane alone (a foreign folder at its path, a branch that is gone) is found by its
//! acquire, which leaves the other lanes to go on.

use std::collections::BTreeSet;
use std::path::Path;

use super::acquire::{AcquirePlan, decide};
use super::git::Git;
use super::lane::{BranchState, LaneRequest, Lock, Place};
use super::observe::{entries, lock_of, observe};
use super::{AcquireClass, AcquireFault, Obstacle, Repository, WorktreeError, discover};
use crate::ids::CommitId;

/// Returns everything in the way of `lanes`, one obstacle a thing. Creates nothing, not even a lock.
pub fn preflight(
    git: &Git,
    repository: &Repository,
    lanes: &[LaneRequest],
) -> Result<Vec<Obstacle>, WorktreeError> {
    let branches = git
        .inside(&repository.common_dir, ["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"])
        .reading()
        .line()
        .map_err(|error| discover::explained(git, repository.folder(), error))?;
    let lost = without_base(git, repository, lanes);
    if !lost.is_empty() {
        return Ok(lost);
    }
    if let Some(obstacle) = unwritable(repository, lanes) {
        return Ok(vec![obstacle]);
    }
    let of_others = half_made_by_others(git, repository, lanes);
    if let Some(obstacle) = of_others.or_else(|| bare_for_all(git, repository, lanes)) {
        return Ok(vec![obstacle]);
    }
    let mut found: Vec<Obstacle> = Vec::new();
    for lane in lanes {
        if let Some(fault) = first(git, repository, lane, &branches) {
            match found.iter_mut().find(|other| other.message == fault.detail) {
                Some(other) => other.lanes.push(lane.lane.clone()),
                None => found.push(Obstacle {
                    lanes: vec![lane.lane.clone()],
                    class: fault.class,
                    message: fault.detail,
                    hint: fault.hint,
                }),
            }
        }
    }
    Ok(found)
}

fn first(git: &Git, repository: &Repository, lane: &LaneRequest, branches: &str) -> Option<AcquireFault> {
    if let Err(fault) = allowed(repository, lane) {
        return Some(fault);
    }
    let state = observe(git, repository, lane);
    // A lane that is there needs no new branch.
    if state.place == Some(Place::Lane) {
        return None;
    }
    let elsewhere = matches!(state.branch, Some(BranchState::At { elsewhere: Some(_), .. }));
    match decide(&state, lane) {
        AcquirePlan::Refuse(fault) if elsewhere => Some(fault),
        _ => in_the_way(&lane.branch, branches),
    }
}

/// Refs are paths to git: `omg` and `omg/r/l` cannot both be branches.
fn in_the_way(branch: &str, branches: &str) -> Option<AcquireFault> {
    let below = format!("{branch}/");
    let other = branches.lines().find(|other| {
        other.starts_with(&below) || branch.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
    })?;
    let detail = if other.starts_with(&below) {
        format!("branch `{other}` is in the way of a branch `{branch}`")
    } else {
        format!("branch `{other}` is in the way of every branch under `{other}/`")
    };
    Some(AcquireFault {
        class: AcquireClass::LaneRefused,
        detail,
        hint: format!("rename it (`git branch -m {other} NEW-NAME`), or set branch_template"),
    })
}

/// Refuses a place inside a checkout of the repository, or in its git folder: tools look upward, and
/// would find what is installed there.
pub fn allowed(repository: &Repository, lane: &LaneRequest) -> Result<(), AcquireFault> {
    let refuse = |what: String| {
        Err(AcquireFault {
            class: AcquireClass::LaneRefused,
            detail: format!("{}, the place of lane `{}`, {what}", lane.path.display(), lane.lane),
            hint: "set worktree_root, or OMG_HOME, to a folder outside of it".into(),
        })
    };
    if !discover::is_folder(&repository.common_dir) {
        let away = WorktreeError::Away { at: repository.common_dir.clone() };
        let (detail, hint) = (away.to_string(), away.hint().to_string());
        return Err(AcquireFault { class: AcquireClass::AcquireFailed, detail, hint });
    }
    let Ok(path) = discover::real(&lane.path) else {
        return refuse("could not be looked at".into());
    };
    if !lane.path.is_absolute() {
        return refuse("is not an absolute path".into());
    }
    let inside = |folder: &Path| {
        discover::real(folder).is_ok_and(|folder| path.starts_with(&folder)) || path.starts_with(folder)
    };
    if inside(&repository.common_dir) || inside(&repository.git_dir) {
        return refuse(format!("is inside the git folder {}", repository.common_dir.display()));
    }
    let main = repository.common_dir.parent().filter(|_| repository.common_dir.ends_with(".git"));
    let linked = entries(repository).unwrap_or_default().into_iter().filter_map(|entry| entry.path);
    let own = |folder: &Path| discover::real(folder).is_ok_and(|folder| folder == path);
    let checkouts = main.into_iter().chain(repository.top.as_deref()).map(Path::to_path_buf).chain(linked);
    for checkout in checkouts {
        if !own(&checkout) && inside(&checkout) {
            return refuse(format!("is inside the checkout {}", checkout.display()));
        }
    }
    Ok(())
}

fn of_all(lanes: &[LaneRequest], message: String, hint: String) -> Obstacle {
    let lanes = lanes.iter().map(|lane| lane.lane.clone()).collect();
    Obstacle { lanes, class: AcquireClass::AcquireFailed, message, hint }
}

/// Returns an entry that somebody's killed `git worktree add` left: git fails for it in every command
/// that reads entries (measured with git 2.47). One that is being made is waited for.
fn half_made_by_others(git: &Git, repository: &Repository, lanes: &[LaneRequest]) -> Option<Obstacle> {
    let found = entries(repository).unwrap_or_default().into_iter().find(|entry| {
        let ours = |lane: &LaneRequest| {
            lock_of(entry, &lane.run) == Lock::Ours || entry.path.as_ref() == Some(&lane.path)
        };
        !entry.whole && entry.path.is_some() && !lanes.iter().any(ours)
    })?;
    let list = git.inside(&repository.common_dir, ["worktree", "list", "--porcelain"]).reading();
    let error = list.output_despite_races().err()?;
    let message = format!(
        "{} is a worktree entry that was left half-made, and git fails for it: {error}",
        found.git_dir.display()
    );
    let hint = "if no git is at work on it, move that folder out of `worktrees`, then try again";
    Some(of_all(lanes, message, hint.into()))
}

/// Git takes every worktree of a bare repository for bare too where `extensions.worktreeConfig` is set
/// and `core.bare` is left in the configuration that they share (measured with git 2.47).
fn bare_for_all(git: &Git, repository: &Repository, lanes: &[LaneRequest]) -> Option<Obstacle> {
    if !repository.bare {
        return None;
    }
    let file = repository.common_dir.join("config");
    let is_on = |key: &str| {
        let call = git.inside(&repository.common_dir, ["config", "--type=bool", "--file"]).arg(&file);
        call.arg(key).reading().line().is_ok_and(|value| value == "true")
    };
    if !is_on("extensions.worktreeConfig") || !is_on("core.bare") {
        return None;
    }
    let place = repository.common_dir.display();
    let message = format!(
        "the bare repository {place} has extensions.worktreeConfig, and core.bare where its worktrees share it: git takes them for bare too"
    );
    let hint = format!(
        "move it: `git -C {place} config --worktree core.bare true`, then `git -C {place} config --file config --unset core.bare`"
    );
    Some(of_all(lanes, message, hint))
}

/// Returns what cannot be written to and has to be, once for all lanes.
fn unwritable(repository: &Repository, lanes: &[LaneRequest]) -> Option<Obstacle> {
    let common = &repository.common_dir;
    let places = ["", "objects", "refs", "refs/heads", "reftable", "logs", "logs/refs/heads", "worktrees"];
    let fault = |place: &Path, what: &str, error: std::io::Error, hint: &str| {
        let message = format!("{}, {what}, can't be written to: {error}", place.display());
        Some(of_all(lanes, message, hint.into()))
    };
    let of_branches = lanes.iter().filter_map(|lane| Path::new(&lane.branch).parent());
    let branches = of_branches.map(|branches| common.join("refs/heads").join(branches));
    for place in places.iter().map(|place| common.join(place)).chain(branches) {
        if let Err(error) = discover::writable(&place) {
            let hint = "git makes worktrees and branches there: see who owns it (`ls -ld`), or start in a clone of your own";
            return fault(&place, "in the git folder of the repository", error, hint);
        }
    }
    for lane in lanes {
        let place = discover::existing(&lane.path);
        if let Err(error) = discover::writable(&place) {
            let hint = "set worktree_root, or OMG_HOME, to a folder of your own";
            return fault(&place, "where lanes belong", error, hint);
        }
    }
    None
}

/// Returns the lanes whose base is not in the repository: it may be another one by now.
fn without_base(git: &Git, repository: &Repository, lanes: &[LaneRequest]) -> Vec<Obstacle> {
    let bases: BTreeSet<&CommitId> = lanes.iter().map(|lane| &lane.base).collect();
    let is_lost = |base: &CommitId| {
        matches!(discover::resolve(git, repository, base.as_str()), Err(WorktreeError::UnknownBase { .. }))
    };
    let lost = bases.into_iter().filter(|base| is_lost(base));
    lost.map(|base| {
        let concerned: Vec<LaneRequest> = lanes.iter().filter(|lane| lane.base == *base).cloned().collect();
        let message = format!(
            "commit {}, the base of lanes of this run, is not in the repository at {}",
            base.short(),
            repository.folder().display()
        );
        let hint = "put the repository back that the run began in, or fetch that commit";
        of_all(&concerned, message, hint.into())
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_conflict_as_paths_do() {
        let clash = |branches: &str| in_the_way("omg/r1/a", branches).map(|fault| fault.detail);
        assert_eq!(clash("main\nomg2\nomg/r1/ab\nomg/r1/a"), None);
        assert!(clash("main\nomg").unwrap().contains("`omg`"));
        assert!(clash("omg/r1").unwrap().contains("`omg/r1`"));
        assert!(clash("omg/r1/a/x").unwrap().contains("`omg/r1/a/x`"));
    }
}
