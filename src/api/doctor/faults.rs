//! What of a repository is known to trip git or lanes: entries that lead nowhere, and settings. All of it was
//! measured (git 2.39 and 2.47).

use std::path::{Path, PathBuf};

use crate::api::gc::survey::{Standing, Surveyed};
use crate::graph::template::shell_word;
use crate::view::doctor::{Finding, State};
use crate::worktree::{EntrySight, GitWorktrees, Repository, WorktreeError};

/// The oldest git that lanes were tried with.
const OLDEST: (u32, u32) = (2, 39);

/// Returns what is said of the git that is found, where it is older than what was tried.
pub fn of_version(worktrees: &GitWorktrees) -> Option<Finding> {
    let words = worktrees.version().ok()?;
    let version = version(&words)?;
    (version < OLDEST).then(|| Finding {
        subject: "git".into(),
        state: State::Note,
        detail: format!("{words}; lanes were tried with {}.{} and later", OLDEST.0, OLDEST.1),
        hint: Some("put a newer git first on the PATH".into()),
    })
}

/// Reads `git version 2.39.5`, whatever stands behind it.
fn version(words: &str) -> Option<(u32, u32)> {
    let mut numbers = words.strip_prefix("git version ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Returns the worktree entries that break git, and those of ours whose folder is gone.
pub fn of_entries(entries: &[EntrySight], runs: &[Surveyed]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let finding = |state, detail: String, hint: String| Finding {
        subject: "worktrees".into(),
        state,
        detail,
        hint: Some(hint),
    };
    for entry in entries {
        let place = entry.git_dir.display();
        if entry.has_no_common_dir {
            let file = entry.git_dir.join("commondir");
            findings.push(finding(
                State::Wrong,
                format!("{} is empty, and fails every `git worktree` of the repository", file.display()),
                format!("`echo ../.. > {}`", shell_word(&file.to_string_lossy())),
            ));
            continue;
        }
        let (Some(run), true, Some(path)) = (&entry.run, entry.is_missing, &entry.path) else { continue };
        let of_run = runs.iter().find(|known| known.id.as_str() == run);
        match of_run.map(|run| &run.standing) {
            Some(Standing::Held(_)) => {}
            Some(Standing::Known(_)) => findings.push(finding(
                State::Note,
                format!("{place} is of a lane of run {run}, and nothing is at {} any more", path.display()),
                format!("`omg gc {run}`, which saves first what it holds"),
            )),
            Some(Standing::Unreadable(_)) | None => findings.push(finding(
                State::Note,
                format!(
                    "{place} is of a lane of run {run}, which is not known here, and nothing is at {} any more",
                    path.display()
                ),
                format!(
                    "`git worktree remove --force --force {}`, if that run is in no other OMG_HOME",
                    shell_word(&path.to_string_lossy())
                ),
            )),
        }
    }
    findings
}

/// Returns the settings and branches of the repository that are in the way. `template`: how lane branches are
/// named.
pub fn of_repository(worktrees: &GitWorktrees, repository: &Repository, template: &str) -> Vec<Finding> {
    let asked = [
        branch_in_the_way(worktrees, repository, template),
        hooks_path(worktrees, repository),
        bare_for_all(worktrees, repository),
    ];
    let not_asked = |error: WorktreeError| Finding {
        subject: "repository".into(),
        state: State::Note,
        detail: format!("not all of it could be looked at: {error}"),
        hint: Some(error.hint().into()),
    };
    asked.into_iter().filter_map(|asked| asked.unwrap_or_else(|error| Some(not_asked(error)))).collect()
}

fn wrong(detail: String, hint: String) -> Finding {
    Finding { subject: "repository".into(), state: State::Wrong, detail, hint: Some(hint) }
}

/// A branch can't have the name of a folder in which others are.
fn branch_in_the_way(
    worktrees: &GitWorktrees,
    repository: &Repository,
    template: &str,
) -> Result<Option<Finding>, WorktreeError> {
    let folder: Vec<&str> = template.split('/').take_while(|part| !part.contains('{')).collect();
    let mut prefixes = (1..=folder.len()).map(|count| folder[..count].join("/"));
    if folder.is_empty() {
        return Ok(None);
    }
    let branches = worktrees.branches(repository)?;
    let taken = prefixes.find(|prefix| branches.contains(prefix));
    Ok(taken.map(|name| {
        wrong(
            format!("its branch `{name}` is in the way of every lane branch `{template}`"),
            format!("`git branch -m {name} {name}-branch`"),
        )
    }))
}

/// `git worktree add` takes a relative one from the checkout it is called in, a later git in the lane from the
/// lane.
fn hooks_path(worktrees: &GitWorktrees, repository: &Repository) -> Result<Option<Finding>, WorktreeError> {
    let Some(value) = worktrees.setting(repository, None, "core.hooksPath")? else { return Ok(None) };
    if value.is_empty() || Path::new(&value).is_absolute() || value.starts_with('~') {
        return Ok(None);
    }
    let whole: PathBuf = repository.folder().join(&value);
    Ok(Some(Finding {
        subject: "repository".into(),
        state: State::Note,
        detail: format!(
            "core.hooksPath is relative ({value}): a lane is made with the hooks of this checkout, and commits in it run those that the lane has there"
        ),
        hint: Some(format!(
            "`git config core.hooksPath {}` names one place",
            shell_word(&whole.to_string_lossy())
        )),
    }))
}

/// With configuration for each worktree, `core.bare` of a bare repository belongs into its own.
fn bare_for_all(worktrees: &GitWorktrees, repository: &Repository) -> Result<Option<Finding>, WorktreeError> {
    let shared = repository.common_dir.join("config");
    let is_on = |name: &str| -> Result<bool, WorktreeError> {
        let value = worktrees.setting(repository, Some(&shared), name)?;
        Ok(value.is_some_and(|value| matches!(value.to_lowercase().as_str(), "true" | "yes" | "on" | "1")))
    };
    if !is_on("extensions.worktreeConfig")? || !is_on("core.bare")? {
        return Ok(None);
    }
    let own = repository.common_dir.join("config.worktree");
    let (shared_word, own_word) = (shared.to_string_lossy(), own.to_string_lossy());
    Ok(Some(wrong(
        format!(
            "{} has extensions.worktreeConfig and core.bare, so that git takes every worktree for bare",
            shared.display()
        ),
        format!(
            "`git config --file {} core.bare true && git config --file {} --unset core.bare`",
            shell_word(&own_word),
            shell_word(&shared_word)
        ),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_whatever_stands_behind_them() {
        for (words, expected) in [
            ("git version 2.39.5", Some((2, 39))),
            ("git version 2.50.1 (Apple Git-155)", Some((2, 50))),
            ("git version 2.48.0.rc1", Some((2, 48))),
            ("hub 2", None),
        ] {
            assert_eq!(version(words), expected, "{words}");
        }
    }
}
