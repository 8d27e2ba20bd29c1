//! The receipt of a provisioning, and whether it still holds.
//!
//! It lies in the run directory; a copy lies in the lane's own git folder, where it can't dirty the
//! tree or be committed. Only the one in the run directory counts, and only as long as it is byte for byte
//! what the journal says was written: nodes can write both.
#![expect(clippy::disallowed_methods, reason = "reads what was probed, reads and writes receipts")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::durable;
use super::fingerprint::{FileState, Inputs, fingerprint};
use super::look::{Witness, still_whole};
use super::plan::{ProvisionPlan, Rung};
use crate::ids::sha256;
use crate::worktree::known_by;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Name of the receipt in the lane's folder of the run directory.
pub const NAME: &str = "receipt.json";
/// Name of the copy in the lane's own git folder.
pub const COPY_NAME: &str = "omg-provision.json";

/// Proof that a lane was provisioned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// What was run; null where there was nothing to do.
    pub cmd: Option<String>,
    /// Its exit status: 0; null where nothing was run.
    pub exit_code: Option<i32>,
    /// When it was done, UTC.
    pub at: Timestamp,
    /// How long it took.
    pub duration_ms: u64,
    /// What the outcome depends on, hashed.
    pub fingerprint: String,
    /// Which rung of the ladder answered.
    pub rung: Rung,
    /// Why nothing was run, where nothing was.
    pub reason: Option<String>,
    /// Versions of the programs that the outcome depends on.
    pub tools: BTreeMap<String, String>,
    /// The probed files, by their path in the lane.
    pub inputs: Vec<String>,
    /// What each step left that proves it, by the step's root.
    pub installed: Vec<Installed>,
    /// Folders that the provisioning made and that can be made again.
    pub made: Vec<PathBuf>,
    /// The hash of the list of other files that it made, which lies beside the receipt; none where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// A mirror of this receipt in the tree, where the graph asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<String>,
}

/// What a step left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// The step's root in the lane.
    pub root: String,
    /// What was run.
    pub by: String,
    /// The folders that it makes; each is a real one.
    pub folders: Vec<String>,
    /// Files that prove it.
    pub witnesses: Vec<Witness>,
    /// Some of what a command that a person wrote made: it is gone where all of it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub products: Vec<PathBuf>,
}

/// A file that an install made outside its folders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeFile {
    /// Its path in the lane.
    pub path: PathBuf,
    /// By what its content is known again (`worktree::known_by`).
    pub sha256: String,
}

impl MadeFile {
    /// Returns what is at `path` below `root`, a file or a symbolic link, as one that was made.
    pub fn of(root: &Path, path: PathBuf) -> io::Result<MadeFile> {
        let sha256 = known_by(&root.join(&path))?;
        Ok(MadeFile { path, sha256 })
    }

    /// Returns whether it is as it was made.
    pub fn is_as_made(&self, root: &Path) -> bool {
        known_by(&root.join(&self.path)).is_ok_and(|now| now == self.sha256)
    }
}

/// Whether a lane's receipt holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Fresh(Box<Receipt>),
    /// What it covers has changed.
    Stale(Staleness),
    /// There is none that counts.
    Missing(String),
}

/// Why a receipt does not hold any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Staleness {
    /// For people.
    pub reason: String,
    /// Whether files that the outcome depends on changed; else something of the installation did.
    pub of_inputs: bool,
    /// Whether what was installed is as it was.
    pub whole: bool,
}

/// Returns what each of `names`, paths below `root`, is.
pub fn states(root: &Path, names: &[String]) -> BTreeMap<String, FileState> {
    names.iter().map(|name| (name.clone(), state(&root.join(name)))).collect()
}

