//! The disk as the looks see it: plain folders, bounded reads, and the witnesses gathered on the way.
#![expect(clippy::disallowed_methods, reason = "reads installed trees")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};
use serde::de::DeserializeOwned;

use super::{Hole, Witness};

/// Largest lockfile or manifest that is read, in bytes.
const READ_MAX: u64 = 64 << 20;
/// Bytes of a script that may hold its interpreter.
const HEAD: u64 = 1024;

/// What lies at a path, links not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Absent,
    File(u64),
    Folder,
    Link,
    Other,
}

/// A root that is looked at. Paths are relative to it.
pub(super) struct Ground {
    root: PathBuf,
    canonical: PathBuf,
    witnesses: BTreeMap<PathBuf, u64>,
}

impl Ground {
    pub fn new(root: &Path) -> Result<Ground, Hole> {
        let canonical = fs::canonicalize(root).map_err(|error| unreadable(root, &error))?;
        Ok(Ground { root: root.to_path_buf(), canonical, witnesses: BTreeMap::new() })
    }

    pub fn witnesses(self) -> Vec<Witness> {
        self.witnesses.into_iter().map(|(path, size)| Witness { path, size }).collect()
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns whether an absolute path lies in the root, by any name of the root.
    pub fn holds(&self, path: &Path) -> bool {
        let path = plain(path);
        path.starts_with(&self.root) || path.starts_with(&self.canonical) || {
            // The path itself may no longer be there; then only its words count.
            fs::canonicalize(&path).is_ok_and(|path| path.starts_with(&self.canonical))
        }
    }

    pub fn kind(&self, path: &Path) -> Result<Kind, Hole> {
        kind(&self.root.join(path)).map_err(|error| unreadable(path, &error))
    }

    /// Returns whether something is there, links followed.
    pub fn leads_somewhere(&self, path: &Path) -> bool {
        fs::metadata(self.root.join(path)).is_ok()
    }

    /// Returns the size of a file, links followed; `None` where there is none.
    pub fn size(&self, path: &Path) -> Result<Option<u64>, Hole> {
        match fs::metadata(self.root.join(path)) {
            Ok(meta) if meta.is_file() => Ok(Some(meta.len())),
            Ok(_) => Ok(None),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(unreadable(path, &error)),
        }
    }

    /// Returns whether a folder of the tree's own is there.
    pub fn folder(&self, path: &Path) -> Result<bool, Hole> {
        match self.kind(path)? {
            Kind::Folder => Ok(true),
            Kind::Absent => Ok(false),
            Kind::Link => Err(Hole::Link { path: path.into() }),
            Kind::File(_) | Kind::Other => Err(Hole::NotAFolder { path: path.into() }),
        }
    }

    /// Returns the names in a folder in order; none where there is no folder.
    pub fn names(&self, path: &Path) -> Result<Vec<String>, Hole> {
        let entries = match fs::read_dir(self.root.join(path)) {
            Ok(entries) => entries,
            Err(error) if is_absence(&error) => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(path, &error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(path, &error))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Returns a file's text without a byte order mark; `None` where there is no file.
    pub fn text(&self, path: &Path) -> Result<Option<String>, Hole> {
        let Some(bytes) = self.bytes(path, READ_MAX)? else { return Ok(None) };
        if bytes.len() as u64 > READ_MAX {
            return Err(Hole::Unreadable { path: path.into(), detail: "it is too large".into() });
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| Hole::Unreadable { path: path.into(), detail: "it is not text".into() })?;
        Ok(Some(text.strip_prefix('\u{feff}').map(str::to_string).unwrap_or(text)))
    }

    /// Returns the first bytes of a file.
    pub fn head(&self, path: &Path) -> Result<Vec<u8>, Hole> {
        Ok(self.bytes(path, HEAD)?.unwrap_or_default())
    }

    fn bytes(&self, path: &Path, most: u64) -> Result<Option<Vec<u8>>, Hole> {
        let place = self.root.join(path);
        // A pipe or a device would be waited for.
        match fs::metadata(&place) {
            Ok(meta) if meta.is_file() => {}
            Ok(_) => return Err(Hole::Unreadable { path: path.into(), detail: "it is no file".into() }),
            Err(error) if is_absence(&error) => return Ok(None),
            Err(error) => return Err(unreadable(path, &error)),
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(&place).map_err(|error| unreadable(path, &error))?;
        file.take(most + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
        Ok(Some(bytes))
    }

    /// Returns what a JSON file says; `None` where there is no file.
    pub fn json<T: DeserializeOwned>(&self, path: &Path) -> Result<Option<T>, Hole> {
        let Some(text) = self.text(path)? else { return Ok(None) };
        if text.trim().is_empty() {
            return Err(Hole::Empty { path: path.into() });
        }
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| Hole::Unreadable { path: path.into(), detail: error.to_string() })
    }

    /// Returns what a TOML file says; `None` where there is no file.
    pub fn toml(&self, path: &Path) -> Result<Option<toml::Table>, Hole> {
        let Some(text) = self.text(path)? else { return Ok(None) };
        text.parse::<toml::Table>()
            .map(Some)
            .map_err(|error| Hole::Unreadable { path: path.into(), detail: error.message().to_string() })
    }

    /// Asks for a file with content and takes it for a witness. Its folder lies in the tree; the file itself
    /// may be a link, as some installers link each file to their cache when told to.
    pub fn file(&mut self, path: &Path, what: &str) -> Result<(), Hole> {
        let missing = || Hole::Missing { what: what.into(), path: path.into() };
        let folder = self.place(path.parent().unwrap_or(Path::new("")))?.ok_or_else(missing)?;
        let place = folder.join(path.file_name().unwrap_or_default());
        match (self.kind(&place)?, self.size(&place)?) {
            (Kind::File(_) | Kind::Link, Some(0)) => Err(Hole::Empty { path: path.into() }),
            (Kind::File(_) | Kind::Link, Some(_)) => self.witness(&place),
            (Kind::Absent | Kind::Link, None) => Err(missing()),
            (Kind::Absent | Kind::File(_) | Kind::Folder | Kind::Other, _) => {
                Err(Hole::Unreadable { path: path.into(), detail: "it is no file".into() })
            }
        }
    }

    /// Asks for the file that a tool writes last.
    pub fn mark(&mut self, path: &Path) -> Result<(), Hole> {
        self.file(path, "the mark").map_err(|hole| match hole {
            Hole::Missing { path, .. } => Hole::NoMark { path },
            other => other,
        })
    }

    /// Takes what lies at a path for a witness, a link as a link.
    pub fn witness(&mut self, path: &Path) -> Result<(), Hole> {
        let place = match path.parent().map(|parent| self.place(parent)).transpose()?.flatten() {
            Some(parent) => parent.join(path.file_name().unwrap_or_default()),
            None => return Ok(()),
        };
        if let Ok(meta) = fs::symlink_metadata(self.root.join(&place))
            && !meta.is_dir()
        {
            self.witnesses.insert(place, meta.len());
        }
        Ok(())
    }

    /// Returns where a path leads, relative to the root; `None` where nothing is there. A path that leads
    /// out of the tree is a hole: what is not the lane's own is changed by others.
    pub fn place(&self, path: &Path) -> Result<Option<PathBuf>, Hole> {
        match fs::canonicalize(self.root.join(path)) {
            Ok(found) => match found.strip_prefix(&self.canonical) {
                Ok(place) => Ok(Some(place.to_path_buf())),
                Err(_) => Err(Hole::Outside { path: path.into(), prefix: found }),
            },
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(unreadable(path, &error)),
        }
    }
}

/// Returns whether each of `witnesses` is still at its place below `root` with its size, reached through
/// folders only. Reads no file. Errors: the first that is not.
pub fn still_whole(root: &Path, witnesses: &[Witness]) -> Result<(), Hole> {
    // Looked up from there, each call is spared the way to it.
    let place = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let place = place.map_err(|error| unreadable(Path::new(""), &error.into()))?;
    let look = |path: &Path| statat(&place, path, AtFlags::SYMLINK_NOFOLLOW);
    // As plain bytes: paths are compared part by part, which costs more than the calls (measured).
    let mut folders: BTreeSet<&OsStr> = BTreeSet::new();
    for Witness { path, size } in witnesses {
        for folder in path.ancestors().skip(1).take_while(|folder| !folder.as_os_str().is_empty()) {
            // What is known has known ancestors.
            if folders.contains(folder.as_os_str()) {
                break;
            }
            match look(folder).map(|seen| FileType::from_raw_mode(seen.st_mode)) {
                Ok(FileType::Directory) => folders.insert(folder.as_os_str()),
                Ok(FileType::Symlink) => return Err(Hole::Link { path: folder.into() }),
                Ok(_) => return Err(Hole::NotAFolder { path: folder.into() }),
                Err(error) if is_absence(&error.into()) => return Err(gone(folder)),
                Err(error) => return Err(unreadable(folder, &error.into())),
            };
        }
        match look(path) {
            Ok(seen) if FileType::from_raw_mode(seen.st_mode) == FileType::Directory => {
                return Err(Hole::Unreadable { path: path.clone(), detail: "it has become a folder".into() });
            }
            Ok(seen) if u64::try_from(seen.st_size) == Ok(*size) => {}
            Ok(seen) => {
                let found = u64::try_from(seen.st_size).unwrap_or_default();
                return Err(Hole::OtherSize { path: path.clone(), wanted: *size, found });
            }
            Err(error) if is_absence(&error.into()) => return Err(gone(path)),
            Err(error) => return Err(unreadable(path, &error.into())),
        }
    }
    Ok(())
}

fn gone(path: &Path) -> Hole {
    Hole::Missing { what: "a part of what was installed".into(), path: path.into() }
}

fn kind(path: &Path) -> io::Result<Kind> {
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => Ok(Kind::Folder),
        Ok(meta) if meta.is_symlink() => Ok(Kind::Link),
        Ok(meta) if meta.is_file() => Ok(Kind::File(meta.len())),
        Ok(_) => Ok(Kind::Other),
        Err(error) if is_absence(&error) => Ok(Kind::Absent),
        Err(error) => Err(error),
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn unreadable(path: &Path, error: &io::Error) -> Hole {
    Hole::Unreadable { path: path.into(), detail: error.to_string() }
}

/// Returns a path without `.` and `..`, by its words alone.
pub(super) fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            Component::ParentDir | Component::Normal(_) | Component::RootDir | Component::Prefix(_) => {
                plain.push(part);
            }
        }
    }
    plain
}
