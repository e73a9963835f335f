//! The command line: every command of this package and of features.

use crate::failure::exit_code;
use crate::help::{add_headings, read_arguments};
use crate::offline::{atos, explain, swift, symbolicate};
use crate::online::{
    dead_letter, doctor, groups, key, login, release, reports, reprocess, search, send, settings, symbols,
};
use crate::{features, manual, upload};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;
use unslide_cli::symbols::BUILD_SYMCACHE;
use unslide_cli::{CommandError, Console, Exit, FeatureCommand, Outcome, say};

/// Symbolication of crash reports: what was an address becomes function, file and line.
#[derive(Parser)]
#[command(name = "unslide", version, about, long_about = None)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Client(Box<ClientCommand>),
    #[command(flatten)]
    Program(ProgramCommand),
}

/// The commands that ask the API or need no server.
#[derive(Subcommand)]
pub enum ClientCommand {
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
    /// Try whether this machine can use the API with its key
    Doctor(doctor::Arguments),
    /// Send reports to the API, and print their outcomes
    Send(send::Arguments),
    /// List and show groups of reports, one bug each, and change their states
    Groups(groups::Arguments),
    /// List and show stored reports
    Reports(reports::Arguments),
    /// Show a version of an app: is it worse than the one before, and what is new in it?
    #[command(subcommand)]
    Release(release::Command),
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
    /// Create, list and revoke keys of the tenant
    #[command(subcommand)]
    Key(key::Command),
    /// Look at records that could not be processed, and replay them
    #[command(subcommand)]
    DeadLetter(dead_letter::Command),
}

/// The commands on the program itself, which `--help` lists last.
#[derive(Subcommand)]
pub enum ProgramCommand {
    /// Print the script that completes this command line in a shell
    Completions(manual::CompletionsArguments),
    /// Print a page of the manual, or write all pages
    Man(manual::ManArguments),
    /// Print the version of this program
    Version,
    /// Demangle Swift's names on standard input, for another process of this program
    #[command(name = swift::DEMANGLER_COMMAND, hide = true)]
    SwiftDemangler,
    /// Build a symcache or run another task in a process of its own, for another process of this program
    #[command(name = BUILD_SYMCACHE, hide = true)]
    BuildSymcache,
}

/// Runs the command of this process's arguments to its end.
#[must_use]
pub fn run() -> ExitCode {
    let matches = read_arguments(command_line());
    exit_code(finish_command(|| run_command(&matches)), |_| None)
}

fn command_line() -> clap::Command {
    arrange_commands(Cli::command(), &[])
}

fn run_command(matches: &ArgMatches) -> Outcome {
    if let Some(outcome) = run_feature_command(matches) {
        return outcome;
    }
    match Cli::from_arg_matches(matches).unwrap_or_else(|error| error.exit()).command {
        Command::Client(command) => run_client_command(*command),
        Command::Program(command) => run_program_command(&command, command_line()),
    }
}

/// Runs a command with Swift's demangler in other processes, and checks that its output was written.
///
/// # Errors
/// Returns the command's own error, or one if its output could not be written.
pub fn finish_command(run: impl FnOnce() -> Outcome) -> Outcome {
    swift::isolate_demangler();
    let exit = run()?;
    Console::get().check_output().map_err(|error| CommandError::caused("cannot write the output", error))?;
    Ok(exit)
}

/// Adds the commands of features to a command line, each at its place, and the exit codes to all help. `moved` has commands with
/// the one after which `--help` lists each.
#[must_use]
pub fn arrange_commands(mut line: clap::Command, moved: &[(&str, &str)]) -> clap::Command {
    let mut order: Vec<String> =
        line.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let mut place_after = |name: &str, follows: &str| {
        order.retain(|known| known != name);
        let before = order.iter().position(|known| known == follows);
        order.insert(before.map_or(order.len(), |before| before + 1), name.to_owned());
    };
    for (name, follows) in moved {
        place_after(name, follows);
    }
    for added in features::list_commands() {
        let command = (added.command)();
        if let Some(parent) = find_parent(added) {
            line = line.mut_subcommand(parent, |parent| parent.subcommand(command));
        } else {
            place_after(command.get_name(), added.follows);
            line = line.subcommand(command);
        }
    }
    let at_its_place = |command: clap::Command| {
        let place = order.iter().position(|name| name == command.get_name());
        command.display_order(place.unwrap_or(order.len()))
    };
    add_headings(with_exit_codes(line.mut_subcommands(at_its_place)))
}

/// Adds the exit codes to the end of the help of the command and all below it.
fn with_exit_codes(command: clap::Command) -> clap::Command {
    let own = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    let command = command.after_help(format!("{own}{}", Exit::HELP));
    command.mut_subcommands(with_exit_codes)
}

