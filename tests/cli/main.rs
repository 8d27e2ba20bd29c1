//! The program from outside: real git, real processes, a home of its own for each test.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests start programs, and make and read files"
)]

mod agents;
mod agents_large;
mod agents_money;
mod amend;
mod commands;
mod completions;
mod detached;
mod doctor;
mod explain;
mod faults;
mod gc;
mod graphs;
mod installing;
mod lanes;
mod lint;
mod nodes;
mod overlay;
mod overlay_end;
mod provisioning;
mod renewals;
mod resume;
mod screens;
mod select;
mod shown;
mod signals;
mod space;
mod support;
mod terminal;