fn state(path: &Path) -> FileState {
    let Ok(meta) = fs::symlink_metadata(path) else { return FileState::Absent };
    if meta.is_symlink() {
        // What it leads to counts too, where that is a file.
        let behind = fs::canonicalize(path).and_then(|path| known_by(&path)).unwrap_or_default();
        let target = fs::read_link(path).map(|target| format!("{} {behind}", target.display()));
        return target.map_or(FileState::Other, FileState::Link);
    }
    match meta.is_file().then(|| known_by(path)) {
        Some(Ok(digest)) => FileState::Plain(digest),
        Some(Err(_)) | None => FileState::Other,
    }
}

/// Returns the content of those of `names`, paths below `root`, that are plain files, each up to `most` bytes.
pub fn read_files(root: &Path, names: &[String], most: u64) -> BTreeMap<String, Vec<u8>> {
    let read = |name: &String| {
        let path = root.join(name);
        let plain = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
        let mut bytes = Vec::new();
        File::open(path).ok().filter(|_| plain)?.take(most).read_to_end(&mut bytes).ok()?;
        Some((name.clone(), bytes))
    };
    names.iter().filter_map(read).collect()
}

/// What is known of a lane's receipt apart from the receipt itself.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Where the receipt lies.
    pub path: &'a Path,
    /// The hash of what was written there, from the journal.
    pub sha256: Option<&'a str>,
    /// The lane's root.
    pub root: &'a Path,
    /// What would be run now.
    pub plan: &'a ProvisionPlan,
    /// Versions by program.
    pub tools: &'a BTreeMap<String, String>,
    /// What the overlay copied in, hashed.
    pub overlay: Option<&'a str>,
}

/// Returns whether a lane's receipt holds now.
pub fn standing(known: &Known<'_>) -> Standing {
    let missing = |why: &str| Standing::Missing(why.into());
    let Ok(bytes) = fs::read(known.path) else { return missing("its receipt is not there") };
    if known.sha256 != Some(sha256(&bytes).as_str()) {
        return missing("its receipt is not the one that was written");
    }
    let Ok(receipt) = serde_json::from_slice::<Receipt>(&bytes) else {
        return missing("its receipt can't be read");
    };
    if receipt.exit_code.is_some_and(|code| code != 0) {
        return missing("its receipt is of a failure");
    }
    if !known.root.is_dir() {
        return missing("its folder is gone");
    }
    let broken = broken(&receipt, known.root);
    let files = states(known.root, &receipt.inputs);
    let inputs = Inputs { plan: known.plan, tools: known.tools, files: &files, overlay: known.overlay };
    let settled = known.plan.settled && receipt.rung == Rung::Nothing;
    if !settled && fingerprint(&inputs, &known.root.to_string_lossy()) != receipt.fingerprint {
        return Standing::Stale(Staleness {
            reason: "manifests, lockfiles, tools or the command changed since it was provisioned".into(),
            of_inputs: true,
            whole: broken.is_none(),
        });
    }
    match broken {
        Some(reason) => Standing::Stale(Staleness { reason, of_inputs: false, whole: false }),
        None => Standing::Fresh(Box::new(receipt)),
    }
}

/// Returns whether all that an installation left is as it was.
pub fn is_whole(receipt: &Receipt, root: &Path) -> bool {
    broken(receipt, root).is_none()
}

/// Returns whether something that is no mirror of a receipt stands at `name` in the tree at `root`.
pub fn is_taken(root: &Path, name: &str) -> bool {
    let Ok(bytes) = fs::read(root.join(name)) else { return root.join(name).exists() };
    serde_json::from_slice::<serde_json::Value>(&bytes).map_or(true, |mirror| mirror["fingerprint"].is_null())
}

