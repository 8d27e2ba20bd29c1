//! The run's state machine: an event in, facts and actions out.
//!
//! No clock, disk, environment, randomness or thread: what a decision needs is in its arguments, so
//! that the simulation drives the real scheduler through thousands of schedules a second. What has
//! become true is a [`Fact`]; facts are the only way in which [`RunState`] changes, live and replayed.

pub mod action;
pub mod agents;
pub mod amending;
mod attempts;
pub mod event;
pub mod fact;
pub mod fault;
mod lane;
mod live;
mod names;
mod node;
mod opening;
pub mod overlaying;
mod preparing;
pub mod ready;
pub mod resolver;
mod rounds;
pub mod settling;
mod spacing;
pub mod state;
pub mod step;
mod words;

#[cfg(test)]
mod sim;

pub use action::Action;
pub use event::Event;
pub use fact::Fact;
pub use fault::{Fault, FaultClass, Scope};
pub use state::RunState;
pub use step::step;
