//! The only file that starts a process.
//!
//! Every child leads a process group of its own, so that ending it can mean ending its group, and
//! reads nothing unless told to. Who is started, and when, is decided elsewhere.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the one place where processes start; it waits on them with a deadline"
)]

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::environment::Environment;

/// A command that is run to its end while the caller waits.
#[derive(Debug)]
pub struct ShortCommand {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// All it sees.
    pub environment: Environment,
    /// What it reads.
    pub stdin: Input,
    /// Longest time; then its group is killed.
    pub timeout: Duration,
    /// Ends it early, where somebody may.
    pub stop: Option<Stop>,
}

/// Ends commands that are being waited for: TERM first, KILL where hurried or where TERM does not help.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicU8>);

impl Stop {
    /// Asks every command that has this to end; without grace where `now`.
    pub fn ask(&self, now: bool) {
        self.0.fetch_max(if now { 2 } else { 1 }, Ordering::Relaxed);
    }

    /// Returns whether the end was asked for, and whether at once.
    fn asked(&self) -> Option<bool> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(false),
            _ => Some(true),
        }
    }
}

/// How often a [`Stop`] is looked at.
const STOP_TICK: Duration = Duration::from_millis(20);
/// Time between TERM and KILL of a command that is stopped: git mostly takes its lock files away on TERM.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// What a child reads.
#[derive(Debug)]
pub enum Input {
    /// Nothing.
    Nothing,
    /// These bytes.
    Bytes(Vec<u8>),
    /// An open file. Besides being read, it lives in the child: a lock on it outlives us.
    File(File),
}

/// How a [`ShortCommand`] ended.
#[derive(Debug)]
pub struct ShortOutcome {
    /// The exit status; `None` where a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether we ended it, because its time was over or its stop was asked for.
    pub timed_out: bool,
    /// All it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// All it wrote to its standard error.
    pub stderr: Vec<u8>,
}

impl ShortOutcome {
    /// Returns whether it ended by itself with status 0.
    pub fn success(&self) -> bool {
        self.code == Some(0) && !self.timed_out
    }
}

/// Runs `command` and returns how it ended, with all it wrote.
///
/// Output goes to anonymous files, so a grandchild that keeps them open delays nothing and nothing
/// can fill a pipe. Errors: it could not be started, or waiting failed.
pub fn run(command: ShortCommand) -> io::Result<ShortOutcome> {
    let (mut stdout, mut stderr) = (scratch()?, scratch()?);
    let mut builder = builder(&command.argv, &command.cwd, &command.environment)?;
    builder.stdin(match command.stdin {
        Input::Nothing => Stdio::null(),
        Input::File(file) => Stdio::from(file),
        Input::Bytes(bytes) => {
            let mut file = scratch()?;
            file.write_all(&bytes)?;
            file.seek(SeekFrom::Start(0))?;
            Stdio::from(file)
        }
    });
    builder.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let mut child = builder.spawn()?;
    drop(builder);
    let (status, timed_out) = wait_stoppable(&mut child, command.timeout, command.stop.as_ref())?;
    Ok(ShortOutcome {
        code: status.code(),
        signal: status.signal(),
        timed_out,
        stdout: contents(&mut stdout)?,
        stderr: contents(&mut stderr)?,
    })
}

/// Waits for the child's end, its time or its stop. Returns how it ended and whether we ended it.
fn wait_stoppable(
    child: &mut Child,
    timeout: Duration,
    stop: Option<&Stop>,
) -> io::Result<(std::process::ExitStatus, bool)> {
    let mut deadline = Instant::now() + timeout;
    let mut stopped = false;
    loop {
        let next = match stop {
            Some(_) => deadline.min(Instant::now() + STOP_TICK),
            None => deadline,
        };
        if let Some(status) = wait_until(child, next)? {
            return Ok((status, stopped));
        }
        match stop.and_then(Stop::asked) {
            Some(false) if !stopped => {
                end_group(child.id(), Signal::TERM);
                deadline = deadline.min(Instant::now() + STOP_GRACE);
                stopped = true;
            }
            Some(true) => deadline = Instant::now(),
            Some(false) | None => {}
        }
        if Instant::now() >= deadline {
            end_group(child.id(), Signal::KILL);
            return Ok((child.wait()?, true));
        }
    }
}

fn builder(argv: &[OsString], cwd: &Path, environment: &Environment) -> io::Result<Command> {
    let mut command = ungrouped(argv, cwd, environment)?;
    command.process_group(0);
    Ok(command)
}

fn ungrouped(argv: &[OsString], cwd: &Path, environment: &Environment) -> io::Result<Command> {
    let (program, arguments) =
        argv.split_first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "an empty command"))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(cwd).env_clear().envs(&environment.0);
    Ok(command)
}

/// A process that is started and watched by others.
#[derive(Debug)]
pub struct Started {
    /// Its id; it leads a process group of that number.
    pub pid: u32,
    /// Its standard output.
    pub stdout: io::PipeReader,
    /// Its standard error.
    pub stderr: io::PipeReader,
}

