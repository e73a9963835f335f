//! Fair sharing of a process between tenants: rates, time, concurrent work and bytes in memory.

mod bucket;
mod semaphore;
mod shares;

pub use bucket::{Rate, TokenBucket, TokenBuckets};
pub use semaphore::{ByteReservation, Exhausted, FairPermit, FairSemaphore};
pub use shares::FairShares;
