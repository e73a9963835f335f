//! Askama with the console's escaping. Every template names this module: `askama = escaping`.

pub use super::filters;
pub use askama_base::{FastWritable, Result, Template, Values, helpers};
