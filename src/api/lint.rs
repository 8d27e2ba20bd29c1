//! `omg lint`: every problem of graph files, at once.
#![expect(clippy::disallowed_methods, reason = "reads graph files and fragments")]

use std::path::{Path, PathBuf};

use super::{Refusal, exit};
use crate::graph::{Loaded, Problem, Trust, load};

/// A graph file as it was read.
#[derive(Debug)]
pub struct Source {
    /// Its path as the user wrote it, which is how problems name it.
    pub shown: String,
    /// Its content.
    pub text: String,
}

/// Returns a graph file's content. Errors: it can't be read, or is no text.
pub fn read(path: &Path) -> Result<Source, Refusal> {
    let shown = path.display().to_string();
    let bytes =
        std::fs::read(path).map_err(|error| Refusal::new(exit::USAGE, format!("{shown}: {error}"), None))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Refusal::new(exit::USAGE, format!("{shown} is not UTF-8 text"), None))?;
    Ok(Source { shown, text })
}

/// Returns the graph in `source`, fragments looked up beside it; or every problem.
pub fn check(path: &Path, source: &Source, trust: Trust) -> Result<Loaded, Vec<Problem>> {
    let folder: PathBuf = path.parent().unwrap_or(Path::new("")).join("fragments");
    let fragments = |name: &str| {
        let path = folder.join(format!("{name}.yaml"));
        let text = std::fs::read_to_string(&path).ok()?;
        Some((path.display().to_string(), text))
    };
    load(&source.shown, &source.text, &fragments, trust)
}

/// Returns the problems of all `files`, warnings among them; a file that can't be read is one.
pub fn lint(files: &[PathBuf], trust: Trust) -> Vec<Problem> {
    let mut problems = Vec::new();
    for path in files {
        match read(path) {
            Ok(source) => match check(path, &source, trust) {
                Ok(loaded) => problems.extend(loaded.warnings),
                Err(found) => problems.extend(found),
            },
            Err(refusal) => problems.extend(
                refusal
                    .complaints
                    .into_iter()
                    .map(|complaint| Problem::unreadable(path.display().to_string(), complaint.message)),
            ),
        }
    }
    problems
}
