//! The run's state machine: an event in, facts and actions out.
//!
//! No clock, disk, environment, randomness or thread: what a decision needs is in its arguments, so
//! that the simulation drives the real scheduler through thousands of schedules a second. What has
//! become true is a [`Fact`]; facts are the only way in which [`RunState`] changes, live and replayed.

pub mod action;
pub mod event;
pub mod fact;
pub mod fault;
mod names;
mod opening;
pub mod overlaying;
mod preparing;
pub mod ready;
pub mod resolver;
pub mod settling;
pub mod state;
pub mod step;

#[cfg(test)]
mod sim;

pub use action::Action;
pub use event::Event;
pub use fact::Fact;
pub use fault::{Fault, FaultClass, Scope};
pub use state::RunState;
pub use step::step;
