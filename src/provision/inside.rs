//! Files below a root, reached part by part so that no symbolic link is ever followed: not in the user's tree,
//! and not in a lane, where a tracked link would lead a write outside of it.
#![expect(clippy::disallowed_methods, reason = "opens the root below which nothing is followed")]

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode};
use rustix::io::Errno;

use crate::failpoint::{self, Point};

/// A folder that things are looked for below.
#[derive(Debug)]
pub struct Root(OwnedFd);

/// What is at a place below a root.
#[derive(Debug)]
pub enum Found {
    /// Nothing, or not even its folder.
    Absent,
    /// A regular file.
    File(File),
    /// A folder.
    Folder(OwnedFd),
    /// A symbolic link.
    Link,
    /// Anything else.
    Other,
}

/// Why a place could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum Unreached {
    /// A part of the way is a symbolic link.
    #[error("`{0}` is a symbolic link")]
    Link(String),
    /// A part of the way is no folder.
    #[error("`{0}` is no folder")]
    NoFolder(String),
    /// The system's words.
    #[error("`{0}`: {1}")]
    Io(String, io::Error),
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A pipe that was put in a file's place meanwhile must not hold us up.
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

impl Root {
    /// Returns the folder at `path`, which is taken as it is: a link there is the caller's own.
    pub fn open(path: &Path) -> io::Result<Root> {
        Ok(Root(File::open(path)?.into()))
    }

    /// Returns what is at `path`, whose parts are joined by `/`.
    pub fn find(&self, path: &str) -> Result<Found, Unreached> {
        let (parents, name) = split(path);
        let Some(folder) = self.descend(parents)? else { return Ok(Found::Absent) };
        let words = |error: Errno| Unreached::Io(path.into(), error.into());
        let open = |flags| rustix::fs::openat(&folder, name, flags, Mode::empty()).map_err(words);
        match kind(&folder, name).map_err(words)? {
            None => Ok(Found::Absent),
            Some((FileType::RegularFile, _)) => Ok(Found::File(open(FILE)?.into())),
            Some((FileType::Directory, _)) => Ok(Found::Folder(open(FOLDER)?)),
            Some((FileType::Symlink, _)) => Ok(Found::Link),
            Some(_) => Ok(Found::Other),
        }
    }

    /// Returns the permissions of each folder above `path`, outermost first, as far as they are there.
    pub fn modes_above(&self, path: &str) -> Vec<RawMode> {
        let mut modes = Vec::new();
        for (end, _) in path.match_indices('/') {
            let (parents, name) = split(&path[..end]);
            let Ok(Some(folder)) = self.descend(parents) else { break };
            let Ok(Some((FileType::Directory, mode))) = kind(&folder, name) else { break };
            modes.push(mode);
        }
        modes
    }

