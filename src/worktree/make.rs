//! Carries an [`AcquirePlan`] out, and releases lanes.
//!
//! Order, so that a kill anywhere leaves a state that the next acquire knows: branch, registration
//! with lock, receipt `creating`, files, receipt `checked-out`, the user's hook, receipt `ready`.
//! Only the first three need the repository's lock; files of many lanes are written side by side.
#![expect(clippy::disallowed_methods, reason = "moves and removes what a killed acquire left")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::acquire::{AcquirePlan, decide};
use super::git::{Git, GitError, items, no_object, path_of};
use super::lane::{BranchState, Content, LaneRequest, Lock, Phase, branch_mark, lock_reason, rescue_ref};
use super::lock::{LaneLock, RepositoryLock};
use super::observe::{self, Entry, Gaps, entry_for, gone_aside, lock_of, observe, set_aside};
use super::rescue::{self, IndexCopy, Seat};
use super::{
    AcquireClass, AcquireFault, Acquired, How, Repository, Standing, WorktreeError, preflight, receipt,
    retire,
};
use crate::failpoint::{self, Point};
use crate::ids::CommitId;
use crate::process::table::worked_in;

/// Bytes below which a file system counts as full: git could not write an index.
const NOTHING_FREE: u64 = 16 * 1024;

/// More looks than any state needs: put back, drop, redo, then make.
const ROUNDS: u32 = 6;

/// Makes, finishes or takes up one lane.
pub fn acquire(git: &Git, repository: &Repository, request: &LaneRequest) -> Result<Acquired, AcquireFault> {
    let act = Act { git, repository, request };
    preflight::allowed(repository, request)?;
    let lane = LaneLock::take(&request.path, None).map_err(|error| act.io(&error))?;
    for _ in 0..ROUNDS {
        let lock = RepositoryLock::take(&repository.common_dir).map_err(|error| act.io(&error))?;
        act.clear_debris().map_err(|error| act.io(&error))?;
        set_stale_ref_lock_aside(&repository.common_dir, &request.branch_ref())
            .map_err(|error| act.io(&error))?;
        retire::settle_all(git, repository, request, &lock).map_err(|error| act.failed(error))?;
        let state = observe(git, repository, request);
        match decide(&state, request) {
            AcquirePlan::Refuse(fault) => return Err(fault),
            AcquirePlan::PutBack => act.put_back().map_err(|error| act.io(&error))?,
            AcquirePlan::DropStale => act.drop_stale(&lock)?,
            AcquirePlan::Redo => act.redo().map_err(|error| act.io(&error))?,
            AcquirePlan::Create => {
                act.make_branch()?;
                let entry = act.register(lock).inspect_err(|_| act.unmake_branch())?;
                return act.check_out(&entry, &lane, How::Created, true, &request.base);
            }
            AcquirePlan::Reattach { branch_is_ours } => {
                let Some(BranchState::At { tip, .. }) = &state.branch else {
                    return Err(act.failed(format!("branch `{}` is gone again", request.branch)));
                };
                let entry = act.register(lock)?;
                return act.check_out(&entry, &lane, How::Reattached, branch_is_ours, tip);
            }
            AcquirePlan::Finish => {
                let entry = act.entry_locked(&lock)?;
                act.set_stale_locks_aside(&entry).map_err(|error| act.io(&error))?;
                drop(lock);
                act.write(&entry, Phase::Creating)?;
                match state.content {
                    Some(Content::Nothing) => {
                        act.first_checkout(&lane).map_err(|error| act.not_checked_out(&error))?;
                    }
                    _ => act.fill(&entry, &lane)?,
                }
                return act.hand_out_after_hook(&entry, &lane, How::Finished, act.made_branch()?, None);
            }
            AcquirePlan::RunHook => {
                let entry = act.entry_locked(&lock)?;
                act.set_stale_locks_aside(&entry).map_err(|error| act.io(&error))?;
                drop(lock);
                return act.hand_out_after_hook(&entry, &lane, How::Finished, act.made_branch()?, None);
            }
            AcquirePlan::Reuse => {
                let entry = act.entry_locked(&lock)?;
                act.set_stale_locks_aside(&entry).map_err(|error| act.io(&error))?;
                act.write(&entry, Phase::Ready)?;
                return act.acquired(&entry, How::Reused, act.made_branch()?);
            }
        }
    }
    Err(act.failed(format!("lane `{}` did not settle; another program works in its folder", request.lane)))
}

