//! Gives a ref to what nothing else would hold.
//!
//! Objects only: no file of a lane, no branch and no configuration is touched. A rescue ref is never
//! overwritten; a new commit joins its old value and the new tips.
#![expect(clippy::disallowed_methods, reason = "copies an index, to work on the copy")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::git::{Call, Git, GitError, items, no_object, path_of};
use crate::ids::CommitId;

/// The name on commits that no user asked for. Set in full, so a rescue needs no identity of theirs.
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "omg"),
    ("GIT_AUTHOR_EMAIL", "omg@localhost"),
    ("GIT_COMMITTER_NAME", "omg"),
    ("GIT_COMMITTER_EMAIL", "omg@localhost"),
];

/// How often a rescue ref is tried that another process moves at the same time.
const TRIES: u32 = 5;

/// Where git is asked about one lane: its worktree, or only its git folder where that is gone.
#[derive(Clone, Copy, Debug)]
pub enum Seat<'a> {
    /// In the worktree.
    Tree(&'a Path),
    /// In its git folder.
    GitDir(&'a Path),
}

impl Seat<'_> {
    /// Returns a command for this seat.
    pub fn call(self, git: &Git, words: &[&str]) -> Call {
        match self {
            Seat::Tree(path) => git.at(path, words),
            Seat::GitDir(path) => git.inside(path, words),
        }
    }
}

/// Returns the commits that only the lane's own HEAD, reflogs and worktree refs reach: no branch,
/// tag, remote-tracking or other shared ref does, nor `base`. Tips only.
///
/// `None`: it has no reflog, so nothing can be said. `rev-list --all` is not the tool: it counts
/// HEADs of worktrees as refs, and `--reflog` reads everyone's.
pub fn unreached(
    git: &Git,
    seat: Seat<'_>,
    branch: &str,
    base: &CommitId,
) -> Result<Option<Vec<CommitId>>, GitError> {
    let branch = format!("refs/heads/{branch}");
    let exists = |name: &str| seat.call(git, &["reflog", "exists", name]).reading().asks();
    let heads = commits_at(
        git,
        seat,
        &[&branch, "HEAD", "ORIG_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"],
    )?;
    let mut logs = vec!["HEAD"];
    if heads[0].is_some() {
        logs.push(&branch);
    }
    let mut tips: BTreeSet<String> = heads.iter().flatten().map(CommitId::to_string).collect();
    for log in logs {
        if !exists(log)? {
            return Ok(None);
        }
        if log == "HEAD" && heads[1].is_none() {
            match unborn_log(git, seat)? {
                Some(found) => tips.extend(found),
                None => return Ok(None),
            }
            continue;
        }
        let found = seat.call(git, &["log", "-g", "--format=%H", log, "--"]).reading().line()?;
        tips.extend(found.lines().map(str::to_string));
    }
    let own = seat
        .call(
            git,
            &["for-each-ref", "--format=%(objectname)", "refs/worktree", "refs/bisect", "refs/rewritten"],
        )
        .reading()
        .line()?;
    tips.extend(own.lines().map(str::to_string));
    only_here(git, seat, base, tips).map(Some)
}

/// Returns the commits in the reflog of a HEAD whose branch is gone. Git prints it for no name that
/// does not resolve (measured with git 2.47); `None` where it is in no file (reftable).
fn unborn_log(git: &Git, seat: Seat<'_>) -> Result<Option<Vec<String>>, GitError> {
    let words = ["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"];
    let file = seat.call(git, &words).reading().path()?;
    let Ok(text) = fs::read_to_string(file) else { return Ok(None) };
    let commits = text.lines().filter_map(|line| CommitId::parse(line.split(' ').nth(1)?));
    Ok(Some(
        commits.map(|commit| commit.to_string()).filter(|commit| commit.contains(|c| c != '0')).collect(),
    ))
}

/// Returns the commit that each of `names` is at, `None` where it is at none; one process for all.
pub fn commits_at(git: &Git, seat: Seat<'_>, names: &[&str]) -> Result<Vec<Option<CommitId>>, GitError> {
    let questions: String = names.iter().map(|name| format!("{name}^{{commit}}\n")).collect();
    let words = ["cat-file", "--batch-check=%(objectname)"];
    let answers = seat.call(git, &words).feed(questions.into_bytes()).reading().line()?;
    let found: Vec<Option<CommitId>> = answers.lines().map(CommitId::parse).collect();
    if found.len() != names.len() {
        return Err(GitError::Unreadable { command: "cat-file".into(), detail: answers });
    }
    Ok(found)
}

