//! pnpm: what its lockfile names lies in its virtual store or, hoisted, where it says itself; and what each
//! project of the workspace names is reachable from it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::Hole;
use super::outline::{self, Entry};
use super::packages::{self, Found, is_version};
use super::tree::{Ground, Kind, plain};

const LOCK: &str = "pnpm-lock.yaml";
const MARK: &str = "node_modules/.modules.yaml";
const STORE: &str = "node_modules/.pnpm";

/// What pnpm says of the tree it made. Versions 8 and 9 wrote YAML, later ones JSON.
#[derive(Default)]
struct Modules {
    skipped: BTreeSet<String>,
    linker: String,
    store: Option<String>,
    hoisted: BTreeMap<String, Vec<String>>,
}

pub(super) fn look(ground: &mut Ground) -> Result<(), Hole> {
    let own = ground.folder(Path::new("node_modules"))?;
    let Some(text) = ground.text(Path::new(LOCK))? else {
        packages::require_direct(ground, Path::new(""))?;
        return ground.mark(Path::new(MARK));
    };
    let lock = outline::parse(&text);
    if lock.get("lockfileVersion").is_none() {
        return Err(Hole::Unreadable { path: LOCK.into(), detail: "it has no lockfileVersion".into() });
    }
    let wanted = wanted(&lock);
    if wanted.is_empty() && !has_direct(&lock) {
        return Ok(());
    }
    if !own {
        return Err(Hole::Missing { what: "the tree of packages".into(), path: "node_modules".into() });
    }
    ground.mark(Path::new(MARK))?;
    let modules = modules(&ground.text(Path::new(MARK))?.unwrap_or_default())?;
    if modules.linker == "pnp" {
        return ground.file(Path::new(".pnp.cjs"), "the resolver of plug'n'play");
    }
    let wanted = wanted.into_iter().filter(|package| !modules.skipped.contains(&package.key));
    if modules.linker == "hoisted" {
        // All that it says it installed, what is optional too.
        for (key, places) in &modules.hoisted {
            let Some((name, version)) = name_and_version(key) else { continue };
            for place in places {
                packages::require(
                    ground,
                    Path::new(place),
                    name,
                    Some(version).filter(|text| is_version(text)),
                )?;
            }
        }
        for package in wanted.filter(|package| !modules.hoisted.contains_key(&package.key)) {
            packages::require(ground, &Path::new("node_modules").join(&package.name), &package.name, None)?;
        }
    } else if in_tree(&modules) {
        let mut found = Found::new();
        packages::gather_store(ground, Path::new(STORE), &mut found)?;
        for package in wanted {
            packages::among(&found, &package.name, package.version.as_deref())?;
        }
    }
    importers(ground, &lock, in_tree(&modules))
}

/// Returns whether the virtual store lies in the tree, and not with all others' (`enableGlobalVirtualStore`).
fn in_tree(modules: &Modules) -> bool {
    modules
        .store
        .as_ref()
        .is_none_or(|store| plain(&Path::new("node_modules").join(store)) == Path::new(STORE))
}

/// A package that an install has to put somewhere.
struct Wanted {
    /// As `.modules.yaml` names it.
    key: String,
    name: String,
    version: Option<String>,
}

/// Returns the packages that are not optional.
fn wanted(lock: &Entry) -> Vec<Wanted> {
    // From version 9 of the format on, what is optional stands apart, once for each set of peers.
    let mut optional: BTreeMap<&str, bool> = BTreeMap::new();
    for snapshot in lock.list("snapshots") {
        let base = without_peers(&snapshot.key);
        let this = snapshot.text("optional") == "true";
        optional.entry(base).and_modify(|all| *all &= this).or_insert(this);
    }
    let mut wanted = Vec::new();
    for package in lock.list("packages") {
        let base = without_peers(&package.key);
        if package.text("optional") == "true" || optional.get(base).copied().unwrap_or(false) {
            continue;
        }
        let (name, version) = match (package.get("name"), name_and_version(base)) {
            (Some(name), _) => (name.value.clone(), ""),
            (None, Some((name, version))) => (name.to_string(), version),
            // Formats before 6 have `/name/1.0.0`; nothing newer than pnpm 7 writes them.
            (None, None) => continue,
        };
        let version = Some(version.to_string()).filter(|version| is_version(version));
        wanted.push(Wanted { key: package.key.clone(), name, version });
    }
    wanted
}

