//! `unslide demo`: the whole path with a real dSYM and a real report of a crash in the program that it
//! belongs to, as a customer would walk it.

mod kafka;
mod show;
mod traffic;

use crate::Product;
use crate::dev::{self, Installation, Running, Start};
use bytes::Bytes;
use clap::Args;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::time::Duration;
use traffic::builds::CAFE;
use unslide_cli::{
    ApiServer, BoxError, Client, Configured, Console, Exit, Outcome, UploadBody, block_on, say,
};
use unslide_embedded::Servers;
use unslide_model::{ContentHash, TenantId};
use unslide_runtime::{Host, telemetry};

/// A small app's dSYM, as an upload.
pub(crate) const DSYM: &[u8] = include_bytes!("../../demo/Cafe.dSYM.zip");
/// A crash of that very build.
pub(crate) const CRASH: &[u8] = include_bytes!("../../demo/crash.json");
const FIRST: &str = "5A9E21D4-0C7B-4E0F-9B1E-6F2C8D4A7B10";
/// The id of the same crash in a build without an uploaded dSYM.
const SECOND: &str = "8D30C6F2-51A7-4B68-8F14-2E97B05C63AA";
/// How long a step may take.
const LONGEST: Duration = Duration::from_secs(60);

/// As long as a command tries.
const RETRY_SECONDS: u32 = 60;

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    configured: Configured,
    /// Go on serving after the demo, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Send a week of reports of two apps instead, and serve the console with them until Ctrl-C
    #[arg(long)]
    traffic: bool,
    /// The folder of all state [default: a temporary one, deleted at the end]
    #[arg(long, value_name = "FOLDER")]
    data_dir: Option<PathBuf>,
}

pub fn run<P: Product>(arguments: &Arguments) -> Outcome {
    let mut product = P::load_settings(arguments.configured.config.as_deref())?;
    dev::quiet(product.log_settings(), false);
    telemetry::init_logging(product.log_settings())?;
    let temporary = match &arguments.data_dir {
        Some(_) => None,
        None => Some(tempfile::Builder::new().prefix("unslide-demo-").tempdir()?),
    };
    let data = arguments.data_dir.clone().or_else(|| Some(temporary.as_ref()?.path().to_path_buf()));
    let data = data.ok_or("there is no folder for the state")?;
    let (keep, traffic) = (arguments.keep || arguments.traffic, arguments.traffic);
    let start = Start::on(&data, TenantId::new("demo")?);
    let outcome = block_on(async move {
        let host = product.create_host()?;
        step(
            if traffic { "0/5" } else { "1/5" },
            "Apache Kafka, PostgreSQL, S3 and the four services start (fetched with Maven the first time)",
        );
        let Some(running) = dev::start_or_stop(product, &host, &start, &|line| say!("      {line}")).await?
        else {
            return Ok(Exit::Failed);
        };
        let told = tokio::select! {
            told = tell::<P>(&running.facts, traffic) => told,
            () = host.shutdown.wait_until_begun() => Err("stopped before the end".into()),
        };
        finish(running, &host, told, keep).await
    });
    if temporary.is_some() {
        Servers::delete(&data)?;
    }
    outcome
}

async fn finish(
    running: Running<Installation>,
    host: &Host,
    told: Result<(), BoxError>,
    keep: bool,
) -> Outcome {
    if let Err(error) = told {
        // The demo's failure is what counts; that of stopping would only hide it.
        let _ = running.stop().await;
        return Err(error);
    }
    if keep {
        say!("");
        say!("Serving until Ctrl-C.");
        host.shutdown.wait_until_begun().await;
    } else {
        say!("");
        say!("Stopping. `unslide demo --keep` goes on serving; `unslide dev` starts without the story.");
    }
    running.stop().await?;
    Ok(Exit::Ready)
}

