//! bun: what can be reached from the workspaces of `bun.lock` lies in the tree, isolated or hoisted. bun
//! leaves no mark.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::Hole;
use super::packages::{self, Found, is_version};
use super::tree::{Ground, Kind, plain};

const LOCK: &str = "bun.lock";

pub(super) fn look(ground: &mut Ground) -> Result<(), Hole> {
    ground.folder(Path::new("node_modules"))?;
    let Some(text) = ground.text(Path::new(LOCK))? else {
        // `bun.lockb` is binary.
        return packages::require_direct(ground, Path::new("")).map(drop);
    };
    let lock: Value = serde_json::from_str(&strict(&text))
        .map_err(|error| Hole::Unreadable { path: LOCK.into(), detail: error.to_string() })?;
    let Some(workspaces) = lock["workspaces"].as_object() else {
        return Err(Hole::Unreadable { path: LOCK.into(), detail: "it has no workspaces".into() });
    };
    let none = Map::new();
    let wanted = reachable(workspaces, lock["packages"].as_object().unwrap_or(&none));
    if wanted.is_empty() {
        return Ok(());
    }
    let mut found = Found::new();
    packages::gather(ground, Path::new("node_modules"), &mut found)?;
    packages::gather_store(ground, Path::new("node_modules/.bun"), &mut found)?;
    for folder in workspaces.keys().filter(|folder| !folder.is_empty()) {
        packages::gather(ground, &plain(Path::new(folder)).join("node_modules"), &mut found)?;
    }
    for Wanted { alias, name, version } in wanted {
        // Hoisted, the folder has the name that was asked for; isolated, the package's own in the store.
        let by_alias = packages::among(&found, &alias, version.as_deref());
        if by_alias.is_err() && (alias == name || packages::among(&found, &name, version.as_deref()).is_err())
        {
            return by_alias;
        }
    }
    direct(ground, workspaces)
}

/// Asks for what each workspace names, where it looks for it.
fn direct(ground: &mut Ground, workspaces: &Map<String, Value>) -> Result<(), Hole> {
    for (folder, project) in workspaces {
        let folder = plain(Path::new(folder));
        if !ground.leads_somewhere(&folder.join("package.json")) {
            continue;
        }
        for (name, _) in needs(project, &["dependencies", "devDependencies"]) {
            let near = folder.join("node_modules").join(&name);
            let place = match ground.kind(&near)? {
                Kind::Absent => Path::new("node_modules").join(&name),
                Kind::File(_) | Kind::Folder | Kind::Link | Kind::Other => near.clone(),
            };
            if !ground.leads_somewhere(&place) {
                return Err(Hole::Missing { what: name, path: near });
            }
            ground.witness(&place)?;
        }
    }
    Ok(())
}

struct Wanted {
    /// As it was asked for.
    alias: String,
    /// As it calls itself.
    name: String,
    version: Option<String>,
}

fn needs(of: &Value, kinds: &[&str]) -> Vec<(String, String)> {
    let mut needs = Vec::new();
    for kind in kinds {
        let entries = of[*kind].as_object().into_iter().flatten();
        needs.extend(entries.map(|(name, range)| (name.clone(), range.as_str().unwrap_or("").to_string())));
    }
    needs
}

