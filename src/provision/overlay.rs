//! Which local files a lane gets: what is named, and how things stand → copies. And the ledger of them.
//!
//! Pure. What is found in the lane wins over what would be copied: nothing that a node may have made is
//! ever overwritten, and a copy that was edited stays as it was edited.

use crate::ids::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::worktree::overlay::Place;

/// Most files that one lane gets.
pub const FILES_MAX: usize = 1000;
/// Most bytes of one of them: 16 MiB.
pub const FILE_BYTES_MAX: u64 = 16 << 20;
/// Most bytes of all together: 64 MiB.
pub const BYTES_MAX: u64 = 64 << 20;

/// A file of the user's tree, as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its content, hashed with SHA-256, in lower-case hex.
    pub sha256: String,
    /// Its permissions.
    pub mode: u32,
    /// Its length in bytes.
    pub size: u64,
    /// The names that git would store it under.
    pub blobs: Vec<String>,
}

/// What is at a local file's place in the lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InLane {
    /// Nothing.
    #[default]
    Absent,
    /// A file with this content, hashed.
    File(String),
    /// A folder, a link, or anything else that is no file.
    Other,
}

/// One local file in a lane, as the run remembers it. The record is written before the copy is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its path in the lane, and in the user's tree.
    pub path: String,
    /// The content that was copied, hashed with SHA-256, in lower-case hex.
    pub sha256: String,
    /// The permissions it was copied with.
    pub mode: u32,
    /// Its length in bytes.
    pub size: u64,
    /// How git is kept from it.
    pub git: Hidden,
    /// The names that git would store the content under.
    pub blobs: Vec<String>,
}

/// How git is kept from a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hidden {
    /// It is tracked: `skip-worktree` in the lane's own index.
    Tracked,
    /// The repository's own rules ignore it.
    Ignored,
    /// The run's excludes name it, which reach only the lane's processes.
    Excluded,
}

/// What was copied into a lane: the receipt of its overlay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Every copy, by path.
    pub files: Vec<Entry>,
}

impl Ledger {
    /// Returns what is known of the copy at `path`.
    pub fn get(&self, path: &str) -> Option<&Entry> {
        self.files.iter().find(|entry| entry.path == path)
    }
}

/// Returns what the copies of a lane are, hashed: paths and contents. `None` where there are none.
pub fn overlay_digest(ledger: &Ledger) -> Option<String> {
    if ledger.files.is_empty() {
        return None;
    }
    let mut files: Vec<(&str, &str)> =
        ledger.files.iter().map(|entry| (entry.path.as_str(), entry.sha256.as_str())).collect();
    files.sort_unstable();
    let mut hash = Sha256::new();
    for (path, sha256) in files {
        for part in [path, sha256] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
    }
    Some(hex(&hash.finalize()))
}

/// What happens to one local file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is copied; recorded as this.
    Copy(Entry),
    /// The lane has the copy as it was made; recorded as this.
    Keep(Entry),
    /// The lane's copy was edited since and stays; recorded as it was made.
    Edited(Entry),
    /// The lane's own file stays and is no copy. Why, where a person should know; what is remembered of a
    /// copy of before.
    Leave(Option<&'static str>, Option<Entry>),
}

/// Returns what happens to the local file at `path`.
///
/// `source`: the user's file, `None` where it is gone. `known`: what the run remembers of an earlier copy.
/// Errors: why it can't be copied.
pub fn decide(
    path: &str,
    source: Option<&Source>,
    known: Option<&Entry>,
    lane: &InLane,
    place: &Place,
) -> Result<Step, String> {
    let entry = |source: &Source| Entry {
        path: path.to_string(),
        sha256: source.sha256.clone(),
        mode: source.mode,
        size: source.size,
        git: hidden(place),
        blobs: source.blobs.clone(),
    };
    let renewed = |known: &Entry| Entry { git: hidden(place), ..known.clone() };
    let is_source = |sha256: &String| source.is_some_and(|source| source.sha256 == *sha256);
    if !place.as_in_base {
        // A node committed to it, staged or removed it: it is the lane's own now.
        return Ok(Step::Leave(Some("the lane has changed it since its base"), known.cloned()));
    }
    match (lane, source, known) {
        (InLane::Other, ..) => Err(format!("`{path}` is in the lane, and no regular file there")),
        (InLane::Absent, None, _) => Ok(Step::Leave(None, None)),
        (InLane::Absent, Some(_), known) if place.tracked && !place.hidden => {
            Ok(Step::Leave(Some("it was deleted in the lane"), known.cloned()))
        }
        (InLane::Absent, Some(source), _) => Ok(Step::Copy(entry(source))),
        (InLane::File(found), _, Some(known)) if *found == known.sha256 => Ok(Step::Keep(renewed(known))),
        (InLane::File(found), Some(_), None)
            if is_source(found) && place.tracked && place.clean && !place.hidden =>
        {
            // What the base has is what the user has.
            Ok(Step::Leave(None, None))
        }
        (InLane::File(found), Some(source), _) if is_source(found) => Ok(Step::Keep(entry(source))),
        (InLane::File(_), Some(source), _) if place.tracked && place.clean && !place.hidden => {
            Ok(Step::Copy(entry(source)))
        }
        (InLane::File(_), None, Some(_)) if place.tracked && place.clean && !place.hidden => {
            Ok(Step::Leave(None, None))
        }
        (InLane::File(_), _, Some(known)) => Ok(Step::Edited(renewed(known))),
        (InLane::File(_), _, None) => Ok(Step::Leave(Some("the lane has a file of its own there"), None)),
    }
}

