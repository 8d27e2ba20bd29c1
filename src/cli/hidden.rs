//! The subcommand that only this program itself calls.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;

use crate::process::supervisor;
use crate::settings;

/// A bug of ours (DESIGN.md section 11).
const BUG: i32 = 70;

/// Runs a hidden subcommand and returns its exit code; `None` where the arguments are not one.
pub fn run(arguments: &[OsString]) -> Option<i32> {
    let word = arguments.first()?.to_str()?;
    match (word, &arguments[1..]) {
        ("__supervise", [run_dir]) => {
            let outcome = std::io::stdin().as_fd().try_clone_to_owned().and_then(|lifeline| {
                supervisor::supervise(Path::new(run_dir), lifeline, settings::own_environment())
            });
            if let Err(error) = outcome {
                super::output::complain(&format!("omg: supervisor: {error}"));
                return Some(BUG);
            }
            Some(0)
        }
        _ => None,
    }
}
