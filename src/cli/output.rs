//! The only file that prints. Results go to standard output, progress and complaints to standard error.
#![expect(clippy::disallowed_macros, reason = "the one place that prints")]

/// Writes a line to standard error.
pub fn complain(line: &str) {
    anstream::eprintln!("{line}");
}
