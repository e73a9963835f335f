//! What is over is deleted in pages, the oldest first.

use crate::tests::database::{Database, execute, start};
use crate::{dead_letters, jobs, partitions};
use time::Duration;

/// Each table with a purge, the column that it goes by, and rows made of `n` and `at`.
const PURGES: &[(&str, &str, &str)] = &[
    (
        "report_duplicates",
        "received_at",
        "(tenant, report_id, variant, origin_topic, origin_partition, origin_offset, origin_index, seen_at, received_at)
         SELECT 'acme', md5(n::text)::uuid, 0, 'in', 0, n, 0, at, at",
    ),
    (
        "jobs",
        "updated_at",
        "(id, tenant, kind, payload, status, max_attempts, run_at, created_at, updated_at)
         SELECT md5(n::text)::uuid, 'acme', 'build', '{}', CASE n % 2 WHEN 0 THEN 'done' ELSE 'failed' END, 1, at, at, at",
    ),
    (
        "outbox",
        "sent_at",
        "(tenant, kind, message, created_at, sent_at) SELECT 'acme', 'symbol_event', '{}', at, at",
    ),
    (
        "dead_letters",
        "arrived_at",
        "(topic_id, partition, at_offset, topic, stage, arrived_at, reason, detail)
         SELECT 'id', 0, n, 'in', 'symbolize', at, 'bad_json', ''",
    ),
    (
        "live_events",
        "occurred_at",
        "(tenant, event, kind, data, occurred_at) SELECT 'acme', n, 'reports_stored', '{}', at",
    ),
];

/// Adds rows to a table, each a minute older than the one before.
async fn add(database: &Database, table: &str, values: &str, rows: u32) {
    let statement = format!(
        "INSERT INTO {table} {values} FROM (
             SELECT n, '{}'::timestamptz - n * interval '1 minute' AS at FROM generate_series(1, {rows}) AS n) AS rows",
        start()
    );
    execute(database, &statement).await;
}

#[tokio::test]
async fn a_purge_deletes_no_more_rows_than_it_is_told_the_oldest_first() {
    let database = Database::new().await;
    for (table, column, values) in PURGES {
        add(&database, table, values, 10).await;
        let old =
            format!("SELECT count(*) FROM {table} WHERE {column} < '{}'", start() - Duration::minutes(6));
        let purge = format!("SELECT unslide_purge('{table}', '{}', 3)", start() - Duration::minutes(2));
        // Of ten, eight are over, and four of those are older than six minutes.
        for (gone, left) in [(3, 1), (3, 0), (2, 0), (0, 0)] {
            assert_eq!(database.number(&purge).await, gone, "{table}");
            assert_eq!(database.number(&old).await, left, "{table}");
        }
        execute(&database, &format!("DELETE FROM {table}")).await;
    }
}

#[tokio::test]
async fn what_is_over_goes_however_much_it_is() {
    let database = Database::new().await;
    for table in ["report_duplicates", "dead_letters", "jobs"] {
        let (.., values) = PURGES.iter().find(|(name, ..)| *name == table).unwrap();
        add(&database, table, values, 10_001).await;
    }
    partitions::drop_keys(&database.store, start()).await.unwrap();
    assert_eq!(dead_letters::purge_dead_letters(&database.store, start()).await.unwrap(), 10_001);
    assert_eq!(jobs::purge_jobs(&database.store, start()).await.unwrap(), 10_001);
    assert_eq!(database.number("SELECT count(*) FROM report_duplicates").await, 0);
}

#[tokio::test]
async fn two_purges_of_one_table_do_not_wait_for_each_other() {
    let database = Database::new().await;
    let (table, _, values) = PURGES.iter().find(|(name, ..)| *name == "dead_letters").unwrap();
    add(&database, table, values, 10).await;
    let mut first = database.store.pool().begin().await.unwrap();
    let page = sqlx::query_scalar::<_, i64>("SELECT unslide_purge('dead_letters', $1, 3)").bind(start());
    assert_eq!(page.fetch_one(&mut *first).await.unwrap(), 3);
    assert_eq!(dead_letters::purge_dead_letters(&database.store, start()).await.unwrap(), 0);
    first.commit().await.unwrap();
    assert_eq!(dead_letters::purge_dead_letters(&database.store, start()).await.unwrap(), 7);
}
