//! The one builder of git command lines, and the few that every file here needs.
//!
//! Knows how git is called and how it fails; nothing of lanes. Locale, prompts and everything that
//! points git elsewhere are settled by [`Environment::for_git`].
#![expect(
    clippy::disallowed_methods,
    reason = "bounds the time of a git child; retries after a pause; probes a file system"
)]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::failpoint::{self, Point};
use crate::fence::Fence;
use crate::ids::CommitId;
use crate::process::environment::Environment;
use crate::process::spawn::{Input, ShortCommand, Stop, run};

/// Longest time of one git command. A checkout of a huge tree behind slow filters is the slow one.
const COMMAND_TIME: Duration = Duration::from_secs(3600);

/// How often a command is tried that loses against another process's `git worktree add`.
const RACE_TRIES: u32 = 8;

/// What a look forces over all configuration, so that none can hide a change.
const UNBLINDED: [&str; 8] = [
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.checkStat=default",
    "core.trustctime=true",
    "core.ignoreStat=false",
    "core.ignoreCase=false",
    "core.quotePath=false",
    "submodule.recurse=false",
];

/// Why a git command did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GitError {
    /// Git could not be started.
    #[error("git could not be started: {detail}")]
    NotStarted {
        /// The system's words.
        detail: String,
    },
    /// Its time was over.
    #[error("`git {command}` took too long and was ended")]
    TimedOut {
        /// The subcommand.
        command: String,
    },
    /// It ended with another status than 0.
    #[error("{}", said(command, *code, stderr))]
    Failed {
        /// The subcommand.
        command: String,
        /// Its exit status; `None` where a signal ended it.
        code: Option<i32>,
        /// Its own words.
        stderr: String,
    },
    /// It answered in a form that we do not read.
    #[error("`git {command}` answered in an unknown form: {detail}")]
    Unreadable {
        /// The subcommand.
        command: String,
        /// What was not understood.
        detail: String,
    },
}

fn said(command: &str, code: Option<i32>, stderr: &str) -> String {
    let code = code.map_or("a signal".to_string(), |code| format!("status {code}"));
    let words: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match words.join("; ") {
        words if words.is_empty() => format!("`git {command}` ended with {code} and said nothing"),
        words => format!("`git {command}` ended with {code}: {words}"),
    }
}

impl GitError {
    /// Returns git's own words, empty where it never spoke.
    pub fn words(&self) -> &str {
        match self {
            GitError::Failed { stderr, .. } => stderr.trim(),
            GitError::NotStarted { .. } | GitError::TimedOut { .. } | GitError::Unreadable { .. } => "",
        }
    }

    /// Returns whether the disk, or the user's share of it, was full.
    pub fn is_disk_full(&self) -> bool {
        let words = self.words();
        words.contains("No space left on device") || words.contains("Disk quota exceeded")
    }

    /// Returns whether git refuses a repository that another user owns, or a bare one that nobody
    /// named to it.
    pub fn is_unsafe_directory(&self) -> bool {
        let words = self.words();
        ["safe.directory", "dubious ownership", "safe.bareRepository"].iter().any(|sign| words.contains(sign))
    }

    /// Returns whether the repository asks for what this git does not know (setup.c).
    pub fn is_unknown_format(&self) -> bool {
        let words = self.words();
        ["unknown repository extension", "v1-only extension", "Expected git repo version"]
            .iter()
            .any(|sign| words.contains(sign))
    }

    /// Returns whether another process was amid its own `git worktree add`: git reads every
    /// worktree's folder, also a half-made one; or amid the deletion of a ref, which a walk of all refs
    /// takes for damage (measured with git 2.47, once in some thousand deletions).
    fn is_foreign_race(&self) -> bool {
        let words = self.words();
        words.contains("failed to read") && words.contains("commondir") || words.contains("bad object refs/")
    }
}

/// How git is called: its environment, and the moment at which patience ends.
#[derive(Clone, Debug)]
pub struct Git {
    environment: Environment,
    /// What a hook of the user's sees: their own locale, for one.
    hooks: Environment,
    until: Option<Instant>,
    stop: Option<Stop>,
    /// Asked before each command that changes something.
    fence: Fence,
    /// Whether the lane's file system keeps executable bits; `true` until somebody has looked.
    executable_bits: bool,
}

