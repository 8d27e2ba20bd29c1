//! From YAML to a [`Graph`], or to every problem at once.

pub mod model;

pub use model::Graph;
