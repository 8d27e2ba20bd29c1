//! The command line: decode, call, encode. Decides nothing.

pub mod args;
mod auto;
mod commands;
mod complete;
mod gc;
pub mod hidden;
mod leg;
mod man;
pub mod output;
mod presentation;
mod screen;
mod teller;
mod tools;

use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::Parser;

use crate::api::{Refusal, exit};
use crate::settings;

/// Runs the command line of this process. Returns its exit code.
pub fn main() -> i32 {
    let arguments = settings::arguments();
    if let Some(code) = hidden::run(&arguments) {
        return code;
    }
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return error.exit_code();
        }
    };
    output::choose_colors(cli.color);
    let command = AssertUnwindSafe(|| {
        let settings = settings::Settings::read()?;
        show_logs(cli.verbose, settings.log.as_deref());
        commands::run(&settings, cli.command, cli.verbose > 0)
    });
    // The panic's own words are on standard error by now.
    let outcome = catch_unwind(command).unwrap_or_else(|_| {
        Err(Refusal::new(
            exit::BUG,
            "a bug of omg's own ended it",
            Some("every lane, branch and file is as it was; `omg resume` goes on with a run".into()),
        ))
    });
    match outcome {
        Ok(code) if output::lost() => {
            output::complain("error: standard output could not be written");
            if code == exit::OK { exit::BLOCKED } else { code }
        }
        Ok(code) => code,
        Err(refusal) => {
            output::refusal(&refusal);
            refusal.exit
        }
    }
}

/// Sends tracing's logs to standard error, as `-v` and `OMG_LOG` ask.
#[expect(clippy::disallowed_methods, reason = "logs go to standard error by themselves")]
fn show_logs(verbose: u8, log: Option<&str>) {
    let filter = match (log, verbose) {
        (Some(filter), _) => filter.to_string(),
        (None, 0) => return,
        (None, 1) => "omg=info".into(),
        (None, 2) => "omg=debug".into(),
        (None, _) => "omg=trace".into(),
    };
    let _ = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .try_init();
}
