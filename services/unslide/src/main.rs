//! The unslide binary: the command line, and the composition of the services. Without the Cargo feature `server` it is the
//! program for build machines, with the commands that ask the API or need no server.

#[cfg(feature = "server")]
mod boot;
mod cli;
#[cfg(feature = "server")]
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
#[cfg(feature = "server")]
mod serve;
#[cfg(feature = "server")]
mod servers;
mod upload;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
