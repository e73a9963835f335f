//! `unslide builds diff`: the functions that differ between two builds, of dSYMs on this machine or by their debug ids. `unslide
//! suspects` names the commits that changed the functions of a crash, and `unslide upload` keeps the commit of builds.

mod answer;
mod commit;
mod local;
mod suspects;

use answer::{ImageDiff, print_images};
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::json;
use std::path::PathBuf;
use unslide_cli::listing::{filter_given, with_query};
use unslide_cli::symbols::BuildArguments;
use unslide_cli::{
    ApiServer, Client, ClientFeature, CommandError, Console, Exit, FeatureCommand, Outcome, block_on,
};
use unslide_model::DebugId;

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[
        FeatureCommand { follows: "symbols", command: Arguments::command, run, key_kind: None },
        FeatureCommand {
            follows: "groups",
            command: suspects::Arguments::command,
            run: suspects::run,
            key_kind: None,
        },
    ],
    add_line: Some(commit::add_line),
    ..ClientFeature::new("changes")
};

/// The path of the operation.
const DIFF_PATH: &str = "/v1/builds/diff";

/// Compare builds by their symbols
#[derive(Parser)]
#[command(name = "builds")]
struct Arguments {
    #[command(subcommand)]
    command: BuildsCommand,
}

#[derive(Subcommand)]
enum BuildsCommand {
    /// List the functions that were edited between two builds
    Diff(Box<DiffArguments>),
}

#[derive(Parser)]
#[command(after_help = "\
A and B are dSYMs or folders with them on this machine, or debug ids of uploaded ones, for which the key needs the
scope reports:read. Functions are compared by their source lines relative to the first one, the calls that are inlined into them, and
the bytes of their code. Builds that another compiler or other flags made are said to be such.

Examples:
  unslide builds diff 2.4.0/MyApp.dSYM 2.4.1/MyApp.dSYM
  unslide builds diff 2.4.0/MyApp.dSYM 2.4.1/MyApp.dSYM --function Cart.total --json
  unslide builds diff 0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0 1f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0")]
struct DiffArguments {
    #[command(flatten)]
    server: ApiServer,
    #[command(flatten)]
    build: BuildArguments,
    /// The build before: a path or a debug id
    a: String,
    /// The build after: a path or a debug id
    b: String,
    /// Only the functions with this linkage name, or with this readable name without its parameters
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// The two builds, both on this machine or both on the server.
enum Builds {
    Local([PathBuf; 2]),
    Uploaded([DebugId; 2]),
}

fn run(matches: &ArgMatches) -> Outcome {
    let Arguments { command: BuildsCommand::Diff(arguments) } = Arguments::from_arg_matches(matches)?;
    let DiffArguments { server, build, a, b, function, json } = *arguments;
    let images = match read_builds([&a, &b])? {
        Builds::Local(paths) => local::diff_paths(paths, build, function.as_deref())?,
        Builds::Uploaded([a, b]) => {
            let query = [("a", Some(a.to_string())), ("b", Some(b.to_string())), ("function", function)];
            let path = with_query(DIFF_PATH, &filter_given(query))?;
            vec![block_on(async { Ok(Client::new(&server)?.get::<ImageDiff>(&path).await?) })?]
        }
    };
    if json {
        Console::get().print_json(&json!({ "images": images }))?;
    } else {
        print_images(&images);
    }
    Ok(Exit::Ready)
}

fn read_builds(names: [&str; 2]) -> Result<Builds, CommandError> {
    let exists = names.map(|name| PathBuf::from(name).exists());
    let ids = names.map(|name| name.parse::<DebugId>().ok());
    match (exists, ids) {
        ([true, true], _) => Ok(Builds::Local(names.map(PathBuf::from))),
        ([false, false], [Some(a), Some(b)]) => Ok(Builds::Uploaded([a, b])),
        _ => {
            let [a, b] = names;
            Err(CommandError::usage(format!(
                "{a} and {b} are neither two paths of this machine nor two debug ids"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_builds_are_files_or_both_are_debug_ids() {
        let id = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        assert!(matches!(read_builds([id, id]), Ok(Builds::Uploaded(_))));
        assert!(matches!(read_builds([".", ".."]), Ok(Builds::Local(_))));
        let error = read_builds([".", id]).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("neither two paths of this machine nor two debug ids"), "{error}");
        assert!(read_builds(["no/such.dSYM", id]).is_err());
    }
}
