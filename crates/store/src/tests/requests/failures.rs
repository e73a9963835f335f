//! One row or one tenant that fails takes no other tenant's turn.
//! Proves: late-symbols

use crate::reports::{self, Arrival, Effects};
use crate::requests;
use crate::retries::{self, RETRY_BACKOFFS};
use crate::tests::database::{Database, acme, arrival, execute, symbols, tenant_id};
use crate::wakes::missed;
use crate::{StoreError, slots};
use time::Duration;
use unslide_model::{Quality, TenantId};

/// Symbols of image 1 for both tenants, and reports 1 and 2 of each.
async fn both(database: &Database, report: impl Fn(u8) -> Arrival) {
    for tenant in [acme(), umbrella()] {
        let mut tx = database.store.tenant(&tenant).await.unwrap();
        reports::store_arrivals(&mut tx, &[report(1), report(2)], Effects::Now, None).await.unwrap();
        slots::publish_symbols(&mut tx, &symbols(1, Quality::Dwarf)).await.unwrap();
        tx.commit().await.unwrap();
    }
}

fn umbrella() -> TenantId {
    tenant_id("umbrella")
}

/// A report where the symbols of the app's image could not be fetched.
fn unfetched(n: u8) -> Arrival {
    let mut report = arrival(n);
    report.images[0].failed = true;
    report
}

/// What was asked for, as `tenant report needs`.
async fn asked(database: &Database) -> Vec<String> {
    let asked = "SELECT concat_ws(' ', tenant, left(message ->> 'report_id', 2), jsonb_array_length(message -> 'needs'))
                 FROM outbox WHERE kind = 'resymbolicate' ORDER BY 1";
    let asked: Vec<String> = database.rows(asked).await.iter().map(|row| sqlx::Row::get(row, 0)).collect();
    execute(database, "DELETE FROM outbox").await;
    asked
}

/// Has the database refuse all changes of `acme`'s rows of a table, or lets them through again.
async fn refuse(database: &Database, table: &str, refused: bool) {
    let refuse = format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW
         WHEN (NEW.tenant = 'acme') EXECUTE FUNCTION refuse()"
    );
    let accept = "DROP FUNCTION refuse CASCADE".to_owned();
    execute(database, if refused { &refuse } else { &accept }).await;
}

#[tokio::test]
async fn the_clock_asks_for_a_report_whose_needs_can_not_be_read_and_for_all_others() {
    let database = Database::new().await;
    both(&database, unfetched).await;
    asked(&database).await;
    execute(
        &database,
        "UPDATE report_keys SET retry_needs = '{}', retry_at = retry_at - interval '1 second'
         WHERE tenant = 'acme' AND report_id::text LIKE '01%'",
    )
    .await;
    database.wait(RETRY_BACKOFFS[0]);
    // It is the first of its page, and then one of the others is.
    let failed = retries::ask_due(&database.store, 1).await;
    assert!(matches!(failed, Err(StoreError::Corrupt { table: "report_keys", .. })), "{failed:?}");
    assert_eq!(asked(&database).await, ["acme 01 0"]);
    assert_eq!(retries::ask_due(&database.store, 10).await.unwrap(), 3);
    assert_eq!(asked(&database).await, ["acme 02 1", "umbrella 01 1", "umbrella 02 1"]);
    assert_eq!(retries::ask_due(&database.store, 10).await.unwrap(), 0);
}

#[tokio::test]
async fn the_clock_asks_for_the_reports_of_the_tenants_behind_one_that_fails() {
    let database = Database::new().await;
    both(&database, unfetched).await;
    asked(&database).await;
    database.wait(RETRY_BACKOFFS[0]);
    refuse(&database, "report_keys", true).await;
    assert!(matches!(retries::ask_due(&database.store, 10).await, Err(StoreError::Database(_))));
    assert_eq!(asked(&database).await, ["umbrella 01 1", "umbrella 02 1"]);
    refuse(&database, "report_keys", false).await;
    assert_eq!(retries::ask_due(&database.store, 10).await.unwrap(), 2);
    assert_eq!(asked(&database).await, ["acme 01 1", "acme 02 1"]);
}

#[tokio::test]
async fn a_request_whose_needs_can_not_be_read_is_sent_again_and_so_are_all_others() {
    let database = Database::new().await;
    for tenant in [acme(), umbrella()] {
        let mut tx = database.store.tenant(&tenant).await.unwrap();
        slots::publish_symbols(&mut tx, &symbols(1, Quality::Dwarf)).await.unwrap();
        reports::store_arrivals(&mut tx, &[arrival(1), arrival(2)], Effects::Now, None).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(asked(&database).await.len(), 4);
    execute(
        &database,
        "UPDATE report_keys SET requested_needs = '{}' WHERE tenant = 'acme' AND report_id::text LIKE '01%'",
    )
    .await;
    database.wait(Duration::minutes(11));
    let failed = requests::resend_overdue(&database.store, 10).await;
    assert!(matches!(failed, Err(StoreError::Corrupt { table: "report_keys", .. })), "{failed:?}");
    assert_eq!(asked(&database).await, ["acme 01 0", "acme 02 1", "umbrella 01 1", "umbrella 02 1"]);
    database.wait(Duration::minutes(11));
    assert_eq!(requests::resend_overdue(&database.store, 10).await.unwrap(), 4, "it can be read by now");
    asked(&database).await;
    database.wait(Duration::HOUR);
    refuse(&database, "report_keys", true).await;
    assert!(matches!(requests::resend_overdue(&database.store, 10).await, Err(StoreError::Database(_))));
    assert_eq!(asked(&database).await, ["umbrella 01 1", "umbrella 02 1"]);
}

#[tokio::test]
async fn missed_wakes_are_added_for_the_tenants_behind_one_that_fails() {
    let database = Database::new().await;
    both(&database, arrival).await;
    execute(&database, "DELETE FROM jobs").await;
    refuse(&database, "jobs", true).await;
    assert!(matches!(missed::add_missed_wakes(&database.store).await, Err(StoreError::Database(_))));
    let jobs = "SELECT count(*) FROM jobs WHERE tenant = 'umbrella' AND kind = 'wake'";
    assert_eq!(database.number(jobs).await, 1);
}

#[tokio::test]
async fn the_end_of_a_replay_asks_for_the_tenants_behind_one_that_fails() {
    let database = Database::new().await;
    for tenant in [acme(), umbrella()] {
        let mut tx = database.store.tenant(&tenant).await.unwrap();
        slots::publish_symbols(&mut tx, &symbols(1, Quality::Dwarf)).await.unwrap();
        reports::store_arrivals(&mut tx, &[arrival(1)], Effects::Deferred, None).await.unwrap();
        tx.commit().await.unwrap();
    }
    asked(&database).await;
    refuse(&database, "report_keys", true).await;
    assert!(matches!(requests::ask_pending(&database.store, 10).await, Err(StoreError::Database(_))));
    assert_eq!(asked(&database).await, ["umbrella 01 1"]);
}