/// Runs the command of a feature; `None` if the command is of no feature.
#[must_use]
pub fn run_feature_command(matches: &ArgMatches) -> Option<Outcome> {
    let (name, arguments) = matches.subcommand()?;
    let find = |parent: Option<&str>, name: &str| {
        features::list_commands()
            .find(|added| find_parent(added) == parent && (added.command)().get_name() == name)
    };
    if let Some(added) = find(None, name) {
        return Some((added.run)(arguments));
    }
    let (below, arguments) = arguments.subcommand()?;
    Some((find(Some(name), below)?.run)(arguments))
}

/// Returns the command of the core that has a feature's command below it; `None` if it is a command of its own.
fn find_parent(added: &FeatureCommand) -> Option<&'static str> {
    added.follows.split_once(' ').map(|(parent, _)| parent)
}

/// Runs a command that asks the API or needs no server.
///
/// # Errors
/// Returns the command's error.
pub fn run_client_command(command: ClientCommand) -> Outcome {
    match command {
        ClientCommand::Symbolicate(arguments) => symbolicate::run(&arguments),
        ClientCommand::Explain(arguments) => explain::run(&arguments),
        ClientCommand::Atos(arguments) => atos::run(&arguments),
        ClientCommand::Login(arguments) => login::log_in(&arguments),
        ClientCommand::Logout(arguments) => login::log_out(&arguments),
        ClientCommand::Send(arguments) => send::run(&arguments),
        ClientCommand::Settings(command) => settings::run(command),
        ClientCommand::Doctor(arguments) => doctor::run(&arguments),
        ClientCommand::Groups(arguments) => groups::run(arguments),
        ClientCommand::Reports(arguments) => reports::run(arguments),
        ClientCommand::Release(command) => release::run(&command),
        ClientCommand::Search(arguments) => search::run(arguments),
        ClientCommand::Upload(arguments) => upload::run(&arguments),
        ClientCommand::Symbols(command) => symbols::run(command),
        ClientCommand::Key(command) => key::run(command),
        ClientCommand::Reprocess(arguments) => reprocess::run(&arguments),
        ClientCommand::DeadLetter(command) => dead_letter::run(command),
    }
}

/// Runs a command on the program itself. `line` is the whole command line.
///
/// # Errors
/// Returns the command's error.
pub fn run_program_command(command: &ProgramCommand, line: clap::Command) -> Outcome {
    match command {
        ProgramCommand::Completions(arguments) => manual::print_completions(arguments, line),
        ProgramCommand::Man(arguments) => manual::write_pages(arguments, line),
        ProgramCommand::Version => {
            say!("unslide {}", env!("CARGO_PKG_VERSION"));
            Ok(Exit::Ready)
        }
        ProgramCommand::SwiftDemangler => Ok(swift::run()),
        ProgramCommand::BuildSymcache => {
            unslide_sandbox::serve_request(&[], &[])?;
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
        let line = command_line();
        for added in features::list_commands() {
            let followed = added.follows.split(' ').try_fold(&line, |line, name| line.find_subcommand(name));
            assert!(followed.is_some(), "{}", added.follows);
        }
    }

    #[test]
    fn a_command_of_a_feature_may_be_below_one_of_the_core() {
        let line = "unslide release check --app com.example.shop --version 2.5.0 --against 2.4.1";
        let matches = command_line().try_get_matches_from(line.split(' ')).unwrap();
        let (name, release) = matches.subcommand().unwrap();
        assert_eq!((name, release.subcommand_name()), ("release", Some("check")));
        assert!(command_line().try_get_matches_from("unslide release show 2.5.0".split(' ')).is_ok());
    }

    #[test]
    fn only_the_program_has_a_version() {
        let versions = |line: &str| command_line().try_get_matches_from(line.split(' ')).unwrap_err();
        assert_eq!(versions("unslide --version").kind(), clap::error::ErrorKind::DisplayVersion);
        for line in ["unslide reports --version 2.5.0", "unslide groups --version", "unslide upload -V"] {
            assert_eq!(versions(line).kind(), clap::error::ErrorKind::UnknownArgument, "{line}");
        }
    }

    #[test]
    fn every_list_can_be_printed_as_json() {
        let cli = command_line();
        let (mut commands, mut lists) = (vec![&cli], 0);
        while let Some(command) = commands.pop() {
            if matches!(command.get_name(), "list" | "groups" | "reports") {
                let speaks_json = command.get_arguments().any(|argument| argument.get_long() == Some("json"));
                assert!(speaks_json, "{}", command.get_name());
                lists += 1;
            }
            commands.extend(command.get_subcommands());
        }
        assert!(lists >= 5, "{lists}");
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
