//! What is hidden from git in a lane's own processes: a file of patterns in the run directory, named to them
//! in their environment. Nothing that is shared with the user's tree is written.
//!
//! It takes the place of the user's own `core.excludesFile`, so it begins with what that says.
#![expect(clippy::disallowed_methods, reason = "reads the user's excludes, writes the lane's")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::durable;
use crate::process::environment::Environment;

/// Ends what is the user's.
const MARK: &str = "# omg: in this lane only, not the user's:";

/// Returns the file of a lane whose folder in the run directory is `folder`.
pub fn file(folder: &Path) -> PathBuf {
    folder.join("excludes")
}

/// Adds `paths`, relative to the lane's root, to what is hidden from git in its processes, and takes what
/// `users`, the user's own file of patterns, says now. Durable on return; idempotent.
pub fn add_excludes(folder: &Path, users: Option<&Path>, paths: &[String]) -> io::Result<()> {
    if paths.is_empty() && !file(folder).exists() {
        return Ok(());
    }
    let users = match users.map(fs::read) {
        Some(Ok(bytes)) => bytes,
        None => Vec::new(),
        Some(Err(error)) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Vec::new()
        }
        Some(Err(error)) => return Err(error),
    };
    let before = match fs::read(file(folder)) {
        Ok(bytes) => ours(&bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => BTreeSet::new(),
        Err(error) => return Err(error),
    };
    // No pattern can stand for a name with a line break.
    let paths = paths.iter().filter(|path| !path.contains(['\n', '\r']));
    let lines: BTreeSet<String> = before.into_iter().chain(paths.map(|path| pattern(path))).collect();
    let mut bytes = users;
    if bytes.last().is_some_and(|last| *last != b'\n') {
        bytes.push(b'\n');
    }
    bytes.extend(MARK.bytes().chain([b'\n']));
    for line in lines {
        bytes.extend(line.bytes().chain([b'\n']));
    }
    durable::write(&file(folder), &bytes)
}

/// Names the lane's file of patterns to git in `environment`, where there is one, on top of what the parent
/// injects already.
pub fn apply(folder: &Path, environment: &mut Environment) {
    let file = file(folder);
    if !file.is_file() {
        return;
    }
    let count = environment.text("GIT_CONFIG_COUNT").unwrap_or_default();
    // A count that is none: git refuses to run with it, and says why.
    let count = if count.is_empty() { Ok(0) } else { count.parse::<u32>() };
    let Ok(count) = count else { return };
    environment.set(format!("GIT_CONFIG_KEY_{count}"), "core.excludesFile");
    environment.set(format!("GIT_CONFIG_VALUE_{count}"), file.into_os_string());
    environment.set("GIT_CONFIG_COUNT", (count + 1).to_string());
}

/// Returns the lines after the mark. The user's own text may hold the mark too; the last counts.
fn ours(bytes: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().collect();
    let mark = lines.iter().rposition(|line| *line == MARK);
    mark.map(|at| lines[at + 1..].iter().map(|line| line.to_string()).collect()).unwrap_or_default()
}

/// Returns the pattern that stands for one path and nothing else (gitignore(5)).
fn pattern(path: &str) -> String {
    let mut pattern = String::from("/");
    for c in path.chars() {
        if matches!(c, '\\' | '*' | '?' | '[' | ']') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    if let Some(rest) = pattern.strip_suffix(' ') {
        pattern = format!("{rest}\\ ");
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_own_patterns_stay_and_ours_are_added_once() {
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("users");
        let lane = folder.path().join("lane");
        let read = || fs::read_to_string(file(&lane)).unwrap();
        add_excludes(&lane, Some(&users), &[]).unwrap();
        assert!(!file(&lane).exists());
        fs::write(&users, "*.swp").unwrap();
        add_excludes(&lane, Some(&users), &[".env".into(), "a b ".into()]).unwrap();
        add_excludes(&lane, Some(&users), &[".env".into(), "x[1]*".into()]).unwrap();
        assert_eq!(read(), format!("*.swp\n{MARK}\n/.env\n/a b\\ \n/x\\[1\\]\\*\n"));
        fs::write(&users, "*.bak\n").unwrap();
        add_excludes(&lane, Some(&users), &[]).unwrap();
        assert_eq!(read(), format!("*.bak\n{MARK}\n/.env\n/a b\\ \n/x\\[1\\]\\*\n"));
    }

    #[test]
    fn what_a_parent_injects_into_git_stays() {
        let folder = tempfile::tempdir().unwrap();
        let mut environment = Environment::from_iter([
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "user.name"),
            ("GIT_CONFIG_VALUE_0", "me"),
        ]);
        let before = environment.clone();
        apply(folder.path(), &mut environment);
        assert_eq!(environment, before);
        add_excludes(folder.path(), None, &[".env".into()]).unwrap();
        apply(folder.path(), &mut environment);
        assert_eq!(environment.text("GIT_CONFIG_KEY_0"), Some("user.name"));
        assert_eq!(environment.text("GIT_CONFIG_KEY_1"), Some("core.excludesFile"));
        assert_eq!(environment.text("GIT_CONFIG_VALUE_1"), file(folder.path()).to_str());
        assert_eq!(environment.text("GIT_CONFIG_COUNT"), Some("2"));
    }
}
