//! What becomes of the records of each lane.

pub mod batch;
pub mod intake;
pub mod live;
pub mod resymbolicate;
pub mod retry;
