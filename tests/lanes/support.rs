//! A repository in a folder of its own, and the words in which the tests speak of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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
        fs::write(real.join("home/gitconfig"), "[user]\n\tname = t\n\temail = t@example.com\n").unwrap();
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
