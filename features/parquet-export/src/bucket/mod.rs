//! Requests to the bucket of a tenant: objects that are put and deleted, through the egress rules and within bounds of time.

mod client;
mod failure;

pub use client::{BucketClient, UNREACHABLE, hash_bytes};
pub use failure::BucketFailure;