    /// Moves the file `draft` to `path`, in whose place is nothing or a file; makes the folders above it that
    /// are not there, with the permissions in `modes`, outermost first. Durable on return.
    pub fn put(&self, path: &str, draft: &Path, modes: &[RawMode]) -> Result<(), Unreached> {
        let words = |error: Errno| Unreached::Io(path.into(), error.into());
        for (depth, (end, _)) in path.match_indices('/').enumerate() {
            let (parents, name) = split(&path[..end]);
            let Some(folder) = self.descend(parents)? else { continue };
            match rustix::fs::mkdirat(&folder, name, Mode::RWXU) {
                Ok(()) => {
                    let made = rustix::fs::openat(&folder, name, FOLDER, Mode::empty()).map_err(words)?;
                    let mode = Mode::from_raw_mode(modes.get(depth).copied().unwrap_or(0o755)) | Mode::RWXU;
                    rustix::fs::fchmod(&made, mode).map_err(words)?;
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(words(error)),
            }
        }
        let (parents, name) = split(path);
        let Some(folder) = self.descend(parents)? else {
            return Err(words(Errno::NOENT));
        };
        failpoint::at(Point::CopyBefore);
        rustix::fs::renameat(CWD, draft, &folder, name).map_err(words)?;
        failpoint::at(Point::CopyNamed);
        rustix::fs::fsync(&folder).map_err(words)
    }

    /// Returns the folder at `parts`, `None` where it is not there.
    fn descend(&self, parts: &str) -> Result<Option<OwnedFd>, Unreached> {
        let io = |at: &str, error: Errno| Unreached::Io(at.into(), error.into());
        let mut folder = self.0.try_clone().map_err(|error| Unreached::Io(parts.into(), error))?;
        let mut end = 0;
        for part in parts.split('/').filter(|part| !part.is_empty()) {
            end = parts[end..].find(part).map_or(end, |at| end + at + part.len());
            let way = &parts[..end];
            folder = match kind(&folder, part).map_err(|error| io(way, error))? {
                None => return Ok(None),
                Some((FileType::Directory, _)) => rustix::fs::openat(&folder, part, FOLDER, Mode::empty())
                    .map_err(|error| io(way, error))?,
                Some((FileType::Symlink, _)) => return Err(Unreached::Link(way.into())),
                Some(_) => return Err(Unreached::NoFolder(way.into())),
            };
        }
        Ok(Some(folder))
    }
}

/// Returns the names in a folder, sorted. Errors also on a name that is no text.
pub fn names(folder: &OwnedFd) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for item in Dir::read_from(folder)? {
        let item = item?;
        match item.file_name().to_str() {
            Ok("." | "..") => {}
            Ok(name) => found.push(name.to_string()),
            Err(_) => {
                let name = item.file_name().to_string_lossy().into_owned();
                return Err(io::Error::other(format!("the name `{name}` in it is not UTF-8")));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn kind(folder: &OwnedFd, name: &str) -> Result<Option<(FileType, RawMode)>, Errno> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some((FileType::from_raw_mode(stat.st_mode), stat.st_mode & 0o777))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn no_link_is_followed_on_the_way_or_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, outside) = (folder.path().join("tree"), folder.path().join("outside"));
        fs::create_dir_all(tree.join("real")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("x"), "theirs").unwrap();
        symlink(&outside, tree.join("real/link")).unwrap();
        symlink(outside.join("x"), tree.join("end")).unwrap();
        let root = Root::open(&tree).unwrap();
        assert!(matches!(root.find("end").unwrap(), Found::Link));
        assert_eq!(root.find("real/link/x").unwrap_err().to_string(), "`real/link` is a symbolic link");
        assert_eq!(root.find("real/no/x").map(|found| matches!(found, Found::Absent)).ok(), Some(true));
        let draft = folder.path().join("draft");
        fs::write(&draft, "ours").unwrap();
        assert!(matches!(root.put("real/link/x", &draft, &[]), Err(Unreached::Link(_))));
        assert_eq!(fs::read_to_string(outside.join("x")).unwrap(), "theirs");
    }

    #[test]
    fn folders_are_made_with_the_permissions_given() {
        let folder = tempfile::tempdir().unwrap();
        let draft = folder.path().join("draft");
        fs::create_dir(folder.path().join("tree")).unwrap();
        fs::write(&draft, "x").unwrap();
        let root = Root::open(&folder.path().join("tree")).unwrap();
        root.put("a/b/c", &draft, &[0o750, 0o700]).unwrap();
        let mode =
            |path: &str| fs::metadata(folder.path().join("tree").join(path)).unwrap().permissions().mode();
        assert_eq!([mode("a") & 0o777, mode("a/b") & 0o777], [0o750, 0o700]);
        assert_eq!(root.modes_above("a/b/c"), [0o750, 0o700]);
        assert_eq!(fs::read_to_string(folder.path().join("tree/a/b/c")).unwrap(), "x");
        let Found::Folder(found) = root.find("a").unwrap() else { panic!("no folder") };
        assert_eq!(names(&found).unwrap(), ["b"]);
    }
}
