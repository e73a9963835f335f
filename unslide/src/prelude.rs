//! Imports of nearly every command.

pub(crate) use crate::boot;
pub(crate) use clap::{Args, Subcommand};
pub(crate) use serde_json::{Value, json};
pub(crate) use unslide_cli::{BoxError, CommandError, Console, Exit, Outcome, Table, block_on, note, say};
