//! What `omg gc` did, or would do, and how it is shown.

use std::path::PathBuf;

use serde::Serialize;

use super::style::{Style, printable};
use crate::schedule::fact::RunStatus;

/// Number of the shape of `gc --json`.
pub const SCHEMA: u32 = 1;

/// What `omg gc` did, or would do.
#[derive(Clone, Debug, Serialize)]
pub struct Tidying {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Whether nothing was done, and all of this is what would be.
    pub dry_run: bool,
    /// The runs that were looked at, oldest first as far as their names tell.
    pub runs: Vec<TidiedRun>,
    /// Other things in the folder of runs, left by commands that were killed.
    pub leftovers: Vec<Leftover>,
    /// What was freed, or would be.
    pub freed: Space,
    /// What the runs still take.
    pub kept: Space,
}

/// What something takes on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Space {
    /// Bytes of allocated blocks.
    pub bytes: u64,
    /// Files and folders; a file with several names counts once.
    pub inodes: u64,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct TidiedRun {
    /// The run.
    pub run_id: String,
    /// Its folder.
    pub folder: PathBuf,
    /// How it stands; null where that can't be read.
    pub status: Option<RunStatus>,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it is kept, or could not be put in order, one line a reason.
    pub why: Vec<String>,
    /// What to do about that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What it had left running, as `pid name`.
    pub processes: Vec<String>,
    /// The lanes that got their verdict.
    pub lanes: Vec<TidiedLane>,
    /// Trees that a fresh one took the place of. They are not judged.
    pub old_trees: Vec<PathBuf>,
    /// What was freed, or would be.
    pub freed: Space,
    /// What it still takes.
    pub kept: Space,
}

/// What became of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// There was nothing to do.
    InOrder,
    /// What a dead leg left was put in order.
    PutInOrder,
    /// Its folder is gone.
    Removed,
    /// A living process holds it, or may: nothing was touched.
    Held,
    /// It is paused, and keeps its lanes whole.
    Paused,
    /// Something of it could not be put in order.
    Failed,
}

/// One lane that got its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TidiedLane {
    /// Its name.
    pub name: String,
    /// `kept` or `removed`.
    pub tree: String,
    /// `kept` or `deleted`.
    pub branch: String,
    /// A short stable word for why.
    pub reason: String,
    /// One line for people, where the outcome is not silent.
    pub note: Option<String>,
    /// Where what would have died with its tree is now: a ref, or a folder.
    pub saved: Vec<String>,
    /// Whether its entry in the repository, whose folder was gone, was taken out.
    pub entry_dropped: bool,
    /// Why such an entry stays, where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_kept: Option<String>,
}

/// Something that a killed command left in the folder of runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// Where.
    pub path: PathBuf,
    /// Whether it went, or would.
    pub removed: bool,
    /// What it is, and why it stays where it does.
    pub what: String,
    /// What it takes.
    pub space: Space,
}

impl Space {
    /// Returns this and `other` together.
    pub fn and(self, other: Space) -> Space {
        Space { bytes: self.bytes + other.bytes, inodes: self.inodes + other.inodes }
    }

    /// Returns what of this is not in `other`.
    pub fn less(self, other: Space) -> Space {
        let (bytes, inodes) =
            (self.bytes.saturating_sub(other.bytes), self.inodes.saturating_sub(other.inodes));
        Space { bytes, inodes }
    }

    /// Returns it for people: `12.5 MiB and 310 inodes`.
    pub fn words(self) -> String {
        let inodes = if self.inodes == 1 { "inode" } else { "inodes" };
        format!("{} and {} {inodes}", size(self.bytes), self.inodes)
    }
}

fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

impl Tidying {
    /// Returns whether something could not be put in order.
    pub fn has_failed(&self) -> bool {
        self.runs.iter().any(|run| run.outcome == Outcome::Failed)
    }
}

/// Words for what was done, or would be.
#[derive(Clone, Copy)]
struct Tense(bool);

impl Tense {
    /// `tree` and `removed`: `tree removed`, or `tree would be removed`.
    fn of(self, done: &str) -> String {
        if self.0 { format!("would be {done}") } else { done.to_string() }
    }
}

