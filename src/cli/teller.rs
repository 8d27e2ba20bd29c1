//! Tells of a leg as it goes, on a thread of its own: a terminal that stands still stalls nobody.
//!
//! What is waiting to be told is bounded by what the journal holds. Nothing here decides anything: what is
//! shown comes from `view`, and how it reaches a screen from `screen`.
#![expect(
    clippy::disallowed_methods,
    reason = "shows the last lines of logs; adds to the summary of a CI job"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::output;
use super::presentation::Presentation;
use super::screen::Screen;
use crate::ids::NodeId;
use crate::journal::mask::Mask;
use crate::journal::{Record, RunDir};
use crate::run::Observer;
use crate::run::seams::{Clock, SystemClock};
use crate::schedule::Fact;
use crate::schedule::fact::EndState;
use crate::view::ci::{self, Spot};
use crate::view::live::Live;
use crate::view::style::printable;
use crate::view::{RunView, progress};

/// Lines of a failed node's log that are shown.
const TAIL_LINES: usize = 40;
/// How often a terminal shows how time passes.
const TICK: Duration = Duration::from_millis(100);
/// How long what happens is gathered before it is told.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a terminal that stands still may keep a leg from being suspended.
const SUSPEND_WAIT: Duration = Duration::from_secs(1);

/// What the telling of a run needs to know of it.
pub struct Known {
    /// How it is shown.
    pub presentation: Presentation,
    /// The run's folder, for logs.
    pub dir: RunDir,
    /// What is taken out of what is shown.
    pub mask: Mask,
    /// The run as it stands.
    pub live: Live,
    /// Where nodes stand in the graph file, for a CI system.
    pub spots: BTreeMap<NodeId, Spot>,
    /// The file that GitHub shows on a job's page, where it asks for one.
    pub summary: Option<PathBuf>,
}

enum Message {
    Recorded(Box<Record>, String),
    Warning(String),
    Show,
    /// The screen is left to others until something is recorded or the leg goes on.
    Leave(mpsc::Sender<()>),
    Return(Duration),
}

/// Tells of a leg as it goes.
pub struct Teller {
    to: RefCell<Option<mpsc::Sender<Message>>>,
    thread: RefCell<Option<JoinHandle<()>>>,
    summary: Option<PathBuf>,
}

impl Teller {
    /// Starts telling.
    pub fn start(known: Known) -> Teller {
        let (to, messages) = mpsc::channel();
        let summary = known.summary.clone();
        let thread = std::thread::spawn(move || Voice::new(known).speak(&messages));
        Teller { to: RefCell::new(Some(to)), thread: RefCell::new(Some(thread)), summary }
    }

