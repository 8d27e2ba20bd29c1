//! The sole reader of the environment.
#![expect(clippy::disallowed_methods, reason = "the sole reader of the environment")]

use std::ffi::OsString;

use crate::process::environment::Environment;

/// Returns the arguments of this process, without its name.
pub fn arguments() -> Vec<OsString> {
    std::env::args_os().skip(1).collect()
}

/// Returns the environment of this process.
pub fn environment() -> Environment {
    std::env::vars_os().collect()
}