fn hidden(place: &Place) -> Hidden {
    match (place.tracked, place.ignored) {
        (true, _) => Hidden::Tracked,
        (false, true) => Hidden::Ignored,
        (false, false) => Hidden::Excluded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "ours";
    const OLD: &str = "old";

    fn source(sha256: &str) -> Source {
        Source { sha256: sha256.into(), mode: 0o600, size: 9, blobs: vec!["b".into()] }
    }

    fn entry(sha256: &str, git: Hidden) -> Entry {
        let Source { sha256, mode, size, blobs } = source(sha256);
        Entry { path: ".env".into(), sha256, mode, size, git, blobs }
    }

    fn untracked() -> Place {
        Place { as_in_base: true, clean: true, ..Place::default() }
    }

    fn tracked() -> Place {
        Place { tracked: true, ..untracked() }
    }

    #[track_caller]
    fn check(source_is: Option<&str>, known: Option<&str>, lane: &InLane, place: &Place, expected: &str) {
        let source = source_is.map(source);
        let known = known.map(|sha256| entry(sha256, hidden(place)));
        let found = match decide(".env", source.as_ref(), known.as_ref(), lane, place) {
            Ok(Step::Copy(entry)) => format!("copy {}", entry.sha256),
            Ok(Step::Keep(entry)) => format!("keep {}", entry.sha256),
            Ok(Step::Edited(entry)) => format!("edited {}", entry.sha256),
            Ok(Step::Leave(why, entry)) => {
                let said = if why.is_some() { ", said" } else { "" };
                format!("leave{said}{}", if entry.is_some() { ", remembered" } else { "" })
            }
            Err(why) => why,
        };
        assert_eq!(found, expected);
    }

    fn file(sha256: &str) -> InLane {
        InLane::File(sha256.into())
    }

    #[test]
    fn what_nobody_has_is_copied_and_what_a_node_made_stays() {
        let place = untracked();
        check(Some(OURS), None, &InLane::Absent, &place, "copy ours");
        check(Some(OURS), Some(OLD), &InLane::Absent, &place, "copy ours");
        check(Some(OURS), None, &file("a node's"), &place, "leave, said");
        check(Some(OURS), None, &file(OURS), &place, "keep ours");
        check(Some(OURS), Some(OLD), &file(OLD), &place, "keep old");
        check(Some(OURS), Some(OURS), &file(OURS), &place, "keep ours");
        check(Some(OURS), Some(OLD), &file("edited"), &place, "edited old");
        check(None, Some(OLD), &file("edited"), &place, "edited old");
        check(None, Some(OLD), &file(OLD), &place, "keep old");
        check(None, Some(OLD), &InLane::Absent, &place, "leave");
        check(Some(OURS), None, &InLane::Other, &place, "`.env` is in the lane, and no regular file there");
    }

    #[test]
    fn a_tracked_file_gives_way_only_as_its_base_has_it() {
        let base = tracked();
        let hidden = Place { hidden: true, ..tracked() };
        let dirty = Place { clean: false, ..tracked() };
        let changed = Place { as_in_base: false, ..tracked() };
        check(Some(OURS), None, &file("base"), &base, "copy ours");
        // A fresh tree on the old branch: the earlier copy went with the earlier tree.
        check(Some(OURS), Some(OLD), &file("base"), &base, "copy ours");
        check(None, Some(OLD), &file("base"), &base, "leave");
        check(Some(OURS), None, &file(OURS), &base, "leave");
        check(Some(OURS), Some(OURS), &file("edited"), &hidden, "edited ours");
        check(Some(OURS), Some(OURS), &file(OURS), &hidden, "keep ours");
        check(Some(OURS), None, &file("x"), &hidden, "leave, said");
        check(Some(OURS), None, &file("x"), &dirty, "leave, said");
        check(Some(OURS), Some(OURS), &file("x"), &dirty, "edited ours");
        // Copied, and killed before git was told to look away.
        check(Some(OURS), Some(OURS), &file(OURS), &dirty, "keep ours");
        check(Some(OURS), Some(OURS), &file("x"), &changed, "leave, said, remembered");
        check(Some(OURS), Some(OURS), &InLane::Absent, &hidden, "copy ours");
        check(Some(OURS), Some(OURS), &InLane::Absent, &dirty, "leave, said, remembered");
    }

    #[test]
    fn how_git_is_kept_away_follows_from_the_lane() {
        let of = |place: Place| match decide(".env", Some(&source(OURS)), None, &InLane::Absent, &place) {
            Ok(Step::Copy(entry)) => entry.git,
            other => panic!("{other:?}"),
        };
        assert_eq!(of(untracked()), Hidden::Excluded);
        assert_eq!(of(Place { ignored: true, ..untracked() }), Hidden::Ignored);
        assert_eq!(of(Place { hidden: true, ..tracked() }), Hidden::Tracked);
    }

    #[test]
    fn a_digest_is_of_paths_and_contents() {
        let of = |path: &str, sha256: &str| {
            let entry = Entry { path: path.into(), ..entry(sha256, Hidden::Ignored) };
            overlay_digest(&Ledger { files: vec![entry] })
        };
        assert_eq!(overlay_digest(&Ledger::default()), None);
        assert_ne!(of("a", "bc"), of("ab", "c"));
        assert_ne!(of("a", "x"), of("a", "y"));
        assert_eq!(of("a", "x"), of("a", "x"));
    }
}
