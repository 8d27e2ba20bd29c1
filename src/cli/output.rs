//! The only file that prints. Results go to standard output, progress and complaints to standard error.
#![expect(clippy::disallowed_methods, reason = "the one place that prints; shows the last lines of logs")]

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::api::Refusal;
use crate::graph::{Problem, render_some, visible};
use crate::journal::mask::Mask;
use crate::journal::{Record, RunDir};
use crate::run::Observer;
use crate::schedule::Fact;
use crate::schedule::fact::EndState;
use crate::view::progress;
use crate::view::style::Style;

use super::args::Color;

/// Lines of a failed node's log that are shown.
const TAIL_LINES: usize = 40;

/// Writes a line to standard error.
pub fn complain(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
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

/// Tells of a leg as it goes: lines for people, or the journal's own.
pub struct Teller {
    /// Whether the journal's lines go to standard output.
    pub json: bool,
    /// The run's folder, for logs.
    pub dir: RunDir,
    /// What is taken out of what is shown.
    pub mask: Mask,
}

impl Teller {
    fn tell(&self, line: &str) {
        complain(&self.mask.text(line));
    }

    /// Shows the last lines of a log, and where it is.
    fn show_tail(&self, log: &Path) {
        let Ok(bytes) = std::fs::read(log) else { return };
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().collect();
        for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
            self.tell(&format!("  | {line}"));
        }
        self.tell(&format!("  log: {}", log.display()));
    }
}

impl Observer for Teller {
    fn recorded(&self, record: &Record, line: &str) {
        if self.json {
            result(line);
            return;
        }
        for line in progress::lines(&record.fact, style()) {
            self.tell(&line);
        }
        match &record.fact {
            Fact::NodeFinished { node, attempts, state: EndState::Failed | EndState::Blocked, .. }
                if *attempts > 0 =>
            {
                self.show_tail(&self.dir.attempt_log(node, *attempts));
            }
            Fact::ProvisionFailed { lane, again: false, log_tail, .. } => {
                for line in log_tail.lines() {
                    self.tell(&format!("  | {line}"));
                }
                self.tell(&format!("  logs: {}", self.dir.lane(lane).display()));
            }
            _ => {}
        }
    }

    fn warn(&self, line: &str) {
        self.tell(&format!("{}: {line}", style().strong("note")));
    }
}
