//! `unslide quarantine`.

use crate::prelude::*;
use std::time::Duration;
use tokio::time::Instant;
use unslide_client::listing::{Listing, given, text};

/// How long to wait for a replay: the indexer polls for requests every few seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two questions how a replay is.
const PAUSE: Duration = Duration::from_secs(1);
/// The path of the records.
const BASE: &str = "/v1/operator/quarantine";

/// The commands on quarantined records.
#[derive(Subcommand)]
pub enum Command {
    /// List quarantined records, newest first
    List {
        #[command(flatten)]
        server: ApiServer,
        /// Of this tenant; those without a tenant where empty
        #[arg(long)]
        tenant: Option<String>,
        /// Why they could not be stored, such as `constraint_violation`
        #[arg(long)]
        reason: Option<String>,
        /// Only those that no replay has stored
        #[arg(long)]
        waiting: bool,
        /// The most records to list
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read a quarantined record again from its place in Kafka, and store it
    Replay {
        #[command(flatten)]
        server: ApiServer,
        /// Its id, as `quarantine list` shows it
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs a command on quarantined records.
pub fn run(command: Command) -> Outcome {
    block_on(async {
        match command {
            Command::List { server, tenant, reason, waiting, limit, json } => {
                let stored = waiting.then(|| "false".to_owned());
                let listing = Listing {
                    path: BASE,
                    query: given([("tenant", tenant), ("reason", reason), ("stored", stored)]),
                    limit,
                    head: &["ID", "QUARANTINED", "TENANT", "REASON", "RECORD", "REPLAY", "DETAIL"],
                    row,
                };
                listing.print(&Client::new(&server)?, json).await
            }
            Command::Replay { server, id, json } => replay(&Client::new(&server)?, &id, json).await,
        }
    })
}

fn row(record: &Value) -> [String; 7] {
    let place = &record["place"];
    [
        text(record, "id"),
        text(record, "quarantined_at"),
        text(record, "tenant"),
        text(record, "reason"),
        format!("{}/{}/{}", text(place, "topic"), place["partition"], place["offset"]),
        text(&record["replay"], "status"),
        text(record, "detail"),
    ]
}

async fn replay(client: &Client, id: &str, as_json: bool) -> Outcome {
    let address = format!("{BASE}/{id}");
    let mut record: Value = client.post(&format!("{address}/replay"), &json!({})).await?;
    let end = Instant::now() + PATIENCE;
    while record["replay"]["status"] == "requested" && Instant::now() < end {
        tokio::time::sleep(PAUSE).await;
        record = client.get(&address).await?;
    }
    if as_json {
        Console::get().json(&record)?;
    }
    let replay = &record["replay"];
    let detail = replay["detail"].as_str().unwrap_or_default();
    match replay["status"].as_str().unwrap_or_default() {
        "stored" if as_json => Ok(Exit::Ready),
        "stored" => {
            say!("{id}\tstored");
            Ok(Exit::Ready)
        }
        "past_retention" => Err(CommandError::missing(format!("{id} is past retention: {detail}")).into()),
        "failed" => Err(format!("{id} failed again: {detail}").into()),
        _ => Err(format!("{id} is not replayed yet: `unslide quarantine list` shows how it ends").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_records_place_and_what_became_of_it() {
        let record = json!({
            "id": "7", "quarantined_at": "2026-11-20T09:00:00Z", "reason": "panicked", "detail": "a\nb",
            "place": {"topic": "crash.symbolicated", "partition": 1, "offset": 17},
            "replay": {"status": "failed"},
        });
        let shown =
            ["7", "2026-11-20T09:00:00Z", "", "panicked", "crash.symbolicated/1/17", "failed", "a\nb"];
        assert_eq!(row(&record), shown);
    }
}
