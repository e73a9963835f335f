//! The command line.

use crate::failure::{Outcome, exit_code};
use crate::{
    audit, configuration, dead_letter, demo, dev, key, migrate, reprocess, serve, swift, symbolicate,
    symbols, tenant, upload,
};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

/// Symbolication of crash reports: what was an address becomes function, file and line.
#[derive(Parser)]
#[command(name = "unslide", version, about, long_about = None, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The configuration of commands that reach the servers themselves.
#[derive(Args, Clone)]
pub struct Configured {
    /// A TOML file; variables UNSLIDE_SECTION__KEY win over it
    #[arg(long, value_name = "FILE", env = "UNSLIDE_CONFIG")]
    pub config: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Run every service with embedded servers: nothing to install, nothing to configure
    Dev(dev::Arguments),
    /// Show the whole path, from an upload to an enriched report
    Demo(demo::Arguments),
    /// Symbolicate reports from a file, without any server
    Symbolicate(symbolicate::Arguments),
    /// Upload dSYMs, or an operating system's libraries
    Upload(upload::Arguments),
    /// Ask for symbols
    #[command(subcommand)]
    Symbols(symbols::Command),
    /// Symbolicate stored reports again
    Reprocess(reprocess::Arguments),
    /// Take uploads, reports and queries over HTTP
    Api(Configured),
    /// Symbolicate reports from Kafka to Kafka
    Symbolizer(Configured),
    /// Build symcaches from uploads, and wake reports that waited for them
    Builder(Configured),
    /// Store enriched reports, so that they can be queried
    Indexer(Configured),
    /// Apply the database's migrations, and create the topics
    Migrate(migrate::Arguments),
    /// Count what came in and what became of it, from the topics themselves
    Audit(audit::Arguments),
    /// Look at records that could not be processed, and replay them
    #[command(subcommand)]
    DeadLetter(dead_letter::Command),
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Manage tenants
    #[command(subcommand)]
    Tenant(tenant::Command),
    /// Manage API keys
    #[command(subcommand)]
    Key(key::Command),
    /// Print the version
    Version,
    /// Demangle Swift's names on standard input, for another process of this program
    #[command(name = swift::COMMAND, hide = true)]
    SwiftDemangler,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Say everything that is wrong with the configuration of all services at once
    Check(Configured),
}

/// Runs a command to its end.
pub fn run(cli: Cli) -> ExitCode {
    swift::isolate();
    exit_code(dispatch(cli.command))
}

fn dispatch(command: Command) -> Outcome {
    match command {
        Command::Dev(arguments) => dev::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Symbolicate(arguments) => symbolicate::run(&arguments),
        Command::Upload(arguments) => upload::run(&arguments),
        Command::Symbols(command) => symbols::run(command),
        Command::Reprocess(arguments) => reprocess::run(&arguments),
        Command::Api(configured) => serve::run(serve::Service::Api, &configured),
        Command::Symbolizer(configured) => serve::run(serve::Service::Symbolizer, &configured),
        Command::Builder(configured) => serve::run(serve::Service::Builder, &configured),
        Command::Indexer(configured) => serve::run(serve::Service::Indexer, &configured),
        Command::Migrate(arguments) => migrate::run(&arguments),
        Command::Audit(arguments) => audit::run(&arguments),
        Command::DeadLetter(command) => dead_letter::run(command),
        Command::Config(ConfigCommand::Check(configured)) => configuration::check(&configured),
        Command::Tenant(command) => tenant::run(command),
        Command::Key(command) => key::run(command),
        Command::Version => {
            println!("unslide {}", env!("CARGO_PKG_VERSION"));
            Ok(ExitCode::SUCCESS)
        }
        Command::SwiftDemangler => Ok(swift::run()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// clap looks at a command's arguments only when that command is run.
    #[test]
    fn the_arguments_of_every_command_go_together() {
        Cli::command().debug_assert();
    }
}