impl Git {
    /// Returns a caller of git for a process that was started with `environment`.
    pub fn new(environment: &Environment) -> Git {
        Git::passing(environment, &[])
    }

    /// Returns a caller of git whose children, hooks among them, see the variables in `pass` although
    /// they are scrubbed by default.
    pub fn passing(environment: &Environment, pass: &[String]) -> Git {
        Git {
            environment: environment.for_git(pass),
            hooks: environment.for_child(pass),
            until: None,
            stop: None,
            fence: Fence::default(),
            executable_bits: true,
        }
    }

    /// Returns this with `fence` asked right before each command that is no look.
    pub fn fenced(mut self, fence: Fence) -> Git {
        self.fence = fence;
        self
    }

    /// Asks the fence: for what changes a lane or a repository without git. Errors: the run was taken over.
    pub fn allowed(&self) -> io::Result<()> {
        self.fence.check().map_err(io::Error::other)
    }

    /// Returns this with every command ended where `stop` asks for it.
    pub fn stopped_by(mut self, stop: Stop) -> Git {
        self.stop = Some(stop);
        self
    }

    /// Returns this with every command ended at `until`.
    pub fn until(&self, until: Instant) -> Git {
        Git { until: Some(until), ..self.clone() }
    }

    /// Returns this for looks at the lane at `path`: where its file system keeps executable bits, a
    /// changed one is seen whatever the user's configuration says; where it does not, the configuration
    /// holds, or every lane would look edited.
    pub fn looking_at(&self, path: &Path) -> Git {
        // What cannot be found out is looked at strictly: that keeps more, and loses nothing.
        let executable_bits = super::lock::beside(path, ".omg-probe-")
            .and_then(|probe| keeps_executable_bits(&probe))
            .unwrap_or(true);
        Git { executable_bits, ..self.clone() }
    }

    /// Returns what its children see as the variable `name`.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.get(name)
    }

    /// Returns whether the time given by [`Git::until`] is over.
    pub fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Returns a command that works in `folder`, with `arguments` as its first.
    pub fn at<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, folder: &Path, arguments: I) -> Call {
        let call = Call {
            argv: vec!["git".into()],
            subcommand: String::new(),
            cwd: folder.to_path_buf(),
            environment: self.environment.clone(),
            stdin: Input::Nothing,
            until: self.until,
            stop: self.stop.clone(),
            fence: Some(self.fence.clone()),
            executable_bits: self.executable_bits,
        };
        call.args(arguments)
    }

    /// Returns the hook at `file`, to run in `lane`. By a shell, as git does with a script that names
    /// no interpreter; what it writes goes to standard error, as git lets it.
    pub fn hook(&self, file: &Path, lane: &Path) -> Call {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        Call {
            argv: ["sh", "-c", "exec \"$0\" \"$@\" >&2"]
                .into_iter()
                .map(OsString::from)
                .chain([file.into()])
                .collect(),
            subcommand: format!("hook {name}"),
            cwd: lane.to_path_buf(),
            environment: self.hooks.clone(),
            stdin: Input::Nothing,
            until: self.until,
            stop: self.stop.clone(),
            fence: Some(self.fence.clone()),
            executable_bits: self.executable_bits,
        }
    }

    /// Returns a command that works on the repository whose git folder is `git_dir`, without a
    /// working tree.
    pub fn inside<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, git_dir: &Path, arguments: I) -> Call {
        let mut call = self.at(git_dir, arguments);
        let mut option = OsString::from("--git-dir=");
        option.push(git_dir);
        call.argv.insert(1, option);
        call
    }
}

/// One git command line in the making.
#[derive(Debug)]
pub struct Call {
    argv: Vec<OsString>,
    subcommand: String,
    cwd: PathBuf,
    environment: Environment,
    stdin: Input,
    until: Option<Instant>,
    stop: Option<Stop>,
    /// `None` for a look.
    fence: Option<Fence>,
    executable_bits: bool,
}

