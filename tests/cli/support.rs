//! A world for one test: a home, a repository, and nothing of this machine's configuration.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

/// Longest time that anything awaited may take.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Seconds after which a command that does not end is a fault.
const TIMEOUT: &str = "120";

pub struct World {
    folder: tempfile::TempDir,
    pub extra: Vec<(OsString, OsString)>,
}

/// A runner on its way. Killed when the test is over, also where it fails, and its nodes with it.
pub struct Running(Child);

impl Running {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn wait(&mut self) -> std::io::Result<std::process::ExitStatus> {
        self.0.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    #[track_caller]
    pub fn expect(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

impl World {
    /// A world without a repository.
    pub fn bare() -> World {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("repo")).unwrap();
        fs::create_dir(folder.path().join("bin")).unwrap();
        let config = "[user]\n name = t\n email = t@example.invalid\n[init]\n defaultBranch = main\n";
        fs::write(folder.path().join("gitconfig"), config).unwrap();
        World { folder, extra: Vec::new() }
    }

    /// A world with a repository of one commit.
    pub fn new() -> World {
        World::with(&[("a.txt", "one\n")])
    }

    /// A world with a repository whose one commit has these files.
    pub fn with(files: &[(&str, &str)]) -> World {
        let world = World::bare();
        world.git("init -q .");
        for (name, text) in files {
            world.write(name, text);
        }
        world.git("add -A");
        world.git("commit -q -m base");
        world
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn repo(&self) -> PathBuf {
        self.path().join("repo")
    }

    pub fn home(&self) -> PathBuf {
        self.path().join("home")
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.repo().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Puts a program of ours on the PATH, before the system's.
    pub fn tool(&self, name: &str, script: &str) {
        let path = self.path().join("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let system = std::env::var("PATH").unwrap();
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", format!("{}:{system}", self.path().join("bin").display()))
            .env("HOME", self.path())
            .env("OMG_HOME", self.home())
            .env("GIT_CONFIG_GLOBAL", self.path().join("gitconfig"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(self.extra.iter().map(|(name, value)| (name, value)))
            .current_dir(self.repo())
            .stdin(Stdio::null());
        command
    }

    pub fn omg(&self, words: &[&str]) -> Ended {
        let mut command = self.command("timeout");
        command.args(["--kill-after=5", TIMEOUT, env!("CARGO_BIN_EXE_omg")]).args(words);
        let ended: Ended = command.output().unwrap().into();
        assert_ne!(ended.code, Some(124), "omg {words:?} does not end: {}", ended.stderr);
        ended
    }

    /// Starts omg and leaves it running, its output in files.
    pub fn start(&self, words: &[&str]) -> Running {
        self.start_with(env!("CARGO_BIN_EXE_omg"), words)
    }

    /// Starts a program that becomes omg.
    pub fn start_with(&self, program: &str, words: &[&str]) -> Running {
        let out = fs::File::create(self.path().join("stdout")).unwrap();
        let err = fs::File::create(self.path().join("stderr")).unwrap();
        Running(self.command(program).args(words).stdout(out).stderr(err).spawn().unwrap())
    }

    pub fn graph(&self, text: &str) -> String {
        let path = self.path().join("g.yaml");
        fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Runs a graph as `r1`.
    pub fn run(&self, text: &str) -> Ended {
        self.run_with(text, &[])
    }

    pub fn run_with(&self, text: &str, words: &[&str]) -> Ended {
        let graph = self.graph(text);
        self.omg(&[&["run", &graph, "--run-id", "r1"], words].concat())
    }

    pub fn git(&self, line: &str) -> String {
        self.shell(&format!("git {line}"))
    }

    #[track_caller]
    pub fn shell(&self, line: &str) -> String {
        let output = self.command("sh").args(["-c", line]).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_string()
    }

    pub fn run_dir(&self) -> PathBuf {
        self.home().join("runs/r1")
    }

    pub fn lane(&self, name: &str) -> PathBuf {
        self.run_dir().join("worktrees").join(name)
    }

    pub fn show(&self) -> Value {
        serde_json::from_str(&self.omg(&["show", "r1", "--json"]).expect(0).stdout).unwrap()
    }

    pub fn node(&self, id: &str) -> Value {
        let view = self.show();
        let nodes = view["nodes"].as_array().unwrap();
        nodes.iter().find(|node| node["id"] == id).unwrap_or_else(|| panic!("no node {id}")).clone()
    }

    pub fn state(&self, id: &str) -> String {
        self.node(id)["state"].as_str().unwrap().to_string()
    }

    pub fn class(&self, id: &str) -> String {
        self.node(id)["fault"]["class"].as_str().unwrap_or_default().to_string()
    }

    pub fn lane_view(&self, name: &str) -> Value {
        let view = self.show();
        let lanes = view["lanes"].as_array().unwrap();
        lanes.iter().find(|lane| lane["name"] == name).unwrap_or_else(|| panic!("no lane {name}")).clone()
    }

    pub fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.run_dir().join("events.jsonl")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    pub fn event_names(&self) -> Vec<String> {
        self.events().iter().map(|event| event["event"].as_str().unwrap().to_string()).collect()
    }

    pub fn events_named(&self, name: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["event"] == name).collect()
    }

    pub fn branches(&self) -> Vec<String> {
        let listed = self.git("for-each-ref --format='%(refname:short)' refs/heads");
        listed.lines().map(str::to_string).collect()
    }

    pub fn result(&self, id: &str) -> String {
        fs::read_to_string(self.node(id)["result"].as_str().unwrap()).unwrap()
    }

    /// Returns once `holds` does: looks at the world again whenever the scheduler lets others run.
    #[track_caller]
    pub fn wait_for(&self, what: &str, holds: impl Fn() -> bool) {
        let start = std::time::Instant::now();
        while !holds() {
            assert!(start.elapsed() < PATIENCE, "{what} did not come about");
            std::thread::yield_now();
        }
    }

    /// Waits until a node's process was seen to run.
    #[track_caller]
    pub fn wait_started(&self, id: &str) {
        self.wait_for(&format!("the start of {id}"), || {
            self.events().iter().any(|event| event["event"] == "node.started" && event["node"] == id)
        });
    }

    /// Waits for a file.
    #[track_caller]
    pub fn wait_file(&self, path: &Path) {
        self.wait_for(&format!("{}", path.display()), || path.exists());
    }

    /// Living processes of this world whose command line begins with `text`: what another test's world, or
    /// another run of the same test, started is not among them.
    pub fn alive(&self, text: &str) -> Vec<u32> {
        let mark = format!("OMG_RUN_DIR={}/", self.path().display());
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let variables = fs::read(entry.path().join("environ")).unwrap_or_default();
            let ours = variables.split(|byte| *byte == 0).any(|pair| pair.starts_with(mark.as_bytes()));
            if line.starts_with(text) && ours {
                found.push(pid);
            }
        }
        found
    }
}

/// Sends a signal to a process of ours.
pub fn signal(runner: &Running, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(runner.0.id() as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