/// Writes the mirror of a receipt to `name` in the tree at `root`, and returns it as a file that was made.
pub fn write_mirror(receipt: &Receipt, root: &Path, name: &str) -> io::Result<MadeFile> {
    let line = serde_json::json!({
        "cmd": receipt.cmd,
        "exit_code": receipt.exit_code.unwrap_or(0),
        "at": receipt.at,
        "duration_ms": receipt.duration_ms,
        "fingerprint": receipt.fingerprint,
    });
    let bytes = format!("{line}\n").into_bytes();
    let path = root.join(name);
    let folder = Path::new(name).parent().unwrap_or(Path::new(""));
    fs::create_dir_all(root).and_then(|()| make_real(root, folder))?;
    // A link there could lead out of the lane, so what is there goes first.
    if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink()) {
        fs::remove_file(&path)?;
    }
    fs::write(&path, &bytes)?;
    Ok(MadeFile { path: PathBuf::from(name), sha256: sha256(&bytes) })
}

/// Makes the folders of `path` below `root`, through no link.
fn make_real(root: &Path, path: &Path) -> io::Result<()> {
    let mut at = root.to_path_buf();
    for part in path.components() {
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => {
                let words = format!("{} is no folder of the lane's own", at.display());
                return Err(io::Error::new(io::ErrorKind::NotADirectory, words));
            }
            Err(_) => fs::create_dir(&at)?,
        }
    }
    Ok(())
}

/// Returns what of an installation is not as it was; `None` where all is.
fn broken(receipt: &Receipt, root: &Path) -> Option<String> {
    for installed in &receipt.installed {
        let step_root = root.join(&installed.root);
        for folder in &installed.folders {
            if !fs::symlink_metadata(step_root.join(folder)).is_ok_and(|meta| meta.is_dir()) {
                return Some(format!("{folder} is gone, or not a folder any more"));
            }
        }
        if let Err(hole) = still_whole(&step_root, &installed.witnesses) {
            return Some(hole.to_string());
        }
        let is_gone = |path: &PathBuf| fs::symlink_metadata(root.join(path)).is_err();
        if !installed.products.is_empty() && installed.products.iter().all(is_gone) {
            return Some(format!("what `{}` made is gone", installed.by));
        }
    }
    let mirror = receipt.mirror.as_ref().filter(|name| !root.join(name).is_file())?;
    Some(format!("its mirror {mirror} is gone"))
}

/// Returns the receipt at `path`, where it is the one that was written.
pub fn load(path: &Path, known: Option<&str>) -> Option<Receipt> {
    let bytes = fs::read(path).ok()?;
    (known? == sha256(&bytes)).then(|| serde_json::from_slice(&bytes).ok())?
}

/// Writes a receipt and its copy, and returns the hash of what was written. The first is durable on
/// return; the copy is a convenience.
pub fn save(receipt: &Receipt, path: &Path, git_dir: &Path) -> io::Result<String> {
    let bytes = serde_json::to_vec(receipt)?;
    durable::write(path, &bytes)?;
    let _ = fs::write(git_dir.join(COPY_NAME), &bytes);
    Ok(sha256(&bytes))
}

/// Name of the list of files that an installation made, beside its receipt.
const FILES_NAME: &str = "made.json";

/// Writes the list of files that an installation made, and returns its hash; none where it made none. Durable on
/// return.
pub fn save_files(files: &[MadeFile], folder: &Path) -> io::Result<Option<String>> {
    if files.is_empty() {
        return Ok(None);
    }
    let bytes = serde_json::to_vec(files)?;
    durable::write(&folder.join(FILES_NAME), &bytes)?;
    Ok(Some(sha256(&bytes)))
}

/// Returns the files that a receipt lists; none where the list is not the one that was written.
pub fn load_files(receipt: &Receipt, folder: &Path) -> Vec<MadeFile> {
    let Some(known) = &receipt.files else { return Vec::new() };
    let bytes = fs::read(folder.join(FILES_NAME)).unwrap_or_default();
    if *known != sha256(&bytes) {
        return Vec::new();
    }
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Takes a receipt away before what it proves is changed, so that no failed try leaves one behind.
pub fn withdraw(path: &Path, git_dir: &Path) -> io::Result<()> {
    let _ = fs::remove_file(git_dir.join(COPY_NAME));
    match fs::remove_file(path) {
        Ok(()) => path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