/// Starts a process that dies with this one and whose end the caller reaps by itself; it leads its own
/// process group and reads a file, or nothing.
///
/// The caller's thread has to live as long as the process (prctl(2), PR_SET_PDEATHSIG). On return the
/// process has become its program. Errors: it could not; nothing of it ran.
#[cfg(target_os = "linux")]
pub fn start_bound(launch: &Launch<'_>, disk: &Disk) -> io::Result<Started> {
    let (stdout, stdout_end) = io::pipe()?;
    let (stderr, stderr_end) = io::pipe()?;
    let stdin = File::open(launch.stdin.unwrap_or(Path::new("/dev/null")))?;
    let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(io::Error::from);
    let pair = |(name, value): (&OsString, &OsString)| text(&[&**name, &**value].join(OsStr::new("=")));
    let path = launch.environment.get("PATH").unwrap_or(OsStr::new(DEFAULT_PATH));
    let program = find(launch, path, disk).ok_or(io::ErrorKind::NotFound)?;
    let plan = super::birth::Plan {
        program: text(program.as_os_str())?,
        argv: launch.argv.iter().map(|word| text(word)).collect::<io::Result<_>>()?,
        environment: launch.environment.0.iter().map(pair).collect::<io::Result<_>>()?,
        cwd: text(launch.cwd.as_os_str())?,
        streams: [stdin.as_fd(), stdout_end.as_fd(), stderr_end.as_fd()],
    };
    let pid = super::birth::start(&plan)?;
    Ok(Started { pid, stdout, stderr })
}

/// As on Linux, but for the death signal, which there is not: what survives is found by its mark.
#[cfg(not(target_os = "linux"))]
pub fn start_bound(launch: &Launch<'_>, disk: &Disk) -> io::Result<Started> {
    let (stdout, stdout_end) = io::pipe()?;
    let (stderr, stderr_end) = io::pipe()?;
    let path = launch.environment.get("PATH").unwrap_or(OsStr::new(DEFAULT_PATH));
    let program = find(launch, path, disk).ok_or(io::ErrorKind::NotFound)?;
    let mut argv = launch.argv.to_vec();
    let name = std::mem::replace(argv.first_mut().ok_or(io::ErrorKind::InvalidInput)?, program.into());
    let mut command = builder(&argv, launch.cwd, launch.environment)?;
    let stdin = File::open(launch.stdin.unwrap_or(Path::new("/dev/null")))?;
    command.arg0(name).stdin(stdin).stdout(stdout_end).stderr(stderr_end);
    Ok(Started { pid: command.spawn()?.id(), stdout, stderr })
}

/// A process to start.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The program, by path or looked for in the environment's `PATH`.
    pub program: &'a OsStr,
    /// What it is told it was called as, and its arguments.
    pub argv: &'a [OsString],
    /// The file that is its standard input; nothing where there is none.
    pub stdin: Option<&'a Path>,
    /// Where it runs.
    pub cwd: &'a Path,
    /// All it sees.
    pub environment: &'a Environment,
}

/// Returns where a launch's program is.
fn find(launch: &Launch<'_>, path: &OsStr, disk: &Disk) -> Option<PathBuf> {
    use super::direct::{Files, look_up};
    if launch.program == "sh" {
        return Some(disk.shell(path, launch.cwd)?.path);
    }
    look_up(launch.program, path, launch.cwd, disk)
}

/// Where programs are looked for by who has no `PATH`: execvp(3).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The real files that [`direct`](super::direct) asks about. Where `sh` is for a `PATH` is remembered: every job
/// asks, and one that puts another `sh` before it while its run goes on is not heeded.
#[derive(Debug, Default)]
pub struct Disk {
    shell: std::cell::RefCell<Option<(OsString, super::direct::Shell)>>,
}

impl super::direct::Files for Disk {
    fn is_program(&self, path: &Path) -> bool {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    }

    fn real_path(&self, path: &Path) -> Option<PathBuf> {
        std::fs::canonicalize(path).ok()
    }

    fn shell(&self, path: &OsStr, cwd: &Path) -> Option<super::direct::Shell> {
        if let Some((known, shell)) = &*self.shell.borrow()
            && known == path
            && shell.path.is_absolute()
        {
            return Some(shell.clone());
        }
        let found = super::direct::Shell::found(path, cwd, self)?;
        *self.shell.borrow_mut() = Some((path.to_os_string(), found.clone()));
        Some(found)
    }

    fn is_same_folder(&self, one: &Path, other: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let identity = |path: &Path| std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
        identity(one).is_some_and(|one| Some(one) == identity(other))
    }
}

