//! Commands that need no server.

pub mod atos;
pub mod explain;
pub mod records;
pub mod swift;
pub mod symbolicate;
