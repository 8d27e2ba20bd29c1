//! Yarn 2 and later. Its linker decides what an install leaves: `.pnp.cjs`, a `node_modules` with a state
//! file that names each folder, or pnpm's layout.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::outline::{self, Entry};
use super::tree::{Ground, Kind, plain};
use super::{Hole, packages, yarn};

const LOCK: &str = "yarn.lock";
const STATE: &str = "node_modules/.yarn-state.yml";
const PNP: &str = ".pnp.cjs";

pub(super) fn look(ground: &mut Ground) -> Result<(), Hole> {
    let settings = outline::parse(&ground.text(Path::new(".yarnrc.yml"))?.unwrap_or_default());
    let lock = outline::parse(&ground.text(Path::new(LOCK))?.unwrap_or_default());
    if lock.get("__metadata").is_none() {
        return Err(Hole::Unreadable { path: LOCK.into(), detail: "it has no __metadata".into() });
    }
    let state = match settings.text("installStatePath") {
        "" => ".yarn/install-state.gz",
        other => other,
    };
    ground.mark(&plain(Path::new(state)))?;
    match settings.text("nodeLinker") {
        "node-modules" => node_modules(ground, &lock),
        "pnpm" => {
            ground.folder(Path::new("node_modules"))?;
            let store = Path::new("node_modules/.store");
            for name in ground.names(store)? {
                packages::require(ground, &store.join(&name).join("package"), &name, None)?;
            }
            for (folder, _) in yarn::projects(ground)? {
                packages::require_direct(ground, &folder)?;
            }
            Ok(())
        }
        "" | "pnp" => pnp(ground, &lock),
        // A linker of a plugin's: nothing is known of what it leaves.
        _ => Ok(()),
    }
}

fn node_modules(ground: &mut Ground, lock: &Entry) -> Result<(), Hole> {
    let own = ground.folder(Path::new("node_modules"))?;
    let wanted = reachable(ground, lock)?;
    if wanted.is_empty() && !own {
        return Ok(());
    }
    ground.mark(Path::new(STATE))?;
    let state = outline::parse(&ground.text(Path::new(STATE))?.unwrap_or_default());
    if state.get("__metadata").is_none() {
        return Err(Hole::Unreadable { path: STATE.into(), detail: "it has no __metadata".into() });
    }
    let mut idents: BTreeSet<&str> = BTreeSet::new();
    let mut locators: BTreeSet<&str> = BTreeSet::new();
    for entry in &state.below {
        let Some((ident, reference)) = split(&entry.key) else { continue };
        locators.insert(&entry.key);
        // Of patched packages and those with peers the state has another spelling than the lockfile.
        if reference.starts_with("patch:") || reference.starts_with("virtual:") {
            idents.insert(ident);
        }
        for location in entry.list("locations") {
            let folder = Path::new(&location.key);
            if location.key.is_empty() {
                continue;
            }
            if ["workspace:", "link:", "portal:"].iter().any(|prefix| reference.starts_with(prefix)) {
                if !ground.leads_somewhere(folder) {
                    return Err(Hole::Missing { what: ident.into(), path: folder.into() });
                }
                ground.witness(folder)?;
                continue;
            }
            let version = reference.strip_prefix("npm:").filter(|version| packages::is_version(version));
            packages::require(ground, folder, ident, version)?;
        }
    }
    for resolution in wanted {
        let Some((ident, _)) = split(resolution) else { continue };
        if !locators.contains(resolution) && !idents.contains(ident) {
            let path = Path::new("node_modules").join(ident);
            return Err(Hole::Missing { what: resolution.into(), path });
        }
    }
    Ok(())
}

/// Returns the resolutions that every install on every platform has, by way of the lockfile from the
/// workspaces it holds.
fn reachable<'a>(ground: &Ground, lock: &'a Entry) -> Result<Vec<&'a str>, Hole> {
    let mut answers: BTreeMap<&str, &Entry> = BTreeMap::new();
    for entry in &lock.below {
        answers.extend(entry.key.split(", ").map(|key| (key, entry)));
    }
    let mut open: Vec<&Entry> = Vec::new();
    for entry in &lock.below {
        let workspace = split(entry.text("resolution")).and_then(|(_, rest)| rest.strip_prefix("workspace:"));
        if let Some(folder) = workspace
            && ground.leads_somewhere(&plain(Path::new(folder)).join("package.json"))
        {
            open.push(entry);
        }
    }
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut wanted = Vec::new();
    while let Some(entry) = open.pop() {
        let resolution = entry.text("resolution");
        if !entry.text("conditions").is_empty() || !seen.insert(resolution) {
            continue;
        }
        let hard = entry.text("linkType") == "hard";
        if hard {
            wanted.push(resolution);
        }
        let meta = entry.list("dependenciesMeta");
        for need in entry.list("dependencies") {
            let optional = meta.iter().any(|meta| meta.key == need.key && meta.text("optional") == "true");
            if optional {
                continue;
            }
            let descriptor = format!("{}@{}", need.key, need.value);
            // Packages that yarn patches itself are asked for unpatched.
            let patched = format!("{}@patch:{descriptor}#", need.key).replace("@npm:", "@npm%3A");
            let answer = answers.get(descriptor.as_str()).copied();
            let patch = answers.range(patched.as_str()..).next().filter(|(key, _)| key.starts_with(&patched));
            open.extend(patch.map(|(_, entry)| *entry).or(answer));
        }
    }
    Ok(wanted)
}

