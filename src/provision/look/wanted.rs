//! Which Python distributions a lockfile, a list of requirements or a manifest asks for on every platform.
//! What a marker decides, or an extra that nobody asked for, is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::Hole;
use super::tree::{Ground, plain};

/// Most lists of requirements that are read for one.
const INCLUDED_MAX: usize = 100;

/// A distribution's normal name, and its version where exactly one is asked for.
pub(super) type Wanted = (String, Option<String>);

/// Returns a distribution's name as all its spellings are compared (packaging.python.org, name normalization).
pub(super) fn normal(name: &str) -> String {
    let parts = name.split(['-', '_', '.']).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_lowercase()
}

/// Returns whether two spellings are one version; what a build adds to it does not count.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    fn clean(version: &str) -> String {
        let version = version.trim().trim_start_matches('v').to_lowercase();
        let version = version.split('+').next().unwrap_or_default();
        let mut version = version.replace(['-', '_'], ".");
        while let Some(shorter) = version.strip_suffix(".0") {
            version = shorter.to_string();
        }
        version
    }
    clean(one) == clean(other)
}

/// Returns the normal name of the project at the root, where its manifest has one.
pub(super) fn own_name(ground: &Ground) -> Result<Option<String>, Hole> {
    let manifest = ground.toml(Path::new("pyproject.toml"))?.unwrap_or_default();
    let poetry = manifest.get("tool").and_then(|tool| tool.get("poetry"));
    let name = manifest.get("project").and_then(|project| project.get("name"));
    let name = name.or_else(|| poetry.and_then(|poetry| poetry.get("name")));
    Ok(name.and_then(Value::as_str).map(normal))
}

/// Returns what the first of the known files asks for.
pub(super) fn any(ground: &Ground) -> Result<Vec<Wanted>, Hole> {
    if let Some(lock) = ground.toml(Path::new("uv.lock"))? {
        return uv(ground, &lock);
    }
    if ground.leads_somewhere(Path::new("poetry.lock")) {
        return poetry(ground);
    }
    // Of these two, only that the environment is whole is known here.
    if ["pdm.lock", "Pipfile.lock"].iter().any(|lock| ground.leads_somewhere(Path::new(lock))) {
        return Ok(Vec::new());
    }
    let mut wanted = Vec::new();
    if ground.leads_somewhere(Path::new("requirements.txt")) {
        requirements(ground, Path::new("requirements.txt"), &mut wanted)?;
        return Ok(wanted);
    }
    let manifest = ground.toml(Path::new("pyproject.toml"))?.unwrap_or_default();
    let project = manifest.get("project");
    let listed = project.and_then(|project| project.get("dependencies")).and_then(Value::as_array);
    let lines = listed.into_iter().flatten().filter_map(Value::as_str);
    wanted.extend(lines.filter_map(requirement));
    if project.is_some() {
        wanted.extend(own_name(ground)?.map(|name| (name, None)));
    }
    Ok(wanted)
}

fn tables(of: Option<&Value>) -> impl Iterator<Item = &Table> {
    of.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

fn text<'a>(table: &'a Table, key: &str) -> Option<&'a str> {
    table.get(key).and_then(Value::as_str)
}

