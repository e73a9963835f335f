//! `unslide owners`: uploads CODEOWNERS files and path rewrites, and shows the owners of an app or a group.

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use unslide_cli::listing::{item_text, with_query};
use unslide_cli::{
    ApiServer, Client, ClientFeature, CommandError, Console, Exit, FeatureCommand, Outcome, block_on, say,
};
use unslide_model::GroupRef;

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "groups", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("owners")
};

const OWNERS_PATH: &str = "/v1/owners";
/// The most bytes of a file, as the API has it.
const MAX_FILE_BYTES: u64 = 3_000_000;

/// Upload CODEOWNERS files, and show whose the crashes of an app are
#[derive(Parser)]
#[command(
    name = "owners",
    after_help = "\
Uploads need the scope symbols:write, the rest reports:read.

Examples:
  unslide owners upload .github/CODEOWNERS --app com.example.shop --app-version 4.2.0
  unslide owners paths --app com.example.shop /Users/ci/build/shop/= /Users/ci/build/kit/=Packages/Kit
  unslide owners show --app com.example.shop
  unslide owners group SHOP-1A2B"
)]
struct Arguments {
    #[command(subcommand)]
    command: OwnersCommand,
}

#[derive(Subcommand)]
enum OwnersCommand {
    /// Upload a CODEOWNERS file of an app or of one of its versions; invalid lines are printed
    Upload(Upload),
    /// Set which folders of the repository folders of build machines are, in place of those before
    Paths(Paths),
    /// Show the files of an app, its crashes without an owner, and its owners
    Show(Show),
    /// Show the owners of a group, and which frame, path and line decided
    Group(Group),
}

#[derive(Args)]
struct Upload {
    #[command(flatten)]
    server: ApiServer,
    /// The file, at most 3 MB
    file: PathBuf,
    /// Bundle identifier of the app; a key for one app needs none
    #[arg(long)]
    app: Option<String>,
    /// The version whose groups the file is for; all versions without a file of their own if absent
    #[arg(long = "app-version", visible_alias = "version", value_name = "VERSION")]
    app_version: Option<String>,
    /// Rules by which the file is read; gitlab for a file in .gitlab, else github
    #[arg(long, value_enum)]
    dialect: Option<Dialect>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Paths {
    #[command(flatten)]
    server: ApiServer,
    /// Bundle identifier of the app; a key for one app needs none
    #[arg(long)]
    app: Option<String>,
    /// A folder of a build machine and the folder of the repository that it is; empty for the root
    #[arg(value_name = "FROM=TO")]
    paths: Vec<String>,
}

#[derive(Args)]
struct Show {
    #[command(flatten)]
    server: ApiServer,
    /// Bundle identifier of the app; a key for one app needs none
    #[arg(long)]
    app: Option<String>,
    /// Days whose crashes are counted
    #[arg(long, default_value_t = 30)]
    days: u32,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Group {
    #[command(flatten)]
    server: ApiServer,
    /// Id or short id of the group
    group: GroupRef,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Dialect {
    Github,
    Gitlab,
}

impl Dialect {
    /// Returns the dialect of a file by its folder.
    fn from_path(path: &Path) -> Dialect {
        let is_gitlab = path.components().any(|part| part.as_os_str() == ".gitlab");
        if is_gitlab { Dialect::Gitlab } else { Dialect::Github }
    }
}

fn run(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    block_on(async {
        match arguments.command {
            OwnersCommand::Upload(upload) => upload_file(&upload).await,
            OwnersCommand::Paths(paths) => set_paths(&paths).await,
            OwnersCommand::Show(show) => show_owners(&show).await,
            OwnersCommand::Group(group) => show_group(&group).await,
        }
    })
}

async fn upload_file(arguments: &Upload) -> Outcome {
    let path = &arguments.file;
    let mut bytes = Vec::new();
    let reading = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes));
    reading.map_err(|error| CommandError::cannot_read(path, error))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let text = format!("{} has more than {MAX_FILE_BYTES} bytes, which is the most", path.display());
        return Err(CommandError::usage(text).into());
    }
    let dialect = match arguments.dialect.unwrap_or_else(|| Dialect::from_path(path)) {
        Dialect::Github => "github",
        Dialect::Gitlab => "gitlab",
    };
    let mut query = vec![("dialect", dialect.to_owned())];
    for (name, value) in [("app", &arguments.app), ("version", &arguments.app_version)] {
        query.extend(value.clone().map(|value| (name, value)));
    }
    let path = with_query(OWNERS_PATH, &query)?;
    let stored: Value = Client::new(&arguments.server)?.send_bytes(&path, &bytes.into()).await?;
    if arguments.json {
        Console::get().print_json(&stored)?;
        return Ok(Exit::Ready);
    }
    say!(
        "{} lines with owners, {} invalid, read by the rules of {dialect}",
        stored["rules"],
        stored["problems"]
    );
    for one in stored["first_problems"].as_array().into_iter().flatten() {
        say!("line {}: {}", one["line"], item_text(one, "problem"));
    }
    Ok(Exit::Ready)
}

