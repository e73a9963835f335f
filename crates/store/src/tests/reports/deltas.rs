//! Counts of groups that are not folded yet.

use super::groups::of_bug;
use crate::queries::groups::{self, CountScope, GroupFilter, GroupOrder};
use crate::queries::trends;
use crate::reports::{self, Arrival, Effects};
use crate::tests::database::{Database, acme, arrival, execute, image, revised, start, tenant_id};
use crate::{GroupId, deltas};
use sqlx::Row;
use time::Duration;

const UNFOLDED: &str = "SELECT count(*) FROM group_deltas";
const READ: &str = "SELECT sum(reports)::bigint FROM group_day_counts";

/// Stores a history in batches of this size. `fold` says after which batches rows are folded.
async fn store_history(database: &Database, batch: usize, fold: impl Fn(usize) -> bool) {
    let first: Vec<Arrival> = (1..=40).map(arrival).collect();
    let later = (1..=20).map(|n| revised(&arrival(n), 2, image(1, false, Some(1))));
    let all: Vec<Arrival> = first.into_iter().chain(later).collect();
    for (number, arrivals) in all.chunks(batch).enumerate() {
        database.store(arrivals).await;
        if fold(number) {
            database.fold(3, number % 4).await;
        }
    }
    for n in [3, 25, 26] {
        delete(database, n).await;
    }
    database.store(&[of_bug(90, "1.0", 0)]).await;
}

