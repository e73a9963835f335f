//! Locks of statements over stored days.

use crate::groups::rules;
use crate::reports::partitions::{ensure_partitions, read_lock_capacity};
use crate::reports::regroup::{self, RegroupStep, Regrouped};
use crate::reports::{self, Arrival, Effects};
use crate::requests::{self, RequestOutcome};
use crate::tests::database::{Database, acme, arrival, debug_id, grouping, image, publish, revised, start};
use crate::{TenantTx, wakes};
use time::Duration;
use unslide_model::Quality;

/// Days that have tables, beside those of the reports.
const STORED_DAYS: i64 = 120;
/// Tables and indexes that a transaction about reports of a few days may lock: far fewer than the indexes of the stored days.
const LOCKS_LIMIT: i64 = 700;
/// Executions of a statement. At the sixth one of a connection PostgreSQL makes a plan for all parameters, for which it locks every day
/// once. That plan costs more than those that leave days out, so it is not made again.
const EXECUTIONS: u8 = 5;

#[tokio::test]
async fn the_widest_statement_grows_with_the_stored_days() {
    let database = Database::new().await;
    let before = read_lock_capacity(&database.store).await.unwrap();
    let day = start().date();
    ensure_partitions(&database.store, day + Duration::days(50), day + Duration::days(59)).await.unwrap();
    let after = read_lock_capacity(&database.store).await.unwrap();
    let more = after.widest_statement - before.widest_statement;
    assert!(more >= 10 * 10 && more % 10 == 0, "ten days with their indexes: {before:?}, {after:?}");
    let counted = "WITH all_days AS MATERIALIZED (SELECT count(*) FROM reports) \
        SELECT (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()) FROM all_days";
    let locked = database.number(counted).await;
    assert!((after.widest_statement..after.widest_statement + 50).contains(&locked), "{locked} of {after:?}");
}

/// Fails if the transaction has locked the tables of all days.
async fn check_locks(tx: &mut TenantTx, what: &str) {
    let (connection, _, _) = tx.parts();
    let counted = "SELECT count(*), string_agg(DISTINCT regexp_replace(relation::regclass::text, '_[0-9]{8}.*', ''), ' ')
                   FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation'";
    let (locked, tables): (i64, String) = sqlx::query_as(counted).fetch_one(connection).await.unwrap();
    assert!(locked < LOCKS_LIMIT, "{what}: {locked} locks, {tables}");
}

#[tokio::test]
async fn transactions_about_some_reports_lock_their_days_alone() {
    let database = Database::new().await;
    let day = start().date();
    ensure_partitions(&database.store, day - Duration::days(STORED_DAYS), day - Duration::days(4))
        .await
        .unwrap();
    let all: Vec<_> =
        (1..=9).map(|n| Arrival { images: vec![image(n, false, None)], ..arrival(n) }).collect();
    database.store(&all).await;
    for n in 1..=EXECUTIONS {
        let report = (arrival(n).report_id, 0);
        let generation = publish(&database, n, Quality::Symtab).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let page = wakes::request_page(&mut tx, &debug_id(n), generation, None, 10).await.unwrap();
        assert_eq!(page.requested, 1);
        tx.commit().await.unwrap();
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        assert_eq!(requests::find_sources(&mut tx, &[report]).await.unwrap().len(), 1);
        check_locks(&mut tx, "the source of a request").await;
        tx.rollback().await.unwrap();
        let sent = database.sent(report).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let closed =
            requests::close_request(&mut tx, report, 2, RequestOutcome::Unchanged, sent).await.unwrap();
        assert!(closed.is_some());
        check_locks(&mut tx, "the end of a request").await;
        tx.commit().await.unwrap();
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let second = revised(&arrival(n), 2, image(n, false, Some(generation)));
        reports::store_arrivals(&mut tx, &[second], Effects::Now, None).await.unwrap();
        check_locks(&mut tx, "a second revision").await;
        tx.commit().await.unwrap();
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        assert!(reports::delete_report(&mut tx, report.0, report.1, None).await.unwrap());
        check_locks(&mut tx, "a deletion").await;
        tx.commit().await.unwrap();
    }
}

#[tokio::test]
async fn reports_that_move_to_other_groups_lock_their_days_alone() {
    let database = Database::new().await;
    let day = start().date();
    ensure_partitions(&database.store, day - Duration::days(STORED_DAYS), day - Duration::days(4))
        .await
        .unwrap();
    database.store(&(1..=EXECUTIONS).map(arrival).collect::<Vec<_>>()).await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (rules, _) = rules::set_rules(&mut tx, "key", "function:x -app").await.unwrap().unwrap();
    tx.commit().await.unwrap();
    for _ in 1..=EXECUTIONS {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let step = regroup::next(&mut tx, rules.version, 1).await.unwrap();
        tx.rollback().await.unwrap();
        let RegroupStep::Page(page) = step else { panic!("{step:?}") };
        let moved = page.reports.iter().map(|(report_id, variant)| Regrouped {
            report_id: *report_id,
            variant: *variant,
            revision: 1,
            grouping: Some(grouping(7, false)),
            terms: Vec::new(),
        });
        let moved: Vec<_> = moved.collect();
        assert_eq!(moved.len(), 1);
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        assert!(regroup::store_regrouped(&mut tx, &page, &moved).await.unwrap());
        check_locks(&mut tx, "a move to another group").await;
        tx.commit().await.unwrap();
    }
}
