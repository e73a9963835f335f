//! What a process hears of keys and tenants.

use crate::access_changes::AccessListener;
use crate::groups::rules;
use crate::keys::{self, NewApiKey};
use crate::tenants::{self, QuotaLimits, TenantStanding};
use crate::tests::database::{Database, acme, start, tenant_id};
use crate::{Settings, Store, TenantTx, erasure};
use std::collections::BTreeMap;
use std::sync::Arc;
use unslide_model::{Scope, SystemClock};

/// A transaction of a tenant that is committed after some work.
async fn commit<T>(database: &Database, slug: &str, work: impl AsyncFnOnce(&mut TenantTx) -> T) -> T {
    let mut tx = database.store.tenant(&tenant_id(slug)).await.unwrap();
    let done = work(&mut tx).await;
    tx.commit().await.unwrap();
    done
}

/// Proves: keys
#[tokio::test]
async fn a_committed_change_is_heard_by_the_next_answer() {
    let database = Database::new().await;
    let mut listener = AccessListener::new(&database.store).await.unwrap();
    let new = NewApiKey { name: "x".into(), scopes: vec![Scope::TenantAdmin], app: None, expires_at: None };
    let make = async |slug, entropy: [u8; 30]| {
        commit(&database, slug, async |tx| keys::create(tx, &new, &entropy).await.unwrap().0.id).await
    };
    let (root, other) = (make("acme", [1; 30]).await, make("umbrella", [2; 30]).await);
    let made = async |tx: &mut TenantTx| keys::create_by(tx, &new, &[3; 30], root).await.unwrap().unwrap();
    commit(&database, "umbrella", made).await;
    let uses = BTreeMap::from([((acme(), root), start())]);
    assert_eq!(keys::used(&database.store, &uses).await.unwrap(), 1);
    assert!(listener.catch_up().await.unwrap().is_empty(), "nobody remembers what is new");

    commit(&database, "umbrella", async |tx| assert!(keys::revoke(tx, other, None).await.unwrap())).await;
    assert_eq!(listener.catch_up().await.unwrap(), [tenant_id("umbrella")]);
    let cascade = async |tx: &mut TenantTx| {
        assert_eq!(keys::revoke_with_made(tx, root, None, None, "test").await.unwrap(), Some(1));
    };
    commit(&database, "acme", cascade).await;
    let mut heard = listener.catch_up().await.unwrap();
    heard.sort();
    assert_eq!(heard, [acme(), tenant_id("umbrella")], "also of another tenant's key that goes with it");

    let limits = QuotaLimits { units_per_second: 7, ..QuotaLimits::default() };
    let suspend = async |tx: &mut TenantTx| {
        tenants::change(tx, "Acme", TenantStanding::Suspended, &limits).await.unwrap().unwrap();
    };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    suspend(&mut tx).await;
    assert!(listener.catch_up().await.unwrap().is_empty(), "it is not committed");
    tx.rollback().await.unwrap();
    commit(&database, "acme", suspend).await;
    assert_eq!(listener.catch_up().await.unwrap(), [acme()]);
    let set = async |tx: &mut TenantTx| {
        drop(rules::set(tx, "test", "ignore function Log.*").await.unwrap().unwrap());
    };
    commit(&database, "acme", set).await;
    assert_eq!(listener.next().await.unwrap(), Some(acme()));
    commit(&database, "acme", async |tx| drop(erasure::begin(tx).await.unwrap().unwrap())).await;
    assert_eq!(listener.catch_up().await.unwrap(), [acme()]);
}

/// Proves: keys
#[tokio::test]
async fn a_listener_whose_connection_ends_says_so_and_does_not_connect_again() {
    let database = Database::new().await;
    let cut = async || {
        let of = "datname = current_database() AND query LIKE 'LISTEN%'";
        let end = format!("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {of}");
        assert_eq!(database.number(&end).await, 1);
    };
    let mut listener = AccessListener::new(&database.store).await.unwrap();
    cut().await;
    assert_eq!(listener.next().await.unwrap(), None);
    drop(listener);
    let mut listener = AccessListener::new(&database.store).await.unwrap();
    cut().await;
    assert!(listener.catch_up().await.is_err());
}

/// So one that hangs takes none from requests either.
#[tokio::test]
async fn a_listener_takes_no_connection_from_the_pool() {
    let database = Database::new().await;
    let settings = Settings { max_connections: 1, ..Settings::with_url(database.url.clone()) };
    let store = Store::connect(&settings, Arc::new(SystemClock)).await.unwrap();
    let mut listener = AccessListener::new(&store).await.unwrap();
    store.ping().await.unwrap();
    assert!(listener.catch_up().await.unwrap().is_empty());
    store.close().await;
}
