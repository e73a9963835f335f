//! Symbolication against real files and other tools.

#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

#[global_allocator]
static ALLOCATOR: unslide_testkit::memory::Counting = unslide_testkit::memory::Counting;

mod format;
mod hostile;
mod in_flight;
mod javascript;
mod library_names;
mod llvm;
mod names;
mod objects;
mod proof;
mod shared_parts;
mod unread;
