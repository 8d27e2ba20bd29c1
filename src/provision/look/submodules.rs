//! Submodules and LFS, by git's index read through git2.

use std::path::{Path, PathBuf};

use git2::{AttrCheckFlags, Repository};

use super::Hole;
use super::tree::{Ground, Kind};

/// Mode of an index entry that is a submodule.
const GITLINK: u32 = 0o160_000;
/// Deepest nesting of submodules that is followed.
const DEPTH_MAX: u32 = 20;
/// What the pointer to a file's content begins with, and the most bytes that one has (git-lfs' own
/// specification).
const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
const POINTER_MAX: u64 = 1023;

pub(super) fn look(ground: &mut Ground) -> Result<(), Hole> {
    inside(ground, Path::new(""), 0)
}

fn inside(ground: &mut Ground, at: &Path, depth: u32) -> Result<(), Hole> {
    let modules = at.join(".gitmodules");
    let Some(text) = ground.text(&modules)? else { return Ok(()) };
    if depth > DEPTH_MAX {
        return Err(Hole::Unreadable { path: modules, detail: "submodules are nested too deep".into() });
    }
    let updated = updated(&text);
    let repository = open(ground, at)?;
    let unreadable =
        |error: git2::Error| Hole::Unreadable { path: at.into(), detail: error.message().into() };
    let index = repository.index().map_err(unreadable)?;
    for entry in index.iter().filter(|entry| entry.mode == GITLINK) {
        let name = String::from_utf8_lossy(&entry.path).into_owned();
        // A gitlink that `.gitmodules` does not name is no submodule to git either.
        if !updated.contains(&name) {
            continue;
        }
        let path = at.join(&name);
        if !ground.folder(&path)? {
            return Err(Hole::Missing { what: format!("submodule {name}"), path });
        }
        ground.file(&path.join(".git"), &format!("submodule {name}")).or_else(|hole| {
            // Old ones have their repository inside.
            match ground.kind(&path.join(".git"))? {
                Kind::Folder => Ok(()),
                Kind::Absent | Kind::File(_) | Kind::Link | Kind::Other => Err(hole),
            }
        })?;
        let head = open(ground, &path)?;
        let found = head.head().and_then(|head| head.peel_to_commit()).map(|commit| commit.id());
        // Whatever commit it is: a node may have made one there.
        found.map_err(|error| Hole::Unreadable { path: path.clone(), detail: error.message().into() })?;
        checked_out(&head, &path)?;
        inside(ground, &path, depth + 1)?;
    }
    Ok(())
}

/// A checkout that was killed has no index yet: git writes it last. Which files are there does not matter, as
/// nodes may have removed some.
fn checked_out(repository: &Repository, at: &Path) -> Result<(), Hole> {
    let unreadable =
        |error: git2::Error| Hole::Unreadable { path: at.into(), detail: error.message().into() };
    if !repository.index().map_err(unreadable)?.is_empty() {
        return Ok(());
    }
    let tree = repository.head().and_then(|head| head.peel_to_tree()).map_err(unreadable)?;
    if tree.is_empty() { Ok(()) } else { Err(Hole::Empty { path: at.into() }) }
}

/// Returns the paths that `.gitmodules` names, those aside that git itself does not update.
fn updated(modules: &str) -> Vec<String> {
    let mut updated = Vec::new();
    for section in modules.split("[submodule").skip(1) {
        let value = |wanted: &str| {
            section.lines().find_map(|line| {
                let (key, value) = line.split_once('=')?;
                (key.trim() == wanted).then(|| value.trim().trim_matches('"').to_string())
            })
        };
        if value("update").as_deref() != Some("none") {
            updated.extend(value("path"));
        }
    }
    updated
}

fn open(ground: &Ground, at: &Path) -> Result<Repository, Hole> {
    Repository::open(ground.root().join(at))
        .map_err(|error| Hole::Unreadable { path: at.into(), detail: error.message().into() })
}

pub(super) fn look_lfs(ground: &mut Ground) -> Result<(), Hole> {
    let unreadable =
        |error: git2::Error| Hole::Unreadable { path: "".into(), detail: error.message().into() };
    let repository = open(ground, Path::new(""))?;
    let index = repository.index().map_err(unreadable)?;
    for entry in index.iter().filter(|entry| entry.mode != GITLINK) {
        let path = PathBuf::from(String::from_utf8_lossy(&entry.path).into_owned());
        let Kind::File(size) = ground.kind(&path)? else { continue };
        // A pointer may be what a test wants to see; only attributes make it one to git.
        if size <= POINTER_MAX
            && ground.head(&path)?.starts_with(POINTER)
            && repository.get_attr(&path, "filter", AttrCheckFlags::FILE_THEN_INDEX).map_err(unreadable)?
                == Some("lfs")
        {
            return Err(Hole::Missing { what: "the content that git LFS keeps".into(), path });
        }
    }
    Ok(())
}
