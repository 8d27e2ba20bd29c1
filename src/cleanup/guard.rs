//! Finds commits of a lane that carry a local file which the overlay had copied in, so that no branch is
//! offered for merging with one unsaid.
//!
//! By path, where no commit should have it at all, and by content, wherever it went: a rename, a copy, an index
//! of somebody's own. Content that was changed, committed elsewhere and changed again can't be told from other
//! text.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::OverlayFile;
use crate::ids::CommitId;
use crate::worktree::git::{items, path_of};
use crate::worktree::{Git, GitError};

/// Bytes below which a content says nothing: a file of one short word may be anybody's.
pub const TELLING_BYTES: u64 = 8;

/// A commit that carries a local file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Carried {
    /// The file, as the commit names it.
    pub path: PathBuf,
    /// The commit that brought it in.
    pub commit: CommitId,
}

/// What to look for in commits.
struct Wanted<'a> {
    /// Paths that no commit should have.
    untracked: BTreeSet<&'a Path>,
    /// Tracked paths, with the names of the content that was copied there.
    tracked: BTreeSet<(&'a Path, &'a str)>,
    /// Names of contents that tell, wherever they are.
    blobs: BTreeSet<&'a str>,
}

impl<'a> Wanted<'a> {
    fn of(overlay: &'a [OverlayFile]) -> Wanted<'a> {
        let paths = |tracked: bool| overlay.iter().filter(move |file| file.tracked == tracked);
        Wanted {
            untracked: paths(false).map(|file| file.path.as_path()).collect(),
            tracked: paths(true)
                .flat_map(|file| file.blobs.iter().map(|blob| (file.path.as_path(), blob.as_str())))
                .collect(),
            blobs: telling(overlay).collect(),
        }
    }

    fn has(&self, path: &Path, blob: &str) -> bool {
        self.untracked.contains(path) || self.tracked.contains(&(path, blob)) || self.blobs.contains(blob)
    }
}

/// Returns the names of contents that tell whose they are, wherever they turn up.
pub(super) fn telling(overlay: &[OverlayFile]) -> impl Iterator<Item = &str> {
    overlay
        .iter()
        .filter(|file| file.size >= TELLING_BYTES)
        .flat_map(|file| file.blobs.iter().map(String::as_str))
}

/// Returns which commits that `tips` reach and `base` does not carry a file of `overlay`, newest first.
///
/// `common_dir`: the repository's shared git folder. What the base has already is no secret of the user's.
pub fn carried(
    git: &Git,
    common_dir: &Path,
    base: &CommitId,
    tips: &[CommitId],
    overlay: &[OverlayFile],
) -> Result<Vec<Carried>, GitError> {
    if overlay.is_empty() || tips.iter().all(|tip| tip == base) {
        return Ok(Vec::new());
    }
    let questions: String = tips.iter().map(|tip| format!("{tip}\n")).collect();
    let words = ["rev-list", "--stdin", "--not", base.as_str()];
    let commits = git.inside(common_dir, words).reading().feed(questions.into_bytes()).output()?;
    if commits.is_empty() {
        return Ok(Vec::new());
    }
    // Of a merge only what none of its parents has: the rest is told of where it came in.
    let words = ["diff-tree", "--stdin", "-r", "-z", "--root", "-c", "--raw", "--no-renames", "--no-abbrev"];
    let listing = git.inside(common_dir, words).reading().feed(commits).output()?;
    let mut wanted = Wanted::of(overlay);
    if !wanted.blobs.is_empty() || !wanted.tracked.is_empty() {
        let words = ["ls-tree", "-r", "-z", "--full-tree", base.as_str()];
        let in_base = git.inside(common_dir, words).reading().output()?;
        for item in items(&in_base) {
            let entry = String::from_utf8_lossy(item);
            let blob = entry.split(['\t', ' ']).nth(2).unwrap_or_default();
            wanted.blobs.remove(blob);
            wanted.tracked.retain(|(_, own)| *own != blob);
        }
    }
    Ok(read(&listing, &wanted))
}

/// Reads what `diff-tree --stdin -z --raw -c` says: the name of a commit, then its changes, each with a path.
fn read(listing: &[u8], wanted: &Wanted<'_>) -> Vec<Carried> {
    let mut found = Vec::new();
    let mut commit = None;
    let mut items = items(listing);
    while let Some(item) = items.next() {
        let Some(change) = item.strip_prefix(b":") else {
            commit = CommitId::parse(String::from_utf8_lossy(item).trim());
            continue;
        };
        let Some(path) = items.next().map(path_of) else { break };
        let change = String::from_utf8_lossy(change);
        // `:` for each further parent; then a mode each and the new one, a name each and the new one.
        let parents = 1 + change.bytes().take_while(|byte| *byte == b':').count();
        let words: Vec<&str> = change.trim_start_matches(':').split(' ').collect();
        let (Some(mode), Some(blob)) = (words.get(parents), words.get(2 * parents + 1)) else { continue };
        let is_gone = mode.bytes().all(|digit| digit == b'0');
        if let Some(commit) = &commit
            && !is_gone
            && wanted.has(&path, blob)
        {
            found.push(Carried { path, commit: commit.clone() });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOB: &str = "b4785957bc986dc39c629de9fac9df46972c00fc";
    const OTHER: &str = "53c74cd6c8f3911ae716f60f9b79f575aab0e975";
    const NONE: &str = "0000000000000000000000000000000000000000";

    fn copied(path: &str, tracked: bool, size: u64) -> OverlayFile {
        OverlayFile { path: path.into(), sha256: String::new(), size, tracked, blobs: vec![BLOB.into()] }
    }

    #[track_caller]
    fn check(overlay: OverlayFile, change: &str, expected: bool) {
        let commit = "c".repeat(40);
        let overlay = [overlay];
        let listing = format!("{commit}\0{}\0", change.replace('|', "\0"));
        let found = read(listing.as_bytes(), &Wanted::of(&overlay));
        assert_eq!(found.len(), usize::from(expected), "{change}: {found:?}");
        assert!(found.iter().all(|found| found.commit.as_str() == commit));
    }

    #[test]
    fn a_path_that_none_should_have_and_a_content_that_tells_are_found() {
        let added = |blob: &str, path: &str| format!(":000000 100644 {NONE} {blob} A|{path}");
        check(copied(".env", false, 9), &added(OTHER, ".env"), true);
        check(copied(".env", false, 9), &added(BLOB, "renamed"), true);
        check(copied(".env", false, 9), &added(OTHER, "renamed"), false);
        check(copied(".env", false, 3), &added(BLOB, "renamed"), false);
        check(copied("cfg", true, 3), &added(BLOB, "cfg"), true);
        check(copied("cfg", true, 9), &added(OTHER, "cfg"), false);
        check(copied(".env", false, 9), &format!(":100644 000000 {OTHER} {NONE} D|.env"), false);
        let merge = format!("::100644 100644 100644 {OTHER} {OTHER} {BLOB} MM|x");
        check(copied(".env", false, 9), &merge, true);
        let merge = format!("::100644 100644 100644 {BLOB} {BLOB} {OTHER} MM|x");
        check(copied(".env", false, 9), &merge, false);
    }
}
