//! Sets a lane's tree aside whole, so that the lane can begin anew. Nothing of it is lost.
//!
//! Observe → decide (`plan`, pure) → act. The rename is the one step that counts: what follows it is told
//! by the names and by our lock, so a kill anywhere leaves what [`settle_all`] brings to its end.
//!
//! Not `git worktree move`, which refuses a tree with submodules; nor `git worktree repair`, which also
//! rewrites what it holds to be broken in worktrees of others (git 2.47).
#![expect(clippy::disallowed_methods, reason = "renames a lane, and writes where its entry points")]

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use super::acquire::{AcquirePlan, Ownership, branch_taken, decide, locked, ownership};
use super::git::{Git, GitError, no_object};
use super::lane::{BranchState, LaneHistory, LaneState, Lock, Place, Receipt, Registration};
use super::lane::{lock_reason, rescue_ref};
use super::lock::{LaneLock, RepositoryLock};
use super::make::{lock as lock_worktree, unlock};
use super::observe::{
    Entry, checked_out_at, entries, entry_for, in_operation, lock_of, observe, set_aside, tip,
};
use super::{AcquireClass, AcquireFault, LaneRequest, Repository, preflight, receipt, rescue};
use crate::failpoint::{self, Point};
use crate::ids::CommitId;

/// More looks than any state needs: put back, look for work, set aside.
const ROUNDS: u32 = 5;

/// Moves the tree of a lane to `<lane>.old-<n>` with its HEAD detached, and, where `anew`, gives its
/// branch free: at base it is deleted, past base it becomes `<branch>.old-<n>`.
///
/// Where the branch stays and `holds_work` says that the tree has more than commits, or its HEAD is
/// elsewhere than the branch, later nodes need that: the tree stays, to be provisioned anew in place.
///
/// Returns where the tree is now; `None` where none was moved. Idempotent, and killed anywhere the next
/// call goes on. Errors: what stands there is not this run's to move, or the lane could not be acquired
/// afterwards, and nothing was touched; or the move failed.
pub fn retire(
    git: &Git,
    repository: &Repository,
    request: &LaneRequest,
    anew: bool,
    holds_work: &dyn Fn() -> bool,
) -> Result<Option<PathBuf>, AcquireFault> {
    let act = Act { git, repository, request };
    preflight::allowed(repository, request)?;
    let _lane = LaneLock::take(&request.path, None).map_err(|error| act.failed(&error.to_string()))?;
    let (mut looked, mut old) = (anew, None);
    for _ in 0..ROUNDS {
        let lock =
            RepositoryLock::take(&repository.common_dir).map_err(|error| act.failed(&error.to_string()))?;
        let settled = settle_all(git, repository, request, &lock);
        old = settled.map_err(|error| act.failed(&error))?.or(old);
        let state = observe(git, repository, request);
        let (now, after) = (decide(&state, request), after(&state, request, anew));
        match plan(&state, request, anew, now, after) {
            RetirePlan::Refuse(fault) => return Err(fault),
            RetirePlan::PutBack => {
                let aside = set_aside(&request.path);
                let back = aside.and_then(|aside| fs::rename(aside, &request.path));
                back.map_err(|error| act.failed(&error.to_string()))?;
            }
            RetirePlan::Leave => return Ok(old),
            RetirePlan::FreeBranch(tip) => {
                act.free_branch(&tip)?;
                return Ok(old);
            }
            RetirePlan::SetAside if !looked => {
                drop(lock);
                if holds_work() {
                    return Ok(old);
                }
                looked = true;
            }
            RetirePlan::SetAside => {
                let entry = entry_for(repository, &request.path);
                let entry = entry.map_err(|error| act.failed(&error.to_string()))?;
                let entry = entry.ok_or_else(|| act.failed("it is registered no more"))?;
                if anew && let Some(words) = in_operation(&entry.git_dir, &request.branch_ref()) {
                    return Err(act.amid(words));
                }
                if !anew && !act.is_at_branch(&entry)? {
                    return Ok(old);
                }
                act.set_aside(&entry, &lock)?;
            }
        }
    }
    Err(act.failed("it did not settle; another program works in its folder"))
}

