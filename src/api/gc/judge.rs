//! Which run folders `gc` may remove: what is asked, and what speaks against it. Pure.

use std::path::PathBuf;
use std::time::Duration;

use crate::graph::duration;
use crate::schedule::fact::RunStatus;

/// Which run folders are to go. Both conditions hold, where both are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Those without a sign of life for so long.
    pub older_than: Option<Duration>,
    /// All but so many of each repository, the newest.
    pub keep: Option<u32>,
}

impl Rules {
    /// Returns whether any folder is to go.
    pub fn ask_for_any(self) -> bool {
        self.older_than.is_some() || self.keep.is_some()
    }

    /// Returns whether the folder of a run is to go whose last sign of life is `age` ago, and of whose
    /// repository `newer` runs are newer.
    pub fn apply_to(self, age: Duration, newer: usize) -> bool {
        self.ask_for_any()
            && self.older_than.is_none_or(|least| age >= least)
            && self.keep.is_none_or(|keep| newer >= keep as usize)
    }
}

/// Returns the age that `text` stands for: the durations of a graph, and `d` and `w` before them (`2w`,
/// `7d`, `1d12h`).
pub fn age(text: &str) -> Option<Duration> {
    const DAY: u64 = 24 * 3600;
    let mut rest = text;
    let mut total = Duration::ZERO;
    for (unit, seconds) in [('w', 7 * DAY), ('d', DAY)] {
        let Some((number, after)) = rest.split_once(unit) else { continue };
        let number: u32 = number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse().ok())??;
        total = total.checked_add(Duration::from_secs(seconds).checked_mul(number)?)?;
        rest = after;
    }
    if rest.is_empty() && !text.is_empty() {
        return Some(total);
    }
    total.checked_add(duration(rest)?)
}

/// What is known of a run whose folder is to go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// How it stands; `None` where that can't be read.
    pub status: Option<RunStatus>,
    /// Why it can't be read.
    pub unreadable: Option<String>,
    /// The folder of rescued files, where there are any.
    pub rescued: Option<PathBuf>,
    /// Trees of lanes that are there.
    pub trees: Vec<PathBuf>,
    /// Lanes that still wait for a verdict.
    pub waiting: Vec<String>,
    /// Kept branches that nothing else reaches.
    pub branches: Vec<String>,
    /// Why its repository could not be asked for that.
    pub repository: Option<String>,
}

/// Returns why a folder that is to go stays; none where it may go. `named`: the user named this very run.
///
/// A tree stays in any case: it goes as a lane, after its content was rescued, or not at all.
pub fn stays(facts: &Facts, named: bool) -> Vec<String> {
    let mut why: Vec<String> =
        facts.trees.iter().map(|tree| format!("its tree {} is kept", tree.display())).collect();
    if named {
        return why;
    }
    why.extend(facts.unreadable.iter().cloned());
    if let Some(status @ (RunStatus::Running | RunStatus::Paused | RunStatus::Blocked)) = facts.status {
        why.push(format!("it is {}", status.word()));
    }
    why.extend(facts.rescued.iter().map(|folder| format!("it holds rescued files in {}", folder.display())));
    why.extend(facts.waiting.iter().map(|lane| format!("its lane {lane} has no verdict")));
    why.extend(facts.branches.iter().map(|branch| format!("its branch {branch} is merged nowhere")));
    why.extend(facts.repository.iter().cloned());
    why
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_a_duration_with_days_and_weeks() {
        const HOUR: u64 = 3600;
        for (text, seconds) in [
            ("7d", 168 * HOUR),
            ("2w", 336 * HOUR),
            ("1w1d", 192 * HOUR),
            ("1d12h", 36 * HOUR),
            ("90s", 90),
            ("0s", 0),
        ] {
            assert_eq!(age(text), Some(Duration::from_secs(seconds)), "{text}");
        }
        for bad in ["", "7", "d", "1.5d", "1d1w", "-1d", "99999999999w", "1d2"] {
            assert_eq!(age(bad), None, "{bad}");
        }
    }

    #[test]
    fn both_rules_have_to_hold() {
        let old = Duration::from_secs(100);
        let rules =
            |older_than: Option<u64>, keep| Rules { older_than: older_than.map(Duration::from_secs), keep };
        for (rules, newer, expected) in [
            (rules(None, None), 9, false),
            (rules(Some(100), None), 0, true),
            (rules(Some(101), None), 9, false),
            (rules(None, Some(2)), 1, false),
            (rules(None, Some(2)), 2, true),
            (rules(None, Some(0)), 0, true),
            (rules(Some(100), Some(2)), 1, false),
            (rules(Some(101), Some(2)), 2, false),
            (rules(Some(100), Some(2)), 2, true),
        ] {
            assert_eq!(rules.apply_to(old, newer), expected, "{rules:?} {newer}");
        }
    }

    #[test]
    fn each_protected_state_stays_and_a_name_opens_all_but_a_tree() {
        let free = Facts { status: Some(RunStatus::Passed), ..Facts::default() };
        assert_eq!(stays(&free, false), Vec::<String>::new());
        let status = |status| Facts { status: Some(status), ..Facts::default() };
        for status_goes in [RunStatus::Failed, RunStatus::Cancelled, RunStatus::Interrupted] {
            assert!(stays(&status(status_goes), false).is_empty(), "{status_goes:?}");
        }
        let tree = Facts { trees: vec!["/t".into()], ..free.clone() };
        for (facts, named_too) in [
            (status(RunStatus::Running), false),
            (status(RunStatus::Paused), false),
            (status(RunStatus::Blocked), false),
            (Facts { unreadable: Some("torn".into()), ..Facts::default() }, false),
            (Facts { rescued: Some("/r".into()), ..free.clone() }, false),
            (Facts { waiting: vec!["l".into()], ..free.clone() }, false),
            (Facts { branches: vec!["omg/r/l".into()], ..free.clone() }, false),
            (Facts { repository: Some("it is away".into()), ..free.clone() }, false),
            (tree, true),
        ] {
            assert_eq!(stays(&facts, false).len(), 1, "{facts:?}");
            assert_eq!(!stays(&facts, true).is_empty(), named_too, "{facts:?}");
        }
    }
}
