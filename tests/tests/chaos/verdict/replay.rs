//! Replays the topics from their start into an empty store, and compares.
//! Proves: replay

use super::bodies;
use crate::drain::positions;
use crate::installation_under_test::World;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use unslide_store::reports::count_once;

/// Tables that do not come from the topics, with why.
const APART: [&str; 75] = [
    // Made by people and by uploads.
    "tenants",
    "keys",
    "audit_log",
    "uploads",
    "objects",
    "upload_objects",
    "partial_uploads",
    "upload_parts",
    "symbol_slots",
    "symbol_sources",
    "symbol_source_requests",
    "build_commits",
    // Of rules that people make; a replay tells nothing again.
    "regression_rules",
    "held_regressions",
    "alert_rules",
    "alert_events",
    "alert_messages",
    "alert_recipients",
    "alert_mail_counts",
    "alert_figures",
    "alert_firings",
    "ingest_key_versions",
    "key_erasures",
    "people",
    "sign_in_providers",
    "sign_in_failures",
    "sign_out_hints",
    "sign_out_notices",
    "scim_users",
    "scim_groups",
    "scim_members",
    "person_erasures",
    "erased_persons",
    "person_secrets",
    "system_symbol_builds",
    "uploader_chunks",
    "uploader_files",
    "uploader_urls",
    "source_switches",
    "source_bundles",
    "group_views",
    // What the APIs accepted.
    "app_slots",
    // What processes used.
    "resource_uses",
    "shared_resource_uses",
    "resource_use_statements",
    // A name gets more digits if another group has it: which one came first is not in the topics.
    "group_short_ids",
    // The live events of dashboards, and the terms of a search: a group keeps words of reports that have left.
    "live_events",
    "live_event_counters",
    "group_terms",
    // What Kafka does not have yet.
    "stored_events",
    "stored_event_turns",
    // What a bucket has, and does not have yet.
    "parquet_exports",
    "parquet_day_changes",
    "parquet_days",
    "parquet_files",
    // Which groups were replaced: one whose report comes with its next revision is never there.
    "group_moves",
    // What it adds to other tables is compared there, folded or not: see `AS_READ`.
    "group_deltas",
    "group_redirects",
    // Work, and where it stands.
    "jobs",
    "outbox",
    "positions",
    "partition_leases",
    "_sqlx_migrations",
    "reprocesses",
    "grouping_rules",
    "system_wakes",
    "tenant_erasures",
    // Bodies move to object storage when the installation finds the time: see `bodies`.
    "report_bodies",
    "segments",
    "report_frames",
    "condemned_objects",
    // Rows move to ClickHouse when the installation finds the time.
    "history_moves",
    "history_deletions",
    "history_tenants",
    // The months that keys were stored under.
    "report_key_months",
];
/// Columns that say when something was done here, or what was asked and not what is known.
const PASSING: [&str; 15] = [
    "history_version",
    "stored_at",
    "stored_month",
    "updated_at",
    "seen_at",
    "created_at",
    "requested_revision",
    "requested_at",
    "asked_at",
    "requested_needs",
    "ask_pending",
    "reprocess_id",
    "retry_needs",
    "retry_at",
    "retries",
];
/// The column that is not compared in one table: a day's row is raised by the wake that asks for all of the
/// day's reports, and a replay makes a wake of its own.
const BY_WAKES: (&str, &str) = ("system_waits", "seen_generation");
/// Tables that are compared as readers have them, with what is not folded. Their sketches are not compared: a sketch of devices
/// keeps that of a report which has left for another group, and a replay that reads both of the report's revisions at once never
/// has it there.
const AS_READ: [(&str, &str); 3] = [
    (
        "group_days",
        "(SELECT tenant, group_id, day, sum(reports) AS reports FROM group_day_counts GROUP BY 1, 2, 3)",
    ),
    (
        "group_hours",
        "(SELECT tenant, group_id, hour, sum(reports) AS reports FROM group_hour_counts GROUP BY 1, 2, 3)",
    ),
    (
        "group_breakdowns",
        "(SELECT tenant, group_id, dimension, value, day, sum(reports) AS reports FROM group_breakdown_counts
          GROUP BY 1, 2, 3, 4, 5)",
    ),
];
/// What an indexer has to know to take the topics' word.
const COPIED: [&str; 2] = ["tenants", "symbol_slots"];
const INDEXER: &str = "indexer-replay";

