//! The command line: every command and its arguments.

#[cfg(feature = "server")]
use crate::configuration::Configured;
#[cfg(feature = "server")]
use crate::configuration::service::Service;
use crate::failure::exit_code;
use crate::offline::{atos, explain, swift, symbolicate};
use crate::online::{
    dead_letter, doctor, groups, login, reports, reprocess, search, send, settings, symbols,
};
#[cfg(feature = "server")]
use crate::servers::{audit, fsck, health, key, migrate, tenant};
#[cfg(feature = "server")]
use crate::{configuration, serve};
use crate::{features, manual, upload};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;
use unslide_client::symbols::BUILD_SYMCACHE;
use unslide_client::{CommandError, Console, Exit, Outcome, say};
#[cfg(feature = "dev")]
use unslide_dev::{demo, dev};

/// Symbolication of crash reports: what was an address becomes function, file and line.
#[derive(Parser)]
#[command(name = "unslide", version, about, long_about = None, propagate_version = true)]
pub struct Cli {
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
    /// Symbolicate reports from a file, without any server
    Symbolicate(symbolicate::Arguments),
    /// Explain how each frame was symbolicated, or why not, and which dSYM to upload
    Explain(explain::Arguments),
    /// Turn addresses into functions, files and lines, with the flags and the output of Apple's atos
    Atos(atos::Arguments),
    /// Keep the API's address and key in a profile of this user
    Login(login::LoginArguments),
    /// Remove a profile of this user
    Logout(login::LogoutArguments),
    /// Try whether this machine can use the API with its key, and the servers of the services
    Doctor(doctor::Arguments),
    /// Send reports to the API, and print their outcomes
    Send(send::Arguments),
    /// List and show groups of reports, one bug each, and change their states
    Groups(groups::Arguments),
    /// List and show stored reports
    Reports(reports::Arguments),
    /// Find reports, groups, apps and versions by an id or a text
    Search(search::SearchArguments),
    /// Upload dSYMs, or an operating system's libraries
    Upload(upload::Arguments),
    /// List, check and delete symbols, and list the missing ones
    #[command(subcommand)]
    Symbols(symbols::Command),
    /// Symbolicate stored reports again, with the current symbols
    Reprocess(reprocess::Arguments),
    /// Show and change the settings of the tenant and of its apps
    #[command(subcommand)]
    Settings(settings::Command),
    #[cfg(feature = "server")]
    /// Take uploads, reports and queries over HTTP
    Api(Configured),
    #[cfg(feature = "server")]
    /// Symbolicate reports from Kafka to Kafka
    Symbolizer(Configured),
    #[cfg(feature = "server")]
    /// Build symcaches from uploads, and wake reports that waited for them
    Builder(Configured),
    #[cfg(feature = "server")]
    /// Store enriched reports, so that they can be queried
    Indexer(Configured),
    #[cfg(feature = "server")]
    /// Apply the database's migrations, and create the topics
    Migrate(migrate::Arguments),
    #[cfg(feature = "server")]
    /// Count records and their outcomes from the topics, to prove that none is lost
    Audit(audit::Arguments),
    #[cfg(feature = "server")]
    /// Find what PostgreSQL, object storage and Kafka disagree on, and say how to repair it
    Fsck(fsck::Arguments),
    /// Look at records that could not be processed, and replay them
    #[command(subcommand)]
    DeadLetter(dead_letter::Command),
    #[cfg(feature = "server")]
    /// Check and show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    #[cfg(feature = "server")]
    /// Create, change, suspend and delete tenants
    #[command(subcommand)]
    Tenant(tenant::Command),
    #[cfg(feature = "server")]
    /// Create, list and revoke API keys
    #[command(subcommand)]
    Key(key::Command),
    #[cfg(feature = "server")]
    /// Check that the service on this machine is ready: exit code 0 if it is
    Health(health::Arguments),
    /// Print the script that completes this command line in a shell
    Completions(manual::CompletionsArguments),
    /// Print a page of the manual, or write all pages
    Man(manual::ManArguments),
    /// Print the version of this program
    Version,
    /// Demangle Swift's names on standard input, for another process of this program
    #[command(name = swift::DEMANGLER_COMMAND, hide = true)]
    SwiftDemangler,
    /// Unpack an upload, build a symcache or run a feature's task, for a builder
    #[command(name = BUILD_SYMCACHE, hide = true)]
    BuildSymcache,
}

#[cfg(feature = "server")]
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
    let matches = command_line().get_matches();
    swift::isolate_demangler();
    exit_code(run_command(&matches).and_then(|exit| {
        Console::get()
            .check_output()
            .map_err(|error| CommandError::caused("cannot write the output", error))?;
        Ok(exit)
    }))
}

