//! `omg gc`: arguments → api → lines.

use super::args::GcArgs;
use super::output;
use crate::api::gc::{GcRequest, gc, judge::Rules};
use crate::api::{Refusal, exit};
use crate::settings::Settings;
use crate::view::json;

/// Puts in order what dead runs left, and prints what was done.
pub fn run(settings: &Settings, args: GcArgs) -> Result<i32, Refusal> {
    let GcArgs { runs, dry_run, older_than, keep, json } = args;
    let request = GcRequest { runs, dry_run, rules: Rules { older_than, keep } };
    let (found, code) = gc(settings, &request)?;
    if json {
        let text = serde_json::to_string_pretty(&found)
            .map_err(|error| Refusal::new(exit::BUG, error.to_string(), None))?;
        output::result(&json::harmless(&text));
    } else {
        output::result(&crate::view::gc::lines(&found, output::style()).join("\n"));
    }
    Ok(code)
}
