//! Jobs, the outbox, keys.

use super::database::{Database, acme, start, tenant_id};
use crate::jobs::{self, Failed, Kind, Work};
use crate::keys::{self, NewKey};
use crate::outbox::{self, Message, Relay};
use crate::tenants::{self, Limits, State};
use crate::{Channel, Listener, StoreError, Uuid};
use time::Duration;
use unslide_model::{Scope, TenantId};

async fn add(database: &Database, tenant: &TenantId) -> Uuid {
    let mut tx = database.store.tenant(tenant).await.unwrap();
    let id = jobs::add(&mut tx, &Work::Build { upload: Uuid::nil() }).await.unwrap();
    tx.commit().await.unwrap();
    id
}

async fn lease(database: &Database, limit: u32) -> Vec<jobs::Lease> {
    jobs::lease(&database.store, &[Kind::Build], "worker", Duration::MINUTE, limit).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_has_one_worker_and_a_dead_workers_job_finds_another() {
    let database = Database::new().await;
    for _ in 0..10 {
        add(&database, &acme()).await;
        add(&database, &tenant_id("umbrella")).await;
    }
    let (a, b) = tokio::join!(lease(&database, 20), lease(&database, 20));
    let ids: std::collections::BTreeSet<_> = a.iter().chain(&b).map(|job| job.id).collect();
    assert_eq!((ids.len(), a.len() + b.len()), (20, 20));
    let jobs: Vec<_> = a.into_iter().chain(b).collect();
    database.wait(Duration::seconds(50));
    jobs::heartbeat(&database.store, &jobs[0], Duration::MINUTE).await.unwrap();
    let mut tx = database.store.owner(&jobs[1].owner).await.unwrap();
    jobs::complete(&mut tx, &jobs[1]).await.unwrap();
    tx.commit().await.unwrap();
    database.wait(Duration::seconds(20));
    let again = lease(&database, 30).await;
    assert_eq!(again.len(), 18, "all but the one that was kept alive and the one that is done");
    assert!(again.iter().all(|job| job.attempt == 2));
    // The first worker comes back and finds that it has lost the job.
    let lost = jobs.iter().find(|job| job.id == again[0].id).unwrap();
    assert!(matches!(
        jobs::heartbeat(&database.store, lost, Duration::MINUTE).await,
        Err(StoreError::LeaseLost(_))
    ));
    let mut tx = database.store.owner(&lost.owner).await.unwrap();
    assert!(matches!(jobs::complete(&mut tx, lost).await, Err(StoreError::LeaseLost(_))));
    assert!(matches!(jobs::fail(&mut tx, lost, "x", false).await, Err(StoreError::LeaseLost(_))));
}

#[tokio::test]
async fn a_failure_is_tried_again_later_and_later_and_then_never() {
    let database = Database::new().await;
    add(&database, &acme()).await;
    let mut pauses = Vec::new();
    for attempt in 1..=jobs::MAX_ATTEMPTS {
        let jobs = lease(&database, 1).await;
        assert_eq!(jobs[0].attempt, attempt);
        assert!(lease(&database, 1).await.is_empty());
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let failed = jobs::fail(&mut tx, &jobs[0], "it\0 broke", false).await.unwrap();
        let now = tx.now();
        tx.commit().await.unwrap();
        match failed {
            Failed::Again(at) => {
                pauses.push((at - now).whole_seconds());
                database.wait(at - now - Duration::SECOND);
                assert!(lease(&database, 1).await.is_empty(), "not yet due");
                database.wait(Duration::seconds(2));
            }
            Failed::ForGood => assert_eq!(attempt, jobs::MAX_ATTEMPTS),
        }
    }
    assert_eq!(pauses, [2, 4, 8, 16, 32]);
    database.wait(Duration::DAY);
    assert!(lease(&database, 1).await.is_empty());
}

#[tokio::test]
async fn a_job_that_kills_its_workers_is_given_out_a_last_time_to_be_buried() {
    let database = Database::new().await;
    add(&database, &acme()).await;
    for attempt in 1..=jobs::MAX_ATTEMPTS {
        let jobs = lease(&database, 1).await;
        assert_eq!((jobs[0].attempt, jobs[0].exhausted), (attempt, false));
        database.wait(Duration::minutes(2));
    }
    let jobs = lease(&database, 1).await;
    assert!(jobs[0].exhausted);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert_eq!(jobs::fail(&mut tx, &jobs[0], "kills", false).await.unwrap(), Failed::ForGood);
    tx.commit().await.unwrap();
    database.wait(Duration::DAY);
    assert!(lease(&database, 1).await.is_empty());
}

#[tokio::test]
async fn one_relay_at_a_time_sends_in_order_what_was_committed() {
    let database = Database::new().await;
    let mut listener = Listener::new(&database.store, Channel::Outbox).await.unwrap();
    let mut relay = Relay::acquire(&database.store).await.unwrap().unwrap();
    assert!(Relay::acquire(&database.store).await.unwrap().is_none());
    let first = relay.next(10).await.unwrap();
    assert_eq!(first.iter().map(|u| u.owner.as_str()).collect::<Vec<_>>(), ["acme", "umbrella"]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let limits = Limits { reports_per_second: 5, ..Limits::default() };
    let (changed, id) = tenants::change(&mut tx, "Acme", State::Suspended, &limits).await.unwrap().unwrap();
    assert_eq!(changed.version, 2);
    assert_eq!(relay.next(10).await.unwrap().len(), 2, "not committed");
    tx.commit().await.unwrap();
    let wait = std::time::Duration::from_secs(10);
    assert!(listener.wait(wait).await.unwrap().is_some());
    let unsent = relay.next(10).await.unwrap();
    assert_eq!(unsent.len(), 3);
    let config = Message::TenantConfig {
        version: 2,
        state: State::Suspended,
        limits,
        at_micros: super::database::START_MICROS,
    };
    assert_eq!(unsent[2].message, config);
    assert!(!outbox::wait_sent(&database.store, &acme(), id, std::time::Duration::ZERO).await.unwrap());
    relay.sent(&[id], start()).await.unwrap();
    assert!(outbox::wait_sent(&database.store, &acme(), id, std::time::Duration::ZERO).await.unwrap());
    assert_eq!(relay.next(10).await.unwrap(), first);
    drop(relay);
    // Its connection closes in the background.
    let mut again = None;
    for _ in 0..100 {
        again = Relay::acquire(&database.store).await.unwrap();
        if again.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(again.is_some(), "the lock went with the relay");
}

#[tokio::test]
async fn a_key_speaks_for_its_tenant_until_it_ends() {
    let database = Database::new().await;
    let new = NewKey {
        name: "ci".into(),
        scopes: vec![Scope::SymbolsWrite],
        app: Some("com.acme.shop".into()),
        expires_at: Some(start() + Duration::DAY),
    };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (key, text) = keys::create(&mut tx, &new, &[9; 30]).await.unwrap();
    tx.commit().await.unwrap();
    let text = text.reveal().to_owned();
    let found = keys::authenticate(&database.store, &text).await.unwrap().unwrap();
    assert_eq!((found.tenant.clone(), found.key_id, found.active), (acme(), key.id, true));
    assert!(found.may(Scope::SymbolsWrite) && !found.may(Scope::SymbolsRead));
    assert_eq!(found.app.as_deref(), Some("com.acme.shop"));
    // Another secret of the same length behind the same prefix.
    let (front, last) = text.split_at(text.len() - 1);
    let wrong = format!("{front}{}", if last == "a" { "b" } else { "a" });
    assert_eq!(keys::authenticate(&database.store, &wrong).await.unwrap(), None);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let kept = database.rows("SELECT k::text FROM api_keys k").await;
    let row: String = sqlx::Row::get(&kept[0], 0);
    assert!(!row.contains(text.rsplit_once('_').unwrap().1), "only the hash is kept");
    tenants::change(&mut tx, "Acme", State::Suspended, &Limits::default()).await.unwrap();
    tx.commit().await.unwrap();
    assert!(!keys::authenticate(&database.store, &text).await.unwrap().unwrap().active);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(keys::revoke(&mut tx, key.id, None).await.unwrap());
    assert!(!keys::revoke(&mut tx, Uuid::nil(), None).await.unwrap());
    assert!(!keys::revoke(&mut tx, key.id, Some("com.acme.other")).await.unwrap());
    // Not committed: still good, until its own end.
    tx.rollback().await.unwrap();
    assert!(keys::authenticate(&database.store, &text).await.unwrap().is_some());
    database.wait(Duration::days(2));
    assert!(keys::authenticate(&database.store, &text).await.unwrap().is_none());
}

#[tokio::test]
async fn a_keys_use_is_noted_once_a_minute() {
    let database = Database::new().await;
    let new = NewKey { name: "ci".into(), scopes: vec![Scope::SymbolsWrite], app: None, expires_at: None };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (key, text) = keys::create(&mut tx, &new, &[9; 30]).await.unwrap();
    tx.commit().await.unwrap();
    let last = async || {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        keys::list(&mut tx).await.unwrap()[0].last_used_at
    };
    // Asking who it is writes nothing.
    let found = keys::authenticate(&database.store, text.reveal()).await.unwrap().unwrap();
    assert_eq!((found.last_used_at, last().await), (None, None));
    let used = async |after: Duration| {
        let uses = [((acme(), key.id), start() + after)].into();
        keys::used(&database.store, &uses).await.unwrap()
    };
    assert_eq!((used(Duration::ZERO).await, last().await), (1, Some(start())));
    assert_eq!((used(Duration::seconds(59)).await, last().await), (0, Some(start())));
    assert_eq!((used(Duration::MINUTE).await, last().await), (1, Some(start() + Duration::MINUTE)));
    // A key of another tenant is not touched.
    let foreign = [((tenant_id("umbrella"), key.id), start() + Duration::HOUR)].into();
    assert_eq!(keys::used(&database.store, &foreign).await.unwrap(), 0);
}

#[tokio::test]
async fn tenants_are_made_once_listed_and_announced_again() {
    let database = Database::new().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(tenants::create(&mut tx, "Again", &Limits::default()).await.unwrap().is_none());
    assert_eq!(tenants::get(&mut tx).await.unwrap().unwrap().name, "acme");
    drop(tx);
    let listed = tenants::list(&database.store, Some(&acme()), 10).await.unwrap();
    assert_eq!(listed.iter().map(|t| t.id.as_str()).collect::<Vec<_>>(), ["umbrella"]);
    assert_eq!(tenants::announce_all(&database.store).await.unwrap(), 2);
    assert_eq!(database.number("SELECT count(*) FROM outbox").await, 4);
}
