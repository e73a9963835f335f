//! `unslide dead-letter`: lists, shows and replays dead letters.

use crate::prelude::*;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;
use unslide_cli::confirm_action;
use unslide_cli::listing::{ListForm, Listing, filter_given, item_text};
use unslide_model::{Clock as _, SystemClock};
use unslide_model::{Moment, format_time};

/// How long to wait until the indexer has replayed a record: it looks for requests every few seconds.
const REPLAY_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between two questions how a replay is.
const REPLAY_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The commands on dead letters. Keys of a tenant's administrator see the tenant's own.
#[derive(Subcommand)]
pub enum Command {
    /// List dead letters, newest first
    List {
        #[command(flatten)]
        server: ApiServer,
        #[command(flatten)]
        which: Which,
        /// Only those with this status: waiting, requested, replayed, failed or past_retention
        #[arg(long)]
        status: Option<String>,
        #[command(flatten)]
        form: ListForm,
    },
    /// Show one dead letter, or save its bytes
    Show {
        #[command(flatten)]
        server: ApiServer,
        /// Its id, as `dead-letter list` shows it
        id: String,
        /// Of any tenant or without one: for operators
        #[arg(long)]
        all: bool,
        /// Write its bytes to this file as well; `-` for standard output, and nothing else there
        #[arg(long, value_name = "FILE")]
        body: Option<PathBuf>,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Process dead letters once more: one by its id, or all that fit and wait for a replay
    Replay {
        #[command(flatten)]
        server: ApiServer,
        /// Its id, as `dead-letter list` shows it; without one all that the options name and that were not
        /// replayed, and without options all: on a terminal that is asked first
        #[arg(conflicts_with_all = ["stage", "reason", "from", "to", "tenant", "dry_run"])]
        id: Option<String>,
        #[command(flatten)]
        which: Which,
        /// Also if it was replayed already
        #[arg(long, requires = "id")]
        again: bool,
        /// Do not ask before everything is replayed
        #[arg(long, conflicts_with = "id")]
        yes: bool,
        /// Count the dead letters, and replay none
        #[arg(long)]
        dry_run: bool,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
}

/// Filters that choose dead letters.
#[derive(Args)]
pub struct Which {
    /// The stage that could not process them: symbolize, read or store
    #[arg(long)]
    stage: Option<String>,
    /// Why they are dead, such as `not_json`
    #[arg(long)]
    reason: Option<String>,
    /// Arrived from here on: a day such as yesterday or 2026-11-20, a time, or a duration before now such as 12h or 1w
    #[arg(long, value_name = "TIME")]
    from: Option<Moment>,
    /// Arrived before here: as --from
    #[arg(long, value_name = "TIME")]
    to: Option<Moment>,
    /// Of all tenants, also those without one: for operators
    #[arg(long)]
    all: bool,
    /// Of this tenant; empty: those without a tenant. For operators
    #[arg(long, requires = "all")]
    tenant: Option<String>,
}

impl Which {
    /// Returns true if an argument selects dead letters.
    fn is_narrow(&self) -> bool {
        let texts = [&self.stage, &self.reason, &self.tenant];
        texts.into_iter().any(Option::is_some) || self.from.is_some() || self.to.is_some()
    }

    fn query_pairs(&self) -> Vec<(&'static str, String)> {
        let now = SystemClock.now_micros() / 1_000;
        let time = |moment: Option<Moment>| moment.map(|moment| format_time(moment.to_millis(now)));
        filter_given([
            ("stage", self.stage.clone()),
            ("reason", self.reason.clone()),
            ("from", time(self.from)),
            ("to", time(self.to)),
            ("tenant", self.tenant.clone()),
        ])
    }
}

/// Returns the path of the dead letters: the tenant's own, or all.
fn base_path(all: bool) -> &'static str {
    if all { "/v1/operator/dead-letters" } else { "/v1/dead-letters" }
}

/// Runs a command on dead letters.
pub fn run(command: Command) -> Outcome {
    block_on(async {
        match command {
            Command::List { server, which, status, form } => {
                list_dead_letters(&Client::new(&server)?, &which, status, form).await
            }
            Command::Show { server, id, all, body, json } => {
                show_dead_letter(&Client::new(&server)?, &id, all, body, json).await
            }
            Command::Replay { server, id: Some(id), which, again, json, .. } => {
                replay_one(&Client::new(&server)?, &id, which.all, again, json).await
            }
            Command::Replay { server, id: None, which, dry_run, yes, json, .. } => {
                if !which.is_narrow() && !dry_run {
                    let of = if which.all { "of all tenants" } else { "of the tenant" };
                    confirm_action(
                        &format!("This replays every dead letter {of} that was not replayed."),
                        yes,
                    )?;
                }
                replay_many(&Client::new(&server)?, &which, dry_run, json).await
            }
        }
    })
}

async fn list_dead_letters(
    client: &Client,
    which: &Which,
    status: Option<String>,
    form: ListForm,
) -> Outcome {
    let status = status.map(|status| ("status", status));
    let listing = Listing {
        path: base_path(which.all),
        query: which.query_pairs().into_iter().chain(status).collect(),
        limit: 50,
        head: &[
            "ID",
            "ARRIVED",
            "TENANT",
            "STAGE",
            "REASON",
            "BYTES",
            "STATUS",
            "REPLAYS",
            "LAST REPLAY",
            "DETAIL",
        ],
        row: |letter| {
            [
                item_text(letter, "id"),
                item_text(letter, "arrived_at"),
                item_text(letter, "tenant"),
                item_text(letter, "stage"),
                item_text(letter, "reason"),
                letter["value_bytes"].as_u64().map(|bytes| bytes.to_string()).unwrap_or_default(),
                item_text(letter, "status"),
                letter["replays"].as_u64().unwrap_or(0).to_string(),
                item_text(letter, "replayed_at"),
                item_text(letter, "detail"),
            ]
        },
        empty: "no dead letter matches",
    };
    form.print_list(listing, client).await
}

async fn show_dead_letter(
    client: &Client,
    id: &str,
    all: bool,
    body: Option<PathBuf>,
    as_json: bool,
) -> Outcome {
    let address = format!("{}/{id}", base_path(all));
    let bytes = match &body {
        Some(_) => client.get_bytes(&format!("{address}/body"), "*/*").await?,
        None => None,
    };
    match body {
        Some(file) if file.as_os_str() == "-" => {
            Console::get().write_bytes(&bytes.unwrap_or_default());
            return Ok(Exit::Ready);
        }
        Some(file) => std::fs::write(file, bytes.unwrap_or_default())?,
        None => {}
    }
    let letter: Value = client.get(&address).await?;
    if as_json {
        Console::get().print_json(&letter)?;
        return Ok(Exit::Ready);
    }
    let facts = letter.as_object().ok_or("the answer is no object")?;
    for (name, value) in facts.iter().filter(|(name, _)| name.as_str() != "headers") {
        say!("{name}\t{}", format_flat(value));
    }
    for header in letter["headers"].as_array().into_iter().flatten() {
        say!("header {}\t{}", format_flat(&header["name"]), format_flat(&header["value"]));
    }
    Ok(Exit::Ready)
}

/// Returns a value on one line: texts unchanged, places as `topic/partition/offset`.
fn format_flat(value: &Value) -> String {
    let line = |text: &str| text.replace('\n', " ");
    match value {
        Value::String(text) => line(text),
        Value::Object(members) => match (members.get("topic"), members.get("text")) {
            (Some(Value::String(topic)), _) => format!("{topic}/{}/{}", value["partition"], value["offset"]),
            (_, Some(Value::String(text))) => line(text),
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

async fn replay_one(client: &Client, id: &str, all: bool, again: bool, as_json: bool) -> Outcome {
    let address = format!("{}/{id}", base_path(all));
    let mut done: Value = client.post(&format!("{address}/replay"), &json!({ "again": again })).await?;
    if let Some(warning) = done["warning"].as_str() {
        note!("{warning}");
    }
    let end = Instant::now() + REPLAY_TIMEOUT;
    while done["status"] == "requested" && Instant::now() < end {
        tokio::time::sleep(REPLAY_POLL_INTERVAL).await;
        done = client.get(&address).await?;
    }
    if as_json {
        Console::get().print_json(&done)?;
    }
    replay_result(id, &done, as_json)
}

/// Prints how a replay ended, or returns that it failed.
fn replay_result(id: &str, done: &Value, is_printed: bool) -> Outcome {
    let detail = done["replay_detail"].as_str().unwrap_or_default();
    match done["status"].as_str().unwrap_or_default() {
        "replayed" if is_printed => Ok(Exit::Ready),
        "replayed" => {
            match done["replayed_as"].as_str() {
                Some(record) => say!("{id}\treplayed as {record}"),
                None => say!("{id}\tstored"),
            }
            Ok(Exit::Ready)
        }
        "past_retention" => Err(CommandError::missing(format!("{id} is past retention: {detail}")).into()),
        "failed" => Err(format!("{id} failed again: {detail}").into()),
        _ => Err(format!("{id} is not replayed yet: `unslide dead-letter list` shows how it ends").into()),
    }
}

async fn replay_many(client: &Client, which: &Which, dry_run: bool, as_json: bool) -> Outcome {
    let address = format!("{}/replay", base_path(which.all));
    let mut wish: serde_json::Map<String, Value> =
        which.query_pairs().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    wish.insert("dry_run".to_owned(), dry_run.into());
    if !which.is_narrow() {
        wish.insert("all".to_owned(), true.into());
    }
    let wish = Value::Object(wish);
    let mut sum: Option<Value> = None;
    loop {
        let done: Value = client.post(&address, &wish).await?;
        let so_far = sum.get_or_insert_with(|| json!({ "matched": done["matched"], "replayed": 0 }));
        let replayed = done["replayed"].as_u64().unwrap_or(0);
        so_far["replayed"] = (so_far["replayed"].as_u64().unwrap_or(0) + replayed).into();
        // Each call passes these over once more.
        so_far["gone"] = done["gone"].clone();
        so_far["dangerous"] = done["dangerous"].clone();
        if done["more"] != true || replayed == 0 {
            break;
        }
    }
    let sum = sum.unwrap_or_default();
    if as_json {
        Console::get().print_json(&sum)?;
    } else if dry_run {
        say!("{} would be replayed", sum["matched"]);
    } else {
        say!(
            "{} matched, {} replayed, {} not held by the topic any more, {} left out because they could end a worker \
             (name the reason to replay them)",
            sum["matched"],
            sum["replayed"],
            sum["gone"],
            sum["dangerous"]
        );
    }
    Ok(Exit::Ready)
}
