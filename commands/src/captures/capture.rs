//! `unslide capture`: files that were recorded on a device and are analysed as a whole.

use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand};
use serde::Deserialize;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::NamedTempFile;
use unslide_captures_formats::CaptureKind;
use unslide_cli::listing::{ListForm, Listing, filter_given, item_text};
use unslide_cli::{
    ApiServer, Client, CommandError, Console, Exit, FormContent, FormFile, Outcome, block_on, check_paths,
    note, say,
};

/// The pause between two looks while waiting.
const ANALYSIS_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Send profiles and logs of allocations, and read their analyses
#[derive(Parser)]
#[command(name = "capture")]
pub struct Arguments {
    #[command(subcommand)]
    command: CaptureCommand,
}

#[derive(Subcommand)]
enum CaptureCommand {
    /// Send a profile, or a log of allocations, to be analysed with the symbols that were uploaded
    Send(SendArguments),
    /// List captures, newest first
    List(ListArguments),
    /// Print a capture with its analysis as JSON
    Show(ShowArguments),
}

/// Arguments of `unslide capture send`.
#[derive(Args)]
#[command(after_help = "\
The key needs the scope reports:write, and with --wait reports:read.

Examples:
  unslide capture send --app com.example.shop --app-version 2.4.1 hang.txt
  unslide capture send --app com.example.shop --memory-graph snapshot.memory
  unslide capture send --app com.example.shop --layout index --stacks stacks.bin --images report.json events.bin")]
struct SendArguments {
    #[command(flatten)]
    server: ApiServer,
    /// A profile, as `unslide flame` reads it; with --layout the events of a log of allocations. This and the other files
    /// are sent as they are, and may be .gz or .zst files. Standard input where it is `-`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Bundle identifier of the app that it was recorded in
    #[arg(long)]
    app: String,
    /// Version
    #[arg(long = "app-version", value_name = "VERSION")]
    app_version: Option<String>,
    /// The id of the session in which it was recorded
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// How the events of a log of allocations are laid out: disk, disk32 (of 32-bit processes), enumerator or index
    #[arg(long, requires = "stacks")]
    layout: Option<String>,
    /// The log's table of stacks, from slot 0 on
    #[arg(long, value_name = "TABLE", requires = "layout")]
    stacks: Option<PathBuf>,
    /// The log's binary images: a KSCrash report of the run, or its `binary_images`; also `usedImages` of an .ips file
    #[arg(long, value_name = "FILE", requires = "layout")]
    images: Option<PathBuf>,
    /// The slots of the log's table count references, as those of the lite mode do
    #[arg(long, requires = "layout")]
    lite: bool,
    /// What is live after this many events of the log; without it after all
    #[arg(long, value_name = "N", requires = "layout")]
    at: Option<u64>,
    /// Also what has grown since this many events of the log
    #[arg(long, value_name = "N", requires = "layout")]
    from: Option<u64>,
    /// FILE is a message unslide.signal.v1.StackSet
    #[arg(long, conflicts_with = "layout")]
    stack_set: bool,
    /// FILE is a graph of memory, as `unslide memory-graph` reads it
    #[arg(long, conflicts_with_all = ["layout", "stack_set"])]
    memory_graph: bool,
    /// Wait for the analysis
    #[arg(long)]
    wait: bool,
}

/// Arguments of `unslide capture list`.
#[derive(Args)]
struct ListArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Bundle identifier
    #[arg(long)]
    app: Option<String>,
    #[command(flatten)]
    form: ListForm,
}

/// Arguments of `unslide capture show`.
#[derive(Args)]
struct ShowArguments {
    #[command(flatten)]
    server: ApiServer,
    /// The capture's id
    id: String,
}

/// A capture that the API has accepted.
#[derive(Deserialize)]
struct SentCapture {
    id: String,
    /// The same was there before.
    existing: bool,
}

