//! The unslide binary: the command line, and the composition of the services.

mod audit;
mod boot;
mod cli;
mod client;
mod configuration;
mod dead_letter;
#[cfg(feature = "dev")]
mod demo;
#[cfg(feature = "dev")]
mod dev;
mod explain;
mod failure;
mod flame;
mod groups;
mod health;
mod jetsam;
mod key;
mod listing;
mod malloc_log;
mod migrate;
mod moment;
mod output;
mod quarantine;
mod reports;
mod reprocess;
mod serve;
mod swift;
mod symbolicate;
mod symbols;
mod tenant;
mod upload;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
