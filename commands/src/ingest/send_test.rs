//! `unslide public-key test`: sends a report to the URL of an app, and prints its outcome.

use clap::Args;
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use unslide_cli::{
    ApiServer, BoxError, Client, ClientError, CommandError, Exit, KeylessAnswer, Outcome, block_on,
    post_without_key, say,
};

/// The path of the URL, before the key.
const URL_PATH: &str = "/i/";

/// How long the report may take until it is stored.
const STORED_TIMEOUT: Duration = Duration::from_secs(60);
const STORED_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Seconds that a command tries to reach the API for the stored report.
const RETRY_SECONDS: u32 = 10;

/// The arguments of `unslide public-key test`.
#[derive(Args)]
pub struct Arguments {
    /// The URL that the app has, with the public key at its end
    url: String,
    /// The app (bundle identifier) that the test report is of: one that the key covers
    #[arg(long)]
    app: String,
    /// An API key that reads reports: with it the command waits until the report is stored
    #[arg(long, value_name = "KEY", env = "UNSLIDE_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
}

/// The URL of an app.
struct AppUrl {
    url: Url,
    /// The address of the service, without the path.
    server: String,
}

/// The JSON of an answer to a report.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Answer {
    accepted: Vec<Option<String>>,
    refused: Vec<Refused>,
    detail: Option<String>,
    title: Option<String>,
}

#[derive(Deserialize)]
struct Refused {
    #[serde(rename = "type")]
    reason: String,
    detail: String,
}

pub fn run(arguments: &Arguments) -> Outcome {
    let app_url = parse_url(&arguments.url)?;
    let id = make_id();
    let report = build_test_report(&arguments.app, &id);
    let server = ApiServer {
        url: Some(app_url.server.clone()),
        api_key: arguments.api_key.clone().filter(|key| !key.trim().is_empty()),
        profile: None,
        retry_for: Some(RETRY_SECONDS),
    };
    block_on(async move {
        let answer = post_without_key(app_url.url, report).await?;
        let exit = print_answer(&answer, &id)?;
        if exit != Exit::Ready {
            return Ok(exit);
        }
        if server.api_key.is_some() {
            wait_until_stored(&Client::new(&server)?, &id).await?;
        } else {
            say!("set UNSLIDE_API_KEY to wait until the report is stored");
        }
        say!("see {}/console/reports/{id}", app_url.server);
        Ok(Exit::Ready)
    })
}

