//! `omg` runs a reviewed graph of shell commands and coding agents; nodes that edit files get a
//! prepared git worktree of their own. ARCHITECTURE.md is the map; DESIGN words are used throughout.

#[cfg(not(unix))]
compile_error!("omg runs on Linux, and builds on macOS; there is no Windows version");

pub mod api;
pub mod cleanup;
pub mod cli;
pub mod failpoint;
pub mod fence;
pub mod graph;
pub mod ids;
pub mod journal;
pub mod money;
pub mod process;
pub mod provision;
pub mod readiness;
pub mod run;
pub mod runtime;
pub mod schedule;
pub mod settings;
pub mod view;
pub mod worktree;