/// Returns the same for a lane whose entry is gone: what only the reflog of its branch reaches.
pub fn unreached_by_branch(
    git: &Git,
    common_dir: &Path,
    branch: &str,
    base: &CommitId,
) -> Result<Option<Vec<CommitId>>, GitError> {
    let name = format!("refs/heads/{branch}");
    if !git.inside(common_dir, ["reflog", "exists", &name]).reading().asks()? {
        return Ok(None);
    }
    let found = git.inside(common_dir, ["log", "-g", "--format=%H", &name, "--"]).reading().line()?;
    let tips = found.lines().map(str::to_string).collect();
    only_here(git, Seat::GitDir(common_dir), base, tips).map(Some)
}

fn only_here(
    git: &Git,
    seat: Seat<'_>,
    base: &CommitId,
    tips: BTreeSet<String>,
) -> Result<Vec<CommitId>, GitError> {
    if tips.is_empty() {
        return Ok(Vec::new());
    }
    let tips: Vec<String> = tips.into_iter().collect();
    let words = [
        "rev-list",
        "--parents",
        "--stdin",
        "--not",
        base.as_str(),
        "--exclude=refs/worktree/*",
        "--exclude=refs/bisect/*",
        "--exclude=refs/rewritten/*",
        "--glob=refs/*",
    ];
    let call = seat.call(git, &words).feed((tips.join("\n") + "\n").into_bytes()).reading();
    // Sweeps of other lanes delete branches meanwhile.
    let listing = call.output_despite_races()?;
    Ok(heads(&String::from_utf8_lossy(&listing)))
}

/// Returns the commits of a `rev-list --parents` listing that are nobody's parent there.
fn heads(listing: &str) -> Vec<CommitId> {
    let parents: BTreeSet<&str> = listing.lines().flat_map(|line| line.split(' ').skip(1)).collect();
    listing
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|commit| !parents.contains(commit))
        .filter_map(CommitId::parse)
        .collect()
}

