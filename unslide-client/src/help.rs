//! The help of the program by headings, and the messages for command lines that are wrong.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command};
use std::fmt::Write;

/// The headings of the program's help, each with the first command below it. `--help` lists the commands in this order.
const HEADINGS: [(&str, &str); 6] = [
    ("Files, without a server", "symbolicate"),
    ("Connect", "login"),
    ("Reports and bugs", "send"),
    ("Symbols, settings and keys", "upload"),
    ("Services", "api"),
    ("Operators", "migrate"),
];
/// The heading of the commands before the first of [`HEADINGS`].
const FIRST_HEADING: &str = "Try it";
/// The heading of the commands on the program itself, which begin with `completions`.
const LAST_HEADING: (&str, &str) = ("This program", "completions");

/// Groups the commands of a whole command line below headings in its help.
#[must_use]
pub fn add_headings(line: Command) -> Command {
    let mut commands: Vec<&Command> =
        line.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    commands.sort_by_key(|command| command.get_display_order());
    let width = commands.iter().map(|command| command.get_name().len()).max().unwrap_or(0);
    let style = line.get_styles().get_header();
    let name_style = line.get_styles().get_literal();
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    let mut heading = Some(FIRST_HEADING);
    for command in commands {
        let name = command.get_name();
        let begun = HEADINGS.iter().chain([&LAST_HEADING]).find(|(_, first)| *first == name);
        if let Some(heading) = begun.map(|(heading, _)| *heading).or(heading.take()) {
            let _ = write!(text, "\n{style}{heading}:{style:#}\n");
        }
        heading = None;
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "  {name_style}{name:width$}{name_style:#}  {about}");
    }
    let _ = write!(text, "\n{style}Options:{style:#}\n{{options}}{{after-help}}");
    line.help_template(text)
}

/// Reads the arguments of this process. Prints help, or what is wrong with them, and ends the process then.
#[must_use]
pub fn read_arguments(line: Command) -> ArgMatches {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let mut built = line.clone();
    line.try_get_matches().unwrap_or_else(|error| explain_error(error, &mut built, &arguments).exit())
}

/// Returns an error with the usage of its command, in which options that have a default are none that the command needs.
fn explain_error(mut error: clap::Error, line: &mut Command, arguments: &[String]) -> clap::Error {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
        || error.get(ContextKind::Usage).is_none()
    {
        return error;
    }
    line.build();
    let command =
        arguments.iter().fold(&*line, |command, word| command.find_subcommand(word).unwrap_or(command));
    let takes_version = command.get_arguments().any(|argument| argument.get_long() == Some("app-version"));
    let asked = error.get(ContextKind::InvalidArg).map(ToString::to_string);
    if error.kind() == ErrorKind::UnknownArgument && takes_version && asked.as_deref() == Some("--version") {
        error.insert(ContextKind::SuggestedArg, ContextValue::String("--app-version".to_owned()));
    }
    error.insert(ContextKind::Usage, ContextValue::StyledStr(command.clone().render_usage()));
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction};

    fn line() -> Command {
        let send = Command::new("send")
            .arg(Arg::new("url").long("url"))
            .arg(Arg::new("app-version").long("app-version"))
            .arg(Arg::new("file").required(true).action(ArgAction::Append));
        Command::new("unslide").version("1").subcommand(Command::new("demo")).subcommand(send)
    }

    fn wrong(arguments: &[&str]) -> String {
        let error = line().try_get_matches_from([&["unslide"], arguments].concat()).unwrap_err();
        let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
        explain_error(error, &mut line(), &arguments).to_string()
    }

    #[test]
    fn commands_stand_below_headings() {
        let help = add_headings(line()).render_help().to_string();
        let places =
            ["Try it:", "  demo", "Reports and bugs:", "  send", "Options:"].map(|text| help.find(text));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{help}");
    }

    #[test]
    fn an_error_shows_optional_arguments_as_optional_and_names_the_version_of_an_app() {
        let missing = wrong(&["send", "--url", "http://a"]);
        assert!(missing.contains("Usage: unslide send [OPTIONS] <file>..."), "{missing}");
        let version = wrong(&["send", "--version", "2.5.0"]);
        assert!(
            version.contains("unexpected argument '--version'") && version.contains("'--app-version'"),
            "{version}"
        );
    }
}
