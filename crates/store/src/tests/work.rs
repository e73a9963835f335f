//! Jobs, the outbox, keys.

use crate::jobs::{self, Failed, FeatureWork, JobKind, Work};
use crate::keys::{self, NewApiKey};
use crate::outbox::{self, Message, Relay};
use crate::tenants::{self, QuotaLimits, TenantStanding};
use crate::tests::database::{Database, acme, start, tenant_id};
use crate::{Channel, JobId, Listener, StoreError, UploadId, Uuid};
use time::Duration;
use unslide_model::{Quality, ReportId, Scope, TenantId};

async fn add(database: &Database, tenant: &TenantId) -> JobId {
    let mut tx = database.store.tenant(tenant).await.unwrap();
    let id = jobs::add_job(&mut tx, &Work::Build { upload: UploadId::default() }).await.unwrap();
    tx.commit().await.unwrap();
    id
}

async fn lease(database: &Database, limit: u32) -> Vec<jobs::JobLease> {
    jobs::lease_jobs(&database.store, &[JobKind::Build], "worker", Duration::MINUTE, limit).await.unwrap()
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
    jobs::extend_lease(&database.store, &jobs[0], Duration::MINUTE).await.unwrap();
    let mut tx = database.store.owner(&jobs[1].owner).await.unwrap();
    jobs::complete_job(&mut tx, &jobs[1]).await.unwrap();
    tx.commit().await.unwrap();
    database.wait(Duration::seconds(20));
    let again = lease(&database, 30).await;
    assert_eq!(again.len(), 18, "all but the one that was kept alive and the one that is done");
    assert!(again.iter().all(|job| job.attempt == 2));
    // The first worker comes back and finds that it has lost the job.
    let lost = jobs.iter().find(|job| job.id == again[0].id).unwrap();
    assert!(matches!(
        jobs::extend_lease(&database.store, lost, Duration::MINUTE).await,
        Err(StoreError::LeaseLost(_))
    ));
    let mut tx = database.store.owner(&lost.owner).await.unwrap();
    assert!(matches!(jobs::complete_job(&mut tx, lost).await, Err(StoreError::LeaseLost(_))));
    assert!(matches!(jobs::fail_job(&mut tx, lost, "x", false).await, Err(StoreError::LeaseLost(_))));
}

/// Proves: fairness
#[tokio::test]
async fn beside_a_flood_only_a_job_of_a_tenant_with_nothing_under_way_is_leased() {
    let database = Database::new().await;
    let sharing = ["build", "count"];
    let idle = async || {
        let lease = Duration::MINUTE;
        jobs::lease_of_idle_owner(&database.store, &[JobKind::Build], &sharing, "w", lease).await.unwrap()
    };
    for _ in 0..3 {
        add(&database, &acme()).await;
        database.wait(Duration::SECOND);
    }
    assert_eq!(lease(&database, 2).await.len(), 2);
    assert_eq!(idle().await, None, "the only tenant has jobs under way");
    let umbrella = add(&database, &tenant_id("umbrella")).await;
    database.wait(Duration::SECOND);
    add(&database, &tenant_id("umbrella")).await;
    let job = idle().await.unwrap();
    assert_eq!((job.id, job.attempt), (umbrella, 1));
    assert_eq!(idle().await, None, "now every tenant has one under way");
    let mut tx = database.store.owner(&job.owner).await.unwrap();
    jobs::complete_job(&mut tx, &job).await.unwrap();
    let counting = FeatureWork { kind: "count".into(), arguments: serde_json::Map::new() };
    jobs::add_job(&mut tx, &Work::Feature(counting)).await.unwrap();
    tx.commit().await.unwrap();
    let counting = jobs::lease_jobs(&database.store, &["count"], "w", Duration::MINUTE, 1).await.unwrap();
    assert_eq!((counting.len(), idle().await), (1, None), "the job of a feature is under way, too");
    // What dead workers had is under way no more.
    database.wait(Duration::minutes(2));
    assert!(idle().await.is_some());
}

