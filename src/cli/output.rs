//! The only file that prints. Results go to standard output, progress and complaints to standard error.
#![expect(clippy::disallowed_methods, reason = "the one place that prints, but for what is drawn")]

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::api::Refusal;
use crate::graph::{Problem, render_some, visible};
use crate::view::style::Style;

use super::args::Color;

/// Writes a line to standard error.
pub fn complain(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Asks a person at the terminal, and returns whether they said yes; where there is none, nobody did.
pub fn ask(question: &str) -> bool {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return false;
    }
    let mut err = anstream::stderr().lock();
    let _ = write!(err, "{question} [y/N] ");
    let _ = err.flush();
    let mut line = String::new();
    let read = std::io::stdin().read_line(&mut line);
    read.is_ok() && matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Whether something of a result could not be written.
static LOST: AtomicBool = AtomicBool::new(false);

/// Writes a line to standard output. A reader that went away is no error of ours; a full disk is, and
/// [`lost`] tells of it.
pub fn result(line: &str) {
    let mut out = anstream::stdout().lock();
    note_loss(writeln!(out, "{line}").and_then(|()| out.flush()));
}

fn note_loss(written: std::io::Result<()>) {
    if written.is_err_and(|error| error.kind() != std::io::ErrorKind::BrokenPipe) {
        LOST.store(true, Ordering::Relaxed);
    }
}

/// Returns whether something of a result could not be written.
pub fn lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Writes bytes to standard output as they are. Returns whether somebody still reads.
pub fn raw(bytes: &[u8]) -> bool {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    let ok = written.is_ok();
    note_loss(written);
    ok
}

/// Sets whether words get colours, for both streams.
pub fn choose_colors(color: Color) {
    match color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
}

/// Returns the style of progress. What it paints is taken out again where it is not wanted.
pub fn style() -> Style {
    Style { color: true }
}

/// Returns whether standard error is a terminal.
pub fn is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Says why an operation was not done.
pub fn refusal(refusal: &Refusal) {
    problems(&refusal.problems);
    for complaint in &refusal.complaints {
        complain(&format!("{}: {}", style().bad("error"), lines(&complaint.message)));
        if let Some(hint) = &complaint.hint {
            complain(&format!("hint: {}", lines(hint)));
        }
    }
}

/// Returns text as it may reach a terminal; names in it may hold anything, its lines are ours.
fn lines(text: &str) -> String {
    text.split('\n').map(visible).collect::<Vec<_>>().join("\n")
}

/// Problems of one file that are shown. More are no help to anyone who reads, and `--json` has them all.
const PROBLEMS_SHOWN_MAX: usize = 50;

/// Shows what is wrong with graph files, or odd about them.
pub fn problems(problems: &[Problem]) {
    if !problems.is_empty() {
        complain(render_some(problems, PROBLEMS_SHOWN_MAX, true).trim_end());
    }
}

/// Returns a word that nobody can guess.
pub fn random_word() -> String {
    use std::hash::{BuildHasher, RandomState};
    // Each has keys that the system made up.
    format!("{:016x}{:016x}", RandomState::new().hash_one(0), RandomState::new().hash_one(1))
}
