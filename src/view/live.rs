//! A run as it stands this moment: what a terminal shows below the lines that tell what happened.
//!
//! A fold of records, like every view; the clock and the size of the screen are arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use unicode_width::UnicodeWidthChar;

use super::style::{Style, clock, duration, printable};
use crate::graph::Graph;
use crate::ids::{LaneName, NodeId};
use crate::journal::Record;
use crate::schedule::Fact;
use crate::schedule::fact::EndState;
use crate::schedule::resolver::Next;

/// Most lines that are shown, whatever the screen's height.
const LINES_MAX: usize = 12;

/// A run as it stands.
#[derive(Clone, Debug)]
pub struct Live {
    total: usize,
    /// How many nodes wait for each node directly, where some do.
    dependents: BTreeMap<NodeId, usize>,
    ended: BTreeMap<NodeId, EndState>,
    running: BTreeMap<NodeId, Running>,
    lanes: BTreeMap<LaneName, Lane>,
    /// Nodes in a pause, and when it is over.
    parked: BTreeMap<NodeId, Timestamp>,
    since: Option<Timestamp>,
    stopping: bool,
}

#[derive(Clone, Debug)]
struct Running {
    since: Timestamp,
    attempt: u32,
    lane: Option<LaneName>,
    ending: bool,
}

#[derive(Clone, Debug)]
struct Lane {
    phase: &'static str,
    /// What is run in it.
    command: Option<String>,
    since: Timestamp,
}

/// Counts of nodes by how they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub total: usize,
    /// Over, in whatever way.
    pub over: usize,
    /// In flight.
    pub running: usize,
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Blocked.
    pub blocked: usize,
    /// Skipped.
    pub skipped: usize,
}

impl Live {
    /// Returns a run of `graph` of which nothing has happened yet.
    pub fn new(graph: &Graph) -> Live {
        let dependents = graph.node_ixs().map(|ix| (graph.node(ix).id.clone(), graph.dependents(ix).count()));
        Live {
            total: graph.nodes().len(),
            dependents: dependents.filter(|(_, count)| *count > 0).collect(),
            ended: BTreeMap::new(),
            running: BTreeMap::new(),
            lanes: BTreeMap::new(),
            parked: BTreeMap::new(),
            since: None,
            stopping: false,
        }
    }

    /// Takes in what has become true.
    pub fn apply(&mut self, record: &Record) {
        let since = record.ts;
        let lane = |phase| Lane { phase, command: None, since };
        match &record.fact {
            Fact::RunStarted { .. } => {
                self.running.clear();
                self.lanes.clear();
                self.parked.clear();
                self.since = Some(since);
                self.stopping = false;
                self.ended.retain(|_, end| {
                    !matches!(
                        end,
                        EndState::Paused | EndState::Waiting | EndState::Cancelled | EndState::Interrupted
                    )
                });
            }
            Fact::GraphAmended { reopened, removed, .. } => {
                for id in reopened.iter().chain(removed) {
                    self.ended.remove(id);
                }
            }
            Fact::AcquireRequested { lane: name, .. } => {
                self.lanes.insert(name.clone(), lane("making it"));
            }
            Fact::OverlayRequested { lane: name, .. } => {
                self.lanes.insert(name.clone(), lane("copying local files"));
            }
            Fact::ProvisionRequested { lane: name, .. } => {
                self.lanes.insert(name.clone(), lane("provisioning"));
            }
            Fact::ProvisionStarted { lane: name, cmd, .. } => {
                // Since when the lane is prepared is what people wait by.
                let since = self.lanes.get(name).map_or(since, |lane| lane.since);
                let command = cmd.lines().next().map(|line| printable(line, Style { color: false }));
                self.lanes.insert(name.clone(), Lane { phase: "provisioning", command, since });
            }
            Fact::CleanupRequested { lane: name, .. } => {
                self.lanes.insert(name.clone(), lane("cleaning up"));
            }
            Fact::AcquirePerformed { lane, .. }
            | Fact::AcquireFailed { lane, .. }
            | Fact::OverlayPerformed { lane, .. }
            | Fact::OverlayFailed { lane, .. }
            | Fact::ProvisionPerformed { lane, .. }
            | Fact::ProvisionFailed { lane, .. }
            | Fact::ProvisionSkipped { lane, .. }
            | Fact::CleanupFailed { lane, .. }
            | Fact::CleanupPerformed { lane, .. } => {
                self.lanes.remove(lane);
            }
            Fact::DispatchRequested { node, attempt, lane, .. } => {
                self.ended.remove(node);
                self.parked.remove(node);
                let running = Running { since, attempt: *attempt, lane: lane.clone(), ending: false };
                self.running.insert(node.clone(), running);
            }
            Fact::KillRequested { node, .. } => {
                if let Some(running) = self.running.get_mut(node) {
                    running.ending = true;
                }
            }
            Fact::DispatchFailed { node, .. } => {
                self.running.remove(node);
            }
            Fact::AttemptFinished { node, next, .. } => {
                self.running.remove(node);
                if let Some(Next::Retry(after) | Next::Redispatch(after) | Next::Fallback(after)) = next {
                    let until = since.as_millisecond().saturating_add_unsigned(*after);
                    let until = Timestamp::from_millisecond(until).unwrap_or(since);
                    self.parked.insert(node.clone(), until);
                }
            }
            Fact::NodeFinished { node, state, .. } | Fact::RoundFinished { node, state, .. } => {
                self.running.remove(node);
                self.parked.remove(node);
                self.ended.insert(node.clone(), *state);
            }
            Fact::Stopping { .. } => self.stopping = true,
            Fact::RunFinished { .. } => {
                self.running.clear();
                self.lanes.clear();
                self.parked.clear();
            }
            Fact::ProvisionStale { .. }
            | Fact::NodeStarted { .. }
            | Fact::NodeSkipped { .. }
            | Fact::GateDecided { .. }
            | Fact::RestartRequested { .. }
            | Fact::RestartPerformed { .. }
            | Fact::RestartFailed { .. }
            | Fact::ActOverdue { .. }
            | Fact::KillPerformed { .. }
            | Fact::KillFailed { .. } => {}
        }
    }

