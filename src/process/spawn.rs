//! The only file that starts a process.
//!
//! Every child leads a process group of its own, so that ending it can mean ending its group, and
//! reads nothing unless told to. Who is started, and when, is decided elsewhere.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the one place where processes start; it waits on them with a deadline"
)]

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
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
}

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
    /// Whether it was killed because its time was over.
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
    let (status, timed_out) = match wait_until(&mut child, Instant::now() + command.timeout)? {
        Some(status) => (status, false),
        None => {
            end_group(child.id(), Signal::KILL);
            (child.wait()?, true)
        }
    };
    Ok(ShortOutcome {
        code: status.code(),
        signal: status.signal(),
        timed_out,
        stdout: contents(&mut stdout)?,
        stderr: contents(&mut stderr)?,
    })
}

fn builder(argv: &[OsString], cwd: &Path, environment: &Environment) -> io::Result<Command> {
    let (program, arguments) =
        argv.split_first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "an empty command"))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(cwd).env_clear().envs(&environment.0).process_group(0);
    Ok(command)
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
    fn what_cannot_start_is_an_error() {
        let error = run(ShortCommand {
            argv: vec!["/nonexistent/omg".into()],
            cwd: PathBuf::from("/"),
            environment: Environment::default(),
            stdin: Input::Nothing,
            timeout: Duration::from_secs(1),
        })
        .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