async fn delete(database: &Database, n: u8) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(reports::delete_report(&mut tx, arrival(n).report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
}

/// The same counts, without sketches: those keep devices of reports that have left, and which ones depends on the batches.
async fn counts(database: &Database) -> Vec<String> {
    let rows = database
        .rows(
            "SELECT concat_ws(' ', group_id, dimension, value, day, sum(reports)) FROM group_breakdown_counts
             GROUP BY group_id, dimension, value, day
             UNION ALL SELECT concat_ws(' ', group_id, day, sum(reports)) FROM group_day_counts GROUP BY group_id, day
             UNION ALL SELECT concat_ws(' ', group_id, hour, sum(reports)) FROM group_hour_counts GROUP BY group_id, hour
             ORDER BY 1",
        )
        .await;
    rows.iter().map(|row| row.get(0)).collect()
}

/// Proves: replay
#[tokio::test]
async fn a_replay_counts_the_same_however_often_rows_are_folded() {
    let mut seen = Vec::new();
    for (batch, fold) in [(60, None), (1, None), (7, Some(1)), (1, Some(2)), (4, Some(3))] {
        let database = Database::new().await;
        store_history(&database, batch, |number| fold.is_some_and(|every| number % every == 0)).await;
        assert!(database.number(UNFOLDED).await > 0, "something is not folded");
        seen.push(counts(&database).await);
        // Once more from the start.
        database.store(&(1..=40).map(arrival).collect::<Vec<_>>()).await;
        seen.push(counts(&database).await);
        database.fold(2, usize::MAX).await;
        assert_eq!(database.number(UNFOLDED).await, 0);
        seen.push(counts(&database).await);
    }
    assert!(seen[0].len() > 20, "{:?}", seen[0]);
    assert!(seen.iter().all(|counts| *counts == seen[0]));
}

#[tokio::test]
async fn an_interrupted_fold_changes_nothing_and_one_transaction_folds_at_a_time() {
    let database = Database::new().await;
    database.store(&(1..=30).map(arrival).collect::<Vec<_>>()).await;
    let before = (database.number(UNFOLDED).await, counts(&database).await);
    let due = deltas::list_due(&database.store, 1, start(), 100).await.unwrap();
    let groups: Vec<GroupId> = due.iter().map(|one| one.group).collect();
    let mut interrupted = database.store.tenant(&acme()).await.unwrap();
    assert!(deltas::fold_groups(&mut interrupted, &groups, 5).await.unwrap());
    // Others see all rows until it commits, and do not wait for it.
    assert_eq!((database.number(UNFOLDED).await, counts(&database).await), before);
    let mut second = database.store.tenant(&acme()).await.unwrap();
    assert!(!deltas::fold_groups(&mut second, &groups, 5).await.unwrap());
    second.commit().await.unwrap();
    interrupted.rollback().await.unwrap();
    assert_eq!((database.number(UNFOLDED).await, counts(&database).await), before);
    database.fold(5, 1).await;
    assert_eq!((database.number(UNFOLDED).await, counts(&database).await), (before.0 - 5, before.1));
}

#[tokio::test]
async fn reports_that_are_stored_and_deleted_while_rows_are_folded_count_once() {
    let database = Database::new().await;
    let done = std::sync::atomic::AtomicBool::new(false);
    let storing = async {
        let of = |n: u8| of_bug(n, if n.is_multiple_of(2) { "1.0" } else { "2.0" }, i64::from(n % 3));
        let keeping = async {
            for n in 1..=60 {
                database.store(&[of(n), arrival(n + 100)]).await;
            }
        };
        let deleting = async {
            for n in 61..=90 {
                database.store(&[of(n)]).await;
                delete(&database, n).await;
            }
        };
        tokio::join!(keeping, deleting);
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    let folding = async {
        let mut folds = 0;
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            database.fold(2, 3).await;
            folds += 1;
        }
        folds
    };
    let ((), folds) = tokio::join!(storing, folding);
    assert!(folds > 3);
    assert_eq!(database.number(READ).await, 120);
    database.fold(100, usize::MAX).await;
    for folded in ["group_days", "group_hours"] {
        assert_eq!(database.number(&format!("SELECT sum(reports)::bigint FROM {folded}")).await, 120);
    }
    let dimensions = "SELECT count(*) FROM (SELECT dimension FROM group_breakdowns GROUP BY 1 HAVING sum(reports) = 120) d";
    assert_eq!(database.number(dimensions).await, 3);
}

/// Proves: deletion
#[tokio::test]
async fn a_deleted_report_leaves_no_device_in_rows_that_are_not_folded() {
    let database = Database::new().await;
    // Reports 1 and 13 are of one device and one group, 2 of another device.
    database.store(&[of_bug(1, "1.0", 0), of_bug(13, "1.0", 0), of_bug(2, "1.0", 0)]).await;
    let of_device = "SELECT count(*) FROM group_deltas WHERE device = decode(repeat('01', 16), 'hex')";
    assert_eq!(database.number(of_device).await, 1, "one row for equal reports of a batch");
    delete(&database, 1).await;
    assert_eq!(database.number(of_device).await, 0);
    assert_eq!(database.number(READ).await, 2);
}

/// Proves: isolation
#[tokio::test]
async fn a_fold_takes_rows_of_its_tenant_alone() {
    let database = Database::new().await;
    database.store(&[of_bug(1, "1.0", 0)]).await;
    let mut other = database.store.tenant(&tenant_id("umbrella")).await.unwrap();
    reports::store_arrivals(&mut other, &[of_bug(1, "1.0", 0)], Effects::Now, None).await.unwrap();
    let group: GroupId = database.rows("SELECT id FROM groups WHERE tenant = 'acme'").await[0].get(0);
    assert!(!deltas::fold_groups(&mut other, &[group], 100).await.unwrap());
    other.commit().await.unwrap();
    let left = "SELECT count(*) FROM group_deltas WHERE tenant = 'acme'";
    assert_eq!((database.number(UNFOLDED).await, database.number(left).await), (1, 1));
}

#[tokio::test]
async fn a_group_is_due_with_many_rows_or_with_an_old_one() {
    let database = Database::new().await;
    database.store(&[of_bug(1, "1.0", 0), of_bug(2, "1.0", 0), arrival(3)]).await;
    let due = async |many, before| {
        let due = deltas::list_due(&database.store, many, before, 100).await.unwrap();
        due.iter().map(|one| (one.tenant.clone(), one.deltas, one.oldest)).collect::<Vec<_>>()
    };
    let later = start() + Duration::SECOND;
    assert_eq!(due(2, start()).await, [(acme(), 2, start())]);
    assert_eq!(due(3, start()).await, []);
    assert_eq!(due(3, later).await.len(), 2);
}

/// Ten thousand groups of a tenant with three counts and a row each that is not folded.
const MANY_GROUPS: &str = "
    INSERT INTO groups (tenant, id, app, fingerprint, kind, title, culprit, provisional, reports, first_seen,
        first_version, last_seen, last_version, own_reports)
    SELECT 'acme', md5(n::text)::uuid, 'app', md5(n::text)::uuid, 'crash', 'bug', '', false, 2 + n % 7,
        '2026-11-20', '1.0', '2026-11-20', '1.0', 2 FROM generate_series(1, 10000) n;
    INSERT INTO group_days (tenant, group_id, day, reports) SELECT 'acme', id, '2026-11-20', 1 FROM groups;
    INSERT INTO group_breakdowns (tenant, group_id, dimension, value, day, reports)
    SELECT 'acme', id, d, '1.0', '2026-11-20', 1 FROM groups, unnest(ARRAY['version', 'model', 'os_version']) d;
    INSERT INTO group_deltas (tenant, group_id, hour, version, model, os_version, reports, added_at)
    SELECT 'acme', id, '2026-11-20', '1.0', '1.0', '1.0', 1, '2026-11-20' FROM groups";

#[tokio::test]
async fn a_page_of_groups_reads_the_counts_of_its_groups_alone() {
    let database = Database::new().await;
    execute(&database, MANY_GROUPS).await;
    execute(&database, "VACUUM ANALYZE").await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let scope = CountScope { version: Some("1.0".into()), ..CountScope::default() };
    let filter = GroupFilter { scope, ..GroupFilter::default() };
    let before = read_rows(&mut tx).await;
    let found = groups::list_groups(&mut tx, &filter, GroupOrder::LastSeen, None, 50).await.unwrap();
    assert!(found.len() == 50 && found.iter().all(|group| group.reports == 2));
    let ids: Vec<_> = found.iter().map(|group| group.id).collect();
    let first = start().date() - Duration::days(9);
    for version in [None, Some("1.0")] {
        let rows = trends::read_group_trends(&mut tx, &ids, version, first).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.reports).sum::<i64>(), 100);
    }
    assert_eq!(groups::get(&mut tx, ids[0], None).await.unwrap().unwrap().versions[0].reports, 2);
    let read = read_rows(&mut tx).await - before;
    // Which groups the version has is asked of at most a thousand of each table.
    assert!((100..4_000).contains(&read), "{read} rows");
}

/// The rows of counts that the connection has read.
async fn read_rows(tx: &mut crate::TenantTx) -> i64 {
    let read = "SELECT coalesce(sum(seq_tup_read + idx_tup_fetch), 0)::bigint FROM pg_stat_xact_user_tables
                WHERE relname IN ('group_days', 'group_breakdowns', 'group_deltas')";
    sqlx::query_scalar(read).fetch_one(tx.parts().0).await.unwrap()
}

#[tokio::test]
async fn hours_of_groups_end_two_weeks_later() {
    let database = Database::new().await;
    for days in [13, 15] {
        let hour = database.clock_now() - Duration::days(days);
        let row = format!("INSERT INTO group_hours VALUES ('acme', gen_random_uuid(), '{hour}', 1)");
        execute(&database, &row).await;
    }
    assert_eq!(crate::tables::purge_old_rows(&database.store).await.unwrap(), 1);
    assert_eq!(database.number("SELECT count(*) FROM group_hours").await, 1);
}
