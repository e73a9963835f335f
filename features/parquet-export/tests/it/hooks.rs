//! The changes of days, as the transactions that change reports write them.

use time::{Date, Duration};
use unslide_harness::database::{TestDatabase, acme, arrival, umbrella};
use unslide_model::TenantId;
use unslide_parquet_export::store::{
    NewExportRow, PARQUET_EXPORT_HOOK, collect_changes, get_export, remove_export, set_export,
};
use unslide_store::reports::{Arrival, count_once, delete_report};

async fn set(database: &TestDatabase, tenant: &TenantId, first_day: Option<Date>) {
    let mut tx = database.store.tenant(tenant).await.unwrap();
    let row = NewExportRow { shown_address: "a".to_owned(), sealed_target: Vec::new(), first_day };
    set_export(&mut tx, &row).await.unwrap();
    tx.commit().await.unwrap();
}

/// Returns the changes as `day erases`.
async fn read_changes(database: &TestDatabase) -> Vec<String> {
    let rows = database.rows("SELECT day || ' ' || erases FROM parquet_day_changes ORDER BY number").await;
    rows.iter().map(|row| sqlx::Row::get(row, 0)).collect()
}

async fn delete(database: &TestDatabase, report: &Arrival) {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(delete_report(&mut tx, report.report_id, 0, None).await.unwrap());
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_change_of_a_day_that_is_over_is_noted_and_arrivals_of_today_are_not() {
    let database = TestDatabase::new(&[PARQUET_EXPORT_HOOK]).await;
    let day = database.now().date();
    // Another tenant's export is none of this one's.
    set(&database, &umbrella(), Some(day)).await;
    let (first, second) = (arrival(1), arrival(2));
    database.store(std::slice::from_ref(&first)).await;
    database.wait(Duration::DAY);
    let revised = Arrival { revision: 2, ..first.clone() };
    database.store(&[revised.clone(), second.clone()]).await;
    assert_eq!(read_changes(&database).await, [""; 0], "without an export");

    set(&database, &acme(), Some(day)).await;
    database.store(&[Arrival { received_at: database.now(), ..arrival(3) }]).await;
    database.store(std::slice::from_ref(&revised)).await;
    assert_eq!(read_changes(&database).await, [""; 0], "of today, and a replay");
    database.store(&[Arrival { revision: 3, ..first.clone() }]).await;
    delete(&database, &second).await;
    assert_eq!(read_changes(&database).await, [format!("{day} false"), format!("{day} true")]);

    // A change that is not committed yet is not counted, and stays.
    let mut open = database.store.tenant(&acme()).await.unwrap();
    assert!(delete_report(&mut open, first.report_id, 0, None).await.unwrap());
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(!collect_changes(&mut tx).await.unwrap());
    tx.commit().await.unwrap();
    open.commit().await.unwrap();
    assert_eq!(read_changes(&database).await, [format!("{day} true")]);
    let days =
        "SELECT count(*) FROM parquet_days WHERE erases AND changed_since IS NOT NULL AND tenant = 'acme'";
    assert_eq!(database.number(days).await, 1);

    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(remove_export(&mut tx).await.unwrap());
    assert!(get_export(&mut tx).await.unwrap().is_none());
    tx.commit().await.unwrap();
    assert_eq!(read_changes(&database).await, [""; 0]);
}

#[tokio::test]
async fn days_before_the_first_one_are_not_noted_and_a_move_is() {
    let database = TestDatabase::new(&[PARQUET_EXPORT_HOOK]).await;
    let day = database.now().date();
    set(&database, &acme(), day.next_day()).await;
    let of_run = |number: u8, metric_kit: bool, received_at| {
        let mut report = Arrival { received_at, ..arrival(number) };
        report.facts.run_id = Some(unslide_store::Uuid::from_bytes([9; 16]));
        report.facts.metric_kit = metric_kit;
        report
    };
    database.store(&[arrival(1)]).await;
    database.wait(Duration::DAY);
    database.store(&[of_run(3, false, database.now()), of_run(4, true, database.now())]).await;
    delete(&database, &arrival(1)).await;
    assert_eq!(read_changes(&database).await, [""; 0]);
    database.wait(Duration::DAY);
    assert_eq!(count_once(&database.store, 10).await.unwrap(), 1);
    assert_eq!(read_changes(&database).await, [format!("{} false", day.next_day().unwrap())]);
}
