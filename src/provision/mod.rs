//! Making a lane fit to work in: which commands, what proves that they ran, and whether that still
//! holds. Knows lanes as folders; nothing of git or of the graph's order.

pub mod apply;
pub mod cause;
pub mod copy;
pub mod excludes;
mod inside;
pub mod overlay;
pub mod plan;
pub mod receipt;

pub use plan::{ProvisionPlan, Rung, Step};
pub use receipt::{Receipt, Standing};
