//! Child processes with limits, for files that may exhaust or crash their reader.
//!
//! * [`child`]: this program, started again with limits of the operating system.
//! * [`Request`] and [`Task`]: the work of a child. Parent and child communicate through files in a folder.
//! * [`run_request`] runs a request in a child, and [`serve_request`] performs it there.
//! * [`build_symcache`]: a symcache, built in a child without a builder.

#![warn(missing_docs)]

pub mod child;
mod request;
mod serve;
mod symcache;

pub use request::{
    BuiltSlice, ChildFailure, ChildTask, ChildTaskError, DERIVED, Rejection, Request, SYMCACHE, Task,
    TaskAnswer, TaskError, run_request,
};
pub use serve::serve_request;
pub use symcache::{BuildError, LocalSymcache, SymcacheSource, build_symcache};
