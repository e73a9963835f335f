//! The bound on connections.

use crate::tests::database::{Database, acme};
use crate::{Settings, Store};
use std::sync::Arc;
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
    let [connections] = &Store::FIGURES;
    assert_eq!((connections.read)(&store), [("open", 1), ("idle", 0)]);
    held.rollback().await.unwrap();
    store.tenant(&acme()).await.unwrap().rollback().await.unwrap();
    store.close().await;
}
