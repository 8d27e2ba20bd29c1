//! From YAML to a [`Graph`], or to every problem at once.

pub mod model;
pub mod problem;
mod source;

pub use model::Graph;
