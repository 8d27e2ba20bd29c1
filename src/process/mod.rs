//! Starting and ending processes. Knows command lines and process ids; nothing of graphs or runs.

pub mod environment;
pub mod spawn;