/// Starts `PROGRAM __supervise RUN_DIR` with `lifeline` as its standard input and `log` for its words.
///
/// It is in our process group until it has made a session of its own: the leader of a group can't (setsid(2)).
/// Errors: it could not be started. Returns its id; nobody waits for it, it outlives us if need be.
pub fn start_supervisor(
    program: &Path,
    run_dir: &Path,
    lifeline: OwnedFd,
    log: File,
    environment: &Environment,
) -> io::Result<Child> {
    let argv = [program.as_os_str().to_owned(), "__supervise".into(), run_dir.as_os_str().to_owned()];
    let mut command = ungrouped(&argv, run_dir, environment)?;
    command.arg0("omg").stdin(Stdio::from(lifeline)).stdout(Stdio::null()).stderr(log);
    command.spawn()
}

/// Starts `PROGRAM WORDS…` as a process that is no job and outlives whoever starts it, if need be: a supervisor
/// that keeps a detached run, or a runner of one. `line` is its standard input, `lock` its standard output: it
/// holds the run's lock with it. Where `leads`, it leads a process group; one that is to make a session of its own
/// can't (setsid(2)).
///
/// Errors: it could not be started. Returns its id; nobody waits for it here.
pub fn start_keeping(
    program: &Path,
    words: &[OsString],
    cwd: &Path,
    (line, lock, log): (OwnedFd, File, File),
    environment: &Environment,
    leads: bool,
) -> io::Result<Child> {
    let argv: Vec<OsString> =
        [program.as_os_str().to_owned()].into_iter().chain(words.iter().cloned()).collect();
    let mut command = ungrouped(&argv, cwd, environment)?;
    if leads {
        command.process_group(0);
    }
    command.arg0("omg").stdin(Stdio::from(line)).stdout(lock).stderr(log);
    command.spawn()
}

/// Returns the path under which this very program can be started again, also where its file has
/// been replaced since.
pub fn own_program() -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        std::env::current_exe().unwrap_or_else(|_| PathBuf::from("omg"))
    }
}

/// Sends `signal` to the process group that `leader` leads. A group that is gone is no error.
pub fn end_group(leader: u32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(leader as i32) {
        let _ = kill_process_group(pid, signal);
    }
}

/// Returns a file without a name.
fn scratch() -> io::Result<File> {
    #[cfg(target_os = "linux")]
    {
        let fd: OwnedFd = rustix::fs::memfd_create("omg", rustix::fs::MemfdFlags::CLOEXEC)?;
        Ok(File::from(fd))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let path = std::env::temp_dir().join(format!("omg-{}-{:p}", std::process::id(), &0));
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    }
}

fn contents(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Waits for the child's end, or returns `None` at `deadline`.
fn wait_until(child: &mut Child, deadline: Instant) -> io::Result<Option<std::process::ExitStatus>> {
    #[cfg(target_os = "linux")]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let pid = Pid::from_raw(child.id() as i32).ok_or(io::ErrorKind::InvalidInput)?;
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => return Ok(None),
                Ok(_) => return child.wait().map(Some),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(line: &str, stdin: Input, timeout: Duration) -> ShortOutcome {
        run(ShortCommand {
            argv: ["sh", "-c", line].map(OsString::from).to_vec(),
            cwd: PathBuf::from("/"),
            environment: Environment::from_iter([("PATH", "/usr/bin:/bin")]),
            stdin,
            timeout,
            stop: None,
        })
        .unwrap()
    }

    #[test]
    fn output_and_status_come_back() {
        let outcome = sh("cat; echo err >&2; exit 3", Input::Bytes(b"in".to_vec()), Duration::from_secs(60));
        assert_eq!(
            (outcome.code, outcome.stdout.as_slice(), outcome.stderr.as_slice()),
            (Some(3), &b"in"[..], &b"err\n"[..])
        );
    }

    #[test]
    fn a_grandchild_that_keeps_the_output_open_delays_nothing() {
        let outcome = sh("sleep 600 & echo $!", Input::Nothing, Duration::from_secs(60));
        assert!(outcome.success());
        let pid: i32 = String::from_utf8(outcome.stdout).unwrap().trim().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }

    #[test]
    fn time_over_ends_the_group() {
        let outcome = sh("sleep 600", Input::Nothing, Duration::from_millis(50));
        assert!(outcome.timed_out && !outcome.success());
    }

    #[test]
    fn a_stop_ends_it_by_term_and_hurried_by_kill() {
        for (line, now) in [("sleep 600", false), ("trap '' TERM; sleep 600; sleep 600", true)] {
            let stop = Stop::default();
            stop.ask(now);
            let outcome = run(ShortCommand {
                argv: ["sh", "-c", line].map(OsString::from).to_vec(),
                cwd: PathBuf::from("/"),
                environment: Environment::from_iter([("PATH", "/usr/bin:/bin")]),
                stdin: Input::Nothing,
                timeout: Duration::from_secs(600),
                stop: Some(stop),
            })
            .unwrap();
            assert!(outcome.timed_out && !outcome.success());
        }
    }

    #[test]
    fn what_cannot_start_is_an_error() {
        let error = run(ShortCommand {
            argv: vec!["/nonexistent/omg".into()],
            cwd: PathBuf::from("/"),
            environment: Environment::default(),
            stdin: Input::Nothing,
            timeout: Duration::from_secs(1),
            stop: None,
        })
        .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
