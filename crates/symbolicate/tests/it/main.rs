//! Symbolication against real files and other tools.

mod llvm;
mod proof;
