//! Statements read the rows that they name, not whole tables: in a database with many days, and whatever the planner knows.

use crate::reports::{self, Effects};
use crate::segments::drop_frames;
use crate::tests::database::{Database, acme, arrival, execute, start};
use crate::{Uuid, deltas};
use time::{Duration, OffsetDateTime};

/// Rows that this transaction has read without an index.
const SCANNED: &str = "SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_xact_user_tables
    WHERE relname ~ '^(report_frames|report_bodies|group_deltas)'";
/// Pages of a table with devices, and of its index, that this transaction has looked at.
const LOOKED_AT: &str = "SELECT coalesce(sum(pg_stat_get_xact_blocks_fetched(oid)), 0)::bigint FROM pg_class
    WHERE relname ~ '^group_devices'";

/// Fifty days with bodies in segments, which the planner has counted.
async fn fill_days(database: &Database) {
    execute(
        database,
        "SELECT unslide_partitions_ensure('2026-10-01', '2026-11-20');
         INSERT INTO report_frames SELECT 'acme', '2026-10-01 00:00Z'::timestamptz + n * interval '43 seconds',
                gen_random_uuid(), 0, 1, 100, gen_random_uuid(), 0, 100, decode(repeat('07', 32), 'hex')
         FROM generate_series(1, 100000) n;
         ANALYZE report_frames",
    )
    .await;
}

#[tokio::test]
async fn stored_and_deleted_reports_read_no_other_days_and_no_other_groups() {
    let database = Database::new().await;
    fill_days(&database).await;
    // Devices of other groups, of which the planner knows nothing.
    execute(
        &database,
        "INSERT INTO group_devices SELECT 'acme', gen_random_uuid(), decode(md5(n::text), 'hex'), 1 FROM generate_series(1, 30000) n",
    )
    .await;
    let arrivals: Vec<_> = (1..=200)
        .map(|n| {
            let mut one = arrival(n);
            one.facts.device = Some(vec![n; 16]);
            one
        })
        .collect();
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    reports::store_arrivals(&mut tx, &arrivals, Effects::Now, None).await.unwrap();
    assert_eq!(number(&mut tx, SCANNED).await, 0);
    let pages = number(&mut tx, LOOKED_AT).await;
    assert!(pages < 200 * 40, "{pages} pages");

    // One report of each day.
    let times: Vec<OffsetDateTime> = (0..50).map(|days| start() - Duration::days(days)).collect();
    let ids: Vec<Uuid> = (0..50).map(Uuid::from_u128).collect();
    drop_frames(&mut tx, &times, &ids, &[0; 50]).await.unwrap();
    assert_eq!(number(&mut tx, SCANNED).await, 0);
}

#[tokio::test]
async fn folded_counts_are_those_of_their_groups() {
    let database = Database::new().await;
    database.store(&(1..=200).map(arrival).collect::<Vec<_>>()).await;
    execute(
        &database,
        "INSERT INTO group_deltas (tenant, group_id, hour, version, model, os_version, reports, added_at)
         SELECT 'acme', gen_random_uuid(), '2026-11-20 08:00Z', '1.0', '', '', 1, '2026-11-20 08:00Z'
         FROM generate_series(1, 50000);
         ANALYZE group_deltas",
    )
    .await;
    let due = deltas::list_due(&database.store, 2, start() - Duration::DAY, 100).await.unwrap();
    let groups: Vec<_> = due.iter().map(|one| one.group).collect();
    assert_eq!(groups.len(), 3);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(!deltas::fold_groups(&mut tx, &groups, 1_000).await.unwrap());
    assert_eq!(number(&mut tx, SCANNED).await, 0);
}

async fn number(tx: &mut crate::TenantTx, query: &'static str) -> i64 {
    let (connection, ..) = tx.parts();
    sqlx::query_scalar(query).fetch_one(connection).await.unwrap()
}
