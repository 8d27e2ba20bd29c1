//! The subcommands that only this program itself, or its completion in a shell, calls.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;

use crate::api::detach;
use crate::ids::Generation;
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
        ("__keep", [run_dir, reason, words]) => {
            let words = words.to_string_lossy().into_owned();
            let environment = settings::own_environment();
            let kept = detach::keep(Path::new(run_dir), &reason.to_string_lossy(), words, environment);
            if let Err(error) = kept {
                super::output::complain(&format!("omg: supervisor: {error}"));
                return Some(BUG);
            }
            Some(0)
        }
        ("__leg", [run_dir, generation, words]) => {
            let generation = Generation(generation.to_str()?.parse().ok()?);
            Some(super::leg::kept(Path::new(run_dir), generation, &words.to_string_lossy()))
        }
        ("__complete", [shell, dashes, words @ ..]) if dashes == "--" => {
            let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            // Whatever is wrong, a shell that completes is no place to say it.
            if let Ok(settings) = crate::settings::Settings::read() {
                super::tools::complete(&settings, &shell.to_string_lossy(), &words);
            }
            Some(0)
        }
        _ => None,
    }
}
