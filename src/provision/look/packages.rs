//! Node packages on the disk: a folder is one where its `package.json` says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Hole;
use super::tree::{Ground, Kind};

/// Deepest nesting of `node_modules` that is followed.
const DEPTH_MAX: u32 = 40;

/// What of a `package.json` matters here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Manifest {
    pub version: Option<serde_json::Value>,
    pub dependencies: Option<serde_json::Value>,
    #[serde(rename = "devDependencies")]
    pub dev_dependencies: Option<serde_json::Value>,
    pub workspaces: Option<serde_json::Value>,
}

impl Manifest {
    /// Returns the names and ranges that an install of the whole has to fetch.
    pub fn needs(&self) -> Vec<(String, String)> {
        let both = [&self.dependencies, &self.dev_dependencies];
        let entries = both.into_iter().flatten().filter_map(|value| value.as_object()).flatten();
        entries.map(|(name, range)| (name.clone(), range.as_str().unwrap_or_default().to_string())).collect()
    }
}

/// Asks for a package in a folder, and for its version where one is known; takes its manifest for a witness.
pub(super) fn require(
    ground: &mut Ground,
    folder: &Path,
    name: &str,
    version: Option<&str>,
) -> Result<(), Hole> {
    let path = folder.join("package.json");
    ground.file(&path, name)?;
    let manifest: Manifest = ground.json(&path)?.unwrap_or_default();
    let found = manifest.version.as_ref().and_then(|version| version.as_str());
    match (version, found) {
        (Some(wanted), Some(found)) if !is_same(wanted, found) => {
            Err(Hole::OtherVersion { package: name.into(), wanted: wanted.into(), found: found.into() })
        }
        (Some(_), _) | (None, _) => Ok(()),
    }
}

/// Returns whether two spellings are one version: a lockfile has it without a `v` or build data.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    fn clean(version: &str) -> &str {
        let version = version.trim().trim_start_matches(['=', 'v', ' ']);
        version.split('+').next().unwrap_or(version)
    }
    clean(one) == clean(other)
}

/// Returns whether a text begins like a version number, and not like an address or a path.
pub(super) fn is_version(text: &str) -> bool {
    text.split('.').count() >= 3
        && text.starts_with(|letter: char| letter.is_ascii_digit())
        && !text.contains('/')
}

/// Packages by name, each with its versions and their folders.
pub(super) type Found = BTreeMap<String, Vec<(String, PathBuf)>>;

/// Gathers the packages of a `node_modules` folder and of those inside them. Links are not followed, and
/// what begins with a dot belongs to tools. An empty folder in the place of a package is a hole.
pub(super) fn gather(ground: &mut Ground, folder: &Path, found: &mut Found) -> Result<(), Hole> {
    gather_at(ground, folder, found, 0)
}

/// Gathers the packages of a store, which has a folder for each with a `node_modules` that holds it and
/// links to what it needs. One that holds only links has lost its package.
pub(super) fn gather_store(ground: &mut Ground, store: &Path, found: &mut Found) -> Result<(), Hole> {
    for name in ground.names(store)? {
        let folder = store.join(&name).join("node_modules");
        if name == "node_modules" || ground.kind(&folder)? != Kind::Folder {
            continue;
        }
        let mut here = Found::new();
        gather(ground, &folder, &mut here)?;
        if here.is_empty() {
            return Err(Hole::Missing { what: name, path: folder });
        }
        for (name, versions) in here {
            found.entry(name).or_default().extend(versions);
        }
    }
    Ok(())
}

fn gather_at(ground: &mut Ground, folder: &Path, found: &mut Found, depth: u32) -> Result<(), Hole> {
    if depth > DEPTH_MAX || ground.kind(folder)? != Kind::Folder {
        return Ok(());
    }
    for name in ground.names(folder)? {
        let path = folder.join(&name);
        if name.starts_with('.') || ground.kind(&path)? != Kind::Folder {
            continue;
        }
        if !name.starts_with('@') {
            gather_one(ground, &path, name, found, depth)?;
            continue;
        }
        for inner in ground.names(&path)? {
            let package = path.join(&inner);
            if ground.kind(&package)? == Kind::Folder {
                gather_one(ground, &package, format!("{name}/{inner}"), found, depth)?;
            }
        }
    }
    Ok(())
}

fn gather_one(
    ground: &mut Ground,
    path: &Path,
    name: String,
    found: &mut Found,
    depth: u32,
) -> Result<(), Hole> {
    let manifest = path.join("package.json");
    match ground.kind(&manifest)? {
        Kind::File(_) => {
            ground.file(&manifest, &name)?;
            let manifest: Manifest = ground.json(&manifest)?.unwrap_or_default();
            let version = manifest.version.as_ref().and_then(|version| version.as_str()).unwrap_or_default();
            found.entry(name).or_default().push((version.to_string(), path.to_path_buf()));
        }
        Kind::Absent if ground.names(path)?.is_empty() => return Err(Hole::Empty { path: path.into() }),
        // Not a package: a cache of a tool's, or a fixture.
        Kind::Absent | Kind::Folder | Kind::Link | Kind::Other => {}
    }
    gather_at(ground, &path.join("node_modules"), found, depth + 1)
}

/// Asks for a package among those gathered, by version where one is known.
pub(super) fn among(found: &Found, name: &str, version: Option<&str>) -> Result<(), Hole> {
    let missing = || Hole::Missing { what: name.into(), path: Path::new("node_modules").join(name) };
    let all = found.get(name).ok_or_else(missing)?;
    let Some(wanted) = version else { return Ok(()) };
    match all.iter().any(|(version, _)| version.is_empty() || is_same(version, wanted)) {
        true => Ok(()),
        false => Err(Hole::OtherVersion {
            package: name.into(),
            wanted: wanted.into(),
            found: all.iter().map(|(version, _)| version.as_str()).collect::<Vec<_>>().join(", "),
        }),
    }
}

/// Asks for what a folder's `package.json` names, in its own `node_modules` or the root's: all that can be
/// known where there is no lockfile, or one that can't be read.
pub(super) fn require_direct(ground: &mut Ground, importer: &Path) -> Result<bool, Hole> {
    let manifest: Manifest = ground.json(&importer.join("package.json"))?.unwrap_or_default();
    let needs = manifest.needs();
    for (name, range) in &needs {
        let near = importer.join("node_modules").join(name);
        let far = Path::new("node_modules").join(name);
        let place = if ground.kind(&near)? == Kind::Absent { far } else { near };
        if ["link:", "portal:"].iter().any(|prefix| range.starts_with(prefix)) {
            if !ground.leads_somewhere(&place) {
                return Err(Hole::Missing { what: name.clone(), path: place });
            }
            ground.witness(&place)?;
        } else {
            require(ground, &place, name, None)?;
        }
    }
    Ok(!needs.is_empty())
}