/// Returns the packages that every install on every platform has.
fn reachable(workspaces: &Map<String, Value>, packages: &Map<String, Value>) -> Vec<Wanted> {
    let mut open: Vec<String> = Vec::new();
    for project in workspaces.values() {
        let own = project["name"].as_str().unwrap_or_default();
        for (name, _) in needs(project, &["dependencies", "devDependencies"]) {
            open.extend(resolve(packages, own, &name));
        }
    }
    let mut seen = BTreeSet::new();
    let mut wanted = Vec::new();
    while let Some(key) = open.pop() {
        if !seen.insert(key.clone()) {
            continue;
        }
        let entry = &packages[&key];
        let meta = entry.as_array().into_iter().flatten().find(|part| part.is_object());
        let meta = meta.unwrap_or(&Value::Null);
        let restricted = ["os", "cpu", "libc"].iter().any(|key| !meta[*key].is_null());
        let Some(resolution) = entry[0].as_str() else { continue };
        let at = resolution.get(1..).and_then(|rest| rest.find('@')).map(|at| at + 1);
        let (Some(at), false) = (at, restricted) else { continue };
        let (name, version) = (&resolution[..at], &resolution[at + 1..]);
        for (need, _) in needs(meta, &["dependencies"]) {
            open.extend(resolve(packages, &key, &need));
        }
        // Folders of the repository's are linked, or copied without a version.
        let local = ["workspace:", "link:", "file:", "root:"].iter().any(|kind| version.starts_with(kind));
        if local {
            continue;
        }
        let alias = last_name(&key).to_string();
        let version = Some(version.to_string()).filter(|version| is_version(version));
        wanted.push(Wanted { alias, name: name.to_string(), version });
    }
    wanted
}

/// Returns the key under which a package finds another: the nearest that shadows the others.
fn resolve(packages: &Map<String, Value>, from: &str, name: &str) -> Option<String> {
    let mut at = from;
    loop {
        let key = if at.is_empty() { name.to_string() } else { format!("{at}/{name}") };
        if packages.contains_key(&key) {
            return Some(key);
        }
        if at.is_empty() {
            return None;
        }
        let last = last_name(at).len();
        at = at[..at.len() - last].trim_end_matches('/');
    }
}

/// Returns the last package's name of a key such as `a/@b/c`.
fn last_name(key: &str) -> &str {
    let mut cut = key.rfind('/').map_or(0, |at| at + 1);
    if let Some(before) = key[..cut].strip_suffix('/') {
        let scope = before.rfind('/').map_or(0, |at| at + 1);
        if before[scope..].starts_with('@') {
            cut = scope;
        }
    }
    &key[cut..]
}

/// Returns JSON with comments and trailing commas as JSON without.
fn strict(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    let mut comma: Option<usize> = None;
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                comma = None;
                plain.push('"');
                while let Some(inner) = letters.next() {
                    plain.push(inner);
                    match inner {
                        '\\' => plain.extend(letters.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '/' if letters.peek() == Some(&'/') => {
                while letters.next_if(|letter| *letter != '\n').is_some() {}
            }
            '/' if letters.peek() == Some(&'*') => {
                let mut before = ' ';
                letters.next();
                for inner in letters.by_ref() {
                    if before == '*' && inner == '/' {
                        break;
                    }
                    before = inner;
                }
            }
            '}' | ']' => {
                if let Some(at) = comma.take() {
                    plain.replace_range(at..=at, " ");
                }
                plain.push(letter);
            }
            ',' => {
                comma = Some(plain.len());
                plain.push(',');
            }
            letter => {
                if !letter.is_whitespace() {
                    comma = None;
                }
                plain.push(letter);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_go_and_strings_stay() {
        let text = "{ // c\n \"a,]\": [1, /* , */ 2,\n ], \"u\": \"http://x\\\"//\", \n}";
        let value: Value = serde_json::from_str(&strict(text)).unwrap();
        assert_eq!(value, serde_json::json!({"a,]": [1, 2], "u": "http://x\"//"}));
    }

    #[test]
    fn a_package_finds_the_nearest() {
        let packages = serde_json::json!({"n": [], "a/n": [], "@s/b/n": [], "@s/b": [], "a/@s/b": []});
        let packages = packages.as_object().unwrap();
        let check = |from: &str, name: &str, expected: Option<&str>| {
            assert_eq!(resolve(packages, from, name).as_deref(), expected, "{from} {name}");
        };
        check("a", "n", Some("a/n"));
        check("c", "n", Some("n"));
        check("@s/b", "n", Some("@s/b/n"));
        check("a/@s/b", "n", Some("a/n"));
        check("a", "@s/b", Some("a/@s/b"));
        check("c/@s/d", "@s/b", Some("@s/b"));
        check("a", "absent", None);
        assert_eq!((last_name("a/@s/b"), last_name("@s/b/n"), last_name("n")), ("@s/b", "n", "n"));
    }
}