/// Returns a locator as ident and reference.
fn split(locator: &str) -> Option<(&str, &str)> {
    let at = locator.get(1..)?.find('@')? + 1;
    Some((&locator[..at], &locator[at + 1..]))
}

fn pnp(ground: &mut Ground, lock: &Entry) -> Result<(), Hole> {
    ground.mark(Path::new(PNP))?;
    let state = match ground.json::<Value>(Path::new(".pnp.data.json"))? {
        // With `pnpEnableInlining: false`.
        Some(state) => {
            ground.witness(Path::new(".pnp.data.json"))?;
            state
        }
        None => inlined(&ground.text(Path::new(PNP))?.unwrap_or_default())?,
    };
    let conditional: BTreeSet<&str> = lock
        .below
        .iter()
        .filter(|entry| !entry.text("conditions").is_empty())
        .map(|entry| entry.text("resolution"))
        .collect();
    let none = Vec::new();
    for package in state["packageRegistryData"].as_array().unwrap_or(&none) {
        let Some(ident) = package[0].as_str() else { continue };
        for version in package[1].as_array().unwrap_or(&none) {
            let (Some(reference), Some(location)) =
                (version[0].as_str(), version[1]["packageLocation"].as_str())
            else {
                continue;
            };
            let devirtual = match reference.strip_prefix("virtual:") {
                Some(rest) => rest.split_once('#').map_or(rest, |(_, rest)| rest),
                None => reference,
            };
            let locator = format!("{ident}@{devirtual}");
            package_at(ground, ident, location, conditional.contains(locator.as_str()))?;
        }
    }
    Ok(())
}

/// Asks for a package where plug'n'play says it is: in a folder, or in an archive of the cache.
fn package_at(ground: &mut Ground, ident: &str, location: &str, optional: bool) -> Result<(), Hole> {
    if location.contains("/__virtual__/") {
        // Its place is made up; the real one is listed as well, or is the one of a workspace.
        return Ok(());
    }
    if let Some(at) = location.find(".zip/") {
        let archive = plain(Path::new(&location[..at + ".zip".len()]));
        return match ground.kind(&archive)? {
            // A cache of the tree's own is part of it, one that all share is looked at only now.
            Kind::File(size) if size > 0 => match archive.starts_with("..") || archive.is_absolute() {
                true => Ok(()),
                false => ground.witness(&archive),
            },
            Kind::File(_) => Err(Hole::Empty { path: archive }),
            Kind::Absent if optional => Ok(()),
            Kind::Absent | Kind::Folder | Kind::Link | Kind::Other => {
                Err(Hole::Missing { what: ident.into(), path: archive })
            }
        };
    }
    let folder = plain(Path::new(location));
    if !folder.components().any(|part| part.as_os_str() == "unplugged") {
        // A workspace, or a folder that is linked to.
        return Ok(());
    }
    if optional && ground.kind(&folder)? == Kind::Absent {
        return Ok(());
    }
    packages::require(ground, &folder, ident, None)
}

/// Returns the data that `.pnp.cjs` holds as text of JavaScript.
fn inlined(script: &str) -> Result<Value, Hole> {
    let unreadable = |detail: &str| Hole::Unreadable { path: PathBuf::from(PNP), detail: detail.into() };
    let start = script.find("RAW_RUNTIME_STATE").ok_or_else(|| unreadable("it holds no data"))?;
    let rest = &script[start..];
    let quote = rest.find('\'').ok_or_else(|| unreadable("it holds no data"))?;
    let mut data = String::with_capacity(rest.len());
    let mut letters = rest[quote + 1..].chars();
    loop {
        match letters.next() {
            Some('\\') => match letters.next() {
                Some('\n') => {}
                Some(letter) => data.push(letter),
                None => return Err(unreadable("it breaks off")),
            },
            Some('\'') => break,
            Some(letter) => data.push(letter),
            None => return Err(unreadable("it breaks off")),
        }
    }
    serde_json::from_str(&data).map_err(|error| unreadable(&error.to_string()))
}
