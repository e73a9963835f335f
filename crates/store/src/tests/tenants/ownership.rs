//! A managed server: the one who migrates is no superuser, and the one who serves owns nothing.

use crate::tenants::{self, QuotaLimits};
use crate::tests::database::{START_MICROS, acme, admin, arrival, start, url_of};
use crate::{
    Settings, Store, StoreError, apply_migrations, jobs, keys, outbox, partitions, reports, requests,
};
use std::sync::Arc;
use unslide_model::{FixedClock, Scope, Secret};
use unslide_testkit::servers;

async fn clear(owner: &str, login: &str, database: &str) {
    admin(&format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)")).await;
    admin(&format!("DROP ROLE IF EXISTS {login}")).await;
    admin(&format!("REVOKE unslide_service FROM {owner}")).await;
    admin(&format!("DROP OWNED BY {owner} CASCADE; DROP ROLE IF EXISTS {owner}")).await;
}

async fn serve(owner: &str, login: &str, database: &str) {
    let clock = Arc::new(FixedClock::at_micros(START_MICROS));
    let settings = Settings { any_login: false, ..Settings::with_url(url_of(database, login)) };
    let early = Store::connect(&settings, clock.clone()).await;
    assert!(matches!(early.err(), Some(StoreError::NotMigrated { .. })));
    let owner_url = Secret::new(url_of(database, owner));
    let first = apply_migrations(&owner_url).await.unwrap();
    assert_eq!((first.applied, apply_migrations(&owner_url).await.unwrap().applied), (first.total, 0));
    admin(&format!("GRANT unslide_service TO {owner}")).await;
    let of_owner = Settings { any_login: false, ..Settings::with_url(url_of(database, owner)) };
    let refused = Store::connect(&of_owner, clock.clone()).await;
    assert!(matches!(refused.err(), Some(StoreError::UnsafeLogin(name)) if name == owner));
    let store = Store::connect_timed(&settings, clock.clone()).await.unwrap();
    let mut tx = store.tenant(&acme()).await.unwrap();
    tenants::create_tenant(&mut tx, "Acme", &QuotaLimits::default()).await.unwrap().unwrap();
    let new =
        keys::NewApiKey { name: "k".into(), scopes: vec![Scope::Operator], app: None, expires_at: None };
    let (_, text) = keys::create_key(&mut tx, &new, &[3; 30]).await.unwrap();
    jobs::add_job(&mut tx, &jobs::Work::Build { upload: crate::UploadId::default() }).await.unwrap();
    tx.commit().await.unwrap();
    // Every function of the owner, as the service.
    assert_eq!(keys::authenticate(&store, text.reveal()).await.unwrap().unwrap().tenant, acme());
    assert_eq!(tenants::list_tenants(&store, None, 10).await.unwrap().len(), 1);
    assert_eq!(jobs::count_jobs(&store).await.unwrap()[0].jobs, 1);
    let leased =
        jobs::lease_jobs(&store, &jobs::JobKind::ALL, "w", time::Duration::MINUTE, 10).await.unwrap();
    assert_eq!(leased.len(), 1);
    assert_eq!(jobs::purge_jobs(&store, start()).await.unwrap(), 0);
    let mut relay = outbox::Relay::acquire(&store).await.unwrap().unwrap();
    let unsent = relay.next(10).await.unwrap();
    assert_eq!(unsent.len(), 1);
    relay.record_sent(&[unsent[0].id], start()).await.unwrap();
    assert!(relay.next(10).await.unwrap().is_empty());
    assert_eq!(outbox::purge_messages(&store, start() + time::Duration::HOUR).await.unwrap(), 1);
    assert_eq!(partitions::ensure_partitions(&store, start().date(), start().date()).await.unwrap(), 6);
    let mut tx = store.tenant(&acme()).await.unwrap();
    reports::store_arrivals(&mut tx, &[arrival(1)], reports::Effects::Deferred, None).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(requests::ask_pending(&store, 10).await.unwrap(), 0);
    assert_eq!(requests::resend_overdue(&store, 10).await.unwrap(), 0);
    let tomorrow = start().date().next_day().unwrap();
    assert_eq!(partitions::drop_before(&store, tomorrow).await.unwrap(), 6);
    clock.advance_micros(45 * 86_400_000_000);
    assert!(partitions::begin_key_month(&store).await.unwrap());
    assert_eq!(partitions::drop_keys(&store, start() + time::Duration::days(46)).await.unwrap(), 1);
    let temporary = "CREATE TEMPORARY TABLE copy (a integer)";
    let refused = sqlx::query(temporary).execute(store.pool()).await.unwrap_err();
    let code = refused.as_database_error().and_then(sqlx::error::DatabaseError::code);
    assert_eq!(code.as_deref(), Some("42501"), "nobody makes temporary tables");
    store.close().await;
}

#[tokio::test]
async fn an_owner_without_power_migrates_and_a_login_without_tables_serves() {
    let name = servers::unique("own").replace('-', "_");
    let (owner, login, database) = (format!("o_{name}"), format!("l_{name}"), format!("d_{name}"));
    // Where this is the server's first migration the role is made by another test's: either order works.
    admin(&format!("CREATE ROLE {owner} LOGIN PASSWORD '{owner}' CREATEROLE NOSUPERUSER NOBYPASSRLS")).await;
    admin(&format!("CREATE ROLE {login} LOGIN PASSWORD '{login}'")).await;
    admin(&format!("CREATE DATABASE {database} OWNER {owner}")).await;
    admin(
        "DO $$ BEGIN CREATE ROLE unslide_service NOLOGIN NOBYPASSRLS;
         EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$",
    )
    .await;
    admin(&format!("GRANT unslide_service TO {login}")).await;
    let (o, l, d) = (owner.clone(), login.clone(), database.clone());
    // A task of its own, so that a failure leaves nothing behind either.
    let local = tokio::task::LocalSet::new();
    let done = local
        .run_until(async { tokio::task::spawn_local(async move { serve(&o, &l, &d).await }).await })
        .await;
    clear(&owner, &login, &database).await;
    done.unwrap();
}
