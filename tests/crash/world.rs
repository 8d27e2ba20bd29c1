//! A repository, a graph whose nodes keep books of what they did, and a run of it that is struck.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Longest time of one command.
const PATIENCE: Duration = Duration::from_secs(90);
/// Most legs that a struck run may need.
const LEGS: usize = 6;

const GRAPH: &str = "name: crash\n\
    provision: {command: 'mkdir -p node_modules/p; sleep 0.05; echo $OMG_LANE > node_modules/p/index.js'}\n\
    overlay: [.env]\n\
    runtime: stand-in\n\
    runtimes: {stand-in: {command: [agent], result: 'json:/result'}}\n\
    nodes:\n\
    - {id: one, worktree: commits, run: work commit}\n\
    - {id: two, worktree: commits, run: work commit, depends_on: [one]}\n\
    - {id: dirt, worktree: dirty, run: work dirty}\n\
    - {id: hidden, worktree: ignored, run: work ignored}\n\
    - {id: uses, worktree: ignored, run: work uses, depends_on: [hidden]}\n\
    - {id: nothing, worktree: clean, run: work clean}\n\
    - {id: plain, run: work clean}\n\
    - {id: check, run: work clean, depends_on: [plain], success_check: {verify: {command: 'sleep 0.05'}}}\n\
    - {id: impl, worktree: agents, prompt: commit}\n\
    - {id: review, worktree: agents, access: read, prompt: look, depends_on: [impl], \
         success_check: {result_matches: APPROVE}, feedback: {rerun: impl, max: 3}}\n\
    - {id: tail, run: work clean, depends_on: [two, dirt, uses, nothing, check, review]}\n";

/// What a node does. It says in the ledger what it has made, once it is there.
const WORK: &str = r#"say() { printf '%s %s %s %s\n' "$1" "$OMG_NODE" "$OMG_JOB" "$2" >> "$LEDGER"; }
say begin -
sleep 0.05
case $1 in
commit) echo "$OMG_JOB" > "c-$OMG_JOB" && git add "c-$OMG_JOB" && git commit -q -m "$OMG_JOB" && say commit "$(git rev-parse HEAD)";;
dirty) echo "$OMG_JOB" > "u-$OMG_JOB"; say file "u-$OMG_JOB"; echo "$OMG_JOB" >> a.txt;;
ignored) mkdir -p out; echo "$OMG_JOB" > "out/i-$OMG_JOB"; say file "out/i-$OMG_JOB";;
uses) ls out/i-* || exit 1;;
esac
sleep 0.05
say end -
"#;

/// What an agent costs, in dollars.
pub const COST: f64 = 0.01;

/// A stand-in for an agent: it does what it is asked, and tells what that cost. A review sends the first commit back.
const AGENT: &str = r#"ask=$(head -n 1)
work "$ask"
reply=done
if [ "$ask" = look ]; then
  reply=APPROVE
  if [ "$(git rev-list --count "$OMG_BASE..HEAD")" -lt 2 ]; then reply=REJECT; fi
fi
printf '{"result":"%s","session_id":"s","total_cost_usd":0.01}\n' "$reply"
"#;

/// How the run is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Foreground,
    Detached,
}

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// Whoever comes to the place; at a time, the runner.
    Runner,
    Supervisor,
    Both,
    /// And everything else of the run, nodes and git: as the end of a container or the loss of power does.
    All,
}

/// When.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    After(Duration),
    Point { name: String, time: u32, both: bool },
}

/// One kill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blow {
    pub mode: Mode,
    pub victim: Victim,
    pub at: Moment,
    /// Of what follows: whether a resume is struck too, and when.
    pub seed: u64,
}

/// What a run comes to that nobody kills.
pub struct Baseline {
    pub took: Duration,
    /// Places, and how often a run comes to each.
    pub points: BTreeMap<String, u32>,
}

pub struct World {
    folder: Option<tempfile::TempDir>,
    root: PathBuf,
}

