//! Waits until nothing is under way any more.

use crate::world::World;
use sqlx::{Connection, PgConnection, Row};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The consumer groups, and what each reads.
const LANES: [(&str, &[&str]); 3] = [
    ("live", &["crash.reports"]),
    (
        "retry",
        &[
            "unslide.retry.1s",
            "unslide.retry.10s",
            "unslide.retry.1m",
            "unslide.retry.10m",
            "unslide.overflow",
        ],
    ),
    ("resymbolicate", &["unslide.resymbolicate"]),
];
/// What the indexers read.
const STORED: [&str; 3] = ["crash.symbolicated", "unslide.ledger", "unslide.dead-letter"];

/// Questions: each answer is 0 when the database has nothing more to do.
const QUESTIONS: [(&str, &str); 8] = [
    ("messages to send", "SELECT count(*) FROM outbox WHERE sent_at IS NULL"),
    ("jobs", "SELECT count(*) FROM jobs WHERE status = 'running' OR status = 'queued' AND run_at < now()"),
    ("alerts without a message", "SELECT count(*) FROM alert_events WHERE message IS NULL"),
    ("alerts to send", "SELECT count(*) FROM alert_messages WHERE status = 'waiting'"),
    ("deferred ranges", "SELECT count(*) FROM deferred_ranges"),
    ("questions put off", "SELECT count(*) FROM report_keys WHERE ask_pending"),
    ("requests", "SELECT count(*) FROM report_keys WHERE requested_at IS NOT NULL"),
    (
        "reports that know of newer symbols",
        "SELECT count(*) FROM waits w JOIN symbol_slots s USING (tenant, debug_id)
         WHERE s.generation > w.seen_generation AND s.quality > 0",
    ),
];

/// Waits until all that was sent has come to its end; what is left where that is not so in time.
pub async fn drained(world: &Arc<World>, limit: Duration) -> Result<(), String> {
    let begin = Instant::now();
    let (mut quiet, mut shown) = (0, String::new());
    loop {
        let left = left(world).await;
        let text = match &left {
            Ok(left) => left.iter().map(|(what, n)| format!("{n} {what}")).collect::<Vec<_>>().join(", "),
            Err(error) => error.clone(),
        };
        quiet = if text.is_empty() { quiet + 1 } else { 0 };
        // Twice: what is between two places is seen in neither, once.
        if quiet == 2 {
            return Ok(());
        }
        if text != shown && !text.is_empty() {
            world.note(&format!("still: {text}"));
            shown.clone_from(&text);
        }
        if begin.elapsed() > limit {
            return Err(format!("not drained after {limit:?}: {text}"));
        }
        sleep(Duration::from_secs(2)).await;
    }
}

async fn left(world: &Arc<World>) -> Result<BTreeMap<String, i64>, String> {
    let mut left = BTreeMap::new();
    let (prefix, url) = {
        let installation = world.installation.lock().await;
        (installation.topic_name(""), installation.database_url())
    };
    let mut database = PgConnection::connect(&url).await.map_err(|e| e.to_string())?;
    for (what, question) in QUESTIONS {
        let count: i64 =
            sqlx::query_scalar(question).fetch_one(&mut database).await.map_err(|e| e.to_string())?;
        left.insert(what.to_owned(), count);
    }
    let positions = positions(&mut database).await?;
    let installation = world.installation.lock().await;
    let topics = &installation.topics;
    let kafka = |error: rdkafka::error::KafkaError| error.to_string();
    let counted: Result<(), String> = tokio::task::block_in_place(|| {
        for (lane, names) in LANES {
            for name in names {
                let topic = format!("{prefix}{name}");
                let unread =
                    topics.count_unread(&format!("{prefix}unslide.{lane}"), &topic).map_err(kafka)?;
                left.insert(format!("unread in {name}"), i64::try_from(unread).unwrap_or(i64::MAX));
            }
        }
        for name in STORED {
            let topic = format!("{prefix}{name}");
            let none = BTreeMap::new();
            let unread = topics.count_after(&topic, positions.get(&topic).unwrap_or(&none)).map_err(kafka)?;
            left.insert(format!("not stored of {name}"), i64::try_from(unread).unwrap_or(i64::MAX));
        }
        Ok(())
    });
    counted?;
    left.retain(|_, count| *count > 0);
    Ok(left)
}

/// How far the indexers have read: topic, partition, next offset.
pub async fn positions(database: &mut PgConnection) -> Result<BTreeMap<String, BTreeMap<i32, i64>>, String> {
    let rows = sqlx::query("SELECT topic, partition, next_offset FROM positions").fetch_all(database).await;
    let mut positions: BTreeMap<String, BTreeMap<i32, i64>> = BTreeMap::new();
    for row in rows.map_err(|e| e.to_string())? {
        positions.entry(row.get(0)).or_default().insert(row.get(1), row.get(2));
    }
    Ok(positions)
}