/// What a retire does next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RetirePlan {
    /// Put the tree back that a sweep set aside and did not live to judge; then look again.
    PutBack,
    /// Move the tree away; then look again.
    SetAside,
    /// No tree is there any more: give the branch free, at that commit.
    FreeBranch(CommitId),
    /// There is nothing to do.
    Leave,
    /// Do nothing, and say why.
    Refuse(AcquireFault),
}

/// Returns what the acquire that follows would do once the tree is away, and where `anew` the branch.
fn after(state: &LaneState, request: &LaneRequest, anew: bool) -> AcquirePlan {
    let mut after = LaneState { place: Some(Place::Absent), content: None, ..state.clone() };
    let mut request = request.clone();
    if state.place == Some(Place::Lane) {
        after.registration = Some(Registration::None);
    }
    if anew {
        after.branch = Some(BranchState::Absent);
        request.history = request.history.anew();
    }
    decide(&after, &request)
}

/// Returns what a retire does in `state`, where an acquire would do `now`, and `after` once the tree is
/// away. It begins nothing that the acquire after it could not end.
fn plan(
    state: &LaneState,
    request: &LaneRequest,
    anew: bool,
    now: AcquirePlan,
    after: AcquirePlan,
) -> RetirePlan {
    let (Some(place), Some(_), Some(registration), Some(branch)) =
        (&state.place, state.aside, &state.registration, &state.branch)
    else {
        return match now {
            AcquirePlan::Refuse(fault) => RetirePlan::Refuse(fault),
            _ => RetirePlan::Leave,
        };
    };
    let is_there = match (place, now) {
        (_, AcquirePlan::PutBack) => return RetirePlan::PutBack,
        (Place::Absent | Place::Empty, _) => false,
        (Place::Lane, AcquirePlan::Reuse | AcquirePlan::RunHook) => true,
        // Half-made, and never handed out: it begins anew as it is.
        (Place::Lane, AcquirePlan::Finish | AcquirePlan::Redo) => return RetirePlan::Leave,
        (_, AcquirePlan::Refuse(fault)) => return RetirePlan::Refuse(fault),
        (_, _) => return RetirePlan::Leave,
    };
    if let Registration::Entry { lock: lock @ (Lock::Foreign(_) | Lock::Initializing), .. } = registration {
        let reason = if let Lock::Foreign(reason) = lock { reason } else { "initializing" };
        return RetirePlan::Refuse(locked(request, reason));
    }
    if let BranchState::At { elsewhere: Some(other), .. } = branch {
        return RetirePlan::Refuse(super::acquire::branch_elsewhere(request, other));
    }
    if anew && matches!(branch, BranchState::At { .. }) && ownership(branch, request) != Ownership::Ours {
        return RetirePlan::Refuse(branch_taken(request));
    }
    if is_there && !anew && *branch == BranchState::Absent {
        return RetirePlan::Leave;
    }
    match (after, is_there, branch) {
        (AcquirePlan::Refuse(fault), true, _) => RetirePlan::Refuse(fault),
        (AcquirePlan::Refuse(fault), false, _) if anew => RetirePlan::Refuse(fault),
        (_, true, _) => RetirePlan::SetAside,
        (_, false, BranchState::At { tip, .. }) if anew => RetirePlan::FreeBranch(tip.clone()),
        (_, false, _) => RetirePlan::Leave,
    }
}

impl LaneHistory {
    /// Returns what is left of this once the lane's branch was given free: another one of its name is
    /// not the run's, and need not be there.
    pub fn anew(self) -> LaneHistory {
        LaneHistory { branch_made_by_run: false, kept_by_earlier_leg: false, ..self }
    }
}

struct Act<'a> {
    git: &'a Git,
    repository: &'a Repository,
    request: &'a LaneRequest,
}