    /// Returns once all is told, and the screen is as it was.
    pub fn finish(&self) {
        self.to.take();
        self.nudge();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Adds a run's end to the page of a CI job, where that asks for one.
    pub fn summarize(&self, view: &RunView) {
        let Some(path) = &self.summary else { return };
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        if let Err(error) = file.and_then(|mut file| file.write_all(ci::github_summary(view).as_bytes())) {
            output::complain(&format!("note: {}: {error}", path.display()));
        }
    }

    /// Has what is waiting told at once.
    fn nudge(&self) {
        if let Some(thread) = &*self.thread.borrow() {
            thread.thread().unpark();
        }
    }

    fn send(&self, message: Message) {
        if let Some(to) = &*self.to.borrow() {
            // A voice that is gone has panicked, and said so.
            let _ = to.send(message);
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Observer for Teller {
    fn recorded(&self, record: &Record, line: &str) {
        self.send(Message::Recorded(Box::new(record.clone()), line.to_string()));
    }

    fn warn(&self, line: &str) {
        self.send(Message::Warning(line.to_string()));
    }

    fn show(&self) {
        self.send(Message::Show);
    }

    fn leave(&self) {
        let (done, left) = mpsc::channel();
        self.send(Message::Leave(done));
        self.nudge();
        let _ = left.recv_timeout(SUSPEND_WAIT);
    }

    fn come_back(&self, away: Duration) {
        self.send(Message::Return(away));
    }
}

/// The thread's own part.
struct Voice {
    known: Known,
    screen: Screen,
    away: bool,
    /// The word that ends what a node said, in GitHub's log.
    word: String,
}

impl Voice {
    fn new(known: Known) -> Voice {
        let screen = Screen::new(known.presentation == Presentation::Live);
        Voice { known, screen, away: false, word: output::random_word() }
    }

    fn speak(mut self, messages: &mpsc::Receiver<Message>) {
        let mut open = true;
        while open {
            let wait = if self.screen.is_live() && !self.away {
                messages.recv_timeout(TICK)
            } else {
                messages.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            let mut lines = Vec::new();
            match wait {
                Ok(message) => self.take(message, &mut lines),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // What has piled up is one picture; a screen's worth of lines at a time keeps that bounded.
            while lines.len() < 1000 {
                match messages.try_recv() {
                    Ok(message) => self.take(message, &mut lines),
                    Err(mpsc::TryRecvError::Empty) => break,
                    Err(mpsc::TryRecvError::Disconnected) => {
                        open = false;
                        break;
                    }
                }
            }
            self.draw(&lines);
            if open && lines.len() < 1000 {
                // Being woken for each line would cost a short node as much as its start; `nudge` cuts this short.
                std::thread::park_timeout(PAUSE);
            }
        }
        self.screen.show(&[], &[]);
    }

    fn draw(&mut self, lines: &[String]) {
        let region = match self.screen.size() {
            Some(size) if !self.away => self.known.live.lines(SystemClock.now(), size, self.screen.style()),
            Some(_) | None => Vec::new(),
        };
        let region: Vec<String> = region.iter().map(|line| self.known.mask.text(line)).collect();
        self.screen.show(lines, &region);
    }

    fn take(&mut self, message: Message, lines: &mut Vec<String>) {
        match message {
            Message::Recorded(record, line) => {
                self.known.live.apply(&record);
                if self.known.presentation == Presentation::Json {
                    output::result(&line);
                } else {
                    let told = self.of_fact(&record);
                    lines.extend(told.into_iter().map(|line| self.known.mask.text(&line)));
                }
            }
            Message::Warning(line) => {
                let line = format!("{}: {}", self.screen.style().strong("note"), line);
                lines.push(self.known.mask.text(&self.plain(line)));
            }
            Message::Show => {
                let report = self.known.live.report(SystemClock.now(), self.screen.style());
                lines.extend(report.into_iter().map(|line| self.known.mask.text(&line)));
            }
            Message::Leave(done) => {
                self.away = true;
                self.draw(lines);
                lines.clear();
                let _ = done.send(());
            }
            Message::Return(away) => {
                self.known.live.stood_still(away);
                self.away = false;
            }
        }
    }

    /// Returns what is said of a fact.
    fn of_fact(&self, record: &Record) -> Vec<String> {
        let style = self.screen.style();
        // Below the lines stands what is running; that it began need not be said twice.
        let begun = matches!(record.fact, Fact::NodeStarted { .. });
        let mut lines =
            if begun && self.screen.is_live() { Vec::new() } else { progress::lines(&record.fact, style) };
        lines = lines.into_iter().map(|line| self.plain(line)).collect();
        match &record.fact {
            Fact::NodeFinished { node, attempts, state: EndState::Failed | EndState::Blocked, fault } => {
                if *attempts > 0 {
                    let log = self.known.dir.attempt_log(node, *attempts);
                    lines.extend(self.fold(
                        node.as_str(),
                        &format!("the end of {node}'s log"),
                        tail(&log),
                        record,
                    ));
                    lines.push(format!("  log: {}", log.display()));
                }
                if let (Presentation::Github, Some(fault)) = (self.known.presentation, fault)
                    && let Some(spot) = self.known.spots.get(node)
                {
                    let message = self.known.mask.text(&format!("{}: {}", fault.class.word(), fault.detail));
                    lines.push(ci::github_error(spot, &format!("node {node}"), &message));
                }
            }
            // Without a word of output there is no log to look into.
            Fact::ProvisionFailed { again: false, log_tail, .. } if log_tail.is_empty() => {}
            Fact::ProvisionFailed { lane, again: false, log_tail, .. } => {
                let said = log_tail.lines().map(str::to_string).collect();
                lines.extend(self.fold(
                    lane.as_str(),
                    &format!("the end of lane {lane}'s provisioning"),
                    said,
                    record,
                ));
                lines.push(format!("  logs: {}", self.known.dir.lane(lane).display()));
            }
            _ => {}
        }
        lines
    }

    /// Returns a line as it may stand in the log that it goes to.
    fn plain(&self, line: String) -> String {
        let line = printable(&line, self.screen.style());
        match self.known.presentation {
            Presentation::Github => ci::github_line(&line),
            Presentation::Live | Presentation::Plain | Presentation::Json | Presentation::Gitlab => line,
        }
    }

    /// Returns what others printed, set apart from what we say.
    fn fold(&self, name: &str, title: &str, said: Vec<String>, record: &Record) -> Vec<String> {
        let style = self.screen.style();
        let said: Vec<String> =
            said.into_iter().map(|line| format!("  | {}", printable(&line, style))).collect();
        if said.is_empty() {
            return said;
        }
        match self.known.presentation {
            Presentation::Github => ci::github_group(title, &said, &self.word),
            Presentation::Gitlab => ci::gitlab_section(name, title, &said, record.ts.as_second()),
            Presentation::Live | Presentation::Plain | Presentation::Json => said,
        }
    }
}

/// Characters of a log's line that are shown.
const LINE_MAX: usize = 2000;

/// Bytes at the end of a log in which its last lines are looked for.
const TAIL_BYTES: u64 = 256 * 1024;

/// Returns the last lines of a log; none where it can't be read.
pub fn tail(log: &Path) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(|line| shortened(line)).collect()
}

/// Returns a line with its middle left out where it is longer than anybody reads.
fn shortened(line: &str) -> String {
    let count = line.chars().count();
    if count <= LINE_MAX {
        return line.to_string();
    }
    let (first, last): (String, String) =
        (line.chars().take(LINE_MAX / 2).collect(), line.chars().skip(count - LINE_MAX / 2).collect());
    format!("{first} … {last}")
}