impl Call {
    /// Returns this with one more argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Call {
        let argument = argument.as_ref();
        if self.subcommand.is_empty() && !argument.as_bytes().starts_with(b"-") {
            self.subcommand = argument.to_string_lossy().into_owned();
        }
        self.argv.push(argument.to_os_string());
        self
    }

    /// Returns this with more arguments.
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(self, arguments: I) -> Call {
        arguments.into_iter().fold(self, Call::arg)
    }

    /// Returns this with `key=value` over all configuration.
    pub fn config(mut self, setting: &str) -> Call {
        self.argv.splice(1..1, ["-c".into(), setting.into()]);
        self
    }

    /// Returns this with one more variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Call {
        self.environment.set(name, value);
        self
    }

    /// Returns this as a look: it takes no lock that it could do without, so it never makes
    /// another git fail, and fetches nothing that a partial clone lacks.
    pub fn reading(mut self) -> Call {
        self.fence = None;
        self.env("GIT_OPTIONAL_LOCKS", "0").env("GIT_NO_LAZY_FETCH", "1")
    }

    /// Returns this as a look that no configuration of the user's can blind.
    pub fn unblinded(self) -> Call {
        let bits = self.executable_bits.then_some("core.fileMode=true");
        UNBLINDED.into_iter().chain(bits).fold(self.reading(), Call::config)
    }

    /// Returns this with `bytes` to read.
    pub fn feed(mut self, bytes: Vec<u8>) -> Call {
        self.stdin = Input::Bytes(bytes);
        self
    }

    /// Returns this with `lock` as its standard input: the child holds it even when we die.
    pub fn holding(mut self, lock: File) -> Call {
        self.stdin = Input::File(lock);
        self
    }

    /// Runs it and returns what it wrote to its standard output.
    pub fn output(self) -> Result<Vec<u8>, GitError> {
        self.spoken().map(|(stdout, _)| stdout)
    }

    /// Runs it and returns its standard output as text without the line end.
    pub fn line(self) -> Result<String, GitError> {
        let bytes = self.output()?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_string())
    }

    /// Runs it and returns its standard output as a path without the line end.
    pub fn path(self) -> Result<PathBuf, GitError> {
        let mut bytes = self.output()?;
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        Ok(PathBuf::from(OsString::from_vec(bytes)))
    }

    /// Runs it and returns the commit id that it prints.
    pub fn commit(self) -> Result<CommitId, GitError> {
        let command = self.subcommand.clone();
        let line = self.line()?;
        CommitId::parse(&line).ok_or(GitError::Unreadable { command, detail: line })
    }

    /// Runs it and returns `true` for status 0 and `false` for status 1; all else is an error.
    pub fn asks(self) -> Result<bool, GitError> {
        match self.output() {
            Ok(_) => Ok(true),
            Err(GitError::Failed { code: Some(1), .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Runs it, and again a few times where only another process's half-made worktree, or half-deleted
    /// ref, was in the way. For commands whose failure changes nothing.
    pub fn output_despite_races(self) -> Result<Vec<u8>, GitError> {
        let mut pause = Duration::from_millis(20);
        for _ in 1..RACE_TRIES {
            let again = Call {
                argv: self.argv.clone(),
                subcommand: self.subcommand.clone(),
                cwd: self.cwd.clone(),
                environment: self.environment.clone(),
                stdin: match &self.stdin {
                    Input::Nothing => Input::Nothing,
                    Input::Bytes(bytes) => Input::Bytes(bytes.clone()),
                    Input::File(file) => file.try_clone().map_or(Input::Nothing, Input::File),
                },
                until: self.until,
                stop: self.stop.clone(),
                fence: self.fence.clone(),
                executable_bits: self.executable_bits,
            };
            match again.output() {
                Err(error) if error.is_foreign_race() => std::thread::sleep(pause),
                settled => return settled,
            }
            pause = (pause * 2).min(Duration::from_millis(300));
        }
        self.output()
    }

    /// Runs it and returns all it wrote: standard output and standard error.
    pub fn spoken(self) -> Result<(Vec<u8>, String), GitError> {
        if let Some(fence) = &self.fence {
            fence.check().map_err(|overtaken| GitError::NotStarted { detail: overtaken.to_string() })?;
            failpoint::at(Point::GitBefore);
        }
        let changes = self.fence.is_some();
        let left = self.until.map_or(COMMAND_TIME, |until| until.saturating_duration_since(Instant::now()));
        let outcome = run(ShortCommand {
            argv: self.argv,
            cwd: self.cwd,
            environment: self.environment,
            stdin: self.stdin,
            timeout: left.min(COMMAND_TIME),
            stop: self.stop,
        })
        .map_err(|error| GitError::NotStarted { detail: error.to_string() })?;
        if changes {
            failpoint::at(Point::GitAfter);
        }
        let stderr = String::from_utf8_lossy(&outcome.stderr).into_owned();
        match outcome {
            outcome if outcome.timed_out => Err(GitError::TimedOut { command: self.subcommand }),
            outcome if outcome.success() => Ok((outcome.stdout, stderr)),
            outcome => Err(GitError::Failed { command: self.subcommand, code: outcome.code, stderr }),
        }
    }
}

/// Returns whether the file system of `probe`, a name that is free, keeps executable bits: a new file
/// has none, and one that is set is there.
fn keeps_executable_bits(probe: &Path) -> io::Result<bool> {
    let executable = |file: &File| file.metadata().map(|found| found.permissions().mode() & 0o100 != 0);
    let _ = fs::remove_file(probe);
    let file = File::create_new(probe)?;
    let kept = (|| {
        let at_first = executable(&file)?;
        file.set_permissions(Permissions::from_mode(0o700))?;
        Ok(!at_first && executable(&file)?)
    })();
    let _ = fs::remove_file(probe);
    kept
}

/// Returns the items of a `-z` listing.
pub fn items(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|byte| *byte == 0).filter(|item| !item.is_empty())
}

/// Returns `bytes`, as git prints them with `-z`, as a path.
pub fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Returns the object name that means "no object", as long as `like`.
pub fn no_object(like: &CommitId) -> String {
    "0".repeat(like.as_str().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git() -> Git {
        Git::new(&Environment::from_iter([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("GIT_DIR", "/nowhere")]))
    }

    #[test]
    fn options_come_before_the_subcommand() {
        let call = git().inside(Path::new("/r"), ["status", "-z"]).config("core.fsmonitor=false").reading();
        let words: Vec<_> = call.argv.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(words, ["git", "-c", "core.fsmonitor=false", "--git-dir=/r", "status", "-z"]);
        assert_eq!(call.subcommand, "status");
        assert_eq!(call.environment.text("GIT_OPTIONAL_LOCKS"), Some("0"));
        assert_eq!(call.environment.text("LC_ALL"), Some("C"));
        assert_eq!(call.environment.get("GIT_DIR"), None);
    }

    #[test]
    fn executable_bits_are_looked_at_where_the_file_system_keeps_them() {
        let folder = tempfile::tempdir().unwrap();
        let probe = folder.path().join("probe");
        assert!(keeps_executable_bits(&probe).unwrap());
        assert!(keeps_executable_bits(&folder.path().join("none/probe")).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let forced = |git: &Git| {
            let call = git.at(Path::new("/"), ["status"]).unblinded();
            call.argv.iter().any(|word| word == "core.fileMode=true")
        };
        assert!(forced(&git()) && forced(&git().looking_at(&folder.path().join("none/lane"))));
        assert!(!forced(&Git { executable_bits: false, ..git() }));
    }

    #[test]
    fn a_failure_carries_gits_own_words() {
        let error = git().at(Path::new("/"), ["rev-parse", "--verify", "no-such"]).line().unwrap_err();
        assert!(error.to_string().starts_with("`git rev-parse` ended with status 128: fatal:"), "{error}");
    }

    #[test]
    fn time_over_is_its_own_error() {
        let git = git().until(Instant::now());
        assert!(git.is_over());
        let error = git.at(Path::new("/"), ["x"]).config("alias.x=!sleep 600").line().unwrap_err();
        assert_eq!(error, GitError::TimedOut { command: "x".into() });
    }

    #[test]
    fn errors_are_told_apart_by_what_they_need() {
        let failed =
            |stderr: &str| GitError::Failed { command: "x".into(), code: Some(128), stderr: stderr.into() };
        assert!(failed("error: unable to write file f: No space left on device").is_disk_full());
        assert!(failed("fatal: detected dubious ownership in repository at '/r'").is_unsafe_directory());
        assert!(failed("fatal: unknown repository extension found:\n\tx").is_unknown_format());
        assert!(failed("fatal: Expected git repo version <= 1, found 9").is_unknown_format());
        assert!(failed("fatal: failed to read /r/worktrees/a/commondir: Success").is_foreign_race());
        assert!(failed("fatal: bad object refs/heads/omg/r1/a").is_foreign_race());
        assert!(!failed("fatal: not a git repository").is_foreign_race());
    }
}