/// Returns the command line: the commands of this binary and those of features, each at its place.
fn command_line() -> clap::Command {
    let mut line = Cli::command();
    let mut order: Vec<String> =
        line.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for added in features::list_commands() {
        let command = (added.command)();
        let before = order.iter().position(|name| name == added.follows);
        order.insert(before.map_or(order.len(), |before| before + 1), command.get_name().to_owned());
        line = line.subcommand(command);
    }
    let at_its_place = |command: clap::Command| {
        let place = order.iter().position(|name| name == command.get_name());
        command.display_order(place.unwrap_or(order.len()))
    };
    with_exit_codes(line.mut_subcommands(at_its_place))
}

/// Adds the exit codes to the end of the help of the command and all below it.
fn with_exit_codes(command: clap::Command) -> clap::Command {
    let own = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    let command = command.after_help(format!("{own}{}", Exit::HELP));
    command.mut_subcommands(with_exit_codes)
}

/// Runs a command of a feature, or one of this binary.
fn run_command(matches: &ArgMatches) -> Outcome {
    if let Some((name, arguments)) = matches.subcommand()
        && let Some(added) = features::list_commands().find(|added| (added.command)().get_name() == name)
    {
        return (added.run)(arguments);
    }
    run_core_command(Cli::from_arg_matches(matches).unwrap_or_else(|error| error.exit()).command)
}

fn run_core_command(command: Command) -> Outcome {
    match command {
        #[cfg(feature = "dev")]
        Command::Dev(arguments) => dev::run::<configuration::Configuration>(&arguments),
        #[cfg(feature = "dev")]
        Command::Demo(arguments) => demo::run::<configuration::Configuration>(&arguments),
        Command::Symbolicate(arguments) => symbolicate::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Atos(arguments) => atos::run(&arguments),
        Command::Login(arguments) => login::log_in(&arguments),
        Command::Logout(arguments) => login::log_out(&arguments),
        Command::Send(arguments) => send::run(&arguments),
        Command::Settings(command) => settings::run(command),
        Command::Completions(arguments) => manual::print_completions(&arguments, command_line()),
        Command::Man(arguments) => manual::write_pages(&arguments, command_line()),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Groups(arguments) => groups::run(arguments),
        Command::Reports(arguments) => reports::run(arguments),
        Command::Search(arguments) => search::run(arguments),
        Command::Upload(arguments) => upload::run(&arguments),
        Command::Symbols(command) => symbols::run(command),
        Command::Reprocess(arguments) => reprocess::run(&arguments),
        #[cfg(feature = "server")]
        Command::Api(configured) => serve::run(Service::Api, &configured),
        #[cfg(feature = "server")]
        Command::Symbolizer(configured) => serve::run(Service::Symbolizer, &configured),
        #[cfg(feature = "server")]
        Command::Builder(configured) => serve::run(Service::Builder, &configured),
        #[cfg(feature = "server")]
        Command::Indexer(configured) => serve::run(Service::Indexer, &configured),
        #[cfg(feature = "server")]
        Command::Migrate(arguments) => migrate::run(&arguments),
        #[cfg(feature = "server")]
        Command::Audit(arguments) => audit::run(&arguments),
        #[cfg(feature = "server")]
        Command::Fsck(arguments) => fsck::run(&arguments),
        Command::DeadLetter(command) => dead_letter::run(command),
        #[cfg(feature = "server")]
        Command::Config(ConfigCommand::Check(arguments)) => configuration::check::run(&arguments),
        #[cfg(feature = "server")]
        Command::Config(ConfigCommand::Show { configured, json }) => {
            configuration::show_values(&configured, json)
        }
        #[cfg(feature = "server")]
        Command::Config(ConfigCommand::Example) => configuration::print_example(),
        #[cfg(feature = "server")]
        Command::Config(ConfigCommand::Reference) => configuration::print_reference(),
        #[cfg(feature = "server")]
        Command::Tenant(command) => tenant::run(command),
        #[cfg(feature = "server")]
        Command::Key(command) => key::run(command),
        #[cfg(feature = "server")]
        Command::Health(arguments) => health::run(&arguments),
        Command::Version => {
            say!("unslide {}", env!("CARGO_PKG_VERSION"));
            Ok(Exit::Ready)
        }
        Command::SwiftDemangler => Ok(swift::run()),
        Command::BuildSymcache => {
            let derived = unslide_feature::collect_derived(&features::read_analyses(true));
            unslide_builder::serve_child(features::CHILD_TASKS, &derived)?;
            Ok(Exit::Ready)
        }
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
    fn the_commands_of_features_have_a_place_in_the_help() {
        for added in features::list_commands() {
            assert!(command_line().find_subcommand(added.follows).is_some(), "{}", added.follows);
        }
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
    fn the_help_of_every_command_ends_with_the_exit_codes() {
        let mut upload = command_line();
        let help = upload.find_subcommand_mut("upload").unwrap().render_long_help().to_string();
        for part in ["symbols:write", "Examples:", "unslide upload build", "--retry-for", Exit::HELP] {
            assert!(help.contains(part), "{part} is not in\n{help}");
        }
        let symbols = upload.find_subcommand_mut("symbols").unwrap();
        assert!(symbols.find_subcommand_mut("check").unwrap().render_help().to_string().contains(Exit::HELP));
    }
}
