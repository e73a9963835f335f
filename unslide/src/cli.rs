//! The command line: the commands of the client, and those of servers and operators.

use crate::configuration::service::Service;
use crate::configuration::{self, Configured};
use crate::failure::exit_code;
use crate::features::FEATURES;
use crate::serve;
use crate::servers::{
    audit, backfill, cells, doctor, fsck, health, key, leave_history, migrate, simulate, tenant,
};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;
use unslide_cli::{Exit, Outcome};
use unslide_client::{
    ClientCommand, ProgramCommand, arrange_commands, finish_command, read_arguments, run_client_command,
    run_feature_command, run_program_command,
};
#[cfg(feature = "dev")]
use unslide_dev::{demo, dev};

/// Symbolication of crash reports: what was an address becomes function, file and line.
#[derive(Parser)]
#[command(name = "unslide", version, about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[cfg(feature = "dev")]
    /// Run every service with embedded servers: nothing to install, nothing to configure
    Dev(dev::Arguments),
    #[cfg(feature = "dev")]
    /// Show the whole path, from an upload to an enriched report
    Demo(demo::Arguments),
    #[command(flatten)]
    Client(Box<ClientCommand>),
    /// Take uploads, reports and queries over HTTP
    Api(Configured),
    /// Symbolicate reports from Kafka to Kafka
    Symbolizer(Configured),
    /// Build symcaches from uploads, and wake reports that waited for them
    Builder(Configured),
    /// Store enriched reports, so that they can be queried
    Indexer(Configured),
    /// Pass requests on to the cells of their tenants
    Door(Configured),
    /// Apply the database's migrations, and create the topics
    Migrate(migrate::Arguments),
    /// Count records and their outcomes from the topics, to prove that none is lost
    Audit(audit::Arguments),
    /// Find what PostgreSQL, object storage and Kafka disagree on, and say how to repair it
    Fsck(fsck::Arguments),
    /// Bring the rows of old reports back from ClickHouse into PostgreSQL, to do without it again
    LeaveHistory(leave_history::Arguments),
    /// Compute machines, latency and lag for a load, from measured service times
    Simulate(simulate::Arguments),
    /// Check and show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Create, change, suspend and delete tenants
    #[command(subcommand)]
    Tenant(tenant::Command),
    /// List the cells of several installations, add one, and run a command for each
    #[command(subcommand)]
    Cells(cells::Command),
    /// Check that the service on this machine is ready: exit code 0 if it is
    Health(health::Arguments),
    #[command(flatten)]
    Program(ProgramCommand),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// List all errors of the configuration, and its unsafe settings; with --connect try the connections
    Check(configuration::check::Arguments),
    /// Print the value of every setting and its source; secrets are hidden
    Show {
        #[command(flatten)]
        configured: Configured,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Print a configuration file with every setting, its meaning and its default
    Example,
    /// Print the settings reference, docs/settings.md
    #[command(hide = true)]
    Reference,
}

/// Runs the command of this process's arguments to its end.
pub fn run() -> ExitCode {
    let matches = read_arguments(command_line());
    exit_code(finish_command(|| run_command(&matches)))
}

/// Returns the command line: the commands of this binary and those of features, each at its place.
fn command_line() -> clap::Command {
    let line = Cli::command()
        .mut_subcommand("doctor", doctor::extend_command)
        .mut_subcommand("key", |key| key.mut_subcommands(Configured::extend_command))
        .mut_subcommand("symbols", |symbols| {
            symbols.subcommand(backfill::Arguments::augment_args(clap::Command::new(backfill::NAME)))
        });
    // A command that was changed stands at the end.
    let moved = [("dead-letter", "fsck"), ("doctor", "logout"), ("symbols", "upload"), ("key", "settings")];
    arrange_commands(line, &moved)
}