async fn set_paths(arguments: &Paths) -> Outcome {
    let pair = |text: &String| {
        let (from, to) = text.rsplit_once('=').ok_or_else(|| {
            CommandError::usage(format!("{text}: write FROM=TO, such as /Users/ci/build/shop/="))
        })?;
        Ok(json!({"from": from, "to": to}))
    };
    let paths: Vec<Value> = arguments.paths.iter().map(pair).collect::<Result<_, CommandError>>()?;
    let mut body = json!({ "paths": paths });
    if let Some(app) = &arguments.app {
        body["app"] = app.as_str().into();
    }
    let set: Value = Client::new(&arguments.server)?.put("/v1/owners/paths", &body).await?;
    say!("{} path rewrites of {}", set["paths"].as_array().map_or(0, Vec::len), item_text(&set, "app"));
    Ok(Exit::Ready)
}

async fn show_owners(arguments: &Show) -> Outcome {
    let mut query = vec![("days", arguments.days.to_string())];
    query.extend(arguments.app.clone().map(|app| ("app", app)));
    let found: Value = Client::new(&arguments.server)?.get(&with_query(OWNERS_PATH, &query)?).await?;
    if arguments.json {
        Console::get().print_json(&found)?;
        return Ok(Exit::Ready);
    }
    let shares = &found["shares"];
    let share =
        shares["share_without_owner"].as_f64().map(|share| format!(" ({share} %)")).unwrap_or_default();
    say!("{} of {} crashes without an owner{share}", shares["without_owner"], shares["crashes"]);
    if shares["failing_groups"].as_u64().is_some_and(|groups| groups > 0) {
        say!("{} groups whose report cannot be read", shares["failing_groups"]);
    }
    for file in found["files"].as_array().into_iter().flatten() {
        let version =
            file["version"].as_str().filter(|version| !version.is_empty()).unwrap_or("all versions");
        say!("file of {version}: {} lines, {} invalid", file["rules"], file["problems"]);
    }
    for one in found["owners"].as_array().into_iter().flatten() {
        say!("{:>8} crashes {:>6} groups  {}", one["crashes"], one["groups"], item_text(one, "owner"));
    }
    Ok(Exit::Ready)
}

async fn show_group(arguments: &Group) -> Outcome {
    let path = format!("/v1/groups/{}/owners", arguments.group);
    let found: Value = Client::new(&arguments.server)?.get(&path).await?;
    if arguments.json {
        Console::get().print_json(&found)?;
        return Ok(Exit::Ready);
    }
    let owners: Vec<&str> =
        found["owners"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let owners = if owners.is_empty() { "none".to_owned() } else { owners.join(", ") };
    say!("owner            {owners} ({})", item_text(&found, "outcome"));
    let why = &found["explanation"];
    for (label, member) in
        [("cause", "function"), ("source file", "path"), ("in repository", "repository_path")]
    {
        if let Some(text) = why[member].as_str() {
            say!("{label:<16} {text}");
        }
    }
    if let Some(failures) = found["failures"].as_u64() {
        say!("{:<16} {failures} looks in a row have failed: its report cannot be read", "failed");
    }
    for line in why["lines"].as_array().into_iter().flatten() {
        say!("{:<16} {}: {}", "line", line["line"], item_text(line, "pattern"));
    }
    Ok(Exit::Ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_gitlab_is_known_by_its_folder() {
        for (path, is_gitlab) in
            [(".gitlab/CODEOWNERS", true), ("a/.gitlab/CODEOWNERS", true), (".github/CODEOWNERS", false)]
        {
            assert_eq!(Dialect::from_path(Path::new(path)) == Dialect::Gitlab, is_gitlab, "{path}");
        }
    }
}
