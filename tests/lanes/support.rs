//! A repository in a folder of its own, and the words in which the tests speak of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use omg::cleanup::{
    BranchFate, CHANNELS, CleanupOutcome, GitSweeper, Policy, SweepRequest, Sweeper, TreeFate,
};
use omg::ids::{CommitId, LaneName, RunId};
use omg::process::environment::Environment;
use omg::worktree::lane::{LaneHistory, LaneRequest};
use omg::worktree::{AcquireFault, Acquired, GitWorktrees, Repository, Worktrees};

pub const NEW: LaneHistory =
    LaneHistory { branch_made_by_run: false, kept_by_earlier_leg: false, acquire_open: false };
pub const MADE: LaneHistory = LaneHistory { branch_made_by_run: true, ..NEW };
pub const KEPT: LaneHistory = LaneHistory { kept_by_earlier_leg: true, ..MADE };
pub const OPEN: LaneHistory = LaneHistory { acquire_open: true, ..NEW };

/// A repository with two files and one commit, and room for lanes beside it.
pub struct World {
    pub root: tempfile::TempDir,
    pub repo: PathBuf,
    pub lanes: PathBuf,
}

/// git's background maintenance would be at work in a lane a moment longer than the commit that began it.
const CONFIG: &str = "[user]\n\tname = t\n\temail = t@example.com\n[maintenance]\n\tauto = false\n";

impl World {
    pub fn new() -> World {
        let world = World::empty();
        world.git(&world.repo, &["init", "-q", "-b", "main"]);
        fs::create_dir(world.repo.join("src")).unwrap();
        fs::write(world.repo.join("src/a.txt"), "a first line\na second line\n").unwrap();
        fs::write(world.repo.join("b.txt"), "b\n").unwrap();
        fs::write(world.repo.join(".gitignore"), "*.log\nout/\nnode_modules/\ntarget/\n.env\n").unwrap();
        world.git(&world.repo, &["add", "."]);
        world.git(&world.repo, &["commit", "-q", "-m", "base"]);
        world
    }

    /// Folders only.
    pub fn empty() -> World {
        let root = tempfile::Builder::new().prefix("omg-lanes-").tempdir().unwrap();
        let real = fs::canonicalize(root.path()).unwrap();
        let (repo, lanes) = (real.join("répo with space"), real.join("run/worktrees"));
        fs::create_dir_all(&repo).unwrap();
        fs::create_dir_all(real.join("home")).unwrap();
        fs::write(real.join("home/gitconfig"), CONFIG).unwrap();
        World { root, repo, lanes }
    }

    pub fn environment(&self) -> Environment {
        let home = self.repo.parent().unwrap().join("home");
        Environment::from_iter([
            ("PATH", std::env::var_os("PATH").unwrap()),
            ("HOME", home.clone().into_os_string()),
            ("GIT_CONFIG_GLOBAL", home.join("gitconfig").into_os_string()),
            ("GIT_CONFIG_NOSYSTEM", std::ffi::OsString::from("1")),
        ])
    }

    pub fn worktrees(&self) -> GitWorktrees {
        GitWorktrees::new(&self.environment())
    }

    pub fn repository(&self) -> Repository {
        self.worktrees().discover(&self.repo).unwrap()
    }

    #[track_caller]
    pub fn git(&self, folder: &Path, words: &[&str]) -> String {
        let (ok, text) = self.try_git(folder, words);
        assert!(ok, "git {words:?} in {}: {text}", folder.display());
        text
    }

    pub fn try_git(&self, folder: &Path, words: &[&str]) -> (bool, String) {
        let output = Command::new("git")
            .arg("-C")
            .arg(folder)
            .args(words)
            .env_clear()
            .envs(&self.environment().0)
            .env("GIT_EDITOR", ":")
            .output()
            .unwrap();
        let bytes = if output.status.success() { output.stdout } else { output.stderr };
        (output.status.success(), String::from_utf8_lossy(&bytes).trim_end().to_string())
    }

    pub fn base(&self) -> CommitId {
        CommitId::parse(&self.git(&self.repo, &["rev-parse", "main"])).unwrap()
    }

    pub fn lane(&self, name: &str, history: LaneHistory) -> LaneRequest {
        LaneRequest {
            run: RunId::from("r1"),
            lane: LaneName::from(name),
            path: self.lanes.join(name),
            branch: format!("omg/r1/{name}"),
            base: self.base(),
            history,
        }
    }

    pub fn acquire(&self, name: &str, history: LaneHistory) -> Result<Acquired, AcquireFault> {
        self.worktrees().acquire(&self.repository(), &self.lane(name, history))
    }

    /// Writes a script as the hook `name` of the repository.
    pub fn hook(&self, name: &str, script: &str) {
        let file = self.repo.join(".git/hooks").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn entries(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.repo.join(".git/worktrees"))
            .map(|items| items.map(|item| item.unwrap().file_name().into_string().unwrap()).collect())
            .unwrap_or_default();
        names.sort();
        names
    }