impl Act<'_> {
    fn failed(&self, detail: &str) -> AcquireFault {
        AcquireFault {
            class: AcquireClass::AcquireFailed,
            detail: format!("the old tree of lane `{}` could not be set aside: {detail}", self.request.lane),
            hint: format!("move {} away yourself, then resume", self.request.path.display()),
        }
    }

    fn git(&self, error: &GitError) -> AcquireFault {
        self.failed(&error.to_string())
    }

    fn amid(&self, words: &str) -> AcquireFault {
        let path = self.request.path.display();
        AcquireFault {
            class: AcquireClass::LaneRefused,
            detail: format!(
                "a {words} of branch `{}` is under way in {path}, so lane `{}` cannot begin anew",
                self.request.branch, self.request.lane
            ),
            hint: format!("finish or abort it there (`git -C {path} {words} …`), then resume"),
        }
    }

    fn old_branch(&self, number: u32) -> String {
        format!("{}.old-{number}", self.request.branch_ref())
    }

    fn tip(&self, name: &str) -> Result<Option<CommitId>, AcquireFault> {
        tip(self.git, &self.repository.common_dir, name).map_err(|error| self.git(&error))
    }

    /// Returns the first number that neither a tree nor a branch of before has.
    fn free_number(&self) -> Result<u32, AcquireFault> {
        for number in 1..10_000 {
            if self.tip(&self.old_branch(number))?.is_none()
                && fs::symlink_metadata(old_path(self.request, number)).is_err()
            {
                return Ok(number);
            }
        }
        Err(self.failed("there are too many old trees of it"))
    }

    /// Returns whether HEAD is where the branch is: what is committed elsewhere would not be there after.
    fn is_at_branch(&self, entry: &Entry) -> Result<bool, AcquireFault> {
        let head = head(self.git, &entry.git_dir).map_err(|error| self.git(&error))?;
        Ok(head.is_some() && head == self.tip(&self.request.branch_ref())?)
    }

    /// Locked meanwhile, so that nobody prunes an entry whose folder is not where it says.
    fn set_aside(&self, entry: &Entry, lock: &RepositoryLock) -> Result<(), AcquireFault> {
        let path = &self.request.path;
        let number = self.free_number()?;
        if lock_of(entry, &self.request.run) == Lock::None {
            let reason = lock_reason(&self.request.run);
            lock_worktree(self.git, self.repository, path, &reason, lock)
                .map_err(|error| self.git(&error))?;
        }
        // Without a receipt or a lock of ours nothing would tell, after a kill, whose tree it was.
        if receipt::read(&entry.git_dir, self.request) == Receipt::None {
            let written = receipt::write(&entry.git_dir, self.request, super::lane::Phase::Ready);
            written.map_err(|error| self.failed(&error.to_string()))?;
        }
        let written = write_anew(&entry.git_dir.join(ON_ITS_WAY), number.to_string().as_bytes());
        written.map_err(|error| self.failed(&error.to_string()))?;
        let old = old_path(self.request, number);
        self.git.allowed().map_err(|overtaken| self.failed(&overtaken.to_string()))?;
        move_to(path, &old).map_err(|error| self.failed(&error.to_string()))
    }

    /// Gives the name of the branch free. Its commits stay reachable: a tip past base by the new name,
    /// and what only its reflog holds by the rescue ref.
    fn free_branch(&self, tip: &CommitId) -> Result<(), AcquireFault> {
        let (git, common, request) = (self.git, &self.repository.common_dir, self.request);
        let failed = |error: GitError| self.git(&error);
        let name = request.branch_ref();
        // The lane's own entry may outlive its folder, deleted by hand; the next acquire drops it.
        let own =
            entry_for(self.repository, &request.path).map_err(|error| self.failed(&error.to_string()))?;
        if let Some(other) = checked_out_at(git, self.repository, &name, own.as_ref()).map_err(failed)? {
            return Err(super::acquire::branch_elsewhere(request, &other));
        }
        let logged = rescue::unreached_by_branch(git, common, &request.branch, &request.base);
        if let Some(tips) = logged.map_err(failed)? {
            let rescued = rescue_ref(&request.run, &request.lane);
            rescue::pin(git, common, &rescued, &tips).map_err(failed)?;
        }
        let update = |words: &[&str]| git.inside(common, ["update-ref", "--no-deref"]).args(words).output();
        if *tip != request.base {
            let mut kept = false;
            let mut number = 1;
            // A call that was killed has named it already.
            while let Some(other) = self.tip(&self.old_branch(number))? {
                kept |= other == *tip;
                number += 1;
            }
            if !kept {
                let old = self.old_branch(self.branch_number(number)?);
                update(&["--create-reflog", "-m", "omg: set aside", &old, tip.as_str(), &no_object(tip)])
                    .map_err(failed)?;
            }
        }
        update(&["-d", &name, tip.as_str()]).map(|_| ()).map_err(failed)
    }

    /// Returns the number of the newest old tree, so that it and its branch have one name, or `free`
    /// where a branch has that.
    fn branch_number(&self, free: u32) -> Result<u32, AcquireFault> {
        let trees = old_trees(self.request).unwrap_or_default();
        match trees.into_iter().max() {
            Some(number) if self.tip(&self.old_branch(number))?.is_none() => Ok(number),
            Some(_) | None => Ok(free),
        }
    }
}