/// Proves: fairness
#[tokio::test]
async fn whoever_has_the_fewest_jobs_under_way_is_next_and_its_oldest_comes_first() {
    let database = Database::new().await;
    let mut noisy = Vec::new();
    for _ in 0..20 {
        noisy.push(add(&database, &acme()).await);
        database.wait(Duration::SECOND);
    }
    let quiet = add(&database, &tenant_id("umbrella")).await;
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.extend(lease(&database, 1).await);
    }
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    assert_eq!(ids, [noisy[0], quiet, noisy[1], noisy[2]]);
    // One that ended, was given back or lost its worker is not under way any more.
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    jobs::complete_job(&mut tx, &jobs[0]).await.unwrap();
    jobs::postpone_job(&mut tx, &jobs[2], Duration::HOUR).await.unwrap();
    tx.commit().await.unwrap();
    database.wait(Duration::seconds(50));
    jobs::extend_lease(&database.store, &jobs[1], Duration::MINUTE).await.unwrap();
    database.wait(Duration::seconds(20));
    let late = add(&database, &tenant_id("umbrella")).await;
    let again = lease(&database, 1).await.remove(0);
    assert_eq!((again.id, again.attempt), (noisy[2], 2), "the lost one is the oldest that is due");
    let next: std::collections::BTreeMap<_, _> =
        lease(&database, 2).await.iter().map(|job| (job.id, job.attempt)).collect();
    assert_eq!(next, [(noisy[3], 1), (noisy[4], 1)].into());
    assert_eq!(lease(&database, 1).await[0].id, late);
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
        let failed = jobs::fail_job(&mut tx, &jobs[0], "it\0 broke", false).await.unwrap();
        let now = tx.now();
        tx.commit().await.unwrap();
        match failed {
            Failed::Again(at) => {
                pauses.push((at - now).whole_seconds());
                database.wait(at - now - Duration::SECOND);
                assert!(lease(&database, 1).await.is_empty(), "not yet due");
                database.wait(Duration::seconds(2));
            }
            Failed::Permanently => assert_eq!(attempt, jobs::MAX_ATTEMPTS),
        }
    }
    assert_eq!(pauses, [2, 4, 8, 16, 32]);
    database.wait(Duration::DAY);
    assert!(lease(&database, 1).await.is_empty());
}

/// Proves: outages
#[tokio::test]
async fn a_job_that_is_put_off_counts_no_attempt_and_waits_as_long_as_it_is_old() {
    let database = Database::new().await;
    add(&database, &acme()).await;
    let mut pauses = Vec::new();
    for _ in 0..12 {
        let jobs = lease(&database, 1).await;
        assert_eq!((jobs[0].attempt, jobs[0].exhausted), (1, false));
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let again = jobs::put_off(&mut tx, &jobs[0], "a server\0 is away").await.unwrap();
        assert!(matches!(jobs::put_off(&mut tx, &jobs[0], "x").await, Err(StoreError::LeaseLost(_))));
        let pause = again - tx.now();
        tx.commit().await.unwrap();
        pauses.push(pause.whole_seconds());
        database.wait(pause - Duration::SECOND);
        assert!(lease(&database, 1).await.is_empty(), "not yet due");
        database.wait(Duration::SECOND);
    }
    assert_eq!(pauses, [2, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]);
    let why = database.number("SELECT count(*) FROM jobs WHERE last_error = 'a server is away'").await;
    assert_eq!(why, 1);
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
    assert_eq!(jobs::fail_job(&mut tx, &jobs[0], "kills", false).await.unwrap(), Failed::Permanently);
    tx.commit().await.unwrap();
    database.wait(Duration::DAY);
    assert!(lease(&database, 1).await.is_empty());
}

#[tokio::test]
async fn one_relay_at_a_time_sends_in_order_what_was_committed() {
    let database = Database::new().await;
    let mut listener = Listener::new(&database.store, &[Channel::Jobs, Channel::Outbox]).await.unwrap();
    let mut relay = Relay::acquire(&database.store).await.unwrap().unwrap();
    assert!(Relay::acquire(&database.store).await.unwrap().is_none());
    let first = relay.next(10).await.unwrap();
    assert_eq!(first.iter().map(|u| u.owner.as_str()).collect::<Vec<_>>(), ["acme", "umbrella"]);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let limits = QuotaLimits { units_per_second: 5, ..QuotaLimits::default() };
    let (changed, id) =
        tenants::change_tenant(&mut tx, "Acme", TenantStanding::Suspended, &limits).await.unwrap().unwrap();
    assert_eq!(changed.version, 2);
    assert_eq!(relay.next(10).await.unwrap().len(), 2, "not committed");
    tx.commit().await.unwrap();
    let wait = std::time::Duration::from_secs(300);
    assert_eq!(listener.wait_for_notification(wait).await.unwrap(), Some(Channel::Outbox));
    let unsent = relay.next(10).await.unwrap();
    assert_eq!(unsent.len(), 3);
    let config = Message::TenantConfig {
        version: 2,
        state: TenantStanding::Suspended,
        limits,
        at_micros: crate::tests::database::START_MICROS,
    };
    assert_eq!(unsent[2].message, config);
    assert!(!outbox::wait_sent(&database.store, &acme(), id, std::time::Duration::ZERO).await.unwrap());
    relay.record_sent(&[id], start()).await.unwrap();
    assert!(outbox::wait_sent(&database.store, &acme(), id, std::time::Duration::ZERO).await.unwrap());
    assert_eq!(relay.next(10).await.unwrap(), first);
    drop(relay);
    // Its connection closes in the background, and the lock goes with it.
    database.relay().await;
}

