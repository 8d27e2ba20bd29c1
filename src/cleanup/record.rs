//! The words of a sweep: its one line for people, and a value for every channel.

use super::look::{Head, Look};
use super::verdict::{Reason, Tip, Tree, Verdict};
use super::{BranchFate, CHANNELS, Carried, CleanupOutcome, SweepRequest, TreeFate};
use crate::worktree::lane::rescue_ref;

/// What an earlier sweep of the lane has saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Earlier {
    /// Files.
    pub files: bool,
    /// Commits, under the rescue ref.
    pub commits: bool,
}

/// Words the outcomes of one lane.
pub(super) struct Record<'a> {
    request: &'a SweepRequest,
}

impl<'a> Record<'a> {
    pub fn new(request: &'a SweepRequest) -> Record<'a> {
        Record { request }
    }

    /// A lane that could not even be looked at.
    pub fn kept(&self, reason: Reason, words: &str) -> CleanupOutcome {
        let outcome = CleanupOutcome {
            tree: TreeFate::Kept,
            branch: BranchFate::Kept,
            reason: reason.as_str().into(),
            note: Some(self.kept_line(reason, Some(words))),
            channels: CHANNELS.iter().map(|channel| (*channel, "kept".to_string())).collect(),
            carried: Vec::new(),
            unchecked: None,
        };
        match self.request.may_have_copies() {
            true => with_carried(outcome, &self.request.lane, Err("the lane was not looked at".into())),
            false => outcome,
        }
    }

    /// A verdict that keeps the tree.
    pub fn of(&self, look: &Look, verdict: &Verdict) -> CleanupOutcome {
        debug_assert_eq!(verdict.tree, Tree::Keep);
        let words = look.why.clone().or_else(|| counts(look));
        self.outcome_kept(look, verdict.reason, words.as_deref())
    }

    /// A tree that was to go, and stays.
    pub fn stays(&self, look: &Look, reason: Reason, words: &str) -> CleanupOutcome {
        self.outcome_kept(look, reason, Some(words))
    }

    fn outcome_kept(&self, look: &Look, reason: Reason, words: Option<&str>) -> CleanupOutcome {
        CleanupOutcome {
            tree: TreeFate::Kept,
            branch: BranchFate::Kept,
            reason: reason.as_str().into(),
            note: Some(self.kept_line(reason, words)),
            channels: self.channels(look, TreeFate::Kept, BranchFate::Kept),
            carried: Vec::new(),
            unchecked: None,
        }
    }

    /// A lane whose tree is gone.
    pub fn gone(
        &self,
        look: &Look,
        reason: Reason,
        branch: BranchFate,
        trouble: Option<&str>,
        earlier: Earlier,
    ) -> CleanupOutcome {
        let mut channels = self.channels(look, TreeFate::Removed, branch);
        self.add_earlier(&mut channels, earlier);
        let mut parts = Vec::new();
        match branch {
            BranchFate::Kept => {
                parts.push(format!("branch {} kept ({})", self.request.branch, reason.as_str()))
            }
            BranchFate::Deleted if reason == Reason::Clean => {}
            BranchFate::Deleted => parts.push(format!("branch {} is gone", self.request.branch)),
        }
        let mut saved: Vec<&str> =
            channels.iter().filter_map(|(_, value)| value.strip_prefix("saved: ")).collect();
        saved.dedup();
        saved.sort_unstable();
        saved.dedup();
        if !saved.is_empty() {
            parts.push(format!("saved in {}", saved.join(" and ")));
        }
        if look.stash > 0 {
            parts.push(format!("{} in git stash", things(look.stash, "entry", "entries")));
        }
        if let Head::Branch(other) = &look.head {
            parts.push(format!("branch {other}, which it had checked out, kept"));
        }
        parts.extend(trouble.map(str::to_string));
        let note = (!parts.is_empty())
            .then(|| one_line(&format!("lane {}: tree removed; {}", self.request.lane, parts.join("; "))));
        CleanupOutcome {
            tree: TreeFate::Removed,
            branch,
            reason: reason.as_str().into(),
            note,
            channels,
            carried: Vec::new(),
            unchecked: None,
        }
    }

    /// What a killed sweep had saved is saved, though nothing is left to be seen of it where it was.
    fn add_earlier(&self, channels: &mut [(&'static str, String)], earlier: Earlier) {
        let files = format!("saved: {}", self.request.rescued.display());
        let commits = format!("saved: {}", rescue_ref(&self.request.run, &self.request.lane));
        for (is_there, channel, words) in
            [(earlier.files, "ignored", files), (earlier.commits, "reflog", commits)]
        {
            let is_told = channels.iter().any(|(_, value)| *value == words);
            if let Some((_, value)) =
                channels.iter_mut().find(|(name, _)| is_there && !is_told && *name == channel)
            {
                *value = words;
            }
        }
    }

    fn kept_line(&self, reason: Reason, words: Option<&str>) -> String {
        let words = words.map(|words| format!(": {}", shortened(words))).unwrap_or_default();
        one_line(&format!(
            "lane {}: kept at {}, branch {} ({}{words})",
            self.request.lane,
            self.request.path.display(),
            self.request.branch,
            reason.as_str(),
        ))
    }

    fn channels(&self, look: &Look, tree: TreeFate, branch: BranchFate) -> Vec<(&'static str, String)> {
        let saved_ref = rescue_ref(&self.request.run, &self.request.lane);
        let saved_files = self.request.rescued.display().to_string();
        let work = look.observed.work;
        let value = |present: bool, place: &str| match (present, tree) {
            (false, _) => "none".to_string(),
            (true, TreeFate::Kept) => "kept".to_string(),
            (true, TreeFate::Removed) => format!("saved: {place}"),
        };
        // Unread is never "none" where the tree stays; where it is gone there was nothing to read.
        let some = |count: Option<u64>| count.map_or(tree == TreeFate::Kept, |count| count > 0);
        let unreached = some(look.observed.unreached);
        let detached = matches!(&look.head, Head::Detached(commit) if look.unreached.contains(commit));
        let only_strays = !look.strays.is_empty() && work.untracked == Some(look.strays.len() as u64);
        let from_reflog = unreached && !(detached && look.unreached.len() == 1);
        let other_branch = matches!(look.head, Head::Branch(_));
        let moved =
            matches!(&look.observed.tip, Some(Tip::At { commit, .. }) if *commit != self.request.base);
        let branches = branch == BranchFate::Kept && (moved || look.observed.tip.is_none()) || other_branch;
        CHANNELS
            .iter()
            .map(|channel| {
                let value = match *channel {
                    "tracked" => value(some(work.tracked), &saved_ref),
                    "staged" => value(some(work.staged), &saved_ref),
                    "untracked" => {
                        value(some(work.untracked), if only_strays { &saved_files } else { &saved_ref })
                    }
                    "ignored" => value(some(look.observed.ignored), &saved_files),
                    "flagged" => value(some(work.flagged), &saved_ref),
                    "nested" => value(some(work.nested), &saved_files),
                    "submodule" => value(some(work.submodule), &saved_ref),
                    "operation" => value(some(work.operation), &saved_ref),
                    "detached" => value(detached, &saved_ref),
                    "reflog" => value(from_reflog, &saved_ref),
                    "branches" if branches => "kept".into(),
                    "stash" if look.stash > 0 => "kept".into(),
                    "overlay" => value(some(work.overlay), &saved_files),
                    _ => "none".into(),
                };
                (*channel, value)
            })
            .collect()
    }
}

/// Returns `outcome` with what its commits carry, which its line for people says too.
pub(super) fn with_carried(
    mut outcome: CleanupOutcome,
    lane: &crate::ids::LaneName,
    found: Result<Vec<Carried>, String>,
) -> CleanupOutcome {
    let words = match &found {
        Ok(carried) if carried.is_empty() => return outcome,
        Ok(carried) => carried_words(carried),
        Err(error) => format!("whether its commits carry local files could not be checked: {error}"),
    };
    let before = outcome.note.take().unwrap_or_else(|| format!("lane {lane}"));
    outcome.note = Some(one_line(&format!("{before}; {words}")));
    match found {
        Ok(carried) => outcome.carried = carried,
        Err(error) => outcome.unchecked = Some(error),
    }
    outcome
}

fn carried_words(carried: &[Carried]) -> String {
    const NAMED_MAX: usize = 3;
    let named = carried.iter().take(NAMED_MAX).map(|carried| {
        // A node can name a file as it likes.
        let path: String =
            carried.path.to_string_lossy().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        format!("commit {} carries {path}", carried.commit.short())
    });
    let more = carried.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!(
        "{}{more}: local files of yours, so do not merge it as it is",
        named.collect::<Vec<_>>().join(", ")
    )
}

fn counts(look: &Look) -> Option<String> {
    let work = look.observed.work;
    let parts: Vec<String> = [
        (work.operation, "operation under way", "operations under way"),
        (work.tracked, "modified file", "modified files"),
        (work.staged, "staged file", "staged files"),
        (work.untracked, "untracked file", "untracked files"),
        (work.flagged, "hidden edit", "hidden edits"),
        (work.overlay, "edited overlay file", "edited overlay files"),
        (work.nested, "repository inside", "repositories inside"),
        (work.submodule, "submodule with work of its own", "submodules with work of their own"),
        (look.observed.ignored, "ignored file", "ignored files"),
    ]
    .into_iter()
    .filter_map(|(count, one, many)| count.filter(|count| *count > 0).map(|count| things(count, one, many)))
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn things(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A line is for people; a path can be thousands of characters long.
fn shortened(words: &str) -> String {
    const LONGEST: usize = 300;
    match words.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words.to_string(),
    }
}

fn one_line(text: &str) -> String {
    text.trim().replace('\n', " ")
}
