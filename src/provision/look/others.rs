//! Composer, Bundler, Mix and .NET, as far as what they write of themselves goes. Made from their
//! documents; not measured with the real tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Hole;
use super::outline;
use super::tree::{Ground, Kind, plain};

/// Deepest folder that projects of .NET are looked for in.
const DEPTH_MAX: u32 = 8;

pub(super) fn composer(ground: &mut Ground) -> Result<(), Hole> {
    let lock: Value = ground.json(Path::new("composer.lock"))?.unwrap_or_default();
    let manifest: Value = ground.json(Path::new("composer.json"))?.unwrap_or_default();
    let vendor = PathBuf::from(manifest["config"]["vendor-dir"].as_str().unwrap_or("vendor"));
    let packages = ["packages", "packages-dev"].iter().filter_map(|key| lock[*key].as_array()).flatten();
    let packages: Vec<&Value> = packages.collect();
    if !ground.folder(&vendor)? && packages.is_empty() {
        return Ok(());
    }
    ground.mark(&vendor.join("autoload.php"))?;
    let list = vendor.join("composer/installed.json");
    ground.mark(&list)?;
    let installed: Value = ground.json(&list)?.unwrap_or_default();
    // Composer 1 has the list at the top.
    let installed = installed["packages"].as_array().or(installed.as_array()).cloned().unwrap_or_default();
    let by_name: BTreeMap<&str, &Value> =
        installed.iter().filter_map(|package| Some((package["name"].as_str()?, package))).collect();
    for package in packages {
        let Some(name) = package["name"].as_str() else { continue };
        let Some(found) = by_name.get(name) else {
            return Err(Hole::Missing { what: name.into(), path: vendor.join(name) });
        };
        let (wanted, version) = (package["version"].as_str(), found["version"].as_str());
        if let (Some(wanted), Some(version)) = (wanted, version)
            && wanted != version
        {
            let (wanted, found) = (wanted.to_string(), version.to_string());
            return Err(Hole::OtherVersion { package: name.into(), wanted, found });
        }
        if package["type"] == "metapackage"
            || found["install-path"].is_null() && found.get("install-path").is_some()
        {
            continue;
        }
        let place = match found["install-path"].as_str() {
            Some(place) => plain(&vendor.join("composer").join(place)),
            None => vendor.join(name),
        };
        filled(ground, &place, name)?;
    }
    Ok(())
}

/// Asks for a folder with something in it, and takes its first files for witnesses.
fn filled(ground: &mut Ground, path: &Path, what: &str) -> Result<(), Hole> {
    // A path repository is linked to.
    let Some(place) = ground.place(path)? else {
        return Err(Hole::Missing { what: what.into(), path: path.into() });
    };
    let names = ground.names(&place)?;
    if names.is_empty() {
        return Err(Hole::Empty { path: path.into() });
    }
    for name in names {
        let file = place.join(name);
        if matches!(ground.kind(&file)?, Kind::File(_)) {
            return ground.witness(&file);
        }
    }
    Ok(())
}

pub(super) fn bundler(ground: &mut Ground) -> Result<(), Hole> {
    let settings = outline::parse(&ground.text(Path::new(".bundle/config"))?.unwrap_or_default());
    let home = match settings.text("BUNDLE_PATH") {
        "" => PathBuf::from("vendor/bundle"),
        path => PathBuf::from(path),
    };
    // Gems of a shared home are not the lane's to be looked at.
    if home.is_absolute() {
        return Ok(());
    }
    let is_there = ground.folder(&home)?;
    let lock = outline::parse(&ground.text(Path::new("Gemfile.lock"))?.unwrap_or_default());
    let specs = lock.below.iter().filter(|section| section.key == "GEM").flat_map(|gem| gem.list("specs"));
    let mut gems: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for spec in specs {
        gems.entry(&spec.key).or_default().push(spec.value.trim_matches(['(', ')']));
    }
    let mut folders: BTreeMap<String, PathBuf> = BTreeMap::new();
    for engine in if is_there { ground.names(&home)? } else { Vec::new() } {
        for version in ground.names(&home.join(&engine))? {
            let gems = home.join(&engine).join(version).join("gems");
            folders.extend(ground.names(&gems)?.into_iter().map(|name| (name.clone(), gems.join(name))));
        }
    }
    // Groups that are switched off are not known here, so a gem may be missing; one that is there is whole.
    for (name, versions) in gems {
        for version in versions {
            if let Some(folder) = folders.get(&format!("{name}-{version}")) {
                filled(ground, folder, name)?;
            }
        }
    }
    if folders.is_empty() && lock.get("GEM").is_some_and(|gem| !gem.list("specs").is_empty()) {
        return Err(Hole::Missing { what: "every gem".into(), path: home });
    }
    Ok(())
}

pub(super) fn mix(ground: &mut Ground) -> Result<(), Hole> {
    let deps = PathBuf::from("deps");
    let lock = ground.text(Path::new("mix.lock"))?.unwrap_or_default();
    let locked = lock.lines().any(|line| line.trim_start().starts_with('"'));
    if !ground.folder(&deps)? {
        return match locked {
            true => Err(Hole::Missing { what: "what mix.lock names".into(), path: deps }),
            false => Ok(()),
        };
    }
    // The lockfile may list what is no longer used, so that only what is there can be judged.
    for name in ground.names(&deps)? {
        if ground.kind(&deps.join(&name))? == Kind::Folder {
            filled(ground, &deps.join(&name), &name)?;
        }
    }
    Ok(())
}

pub(super) fn dotnet(ground: &mut Ground) -> Result<(), Hole> {
    let mut projects = Vec::new();
    find_projects(ground, Path::new(""), 0, &mut projects)?;
    for folder in projects {
        let cache = folder.join("obj/project.nuget.cache");
        // Artifacts may lie elsewhere (`UseArtifactsOutput`).
        if !ground.leads_somewhere(&folder.join("obj")) && ground.leads_somewhere(Path::new("artifacts/obj"))
        {
            continue;
        }
        ground.mark(&folder.join("obj/project.assets.json"))?;
        ground.mark(&cache)?;
        let state: Value = ground.json(&cache)?.unwrap_or_default();
        if state["success"] != true {
            return Err(Hole::Unreadable { path: cache, detail: "the restore did not succeed".into() });
        }
        for file in state["expectedPackageFiles"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !ground.leads_somewhere(Path::new(file)) {
                return Err(Hole::Missing { what: "a package".into(), path: file.into() });
            }
        }
    }
    Ok(())
}

fn find_projects(ground: &Ground, at: &Path, depth: u32, found: &mut Vec<PathBuf>) -> Result<(), Hole> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    let names = ground.names(at)?;
    if names.iter().any(|name| [".csproj", ".fsproj", ".vbproj"].iter().any(|end| name.ends_with(end))) {
        found.push(at.to_path_buf());
        return Ok(());
    }
    for name in names {
        let inner = at.join(&name);
        let passed = name.starts_with('.') || ["node_modules", "obj", "bin"].contains(&name.as_str());
        if !passed && ground.kind(&inner)? == Kind::Folder {
            find_projects(ground, &inner, depth + 1, found)?;
        }
    }
    Ok(())
}
