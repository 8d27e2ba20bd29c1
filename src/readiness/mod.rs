//! Whether a leg may begin: facts → ready, or what stands in the way. Nothing is created here.

pub mod judge;
