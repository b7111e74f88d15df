//! Helpers that the fuzz targets share.

pub mod association;
pub mod hosts;
pub mod memory;
pub mod reemit;
pub mod script;
pub mod seal;
pub mod segments;
pub mod stage;

#[path = "../../crates/anabranch-transport/tests/world/mod.rs"]
pub mod world;