pub fn baseline() -> Baseline {
    let world = World::new();
    let list = world.root.join("list");
    let start = Instant::now();
    let mut run = world.omg(&["run", "g.yaml", "--run-id", "r1"]);
    run.env("FAILPOINT", format!("list@0@{}", list.display()));
    let code = wait(&mut run.spawn().expect("omg starts")).expect("it ends");
    let took = start.elapsed();
    assert_eq!(code, Some(0), "{}", world.log());
    let complaints = crate::oracle::judge(&world, false);
    assert!(complaints.is_empty(), "the oracle finds fault with a run that nobody killed: {complaints:?}");
    let mut points = BTreeMap::new();
    for line in fs::read_to_string(list).expect("places").lines() {
        *points.entry(line.to_string()).or_default() += 1;
    }
    Baseline { took, points }
}

impl World {
    pub fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("its path");
        let world = World { folder: Some(folder), root };
        fs::create_dir(world.repo()).expect("a folder");
        fs::create_dir(world.root.join("bin")).expect("a folder");
        for (name, script) in [("work", WORK), ("agent", AGENT)] {
            let program = world.root.join("bin").join(name);
            fs::write(&program, format!("#!/bin/sh\n{script}")).expect("a program");
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
        }
        let config = "[user]\n name = t\n email = t@example.invalid\n[init]\n defaultBranch = main\n[gc]\n auto = 0\n[maintenance]\n auto = false\n";
        fs::write(world.root.join("gitconfig"), config).expect("a configuration");
        for (name, text) in [("a.txt", "one\n"), (".gitignore", "node_modules/\nout/\n"), ("g.yaml", GRAPH)] {
            fs::write(world.repo().join(name), text).expect("a file");
        }
        world.git(&["init", "-q", "."]);
        world.git(&["add", "-A"]);
        world.git(&["commit", "-q", "-m", "base"]);
        fs::write(world.repo().join(".env"), "SECRET=1\n").expect("a file");
        world
    }

    /// Leaves the world on the disk, to be looked at.
    pub fn keep(mut self) -> PathBuf {
        self.folder.take().map_or_else(|| self.root.clone(), tempfile::TempDir::keep)
    }

    pub fn repo(&self) -> PathBuf {
        self.root.join("repo")
    }

    pub fn run_dir(&self) -> PathBuf {
        self.root.join("home/runs/r1")
    }

    pub fn lane(&self, name: &str) -> PathBuf {
        self.run_dir().join("worktrees").join(name)
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.root.join("log")).unwrap_or_default()
    }

    /// Lines of the nodes' own books: word, node, job, what.
    pub fn ledger(&self) -> Vec<[String; 4]> {
        let text = fs::read_to_string(self.root.join("ledger")).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.split(' ').map(str::to_string).collect::<Vec<_>>().try_into().ok())
            .collect()
    }

    pub fn command(&self, program: &str) -> Command {
        let path = std::env::var("PATH").expect("a PATH");
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", format!("{}:{path}", self.root.join("bin").display()))
            .env("HOME", &self.root)
            .env("OMG_HOME", self.root.join("home"))
            .env("LEDGER", self.root.join("ledger"))
            .env("GIT_CONFIG_GLOBAL", self.root.join("gitconfig"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(self.repo())
            .stdin(Stdio::null());
        command
    }

    pub fn git(&self, words: &[&str]) -> String {
        self.git_in(&self.repo(), words).unwrap_or_else(|error| panic!("git {words:?}: {error}"))
    }

    pub fn git_in(&self, folder: &Path, words: &[&str]) -> Result<String, String> {
        let output = self.command("git").args(words).current_dir(folder).output().expect("git starts");
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_string()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn omg(&self, words: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_omg"));
        let log =
            fs::OpenOptions::new().create(true).append(true).open(self.root.join("log")).expect("a log");
        command.args(words).stdout(log.try_clone().expect("a log")).stderr(log);
        command
    }

    /// Runs the graph, strikes it, and resumes it until it is over. Returns whether the blow fell before that.
    pub fn strike(&self, blow: &Blow) -> Result<bool, String> {
        let mark = self.root.join("struck");
        let mut run = self.omg(&["run", "g.yaml", "--run-id", "r1"]);
        if blow.mode == Mode::Detached {
            run.arg("--detach");
        }
        if let Moment::Point { name, time, both } = &blow.at {
            let end = if *both { "@both" } else { "" };
            run.env("FAILPOINT", format!("{name}@{time}@{}{end}", mark.display()));
        }
        let mut child = run.spawn().expect("omg starts");
        let mut struck = false;
        if let Moment::After(time) = blow.at {
            pass(time);
            struck = self.kill(blow, &child);
        }
        let mut code = wait(&mut child)?;
        if blow.mode == Mode::Detached {
            code = self.settled()?;
        }
        struck |= mark.exists();
        let mut seed = blow.seed;
        for _ in 0..LEGS {
            if code == Some(0) {
                return Ok(struck);
            }
            let words: &[&str] = match self.run_dir().join("run.json").exists() {
                true => &["resume", "r1"],
                // It was killed before there was a run.
                false => &["run", "g.yaml", "--run-id", "r1"],
            };
            if seed.is_multiple_of(3) && self.run_dir().join("run.json").exists() {
                let mut gc = self.omg(&["gc"]).spawn().expect("omg starts");
                let code = wait(&mut gc)?;
                if code != Some(0) {
                    return Err(format!("gc ends with {code:?}: {}", self.log()));
                }
            }
            let mut child = self.omg(words).spawn().expect("omg starts");
            seed = seed.rotate_left(17).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if seed.is_multiple_of(4) {
                pass(Duration::from_millis(seed >> 8 & 0x1ff));
                let _ = child.kill();
            }
            code = wait(&mut child)?;
        }
        Err(format!("it is not over after {LEGS} legs, code {code:?}: {}", self.log()))
    }

    /// Kills who is to be killed. Returns whether anybody was there.
    fn kill(&self, blow: &Blow, child: &Child) -> bool {
        let named = |file: &str| -> Option<i32> {
            fs::read_to_string(self.run_dir().join(file)).ok()?.split(' ').next()?.trim().parse().ok()
        };
        let runner = match blow.mode {
            Mode::Foreground => Some(child.id() as i32),
            Mode::Detached => named("run.lock"),
        };
        let supervisor = named("supervisor.lock");
        let marked = if blow.victim == Victim::All { self.of_run() } else { Vec::new() };
        let victims: Vec<i32> = match blow.victim {
            Victim::Runner => runner.into_iter().collect(),
            Victim::Supervisor => supervisor.into_iter().collect(),
            Victim::Both => runner.into_iter().chain(supervisor).collect(),
            Victim::All => runner.into_iter().chain(supervisor).chain(marked.iter().copied()).collect(),
        };
        let kill = |pid: &i32| {
            // A number of before may be another's by now.
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let is_ours = line.contains("omg") || marked.contains(pid);
            is_ours && Pid::from_raw(*pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
        };
        victims.iter().filter(|pid| kill(pid)).count() > 0
    }

    /// Processes that carry the mark of the run.
    fn of_run(&self) -> Vec<i32> {
        let mark = format!("OMG_RUN_DIR={}", self.run_dir().display());
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            variables.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes())
        })
        .collect()
    }

    /// Waits until nobody holds the detached run. Returns the code that it would have ended with, where it is over.
    fn settled(&self) -> Result<Option<i32>, String> {
        if !self.run_dir().join("run.json").exists() {
            return Ok(None);
        }
        let mut watch = self.omg(&["watch", "r1"]).spawn().expect("omg starts");
        wait(&mut watch)
    }
}

/// Waits for the end of a command. Returns its status; `None` where a signal ended it.
fn wait(child: &mut Child) -> Result<Option<i32>, String> {
    let start = Instant::now();
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => return Ok(status.code()),
            None if start.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it does not end within {} s", PATIENCE.as_secs()));
            }
            None => pass(Duration::from_millis(5)),
        }
    }
}

/// Lets time pass: it is what is tried.
fn pass(time: Duration) {
    let (_never, comes) = mpsc::channel::<()>();
    let _ = comes.recv_timeout(time);
}
