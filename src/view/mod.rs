//! Records → what people and programs are shown. Pure; printing is `cli::output`'s.

pub mod ci;
pub mod cost;
pub mod doctor;
pub mod explain;
pub mod explanation;
pub mod gc;
pub mod graph;
pub mod json;
pub mod junit;
pub mod live;
pub mod outlook;
pub mod progress;
pub mod run;
pub mod sentences;
pub mod style;
pub mod table;

pub use cost::CostView;
pub use run::{LaneView, NodeView, RunView, Summary};
