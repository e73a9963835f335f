//! The unslide binary: the command line, and the composition of the services.

mod boot;
mod cli;
mod client;
mod configuration;
#[cfg(feature = "dev")]
mod demo;
#[cfg(feature = "dev")]
mod dev;
mod failure;
mod features;
mod moment;
mod offline;
mod online;
mod output;
mod prelude;
mod quantity;
mod serve;
mod servers;
mod upload;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
