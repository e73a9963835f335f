//! `unslide symbol-source`: buckets and symbol servers of a tenant's own.

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use unslide_cli::input::read_text_file;
use unslide_cli::listing::item_text;
use unslide_cli::{
    ApiServer, Client, ClientFeature, CommandError, Console, Exit, FeatureCommand, Outcome, block_on,
    confirm_action, print_trial, say,
};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "symbols", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("symbol-sources")
};

const SOURCES_PATH: &str = "/v1/symbol-sources";
/// The most bytes of a file with a secret.
const FILE_BYTES_LIMIT: u64 = 4 << 10;

/// Name buckets and symbol servers that are asked for symbols no upload has brought
#[derive(Parser)]
#[command(
    name = "symbol-source",
    after_help = "\
The key of the API needs the scope tenant:admin.

Examples:
  unslide symbol-source set builds --bucket builds --prefix dsyms --region eu-central-1 --access-key AKIAIOSFODNN7EXAMPLE --secret-key-file secret.txt
  unslide symbol-source set gcs --address https://storage.googleapis.com --bucket builds --access-key GOOG1EXAMPLE --secret-key-file hmac.txt
  unslide symbol-source set server --address https://symbols.example.com --layout debuginfod --authorization-file header.txt
  unslide symbol-source test builds 0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0
  unslide symbol-source list"
)]
struct Arguments {
    #[command(subcommand)]
    command: SourceCommand,
}

#[derive(Subcommand)]
enum SourceCommand {
    /// Set a source. With --bucket it is a bucket with the interface of S3, otherwise a symbol server
    Set(Box<SetArguments>),
    /// Show the sources without their credentials, and why the last request failed
    List(Target),
    /// Ask a source for one debug id, and show what it answers
    Test {
        /// Name of the source
        name: String,
        /// Debug id of the image [default: the one that a report wanted last]
        debug_id: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Ask a source no more; on a terminal it asks first
    Remove {
        /// Name of the source
        name: String,
        #[command(flatten)]
        server: ApiServer,
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Args)]
struct Target {
    #[command(flatten)]
    server: ApiServer,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// The layout of the files.
#[derive(Clone, Copy, ValueEnum)]
enum Layout {
    /// 0f/1e2d3c…/debuginfo
    Unified,
    /// buildid/0f1e2d3c…/debuginfo
    Debuginfod,
    /// 0F1E/2D3C/4B5A/6978/8796/A5B4C3D2E1F0
    Lldb,
}

impl Layout {
    fn as_word(self) -> &'static str {
        match self {
            Layout::Unified => "unified",
            Layout::Debuginfod => "debuginfod",
            Layout::Lldb => "lldb",
        }
    }
}

#[derive(Args)]
struct SetArguments {
    /// Name of the source: lower case letters, digits and -
    name: String,
    #[command(flatten)]
    target: Target,
    /// Layout of the files
    #[arg(long, value_enum, default_value_t = Layout::Unified)]
    layout: Layout,
    /// URL of a symbol server, or of a service with the interface of S3 [default for buckets: AWS]
    #[arg(long, value_name = "URL", required_unless_present_any = ["address_file", "bucket"])]
    address: Option<String>,
    /// File with that URL, if it is a secret
    #[arg(long, value_name = "FILE", conflicts_with = "address")]
    address_file: Option<PathBuf>,
    /// Bucket with the files
    #[arg(long)]
    bucket: Option<String>,
    /// Folder in the bucket
    #[arg(long, requires = "bucket")]
    prefix: Option<String>,
    /// Region of the bucket [default: us-east-1]
    #[arg(long, requires = "bucket")]
    region: Option<String>,
    /// Id of the access key; none for a public bucket
    #[arg(long, value_name = "ID", requires = "bucket")]
    access_key: Option<String>,
    /// File with the secret of the access key. Without it, the one of the same bucket and key stays
    #[arg(long, value_name = "FILE", requires = "access_key")]
    secret_key_file: Option<PathBuf>,
    /// File with the value of the header Authorization, such as `Bearer …`. Without it, the one of the same URL stays
    #[arg(long, value_name = "FILE", conflicts_with = "bucket")]
    authorization_file: Option<PathBuf>,
}

fn run(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    block_on(async {
        match arguments.command {
            SourceCommand::Set(set) => {
                let done: Value =
                    Client::new(&set.target.server)?.put(SOURCES_PATH, &build_body(&set)?).await?;
                print_sources(&done, std::slice::from_ref(&done), set.target.json)
            }
            SourceCommand::List(target) => {
                let list: Value = Client::new(&target.server)?.get(SOURCES_PATH).await?;
                let sources = list["sources"].as_array().map(Vec::as_slice).unwrap_or_default();
                print_sources(&list, sources, target.json)
            }
            SourceCommand::Test { name, debug_id, target } => {
                let path = format!("{SOURCES_PATH}/{name}/test");
                let question = debug_id.map_or_else(|| json!({}), |id| json!({"debug_id": id}));
                print_test(&Client::new(&target.server)?.post(&path, &question).await?, target.json)
            }
            SourceCommand::Remove { name, server, yes } => {
                confirm_action("The source is asked no more; symbols that it has brought stay.", yes)?;
                Client::new(&server)?.delete(&format!("{SOURCES_PATH}/{name}")).await?;
                say!("removed");
                Ok(Exit::Ready)
            }
        }
    })
}

fn build_body(arguments: &SetArguments) -> Result<Value, CommandError> {
    let kind = if arguments.bucket.is_some() { "s3" } else { "http" };
    let mut body = json!({"name": arguments.name, "kind": kind, "layout": arguments.layout.as_word()});
    let texts = [
        ("address", &arguments.address),
        ("bucket", &arguments.bucket),
        ("prefix", &arguments.prefix),
        ("region", &arguments.region),
        ("access_key", &arguments.access_key),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            body[name] = text.as_str().into();
        }
    }
    let files = [
        ("address", &arguments.address_file),
        ("secret_key", &arguments.secret_key_file),
        ("authorization", &arguments.authorization_file),
    ];
    for (name, path) in files {
        if let Some(path) = path {
            body[name] = read_secret(path)?.into();
        }
    }
    Ok(body)
}

