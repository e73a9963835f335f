//! Files that devices record, without I/O: profiles of other tools, logs of allocations, and graphs of memory.
//!
//! The feature `captures` stores and shows them. This package reads them, so that the fuzzer and commands without a server
//! need no client of Kafka, PostgreSQL or object storage.

#![expect(missing_docs, reason = "the fields and variants of a format say what they are by their names")]

mod kind;
pub mod malloc;
pub mod memory_graph;
pub mod profile;

pub use kind::CaptureKind;