/// Proves: outages
#[tokio::test]
async fn a_message_that_cannot_be_read_is_kept_and_the_others_go_on() {
    let database = Database::new().await;
    let change = async |n: u32| {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let limits = QuotaLimits { units_per_second: n, ..QuotaLimits::default() };
        let (_, id) =
            tenants::change_tenant(&mut tx, "Acme", TenantStanding::Active, &limits).await.unwrap().unwrap();
        tx.commit().await.unwrap();
        id
    };
    let (bad, good) = (change(1).await, change(2).await);
    let unreadable = format!("UPDATE outbox SET message = '{{\"kind\": \"of_tomorrow\"}}' WHERE id = {bad}");
    crate::tests::database::execute(&database, &unreadable).await;
    let mut relay = Relay::acquire(&database.store).await.unwrap().unwrap();
    let ids: Vec<i64> = relay.next(10).await.unwrap().iter().map(|unsent| unsent.id).collect();
    assert!(ids.len() == 3 && ids[2] == good, "{ids:?} without {bad}");
    relay.record_sent(&ids, start()).await.unwrap();
    assert_eq!(relay.next(10).await.unwrap(), []);
    assert_eq!(outbox::set_aside(&database.store).await.unwrap(), 1);
    outbox::purge_messages(&database.store, start() + Duration::DAY).await.unwrap();
    let kept =
        format!("SELECT count(*) FROM outbox WHERE id = {bad} AND set_aside_reason LIKE '%of_tomorrow%'");
    assert_eq!(database.number(&kept).await, 1);
    // A later program, which can read it.
    drop(relay);
    let readable = format!(
        "UPDATE outbox SET message = (SELECT message FROM outbox o WHERE o.kind = 'tenant_config' AND o.id <> {bad} LIMIT 1) WHERE id = {bad}"
    );
    change(3).await;
    crate::tests::database::execute(&database, &readable).await;
    let mut relay = database.relay().await;
    let ids: Vec<i64> = relay.next(10).await.unwrap().iter().map(|unsent| unsent.id).collect();
    assert!(ids.len() == 2 && ids[0] == bad, "{ids:?}");
    assert_eq!(outbox::set_aside(&database.store).await.unwrap(), 0);
}

/// Adds requests for reports of these numbers.
async fn request(database: &Database, tenant: &TenantId, reports: std::ops::Range<u32>) {
    let request = |n: u32| Message::Resymbolicate {
        report_id: ReportId::from_uuid(Uuid::from_u128(n.into())),
        variant: 0,
        revision: 2,
        supersedes: 1,
        needs: Vec::new(),
        requested_at_micros: 0,
    };
    let mut tx = database.store.tenant(tenant).await.unwrap();
    outbox::append_all(&mut tx, &reports.map(request).collect::<Vec<_>>()).await.unwrap();
    tx.commit().await.unwrap();
}

