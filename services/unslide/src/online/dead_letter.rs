//! `unslide dead-letter`.

use crate::moment::{self, Moment};
use crate::prelude::*;
use std::path::PathBuf;
use unslide_client::confirm;
use unslide_client::listing::{ListForm, Listing, given, text};
use unslide_model::{Clock as _, SystemClock};

/// The commands on dead letters. Keys of a tenant's administrator see the tenant's own.
#[derive(Subcommand)]
pub enum Command {
    /// List dead letters, newest first
    List {
        #[command(flatten)]
        server: ApiServer,
        #[command(flatten)]
        which: Which,
        /// Only those that nobody has replayed
        #[arg(long)]
        unreplayed: bool,
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
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Send dead letters through the service once more: one by its id, or all that fit
    Replay {
        #[command(flatten)]
        server: ApiServer,
        /// Its id, as `dead-letter list` shows it; without one all that the options name and that were not
        /// replayed, and without options all: on a terminal that is asked first
        #[arg(conflicts_with_all = ["reason", "from", "to", "tenant", "dry_run"])]
        id: Option<String>,
        #[command(flatten)]
        which: Which,
        /// Also if it was replayed already
        #[arg(long, requires = "id")]
        again: bool,
        /// Do not ask before everything is replayed
        #[arg(long, conflicts_with = "id")]
        yes: bool,
        /// Count and do nothing
        #[arg(long)]
        dry_run: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Which dead letters.
#[derive(Args)]
pub struct Which {
    /// Why they are dead, such as `not_json`
    #[arg(long)]
    reason: Option<String>,
    /// Arrived from here on: RFC 3339, or how long ago, such as 90m, 6h or 2d
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
        self.reason.is_some() || self.from.is_some() || self.to.is_some() || self.tenant.is_some()
    }

    fn pairs(&self) -> Vec<(&'static str, String)> {
        let now = SystemClock.now_micros() / 1_000;
        let time = |moment: Option<Moment>| moment.map(|moment| moment::text(moment.millis(now)));
        given([
            ("reason", self.reason.clone()),
            ("from", time(self.from)),
            ("to", time(self.to)),
            ("tenant", self.tenant.clone()),
        ])
    }
}

/// Returns the path of the dead letters: the tenant's own, or all.
fn base(all: bool) -> &'static str {
    if all { "/v1/operator/dead-letters" } else { "/v1/dead-letters" }
}

/// Runs a command on dead letters.
pub fn run(command: Command) -> Outcome {
    block_on(async {
        match command {
            Command::List { server, which, unreplayed, form } => {
                list(&Client::new(&server)?, &which, unreplayed, form).await
            }
            Command::Show { server, id, all, body, json } => {
                show(&Client::new(&server)?, &id, all, body, json).await
            }
            Command::Replay { server, id: Some(id), which, again, json, .. } => {
                replay(&Client::new(&server)?, &id, which.all, again, json).await
            }
            Command::Replay { server, id: None, which, dry_run, yes, json, .. } => {
                if !which.is_narrow() && !dry_run {
                    let of = if which.all { "of all tenants" } else { "of the tenant" };
                    confirm(&format!("This replays every dead letter {of} that was not replayed."), yes)?;
                }
                replay_many(&Client::new(&server)?, &which, dry_run, json).await
            }
        }
    })
}

async fn list(client: &Client, which: &Which, unreplayed: bool, form: ListForm) -> Outcome {
    let unreplayed = unreplayed.then(|| ("replayed", "false".to_owned()));
    let listing = Listing {
        path: base(which.all),
        query: which.pairs().into_iter().chain(unreplayed).collect(),
        limit: 50,
        head: &["ID", "ARRIVED", "TENANT", "REASON", "BYTES", "REPLAYS", "LAST REPLAY", "DETAIL"],
        row: |letter| {
            [
                text(letter, "id"),
                text(letter, "arrived_at"),
                text(letter, "tenant"),
                text(letter, "reason"),
                letter["value_bytes"].to_string(),
                letter["replays"].as_u64().unwrap_or(0).to_string(),
                text(letter, "replayed_at"),
                text(letter, "detail"),
            ]
        },
    };
    form.print(listing, client).await
}

async fn show(client: &Client, id: &str, all: bool, body: Option<PathBuf>, as_json: bool) -> Outcome {
    let address = format!("{}/{id}", base(all));
    let bytes = match &body {
        Some(_) => client.get_bytes(&format!("{address}/body"), "*/*").await?,
        None => None,
    };
    match body {
        Some(file) if file.as_os_str() == "-" => {
            Console::get().bytes(&bytes.unwrap_or_default());
            return Ok(Exit::Ready);
        }
        Some(file) => std::fs::write(file, bytes.unwrap_or_default())?,
        None => {}
    }
    let letter: Value = client.get(&address).await?;
    if as_json {
        Console::get().json(&letter)?;
        return Ok(Exit::Ready);
    }
    let facts = letter.as_object().ok_or("the answer is no object")?;
    for (name, value) in facts.iter().filter(|(name, _)| name.as_str() != "headers") {
        say!("{name}\t{}", flat(value));
    }
    for header in letter["headers"].as_array().into_iter().flatten() {
        say!("header {}\t{}", flat(&header["name"]), flat(&header["value"]));
    }
    Ok(Exit::Ready)
}

/// Returns a value on one line: texts unchanged, places as `topic/partition/offset`.
fn flat(value: &Value) -> String {
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

async fn replay(client: &Client, id: &str, all: bool, again: bool, as_json: bool) -> Outcome {
    let address = format!("{}/{id}/replay", base(all));
    let done: Value = client.post(&address, &json!({ "again": again })).await?;
    if as_json {
        Console::get().json(&done)?;
    } else {
        say!("{id}\treplayed as {}", done["replayed_as"].as_str().unwrap_or("-"));
        if let Some(warning) = done["warning"].as_str() {
            note!("{warning}");
        }
    }
    Ok(Exit::Ready)
}

async fn replay_many(client: &Client, which: &Which, dry_run: bool, as_json: bool) -> Outcome {
    let address = format!("{}/replay", base(which.all));
    let mut wish: serde_json::Map<String, Value> =
        which.pairs().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
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
        Console::get().json(&sum)?;
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
