//! The program from outside: real git, real processes, a home of its own for each test.

mod commands;
mod faults;
mod graphs;
mod lanes;
mod nodes;
mod provisioning;
mod resume;
mod signals;
mod support;
