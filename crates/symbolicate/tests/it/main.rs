//! Symbolication against real files and other tools.

mod format;
mod hostile;
mod llvm;
mod macho;
mod names;
mod proof;
