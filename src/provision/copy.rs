//! Carries the overlay of a lane out: reads the user's files, looks at the lane, writes the ledger, copies.
//!
//! In that order: what the ledger names is known to every later look, also where we are killed before or
//! amid its copy. Idempotent; the next call finishes what a killed one began.
#![expect(clippy::disallowed_methods, reason = "reads local files, writes their copies and the ledger")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::durable;
use super::excludes;
use super::inside::{Found, Root, Unreached, names};
use super::overlay::{
    BYTES_MAX, Entry, FILE_BYTES_MAX, FILES_MAX, Hidden, InLane, Ledger, Source, Step, decide,
};
use crate::graph::model::{Overlay, dependency_folder};
use crate::ids::{CommitId, hex, sha256};
use crate::worktree::overlay::{INCLUDE_FILE, LocalFiles, Place, blob_names};

/// Where an overlay goes.
#[derive(Clone, Debug)]
pub struct Site {
    /// The top of the user's tree; `None` in a bare repository.
    pub top: Option<PathBuf>,
    /// The lane's root.
    pub lane: PathBuf,
    /// The commit it began at.
    pub base: CommitId,
    /// The lane's folder in the run directory.
    pub folder: PathBuf,
}

/// What a lane has now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Its copies, by path, with `copied`, `kept` or `edited`.
    pub files: Vec<(String, &'static str)>,
    /// What a person should know, a line each.
    pub warnings: Vec<String>,
}

/// Why a lane has not got its local files.
#[derive(Debug, thiserror::Error)]
pub enum NotDone {
    /// It may not have one of them. Nothing was copied.
    #[error("{0}")]
    Refused(String),
    /// The disk is full.
    #[error("{0}")]
    DiskFull(String),
    /// Something could not be read or written.
    #[error("{0}")]
    Failed(String),
}

impl NotDone {
    fn of(path: &str, error: &io::Error) -> NotDone {
        let words = format!("`{path}`: {error}");
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => NotDone::DiskFull(words),
            _ => NotDone::Failed(words),
        }
    }

    fn of_way(path: &str, whose: &str, error: Unreached) -> NotDone {
        match error {
            Unreached::Io(_, error) => NotDone::of(path, &error),
            way @ (Unreached::Link(_) | Unreached::NoFolder(_)) => NotDone::Refused(format!(
                "`{path}` is not copied: in {whose}, {way}, and no link is followed"
            )),
        }
    }
}

/// Returns where the ledger of a lane is whose folder in the run directory is `folder`.
pub fn ledger_file(folder: &Path) -> PathBuf {
    folder.join("overlay.json")
}

