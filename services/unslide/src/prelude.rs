//! Imports of nearly every command.

pub(crate) use crate::boot;
pub(crate) use crate::client::{ApiServer, Client};
pub(crate) use crate::failure::{BoxError, CommandError, Exit, Outcome};
pub(crate) use crate::output::{Console, Table, note, say};
pub(crate) use clap::{Args, Subcommand};
pub(crate) use serde_json::{Value, json};