/// Stores the topics once more, from their start, and says how the two stores differ.
pub async fn differences(
    world: &Arc<World>,
    length: Duration,
    limit: Duration,
) -> Result<Vec<String>, String> {
    let url = world.installation.lock().await.database_url();
    let replayed = format!("{url}_replay");
    let mut first = connect(&url).await?;
    let name = replayed.rsplit_once('/').map_or("", |(_, name)| name);
    first.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.map_err(text)?;
    {
        let mut installation = world.installation.lock().await;
        let done = installation.command_with(&["migrate"], &[("UNSLIDE_POSTGRES__URL", &replayed)]);
        if done.0 != 0 {
            return Err(format!("the second database is not migrated: {}{}", done.1, done.2));
        }
        let mut second = connect(&replayed).await?;
        for table in COPIED {
            copy(&mut first, &mut second, table).await?;
        }
        // Bodies stay in their rows here, so that each place is compared with the other.
        let settings =
            [("UNSLIDE_POSTGRES__URL", replayed.as_str()), ("UNSLIDE_INDEXER__SEGMENT_AFTER", "7d")];
        installation.start_service(INDEXER, "indexer", &settings);
    }
    let mut second = connect(&replayed).await?;
    let wanted = positions(&mut first).await?;
    let begin = Instant::now();
    loop {
        let reached = positions(&mut second).await?;
        let there = |topic: &String, partition: &i32, next: &i64| {
            reached.get(topic).and_then(|p| p.get(partition)).is_some_and(|at| at >= next)
        };
        let mut all = wanted.iter().flat_map(|(topic, p)| p.iter().map(move |(p, next)| (topic, p, next)));
        // Behind a position there may be records that wait for their tenant's share.
        let deferred = "SELECT count(*) FROM deferred_ranges";
        let deferred: i64 = sqlx::query_scalar(deferred).fetch_one(&mut second).await.map_err(text)?;
        if deferred == 0 && all.all(|(topic, partition, next)| there(topic, partition, next)) {
            break;
        }
        if begin.elapsed() > limit {
            return Err(format!("the replay is at {reached:?} after {limit:?} and not at {wanted:?}"));
        }
        sleep(Duration::from_secs(1)).await;
    }
    let process = world.installation.lock().await.take_process(INDEXER);
    tokio::task::block_in_place(|| process.terminate());
    // Indexers do it when they start and every ten minutes: how many crashes it has left depends on when they started.
    for url in [&url, &replayed] {
        count_crashes_once(url).await?;
    }
    let mut differences = Vec::new();
    let tables = tables(&mut first).await?;
    for table in &tables {
        let (kept, again) = (rows(&mut first, table).await?, rows(&mut second, table).await?);
        world.note(&format!("{table}: {} rows", kept.values().sum::<usize>()));
        compare(table, &kept, &again, &mut differences);
    }
    differences.extend(bodies::differences(world, (&url, &replayed), length).await?);
    Ok(differences)
}

/// Takes crashes that several reports tell of out of the counts of all but one of them.
async fn count_crashes_once(url: &str) -> Result<(), String> {
    let store = bodies::open_store(url).await?;
    count_once(&store, 1_000).await.map(drop).map_err(|error| error.to_string())
}

/// Rows with how often each is there.
type Rows = BTreeMap<String, usize>;

fn compare(table: &str, kept: &Rows, again: &Rows, differences: &mut Vec<String>) {
    for (row, times) in kept {
        let replayed = again.get(row).copied().unwrap_or(0);
        if *times > replayed {
            differences.push(format!("{table}: only in the store: {row}"));
        }
    }
    for (row, times) in again {
        let stored = kept.get(row).copied().unwrap_or(0);
        if *times > stored {
            differences.push(format!("{table}: only in the replay: {row}"));
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn text(error: sqlx::Error) -> String {
    error.to_string()
}

async fn connect(url: &str) -> Result<PgConnection, String> {
    let mut connection = PgConnection::connect(url).await.map_err(text)?;
    connection.execute("SET timezone = 'UTC'").await.map_err(text)?;
    Ok(connection)
}

/// Every table that is not apart; a new one is compared unless it is named above.
async fn tables(database: &mut PgConnection) -> Result<Vec<String>, String> {
    let all = "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
               AND NOT relispartition ORDER BY relname";
    let rows = sqlx::query(all).fetch_all(database).await.map_err(text)?;
    let names = rows.iter().map(|row| row.get::<String, _>(0));
    Ok(names.filter(|name| !APART.contains(&name.as_str())).collect())
}

async fn rows(database: &mut PgConnection, table: &str) -> Result<Rows, String> {
    let by_wakes = (table == BY_WAKES.0).then_some(BY_WAKES.1);
    let passing = PASSING.into_iter().chain(by_wakes).map(|column| format!("'{column}'"));
    let passing: Vec<String> = passing.collect();
    let passing = passing.join(", ");
    let read = AS_READ.iter().find(|(name, _)| *name == table).map_or(table, |(_, read)| *read);
    let question = format!("SELECT (to_jsonb(t) - ARRAY[{passing}])::text FROM {read} t");
    let mut found = Rows::new();
    for row in sqlx::query(AssertSqlSafe(question)).fetch_all(database).await.map_err(text)? {
        *found.entry(row.get(0)).or_default() += 1;
    }
    Ok(found)
}

async fn copy(from: &mut PgConnection, to: &mut PgConnection, table: &str) -> Result<(), String> {
    let all = format!("SELECT coalesce(jsonb_agg(to_jsonb(t)), '[]')::text FROM {table} t");
    let rows: String = sqlx::query_scalar(AssertSqlSafe(all)).fetch_one(from).await.map_err(text)?;
    let insert = format!(
        "INSERT INTO {table} SELECT * FROM jsonb_populate_recordset(NULL::{table}, $1::jsonb) ON CONFLICT DO NOTHING"
    );
    sqlx::query(AssertSqlSafe(insert)).bind(rows).execute(to).await.map_err(text)?;
    Ok(())
}