/// Returns the ledger of a lane; `None` where it has none.
pub fn ledger(folder: &Path) -> io::Result<Option<Ledger>> {
    match fs::read(ledger_file(folder)) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Gives a lane the local files that `overlay` names.
///
/// Durable on return: the ledger, the lane's excludes, and the copies. Errors: nothing is copied where one of
/// the files is refused; what was copied before another error is in the ledger.
pub fn perform(git: &dyn LocalFiles, overlay: &Overlay, site: &Site) -> Result<Done, NotDone> {
    let mut done = Done::default();
    tidy(&site.lane);
    let known =
        ledger(&site.folder).map_err(|error| NotDone::of("overlay.json", &error))?.unwrap_or_default();
    let mut local = match &site.top {
        Some(top) => collect(git, overlay, top, &site.base, &mut done.warnings)?,
        None => {
            done.warnings
                .push("no local files are copied: a bare repository has no tree of the user's".into());
            BTreeMap::new()
        }
    };
    let lane = Root::open(&site.lane).map_err(|error| NotDone::of(".", &error))?;
    let paths: Vec<String> = {
        let remembered = known.files.iter().map(|entry| &entry.path);
        let all: std::collections::BTreeSet<&String> = local.keys().chain(remembered).collect();
        all.into_iter().cloned().collect()
    };
    let mut seen = BTreeMap::new();
    for path in &paths {
        seen.insert(path, look(&lane, path, local.get(path), known.get(path))?);
    }
    let places = match paths.as_slice() {
        [] => Default::default(),
        paths => {
            git.places(&site.lane, &site.base, paths).map_err(|error| NotDone::Failed(error.to_string()))?
        }
    };
    let (mut ledger, mut copies, mut tracked) = (Ledger::default(), Vec::new(), Vec::new());
    for path in &paths {
        if let Some(submodule) = places.submodules.iter().find(|place| Path::new(path).starts_with(place)) {
            let words = format!("`{path}` is not copied: `{}` is a submodule", submodule.display());
            return Err(NotDone::Refused(words));
        }
        let place = places.of.get(path).cloned().unwrap_or_else(|| Place { clean: true, ..Place::default() });
        let source = local.get(path).map(|local| &local.source);
        let in_lane = &seen[path];
        let (how, entry) = match decide(path, source, known.get(path), in_lane, &place) {
            Err(words) => return Err(NotDone::Refused(words)),
            Ok(Step::Leave(why, entry)) => {
                let said = why.filter(|_| source.is_some());
                done.warnings.extend(said.map(|why| format!("`{path}` is not copied: {why}")));
                ledger.files.extend(entry);
                continue;
            }
            Ok(Step::Copy(entry)) => {
                copies.push(path.clone());
                ("copied", entry)
            }
            Ok(Step::Keep(entry)) => ("kept", entry),
            Ok(Step::Edited(entry)) => ("edited", entry),
        };
        if entry.git == Hidden::Tracked {
            tracked.push(path.clone());
        }
        done.files.push((path.clone(), how));
        ledger.files.push(entry);
    }
    save(&ledger, git, site)?;
    for path in &copies {
        let Some(local) = local.remove(path) else { continue };
        copy(&lane, path, &local, &site.lane)?;
    }
    git.hide(&site.lane, &tracked).map_err(|error| NotDone::Failed(error.to_string()))?;
    let loud: Vec<&str> = copies.iter().filter(|path| tracked.contains(path)).map(String::as_str).collect();
    if !loud.is_empty() {
        let words = format!(
            "{} tracked: git in this lane looks away from the copy, also where a node edits it: {}",
            if loud.len() == 1 { "this local file is" } else { "these local files are" },
            loud.join(", ")
        );
        done.warnings.push(words);
    }
    Ok(done)
}

/// Returns the copies whose source in the user's tree is not any more what was copied, by path.
pub fn drifted(top: &Path, ledger: &Ledger) -> Vec<String> {
    let Ok(root) = Root::open(top) else { return Vec::new() };
    let is_as_copied = |entry: &Entry| match root.find(&entry.path) {
        Ok(Found::File(file)) => digest(file).is_ok_and(|sha256| sha256 == entry.sha256),
        Ok(Found::Absent | Found::Folder(_) | Found::Link | Found::Other) | Err(_) => false,
    };
    ledger.files.iter().filter(|entry| !is_as_copied(entry)).map(|entry| entry.path.clone()).collect()
}

/// Removes what a killed copy left beside the lane.
pub fn tidy(lane: &Path) {
    // Not there, as a rule.
    let _ = fs::remove_file(draft(lane));
}

/// A file of the user's tree, read whole: what is hashed is what is copied.
struct Local {
    bytes: Vec<u8>,
    source: Source,
    folders: Vec<u32>,
}

struct Collector<'a> {
    root: Root,
    base: &'a CommitId,
    files: BTreeMap<String, Local>,
    bytes: u64,
}

