//! `unslide audit-log`: the audit log as it grows, and the servers that get it.

use clap::{ArgGroup, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use unslide_cli::input::read_text_file;
use unslide_cli::listing::{filter_given, item_text, with_query};
use unslide_cli::{
    ApiServer, Client, ClientError, ClientFeature, CommandError, Console, Exit, FeatureCommand, Outcome,
    block_on, confirm_action, note, print_trial, say,
};

/// Everything that the feature adds to the command line.
pub const FEATURE: ClientFeature = ClientFeature {
    commands: &[FeatureCommand { follows: "key", command: Arguments::command, run, key_kind: None }],
    ..ClientFeature::new("audit-export")
};

/// The log in the API: the newest entry first, in the order of its places, and its receivers.
const NEWEST_PATH: &str = "/v1/audit-log?limit=1";
const ENTRIES_PATH: &str = "/v1/audit-log/entries";
const RECEIVERS_PATH: &str = "/v1/audit-log/receivers";
/// Entries of one request.
const ENTRIES_LIMIT: usize = 500;
/// The most bytes of a file with a URL, a secret or certificates.
const FILE_BYTES_LIMIT: u64 = 32 << 10;

/// Follow the audit log, or have it sent to servers as it grows
#[derive(Parser)]
#[command(
    name = "audit-log",
    after_help = "\
The key of the API needs the scope tenant:admin.

Examples:
  unslide audit-log follow
  unslide audit-log follow --after 0198c0de-0000-7000-8000-000000000001 | tee -a audit.ndjson
  unslide audit-log set siem --webhook-file url.txt
  unslide audit-log set collector --syslog siem.example.com:6514 --authority ca.pem
  unslide audit-log test siem
  unslide audit-log receivers"
)]
struct Arguments {
    #[command(subcommand)]
    command: AuditLogCommand,
}

