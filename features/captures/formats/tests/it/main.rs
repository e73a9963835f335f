//! Files of devices: real symbols, published files, and checks over any input.
#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

#[global_allocator]
static ALLOCATOR: unslide_testkit::memory::Counting = unslide_testkit::memory::Counting;

mod memory;
mod memory_graph;
mod properties;
mod samples;
mod symbols;