/// Makes the ref `name` reach every one of `tips`, and returns its value; `None` where `tips` is
/// empty and there is no such ref. What it reached before it still reaches. Idempotent.
pub fn pin(
    git: &Git,
    common_dir: &Path,
    name: &str,
    tips: &[CommitId],
) -> Result<Option<CommitId>, GitError> {
    // One that can't be moved is told of by git, in its own words.
    let _ = super::make::set_stale_ref_lock_aside(common_dir, name);
    let mut last = None;
    for _ in 0..TRIES {
        let old = super::observe::tip(git, common_dir, name)?;
        let mut new = Vec::new();
        for tip in tips {
            let reached = match &old {
                None => false,
                Some(old) => git
                    .inside(common_dir, ["merge-base", "--is-ancestor", tip.as_str(), old.as_str()])
                    .reading()
                    .asks()?,
            };
            if !reached {
                new.push(tip.clone());
            }
        }
        let value = match (&old, new.as_slice()) {
            (_, []) => return Ok(old),
            (None, [only]) => only.clone(),
            (_, [first, ..]) => {
                let parents: Vec<CommitId> = old.iter().cloned().chain(new.iter().cloned()).collect();
                join(git, common_dir, first, &parents)?
            }
        };
        let expected = old.as_ref().map_or_else(|| no_object(&value), CommitId::to_string);
        let update = git
            .inside(common_dir, ["update-ref", "--create-reflog", "-m", "omg: rescued", name])
            .args([value.as_str(), &expected])
            .output();
        match update {
            Ok(_) => return Ok(Some(value)),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or(GitError::Unreadable { command: "update-ref".into(), detail: name.to_string() }))
}

/// Proves by reading it back that the ref `name` is there, reaches each of `tips`, and lacks no object
/// of what `base` does not have.
pub fn prove(
    git: &Git,
    common_dir: &Path,
    name: &str,
    tips: &[CommitId],
    base: &CommitId,
) -> Result<(), GitError> {
    let missing = |detail: String| GitError::Unreadable { command: "rev-parse".into(), detail };
    let call = git.inside(common_dir, ["rev-parse", "--verify", "--end-of-options"]);
    let found = call.arg(format!("{name}^{{commit}}")).reading().commit()?;
    for tip in tips {
        let words = ["merge-base", "--is-ancestor", tip.as_str(), found.as_str()];
        if !git.inside(common_dir, words).reading().asks()? {
            return Err(missing(format!("{name} does not reach {}", tip.short())));
        }
    }
    let words = ["rev-list", "--objects", "--quiet", found.as_str(), "--not", base.as_str()];
    git.inside(common_dir, words).reading().output().map(|_| ())
}

fn join(
    git: &Git,
    common_dir: &Path,
    tree_of: &CommitId,
    parents: &[CommitId],
) -> Result<CommitId, GitError> {
    let tree = format!("{tree_of}^{{tree}}");
    let mut call = git.inside(common_dir, ["commit-tree", &tree, "-m", "omg: rescued commits"]);
    for parent in parents {
        call = call.args(["-p", parent.as_str()]);
    }
    identified(call).commit()
}

fn identified(call: Call) -> Call {
    IDENTITY.iter().fold(call, |call, (name, value)| call.env(name, *value))
}

/// A copy of a lane's index, gone when dropped. The lane's own stays byte for byte.
#[derive(Debug)]
pub struct IndexCopy {
    path: PathBuf,
}

impl IndexCopy {
    /// Copies the index in `git_dir`; a lane without one gets an empty copy.
    pub fn of(git_dir: &Path) -> std::io::Result<IndexCopy> {
        let copy = IndexCopy { path: git_dir.join("omg-index") };
        copy.discard();
        match fs::copy(git_dir.join("index"), &copy.path) {
            Ok(_) => copy.age().map(|()| copy),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(copy),
            Err(error) => Err(error),
        }
    }

    /// Makes the copy look older than every file, so that git compares each by its content. To a newer
    /// index a file of the right size and times is as it was, also one that was edited in the second
    /// in which git last saw it.
    ///
    /// One second after the epoch: 0 means "no time known" to git, and switches the check off.
    fn age(&self) -> std::io::Result<()> {
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
        fs::File::options().append(true).open(&self.path)?.set_modified(old)
    }

    fn aged(&self) -> Result<(), GitError> {
        self.age().map_err(|error| GitError::Unreadable {
            command: "index".into(),
            detail: format!("{}: {error}", self.path.display()),
        })
    }

    /// Makes the copy one without files.
    pub fn empty(&self) {
        self.discard();
    }

    /// Fills the copy with the files of `commit` and nothing else: it remembers no file's size or time,
    /// and has no flags.
    pub fn read(&self, git: &Git, seat: Seat<'_>, commit: &str) -> Result<(), GitError> {
        self.discard();
        self.on(seat.call(git, &["read-tree", "--no-sparse-checkout", commit])).output().map(|_| ())
    }

    /// Returns `call` working on the copy.
    pub fn on(&self, call: Call) -> Call {
        call.env("GIT_INDEX_FILE", &self.path)
    }

    /// Takes every flag off that hides a change from git, and returns the paths that had one.
    pub fn unhide(&self, git: &Git, seat: Seat<'_>) -> Result<Vec<Vec<u8>>, GitError> {
        let listing = self.on(seat.call(git, &["ls-files", "-v", "-z"])).reading().output()?;
        let hidden: Vec<Vec<u8>> = items(&listing)
            .filter(|item| item[0].is_ascii_lowercase() || item[0] == b'S')
            .map(|item| item[2..].to_vec())
            .collect();
        if !hidden.is_empty() {
            let names = hidden.iter().flat_map(|name| name.iter().copied().chain([0])).collect::<Vec<u8>>();
            for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
                let words = ["update-index", flag, "-z", "--stdin"];
                self.on(seat.call(git, &words)).feed(names.clone()).output()?;
                self.aged()?;
            }
        }
        Ok(hidden)
    }

    /// Puts what HEAD has in the place of what is staged at `paths`.
    fn leave_out(&self, git: &Git, seat: Seat<'_>, paths: &[PathBuf]) -> Result<(), GitError> {
        if paths.is_empty() {
            return Ok(());
        }
        let head = commits_at(git, seat, &["HEAD"])?;
        let mut lines: Vec<u8> = Vec::new();
        let nothing = "0".repeat(head[0].as_ref().map_or(40, |commit| commit.as_str().len()));
        for path in paths {
            lines.extend(format!("0 {nothing}\t").bytes());
            lines.extend(path.as_os_str().as_bytes().iter().copied().chain([0]));
        }
        if let Some(commit) = &head[0] {
            let words = ["--literal-pathspecs", "ls-tree", "-z", "--full-tree", commit.as_str(), "--"];
            lines.extend(seat.call(git, &words).args(paths).reading().output()?);
        }
        let words = ["update-index", "-z", "--index-info"];
        self.on(seat.call(git, &words)).feed(lines).output()?;
        self.aged()
    }

    /// Returns those of `paths` that an `add --all` would take. It refuses to leave out a path that it
    /// ignores anyway (measured with git 2.47).
    fn addable(&self, git: &Git, tree: &Path, paths: &[PathBuf]) -> Result<Vec<PathBuf>, GitError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let words =
            ["--literal-pathspecs", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"];
        let listing = self.on(git.at(tree, words).args(paths).unblinded()).output()?;
        // A folder may stand where a copy was: what is in it is a node's.
        Ok(items(&listing).map(path_of).filter(|path| paths.contains(path)).collect())
    }

    fn discard(&self) {
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(self.path.with_extension("lock"));
    }
}