fn read_secret(path: &Path) -> Result<String, CommandError> {
    Ok(read_text_file(path, FILE_BYTES_LIMIT)?.trim().to_owned())
}

fn print_sources(answer: &Value, sources: &[Value], as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(answer)?;
        return Ok(Exit::Ready);
    }
    if sources.is_empty() {
        say!("no source is asked for symbols: `unslide symbol-source set` sets one");
    }
    for source in sources {
        let [name, kind, layout, address] =
            ["name", "kind", "layout", "address"].map(|member| item_text(source, member));
        say!("{name}  {kind}  {layout}  {address}");
        say!("  answered   {}", source["answered_at"].as_str().unwrap_or("not yet"));
        say!("  found      {}", source["found_at"].as_str().unwrap_or("nothing yet"));
        for (label, member) in [("problem", "problem"), ("next try", "waits_until")] {
            if let Some(text) = source[member].as_str() {
                say!("  {label:<9}  {text}");
            }
        }
    }
    Ok(Exit::Ready)
}

fn print_test(test: &Value, as_json: bool) -> Outcome {
    print_trial(test, as_json, || {
        say!("GET …/{}", item_text(test, "path"));
        if let Some(status) = test["status"].as_u64() {
            say!("answered  {status}");
        }
        if let Some(size) = test["size"].as_u64() {
            say!("bytes     {size}");
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_bucket_or_a_server() {
        Arguments::command().build();
        let is_valid = |given: &[&str]| {
            let line = ["symbol-source", "set", "builds"].iter().chain(given);
            Arguments::command().try_get_matches_from(line).is_ok()
        };
        assert!(is_valid(&["--bucket", "builds", "--access-key", "A", "--secret-key-file", "s"]));
        assert!(is_valid(&["--bucket", "builds", "--address", "https://storage.googleapis.com"]));
        assert!(is_valid(&["--address", "https://a.example.com", "--layout", "debuginfod"]));
        assert!(is_valid(&["--address-file", "a", "--authorization-file", "b"]));
        assert!(!is_valid(&[]));
        assert!(!is_valid(&["--address", "https://a.example.com", "--access-key", "A"]));
        assert!(!is_valid(&["--bucket", "builds", "--authorization-file", "b"]));
        assert!(!is_valid(&["--bucket", "builds", "--layout", "other"]));
    }
}
