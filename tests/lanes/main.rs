//! Lanes on real git: acquired, shared, killed, swept. Hermetic: no configuration of the machine, no
//! user's identity, no clock.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test builds repositories and damages them"
)]

mod acquire;
mod channels;
mod contract;
mod discard;
mod killed;
mod killed_anywhere;
mod retire;
mod support;
mod sweep;
