//! `unslide dead-letter`.

use crate::boot;
use crate::client::{Client, Server};
use crate::failure::{BoxError, Outcome};
use crate::moment::{self, Moment};
use clap::{Args, Subcommand};
use reqwest::Url;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use unslide_model::{Clock as _, SystemClock};

/// Letters that are asked for with one question.
const PAGE: usize = 200;

/// The commands on dead letters. Keys of a tenant's administrator see the tenant's own.
#[derive(Subcommand)]
pub enum Command {
    /// List dead letters, newest first
    List {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        which: Which,
        /// Only those that nobody has replayed
        #[arg(long)]
        unreplayed: bool,
        /// At most so many
        #[arg(long, default_value_t = 50)]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one dead letter, or save its bytes
    Show {
        #[command(flatten)]
        server: Server,
        /// Its id, as `dead-letter list` shows it
        id: String,
        /// Of any tenant or nobody: for operators
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
        server: Server,
        /// Its id, as `dead-letter list` shows it; without one all that the options name and that were not replayed
        #[arg(conflicts_with_all = ["reason", "from", "to", "tenant", "dry_run"])]
        id: Option<String>,
        #[command(flatten)]
        which: Which,
        /// Also if it was replayed already
        #[arg(long, requires = "id")]
        again: bool,
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
    /// Of all tenants and of nobody: for operators
    #[arg(long)]
    all: bool,
    /// Of this tenant, nobody's where empty: for operators
    #[arg(long, requires = "all")]
    tenant: Option<String>,
}

impl Which {
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let now = SystemClock.now_micros() / 1_000;
        let time = |moment: Option<Moment>| moment.map(|moment| moment::text(moment.millis(now)));
        [
            ("reason", self.reason.clone()),
            ("from", time(self.from)),
            ("to", time(self.to)),
            ("tenant", self.tenant.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}

/// Where the letters are: the tenant's own, or all.
fn base(all: bool) -> &'static str {
    if all { "/v1/operator/dead-letters" } else { "/v1/dead-letters" }
}

/// A path with a query.
fn path(base: &str, pairs: &[(&str, String)]) -> Result<String, BoxError> {
    // Only for its way of writing a query.
    let mut url = Url::parse("http://api")?.join(base)?;
    if !pairs.is_empty() {
        url.query_pairs_mut().extend_pairs(pairs);
    }
    Ok(url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path())))
}

/// Runs a command on dead letters.
pub fn run(command: Command) -> Outcome {
    boot::block_on(async {
        match command {
            Command::List { server, which, unreplayed, limit, json } => {
                list(&Client::new(&server)?, &which, unreplayed, limit, json).await
            }
            Command::Show { server, id, all, body, json } => {
                show(&Client::new(&server)?, &id, all, body, json).await
            }
            Command::Replay { server, id: Some(id), which, again, json, .. } => {
                replay(&Client::new(&server)?, &id, which.all, again, json).await
            }
            Command::Replay { server, id: None, which, dry_run, json, .. } => {
                replay_many(&Client::new(&server)?, &which, dry_run, json).await
            }
        }
    })
}

async fn list(client: &Client, which: &Which, unreplayed: bool, limit: usize, as_json: bool) -> Outcome {
    let mut pairs = which.pairs();
    if unreplayed {
        pairs.push(("replayed", "false".to_owned()));
    }
    let (mut found, mut cursor): (Vec<Value>, Option<String>) = (Vec::new(), None);
    while found.len() < limit {
        let mut page = pairs.clone();
        page.push(("limit", (limit - found.len()).min(PAGE).to_string()));
        page.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let mut answer: Value = client.get(&path(base(which.all), &page)?).await?;
        found.extend(answer["items"].as_array_mut().map(std::mem::take).unwrap_or_default());
        cursor = answer["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    if as_json {
        println!("{}", serde_json::to_string_pretty(&found)?);
        return Ok(ExitCode::SUCCESS);
    }
    for letter in &found {
        let text = |name: &str| letter[name].as_str().unwrap_or("-").to_owned();
        let replayed = match letter["replays"].as_u64() {
            Some(0) | None => "not replayed".to_owned(),
            Some(times) => format!("replayed {times}x, last {}", text("replayed_at")),
        };
        println!(
            "{}\t{}\t{}\t{}\t{} bytes\t{replayed}\t{}",
            text("id"),
            text("arrived_at"),
            text("tenant"),
            text("reason"),
            letter["value_bytes"],
            text("detail").replace(['\n', '\t'], " ")
        );
    }
    if cursor.is_some() {
        eprintln!("unslide: there are more; --limit shows them");
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(client: &Client, id: &str, all: bool, body: Option<PathBuf>, as_json: bool) -> Outcome {
    let address = format!("{}/{id}", base(all));
    let bytes = match &body {
        Some(_) => client.get_bytes(&format!("{address}/body")).await?,
        None => None,
    };
    match body {
        Some(file) if file.as_os_str() == "-" => {
            std::io::stdout().write_all(&bytes.unwrap_or_default())?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(file) => std::fs::write(file, bytes.unwrap_or_default())?,
        None => {}
    }
    let letter: Value = client.get(&address).await?;
    if as_json {
        println!("{}", serde_json::to_string_pretty(&letter)?);
        return Ok(ExitCode::SUCCESS);
    }
    let facts = letter.as_object().ok_or("the answer is no object")?;
    for (name, value) in facts.iter().filter(|(name, _)| name.as_str() != "headers") {
        println!("{name}\t{}", flat(value));
    }
    for header in letter["headers"].as_array().into_iter().flatten() {
        println!("header {}\t{}", flat(&header["name"]), flat(&header["value"]));
    }
    Ok(ExitCode::SUCCESS)
}

/// A value on one line: texts as they are, but for what would drive the terminal; places as
/// `topic/partition/offset`.
fn flat(value: &Value) -> String {
    let line = |text: &str| unslide_report::text::printable(&text.replace('\n', " ")).into_owned();
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
        println!("{}", serde_json::to_string_pretty(&done)?);
    } else {
        println!("{id}\treplayed as {}", done["replayed_as"].as_str().unwrap_or("-"));
        if let Some(warning) = done["warning"].as_str() {
            eprintln!("unslide: {warning}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn replay_many(client: &Client, which: &Which, dry_run: bool, as_json: bool) -> Outcome {
    let address = format!("{}/replay", base(which.all));
    let mut wish: serde_json::Map<String, Value> =
        which.pairs().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    wish.insert("dry_run".to_owned(), dry_run.into());
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
        println!("{}", serde_json::to_string_pretty(&sum)?);
    } else if dry_run {
        println!("{} would be replayed", sum["matched"]);
    } else {
        println!(
            "{} matched, {} replayed, {} not held by the topic any more, {} left out because they could end a worker \
             (name the reason to replay them)",
            sum["matched"], sum["replayed"], sum["gone"], sum["dangerous"]
        );
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_written_so_that_any_value_survives() {
        assert_eq!(path("/v1/dead-letters", &[]).unwrap(), "/v1/dead-letters");
        let pairs = [("reason", "a b&c".to_owned()), ("tenant", String::new())];
        assert_eq!(path("/v1/dead-letters", &pairs).unwrap(), "/v1/dead-letters?reason=a+b%26c&tenant=");
    }
}