fn collect(
    git: &dyn LocalFiles,
    overlay: &Overlay,
    top: &Path,
    base: &CommitId,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<String, Local>, NotDone> {
    let root = Root::open(top).map_err(|error| NotDone::of(&top.display().to_string(), &error))?;
    let mut collector = Collector { root, base, files: BTreeMap::new(), bytes: 0 };
    for path in &overlay.paths {
        collector.named(path)?;
    }
    if overlay.include_file {
        collector.included(git, top, warnings)?;
    }
    Ok(collector.files)
}

impl Collector<'_> {
    /// Takes a file, or all files of a folder. One that is not there is nobody's mistake.
    fn named(&mut self, path: &str) -> Result<(), NotDone> {
        let mut open = vec![path.to_string()];
        while let Some(path) = open.pop() {
            if let Some(folder) = dependency_folder(&path) {
                let words = format!("`{path}` is not copied: `{folder}` is a dependency folder");
                return Err(NotDone::Refused(words));
            }
            let found =
                self.root.find(&path).map_err(|error| NotDone::of_way(&path, "the user's tree", error))?;
            match found {
                Found::Absent => {}
                Found::File(file) => self.take(&path, file)?,
                Found::Folder(folder) => {
                    let names = names(&folder).map_err(|error| NotDone::of(&path, &error))?;
                    for name in names.into_iter().rev() {
                        if name == ".git" || name.chars().any(char::is_control) {
                            let words = format!("`{path}` is not copied: it holds `{}`", name.escape_debug());
                            return Err(NotDone::Refused(words));
                        }
                        open.push(format!("{path}/{name}"));
                    }
                }
                Found::Link => {
                    let words = format!("`{path}` is not copied: it is a symbolic link in the user's tree");
                    return Err(NotDone::Refused(words));
                }
                Found::Other => {
                    let words = format!("`{path}` is not copied: it is no regular file in the user's tree");
                    return Err(NotDone::Refused(words));
                }
            }
        }
        Ok(())
    }

    /// Takes what the file of patterns names. A pattern may catch what nobody thought of: that is left out,
    /// and said.
    fn included(
        &mut self,
        git: &dyn LocalFiles,
        top: &Path,
        warnings: &mut Vec<String>,
    ) -> Result<(), NotDone> {
        match self.root.find(INCLUDE_FILE) {
            Ok(Found::Absent) => return Ok(()),
            Ok(Found::File(_)) => {}
            Ok(Found::Folder(_) | Found::Link | Found::Other) => {
                return Err(NotDone::Refused(format!("`{INCLUDE_FILE}` is no regular file")));
            }
            Err(error) => return Err(NotDone::of_way(INCLUDE_FILE, "the user's tree", error)),
        }
        let found = git.included(top).map_err(|error| NotDone::Failed(error.to_string()))?;
        for path in found {
            let Some(path) = path.to_str().filter(|path| !path.chars().any(char::is_control)) else {
                warnings.push(format!("{} is not copied: its name is no plain text", path.display()));
                continue;
            };
            if dependency_folder(path).is_some() || self.files.contains_key(path) {
                continue;
            }
            match self.root.find(path) {
                Ok(Found::File(file)) => self.take(path, file)?,
                Ok(Found::Absent) => {}
                Ok(Found::Folder(_) | Found::Link | Found::Other) | Err(_) => {
                    warnings.push(format!("`{path}` is not copied: it is no regular file"));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, path: &str, file: File) -> Result<(), NotDone> {
        if self.files.contains_key(path) {
            return Ok(());
        }
        let io = |error: io::Error| NotDone::of(path, &error);
        let mode = file.metadata().map_err(io)?.permissions().mode() & 0o777;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
        let size = bytes.len() as u64;
        self.bytes += size;
        let mebi = |bytes: u64| bytes >> 20;
        let too_much = if size > FILE_BYTES_MAX {
            Some(format!("`{path}` is larger than {} MiB", mebi(FILE_BYTES_MAX)))
        } else if self.bytes > BYTES_MAX {
            Some(format!("local files of more than {} MiB, with `{path}`", mebi(BYTES_MAX)))
        } else if self.files.len() >= FILES_MAX {
            Some(format!("more than {FILES_MAX} local files, with `{path}`"))
        } else {
            None
        };
        if let Some(words) = too_much {
            return Err(NotDone::Refused(format!("{words}; an overlay is for a few small files")));
        }
        let source = Source { sha256: sha256(&bytes), mode, size, blobs: blob_names(&bytes, self.base) };
        let folders = self.root.modes_above(path);
        self.files.insert(path.to_string(), Local { bytes, source, folders });
        Ok(())
    }
}

/// Looks at a place in the lane. A file of another length than both it could be is not read.
fn look(root: &Root, path: &str, local: Option<&Local>, known: Option<&Entry>) -> Result<InLane, NotDone> {
    let found = root.find(path).map_err(|error| NotDone::of_way(path, "the lane", error))?;
    Ok(match found {
        Found::Absent => InLane::Absent,
        Found::File(file) => {
            let io = |error: io::Error| NotDone::of(path, &error);
            let size = file.metadata().map_err(io)?.len();
            let may_be = local.is_some_and(|local| local.source.size == size)
                || known.is_some_and(|known| known.size == size);
            InLane::File(if may_be { digest(file).map_err(io)? } else { String::new() })
        }
        Found::Folder(_) | Found::Link | Found::Other => InLane::Other,
    })
}

fn digest(mut file: File) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = [0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

fn save(ledger: &Ledger, git: &dyn LocalFiles, site: &Site) -> Result<(), NotDone> {
    let failed = |error: io::Error| NotDone::of("overlay.json", &error);
    let untracked: Vec<String> = {
        let files = ledger.files.iter().filter(|entry| entry.git != Hidden::Tracked);
        // Also what the repository ignores: a node may check out a commit that does not.
        files.map(|entry| entry.path.clone()).collect()
    };
    if !untracked.is_empty() || excludes::file(&site.folder).exists() {
        let users = git.excludes_file(&site.lane).map_err(|error| NotDone::Failed(error.to_string()))?;
        excludes::add_excludes(&site.folder, users.as_deref(), &untracked).map_err(failed)?;
    }
    let bytes = serde_json::to_vec_pretty(ledger).map_err(|error| NotDone::Failed(error.to_string()))?;
    durable::write(&ledger_file(&site.folder), &bytes).map_err(failed)
}

/// Beside the lane: on its file system as a rule, and nothing of its own where we are killed.
fn draft(lane: &Path) -> PathBuf {
    let name = lane.file_name().unwrap_or_default().to_string_lossy();
    lane.with_file_name(format!(".omg-copy-{name}"))
}

fn copy(root: &Root, path: &str, local: &Local, lane: &Path) -> Result<(), NotDone> {
    let io = |error: io::Error| NotDone::of(path, &error);
    let draft = draft(lane);
    let write = || {
        let mut file = fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(&draft)?;
        file.write_all(&local.bytes)?;
        file.set_permissions(fs::Permissions::from_mode(local.source.mode))?;
        file.sync_all()
    };
    let done = write().map_err(io).and_then(|()| {
        root.put(path, &draft, &local.folders).map_err(|error| NotDone::of_way(path, "the lane", error))
    });
    if done.is_err() {
        tidy(lane);
    }
    done
}
