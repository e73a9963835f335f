//! Signals from files: real symbols, published files, and what must hold whatever they are.
#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

#[global_allocator]
static ALLOCATOR: unslide_testkit::memory::Counting = unslide_testkit::memory::Counting;

mod memory;
mod memory_graph;
mod properties;
mod reports;
mod samples;
mod symbols;
