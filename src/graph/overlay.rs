//! `overlay`: which of the user's local files a lane gets, and which paths can be named.
//!
//! Pure: whether a file is there is for whoever copies it.

use serde::{Deserialize, Serialize};

use super::code::Code;
use super::excerpt::clip;
use super::grammar::check_inner_path;
use super::keys::OverlayKey;
use super::reader::{At, Reader};
use super::tree::Tree;

/// Which local files are copied from the user's tree into a lane (DESIGN.md section 5). Nothing unless named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// Files and folders, relative to the top of the user's tree, without `.` parts and `/` at the end.
    pub paths: Vec<String>,
    /// Whether what `.worktreeinclude` names, and git ignores there, is copied too.
    #[serde(default)]
    pub include_file: bool,
}

impl Overlay {
    /// Returns whether nothing is copied.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && !self.include_file
    }
}

/// Folders that a tool fills and can fill again; a copy would hold the paths of the tree it comes from.
pub const DEPENDENCY_FOLDERS: [&str; 11] = [
    ".nox",
    ".pnpm-store",
    ".tox",
    ".venv",
    "__pycache__",
    "bower_components",
    "jspm_packages",
    "node_modules",
    "target",
    "vendor",
    "venv",
];

/// Returns the dependency folder that `path` is, or lies in.
pub fn dependency_folder(path: &str) -> Option<&'static str> {
    DEPENDENCY_FOLDERS.into_iter().find(|folder| path.split('/').any(|part| part == *folder))
}

/// Reads an `overlay` in any of its forms: a list of paths, `none`, or a map.
pub(super) fn read_overlay(reader: &mut Reader<'_>, what: &str, tree: &Tree) -> Option<Overlay> {
    if tree.text() == Some("none") {
        return Some(Overlay::default());
    }
    if tree.items().is_some() {
        return Some(Overlay { paths: read_paths(reader, what, tree), include_file: false });
    }
    let Some(entries) = tree.entries() else {
        return reader.wrong_type(what, "a list of paths, `none`, or a map", tree);
    };
    let mut overlay = Overlay::default();
    for entry in entries {
        match OverlayKey::of(&entry.key) {
            Some(OverlayKey::Paths) => {
                overlay.paths = read_paths(reader, "`overlay.paths`", &entry.value);
            }
            Some(OverlayKey::IncludeFile) => {
                let given = reader.boolean("`overlay.include_file`", &entry.value);
                overlay.include_file = given.unwrap_or_default();
            }
            None => reader.unknown_key(what, entry, OverlayKey::words()),
        }
    }
    Some(overlay)
}

fn read_paths(reader: &mut Reader<'_>, what: &str, tree: &Tree) -> Vec<String> {
    let mut paths = Vec::new();
    for path in reader.texts(what, "paths", tree).unwrap_or_default() {
        if check_inner_path(reader, what, &path)
            && let Some(path) = read_path(reader, what, &path)
            && !paths.contains(&path)
        {
            paths.push(path);
        }
    }
    paths
}

/// Returns a path without `.` parts, after saying what keeps it from being copied.
fn read_path(reader: &mut Reader<'_>, what: &str, path: &At<String>) -> Option<String> {
    let parts: Vec<&str> = path.value.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let shown = clip(&path.value);
    let said = if parts.is_empty() {
        Some((format!("{what} names single files and folders, not the whole tree"), None))
    } else if parts.iter().any(|part| part.eq_ignore_ascii_case(".git")) {
        Some((format!("`{shown}` is git's own, so {what} can't copy it"), None))
    } else if let Some(folder) = dependency_folder(&path.value) {
        let message = format!("`{shown}` is a dependency folder, so {what} can't copy it");
        Some((message, Some(format!("`{folder}` is made in each lane; `provision` says how"))))
    } else if path.value.contains(['*', '?']) {
        let hint = "`{include_file: true}` takes the patterns of the file `.worktreeinclude`";
        Some((format!("{what} takes paths, not patterns like `{shown}`"), Some(hint.to_owned())))
    } else if path.value.chars().any(char::is_control) {
        Some((format!("a path of {what} holds a control character"), None))
    } else {
        None
    };
    let Some((message, hint)) = said else { return Some(parts.join("/")) };
    let problem = reader.report.error(Code::WrongValue, path.at, message);
    if let Some(hint) = hint {
        problem.hint(hint);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_folder_is_known_at_any_depth() {
        let found =
            ["node_modules", "a/node_modules/b", ".venv", "targets/x", "my-vendor"].map(dependency_folder);
        assert_eq!(found, [Some("node_modules"), Some("node_modules"), Some(".venv"), None, None]);
    }
}