fn old_path(request: &LaneRequest, number: u32) -> PathBuf {
    request.path.with_file_name(format!("{}.old-{number}", request.lane))
}

/// Returns the numbers of the old trees beside a lane.
fn old_trees(request: &LaneRequest) -> io::Result<Vec<u32>> {
    let Some(parent) = request.path.parent() else { return Ok(Vec::new()) };
    let listing = match fs::read_dir(parent) {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let prefix = format!("{}.old-", request.lane);
    let mut found = Vec::new();
    for item in listing {
        let item = item?;
        let name = item.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(&prefix)?.parse::<u32>().ok());
        if let Some(number) = number
            && item.file_type()?.is_dir()
        {
            found.push(number);
        }
    }
    Ok(found)
}

/// Brings to its end what a retire of this lane began and a kill cut short, and returns where that tree
/// is. Call it under the lane's lock, and the repository's.
pub(super) fn settle_all(
    git: &Git,
    repository: &Repository,
    request: &LaneRequest,
    lock: &RepositoryLock,
) -> Result<Option<PathBuf>, String> {
    let words = |error: io::Error| error.to_string();
    let mut settled = None;
    for entry in entries(repository).map_err(words)? {
        let Some(number) = wanted_number(&entry) else { continue };
        let tree = old_path(request, number);
        if lock_of(&entry, &request.run) == Lock::Ours
            && matches!(receipt::read(&entry.git_dir, request), Receipt::Ours(_))
            && is_due(&entry, &tree, &request.path)
            && leads_to(&tree, &entry)
        {
            settle(git, repository, request, &entry, number, &tree, lock)?;
            settled = Some(tree);
        }
    }
    Ok(settled)
}

/// What an entry holds while its tree is on its way: the number that it gets.
const ON_ITS_WAY: &str = "omg-old";

/// Returns whether the tree of an entry is on its way to another name.
pub(super) fn is_on_its_way(entry: &Entry) -> bool {
    entry.git_dir.join(ON_ITS_WAY).exists()
}

fn wanted_number(entry: &Entry) -> Option<u32> {
    fs::read_to_string(entry.git_dir.join(ON_ITS_WAY)).ok()?.trim().parse().ok()
}

