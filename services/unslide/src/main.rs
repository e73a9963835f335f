//! The unslide binary: the command line, and the composition of the services.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks on its output")]

mod audit;
mod boot;
mod cli;
mod client;
mod configuration;
mod dead_letter;
mod demo;
mod dev;
mod failure;
mod key;
mod migrate;
mod moment;
mod reprocess;
mod serve;
mod swift;
mod symbolicate;
mod symbols;
mod tenant;
mod upload;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(cli::Cli::parse())
}
