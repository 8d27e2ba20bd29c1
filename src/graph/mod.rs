//! From YAML to a [`Graph`], or to every problem at once.
//!
//! [`load()`] is the way in. A file becomes a tree with places (`source`), fragments are spliced into it
//! (`fragment`, `expand`), it is read as typed (`grammar`, `grammar_node`, by the keys of `keys`), and
//! what takes two places to know is checked (`validate`, `arcs`, `tokens`). A planned graph is judged
//! first (`planned`). Nothing here touches the world: the caller brings the text, of fragments too.

mod agent;
#[cfg(test)]
mod agent_tests;
mod arcs;
mod assemble;
mod bodies;
mod code;
mod dependents;
pub mod difference;
pub mod duration_ms;
mod excerpt;
mod expand;
#[cfg(test)]
mod expand_tests;
mod fragment;
mod grammar;
mod grammar_node;
mod grammar_runtime;
mod keys;
mod lineage;
mod load;
pub mod model;
mod overlay;
mod planned;
pub mod problem;
mod provisioning;
mod raw;
mod reach;
mod reader;
mod resolve;
mod schema;
pub mod select;
#[cfg(test)]
mod select_tests;
mod show;
mod source;
pub mod template;
#[cfg(test)]
mod tests;
mod tokens;
mod tools;
mod traverse;
mod tree;
mod validate;

pub use code::Code;
pub use excerpt::{commands, visible};
pub use expand::Fragments;
pub use grammar_runtime::BUILT_IN_RUNTIMES;
pub use load::{Loaded, Trust, bind_inputs, load};
pub use model::Graph;
pub use problem::{Problem, Severity};
pub use reader::parse_duration as duration;
pub use resolve::{artifact_mentions, artifact_variable};
pub use schema::schema;
pub use show::{render, render_some};
pub use source::FILE_BYTES_MAX;
pub use template::Quote;