/// Returns whether the entry names `tree` already, or still the lane's own place, where nothing is now.
fn is_due(entry: &Entry, tree: &Path, lane: &Path) -> bool {
    let names = |place: &Path| {
        let named = entry.path.as_deref().map(super::discover::real);
        matches!((named, super::discover::real(place)), (Some(Ok(named)), Ok(place)) if named == place)
    };
    // An empty folder holds nothing, so it is not the tree that was moved.
    let is_vacant = || match fs::read_dir(lane) {
        Ok(mut items) => items.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    names(tree) || (names(lane) && is_vacant())
}

fn leads_to(tree: &Path, entry: &Entry) -> bool {
    let link = tree.join(".git");
    let target =
        fs::read(&link).ok().filter(|_| fs::symlink_metadata(&link).is_ok_and(|found| found.is_file()));
    let target = target.as_deref().and_then(|text| text.trim_ascii_end().strip_prefix(b"gitdir:"));
    let Some(target) = target.map(|target| tree.join(super::git::path_of(target.trim_ascii_start()))) else {
        return false;
    };
    matches!((fs::canonicalize(target), fs::canonicalize(&entry.git_dir)), (Ok(a), Ok(b)) if a == b)
}

/// Tells the entry of a tree that was set aside, and its submodules, where it is; detaches its HEAD;
/// unlocks it. The lock goes last: it is the sign that something is left to do.
fn settle(
    git: &Git,
    repository: &Repository,
    request: &LaneRequest,
    entry: &Entry,
    number: u32,
    tree: &Path,
    lock: &RepositoryLock,
) -> Result<(), String> {
    let words = |error: GitError| error.to_string();
    point_at(entry, tree).map_err(|error| format!("{}: {error}", entry.git_dir.display()))?;
    let name = tree.file_name().unwrap_or_default();
    point_submodules(git, &entry.git_dir.join("modules"), &request.path, name).map_err(words)?;
    let call = |words: &[&str]| git.inside(&entry.git_dir, words);
    match head(git, &entry.git_dir).map_err(words)? {
        // Not `checkout --detach`: that runs a hook, and refuses amid a merge.
        Some(head) => call(&["update-ref", "--no-deref", "-m", "omg: set aside", "HEAD", head.as_str()]),
        // Nothing to detach to; the branch that it waits for must not be the lane's next one.
        None => call(&["symbolic-ref", "HEAD", &format!("{}.old-{number}", request.branch_ref())]),
    }
    .output()
    .map_err(words)?;
    unlock(git, repository, tree, lock).map_err(words)?;
    // Best effort: without the lock it says nothing.
    let _ = fs::remove_file(entry.git_dir.join(ON_ITS_WAY));
    Ok(())
}

/// Writes into the entry where its tree is, absolute or relative as it was: only a name has changed.
fn point_at(entry: &Entry, tree: &Path) -> io::Result<()> {
    let file = entry.git_dir.join("gitdir");
    let named = fs::read(&file)?;
    let named = super::git::path_of(named.trim_ascii_end());
    let folder = named.parent().ok_or(io::ErrorKind::InvalidData)?;
    let name = tree.file_name().ok_or(io::ErrorKind::InvalidData)?;
    let wanted = folder.with_file_name(name).join(".git");
    if wanted == named {
        return Ok(());
    }
    let mut bytes = wanted.into_os_string().into_vec();
    bytes.push(b'\n');
    write_anew(&file, &bytes)
}

/// Durable on return; a reader sees the old bytes or the new ones.
fn write_anew(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = file.with_extension("omg-new");
    let mut written = fs::File::create(&draft)?;
    written.write_all(bytes)?;
    written.sync_all()?;
    fs::rename(&draft, file)
}

/// Tells every repository of a submodule below `modules` that its tree, which was in the lane at `path`,
/// is in the folder `name` beside it.
fn point_submodules(git: &Git, modules: &Path, path: &Path, name: &std::ffi::OsStr) -> Result<(), GitError> {
    let Ok(listing) = fs::read_dir(modules) else { return Ok(()) };
    let lane = super::discover::real(path).unwrap_or_else(|_| path.to_path_buf());
    for item in listing.flatten().map(|item| item.path()).filter(|item| item.is_dir()) {
        if !item.join("HEAD").exists() {
            point_submodules(git, &item, path, name)?;
            continue;
        }
        for file in ["config", "config.worktree"].map(|file| item.join(file)) {
            // Not in the submodule: no git starts in one whose tree is not where it says. What cannot be
            // read no place that we could mend.
            let call =
                git.at(Path::new("/"), ["config", "--file"]).arg(&file).args(["--get", "core.worktree"]);
            let Ok(old) = call.reading().path() else { continue };
            let Some(new) = renamed(&item, &old, &lane, name) else { continue };
            git.at(Path::new("/"), ["config", "--file"])
                .arg(&file)
                .arg("core.worktree")
                .arg(&new)
                .output()?;
        }
        point_submodules(git, &item.join("modules"), path, name)?;
    }
    Ok(())
}

/// Returns `place`, as a repository in `folder` names it, with the folder `lane` called `name`; `None`
/// where it lies not in that.
fn renamed(folder: &Path, place: &Path, lane: &Path, name: &std::ffi::OsStr) -> Option<PathBuf> {
    let full = without_dots(&fs::canonicalize(folder).ok()?.join(place));
    let rest = full.strip_prefix(lane).ok()?;
    let depth = rest.components().count();
    let mut parts: Vec<OsString> = place.components().map(|part| part.as_os_str().to_os_string()).collect();
    let at = parts.len().checked_sub(depth + 1)?;
    if Some(parts[at].as_os_str()) != lane.file_name() {
        return Some(lane.with_file_name(name).join(rest));
    }
    parts[at] = name.to_os_string();
    Some(parts.into_iter().collect())
}

/// Returns `path` with its `..` taken by name: the folders it goes through are real ones.
fn without_dots(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(clean.pop()),
            Component::CurDir => {}
            part => clean.push(part),
        }
    }
    clean
}

