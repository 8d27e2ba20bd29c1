//! Python environments: each distribution is whole by its own record, what is asked for is there, and
//! nothing of it leads out of the tree.
//!
//! `pyvenv.cfg` is written first and no mark; uv's and pip's own checks see no missing folder (measured).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Hole;
use super::tree::{Ground, Kind, plain};
use super::wanted::{self, normal};

const VENV: &str = ".venv";

/// Whose lockfile says what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The first that is there.
    Any,
    /// `poetry.lock`.
    Poetry,
}

pub(super) fn look(ground: &mut Ground, asker: Asker) -> Result<(), Hole> {
    let venv = Path::new(VENV);
    if !ground.folder(venv)? {
        return Err(Hole::Missing { what: "the environment".into(), path: venv.into() });
    }
    settings(ground)?;
    let python = venv.join("bin/python");
    if !ground.leads_somewhere(&python) {
        return Err(Hole::Missing { what: "the environment's interpreter".into(), path: python });
    }
    scripts(ground)?;
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for site in sites(ground)? {
        for name in ground.names(&site)? {
            let Some((stem, kind)) = name.rsplit_once('.') else { continue };
            let (project, version) = match stem.split_once('-') {
                Some((project, rest)) => (project, rest.split("-py").next().unwrap_or(rest)),
                None => (stem, ""),
            };
            match kind {
                "dist-info" => distribution(ground, &site, &name, project)?,
                // Of setuptools before wheels; they keep no record that could be compared.
                "egg-info" | "egg-link" => {}
                _ => continue,
            }
            found.entry(normal(project)).or_default().push(version.to_string());
        }
    }
    let wanted = match asker {
        Asker::Any => wanted::any(ground)?,
        Asker::Poetry => wanted::poetry(ground)?,
    };
    for (name, version) in wanted {
        let Some(versions) = found.get(&name) else {
            return Err(Hole::Missing { what: name, path: venv.into() });
        };
        if let Some(wanted) = version
            && !versions.iter().any(|found| found.is_empty() || wanted::is_same(found, &wanted))
        {
            return Err(Hole::OtherVersion { package: name, wanted, found: versions.join(", ") });
        }
    }
    Ok(())
}

/// What the environment says of itself: where it was made, if it says so.
fn settings(ground: &mut Ground) -> Result<(), Hole> {
    let path = Path::new(VENV).join("pyvenv.cfg");
    ground.mark(&path)?;
    let text = ground.text(&path)?.unwrap_or_default();
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        if key.trim() == "command"
            && let Some(at) = value.rfind(" /")
        {
            let made = PathBuf::from(value[at + 1..].trim());
            if !ground.holds(&made) {
                return Err(Hole::Outside { path, prefix: made });
            }
        }
    }
    Ok(())
}

/// The interpreters that installed scripts name lie in this environment: those of a moved one, or of
/// another's, run other code.
fn scripts(ground: &mut Ground) -> Result<(), Hole> {
    let folder = Path::new(VENV).join("bin");
    for name in ground.names(&folder)? {
        let path = folder.join(&name);
        if !matches!(ground.kind(&path)?, Kind::File(_)) {
            continue;
        }
        if let Some(interpreter) = interpreter(&ground.head(&path)?)
            && !ground.holds(&interpreter)
        {
            return Err(Hole::Outside { path, prefix: interpreter });
        }
    }
    Ok(())
}

/// Returns the Python that a script is run by, where it names one by its place. Paths too long for a
/// `#!` line stand in a line of shell below it.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.lines();
    let first = lines.next()?.strip_prefix("#!")?.trim();
    let named = match first.split(' ').next()? {
        "/bin/sh" => {
            let rest = lines.next()?.strip_prefix("'''exec' ")?;
            match rest.strip_prefix('"') {
                Some(quoted) => quoted.split('"').next()?,
                None => rest.split(' ').next()?,
            }
        }
        // A path with spaces is one word all the same.
        _ if first.ends_with("python") || first.ends_with("python3") => first,
        word => word,
    };
    let path = PathBuf::from(named);
    let is_python = path.file_name()?.to_string_lossy().starts_with(['p']) && named.contains("py");
    (path.is_absolute() && is_python).then_some(path)
}

/// Returns the folders that packages are installed into.
fn sites(ground: &Ground) -> Result<Vec<PathBuf>, Hole> {
    let lib = Path::new(VENV).join("lib");
    let mut sites = Vec::new();
    for name in ground.names(&lib)? {
        let site = lib.join(name).join("site-packages");
        if ground.folder(&site)? {
            sites.push(site);
        }
    }
    Ok(sites)
}

