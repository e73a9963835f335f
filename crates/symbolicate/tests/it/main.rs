//! Symbolication against real files and other tools.

#![expect(clippy::unwrap_used, reason = "a test may stop at what it did not expect")]

mod corpus;
mod format;
mod hostile;
mod llvm;
mod macho;
mod names;
mod objects;
mod proof;
