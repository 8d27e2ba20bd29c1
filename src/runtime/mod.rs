//! How coding-agent CLIs are called, and how what they say is read.
//!
//! [`call`] makes the command line of an agent's process, [`told`] reads what came out of it. Nothing here
//! starts a process, touches a file or knows of schedules and journals.

mod bounded;
pub mod call;
#[cfg(test)]
mod call_tests;
pub mod prompt;
mod reset;
pub mod scan;
#[cfg(test)]
mod scan_tests;
pub mod sign;
pub mod told;
#[cfg(test)]
mod told_tests;

pub use call::{Ask, Call, Runtime, Session};
pub use prompt::{clip_end, fence};
pub use sign::{LimitKind, Sign};
pub use told::{Beside, Ended, Format, Reply, ReplySeen, Told, read};