/// Returns how a lane stands, as the next acquire would find it. Changes nothing.
pub fn standing(git: &Git, repository: &Repository, request: &LaneRequest) -> Standing {
    match decide(&observe(git, repository, request), request) {
        AcquirePlan::Create => Standing::Nothing,
        AcquirePlan::Reattach { .. } => Standing::BranchOnly,
        AcquirePlan::DropStale => Standing::EntryOnly,
        AcquirePlan::Redo | AcquirePlan::Finish | AcquirePlan::RunHook => Standing::Half,
        AcquirePlan::PutBack => Standing::Aside,
        AcquirePlan::Refuse(fault) => Standing::Taken(fault.detail),
        AcquirePlan::Reuse => {
            let act = Act { git, repository, request };
            let entry = entry_for(repository, &request.path).map_err(|error| act.io(&error));
            let made = entry.and_then(|entry| {
                let entry = entry.ok_or_else(|| act.failed("it is registered no more".into()))?;
                act.acquired(&entry, How::Reused, act.made_branch()?)
            });
            made.map_or_else(|fault| Standing::Taken(fault.detail), Standing::Whole)
        }
    }
}

/// Unlocks a lane that is kept.
pub fn release(git: &Git, repository: &Repository, request: &LaneRequest) -> Result<(), WorktreeError> {
    let lock = RepositoryLock::take(&repository.common_dir)
        .map_err(|error| WorktreeError::io(&repository.common_dir, &error))?;
    let entry =
        entry_for(repository, &request.path).map_err(|error| WorktreeError::io(&request.path, &error))?;
    match entry {
        Some(entry) if lock_of(&entry, &request.run) == Lock::Ours => {
            unlock(git, repository, &request.path, &lock)?;
            Ok(())
        }
        Some(_) | None => Ok(()),
    }
}

/// Unlocks the worktree at `path`.
pub fn unlock(
    git: &Git,
    repository: &Repository,
    path: &Path,
    lock: &RepositoryLock,
) -> Result<(), GitError> {
    let call = git.inside(&repository.common_dir, ["worktree", "unlock"]).arg(path);
    share(call, lock).output_despite_races().map(|_| ())
}

/// Locks the worktree at `path` in the name of the run of `reason`.
pub fn lock(
    git: &Git,
    repository: &Repository,
    path: &Path,
    reason: &str,
    lock: &RepositoryLock,
) -> Result<(), GitError> {
    let call = git.inside(&repository.common_dir, ["worktree", "lock", "--reason", reason]).arg(path);
    share(call, lock).output_despite_races().map(|_| ())
}

/// Takes the entry of a worktree whose folder is gone out of the repository, and no other one.
///
/// Twice forced, as it may be locked by us; git deletes no folder then, since there is none.
pub fn unregister(
    git: &Git,
    repository: &Repository,
    path: &Path,
    lock: &RepositoryLock,
) -> Result<(), GitError> {
    let call = git.inside(&repository.common_dir, ["worktree", "remove", "--force", "--force"]).arg(path);
    share(call, lock).output_despite_races().map(|_| ())
}

/// Moves the lock file of one of our own refs out of the way, that of a git which was killed: nobody has it open. It
/// holds a commit's name at the most.
pub fn set_stale_ref_lock_aside(common_dir: &Path, name: &str) -> io::Result<()> {
    let mut lock = common_dir.join(name).into_os_string();
    lock.push(".lock");
    let lock = PathBuf::from(lock);
    if fs::symlink_metadata(&lock).is_err() || worked_in(&lock)? {
        return Ok(());
    }
    match fs::rename(&lock, common_dir.join(format!("omg-stale-{}.lock.old", name.replace('/', "-")))) {
        // Its git was not dead, and is done.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        moved => moved,
    }
}

