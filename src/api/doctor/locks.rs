//! Lock files that a git which was killed left in a repository.
#![expect(clippy::disallowed_methods, reason = "looks for lock files, their age and their owner")]

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

use crate::graph::template::shell_word;
use crate::process::table::{named_works_in, worked_in};
use crate::view::doctor::{Finding, State};
use crate::worktree::{EntrySight, Repository};

/// Age below which a lock may be of a git that is about to be done.
const AGE: SignedDuration = SignedDuration::from_secs(60);

/// What fails for each, as measured with git 2.47.
const IN_COMMON: [(&str, &str); 3] = [
    ("config.lock", "no git can write the repository's configuration"),
    ("packed-refs.lock", "no git can delete a branch or tag here, nor pack them"),
    ("shallow.lock", "no git can fetch into this shallow clone"),
];
const IN_CHECKOUT: [(&str, &str); 2] = [
    ("index.lock", "no git can add, commit or reset there"),
    ("HEAD.lock", "no git can commit or change branches there"),
];

/// Returns the lock files behind which nobody is: no process has them open, no git works there, and they are
/// older than a minute. `entries`: worktrees that are ours.
pub fn stale(repository: &Repository, entries: &[EntrySight], now: Timestamp) -> Vec<Finding> {
    let mut candidates: Vec<(PathBuf, &str)> = Vec::new();
    let mut add = |folder: &Path, names: &[(&str, &'static str)]| {
        candidates.extend(names.iter().map(|(name, what)| (folder.join(name), *what)));
    };
    add(&repository.common_dir, &IN_COMMON);
    add(&repository.git_dir, &IN_CHECKOUT);
    for entry in entries.iter().filter(|entry| entry.run.is_some()) {
        add(&entry.git_dir, &IN_CHECKOUT);
    }
    candidates.extend(
        locks_below(&repository.common_dir.join("refs/heads/omg"))
            .into_iter()
            .map(|lock| (lock, "no git can move or delete that branch")),
    );
    // A git that waits for an editor or a hook has its lock file closed, and stands in its checkout.
    let trees = entries.iter().filter_map(|entry| entry.path.as_deref());
    let folders: Vec<&Path> = repository.top.as_deref().into_iter().chain(trees).collect();
    let folders: Vec<&Path> = folders.into_iter().chain([repository.common_dir.as_path()]).collect();
    let mut findings: Vec<Finding> =
        candidates.into_iter().filter_map(|(lock, what)| finding(&lock, what, now)).collect();
    if !findings.is_empty() && named_works_in("git", &folders) {
        findings.clear();
    }
    findings
}

fn finding(lock: &Path, what: &str, now: Timestamp) -> Option<Finding> {
    let metadata = fs::symlink_metadata(lock).ok()?;
    let changed = Timestamp::try_from(metadata.modified().ok()?).ok()?;
    let age = now.duration_since(changed);
    if age < AGE || worked_in(lock).unwrap_or(true) {
        return None;
    }
    let user = rustix::process::geteuid();
    // Of another user's processes we see no open file.
    let is_seen = user.is_root() || metadata.uid() == user.as_raw();
    let (state, who) = match is_seen {
        true => (State::Wrong, "no process has it open"),
        false => (State::Note, "it is another user's, so who has it open is not seen"),
    };
    Some(Finding {
        subject: "locks".into(),
        state,
        detail: format!(
            "{} is {} min old, and {who}; while it is there, {what}",
            lock.display(),
            age.as_mins()
        ),
        hint: Some(format!("`rm {}`", shell_word(&lock.to_string_lossy()))),
    })
}

fn locks_below(folder: &Path) -> Vec<PathBuf> {
    let mut open = vec![folder.to_path_buf()];
    let mut found = Vec::new();
    while let Some(next) = open.pop() {
        for item in fs::read_dir(next).into_iter().flatten().flatten() {
            let path = item.path();
            if item.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "lock") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