/// Proves: fairness
#[tokio::test]
async fn the_relay_sends_what_tenants_and_symbols_are_first_and_then_requests_in_turn() {
    let database = Database::new().await;
    let (noisy, quiet) = (acme(), tenant_id("umbrella"));
    request(&database, &noisy, 0..1_000).await;
    request(&database, &quiet, 0..3).await;
    crate::tests::database::publish(&database, 1, Quality::DwarfSymtab).await;
    let mut tx = database.store.tenant(&noisy).await.unwrap();
    tenants::change_tenant(&mut tx, "Acme", TenantStanding::Suspended, &QuotaLimits::default())
        .await
        .unwrap()
        .unwrap();
    tx.commit().await.unwrap();
    let mut relay = Relay::acquire(&database.store).await.unwrap().unwrap();
    let mut order = Vec::new();
    let mut last = std::collections::BTreeMap::new();
    loop {
        let unsent = relay.next(10).await.unwrap();
        if unsent.is_empty() {
            break;
        }
        assert!(unsent.len() <= 10);
        for one in &unsent {
            let kind = match &one.message {
                Message::TenantConfig { .. } => "config",
                Message::SymbolEvent { .. } => "event",
                Message::Resymbolicate { .. } => "request",
            };
            let before = last.insert((one.owner.clone(), kind), one.id);
            assert!(before.is_none_or(|before| before < one.id), "each tenant's in its order");
            order.push((kind, one.owner.as_str().to_owned()));
        }
        let ids: Vec<i64> = unsent.iter().map(|one| one.id).collect();
        relay.record_sent(&ids, start()).await.unwrap();
    }
    let kinds: Vec<_> = order.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds[..4], ["config", "config", "config", "event"]);
    assert!(kinds[4..].iter().all(|kind| *kind == "request"));
    assert_eq!(order.len(), 4 + 1_003);
    let first: Vec<_> = order[4..10].iter().map(|(_, owner)| owner.as_str()).collect();
    assert_eq!(first, ["acme", "umbrella", "acme", "umbrella", "acme", "umbrella"]);
}

#[tokio::test]
async fn a_key_speaks_for_its_tenant_until_it_ends() {
    let database = Database::new().await;
    let new = NewApiKey {
        name: "ci".into(),
        scopes: vec![Scope::SymbolsWrite],
        app: Some("com.acme.shop".into()),
        expires_at: Some(start() + Duration::DAY),
    };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (key, text) = keys::create_key(&mut tx, &new, &[9; 30]).await.unwrap();
    tx.commit().await.unwrap();
    let text = text.reveal().to_owned();
    let found = keys::authenticate(&database.store, &text).await.unwrap().unwrap();
    assert_eq!((found.tenant.clone(), found.key_id, found.active), (acme(), key.id, true));
    assert!(found.has_scope(Scope::SymbolsWrite) && !found.has_scope(Scope::SymbolsRead));
    assert_eq!(found.app.as_deref(), Some("com.acme.shop"));
    // Another secret of the same length behind the same prefix.
    let (front, last) = text.split_at_checked(text.len() - 1).unwrap();
    let wrong = format!("{front}{}", if last == "a" { "b" } else { "a" });
    assert_eq!(keys::authenticate(&database.store, &wrong).await.unwrap(), None);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let kept = database.rows("SELECT k::text FROM keys k").await;
    let row: String = sqlx::Row::get(&kept[0], 0);
    assert!(!row.contains(text.rsplit_once('_').unwrap().1), "only the hash is kept");
    tenants::change_tenant(&mut tx, "Acme", TenantStanding::Suspended, &QuotaLimits::default())
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert!(!keys::authenticate(&database.store, &text).await.unwrap().unwrap().active);
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(keys::revoke_key(&mut tx, key.id, None).await.unwrap());
    assert!(!keys::revoke_key(&mut tx, Uuid::nil(), None).await.unwrap());
    assert!(!keys::revoke_key(&mut tx, key.id, Some("com.acme.other")).await.unwrap());
    // Not committed: still good, until its own end.
    tx.rollback().await.unwrap();
    assert!(keys::authenticate(&database.store, &text).await.unwrap().is_some());
    database.wait(Duration::days(2));
    assert!(keys::authenticate(&database.store, &text).await.unwrap().is_none());
}

/// Or a leaked key that is busy making keys outlives its own revocation.
/// Proves: keys
#[tokio::test]
async fn a_key_that_is_being_made_is_revoked_with_its_maker() {
    let database = Database::new().await;
    let new = NewApiKey { name: "x".into(), scopes: vec![Scope::TenantAdmin], app: None, expires_at: None };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (root, _) = keys::create_key(&mut tx, &new, &[1; 30]).await.unwrap();
    tx.commit().await.unwrap();
    let mut making = database.store.tenant(&acme()).await.unwrap();
    let (_, text) = keys::create_by(&mut making, &new, &[2; 30], root.id).await.unwrap().unwrap();
    let mut revoking = database.store.tenant(&acme()).await.unwrap();
    let revoked = async {
        let revoked =
            keys::revoke_with_made(&mut revoking, root.id, None, Some(&acme()), "test").await.unwrap();
        revoking.commit().await.unwrap();
        revoked
    };
    let made = async {
        database.wait_for_lock().await;
        making.commit().await.unwrap();
    };
    let (revoked, ()) = tokio::join!(revoked, made);
    assert_eq!(revoked, Some(1));
    assert!(keys::authenticate(&database.store, text.reveal()).await.unwrap().is_none());
    let mut late = database.store.tenant(&acme()).await.unwrap();
    assert!(keys::create_by(&mut late, &new, &[3; 30], root.id).await.unwrap().is_none());
}

