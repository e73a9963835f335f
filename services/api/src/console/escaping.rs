//! Askama with the console's escaping. Every template names this module: `askama = escaping`.

pub(crate) use super::filters;
pub(crate) use askama_base::{FastWritable, Result, Template, Values, helpers};
