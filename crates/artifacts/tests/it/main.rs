//! Artifacts against a real S3 protocol endpoint and against memory, and archives of every kind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[global_allocator]
static ALLOCATOR: unslide_testkit::memory::Counting = unslide_testkit::memory::Counting;

mod archives;
mod cache;
mod object_store;
mod segments;
