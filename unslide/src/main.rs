//! The unslide binary: the command line, and the composition of the services.

mod boot;
mod cli;
mod configuration;
mod failure;
mod features;
mod prelude;
#[cfg(feature = "dev")]
mod product;
mod serve;
mod servers;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