/// Runs a command of a feature, or one of this binary.
fn run_command(matches: &ArgMatches) -> Outcome {
    if let Some(outcome) = run_feature_command(matches) {
        return outcome;
    }
    if let Some(("symbols", symbols)) = matches.subcommand()
        && let Some((backfill::NAME, arguments)) = symbols.subcommand()
    {
        return backfill::run(&backfill::Arguments::from_arg_matches(arguments)?);
    }
    if let Some(("key", keys)) = matches.subcommand()
        && let Some((_, arguments)) = keys.subcommand()
    {
        let configured = Configured::from_arg_matches(arguments)?;
        // Variables are there for other commands, too. The API's key knows its tenant, the configuration has several.
        let names_database = arguments.value_source("config") == Some(ValueSource::CommandLine)
            || arguments.contains_id("tenant");
        if configured.is_given() && names_database {
            return key::run(unslide_client::key::Command::from_arg_matches(keys)?, &configured);
        }
    }
    let command = Cli::from_arg_matches(matches).unwrap_or_else(|error| error.exit()).command;
    let outcome = run_core_command(command);
    match matches.subcommand() {
        Some(("doctor", arguments)) => {
            doctor::check_servers(outcome?, &Configured::from_arg_matches(arguments)?)
        }
        _ => outcome,
    }
}

fn run_core_command(command: Command) -> Outcome {
    match command {
        #[cfg(feature = "dev")]
        Command::Dev(arguments) => dev::run::<configuration::Configuration>(&arguments),
        #[cfg(feature = "dev")]
        Command::Demo(arguments) => demo::run::<configuration::Configuration>(&arguments),
        Command::Client(command) => run_client_command(*command),
        Command::Api(configured) => serve::run(Service::Api, &configured),
        Command::Symbolizer(configured) => serve::run(Service::Symbolizer, &configured),
        Command::Builder(configured) => serve::run(Service::Builder, &configured),
        Command::Indexer(configured) => serve::run(Service::Indexer, &configured),
        Command::Door(configured) => serve::run(Service::Door, &configured),
        Command::Migrate(arguments) => migrate::run(&arguments),
        Command::Audit(arguments) => audit::run(&arguments),
        Command::Fsck(arguments) => fsck::run(&arguments),
        Command::LeaveHistory(arguments) => leave_history::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Config(ConfigCommand::Check(arguments)) => configuration::check::run(&arguments),
        Command::Config(ConfigCommand::Show { configured, json }) => {
            configuration::show_values(&configured, json)
        }
        Command::Config(ConfigCommand::Example) => configuration::print_example(),
        Command::Config(ConfigCommand::Reference) => configuration::print_reference(),
        Command::Tenant(command) => tenant::run(command),
        Command::Cells(command) => cells::run(command),
        Command::Health(arguments) => health::run(&arguments),
        // A child of this program may also be one of a builder.
        Command::Program(ProgramCommand::BuildSymcache) => {
            let derived = unslide_feature::collect_derived(&unslide_client::features::read_analyses(true));
            unslide_builder::serve_child(&unslide_feature::collect_child_tasks(FEATURES), &derived)?;
            Ok(Exit::Ready)
        }
        Command::Program(command) => run_program_command(&command, command_line()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// clap looks at a command's arguments only when that command is run.
    #[test]
    fn the_arguments_of_every_command_go_together() {
        command_line().debug_assert();
    }

    #[test]
    fn every_list_can_be_printed_as_json() {
        let cli = command_line();
        let (mut commands, mut lists) = (vec![&cli], 0);
        while let Some(command) = commands.pop() {
            if matches!(command.get_name(), "list" | "groups" | "reports" | "audit") {
                let speaks_json = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
                assert!(speaks_json, "{}", command.get_name());
                lists += 1;
            }
            commands.extend(command.get_subcommands());
        }
        assert!(lists >= 7, "{lists}");
    }

    #[test]
    fn commands_of_operators_lie_among_those_of_the_client() {
        let mut line = command_line();
        let help = line.render_help().to_string();
        let places = ["  settings", "  api", "  fsck", "  dead-letter", "  config", "  completions"]
            .map(|name| help.find(name));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{help}");
        let symbols = line.find_subcommand_mut("symbols").unwrap().render_help().to_string();
        assert!(symbols.contains(backfill::NAME), "{symbols}");
        let doctor = line.find_subcommand_mut("doctor").unwrap().render_help().to_string();
        assert!(doctor.contains("--config") && doctor.contains(Exit::HELP), "{doctor}");
    }
}
