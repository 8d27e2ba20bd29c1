//! npm: each place that the lockfile names holds the package of that version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::packages::{self, Found};
use super::tree::{Ground, Kind};
use super::{Hole, packages::is_version};

const MARK: &str = "node_modules/.package-lock.json";

/// A lockfile: version 1 has `dependencies`, 3 has `packages`, 2 has both.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Lock {
    lockfile_version: Option<Value>,
    packages: Option<BTreeMap<String, Place>>,
    dependencies: Option<BTreeMap<String, Old>>,
}

/// A place of version 2 and 3.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Place {
    name: Option<String>,
    version: Option<String>,
    link: bool,
    optional: bool,
    dev_optional: bool,
    peer: bool,
    in_bundle: bool,
    bin: Option<Value>,
}

/// A package of version 1.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Old {
    version: Option<String>,
    optional: bool,
    dependencies: Option<BTreeMap<String, Old>>,
}

pub(super) fn look(ground: &mut Ground) -> Result<(), Hole> {
    let lock = match ground.json::<Lock>(Path::new("npm-shrinkwrap.json"))? {
        Some(lock) => Some(lock),
        None => ground.json(Path::new("package-lock.json"))?,
    };
    let own = ground.folder(Path::new("node_modules"))?;
    let hidden: Option<Lock> = if own { ground.json(Path::new(MARK))? } else { None };
    let asked = match lock {
        Some(Lock { packages: Some(places), .. }) => by_place(ground, &places, hidden.as_ref())?,
        Some(Lock { dependencies: Some(old), .. }) => {
            let known = hidden.as_ref().and_then(|hidden| hidden.packages.as_ref());
            by_name(ground, &old, Path::new(""), known)?
        }
        // A lockfile without either: `{}`, or a manifest without dependencies.
        Some(Lock { .. }) => false,
        None => {
            let asked = packages::require_direct(ground, Path::new(""))?;
            // Without a lockfile the mark is the one list there is.
            if let Some(Lock { packages: Some(places), .. }) = &hidden {
                by_place(ground, places, hidden.as_ref())?;
            }
            asked
        }
    };
    if !asked && hidden.is_none() {
        return Ok(());
    }
    ground.mark(Path::new(MARK))?;
    match hidden {
        Some(Lock { lockfile_version: Some(_), .. }) => Ok(()),
        Some(Lock { lockfile_version: None, .. }) | None => {
            Err(Hole::Unreadable { path: MARK.into(), detail: "it has no lockfileVersion".into() })
        }
    }
}

/// Returns whether anything was asked for.
fn by_place(
    ground: &mut Ground,
    places: &BTreeMap<String, Place>,
    hidden: Option<&Lock>,
) -> Result<bool, Hole> {
    let known = hidden.and_then(|hidden| hidden.packages.as_ref());
    let stored = known.is_some_and(|known| known.keys().any(|key| key.starts_with("node_modules/.store/")));
    let store = if stored { Some(store(ground)?) } else { None };
    let mut asked = false;
    for (key, place) in places {
        let Some(name) = name_of(key) else { continue };
        let path = Path::new(key);
        // What npm may leave out, and then does not list as installed: another platform's, a failed
        // optional build, peers under `legacy-peer-deps`.
        let may_lack = place.optional || place.dev_optional || place.peer;
        if may_lack && !is_listed(known, key) && is_bare(ground, path)? {
            continue;
        }
        asked |= !may_lack || is_listed(known, key);
        if place.link {
            if !ground.leads_somewhere(path) {
                return Err(Hole::Missing { what: name.into(), path: path.into() });
            }
            ground.witness(path)?;
            continue;
        }
        // `npm install --install-strategy=linked` keeps packages in a store, and links to some.
        if let Some(store) = &store
            && !key.starts_with("node_modules/.store/")
            && ground.kind(path)? == Kind::Absent
        {
            let real = place.name.as_deref().unwrap_or(name);
            packages::among(store, real, place.version.as_deref())?;
            continue;
        }
        let version = place.version.as_deref().filter(|_| !place.in_bundle);
        packages::require(ground, path, name, version)?;
        programs(ground, path, place.bin.as_ref())?;
    }
    Ok(asked)
}

/// A program that a full disk left without content.
fn programs(ground: &mut Ground, package: &Path, bin: Option<&Value>) -> Result<(), Hole> {
    let Some(Value::Object(bin)) = bin else { return Ok(()) };
    for target in bin.values().filter_map(Value::as_str) {
        let path = package.join(target);
        if ground.kind(&path)? == Kind::File(0) {
            return Err(Hole::Empty { path });
        }
    }
    Ok(())
}

/// Returns the package's name in a key that is a place in `node_modules`.
fn name_of(key: &str) -> Option<&str> {
    let at = key.rfind("node_modules/")?;
    let name = &key[at + "node_modules/".len()..];
    // The folders of a store are listed too, and are no packages.
    (!name.is_empty() && !name.starts_with(".store/")).then_some(name)
}

/// Returns whether there is no package at a place, at most packages below it.
fn is_bare(ground: &Ground, path: &Path) -> Result<bool, Hole> {
    Ok(match ground.kind(path)? {
        Kind::Absent => true,
        Kind::Folder => ground.names(path)?.iter().all(|name| name == "node_modules"),
        Kind::File(_) | Kind::Link | Kind::Other => false,
    })
}

/// Returns whether npm itself says that it installed a package at a place.
fn is_listed(known: Option<&BTreeMap<String, Place>>, place: &str) -> bool {
    known.is_some_and(|known| known.contains_key(place))
}

fn store(ground: &mut Ground) -> Result<Found, Hole> {
    let mut found = Found::new();
    let store = PathBuf::from("node_modules/.store");
    for name in ground.names(&store)? {
        let folder = store.join(&name);
        if name.starts_with('@') {
            for inner in ground.names(&folder)? {
                packages::gather(ground, &folder.join(inner).join("node_modules"), &mut found)?;
            }
        } else {
            packages::gather(ground, &folder.join("node_modules"), &mut found)?;
        }
    }
    Ok(found)
}

fn by_name(
    ground: &mut Ground,
    old: &BTreeMap<String, Old>,
    at: &Path,
    known: Option<&BTreeMap<String, Place>>,
) -> Result<bool, Hole> {
    let mut asked = false;
    for (name, package) in old {
        let path = at.join("node_modules").join(name);
        let inner = package.dependencies.as_ref();
        let listed = is_listed(known, &path.to_string_lossy());
        if package.optional && !listed && is_bare(ground, &path)? {
            continue;
        }
        asked |= !package.optional || listed;
        let version = package.version.as_deref().unwrap_or_default();
        // A folder of the repository's, linked; its own dependencies lie with it.
        if let Some(folder) = version.strip_prefix("file:") {
            if !ground.leads_somewhere(&path) {
                return Err(Hole::Missing { what: name.clone(), path });
            }
            ground.witness(&path)?;
            let folder = PathBuf::from(folder);
            if let Some(inner) = inner
                && ground.kind(&folder)? == Kind::Folder
            {
                by_name(ground, inner, &folder, known)?;
            }
            continue;
        }
        let alias = version.strip_prefix("npm:").and_then(|rest| rest.rsplit_once('@'));
        let version = alias.map_or(version, |(_, version)| version);
        packages::require(ground, &path, name, Some(version).filter(|version| is_version(version)))?;
        if let Some(inner) = inner {
            by_name(ground, inner, &path, known)?;
        }
    }
    Ok(asked)
}
