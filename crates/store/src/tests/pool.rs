//! The bound on connections.

use crate::tests::database::{Database, acme};
use crate::{Settings, Store};
use sqlx::Row;
use std::sync::Arc;
use std::time::Duration;
use unslide_model::SystemClock;

#[tokio::test]
async fn connections_are_bounded_and_waiting_for_one_has_an_end() {
    let database = Database::new().await;
    let settings = Settings {
        max_connections: 1,
        acquire_timeout_seconds: 5,
        ..Settings::with_url(database.url.clone())
    };
    let store = Store::connect(&settings, Arc::new(SystemClock)).await.unwrap();
    let held = store.tenant(&acme()).await.unwrap();
    let Err(error) = store.tenant(&acme()).await else { panic!("a second connection") };
    assert!(error.is_retriable(), "{error}");
    let [connections] = &Store::POOL_STATS;
    assert_eq!((connections.read)(&store), [("open", 1), ("idle", 0)]);
    held.rollback().await.unwrap();
    store.tenant(&acme()).await.unwrap().rollback().await.unwrap();
    store.close().await;
}

/// Proves: isolation
#[tokio::test]
async fn a_transaction_that_is_given_up_while_it_begins_leaves_its_connection_without_a_tenant() {
    let database = Database::new().await;
    let settings = Settings { max_connections: 1, ..Settings::with_url(database.url.clone()) };
    let store = Store::connect(&settings, Arc::new(SystemClock)).await.unwrap();
    for _ in 0..20 {
        // It is asked once, which sends the message, and then dropped, as a rule before the database answers.
        drop(tokio::time::timeout(Duration::ZERO, store.tenant(&acme())).await);
        let left = sqlx::query("SELECT coalesce(current_setting('unslide.tenant', true), '')")
            .fetch_one(store.pool())
            .await
            .unwrap();
        assert_eq!(left.get::<String, _>(0), "");
    }
    store.close().await;
}

/// Proves: isolation
#[tokio::test]
async fn the_tenant_of_a_transaction_ends_with_it() {
    let database = Database::new().await;
    let settings = Settings { max_connections: 1, ..Settings::with_url(database.url.clone()) };
    let store = Store::connect(&settings, Arc::new(SystemClock)).await.unwrap();
    let named = async || {
        let row = sqlx::query("SELECT coalesce(current_setting('unslide.tenant', true), '')");
        row.fetch_one(store.pool()).await.unwrap().get::<String, _>(0)
    };
    let mut tx = store.tenant(&acme()).await.unwrap();
    let row = sqlx::query("SELECT current_setting('unslide.tenant')").fetch_one(tx.parts().0).await.unwrap();
    assert_eq!(row.get::<String, _>(0), "acme");
    tx.commit().await.unwrap();
    assert_eq!(named().await, "");
    drop(store.tenant(&acme()).await.unwrap());
    assert_eq!(named().await, "");
    let mut batch = store.batch().await.unwrap();
    let (connection, _) = batch.parts();
    let row = sqlx::query("SELECT coalesce(current_setting('unslide.tenant', true), '')");
    assert_eq!(row.fetch_one(connection).await.unwrap().get::<String, _>(0), "");
    batch.rollback().await.unwrap();
    store.close().await;
}