impl Drop for IndexCopy {
    fn drop(&mut self) {
        self.discard();
    }
}

/// What no commit of a rescue may have: relative to the lane's root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Paths whose staged content is left out: HEAD's stands in its place.
    pub in_index: Vec<PathBuf>,
    /// Paths whose file is left out.
    pub in_tree: Vec<PathBuf>,
}

/// Returns a commit of what is staged in `index`, or `None` where that is what HEAD has, or where a
/// conflict is open: its sides are commits, and its middle is in the files.
pub fn staged(git: &Git, seat: Seat<'_>, index: &IndexCopy) -> Result<Option<CommitId>, GitError> {
    let unmerged = index.on(seat.call(git, &["ls-files", "--unmerged", "-z"])).reading().output()?;
    if !unmerged.is_empty() {
        return Ok(None);
    }
    let tree = index.on(seat.call(git, &["write-tree"])).line()?;
    commit(git, seat, &tree, &[], "omg: rescued, staged")
}

/// Returns a commit of every file that the lane tracks or could, on top of what was staged; `None`
/// where that is what HEAD has. Adds to the copy `index` only. What is `left_out` comes into no object.
pub fn worktree(
    git: &Git,
    path: &Path,
    index: &IndexCopy,
    left_out: &LeftOut,
) -> Result<Option<CommitId>, GitError> {
    let seat = Seat::Tree(path);
    index.leave_out(git, seat, &left_out.in_index)?;
    let before = staged(git, seat, index)?;
    index.unhide(git, seat)?;
    let without = index.addable(git, path, &left_out.in_tree)?;
    index
        .on(git.at(path, ["add", "--all", "--sparse", "--", ":/"]).unblinded())
        .args(without.iter().map(|path| not_at(path)))
        .config("core.safecrlf=false")
        .output()?;
    let tree = index.on(git.at(path, ["write-tree"])).line()?;
    let parents: Vec<CommitId> = before.iter().cloned().collect();
    Ok(commit(git, seat, &tree, &parents, "omg: rescued, uncommitted")?.or(before))
}

/// Returns the pathspec that leaves one path out, and nothing else.
fn not_at(path: &Path) -> OsString {
    let mut spec = OsString::from(":(top,exclude,literal)");
    spec.push(path);
    spec
}

fn commit(
    git: &Git,
    seat: Seat<'_>,
    tree: &str,
    more: &[CommitId],
    message: &str,
) -> Result<Option<CommitId>, GitError> {
    let revision = |name: &str| match seat.call(git, &["rev-parse", "--verify", "--quiet", name]).line() {
        Ok(found) => Ok(Some(found)),
        Err(GitError::Failed { code: Some(1), .. }) => Ok(None),
        Err(error) => Err(error),
    };
    if more.is_empty() && revision("HEAD^{tree}")?.as_deref() == Some(tree) {
        return Ok(None);
    }
    let mut call = seat.call(git, &["commit-tree", tree, "-m", message]);
    for parent in
        revision("HEAD^{commit}")?.iter().map(String::as_str).chain(more.iter().map(CommitId::as_str))
    {
        call = call.args(["-p", parent]);
    }
    identified(call).commit().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tips_need_a_ref() {
        let [a, b, c] = ["a", "b", "c"].map(|digit| digit.repeat(40));
        let listing = format!("{a} {b}\n{b} {c}\n{c}");
        assert_eq!(heads(&listing), [CommitId::from(a)]);
        assert_eq!(heads(""), Vec::<CommitId>::new());
    }
}