fn head(git: &Git, git_dir: &Path) -> Result<Option<CommitId>, GitError> {
    match git.inside(git_dir, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).reading().commit() {
        Ok(commit) => Ok(Some(commit)),
        Err(GitError::Failed { code: Some(1), .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Renames, and fails with `AlreadyExists` where something is there.
pub(crate) fn move_to(from: &Path, to: &Path) -> io::Result<()> {
    failpoint::at(Point::MoveBefore);
    move_unless_there(from, to)?;
    failpoint::at(Point::MoveAfter);
    Ok(())
}

fn move_unless_there(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            // A file system that does not know the flag (NFS): look, then rename.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if fs::symlink_metadata(to).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{LaneName, RunId};
    use crate::worktree::lane::{HeadSign, Phase};

    fn request() -> LaneRequest {
        LaneRequest {
            run: RunId::from("r1"),
            lane: LaneName::from("api"),
            path: "/w/api".into(),
            branch: "omg/r1/api".into(),
            base: CommitId::from("a".repeat(40)),
            history: LaneHistory { branch_made_by_run: true, ..LaneHistory::default() },
        }
    }

    #[test]
    fn only_the_lanes_own_tree_moves_and_only_its_own_branch_is_given_free() {
        let places = [
            Place::Absent,
            Place::Empty,
            Place::Lane,
            Place::Unlinked,
            Place::Folder,
            Place::File,
            Place::Symlink,
            Place::OtherRepository,
        ];
        let mut registrations = vec![Registration::None];
        for lock in [Lock::None, Lock::Ours, Lock::Initializing, Lock::Foreign("mine".into())] {
            for receipt in
                [Receipt::None, Receipt::Ours(Phase::Creating), Receipt::Ours(Phase::Ready), Receipt::Foreign]
            {
                let (whole, head) = (true, HeadSign::Other);
                registrations.push(Registration::Entry { whole, lock: lock.clone(), receipt, head });
            }
        }
        let mut branches = vec![BranchState::Absent];
        for elsewhere in [None, Some("/x".into())] {
            for marked in [true, false] {
                let tip = CommitId::from("b".repeat(40));
                branches.push(BranchState::At { tip, marked, elsewhere: elsewhere.clone() });
            }
        }
        for place in &places {
            for registration in &registrations {
                for branch in &branches {
                    for (anew, made) in [(true, true), (true, false), (false, true), (false, false)] {
                        let state = LaneState {
                            place: Some(place.clone()),
                            aside: Some(false),
                            registration: Some(registration.clone()),
                            branch: Some(branch.clone()),
                            content: None,
                        };
                        let mut request = request();
                        request.history.branch_made_by_run = made;
                        let now = decide(&state, &request);
                        let plan = plan(&state, &request, anew, now, after(&state, &request, anew));
                        let ours = made || matches!(branch, BranchState::At { marked: true, .. });
                        let elsewhere = matches!(branch, BranchState::At { elsewhere: Some(_), .. });
                        match plan {
                            RetirePlan::SetAside => {
                                assert_eq!(*place, Place::Lane, "{state:?}");
                                assert!(!elsewhere && (ours || *branch == BranchState::Absent), "{state:?}");
                                let Registration::Entry { lock, receipt, .. } = registration else {
                                    panic!("{state:?}");
                                };
                                assert!(matches!(lock, Lock::None | Lock::Ours), "{state:?}");
                                assert!(*receipt != Receipt::Foreign, "{state:?}");
                                assert!(*lock == Lock::Ours || *receipt != Receipt::None, "{state:?}");
                            }
                            RetirePlan::FreeBranch(_) => {
                                assert!(matches!(place, Place::Absent | Place::Empty), "{state:?}");
                                assert!(anew && ours && !elsewhere, "{state:?}");
                            }
                            RetirePlan::PutBack => panic!("{state:?}"),
                            RetirePlan::Leave | RetirePlan::Refuse(_) => {}
                        }
                    }
                }
            }
        }
    }
}
