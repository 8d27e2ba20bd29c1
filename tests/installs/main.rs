//! Real package managers against real registries: a lane of a repository with a lockfile has what its nodes
//! need, and what an install leaves does not keep the lane.
//!
//! Runs where REGISTRIES is set and TOOLS_DIR names what `.ci/tools` made; else each test says on standard
//! error that it was skipped, and why. `.ci/run` sets both.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests start programs, and make and read files"
)]

mod bench;
mod node;
mod others;
mod python;
#[path = "../cli/support.rs"]
#[expect(dead_code, reason = "shared with the tests of the command line")]
mod support;
