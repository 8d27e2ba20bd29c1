//! What all worktrees of a repository share and an installer can write: configuration and hooks.
#![expect(clippy::disallowed_methods, reason = "reads the shared configuration and hooks")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use super::git::{Git, GitError, items};
use super::{RepositoryLock, WorktreeError};
use crate::ids::sha256;

/// What all worktrees share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// `core.hooksPath` of the repository's own configuration.
    pub hooks_path: Option<String>,
    /// Its other settings, each key with all its values.
    pub settings: BTreeMap<String, Vec<String>>,
    /// Its hooks, by name, each with its content's hash.
    pub hooks: BTreeMap<String, String>,
}

impl Shared {
    /// Returns what of it is not as it was `before`, for people; `core.hooksPath` aside.
    pub fn changes_since(&self, before: &Shared) -> Vec<String> {
        let mut changes = Vec::new();
        for key in self.settings.keys().chain(before.settings.keys()) {
            let change = format!("the setting {key}");
            // Making a submodule's clone is what writes these.
            if self.settings.get(key) != before.settings.get(key)
                && !key.starts_with("submodule.")
                && !changes.contains(&change)
            {
                changes.push(change);
            }
        }
        for name in self.hooks.keys().chain(before.hooks.keys()) {
            let change = format!("the hook {name}");
            if self.hooks.get(name) != before.hooks.get(name) && !changes.contains(&change) {
                changes.push(change);
            }
        }
        changes
    }
}

/// Returns what the worktrees of the repository with this git folder share.
pub fn shared(git: &Git, common_dir: &Path) -> Result<Shared, WorktreeError> {
    let mut shared = Shared::default();
    let file = common_dir.join("config");
    let listed =
        git.inside(common_dir, ["config", "--null", "--list", "--file"]).arg(&file).reading().output()?;
    for item in items(&listed) {
        let text = String::from_utf8_lossy(item);
        let (key, value) = text.split_once('\n').unwrap_or((&text, ""));
        if key == HOOKS_PATH {
            shared.hooks_path = Some(value.to_string());
        } else {
            shared.settings.entry(key.to_string()).or_default().push(value.to_string());
        }
    }
    for entry in fs::read_dir(common_dir.join("hooks")).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Ok(bytes) = fs::read(entry.path())
        {
            let digest = sha256(&bytes);
            shared.hooks.insert(entry.file_name().to_string_lossy().into_owned(), digest);
        }
    }
    Ok(shared)
}

/// An installation under way. As long as one is, in whatever process, `core.hooksPath` may be one that an
/// installer put there; what it was before the first of them is in a file that all hold a lock on.
#[derive(Debug)]
pub struct Installing {
    /// What the worktrees shared when it began.
    pub before: Shared,
    /// `core.hooksPath` before the first of those that are under way.
    pub original: Option<String>,
    /// Whether others were under way when it began.
    pub among_others: bool,
    /// What `core.hooksPath` was before an installation that came to no end, where it is another now.
    pub left_over: Option<Option<String>>,
    /// Held while it is under way; none where nothing stands behind it.
    pub(super) held: Option<File>,
}

/// Where it is noted what `core.hooksPath` was.
const NOTE: &str = "omg-hooks-path";

/// Begins an installation: returns what the worktrees share now, and what was before others began.
pub fn begin_install(git: &Git, common_dir: &Path) -> Result<Installing, WorktreeError> {
    let io = |error: io::Error| WorktreeError::io(common_dir, &error);
    let _lock = RepositoryLock::take(common_dir).map_err(io)?;
    let before = shared(git, common_dir)?;
    let place = common_dir.join(NOTE);
    let mut held =
        OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&place).map_err(io)?;
    let alone = held.try_lock().is_ok();
    let mut noted = String::new();
    held.read_to_string(&mut noted).map_err(io)?;
    let noted: Option<Option<String>> = serde_json::from_str(&noted).ok();
    let mut installing = Installing {
        original: before.hooks_path.clone(),
        among_others: !alone,
        left_over: None,
        before,
        held: None,
    };
    if alone {
        installing.left_over = noted.filter(|noted| *noted != installing.before.hooks_path);
        let text = serde_json::to_string(&installing.original).map_err(|error| io(error.into()))?;
        held.set_len(0)
            .and_then(|()| held.rewind())
            .and_then(|()| held.write_all(text.as_bytes()))
            .map_err(io)?;
        held.unlock().map_err(io)?;
    } else if let Some(noted) = noted {
        installing.original = noted;
    }
    // Nobody begins or ends meanwhile: we hold the repository's lock.
    held.lock_shared().map_err(io)?;
    installing.held = Some(held);
    Ok(installing)
}

/// Ends an installation: the last of those under way takes the note away.
pub fn end_install(common_dir: &Path, installing: Installing) -> Result<(), WorktreeError> {
    let io = |error: io::Error| WorktreeError::io(common_dir, &error);
    let _lock = RepositoryLock::take(common_dir).map_err(io)?;
    let Some(held) = installing.held else { return Ok(()) };
    held.unlock().map_err(io)?;
    if held.try_lock().is_ok() {
        fs::remove_file(common_dir.join(NOTE)).map_err(io)?;
    }
    Ok(())
}

/// As git lists it.
const HOOKS_PATH: &str = "core.hookspath";

/// Gives `core.hooksPath` back the value that it had, while it still holds `now`, and returns whether it
/// did. Git writes it, under the lock that acquires take too.
pub fn put_back_hooks_path(
    git: &Git,
    common_dir: &Path,
    now: Option<&str>,
    before: Option<&str>,
) -> Result<bool, WorktreeError> {
    let lock = RepositoryLock::take(common_dir).map_err(|error| WorktreeError::io(common_dir, &error))?;
    let file = common_dir.join("config");
    let call = |words: &[&str]| git.inside(common_dir, ["config", "--file"]).arg(&file).args(words);
    let value = match call(&["--get", HOOKS_PATH]).reading().line() {
        Ok(value) => Some(value),
        Err(GitError::Failed { code: Some(1), .. }) => None,
        Err(error) => return Err(error.into()),
    };
    if value.as_deref() != now {
        return Ok(false);
    }
    let held = lock.share().map_err(|error| WorktreeError::io(common_dir, &error))?;
    match before {
        Some(before) => call(&["--replace-all", "core.hooksPath", before]).holding(held).output()?,
        None if now.is_some() => call(&["--unset-all", "core.hooksPath"]).holding(held).output()?,
        None => Vec::new(),
    };
    Ok(true)
}