fn share(call: super::git::Call, lock: &RepositoryLock) -> super::git::Call {
    match lock.share() {
        Ok(file) => call.holding(file),
        Err(_) => call,
    }
}

/// One acquire under way.
pub(super) struct Act<'a> {
    pub git: &'a Git,
    pub repository: &'a Repository,
    pub request: &'a LaneRequest,
}

impl Act<'_> {
    fn failed(&self, detail: String) -> AcquireFault {
        AcquireFault {
            class: AcquireClass::AcquireFailed,
            detail,
            hint: "see that git works in the repository, then resume".into(),
        }
    }

    fn full(&self, detail: String) -> AcquireFault {
        AcquireFault { class: AcquireClass::DiskFull, detail, hint: "make room, then resume".into() }
    }

    fn git(&self, error: &GitError) -> AcquireFault {
        let detail = format!("lane `{}` at {}: {error}", self.request.lane, self.request.path.display());
        if error.is_disk_full() || self.nothing_is_free() { self.full(detail) } else { self.failed(detail) }
    }

    /// What a checkout depends on besides git: the programs of required filters, and the remote of a
    /// partial clone. Which of them failed only git's prose tells.
    fn not_checked_out(&self, error: &GitError) -> AcquireFault {
        let mut fault = self.git(error);
        if fault.class == AcquireClass::DiskFull {
            return fault;
        }
        let names = |pattern: &str, ending: &str| -> Vec<String> {
            let words = ["config", "--name-only", "--get-regexp", pattern];
            let listed = self.git.at(&self.request.path, words).reading().line().unwrap_or_default();
            listed.lines().filter_map(|name| name.strip_suffix(ending)).map(str::to_string).collect()
        };
        let mut ways: Vec<String> = Vec::new();
        for filter in names(r"^filter\..*\.required$", ".required") {
            ways.push(format!("{filter} has to work here: see `git config --get-regexp {filter}`"));
        }
        for remote in names(r"^remote\..*\.promisor$", ".promisor") {
            let remote = remote.trim_start_matches("remote.");
            ways.push(format!(
                "this is a partial clone, and `git fetch {remote}` has to work for what it lacks"
            ));
        }
        if !ways.is_empty() {
            fault.hint = format!("{}; then resume with --retry-blocked", ways.join("; "));
        }
        fault
    }

    /// Git does not always say why it could not write.
    fn nothing_is_free(&self) -> bool {
        [&self.repository.common_dir, &self.request.path].into_iter().any(|path| {
            super::discover::room(path).is_ok_and(|room| room.bytes < NOTHING_FREE || room.inodes == 0)
        })
    }

    fn io(&self, error: &io::Error) -> AcquireFault {
        let detail = format!("lane `{}` at {}: {error}", self.request.lane, self.request.path.display());
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => self.full(detail),
            _ => self.failed(detail),
        }
    }

    fn write(&self, entry: &Entry, phase: Phase) -> Result<(), AcquireFault> {
        receipt::write(&entry.git_dir, self.request, phase).map_err(|error| self.io(&error))
    }

    /// Removes entries that a kill left before they named any worktree. They hold no more than our
    /// reason, and would be locked for ever.
    pub(super) fn clear_debris(&self) -> io::Result<()> {
        self.git.allowed()?;
        for entry in observe::entries(self.repository)? {
            if entry.path.is_some() || lock_of(&entry, &self.request.run) != Lock::Ours {
                continue;
            }
            let names: Vec<_> = fs::read_dir(&entry.git_dir)?
                .map(|item| item.map(|item| item.file_name()))
                .collect::<io::Result<_>>()?;
            if names.iter().all(|name| name == "locked" || name == "gitdir") {
                for name in names {
                    fs::remove_file(entry.git_dir.join(name))?;
                }
                fs::remove_dir(&entry.git_dir)?;
            }
        }
        Ok(())
    }

    /// An empty folder at the path gives way to a rename (rename(2)).
    fn put_back(&self) -> io::Result<()> {
        self.git.allowed()?;
        failpoint::at(Point::MoveBefore);
        fs::rename(set_aside(&self.request.path)?, &self.request.path)?;
        failpoint::at(Point::MoveAfter);
        Ok(())
    }

    pub(super) fn drop_stale(&self, lock: &RepositoryLock) -> Result<(), AcquireFault> {
        let found = entry_for(self.repository, &self.request.path).map_err(|error| self.io(&error))?;
        let Some(entry) = found else { return Ok(()) };
        if !entry.whole {
            if entry.git_dir.join("index").exists() {
                return Err(self.failed(format!("git cannot read {}", entry.git_dir.display())));
            }
            return fs::remove_dir_all(&entry.git_dir).map_err(|error| self.io(&error));
        }
        self.save(&entry).map_err(|error| self.git(&error))?;
        // Fails where something appeared in it since, and that is right.
        match fs::remove_dir(&self.request.path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(self.io(&error)),
        }
        let path = entry.path.as_deref().unwrap_or(&self.request.path);
        unregister(self.git, self.repository, path, lock).map_err(|error| self.git(&error))
    }

    /// The entry holds the lane's HEAD, its reflog and what was staged; they die with it.
    fn save(&self, entry: &Entry) -> Result<(), GitError> {
        let seat = Seat::GitDir(&entry.git_dir);
        let unreached = rescue::unreached(self.git, seat, &self.request.branch, &self.request.base)?;
        let mut tips = match unreached {
            Some(tips) => tips,
            None => head(self.git, seat)?.into_iter().collect(),
        };
        let index = IndexCopy::of(&entry.git_dir)
            .map_err(|error| GitError::Unreadable { command: "index".into(), detail: error.to_string() })?;
        if entry.git_dir.join("index").exists() {
            tips.extend(rescue::staged(self.git, seat, &index)?);
        }
        let name = rescue_ref(&self.request.run, &self.request.lane);
        rescue::pin(self.git, &self.repository.common_dir, &name, &tips).map(|_| ())
    }

    /// The folder first: killed in between, an entry without a folder is left, which is known.
    pub(super) fn redo(&self) -> io::Result<()> {
        self.git.allowed()?;
        let path = &self.request.path;
        let entry = entry_for(self.repository, path)?.map(|entry| entry.git_dir);
        let linked = observe::linked(self.repository, path);
        let remnants = entry.into_iter().chain(linked).filter(|entry| observe::is_remnant(entry, path));
        let remnants: Vec<PathBuf> = remnants.collect();
        fs::remove_file(path.join(".git"))?;
        fs::remove_dir(path)?;
        for entry in remnants {
            match fs::remove_dir_all(entry) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Exclusive: where the branch is there by now, somebody else made it.
    fn make_branch(&self) -> Result<(), AcquireFault> {
        let request = self.request;
        let mark = branch_mark(&request.run, &request.lane);
        self.git
            .inside(&self.repository.common_dir, ["update-ref", "--create-reflog", "-m", &mark])
            .args([&request.branch_ref(), request.base.as_str(), &no_object(&request.base)])
            .output()
            .map(|_| ())
            .map_err(|error| self.git(&error))
    }

    /// Best effort: a branch that stays is known by its mark. One that a worktree stands on stays.
    fn unmake_branch(&self) {
        let request = self.request;
        if !matches!(entry_for(self.repository, &request.path), Ok(None)) {
            return;
        }
        let _ = self
            .git
            .inside(&self.repository.common_dir, ["update-ref", "-d", &request.branch_ref()])
            .arg(request.base.as_str())
            .output();
    }

    /// Free for the next one as soon as git is done: the rest concerns this lane alone.
    fn register(&self, lock: RepositoryLock) -> Result<Entry, AcquireFault> {
        let request = self.request;
        let reason = lock_reason(&request.run);
        // From the checkout itself, as a user would: git copies its sparse patterns to the new one.
        let call = self
            .git
            .at(
                self.repository.folder(),
                ["worktree", "add", "-q", "--no-checkout", "--lock", "--reason", &reason],
            )
            .arg(&request.path)
            .arg(&request.branch);
        share(call, &lock).output_despite_races().map_err(|error| self.git(&error))?;
        drop(lock);
        let entry = self.entry()?;
        self.write(&entry, Phase::Creating)?;
        // A bare repository, or core.logAllRefUpdates=false, begins no reflog of itself; one that is
        // there is written to. Without it cleanup could prove nothing.
        let mark = branch_mark(&request.run, &request.lane);
        self.git
            .at(&request.path, ["update-ref", "--create-reflog", "-m", &mark, "HEAD", "HEAD"])
            .output()
            .map_err(|error| self.git(&error))?;
        Ok(entry)
    }

    fn entry(&self) -> Result<Entry, AcquireFault> {
        let missing = || self.failed(format!("{} is not registered", self.request.path.display()));
        let found = entry_for(self.repository, &self.request.path).map_err(|error| self.io(&error))?;
        found.ok_or_else(missing)
    }

    /// Moves the lock files of a git that was killed out of the way: they would fail every later git in
    /// the lane, and be charged to the node that runs it.
    ///
    /// Nobody is behind them: the leg has ended what an earlier one left running, no process works in
    /// the lane, and none has them open. They are moved, not deleted. Those of the lane are in its own
    /// git folder; its branch's is where all branches are.
    fn set_stale_locks_aside(&self, entry: &Entry) -> io::Result<()> {
        if worked_in(&self.request.path)? {
            return Ok(());
        }
        let own = fs::read_dir(&entry.git_dir)?.filter_map(|item| item.ok().map(|item| item.path()));
        let mut of_branch = self.repository.common_dir.join(self.request.branch_ref()).into_os_string();
        of_branch.push(".lock");
        let stale = own.chain([PathBuf::from(of_branch)]).filter(|path| {
            path.extension() == Some(OsStr::new("lock")) && fs::symlink_metadata(path).is_ok()
        });
        for path in stale {
            if worked_in(&path)? {
                continue;
            }
            let mut name = std::ffi::OsString::from("omg-stale-");
            name.push(path.file_name().unwrap_or_default());
            name.push(".old");
            fs::rename(&path, entry.git_dir.join(name))?;
        }
        Ok(())
    }

    /// The entry, locked in the name of the run unless somebody else has locked it.
    fn entry_locked(&self, held: &RepositoryLock) -> Result<Entry, AcquireFault> {
        let entry = self.entry()?;
        let (git, repository, path) = (self.git, self.repository, &self.request.path);
        let state = lock_of(&entry, &self.request.run);
        if state == Lock::Initializing {
            unlock(git, repository, path, held).map_err(|error| self.git(&error))?;
        }
        if matches!(state, Lock::Initializing | Lock::None) {
            lock(git, repository, path, &lock_reason(&self.request.run), held)
                .map_err(|error| self.git(&error))?;
        }
        Ok(entry)
    }

    fn check_out(
        &self,
        entry: &Entry,
        lane: &LaneLock,
        how: How,
        branch_made: bool,
        tip: &CommitId,
    ) -> Result<Acquired, AcquireFault> {
        if let Err(error) = self.first_checkout(lane) {
            let fault = self.not_checked_out(&error);
            self.unwind(entry, how);
            return Err(fault);
        }
        self.hand_out_after_hook(entry, lane, how, branch_made, Some(tip))
    }

    /// Not `reset --hard`: this refuses where it would overwrite a file (measured).
    fn first_checkout(&self, lane: &LaneLock) -> Result<(), GitError> {
        let call =
            self.git.at(&self.request.path, ["read-tree", "-m", "-u", "--no-recurse-submodules", "HEAD"]);
        match lane.share() {
            Ok(file) => call.holding(file),
            Err(_) => call,
        }
        .output()
        .map(|_| ())
    }

    /// Writes what a killed checkout left out. A file that is there is overwritten only where it
    /// holds a beginning of what replaces it.
    fn fill(&self, entry: &Entry, lane: &LaneLock) -> Result<(), AcquireFault> {
        let path = &self.request.path;
        // We hold the lane's lock and the checkout's child would hold it too: nobody writes there.
        let _ = fs::remove_file(entry.git_dir.join("index.lock"));
        let gaps = Gaps::of(self.git, path, entry).map_err(|error| self.git(&error))?;
        if let Some(foreign) = gaps.foreign {
            return Err(self.failed(format!("{} appeared in {}", foreign.display(), path.display())));
        }
        for torn in &gaps.torn {
            fs::remove_file(path.join(torn)).map_err(|error| self.io(&error))?;
        }
        if self.is_sparse().map_err(|error| self.git(&error))? {
            self.clear(entry, &gaps)?;
            return self.first_checkout(lane).map_err(|error| self.not_checked_out(&error));
        }
        let names: Vec<u8> = gaps
            .missing
            .iter()
            .chain(&gaps.torn)
            .flat_map(|name| name.as_os_str().as_bytes().iter().copied().chain([0]))
            .collect();
        let run = || {
            self.git.at(path, ["read-tree", "HEAD"]).output()?;
            self.git.at(path, ["checkout-index", "-z", "--stdin"]).feed(names).output()?;
            self.git.at(path, ["update-index", "-q", "--refresh"]).output()
        };
        run().map(|_| ()).map_err(|error| self.not_checked_out(&error))
    }

    fn is_sparse(&self) -> Result<bool, GitError> {
        let words = ["config", "--type=bool", "--default=false", "core.sparseCheckout"];
        self.git.at(&self.request.path, words).reading().line().map(|value| value == "true")
    }

    /// Takes away what a killed checkout wrote, so that a whole one can follow: which files belong into
    /// a sparse checkout only that knows. Each was found to be what the commit has.
    fn clear(&self, entry: &Entry, gaps: &Gaps) -> Result<(), AcquireFault> {
        let path = &self.request.path;
        let listing = self.git.at(path, ["ls-tree", "-r", "-z", "--name-only", "HEAD"]).reading().output();
        let listing = listing.map_err(|error| self.git(&error))?;
        let missing: BTreeSet<&Path> = gaps.missing.iter().map(PathBuf::as_path).collect();
        for name in items(&listing).map(path_of).filter(|name| !missing.contains(name.as_path())) {
            match fs::remove_file(path.join(name)) {
                Ok(()) => {}
                // A submodule is an empty folder.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) => {}
                Err(error) => return Err(self.io(&error)),
            }
        }
        match fs::remove_file(entry.git_dir.join("index")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.io(&error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// `tip`: what HEAD is at, where that is known.
    fn hand_out_after_hook(
        &self,
        entry: &Entry,
        lane: &LaneLock,
        how: How,
        branch_made: bool,
        tip: Option<&CommitId>,
    ) -> Result<Acquired, AcquireFault> {
        self.write(entry, Phase::CheckedOut)?;
        self.hook(lane, tip)?;
        self.write(entry, Phase::Ready)?;
        self.acquired(entry, how, branch_made)
    }

    /// Runs `post-checkout` as `git worktree add` does: no old commit, the new one, 1; in the lane,
    /// without GIT_DIR; a relative core.hooksPath looked up from the calling checkout (measured with
    /// git 2.47).
    ///
    /// Not by `git hook run`, which sets GIT_DIR: a hook that enters a subfolder would then take that
    /// for the whole checkout.
    fn hook(&self, lane: &LaneLock, tip: Option<&CommitId>) -> Result<(), AcquireFault> {
        let path = &self.request.path;
        let words = ["rev-parse", "--path-format=absolute", "--git-path", "hooks/post-checkout"];
        let hook = match self.git.at(self.repository.folder(), words).reading().path() {
            Ok(hook) => hook,
            // `core.hooksPath` may be no folder, /dev/null for one, and then there are no hooks.
            Err(GitError::Failed { .. }) => return Ok(()),
            Err(error) => return Err(self.git(&error)),
        };
        let may_run = fs::metadata(&hook)
            .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
        if !may_run {
            return Ok(());
        }
        let head = match tip {
            Some(tip) => Some(tip.clone()),
            None => head(self.git, Seat::Tree(path)).map_err(|error| self.git(&error))?,
        };
        let Some(head) = head else { return Ok(()) };
        let call = self.git.hook(&hook, path).args([&no_object(&head), head.as_str(), "1"]);
        let call = match lane.share() {
            Ok(file) => call.holding(file),
            Err(_) => call,
        };
        call.output().map(|_| ()).map_err(|error| AcquireFault {
            class: if error.is_disk_full() { AcquireClass::DiskFull } else { AcquireClass::AcquireFailed },
            detail: format!("lane `{}`: {error}", self.request.lane),
            hint: "mend the hook, then resume".into(),
        })
    }

    fn made_branch(&self) -> Result<bool, AcquireFault> {
        let request = self.request;
        if request.history.branch_made_by_run {
            return Ok(true);
        }
        let common = &self.repository.common_dir;
        observe::marked(self.git, common, &request.run, &request.lane, &request.branch)
            .map_err(|error| self.git(&error))
    }

    fn acquired(&self, entry: &Entry, how: How, branch_made: bool) -> Result<Acquired, AcquireFault> {
        let path = &self.request.path;
        let (top, head) = self.top_and_head().map_err(|error| self.git(&error))?;
        let real = super::discover::real(path).map_err(|error| self.io(&error))?;
        if top != real {
            return Err(self.failed(format!("git takes {} for {}", path.display(), top.display())));
        }
        Ok(Acquired { path: path.clone(), git_dir: entry.git_dir.clone(), how, branch_made, head })
    }

    /// One process says both, where HEAD names a commit.
    fn top_and_head(&self) -> Result<(PathBuf, Option<CommitId>), GitError> {
        let path = &self.request.path;
        let both = self.git.at(path, ["rev-parse", "--show-toplevel", "HEAD^{commit}"]).reading().path();
        if let Ok(both) = &both
            && let bytes = both.as_os_str().as_bytes()
            && let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n')
            && let Some(head) = std::str::from_utf8(&bytes[end + 1..]).ok().and_then(CommitId::parse)
        {
            return Ok((path_of(&bytes[..end]), Some(head)));
        }
        let top = self.git.at(path, ["rev-parse", "--show-toplevel"]).reading().path()?;
        Ok((top, head(self.git, Seat::Tree(path))?))
    }

    /// Takes a lane back whose files could not be written, so that a full disk is not fuller for it.
    /// Only where it holds nothing but the commit's own files; else, and where this fails, it stays,
    /// and the next acquire goes on from it.
    fn unwind(&self, entry: &Entry, how: How) {
        let (Ok(gone), Ok(gaps)) =
            (gone_aside(&self.request.path), Gaps::of(self.git, &self.request.path, entry))
        else {
            return;
        };
        if gaps.foreign.is_some() || gone.exists() || fs::rename(&self.request.path, &gone).is_err() {
            return;
        }
        if let Ok(lock) = RepositoryLock::take(&self.repository.common_dir)
            && unregister(self.git, self.repository, &self.request.path, &lock).is_ok()
            && how == How::Created
        {
            self.unmake_branch();
        }
        let _ = fs::remove_dir_all(&gone);
    }
}

fn head(git: &Git, seat: Seat<'_>) -> Result<Option<CommitId>, GitError> {
    match seat.call(git, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).reading().commit() {
        Ok(commit) => Ok(Some(commit)),
        Err(GitError::Failed { code: Some(1), .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