    pub fn branches(&self) -> Vec<String> {
        let all = self.git(&self.repo, &["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
        all.lines().map(str::to_string).collect()
    }

    pub fn locked(&self, name: &str) -> Option<String> {
        let file = self.repo.join(".git/worktrees").join(name).join("locked");
        fs::read_to_string(file).ok().map(|reason| reason.trim_end().to_string())
    }

    /// Asserts that the lane holds what its commit has, and that git agrees.
    #[track_caller]
    pub fn assert_clean(&self, lane: &Path) {
        assert_eq!(fs::read_to_string(lane.join("src/a.txt")).unwrap(), "a first line\na second line\n");
        assert_eq!(self.git(lane, &["status", "--porcelain", "--ignored"]), "");
        assert_eq!(self.git(lane, &["rev-parse", "--show-toplevel"]), lane.to_str().unwrap());
    }
}

/// One lane at leg end.
pub struct Swept<'w> {
    pub world: &'w World,
    pub request: SweepRequest,
}

impl World {
    /// Acquires the lane `api`, to be swept later.
    pub fn swept(&self) -> Swept<'_> {
        self.swept_on(NEW)
    }

    pub fn swept_on(&self, history: LaneHistory) -> Swept<'_> {
        self.acquire("api", history).unwrap();
        self.request_only()
    }

    /// The same without acquiring it.
    pub fn request_only(&self) -> Swept<'_> {
        let request = SweepRequest {
            run: RunId::from("r1"),
            lane: LaneName::from("api"),
            path: self.lanes.join("api"),
            branch: "omg/r1/api".into(),
            base: self.base(),
            branch_made_by_run: true,
            rescued: self.rescued(),
            policy: Policy::Safe,
            rebuildable: Vec::new(),
            provisioned: Vec::new(),
            overlay: Some(Vec::new()),
            ignored_is_needed: false,
            time: Duration::from_secs(60),
        };
        Swept { world: self, request }
    }

    pub fn rescued(&self) -> PathBuf {
        self.repo.parent().unwrap().join("run/rescued/api")
    }

    pub fn has(&self, name: &str) -> bool {
        self.try_git(&self.repo, &["rev-parse", "--verify", "--quiet", name]).0
    }

    /// Asserts that the rescue ref reaches `commit`.
    #[track_caller]
    pub fn assert_rescued(&self, commit: &str) {
        self.git(&self.repo, &["merge-base", "--is-ancestor", commit, RESCUED]);
    }
}

pub const RESCUED: &str = "refs/omg/rescued/r1/api";

impl Swept<'_> {
    pub fn path(&self) -> &Path {
        &self.request.path
    }

    pub fn git(&self, words: &[&str]) -> String {
        self.world.git(self.path(), words)
    }

    pub fn write(&self, name: &str, text: &str) {
        let file = self.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    pub fn sweep(&self) -> CleanupOutcome {
        let outcome = self.sweep_as(&self.world.environment());
        assert_eq!(outcome.channels.iter().map(|(name, _)| *name).collect::<Vec<_>>(), CHANNELS);
        outcome
    }

    pub fn sweep_as(&self, environment: &Environment) -> CleanupOutcome {
        GitSweeper::new(environment).sweep(&self.world.repository(), &self.request)
    }

    /// Sweeps, and asserts that all is kept for `reason`, that the next sweep says the same, that the
    /// lane is whole and unlocked, and that the channel `channel` says `kept`.
    #[track_caller]
    pub fn assert_kept(&self, reason: &str, channel: &str) -> CleanupOutcome {
        let before = listing(self.path());
        let outcome = self.sweep();
        assert_eq!((outcome.tree, outcome.branch), (TreeFate::Kept, BranchFate::Kept), "{outcome:?}");
        assert_eq!(outcome.reason, reason, "{outcome:?}");
        let note = outcome.note.as_deref().unwrap();
        assert!(note.contains(self.path().to_str().unwrap()) && !note.contains('\n'), "{note}");
        if !channel.is_empty() {
            assert_eq!(value(&outcome, channel), "kept", "{outcome:?}");
        }
        assert_eq!(listing(self.path()), before);
        assert_eq!(self.world.locked("api").filter(|reason| reason == "omg run r1"), None);
        assert_eq!(self.sweep(), outcome);
        outcome
    }

    /// The same where the tree is elsewhere before.
    #[track_caller]
    pub fn assert_kept_after(&self, reason: &str) {
        let outcome = self.sweep();
        assert_eq!((outcome.tree, outcome.reason.as_str()), (TreeFate::Kept, reason), "{outcome:?}");
        assert!(self.path().join(".git").exists());
    }

    /// Sweeps, and asserts that the tree is gone with all its traces.
    #[track_caller]
    pub fn assert_removed(&self, branch: BranchFate, reason: &str) -> CleanupOutcome {
        let outcome = self.sweep();
        assert_eq!((outcome.tree, outcome.branch), (TreeFate::Removed, branch), "{outcome:?}");
        assert_eq!(outcome.reason, reason, "{outcome:?}");
        let left: Vec<String> = fs::read_dir(&self.world.lanes)
            .unwrap()
            .map(|item| item.unwrap().file_name().into_string().unwrap())
            .filter(|name| !name.starts_with(".omg-lock-"))
            .collect();
        assert_eq!(left, Vec::<String>::new());
        assert_eq!(self.world.entries(), Vec::<String>::new());
        assert_eq!(self.world.has("refs/heads/omg/r1/api"), branch == BranchFate::Kept);
        outcome
    }
}

pub fn value<'o>(outcome: &'o CleanupOutcome, channel: &str) -> &'o str {
    &outcome.channels.iter().find(|(name, _)| *name == channel).unwrap().1
}

/// Every file below `folder` with its size, links not followed.
pub fn listing(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for item in fs::read_dir(folder).into_iter().flatten().flatten() {
            let metadata = item.metadata().unwrap();
            if metadata.is_dir() {
                open.push(item.path());
            } else {
                found.push((item.path(), metadata.len()));
            }
        }
    }
    found.sort();
    found
}
