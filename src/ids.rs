//! The small words everything else is written in: names, numbers and identities.
//!
//! Knows nothing of files, clocks or processes; every type here is plain data with its grammar.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Longest node id, lane name or graph name part, in bytes (DESIGN.md section 2).
pub const ID_LENGTH_MAX: usize = 64;

/// Longest run id, in bytes (DESIGN.md section 8).
pub const RUN_ID_LENGTH_MAX: usize = 40;

/// Returns whether `text` follows the grammar of an `id`: `[A-Za-z0-9][A-Za-z0-9._-]*`, at most
/// [`ID_LENGTH_MAX`] bytes.
pub fn is_id(text: &str) -> bool {
    text.len() <= ID_LENGTH_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Returns whether `text` may be used as one component of a git ref, on top of [`is_id`].
///
/// Source of the rules: git-check-ref-format(1).
pub fn is_ref_part(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('.')
        && !text.ends_with('.')
        && !text.ends_with(".lock")
        && !text.contains("..")
        && !text.contains("@{")
        && text
            .bytes()
            .all(|b| b > b' ' && b != 0x7f && !matches!(b, b'~' | b'^' | b':' | b'?' | b'*' | b'[' | b'\\'))
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the text of this name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                $name(Arc::from(text))
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                $name(Arc::from(text))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

text_id! {
    /// The name of one execution of a graph. Grammar of an id, at most [`RUN_ID_LENGTH_MAX`] bytes.
    RunId
}
text_id! {
    /// The name of a node, unique in its graph also when case is ignored.
    NodeId
}
text_id! {
    /// The name of a lane: a worktree that every node naming it shares.
    LaneName
}
text_id! {
    /// A full object name of a commit, lower-case hex, 40 (sha1) or 64 (sha256) digits.
    CommitId
}
text_id! {
    /// The name of one act, unique in its run: `g<generation>-<number>`. It ties an act's intent to
    /// its receipt, and marks every process that the act started (`OMG_JOB`).
    IntentId
}

impl RunId {
    /// Returns the run id of `text`, or `None` where it breaks the grammar.
    pub fn parse(text: &str) -> Option<RunId> {
        (text.len() <= RUN_ID_LENGTH_MAX && is_id(text) && is_ref_part(text)).then(|| RunId::from(text))
    }
}

impl NodeId {
    /// Returns the name used in file names: a `/`, which only a fragment makes, becomes `~`.
    pub fn file_name(&self) -> String {
        self.0.replace('/', "~")
    }
}

impl CommitId {
    /// Returns the commit id of `text`, or `None` where it is not a full lower-case object name.
    pub fn parse(text: &str) -> Option<CommitId> {
        let hex = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        (hex && (text.len() == 40 || text.len() == 64)).then(|| CommitId::from(text))
    }

    /// Returns the first twelve digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..12.min(self.0.len())]
    }
}

impl IntentId {
    /// Returns the id of act number `number` of `generation`.
    pub fn new(generation: Generation, number: u64) -> IntentId {
        IntentId::from(format!("g{}-{number}", generation.0))
    }

    /// Returns the generation that minted this id, or `None` for text of another shape.
    pub fn generation(&self) -> Option<Generation> {
        let (generation, _) = self.0.strip_prefix('g')?.split_once('-')?;
        generation.parse().ok().map(Generation)
    }

    /// Returns the act's number in its generation, or `None` for text of another shape.
    pub fn number(&self) -> Option<u64> {
        self.0.split_once('-')?.1.parse().ok()
    }
}

/// The place of a node in its graph's file order, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeIx(pub u32);

/// The place of a lane in its graph's order of first mention, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LaneIx(pub u32);

impl NodeIx {
    /// Returns the index into a slice that holds one item a node.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

impl LaneIx {
    /// Returns the index into a slice that holds one item a lane.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// Grows by one with every claim on a run; a holder of an older one may write nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

/// One process's stretch of a run, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Leg(pub u32);

/// Returns bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns what tells one content from another: the SHA-256 of some bytes, lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_the_grammar() {
        for good in ["a", "A1", "a.b-c_d", "9", &"x".repeat(64)] {
            assert!(is_id(good), "{good}");
        }
        for bad in ["", ".a", "-a", "_a", "a/b", "a b", "ä", "a+b", &"x".repeat(65)] {
            assert!(!is_id(bad), "{bad}");
        }
    }

    #[test]
    fn ref_parts_follow_git() {
        for good in ["a", "a.b", "a-b", "x.locked"] {
            assert!(is_ref_part(good), "{good}");
        }
        for bad in ["", "a..b", "a.lock", "a.", ".a", "a@{b", "a~1", "a b", "a:b", "a\\b"] {
            assert!(!is_ref_part(bad), "{bad}");
        }
    }

    #[test]
    fn run_ids_are_short_and_safe_in_refs() {
        assert!(RunId::parse("r1").is_some());
        for bad in ["", "a/b", "r.lock", "a..b", &"x".repeat(41)] {
            assert!(RunId::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_intent_names_its_generation() {
        assert_eq!(IntentId::new(Generation(3), 17).as_str(), "g3-17");
        assert_eq!(IntentId::from("g3-17").generation(), Some(Generation(3)));
        assert_eq!(IntentId::from("x").generation(), None);
    }
}
