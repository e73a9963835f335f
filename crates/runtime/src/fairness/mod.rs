//! How tenants share what a process has: rates, concurrent work and bytes in memory.

mod bucket;
mod semaphore;

pub use bucket::{Rate, TokenBucket, TokenBuckets};
pub use semaphore::{ByteReservation, Exhausted, FairPermit, FairSemaphore};
