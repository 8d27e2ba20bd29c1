//! `omg lint`: every problem of graph files, at once. Also how every command reads a graph file.
#![expect(clippy::disallowed_methods, reason = "reads graph files and fragments")]

use std::fs::{FileType, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::graph::{FILE_BYTES_MAX, Loaded, Problem, Trust, load};

/// A graph file as it was read.
#[derive(Debug)]
pub struct Source {
    /// Its path as the user wrote it, which is how problems name it.
    pub shown: String,
    /// Its content.
    pub text: String,
}

/// What the first line of a file begins with that holds a plan which an agent made: it stays a planned graph, however
/// it is run.
pub const PLANNED_MARK: &str = "# planned by an agent";

/// Returns whether a graph may be trusted: not where the user says so, nor where it says so itself.
pub fn trust(source: &Source, is_planned: bool) -> Trust {
    let text = source.text.trim_start_matches('\u{feff}').trim_start();
    if is_planned || text.starts_with(PLANNED_MARK) { Trust::Planned } else { Trust::Reviewed }
}

/// Returns a graph file's content. Errors: it is no regular file, can't be read, is too large, or no text.
pub fn read(path: &Path) -> Result<Source, Box<Problem>> {
    let shown = path.display().to_string();
    let unreadable = |error: std::io::Error| {
        let reason = match error.kind() {
            ErrorKind::NotFound => "there is no such file".to_string(),
            _ => error.to_string(),
        };
        Box::new(Problem::unreadable(shown.clone(), reason))
    };
    // Looked at before it is opened: opening a pipe waits for its writer, and a device may act.
    check_kind(&shown, &std::fs::metadata(path).map_err(unreadable)?)?;
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(unreadable)?;
    // Another file may have taken its place in between.
    check_kind(&shown, &file.metadata().map_err(unreadable)?)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > FILE_BYTES_MAX {
        return Err(Box::new(Problem::too_large(shown, bytes.len() as u64)));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { shown, text }),
        Err(error) => Err(Box::new(Problem::not_utf8(shown, error.as_bytes()))),
    }
}

fn check_kind(shown: &str, seen: &Metadata) -> Result<(), Box<Problem>> {
    if !seen.is_file() {
        let what = kind(seen.file_type());
        let reason = format!("this is {what}, not a file");
        return Err(Box::new(Problem::unreadable(shown.to_owned(), reason)));
    }
    if seen.len() > FILE_BYTES_MAX as u64 {
        return Err(Box::new(Problem::too_large(shown.to_owned(), seen.len())));
    }
    Ok(())
}

fn kind(of: FileType) -> &'static str {
    if of.is_dir() {
        "a folder"
    } else if of.is_fifo() {
        "a pipe"
    } else if of.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Returns the graph in `source`, fragments looked up beside it; or every problem.
pub fn check(path: &Path, source: &Source, trust: Trust) -> Result<Loaded, Vec<Problem>> {
    let folder: PathBuf = path.parent().unwrap_or(Path::new("")).join("fragments");
    let fragments = |name: &str| {
        let path = folder.join(format!("{name}.yaml"));
        let is_missing =
            std::fs::metadata(&path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        (!is_missing).then(|| read(&path).map(|source| (source.shown, source.text)))
    };
    load(&source.shown, &source.text, &fragments, trust)
}

/// Returns the graph in a file, and what is odd about it but allowed; or every problem.
pub fn graph(path: &Path, trust: Trust) -> Result<Loaded, Vec<Problem>> {
    let source = read(path).map_err(|problem| vec![*problem])?;
    let trust = self::trust(&source, trust == Trust::Planned);
    check(path, &source, trust)
}

/// Returns the problems of all `files`, warnings among them; a file that can't be read is one.
pub fn lint(files: &[PathBuf], trust: Trust) -> Vec<Problem> {
    let of_file = |path: &PathBuf| match graph(path, trust) {
        Ok(loaded) => loaded.warnings,
        Err(problems) => problems,
    };
    files.iter().flat_map(of_file).collect()
}

/// Names the files of problems by absolute paths, from the folder that they were named in.
pub fn absolute(problems: &mut [Problem], folder: &Path) {
    for problem in problems {
        // Taken apart and put together, a path loses its `.` parts; `..` may lead through a link and stays.
        let path: PathBuf = folder.join(&problem.file).components().collect();
        problem.file = path.display().to_string();
    }
}
