//! The unslide binary: the command line, and the composition of the services.

mod boot;
mod cli;
mod configuration;
mod failure;
mod features;
mod manual;
mod moment;
mod offline;
mod online;
mod prelude;
#[cfg(feature = "dev")]
mod product;
mod serve;
mod servers;
mod upload;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