    /// Takes in that the program was suspended for so long: no time that is shown has passed.
    pub fn stood_still(&mut self, away: Duration) {
        let moved = |at: Timestamp| at.checked_add(away).unwrap_or(at);
        let running = self.running.values_mut().map(|running| &mut running.since);
        let lanes = self.lanes.values_mut().map(|lane| &mut lane.since);
        for since in running.chain(lanes).chain(self.parked.values_mut()).chain(&mut self.since) {
            *since = moved(*since);
        }
    }

    /// Returns how many nodes stand how.
    pub fn counts(&self) -> Counts {
        let of = |end| self.ended.values().filter(|other| **other == end).count();
        Counts {
            total: self.total,
            over: self.ended.len(),
            running: self.running.len(),
            passed: of(EndState::Passed),
            failed: of(EndState::Failed),
            blocked: of(EndState::Blocked),
            skipped: of(EndState::Skipped),
        }
    }

    /// Returns what a screen of this size shows at `now`: a line of counts, then what is in progress, the
    /// longest first. No line is wider than the screen, and none is empty.
    pub fn lines(&self, now: Timestamp, (width, height): (usize, usize), style: Style) -> Vec<String> {
        let room = LINES_MAX.min(height / 2).max(2);
        let mut rows = self.rows(now, style);
        let left = rows.len().saturating_sub(room - 1);
        if left > 0 {
            rows.truncate(room - 2);
            rows.push(format!("  … and {} more", left + 1));
        }
        let lines = [self.head(now, style)].into_iter().chain(rows);
        // The last column stays free: a terminal that is exactly full wraps at the next character.
        lines.map(|line| cut(&line, width.saturating_sub(1))).collect()
    }

    /// Returns everything that is in progress at `now`, a line each, for who asks.
    pub fn report(&self, now: Timestamp, style: Style) -> Vec<String> {
        [self.head(now, style)].into_iter().chain(self.rows(now, style)).collect()
    }

    fn head(&self, now: Timestamp, style: Style) -> String {
        let counts = self.counts();
        let mut parts = vec![format!("{}/{} over", counts.over, counts.total)];
        let to_go = counts.total.saturating_sub(counts.over + counts.running);
        let words = [
            (counts.running, "running"),
            (counts.passed, "passed"),
            (counts.failed, "failed"),
            (counts.blocked, "blocked"),
            (counts.skipped, "skipped"),
            (to_go, "to go"),
        ];
        for (count, word) in words {
            if count > 0 {
                parts.push(format!("{count} {}", style.state(word)));
            }
        }
        if self.stopping {
            parts.push(style.bad("stopping"));
        }
        let since = self.since.map(|since| clock(between(since, now)));
        parts.extend(since);
        parts.join(" · ")
    }

    fn rows(&self, now: Timestamp, style: Style) -> Vec<String> {
        let mut rows: Vec<(Timestamp, String)> = Vec::new();
        for (name, lane) in &self.lanes {
            let time = duration(between(lane.since, now));
            let command = lane.command.as_ref().map(|command| format!(", `{command}`")).unwrap_or_default();
            rows.push((lane.since, format!("  lane {name}: {} {time}{command}", lane.phase)));
        }
        for (id, running) in &self.running {
            let mut row = format!("  {}: ", style.strong(id.as_str()));
            row += if running.ending { "ending" } else { "running" };
            row += &format!(" {}", duration(between(running.since, now)));
            if running.attempt > 1 {
                row += &format!(", attempt {}", running.attempt);
            }
            if let Some(lane) = &running.lane {
                row += &format!(", lane {lane}");
            }
            match self.dependents.get(id) {
                Some(1) => row += ", 1 node waits for it",
                Some(count) => row += &format!(", {count} nodes wait for it"),
                None => {}
            }
            rows.push((running.since, row));
        }
        rows.sort();
        let parked = self.parked.iter().map(|(id, until)| {
            format!("  {}: again in {}", style.strong(id.as_str()), duration(between(now, *until)))
        });
        rows.into_iter().map(|(_, row)| row).chain(parked).collect()
    }
}

fn between(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millisecond() - from.as_millisecond()).unwrap_or(0)
}

/// Returns a line cut to `width` columns; what colours it counts for nothing and is not cut off.
fn cut(line: &str, width: usize) -> String {
    let (mut kept, mut used, mut escaped, mut full) = (String::new(), 0, false, false);
    for c in line.chars() {
        let columns = if escaped || c == '\u{1b}' { 0 } else { c.width().unwrap_or(0) };
        escaped = (escaped && c != 'm') || c == '\u{1b}';
        full |= used + columns > width;
        if columns == 0 || !full {
            used += columns;
            kept.push(c);
        }
    }
    kept
}
