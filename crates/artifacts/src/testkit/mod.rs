//! What tests of this crate's users need: object storage in memory. Built with the feature `testkit` only.

mod memory;

pub(crate) use memory::HeldBytes;
pub use memory::{Fault, Hold, Memory, Operation};