async fn tell<P: Product>(facts: &Installation, traffic: bool) -> Result<(), BoxError> {
    say!("      tenant `{}` and its key are made; the api listens on {}", facts.tenant, facts.api_url);
    let client = Client::new(&ApiServer {
        url: Some(facts.api_url.clone()),
        api_key: Some(facts.api_key.clone()),
        retry_for: Some(RETRY_SECONDS),
        ..ApiServer::default()
    })?
    .without_notes();

    if traffic {
        match traffic::count_reports(&client).await? {
            0 => traffic::send(facts, &client, &P::list_added_lines()).await?,
            count => say!(
                "      {count} reports of an earlier run are here, and none is sent again; another --data-dir begins anew"
            ),
        }
        say!("");
        say!("Open {}/console and sign in with this key:", facts.api_url);
        say!("");
        say!("  {}", facts.api_key);
        say!("");
        say!("For the command line, such as `unslide groups`:");
        say!("");
        say!("  export UNSLIDE_URL={} UNSLIDE_API_KEY={}", facts.api_url, facts.api_key);
        print_app_url(facts);
        return Ok(());
    }

    step("2/5", "the build pipeline uploads Cafe.dSYM.zip (POST /v1/symbols)");
    upload(&client, "Cafe.dSYM.zip", DSYM.into()).await?;

    step("3/5", "two crash reports go to Kafka, topic crash.reports, as an SDK's gateway sends them");
    let reports = [(FIRST, CRASH.to_vec()), (SECOND, next_build()?)];
    kafka::produce(facts, CAFE, &reports).await?;

    step("4/5", "the enriched reports come back on crash.symbolicated");
    let ids = reports.map(|(id, _)| id.to_lowercase());
    let mut enriched = kafka::consume(facts, &ids, LONGEST).await?;
    let first = enriched.remove(&ids[0]).ok_or("the first report did not come back")?;
    let second = enriched.remove(&ids[1]).ok_or("the second report did not come back")?;
    let original: Value = serde_json::from_slice(CRASH)?;
    let console = Console::get();
    say!("");
    say!("The crashed thread as the device sent it:");
    say!("");
    console.say_lines(&show::raw(&original));
    say!("The crashed thread as Unslide published it:");
    say!("");
    console.say_lines(&show::enriched(&first));
    console.say_lines(&show::waiting(&second));

    step("5/5", "the same over HTTP");
    wait_until_stored(&client, &ids).await?;
    console.say_lines(&show::queries(facts, &ids[0]));
    print_app_url(facts);
    Ok(())
}

/// Prints the URL to which apps send reports without a gateway.
fn print_app_url(facts: &Installation) {
    if let Some(line) = facts.describe_app_url() {
        say!("");
        say!("{line}");
    }
}

/// Uploads a dSYM and waits until its symbols answer.
async fn upload(client: &Client, name: &str, file: Bytes) -> Result<(), BoxError> {
    let hash = ContentHash(Sha256::digest(&file).into()).to_string();
    let body = UploadBody::new(file, hash)?;
    let send = || client.upload_file(name, &body, |_| {});
    let accepted = client.retry_transient(send).await?;
    loop {
        let upload = client.upload_status(&accepted.id).await?;
        if !upload.is_final() {
            continue;
        }
        let Some(object) = upload.objects.first().filter(|object| object.status == "ready") else {
            return Err(format!("the upload is {}: {upload:?}", upload.status).into());
        };
        let id = object.debug_id.map_or_else(String::new, |id| id.to_string());
        say!("      {} {id}: {}", object.arch, object.status);
        return Ok(());
    }
}

/// Returns the same crash in the next build: another UUID, and no dSYM for it.
fn next_build() -> Result<Vec<u8>, BoxError> {
    let mut report: Value = serde_json::from_slice(CRASH)?;
    let uuid = Value::from("B7D94E02-16F3-3C5A-A1D8-90C47E2B6F35");
    report["report"]["id"] = Value::from(SECOND);
    report["system"]["CFBundleVersion"] = Value::from("382");
    report["system"]["app_uuid"] = uuid.clone();
    report["binary_images"][0]["uuid"] = uuid;
    Ok(serde_json::to_vec(&report)?)
}

async fn wait_until_stored(client: &Client, ids: &[String; 2]) -> Result<(), BoxError> {
    let stored = async {
        for id in ids {
            while client.get::<Value>(&format!("/v1/reports/{id}")).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    };
    tokio::time::timeout(LONGEST, stored).await.map_err(|_| "the reports were not stored in time")?;
    let log = client.get_bytes(&format!("/v1/reports/{}", ids[0]), "text/plain").await?.unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let crashed =
        log.lines().skip_while(|line| !line.contains("Crashed:")).take_while(|line| !line.is_empty());
    for line in crashed {
        say!("      {line}");
    }
    Ok(())
}

fn step(number: &str, what: &str) {
    say!("[{number}] {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_report_is_of_the_committed_dsym() {
        let report: Value = serde_json::from_slice(CRASH).unwrap();
        let uuid: unslide_model::DebugId =
            report["binary_images"][0]["uuid"].as_str().unwrap().parse().unwrap();
        assert_eq!(traffic::tests::symbols_from_archive(DSYM).0, uuid);
        assert_eq!(report["report"]["id"], FIRST);
    }
}