/// Returns the two parts of a key. Version 6 begins those of the registry's packages with a slash.
fn name_and_version(key: &str) -> Option<(&str, &str)> {
    let key = without_peers(key);
    let key = key.strip_prefix('/').unwrap_or(key);
    let at = key.get(1..)?.find('@')? + 1;
    Some((&key[..at], &key[at + 1..]))
}

fn without_peers(key: &str) -> &str {
    key.split('(').next().unwrap_or(key)
}

/// Returns the projects of the workspace with what they name. A file without `importers` has one project.
fn projects(lock: &Entry) -> Vec<(&str, &Entry)> {
    match lock.get("importers") {
        Some(importers) => importers.below.iter().map(|entry| (entry.key.as_str(), entry)).collect(),
        None => vec![(".", lock)],
    }
}

fn has_direct(lock: &Entry) -> bool {
    projects(lock).iter().any(|(_, project)| {
        !project.list("dependencies").is_empty() || !project.list("devDependencies").is_empty()
    })
}

fn importers(ground: &mut Ground, lock: &Entry, in_tree: bool) -> Result<(), Hole> {
    for (folder, project) in projects(lock) {
        let folder = plain(Path::new(folder));
        if !ground.leads_somewhere(&folder.join("package.json")) {
            continue;
        }
        for need in project.list("dependencies").iter().chain(project.list("devDependencies")) {
            let near = folder.join("node_modules").join(&need.key);
            // With `dedupeDirectDeps`, and hoisted, the root's serves all.
            let place = match ground.kind(&near)? {
                Kind::Absent => Path::new("node_modules").join(&need.key),
                Kind::File(_) | Kind::Folder | Kind::Link | Kind::Other => near.clone(),
            };
            if !ground.leads_somewhere(&place) {
                return Err(Hole::Missing { what: need.key.clone(), path: near });
            }
            let version = need.text("version");
            if version.starts_with("link:") || !in_tree {
                ground.witness(&place)?;
                continue;
            }
            packages::require(ground, &place, &need.key, None)?;
            ground.witness(&place)?;
        }
    }
    Ok(())
}

fn modules(text: &str) -> Result<Modules, Hole> {
    if text.trim_start().starts_with('{') {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Hole::Unreadable { path: MARK.into(), detail: error.to_string() })?;
        let strings = |value: &Value| -> Vec<String> {
            let items = value.as_array().map_or(&[][..], Vec::as_slice);
            items.iter().filter_map(|item| item.as_str().map(str::to_string)).collect()
        };
        let hoisted = value["hoistedLocations"].as_object().into_iter().flatten();
        return Ok(Modules {
            skipped: strings(&value["skipped"]).into_iter().collect(),
            linker: value["nodeLinker"].as_str().unwrap_or_default().to_string(),
            store: value["virtualStoreDir"].as_str().map(str::to_string),
            hoisted: hoisted.map(|(key, places)| (key.clone(), strings(places))).collect(),
        });
    }
    let tree = outline::parse(text);
    if tree.get("layoutVersion").is_none() {
        return Err(Hole::Unreadable { path: MARK.into(), detail: "it has no layoutVersion".into() });
    }
    let keys = |entries: &[Entry]| entries.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>();
    let hoisted = tree.list("hoistedLocations").iter();
    Ok(Modules {
        // pnpm 8 spells keys here as its folders and not as its lockfile; none of those is lost: what it
        // skips is optional.
        skipped: keys(tree.list("skipped")).into_iter().collect(),
        linker: tree.text("nodeLinker").to_string(),
        store: tree.get("virtualStoreDir").map(|entry| entry.value.clone()),
        hoisted: hoisted.map(|entry| (entry.key.clone(), keys(&entry.below))).collect(),
    })
}
