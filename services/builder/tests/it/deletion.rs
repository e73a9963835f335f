//! A tenant that is deleted, with builders at work.
//! Proves: deletion

use crate::builder_fixture::{World, acme, zip_of};
use crate::failures::stubborn::Stubborn;
use bytes::Bytes;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use std::time::Duration;
use time::OffsetDateTime;
use unslide_artifacts::keys::{self, ObjectKey};
use unslide_artifacts::{Condition, Put};
use unslide_history::{History, HistoryFilter, HistoryOrder, HistoryRow, HistorySettings};
use unslide_model::{DebugId, ReportId, TenantId};
use unslide_store::tenants::{self, QuotaLimits, TenantStanding};
use unslide_store::{Uuid, audit, erasure, slots, uploads};
use unslide_stream::admin;
use unslide_testkit::fixtures::{binary, dsym};
use unslide_testkit::servers;

impl World {
    pub async fn number(&self, query: &str) -> i64 {
        let mut connection = PgConnection::connect(self.config.postgres.url.reveal()).await.unwrap();
        let number =
            sqlx::query(AssertSqlSafe(query.to_owned())).fetch_one(&mut connection).await.unwrap().get(0);
        connection.close().await.unwrap();
        number
    }

    async fn stored(&self) -> Vec<String> {
        let page = self.objects.list(&keys::tenant_prefix(&acme()), None, 1_000).await.unwrap();
        page.entries.into_iter().map(|entry| entry.key.to_string()).collect()
    }

    async fn put(&self, key: &ObjectKey) {
        let put = Put { condition: Condition::Absent, ..Put::default() };
        self.objects.put(key, Bytes::from_static(b"bytes"), &put).await.unwrap();
    }

    async fn own_topics(&self) -> usize {
        let names = self.config.kafka.topic_names();
        let own = [names.tenant_input(&acme()), names.tenant_output(&acme())];
        let found =
            admin::topics_matching(&self.config.kafka, |name| own.iter().any(|own| own == name)).await;
        found.unwrap().len()
    }

    /// Makes the tables at ClickHouse, for builders that start from now on.
    async fn turn_history_on(&mut self) -> History {
        self.config.history = HistorySettings {
            url: Some(servers::clickhouse()),
            user: "default".into(),
            database: servers::unique("builder").replace('-', "_"),
            ..HistorySettings::default()
        };
        let history = History::new(&self.config.history).unwrap();
        history.create_schema().await.unwrap();
        history
    }

    async fn delete_tenant(&self) {
        let mut tx = self.store.tenant(&acme()).await.unwrap();
        erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
        tx.commit().await.unwrap();
    }

