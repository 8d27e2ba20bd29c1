//! Starts a job's process: without a shell where that comes to the same, and through one where only a
//! shell can say what is wrong.
#![expect(clippy::disallowed_methods, reason = "looks whether a folder is there that could not be entered")]

use std::ffi::{OsStr, OsString};
use std::io;

use super::environment::Environment;
use super::protocol::JobSpec;
use super::{direct, spawn};

/// Starts a job's process; returns it, and whether it is the program where a shell was asked for.
///
/// What can't be executed is left to `sh` to say, with the status that people know.
pub(super) fn launch(spec: &JobSpec, disk: &spawn::Disk) -> io::Result<(spawn::Started, bool)> {
    let argv: Vec<OsString> = spec.argv.iter().cloned().map(OsString::from).collect();
    let start = |program: &OsStr, argv: &[OsString], environment: &Environment| {
        let stdin = spec.stdin.as_deref();
        spawn::start_bound(&spawn::Launch { program, argv, stdin, cwd: &spec.cwd, environment }, disk)
    };
    if spec.direct
        && let [shell, option, line] = &argv[..]
        && (shell == "sh" && option == "-c")
        && let Some((words, program, environment)) =
            line.to_str().and_then(|line| direct::resolve(line, &spec.cwd, &spec.environment, disk))
    {
        let argv: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        if let Ok(started) = start(program.as_os_str(), &argv, &environment) {
            return Ok((started, true));
        }
    }
    let program = argv.first().map(OsString::as_os_str).unwrap_or_default();
    let started = start(program, &argv, &spec.environment).or_else(|error| {
        if !spec.cwd.is_dir() {
            let what = format!("the folder {} does not exist", spec.cwd.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, what));
        }
        let can_say = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
            || error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error());
        let say = ["sh", "-c", "exec \"$0\" \"$@\""].map(OsString::from);
        let argv: Vec<OsString> = say.into_iter().chain(argv.iter().cloned()).collect();
        if can_say { start(OsStr::new("/bin/sh"), &argv, &spec.environment) } else { Err(error) }
    })?;
    Ok((started, false))
}