/// `uv.lock`: from the project at the root along dependencies without a marker.
fn uv(ground: &Ground, lock: &Table) -> Result<Vec<Wanted>, Hole> {
    if !lock.contains_key("version") {
        return Err(Hole::Unreadable { path: "uv.lock".into(), detail: "it has no version".into() });
    }
    let manifest = ground.toml(Path::new("pyproject.toml"))?.unwrap_or_default();
    let groups = manifest.get("tool").and_then(|tool| tool.get("uv")).and_then(|uv| uv.get("default-groups"));
    let mut packages: BTreeMap<&str, Vec<&Table>> = BTreeMap::new();
    for package in tables(lock.get("package")) {
        packages.entry(text(package, "name").unwrap_or_default()).or_default().push(package);
    }
    let source = |package: &Table, kind: &str| -> Option<String> {
        let source = package.get("source").and_then(Value::as_table);
        source.and_then(|source| text(source, kind)).map(str::to_string)
    };
    let mut open: Vec<(&str, Option<&str>)> = Vec::new();
    let mut wanted = Vec::new();
    for (name, same) in &packages {
        for package in same {
            let here = ["editable", "virtual", "directory"]
                .iter()
                .any(|kind| source(package, kind).as_deref() == Some("."));
            if !here {
                continue;
            }
            open.push((*name, None));
            let dev = package.get("dev-dependencies").and_then(Value::as_table);
            for (group, needs) in dev.into_iter().flatten() {
                let on = match groups {
                    Some(Value::Array(groups)) => groups.iter().any(|on| on.as_str() == Some(group)),
                    Some(Value::String(all)) => all == "all",
                    _ => group == "dev",
                };
                if on {
                    open.extend(follow(Some(needs)));
                }
            }
        }
    }
    let mut seen = BTreeSet::new();
    while let Some((name, extra)) = open.pop() {
        if !seen.insert((name, extra)) {
            continue;
        }
        let same = packages.get(name).map_or(&[][..], Vec::as_slice);
        if extra.is_none() && same.iter().any(|package| source(package, "virtual").is_none()) {
            // Several versions of one package: markers of the lockfile's choose.
            let version = match same {
                [one] => text(one, "version").map(str::to_string),
                _ => None,
            };
            wanted.push((normal(name), version));
        }
        // Of several, the needs of each hold only where it is chosen.
        if let [package] = same {
            open.extend(match extra {
                None => follow(package.get("dependencies")),
                Some(extra) => {
                    follow(package.get("optional-dependencies").and_then(|extras| extras.get(extra)))
                }
            });
        }
    }
    Ok(wanted)
}

/// Returns the distributions and extras that a list of `uv.lock` names without a marker.
fn follow(needs: Option<&Value>) -> Vec<(&str, Option<&str>)> {
    let mut open = Vec::new();
    for need in tables(needs).filter(|need| !need.contains_key("marker")) {
        let Some(name) = text(need, "name") else { continue };
        open.push((name, None));
        let extras = need.get("extra").and_then(Value::as_array).into_iter().flatten();
        open.extend(extras.filter_map(Value::as_str).map(|extra| (name, Some(extra))));
    }
    open
}

/// `poetry.lock`: packages of groups that are not optional, without a marker.
pub(super) fn poetry(ground: &Ground) -> Result<Vec<Wanted>, Hole> {
    let path = PathBuf::from("poetry.lock");
    let Some(lock) = ground.toml(&path)? else {
        return Err(Hole::Missing { what: "the lockfile".into(), path });
    };
    if !lock.contains_key("metadata") {
        return Err(Hole::Unreadable { path, detail: "it has no metadata".into() });
    }
    let manifest = ground.toml(Path::new("pyproject.toml"))?.unwrap_or_default();
    let tool = manifest.get("tool").and_then(|tool| tool.get("poetry"));
    let groups = tool.and_then(|poetry| poetry.get("group")).and_then(Value::as_table);
    let is_optional = |group: &str| {
        let group = groups.and_then(|groups| groups.get(group));
        group.and_then(|group| group.get("optional")).and_then(Value::as_bool).unwrap_or(false)
    };
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for package in tables(lock.get("package")) {
        *count.entry(normal(text(package, "name").unwrap_or_default())).or_default() += 1;
    }
    let direct = direct(tool);
    let mut wanted = Vec::new();
    for package in tables(lock.get("package")) {
        let name = normal(text(package, "name").unwrap_or_default());
        let optional = package.get("optional").and_then(Value::as_bool).unwrap_or(false);
        if optional || package.contains_key("markers") || count.get(&name) != Some(&1) {
            continue;
        }
        let on = match package.get("groups").and_then(Value::as_array) {
            Some(groups) => groups.iter().filter_map(Value::as_str).any(|group| !is_optional(group)),
            // Poetry 1 keeps markers with those that need a package, so that only what the manifest itself
            // names is certain.
            None => direct.contains(&name),
        };
        if on {
            wanted.push((name, text(package, "version").map(str::to_string)));
        }
    }
    Ok(wanted)
}

/// Returns what a manifest of poetry's names without conditions.
fn direct(tool: Option<&Value>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let Some(tool) = tool else { return names };
    let groups = tool.get("group").and_then(Value::as_table).into_iter().flatten();
    let lists = groups
        .filter(|(_, group)| group.get("optional").and_then(Value::as_bool) != Some(true))
        .filter_map(|(_, group)| group.get("dependencies"))
        .chain(tool.get("dependencies"));
    for list in lists.filter_map(Value::as_table) {
        let plain = list.iter().filter(|(name, version)| *name != "python" && version.is_str());
        names.extend(plain.map(|(name, _)| normal(name)));
    }
    names
}