/// Returns it as lines: each run of which there is something to say, then what it comes to.
pub fn lines(found: &Tidying, style: Style) -> Vec<String> {
    let tense = Tense(found.dry_run);
    let mut lines: Vec<String> = found.runs.iter().flat_map(|run| of_run(run, tense, style)).collect();
    for leftover in &found.leftovers {
        let fate = if leftover.removed { tense.of("removed") } else { "kept".into() };
        lines.push(format!("{}: {fate}; {}", leftover.path.display(), leftover.what));
    }
    if lines.is_empty() {
        lines.push("nothing is to be put in order".into());
    }
    let count = found.runs.iter().filter(|run| run.outcome != Outcome::Removed).count();
    let runs = if count == 1 { "run" } else { "runs" };
    let (freed, kept) = (found.freed.words(), found.kept.words());
    lines.push(format!("{freed} {}; {kept} kept in {count} {runs}", tense.of("freed")));
    lines
}

fn of_run(run: &TidiedRun, tense: Tense, style: Style) -> Vec<String> {
    let plain = Style { color: false };
    let is_silent = run.why.is_empty() && run.old_trees.is_empty() && run.processes.is_empty();
    if run.outcome == Outcome::InOrder && is_silent {
        return Vec::new();
    }
    let word = match run.outcome {
        Outcome::InOrder => "in order".to_string(),
        Outcome::PutInOrder => tense.of("put in order"),
        Outcome::Removed => tense.of("removed"),
        Outcome::Held | Outcome::Paused => "left as it is".into(),
        Outcome::Failed => style.bad("not in order"),
    };
    let status = run.status.map(|status| format!(" ({})", status.word())).unwrap_or_default();
    let mut lines = vec![format!("run {}{status}: {word}", style.strong(&run.run_id))];
    for process in &run.processes {
        lines.push(format!("  process {} {}", printable(process, plain), tense.of("ended")));
    }
    for lane in &run.lanes {
        lines.push(format!("  {}", of_lane(lane, tense)));
    }
    for tree in &run.old_trees {
        lines.push(format!("  old tree {} kept: gc does not judge it", tree.display()));
    }
    lines.extend(run.why.iter().map(|why| format!("  {}", printable(why, plain))));
    lines.extend(run.hint.iter().map(|hint| format!("    {hint}")));
    let is_done = matches!(run.outcome, Outcome::PutInOrder | Outcome::Removed);
    if is_done || run.kept != Space::default() {
        let freed = is_done.then(|| format!("{} {}", run.freed.words(), tense.of("freed")));
        let kept = (run.outcome != Outcome::Removed).then(|| format!("{} kept", run.kept.words()));
        let parts: Vec<String> = freed.into_iter().chain(kept).collect();
        lines.push(format!("  {}", parts.join("; ")));
    }
    lines
}

fn of_lane(lane: &TidiedLane, tense: Tense) -> String {
    let plain = Style { color: false };
    let fate = |word: &str| if word == "kept" { word.to_string() } else { tense.of(word) };
    // What was found there stands behind the reason in the cleanup's own line.
    let found = lane.note.as_deref().filter(|_| lane.tree == "kept").and_then(|note| {
        let (_, rest) = note.split_once(&format!("({}: ", lane.reason))?;
        Some(format!(": {}", printable(rest.split_once(')').map_or(rest, |(found, _)| found), plain)))
    });
    let (tree, branch) = (fate(&lane.tree), fate(&lane.branch));
    let mut line = format!(
        "lane {}: tree {tree}, branch {branch} ({}{})",
        lane.name,
        lane.reason,
        found.unwrap_or_default()
    );
    if !lane.saved.is_empty() {
        line.push_str(&format!("; saved in {}", lane.saved.join(" and ")));
    }
    if lane.entry_dropped {
        line.push_str(&format!(
            "; its entry in the repository, whose folder is gone, {}",
            tense.of("taken out")
        ));
    }
    if let Some(why) = &lane.entry_kept {
        line.push_str(&format!("; its entry in the repository stays: {}", printable(why, plain)));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_the_largest_unit_that_fits() {
        for (bytes, expected) in [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB")] {
            assert_eq!(size(bytes), expected);
        }
        assert_eq!(Space { bytes: 4096, inodes: 1 }.words(), "4.0 KiB and 1 inode");
    }

    #[test]
    fn a_dry_run_tells_the_same_as_what_would_be() {
        let lane = TidiedLane {
            name: "l".into(),
            tree: "removed".into(),
            branch: "kept".into(),
            reason: "own-commits".into(),
            note: None,
            saved: Vec::new(),
            entry_dropped: false,
            entry_kept: None,
        };
        assert_eq!(of_lane(&lane, Tense(false)), "lane l: tree removed, branch kept (own-commits)");
        assert_eq!(of_lane(&lane, Tense(true)), "lane l: tree would be removed, branch kept (own-commits)");
    }
}
