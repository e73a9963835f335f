//! What has to hold at the end.

mod account;
mod bodies;
mod replay;

use crate::Settings;
use crate::alerts;
use crate::load::Truth;
use crate::world::World;
use account::Account;
use sqlx::{Connection, PgConnection, Row};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Problems that are shown in full.
const SHOWN: usize = 20;

/// Judges everything, and fails with all that is wrong.
pub async fn judge(
    world: &Arc<World>,
    names: &[String],
    truth: &Truth,
    settings: &Settings,
) -> Result<(), String> {
    let mut problems = logs(world, names).await;
    // In order, and each with success: a worker that drains has nothing left to do.
    for name in names {
        let process = world.take_process(name).await;
        match tokio::task::block_in_place(|| process.end_within(Duration::from_secs(60))) {
            Some(status) if status.success() => {}
            ended => {
                problems
                    .push(format!("{name} was asked to end, with nothing to do, and ended with {ended:?}"));
            }
        }
    }
    let account = {
        let installation = world.installation.lock().await;
        let full = |topic: &str| installation.topic_name(topic);
        tokio::task::block_in_place(|| account::reckon(&installation.topics, &full, truth))
    };
    world.note(&format!("records: {:?}", account.counts));
    world.note(&format!(
        "dead letters: {:?}; copies: {:?}; too large once enriched: {}",
        account.letters, account.copies, account.too_large_outputs
    ));
    problems.extend(store(world, &account).await?);
    problems.extend(account.problems);
    problems.extend(alerts::problems(world).await?);
    problems.extend(audit(world).await);
    let differences = replay::differences(world, settings.length, settings.rest).await?;
    problems
        .extend(differences.into_iter().map(|difference| format!("store and replay differ: {difference}")));
    if problems.is_empty() {
        return Ok(());
    }
    let shown = problems.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("\n  ");
    Err(format!("{} problems:\n  {shown}", problems.len()))
}

/// What the service's own audit says.
async fn audit(world: &Arc<World>) -> Vec<String> {
    let installation = world.installation.lock().await;
    let (status, output, error) =
        tokio::task::block_in_place(|| installation.run_command(&["audit", "--json"]));
    drop(installation);
    let told: serde_json::Value = serde_json::from_str(&output).unwrap_or_default();
    world.note(&format!("unslide audit ends with {status}: {}", told["total"]));
    if status == 0 && told["clean"] == true {
        return Vec::new();
    }
    let findings = [&told["findings"], &told["contradictions"], &told["notes"]].map(ToString::to_string);
    vec![format!("unslide audit ends with {status}: {}{error}", findings.join(" "))]
}

/// The store holds exactly the reports that came out, at their last revision.
async fn store(world: &Arc<World>, account: &Account) -> Result<Vec<String>, String> {
    let url = world.installation.lock().await.database_url();
    let mut database = PgConnection::connect(&url).await.map_err(|error| error.to_string())?;
    let question = "SELECT tenant, report_id::text, max(latest_revision) FROM report_keys GROUP BY 1, 2";
    let rows = sqlx::query(question).fetch_all(&mut database).await.map_err(|error| error.to_string())?;
    let mut stored: BTreeMap<(String, String), u32> = BTreeMap::new();
    for row in rows {
        let revision = u32::try_from(row.get::<i32, _>(2)).unwrap_or(0);
        stored.insert((row.get(0), row.get(1)), revision);
    }
    let mut problems = Vec::new();
    for (name, revision) in &account.reports {
        match stored.get(name) {
            Some(kept) if kept == revision => {}
            kept => {
                problems.push(format!("{name:?} came out in revision {revision}, the store has {kept:?}"));
            }
        }
    }
    for name in stored.keys().filter(|name| !account.reports.contains_key(name)) {
        problems.push(format!("the store has {name:?}, which never came out"));
    }
    let unreadable =
        "SELECT reason || ': ' || detail, count(*) FROM dead_letters WHERE stage <> 'symbolize' GROUP BY 1";
    for row in sqlx::query(unreadable).fetch_all(&mut database).await.map_err(|error| error.to_string())? {
        problems.push(format!(
            "{} records could not be stored: {}",
            row.get::<i64, _>(1),
            row.get::<String, _>(0)
        ));
    }
    let failed = "SELECT kind || ': ' || coalesce(last_error, ''), count(*) FROM jobs WHERE status = 'failed' GROUP BY 1";
    for row in sqlx::query(failed).fetch_all(&mut database).await.map_err(|error| error.to_string())? {
        problems.push(format!("{} jobs have failed: {}", row.get::<i64, _>(1), row.get::<String, _>(0)));
    }
    Ok(problems)
}

/// No process panicked, ever.
async fn logs(world: &Arc<World>, names: &[String]) -> Vec<String> {
    let installation = world.installation.lock().await;
    let mut problems = Vec::new();
    for name in names {
        let log = installation.read_log(name);
        let panics = log.lines().filter(|line| line.contains("panicked at"));
        problems.extend(panics.map(|line| format!("{name} panicked: {line}")));
    }
    problems
}