/// Runs a command on captures.
pub fn run(matches: &ArgMatches) -> Outcome {
    match Arguments::from_arg_matches(matches)?.command {
        CaptureCommand::Send(arguments) => send_capture(&arguments),
        CaptureCommand::List(arguments) => list_captures(arguments),
        CaptureCommand::Show(arguments) => block_on(async {
            let capture: Value =
                Client::new(&arguments.server)?.get(&format!("/v1/captures/{}", arguments.id)).await?;
            Console::get().print_json(&capture)?;
            Ok(Exit::Ready)
        }),
    }
}

fn send_capture(arguments: &SendArguments) -> Outcome {
    let kind = match &arguments.layout {
        Some(_) => CaptureKind::MallocLog,
        None if arguments.stack_set => CaptureKind::StackSet,
        None if arguments.memory_graph => CaptureKind::MemoryGraph,
        None => CaptureKind::Profile,
    };
    let query = filter_given([
        ("kind", Some(kind.to_string())),
        ("app", Some(arguments.app.clone())),
        ("version", arguments.app_version.clone()),
        ("session_id", arguments.session.clone()),
        ("layout", arguments.layout.clone()),
        ("lite", arguments.lite.then(|| "true".to_owned())),
        ("at", arguments.at.map(|at| at.to_string())),
        ("from", arguments.from.map(|from| from.to_string())),
    ]);
    let parts = [arguments.stacks.as_deref(), arguments.images.as_deref()];
    check_paths(parts.into_iter().flatten().chain([arguments.file.as_path()]))?;
    // Input from a pipe is kept for another try.
    let spool = match arguments.file.as_os_str() == "-" {
        true => Some(spooled_input().map_err(|error| CommandError::cannot_read(&arguments.file, error))?),
        false => None,
    };
    let files = form_files(arguments, spool.as_ref().map_or(arguments.file.as_path(), NamedTempFile::path));
    block_on(async {
        let client = Client::new(&arguments.server)?;
        let sent: SentCapture = client.send_form("/v1/captures", &query, &files).await?;
        say!("{}{}", sent.id, if sent.existing { "  was sent before" } else { "" });
        if !arguments.wait {
            return Ok(Exit::Ready);
        }
        loop {
            let capture: Value = client.get(&format!("/v1/captures/{}", sent.id)).await?;
            match capture["state"].as_str() {
                Some("ready") => {
                    for part in capture["analysis"]["skipped"].as_array().into_iter().flatten() {
                        note!("{} {}", part["count"], item_text(part, "what"));
                    }
                    return Ok(Exit::Ready);
                }
                Some("failed") => {
                    note!("{}: {}", item_text(&capture, "reason"), item_text(&capture, "detail"));
                    return Ok(Exit::Failed);
                }
                _ => tokio::time::sleep(ANALYSIS_POLL_INTERVAL).await,
            }
        }
    })
}

/// Copies standard input to a temporary file.
fn spooled_input() -> io::Result<NamedTempFile> {
    let mut spool = NamedTempFile::new()?;
    io::copy(&mut io::stdin().lock(), &mut spool)?;
    Ok(spool)
}

fn form_files(arguments: &SendArguments, file: &Path) -> Vec<FormFile> {
    let named = match arguments.stacks.as_deref() {
        None => [("file", Some(file)), ("stacks", None), ("images", None)],
        stacks => [("events", Some(file)), ("stacks", stacks), ("images", arguments.images.as_deref())],
    };
    let file = |(name, path): (&'static str, Option<&Path>)| {
        Some(FormFile { name, content: FormContent::File(path?.to_path_buf()) })
    };
    named.into_iter().filter_map(file).collect()
}

fn list_captures(arguments: ListArguments) -> Outcome {
    let listing = Listing {
        path: "/v1/captures",
        query: filter_given([("app", arguments.app)]),
        limit: 50,
        head: &["ID", "RECEIVED", "APP", "VERSION", "KIND", "STATE", "REASON"],
        row: |capture| {
            ["id", "received_at", "app", "version", "kind", "state", "reason"]
                .map(|name| item_text(capture, name))
        },
        empty: "no capture matches",
    };
    block_on(async { arguments.form.print_list(listing, &Client::new(&arguments.server)?).await })
}
