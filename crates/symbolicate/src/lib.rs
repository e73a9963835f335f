//! Symbolication without I/O: objects to symcaches, addresses to functions, files and lines.

pub mod demangle;
pub mod object;
pub mod symcache;