    async fn erased(&self, swept: bool) -> erasure::TenantErasure {
        for _ in 0..6_000 {
            let mut tx = self.store.tenant(&acme()).await.unwrap();
            let erasure = erasure::get(&mut tx).await.unwrap();
            tx.rollback().await.unwrap();
            match erasure {
                Some(e) if e.finished_at.is_some() && e.swept_at.is_some() == swept => return e,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        panic!("the tenant was not erased");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_tenant_leaves_nothing_and_what_comes_late_is_found() {
    let mut world = World::start(0).await;
    world.config.kafka.tenant_topics = true;
    admin::create_tenant_topics(&world.config.kafka, &acme()).await.unwrap();
    assert_eq!(world.own_topics().await, 2);
    let history = world.turn_history_on().await;
    insert_row(&history, 1).await;
    world.builder();
    world.one("app", &std::fs::read(dsym("app")).unwrap()).await;
    world.files_gone().await;
    // What other services put under the tenant's prefix goes as well.
    let segment = keys::for_segment(&acme(), world.host.clock.now().date(), Uuid::nil());
    world.put(&segment).await;
    let stored = world.stored().await.len();
    assert!(stored >= 5, "{stored}");
    world.delete_tenant().await;
    let erasure = world.erased(false).await;
    assert_eq!(world.stored().await, Vec::<String>::new());
    assert_eq!(count_rows(&history).await, 0);
    assert_eq!(erasure.objects, stored as u64);
    // They are listed for a moment more.
    for _ in 0..3_000 {
        if world.own_topics().await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(world.own_topics().await, 0);
    assert!(erasure.object_bytes > 0 && erasure.removed["objects"] == 1 && erasure.removed["uploads"] == 1);
    assert!(erasure.remaining.unwrap().values().all(|left| *left == 0));
    for table in ["uploads", "objects", "upload_objects", "symbol_slots"] {
        assert_eq!(world.number(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let entry = audit::list_entries(&mut tx, None, 1).await.unwrap().remove(0);
    tx.rollback().await.unwrap();
    assert_eq!((entry.action.as_str(), &entry.detail["objects"]), ("tenant.erased", &stored.into()));
    // An upload with a dead receiver has left something after that, and an indexer in the middle of a move. The next look finds both.
    world.put(&keys::for_upload(acme().scope(Uuid::nil()))).await;
    insert_row(&history, 2).await;
    world.stop_builders().await;
    world.config.builder.erase_again_seconds = 0;
    world.builder();
    let swept = world.erased(true).await;
    assert_eq!((world.stored().await, swept.objects), (Vec::new(), stored as u64 + 1));
    assert_eq!(count_rows(&history).await, 0);
    world.stop().await;
}

async fn insert_row(history: &History, number: u8) {
    let (report_id, received_at) = (ReportId([number; 16]), OffsetDateTime::UNIX_EPOCH);
    let row = HistoryRow { received_at, report_id, variant: 0, version: 1, row: "{}".into() };
    history.insert(&acme(), Uuid::from_u128(number.into()), &[row]).await.unwrap();
    assert_eq!(count_rows(history).await, 1);
}

/// The rows of the tenant at ClickHouse. Fails if a part has the bytes of deleted ones.
async fn count_rows(history: &History) -> usize {
    assert!(!history.apply_deletions().await.unwrap());
    let (every, order) = (HistoryFilter::default(), HistoryOrder::OldestFirst);
    history.find_versions(&acme(), &every, None, order, 10).await.unwrap().len()
}

/// The builder has stored the object and its symcache, and is about to publish; then the tenant goes.
#[tokio::test(flavor = "multi_thread")]
async fn a_builder_that_publishes_after_the_deletion_leaves_nothing() {
    let mut world = World::start(0).await;
    world.builder();
    let file = std::fs::read(binary("app-symtab")).unwrap();
    let debug_id = debug_id(&file);
    // As another builder at the same debug id would.
    let mut other = world.store.tenant(&acme()).await.unwrap();
    slots::lock_debug_id(&mut other, &debug_id).await.unwrap();
    world.upload("app", &file).await;
    let waits = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                 WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted";
    while world.number(waits).await == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(world.stored().await.len() >= 3, "upload, object, symcache");
    // Deleted without an erasing: what is cleared now was cleared by the builder itself.
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    tenants::change_tenant(&mut tx, "acme", TenantStanding::Deleted, &QuotaLimits::default())
        .await
        .unwrap()
        .unwrap();
    tx.commit().await.unwrap();
    other.rollback().await.unwrap();
    while world.number("SELECT count(*) FROM jobs WHERE status <> 'done'").await > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.stored().await, Vec::<String>::new());
    assert_eq!(world.number("SELECT count(*) FROM symbol_slots").await, 0);
    assert_eq!(world.number("SELECT count(*) FROM outbox WHERE kind = 'symbol_event'").await, 0);
    // The next builder finds a deleted tenant that nobody erases.
    world.stop_builders().await;
    world.builder();
    world.erased(false).await;
    world.stop().await;
}

/// One tenant has an object that is locked. All others of it go, and so does what another tenant had.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_can_not_be_deleted_keeps_no_other() {
    let mut world = World::start(0).await;
    let umbrella = TenantId::new("umbrella").unwrap();
    let mut tx = world.store.tenant(&umbrella).await.unwrap();
    tenants::create_tenant(&mut tx, "Umbrella", &QuotaLimits::default()).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    let stubborn = Stubborn::before(world.config.objects.endpoint.as_ref().unwrap(), "locked").await;
    world.config.objects.endpoint = Some(stubborn.url.clone());
    let put = async |tenant: &TenantId, name: &str| {
        let key = ObjectKey::parse_for_tenant(tenant, &format!("t/{tenant}/objects/{name}")).unwrap();
        world.put(&key).await;
    };
    for name in ["a", "locked", "z"] {
        put(&acme(), name).await;
        put(&umbrella, &format!("{name}-of-another").replace("locked", "free")).await;
    }
    let stored = async |world: &World, tenant: &TenantId| {
        world.objects.list(&keys::tenant_prefix(tenant), None, 1_000).await.unwrap().entries.len()
    };
    for tenant in [&acme(), &umbrella] {
        let mut tx = world.store.tenant(tenant).await.unwrap();
        erasure::begin_erasure(&mut tx).await.unwrap().unwrap();
        tx.commit().await.unwrap();
    }
    world.builder();
    let only_the_locked_one = async {
        while (stored(&world, &acme()).await, stored(&world, &umbrella).await) != (1, 0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        while world.number("SELECT count(*) FROM jobs WHERE last_error LIKE 'not_deleted: 1 objects%'").await
            == 0
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), only_the_locked_one).await.expect("the others go");
    stubborn.refuses.store(false, std::sync::atomic::Ordering::SeqCst);
    let erasure = world.erased(false).await;
    assert_eq!((stored(&world, &acme()).await, erasure.objects), (0, 3));
    world.stop().await;
}

fn debug_id(file: &[u8]) -> DebugId {
    let objects = unslide_symbolicate::object::list_objects(file).unwrap();
    objects[0].object.as_ref().unwrap().debug_id.unwrap()
}

/// Proves: fairness
#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_more_than_the_tenant_may_store_fails_and_says_by_how_much() {
    let world = World::start(1).await;
    let (app, kit) = (std::fs::read(dsym("app")).unwrap(), std::fs::read(dsym("kit")).unwrap());
    let mut tx = world.store.tenant(&acme()).await.unwrap();
    let limits = QuotaLimits { symbol_bytes: (app.len() + kit.len() / 2) as u64, ..QuotaLimits::default() };
    tenants::change_tenant(&mut tx, "acme", TenantStanding::Active, &limits).await.unwrap().unwrap();
    tx.commit().await.unwrap();
    world.one("app", &app).await;
    // Packed it is small; what counts is what would be stored.
    let packed = zip_of(&[("kit", &kit)]);
    let id = world.upload("kit.zip", &packed).await;
    let (upload, objects) = world.wait(id).await;
    assert_eq!(
        (upload.status, upload.reason.as_deref()),
        (uploads::UploadStatus::Failed, Some("symbol_quota"))
    );
    let detail = upload.detail.unwrap();
    for number in [app.len() as u64, limits.symbol_bytes] {
        assert!(detail.contains(&number.to_string()), "{detail}");
    }
    assert!(objects.is_empty());
    // Nor is its file kept.
    while world.objects.head(&keys::for_upload(acme().scope(id))).await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // What is there already costs nothing.
    let (_, known) = world.one("again", &app).await;
    assert!(known);
    world.stop().await;
}