/// Compares a distribution with its record, each file with its size.
fn distribution(ground: &mut Ground, site: &Path, folder: &str, project: &str) -> Result<(), Hole> {
    let info = site.join(folder);
    let record = info.join("RECORD");
    ground.file(&record, project)?;
    ground.file(&info.join("METADATA"), project)?;
    let text = ground.text(&record)?.unwrap_or_default();
    let mut tops: BTreeSet<String> = BTreeSet::new();
    for line in text.lines() {
        let Some((name, size)) = entry(line) else {
            let detail = format!("`{line}` is no entry of a record");
            return Err(Hole::Unreadable { path: record, detail });
        };
        // Compiled files come and go.
        if name.ends_with(".pyc") || name.contains("__pycache__") {
            continue;
        }
        let path = plain(&site.join(&name));
        if path.starts_with("..") || path.is_absolute() && !ground.holds(&path) {
            return Err(Hole::Outside { path: record, prefix: path });
        }
        match ground.size(&path)? {
            None => return Err(Hole::Missing { what: format!("a file of {project}"), path }),
            Some(found) => {
                if let Some(wanted) = size
                    && wanted != found
                {
                    return Err(Hole::OtherSize { path, wanted, found });
                }
            }
        }
        // One file of each folder tells later whether the folder is still there.
        let top = name.split('/').next().unwrap_or(&name).to_string();
        let is_script = top == ".." && path.parent().is_some_and(|folder| folder.ends_with("bin"));
        if is_script || tops.insert(top) {
            ground.witness(&path)?;
        }
    }
    own_project(ground, &info, project)
}

/// Returns a line's path and size.
fn entry(line: &str) -> Option<(String, Option<u64>)> {
    let (rest, size) = line.rsplit_once(',')?;
    let (name, _) = rest.rsplit_once(',')?;
    let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_string(),
    };
    match size.trim() {
        "" => Some((name, None)),
        size => Some((name, Some(size.parse().ok()?))),
    }
}

/// The project's own code, installed to be edited, is this tree's: else another checkout's is what runs.
fn own_project(ground: &Ground, info: &Path, project: &str) -> Result<(), Hole> {
    let path = info.join("direct_url.json");
    let Some(origin) = ground.json::<Value>(&path)? else { return Ok(()) };
    if origin["dir_info"]["editable"] != true || wanted::own_name(ground)? != Some(normal(project)) {
        return Ok(());
    }
    let Some(place) = origin["url"].as_str().and_then(|url| url.strip_prefix("file://")) else {
        return Ok(());
    };
    let place = PathBuf::from(decoded(place));
    match ground.holds(&place) {
        true => Ok(()),
        false => Err(Hole::Outside { path, prefix: place }),
    }
}

/// Returns the path of a URL without its escapes.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let escape = (byte == b'%').then(|| tail.get(..2)).flatten();
        let escape = escape.and_then(|digits| std::str::from_utf8(digits).ok());
        match escape.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_of_a_script_is_read_in_each_of_its_forms() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(interpreter(text.as_bytes()), expected.map(PathBuf::from), "{text}");
        };
        check("#!/l/.venv/bin/python\nimport x", Some("/l/.venv/bin/python"));
        check("#!/l/.venv/bin/python3.11 -E\n", Some("/l/.venv/bin/python3.11"));
        check("#!/l/a b/.venv/bin/python3\n", Some("/l/a b/.venv/bin/python3"));
        check(
            "#!/bin/sh\n'''exec' \"/l/a b/.venv/bin/python\" \"$0\" \"$@\"\n",
            Some("/l/a b/.venv/bin/python"),
        );
        check("#!/bin/sh\n'''exec' /l/.venv/bin/python \"$0\"\n", Some("/l/.venv/bin/python"));
        check("#!/usr/bin/pypy3\n", Some("/usr/bin/pypy3"));
        check("#!/bin/sh\necho x\n", None);
        check("#!/usr/bin/env python3\n", None);
        check("\u{7f}ELF", None);
    }

    #[test]
    fn a_record_is_read_with_its_quotes() {
        assert_eq!(entry("a/b.py,sha256=x,12"), Some(("a/b.py".into(), Some(12))));
        assert_eq!(entry("\"a,\"\"b.py\",,"), Some(("a,\"b.py".into(), None)));
        assert_eq!(entry("a,b,c"), None);
        assert_eq!(entry("nothing"), None);
    }

    #[test]
    fn escapes_of_a_url_are_read() {
        assert_eq!(decoded("/a%20b/%zz%C3%A9"), "/a b/%zz\u{e9}");
    }
}
