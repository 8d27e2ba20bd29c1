//! Making a lane fit to work in: which commands, what proves that they did their work, and whether that
//! still holds. Knows lanes as folders; nothing of git or of the graph's order.

pub mod apply;
pub mod cause;
pub mod copy;
pub mod durable;
pub mod ecosystem;
pub mod ecosystems;
pub mod excludes;
pub mod fingerprint;
pub mod hints;
mod inside;
pub mod learned;
pub mod look;
pub mod made;
pub mod mark;
pub mod overlay;
pub mod plan;
pub mod probe;
pub mod receipt;
pub mod tools;

pub use plan::{ProvisionPlan, Rung, Step};
pub use receipt::{Receipt, Standing};