/// Reads the URL of an app.
fn parse_url(text: &str) -> Result<AppUrl, CommandError> {
    let wrong = |why: &str| {
        CommandError::usage(format!("the URL of an app {why}; the console's page of public keys shows it"))
    };
    let url = Url::parse(text.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.ok_or_else(|| wrong("begins with http:// or https://"))?;
    let key = url.path().split_once(URL_PATH).map(|(_, key)| key.trim_end_matches('/'));
    match key {
        Some(key) if !key.is_empty() && !key.contains('/') => {}
        _ => return Err(wrong(&format!("ends with {URL_PATH} and the key"))),
    }
    let server = url.origin().ascii_serialization();
    let prefix = url.path().split_once(URL_PATH).map_or("", |(prefix, _)| prefix);
    Ok(AppUrl { server: format!("{server}{prefix}"), url })
}

/// Returns a report of an app for a test of its key, which is grouped apart from its crashes.
fn build_test_report(app: &str, id: &str) -> String {
    let name = "Unslide key test";
    json!({
        "report": {"id": id, "type": "standard", "version": "3.6.0"},
        "system": {"CFBundleIdentifier": app, "CFBundleShortVersionString": "0.0.0", "CFBundleVersion": "0"},
        "user": {"unslide_key_test": true},
        "binary_images": [],
        "crash": {"threads": [], "error": {
            "type": "user", "reason": "sent by `unslide public-key test`",
            "user_reported": {"name": name, "language": "none"},
        }},
    })
    .to_string()
}

/// Returns a new id in the form of a report's. It is no secret, so the salt of a hash map is random enough.
fn make_id() -> String {
    let text: String = (0..2).map(|half| format!("{:016x}", RandomState::default().hash_one(half))).collect();
    let parts = [text.get(..8), text.get(8..12), text.get(12..16), text.get(16..20), text.get(20..32)];
    parts.map(Option::unwrap_or_default).join("-")
}

/// Prints what the service says about the report. Returns the exit code of the command.
fn print_answer(answer: &KeylessAnswer, id: &str) -> Result<Exit, BoxError> {
    let read: Answer = serde_json::from_slice(&answer.body).unwrap_or_default();
    let told = read.detail.or(read.title).unwrap_or_default();
    match answer.status {
        202 => {}
        401 => {
            say!("refused: {told} (401). Nothing was stored");
            return Ok(Exit::NotAllowed);
        }
        status @ 300..=399 => {
            say!(
                "a redirect ({status}): apps lose their reports there. Give them the address that it leads to"
            );
            return Ok(Exit::Failed);
        }
        status => {
            say!("refused: {told} ({status}). Nothing was stored");
            return Ok(Exit::Failed);
        }
    }
    if let Some(refused) = read.refused.first() {
        say!("refused: {} ({}). It becomes a dead letter", refused.detail, refused.reason);
        return Ok(Exit::Failed);
    }
    if read.accepted.iter().flatten().any(|accepted| accepted == id) {
        say!("accepted: report {id}");
        return Ok(Exit::Ready);
    }
    Err("the answer names no report: is it the URL of Unslide?".into())
}

async fn wait_until_stored(client: &Client, id: &str) -> Result<(), BoxError> {
    let end = Instant::now() + STORED_TIMEOUT;
    let path = format!("/v1/reports/{id}");
    loop {
        match client.get::<Value>(&path).await {
            Ok(report) => {
                let group = report["symbolication"]["grouping"]["title"].as_str();
                let group = group.map(|title| format!(", in the group {title:?}")).unwrap_or_default();
                say!("stored: symbolicated{group}");
                return Ok(());
            }
            Err(ClientError::Refused { status: 404, .. }) if Instant::now() < end => {
                sleep(STORED_POLL_INTERVAL).await;
            }
            Err(ClientError::Refused { status: 404, .. }) => {
                let seconds = STORED_TIMEOUT.as_secs();
                return Err(format!(
                    "the report was accepted and is not stored after {seconds} s: its dead letter, if there is one, \
                     says why"
                )
                .into());
            }
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_report::{ReadLimits, Report};

    #[test]
    fn the_url_of_an_app_has_a_key_at_its_end() {
        let server = |url: &str| parse_url(url).map(|url| url.server).ok();
        assert_eq!(server("https://crash.example.com/i/usp_1").as_deref(), Some("https://crash.example.com"));
        assert_eq!(server(" http://127.0.0.1:8080/i/usp_1/ ").as_deref(), Some("http://127.0.0.1:8080"));
        assert_eq!(server("https://a.example/crash/i/usp_1").as_deref(), Some("https://a.example/crash"));
        for wrong in [
            "",
            "crash.example.com/i/usp_1",
            "ftp://a.example/i/usp_1",
            "https://a.example",
            "https://a.example/i/",
            "https://a.example/i/a/b",
        ] {
            assert_eq!(server(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_test_report_is_a_report_of_its_app() {
        let id = "11111111-1111-1111-1111-111111111111";
        let json = build_test_report("com.example.shop", id);
        let report = Report::read(json.as_bytes(), &ReadLimits::default()).unwrap();
        assert_eq!(report.id.to_string(), id);
        assert_eq!(report.summary().app.as_deref(), Some("com.example.shop"));
    }

    #[test]
    fn an_id_is_new_each_time() {
        let [first, second] = [make_id(), make_id()];
        assert!(first != second && first.len() == 36, "{first} {second}");
    }
}