/// An operator's key of one tenant has made a key of another one, which is locked first by both.
#[tokio::test]
async fn keys_are_revoked_with_their_maker_while_their_uses_are_noted() {
    let database = Database::new().await;
    let new = NewApiKey { name: "x".into(), scopes: vec![Scope::Operator], app: None, expires_at: None };
    let (maker, made) = (tenant_id("umbrella"), acme());
    let mut tx = database.store.tenant(&maker).await.unwrap();
    let (root, _) = keys::create_key(&mut tx, &new, &[1; 30]).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = database.store.tenant(&made).await.unwrap();
    let (child, _) = keys::create_by(&mut tx, &new, &[2; 30], root.id).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    // As `keys::record_uses` does.
    let note = "UPDATE keys SET last_used_at = now() WHERE id = $1";
    let mut noting = database.store.batch().await.unwrap();
    let tx = noting.enter_tenant(&made).await.unwrap();
    sqlx::query(note).bind(child.id).execute(tx.parts().0).await.unwrap();
    let revoked = async {
        let mut tx = database.store.tenant(&maker).await.unwrap();
        let revoked = keys::revoke_with_made(&mut tx, root.id, None, None, "test").await.unwrap();
        tx.commit().await.unwrap();
        revoked
    };
    let noted = async {
        database.wait_for_lock().await;
        let tx = noting.enter_tenant(&maker).await.unwrap();
        sqlx::query(note).bind(root.id).execute(tx.parts().0).await.unwrap();
        noting.commit().await.unwrap();
    };
    let (revoked, ()) = tokio::join!(revoked, noted);
    assert_eq!(revoked, Some(1));
}

#[tokio::test]
async fn a_keys_use_is_noted_once_a_minute() {
    let database = Database::new().await;
    let new = NewApiKey { name: "ci".into(), scopes: vec![Scope::SymbolsWrite], app: None, expires_at: None };
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let (key, text) = keys::create_key(&mut tx, &new, &[9; 30]).await.unwrap();
    tx.commit().await.unwrap();
    let last = async || {
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        keys::list_keys(&mut tx, None, None, 10).await.unwrap()[0].last_used_at
    };
    // Asking who it is writes nothing.
    let found = keys::authenticate(&database.store, text.reveal()).await.unwrap().unwrap();
    assert_eq!((found.last_used_at, last().await), (None, None));
    let used = async |after: Duration| {
        let uses = [((acme(), key.id), start() + after)].into();
        keys::record_uses(&database.store, &uses).await.unwrap()
    };
    assert_eq!((used(Duration::ZERO).await, last().await), (1, Some(start())));
    assert_eq!((used(Duration::seconds(59)).await, last().await), (0, Some(start())));
    assert_eq!((used(Duration::MINUTE).await, last().await), (1, Some(start() + Duration::MINUTE)));
    // A key of another tenant is not touched.
    let foreign = [((tenant_id("umbrella"), key.id), start() + Duration::HOUR)].into();
    assert_eq!(keys::record_uses(&database.store, &foreign).await.unwrap(), 0);
}

#[tokio::test]
async fn tenants_are_made_once_listed_and_announced_again() {
    let database = Database::new().await;
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    assert!(tenants::create_tenant(&mut tx, "Again", &QuotaLimits::default()).await.unwrap().is_none());
    assert_eq!(tenants::get(&mut tx).await.unwrap().unwrap().name, "acme");
    drop(tx);
    let listed = tenants::list_tenants(&database.store, Some(&acme()), 10).await.unwrap();
    assert_eq!(listed.iter().map(|t| t.id.as_str()).collect::<Vec<_>>(), ["umbrella"]);
    assert_eq!(tenants::announce_all(&database.store).await.unwrap(), 2);
    assert_eq!(database.number("SELECT count(*) FROM outbox").await, 4);
}
