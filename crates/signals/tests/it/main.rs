//! Signals from files: real symbols, published files, and the fuzz targets' corpus.
#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

#[global_allocator]
static ALLOCATOR: unslide_testkit::memory::Counting = unslide_testkit::memory::Counting;

mod corpus;
mod memory;
mod memory_graph;
mod reports;
mod samples;
mod symbols;
