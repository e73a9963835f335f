//! The unslide binary: the command line, and the composition of the services.

mod boot;
mod cli;
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
mod prelude;
mod serve;
mod servers;
mod upload;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
