//! `unslide parquet-export`: reports as Parquet files in a bucket of the tenant's own.

use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;
use unslide_cli::input::read_text_file;
use unslide_cli::listing::item_text;
use unslide_cli::{
    ApiServer, Client, ClientFeature, CommandError, Console, Exit, FeatureCommand, Outcome, block_on,
    confirm_action, print_trial, say,
};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "reports", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("parquet-export")
};

const EXPORT_PATH: &str = "/v1/parquet-export";
/// The most bytes of a file with a secret.
const FILE_BYTES_LIMIT: u64 = 4 << 10;

/// Write reports as Parquet files into a bucket of your own, day by day
#[derive(Parser)]
#[command(
    name = "parquet-export",
    after_help = "\
The key of the API needs the scope tenant:admin.

Examples:
  unslide parquet-export set --bucket lake --prefix crashes --region eu-central-1 --access-key AKIAIOSFODNN7EXAMPLE --secret-key-file secret.txt
  unslide parquet-export set --address https://storage.googleapis.com --bucket lake --access-key GOOG1EXAMPLE --secret-key-file hmac.txt --from-start
  unslide parquet-export test
  unslide parquet-export show"
)]
struct Arguments {
    #[command(subcommand)]
    command: ExportCommand,
}

#[derive(Subcommand)]
enum ExportCommand {
    /// Set the bucket
    Set(Box<SetArguments>),
    /// Show the export without its credentials, and why the last turn failed
    Show(Target),
    /// Write a small object into the bucket and delete it, and show what it answers
    Test(Target),
    /// Write no more; on a terminal it asks first
    Remove {
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

#[derive(Args)]
struct SetArguments {
    #[command(flatten)]
    target: Target,
    /// Bucket for the files
    #[arg(long)]
    bucket: String,
    /// Folder in the bucket with reports/ and manifests/
    #[arg(long)]
    prefix: Option<String>,
    /// Region of the bucket [default: us-east-1]
    #[arg(long)]
    region: Option<String>,
    /// URL of a service with the interface of S3 [default: AWS]
    #[arg(long, value_name = "URL")]
    address: Option<String>,
    /// Id of the access key
    #[arg(long, value_name = "ID")]
    access_key: String,
    /// File with the secret of the access key. Without it, the one of the same bucket and key stays
    #[arg(long, value_name = "FILE")]
    secret_key_file: Option<PathBuf>,
    /// Write all days that are kept, and not only those from today on
    #[arg(long)]
    from_start: bool,
}

fn run(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    block_on(async {
        match arguments.command {
            ExportCommand::Set(set) => {
                let done: Value =
                    Client::new(&set.target.server)?.put(EXPORT_PATH, &build_body(&set)?).await?;
                print_export(&done, Some(&done), set.target.json)
            }
            ExportCommand::Show(target) => {
                let setting: Value = Client::new(&target.server)?.get(EXPORT_PATH).await?;
                print_export(&setting, setting.get("export"), target.json)
            }
            ExportCommand::Test(target) => {
                let path = format!("{EXPORT_PATH}/test");
                print_test(&Client::new(&target.server)?.post(&path, &json!({})).await?, target.json)
            }
            ExportCommand::Remove { server, yes } => {
                confirm_action("No more files are written; those in the bucket stay.", yes)?;
                Client::new(&server)?.delete(EXPORT_PATH).await?;
                say!("removed");
                Ok(Exit::Ready)
            }
        }
    })
}

fn build_body(arguments: &SetArguments) -> Result<Value, CommandError> {
    let mut body = json!({
        "bucket": arguments.bucket, "access_key": arguments.access_key, "from_start": arguments.from_start
    });
    let texts =
        [("address", &arguments.address), ("prefix", &arguments.prefix), ("region", &arguments.region)];
    for (name, text) in texts {
        if let Some(text) = text {
            body[name] = text.as_str().into();
        }
    }
    if let Some(path) = &arguments.secret_key_file {
        body["secret_key"] = read_text_file(path, FILE_BYTES_LIMIT)?.trim().into();
    }
    Ok(body)
}

fn print_export(answer: &Value, export: Option<&Value>, as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(answer)?;
        return Ok(Exit::Ready);
    }
    let Some(export) = export else {
        say!("no Parquet files are written: `unslide parquet-export set` names a bucket");
        return Ok(Exit::Ready);
    };
    say!("{}", item_text(export, "address"));
    for (label, member) in [("first day", "first_day"), ("next day", "next_day")] {
        say!("  {label:<12}  {}", item_text(export, member));
    }
    say!("  changed days  {}", export["changed_days"]);
    say!("  written       {}", export["written_at"].as_str().unwrap_or("not yet"));
    for (label, member) in [("problem", "problem"), ("next try", "waits_until")] {
        if let Some(text) = export[member].as_str() {
            say!("  {label:<12}  {text}");
        }
    }
    Ok(Exit::Ready)
}

fn print_test(test: &Value, as_json: bool) -> Outcome {
    print_trial(test, as_json, || {
        say!("PUT and DELETE …/{}", item_text(test, "path"));
        if let Some(status) = test["status"].as_u64() {
            say!("answered  {status}");
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_needs_a_bucket_and_a_key() {
        Arguments::command().build();
        let is_valid = |given: &[&str]| {
            let line = ["parquet-export", "set"].iter().chain(given);
            Arguments::command().try_get_matches_from(line).is_ok()
        };
        assert!(is_valid(&["--bucket", "lake", "--access-key", "A"]));
        assert!(is_valid(&[
            "--bucket",
            "lake",
            "--access-key",
            "A",
            "--secret-key-file",
            "s",
            "--from-start"
        ]));
        assert!(!is_valid(&["--bucket", "lake"]));
        assert!(!is_valid(&["--access-key", "A"]));
    }
}
