//! Yarn 1: what can be reached from the manifests by way of the lockfile lies somewhere in the tree. It says
//! nowhere where, and its own mark and check see no missing folder (measured).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Hole;
use super::outline::{self, Entry};
use super::packages::{self, Found, Manifest, is_version};
use super::tree::{Ground, Kind};

const LOCK: &str = "yarn.lock";
const MARK: &str = "node_modules/.yarn-integrity";

pub(super) fn look(ground: &mut Ground) -> Result<(), Hole> {
    let own = ground.folder(Path::new("node_modules"))?;
    let projects = projects(ground)?;
    let Some(text) = ground.text(Path::new(LOCK))? else {
        packages::require_direct(ground, Path::new(""))?;
        return ground.mark(Path::new(MARK));
    };
    let lock = outline::parse(&text);
    if let Some(entry) = lock.below.iter().find(|entry| entry.get("version").is_none()) {
        let detail = format!("`{}` has no version", entry.key);
        return Err(Hole::Unreadable { path: LOCK.into(), detail });
    }
    let wanted = reachable(&lock, projects.iter().flat_map(|(_, manifest)| manifest.needs()));
    if wanted.is_empty() && !own {
        return Ok(());
    }
    ground.mark(Path::new(MARK))?;
    let _: Value = ground.json(Path::new(MARK))?.unwrap_or_default();
    let mut found = Found::new();
    for (folder, _) in &projects {
        packages::gather(ground, &folder.join("node_modules"), &mut found)?;
    }
    for (name, range, entry) in wanted {
        if range.starts_with("link:") {
            let place = Path::new("node_modules").join(name);
            if !ground.leads_somewhere(&place) {
                return Err(Hole::Missing { what: name.into(), path: place });
            }
            ground.witness(&place)?;
            continue;
        }
        let version = Some(entry.text("version")).filter(|version| is_version(version));
        packages::among(&found, name, version)?;
    }
    Ok(())
}

/// Returns the folders of the root and of its workspaces, with their manifests.
pub(super) fn projects(ground: &Ground) -> Result<Vec<(PathBuf, Manifest)>, Hole> {
    let root: Manifest = ground.json(Path::new("package.json"))?.unwrap_or_default();
    let patterns = match &root.workspaces {
        Some(Value::Object(map)) => map.get("packages").cloned(),
        other => other.clone(),
    };
    let patterns = patterns.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
    let mut projects = vec![(PathBuf::new(), root)];
    for pattern in patterns.iter().filter_map(Value::as_str) {
        for folder in matching(ground, pattern)? {
            if let Some(manifest) = ground.json::<Manifest>(&folder.join("package.json"))? {
                projects.push((folder, manifest));
            }
        }
    }
    Ok(projects)
}

/// Returns the folders that a workspace pattern names: `packages/a`, `packages/*`. What goes deeper
/// (`**`) or excludes (`!`) is not followed, so that less is asked for.
fn matching(ground: &Ground, pattern: &str) -> Result<Vec<PathBuf>, Hole> {
    let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
    if pattern.starts_with('!') || pattern.contains("**") {
        return Ok(Vec::new());
    }
    let mut folders = vec![PathBuf::new()];
    for part in pattern.split('/') {
        let mut next = Vec::new();
        for folder in folders {
            match part.split_once('*') {
                None => next.push(folder.join(part)),
                Some((before, after)) => {
                    for name in ground.names(&folder)? {
                        let path = folder.join(&name);
                        let fits = name.len() >= before.len() + after.len()
                            && name.starts_with(before)
                            && name.ends_with(after);
                        if fits && name != "node_modules" && ground.kind(&path)? == Kind::Folder {
                            next.push(path);
                        }
                    }
                }
            }
        }
        folders = next;
    }
    Ok(folders)
}

/// Returns the entries that `needs` lead to without an optional step, each with the name of its folder and
/// the range that was asked for.
/// A need that no entry answers is a workspace's, or replaced by `resolutions`.
fn reachable(lock: &Entry, needs: impl Iterator<Item = (String, String)>) -> Vec<(&str, &str, &Entry)> {
    let mut answers: BTreeMap<&str, &Entry> = BTreeMap::new();
    for entry in &lock.below {
        answers.extend(entry.key.split(", ").map(|key| (key, entry)));
    }
    let mut open: Vec<String> = needs.map(|(name, range)| format!("{name}@{range}")).collect();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut wanted = Vec::new();
    while let Some(need) = open.pop() {
        let Some((key, entry)) = answers.get_key_value(need.as_str()) else { continue };
        if !seen.insert(key) {
            continue;
        }
        let at = key.get(1..).and_then(|rest| rest.find('@')).map_or(key.len(), |at| at + 1);
        wanted.push((&key[..at], key[at..].trim_start_matches('@'), *entry));
        let optional: BTreeSet<&str> =
            entry.list("optionalDependencies").iter().map(|need| need.key.as_str()).collect();
        let needs = entry.list("dependencies").iter();
        let needs = needs.filter(|need| !optional.contains(need.key.as_str()));
        open.extend(needs.map(|need| format!("{}@{}", need.key, need.value)));
    }
    wanted
}
