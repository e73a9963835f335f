//! What is an outage of the database, and what is a fault of a statement.

use super::database::{Database, acme, arrival, start, url_of};
use crate::jobs::{self, Work};
use crate::{Settings, Store, StoreError, reports};
use sqlx::AssertSqlSafe;
use time::Duration;
use unslide_testkit::databases;

async fn store_one(store: &Store) -> Result<(), StoreError> {
    let mut tx = store.tenant(&acme()).await?;
    reports::store_arrivals(&mut tx, &[arrival(1)], reports::Effects::Now, None).await?;
    tx.commit().await
}

async fn connect_anew(database: &Database) -> Store {
    let settings = Settings::with_url(database.url.clone());
    Store::connect_timed(&settings, database.clock.clone()).await.unwrap()
}

/// Proves: outages
#[tokio::test]
async fn a_database_that_takes_no_writes_is_an_outage_and_says_so() {
    let database = Database::new().await;
    database.store.check_storing().await.unwrap();
    let name = database.url.rsplit_once('/').unwrap().1;
    let set = |to: &str| format!("ALTER DATABASE {name} SET default_transaction_read_only = {to}");
    databases::execute(&database.url, &set("on")).await;
    let store = connect_anew(&database).await;
    let told = store.check_writes().await.unwrap_err();
    assert!(matches!(told, StoreError::ReadOnly) && told.is_outage() && !told.is_connection(), "{told}");
    let failed = store_one(&store).await.unwrap_err();
    assert!(failed.is_outage() && failed.is_retriable(), "{failed:?}");
    store.close().await;
}

/// Proves: outages
#[tokio::test]
async fn a_day_without_tables_is_named_before_a_report_of_it_comes() {
    let database = Database::new().await;
    database.wait(Duration::days(30));
    let told = database.store.check_storing().await.unwrap_err();
    let StoreError::NoPartitions { day, tables } = &told else { panic!("{told:?}") };
    assert_eq!(*day, start().date() + Duration::days(30));
    assert_eq!(tables, "metric_payloads, report_bodies, report_frames, reports, sessions, waits");
    assert!(told.is_outage());
}

/// Proves: outages
#[tokio::test]
async fn a_refused_login_or_right_is_an_outage_and_a_refused_row_is_not() {
    let database = Database::new().await;
    // The role belongs to all databases of the server, the right to this one.
    databases::execute(&database.url, "REVOKE INSERT ON reports FROM unslide_service").await;
    let refused = store_one(&database.store).await.unwrap_err();
    assert!(refused.is_outage() && refused.is_denied(), "{refused:?}");
    databases::execute(&database.url, "GRANT INSERT ON reports TO unslide_service").await;
    store_one(&database.store).await.unwrap();

    let mut tx = database.store.tenant(&acme()).await.unwrap();
    jobs::add_job(&mut tx, &Work::Erase).await.unwrap();
    let foreign = "UPDATE jobs SET tenant = 'umbrella'";
    let refused = sqlx::query(AssertSqlSafe(foreign)).execute(tx.parts().0).await.unwrap_err();
    let refused = StoreError::from(refused);
    assert!(refused.is_denied() && !refused.is_outage() && !refused.is_retriable(), "{refused:?}");
    tx.rollback().await.unwrap();

    let (name, stranger) = (database.url.rsplit_once('/').unwrap().1, "no-such-login");
    let settings = Settings::with_url(url_of(name, stranger));
    let Err(refused) = Store::connect_timed(&settings, database.clock.clone()).await else {
        panic!("it logs in")
    };
    assert!(refused.is_outage() && !refused.is_connection(), "a start says so and ends: {refused:?}");
}