#[derive(Subcommand)]
enum AuditLogCommand {
    /// Print new entries as a JSON object a line, until Ctrl-C
    Follow(FollowArguments),
    /// Set a server that gets each entry as it is written. The secret of a webhook is shown once, if it was made
    Set(Box<SetArguments>),
    /// Show the servers without their secrets, and how many entries wait for them
    Receivers(Target),
    /// Send a test entry to a server, and show what was sent and answered
    Test {
        /// Name of the server
        name: String,
        #[command(flatten)]
        target: Target,
    },
    /// Send no more to a server; on a terminal it asks first
    Remove {
        /// Name of the server
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

#[derive(Args)]
struct FollowArguments {
    #[command(flatten)]
    server: ApiServer,
    /// Begin after the entry with this id; `start`: with the first entry [default: with the next entry]
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// End when all entries that are there were printed
    #[arg(long)]
    once: bool,
    /// Seconds between two requests
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    interval: u64,
}

#[derive(Args)]
#[command(group(ArgGroup::new("kind").required(true).args(["webhook", "webhook_file", "syslog"])))]
struct SetArguments {
    /// Name of the server: lower case letters, digits and -
    name: String,
    #[command(flatten)]
    target: Target,
    /// URL that gets signed requests
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// File with that URL, if it is a secret
    #[arg(long, value_name = "FILE")]
    webhook_file: Option<PathBuf>,
    /// Server of syslog over TLS; port 6514 if none is named
    #[arg(long, value_name = "HOST:PORT")]
    syslog: Option<String>,
    /// File with the secret that signs requests. Without it, the one of the same URL stays, or one is made
    #[arg(long, value_name = "FILE", conflicts_with = "syslog")]
    secret_file: Option<PathBuf>,
    /// File with the certificates of the authority that has to have signed the certificate of the syslog server
    #[arg(long, value_name = "FILE", conflicts_with_all = ["webhook", "webhook_file"])]
    authority: Option<PathBuf>,
    /// Send the log from its first entry on
    #[arg(long)]
    from_start: bool,
}

fn run(matches: &ArgMatches) -> Outcome {
    let arguments = Arguments::from_arg_matches(matches)?;
    block_on(async {
        match arguments.command {
            AuditLogCommand::Follow(follow) => follow_log(&follow).await,
            AuditLogCommand::Set(set) => {
                let done: Value =
                    Client::new(&set.target.server)?.put(RECEIVERS_PATH, &build_body(&set)?).await?;
                print_receivers(&done, std::slice::from_ref(&done), set.target.json)
            }
            AuditLogCommand::Receivers(target) => {
                let list: Value = Client::new(&target.server)?.get(RECEIVERS_PATH).await?;
                let receivers = list["receivers"].as_array().map(Vec::as_slice).unwrap_or_default();
                print_receivers(&list, receivers, target.json)
            }
            AuditLogCommand::Test { name, target } => {
                let path = format!("{RECEIVERS_PATH}/{name}/test");
                print_test(&Client::new(&target.server)?.post(&path, &json!({})).await?, target.json)
            }
            AuditLogCommand::Remove { name, server, yes } => {
                confirm_action("The server gets no more entries; the log stays.", yes)?;
                Client::new(&server)?.delete(&format!("{RECEIVERS_PATH}/{name}")).await?;
                say!("removed");
                Ok(Exit::Ready)
            }
        }
    })
}

/// Prints entries in the order in which they were written. A service that does not answer is asked again: no entry is lost.
async fn follow_log(arguments: &FollowArguments) -> Outcome {
    let client = Client::new(&arguments.server)?;
    let mut after = match arguments.after.as_deref() {
        Some("start") => None,
        Some(id) => Some(id.to_owned()),
        None if arguments.once => None,
        None => newest_id(&client.get(NEWEST_PATH).await?),
    };
    let mut is_known = false;
    loop {
        let query = filter_given([("after", after.clone()), ("limit", Some(ENTRIES_LIMIT.to_string()))]);
        let answer: Result<Value, ClientError> = client.get(&with_query(ENTRIES_PATH, &query)?).await;
        let count = match answer {
            Ok(page) => {
                is_known = true;
                let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
                items.iter().for_each(|entry| say!("{entry}"));
                after = items.last().and_then(|entry| entry["id"].as_str()).map(str::to_owned).or(after);
                items.len()
            }
            Err(error) if is_known && !arguments.once && error.may_pass() => {
                note!("the API does not answer; trying again");
                0
            }
            Err(error) => return Err(error.into()),
        };
        if Console::get().is_closed() || (arguments.once && count < ENTRIES_LIMIT) {
            return Ok(Exit::Ready);
        }
        if count < ENTRIES_LIMIT {
            tokio::time::sleep(Duration::from_secs(arguments.interval)).await;
        }
    }
}

/// Returns the id of the newest entry of a page.
fn newest_id(page: &Value) -> Option<String> {
    page["items"][0]["id"].as_str().map(str::to_owned)
}

fn build_body(arguments: &SetArguments) -> Result<Value, CommandError> {
    let (kind, address) = match (&arguments.webhook, &arguments.webhook_file, &arguments.syslog) {
        (Some(url), _, _) => ("webhook", url.clone()),
        (None, Some(path), _) => ("webhook", read_text_file(path, FILE_BYTES_LIMIT)?.trim().to_owned()),
        (None, None, server) => ("syslog", server.clone().unwrap_or_default()),
    };
    let mut body = json!({
        "name": arguments.name, "kind": kind, "address": address, "from_start": arguments.from_start,
    });
    if let Some(path) = &arguments.secret_file {
        body["secret"] = read_text_file(path, FILE_BYTES_LIMIT)?.trim().into();
    }
    if let Some(path) = &arguments.authority {
        body["authority"] = read_text_file(path, FILE_BYTES_LIMIT)?.into();
    }
    Ok(body)
}

fn print_receivers(answer: &Value, receivers: &[Value], as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(answer)?;
        return Ok(Exit::Ready);
    }
    if receivers.is_empty() {
        say!("no server gets the audit log: `unslide audit-log set` sets one");
    }
    for receiver in receivers {
        let [name, kind, address] = ["name", "kind", "address"].map(|member| item_text(receiver, member));
        say!("{name}  {kind}  {address}");
        say!("  waiting    {} entries after number {}", receiver["waiting"], receiver["position"]);
        say!("  last sent  {}", receiver["sent_at"].as_str().unwrap_or("not yet"));
        for (label, member) in [("problem", "problem"), ("next try", "waits_until"), ("secret", "new_secret")]
        {
            if let Some(text) = receiver[member].as_str() {
                say!("  {label:<9}  {text}");
            }
        }
    }
    Ok(Exit::Ready)
}

fn print_test(test: &Value, as_json: bool) -> Outcome {
    print_trial(test, as_json, || {
        say!("{}", item_text(test, "sent"));
        if let Some(status) = test["status"].as_u64() {
            say!("answered  {status}");
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_webhook_or_one_of_syslog() {
        Arguments::command().build();
        let is_valid = |given: &[&str]| {
            let line = ["audit-log", "set", "siem"].iter().chain(given);
            Arguments::command().try_get_matches_from(line).is_ok()
        };
        assert!(is_valid(&["--webhook", "https://siem.example.com/a", "--secret-file", "s"]));
        assert!(is_valid(&["--syslog", "siem.example.com:6514", "--authority", "ca.pem"]));
        assert!(!is_valid(&[]));
        assert!(!is_valid(&["--webhook", "https://a.example.com", "--syslog", "a.example.com"]));
        assert!(!is_valid(&["--syslog", "a.example.com", "--secret-file", "s"]));
        assert!(!is_valid(&["--webhook", "https://a.example.com", "--authority", "ca.pem"]));
    }
}