/// Adds what a list of requirements asks for, and what it includes, each file once.
fn requirements(ground: &Ground, path: &Path, wanted: &mut Vec<Wanted>) -> Result<(), Hole> {
    let mut seen: BTreeSet<PathBuf> = BTreeSet::new();
    let mut queue = vec![path.to_path_buf()];
    while let Some(path) = queue.pop() {
        if seen.len() >= INCLUDED_MAX || !seen.insert(path.clone()) {
            continue;
        }
        let Some(text) = ground.text(&path)? else {
            return Err(Hole::Missing { what: "a list of requirements".into(), path });
        };
        for line in text.replace("\\\n", " ").replace("\\\r\n", " ").lines() {
            // A `#` is part of an address unless a space stands before it.
            let line = if line.trim_start().starts_with('#') { "" } else { line };
            let line = line.split(" #").next().unwrap_or_default().trim();
            let included = line.strip_prefix("--requirement").or_else(|| line.strip_prefix("-r"));
            if let Some(included) = included {
                let included = included.trim_start_matches('=').trim();
                let folder = path.parent().unwrap_or(Path::new(""));
                queue.extend((!included.contains("://")).then(|| plain(&folder.join(included))));
                continue;
            }
            let editable = line.strip_prefix("--editable").or_else(|| line.strip_prefix("-e"));
            if editable.is_some_and(|place| place.trim_start_matches('=').trim() == ".") || line == "." {
                wanted.extend(own_name(ground)?.map(|name| (name, None)));
                continue;
            }
            if !line.is_empty() && !line.starts_with('-') {
                wanted.extend(requirement(line));
            }
        }
    }
    Ok(())
}

/// Returns what one requirement asks for; `None` where a marker decides, or where it has no name.
fn requirement(line: &str) -> Option<Wanted> {
    // Hashes and other options of a line.
    let line = line.split(" --").next()?.trim();
    if line.contains(';') {
        return None;
    }
    let end = line.find(|letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter));
    let (name, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('[') {
        Some(extras) => extras.split_once(']')?.1.trim_start(),
        None => rest,
    };
    // A path or an address: its name is known only to the installer.
    let is_name = rest.is_empty() || rest.starts_with(['=', '<', '>', '~', '!', '@', '(', ',']);
    if name.is_empty() || name.starts_with('.') || !is_name {
        return None;
    }
    let exact = rest.trim_matches(['(', ')']).strip_prefix("==").map(str::trim);
    let exact =
        exact.filter(|version| !version.contains(['*', ',', '=', '<', '>', ' ']) && !version.is_empty());
    Some((normal(name), exact.map(str::to_string)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_read_as_far_as_they_can_be_decided() {
        let check = |line: &str, expected: Option<(&str, Option<&str>)>| {
            let expected = expected.map(|(name, version)| (name.to_string(), version.map(str::to_string)));
            assert_eq!(requirement(line), expected, "{line}");
        };
        check("Foo_Bar.baz", Some(("foo-bar-baz", None)));
        check("foo==1.2.3", Some(("foo", Some("1.2.3"))));
        check("foo == 1.2.3 --hash=sha256:aa --hash=sha256:bb", Some(("foo", Some("1.2.3"))));
        check("foo[a,b] >=1, <2", Some(("foo", None)));
        check("foo==1.*", Some(("foo", None)));
        check("foo===1.0", Some(("foo", None)));
        check("foo==1.0,!=1.1", Some(("foo", None)));
        check("foo @ https://example.invalid/foo.tgz", Some(("foo", None)));
        check("foo; sys_platform == 'win32'", None);
        check("https://example.invalid/foo.tgz", None);
        check("./local", None);
        check("../local", None);
        check("git+https://example.invalid/x#egg=y", None);
        check("wheels/foo-1.0.whl", None);
    }

    #[test]
    fn spellings_of_a_version_are_one() {
        for (one, other) in [("1.0", "1.0.0"), ("2.1.0+cpu", "2.1"), ("1.0-rc1", "1.0.rc1"), ("v1", "1")] {
            assert!(is_same(one, other), "{one} {other}");
        }
        assert!(!is_same("1.0.1", "1.0"));
        assert!(!is_same("1.10", "1.1"));
    }
}
