//! Two cells with a PostgreSQL database and a bucket each, and the old cell's builder and relay.

use bytes::Bytes;
use futures::future::BoxFuture;
use sqlx::{AssertSqlSafe, Row};
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Notify;
use unslide_artifacts::keys::{self, ObjectKey};
use unslide_artifacts::{ObjectStore, Put, Settings};
use unslide_embedded::S3Endpoint;
use unslide_harness::database::{TestDatabase, acme, arrival, start, umbrella};
use unslide_model::{Secret, TenantId};
use unslide_store::cells::{self, set_cell};
use unslide_store::tables::{CORE_TABLES, OwnedTable};
use unslide_store::{StoreHook, erasure, jobs, partitions};
use unslide_tenant_move::{
    CellServers, Move, MoveLimits, MoveObserver, Reached, Step, TenantMoveError, move_tenant,
};

/// Tables that stay in the old cell.
pub const STAYING: [&str; 8] = [
    "outbox",
    "deferred_ranges",
    "tenant_erasures",
    "partial_uploads",
    "upload_parts",
    "history_moves",
    "history_deletions",
    "history_tenants",
];
const BUILDER_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Limits with which tables are copied in pieces.
pub fn in_pieces() -> MoveLimits {
    MoveLimits { piece_rows: 2, clock_margin: Duration::from_secs(2), ..MoveLimits::default() }
}

pub struct World {
    pub from: TestDatabase,
    pub to: TestDatabase,
    pub west: CellServers,
    pub east: CellServers,
    _buckets: [S3Endpoint; 2],
    _folder: TempDir,
}

/// The rows of each table of a tenant, as JSON.
pub type Rows = BTreeMap<String, Vec<String>>;

impl World {
    pub async fn new() -> World {
        let (from, to) = tokio::join!(TestDatabase::new(&[]), TestDatabase::new(&[]));
        let hook = all_tables(&from).await;
        let folder = tempfile::tempdir().unwrap();
        let (west_bucket, west_objects) = start_bucket(&folder, "west").await;
        let (east_bucket, east_objects) = start_bucket(&folder, "east").await;
        let cell = |name: &str, database: &TestDatabase, objects: ObjectStore| CellServers {
            name: name.to_owned(),
            store: database.store.clone().with_hooks(&[hook]),
            objects,
            topic_prefix: format!("{name}."),
        };
        let west = cell("west", &from, west_objects);
        let east = cell("east", &to, east_objects);
        to.execute("DELETE FROM outbox WHERE tenant = 'acme'; DELETE FROM tenants WHERE slug = 'acme'").await;
        let mut directory = from.store.pool().acquire().await.unwrap().detach();
        sqlx::raw_sql("SET ROLE NONE").execute(&mut directory).await.unwrap();
        for cell in [&west, &east] {
            let row = cells::Cell {
                name: cell.name.clone(),
                url: format!("http://{}", cell.name),
                topic_prefix: cell.topic_prefix.clone(),
                region: String::new(),
            };
            set_cell(&mut directory, &row, start()).await.unwrap();
        }
        cells::claim_tenant(&from.store, &acme(), "west").await.unwrap();
        World { from, to, west, east, _buckets: [west_bucket, east_bucket], _folder: folder }
    }

    /// A world in which the tenant has reports, a key and an object, and both cells have rows of another tenant.
    pub async fn with_reports() -> World {
        let world = World::new().await;
        world.from.store(&[arrival(1), arrival(2), arrival(3), arrival(4), arrival(5)]).await;
        world.from.execute(include_str!("api_key.sql")).await;
        world
            .from
            .execute(
                "INSERT INTO signal_drops (tenant, app, signal, day, dropped) VALUES ('acme', 'a', 'hangs', now()::date, 1);
                 UPDATE tenants SET person_search = true, name = 'Acme Inc.' WHERE slug = 'acme'",
            )
            .await;
        for database in [&world.from, &world.to] {
            database
                .execute("INSERT INTO app_settings (tenant, app, source_url, source_root) VALUES ('umbrella', 'u', '', '/u')")
                .await;
        }
        let key = keys::feature_file(&acme(), "files", unslide_store::Uuid::from_u128(50), "a");
        world.west.objects.put(&key, Bytes::from_static(b"acme"), &Put::default()).await.unwrap();
        world
    }

    /// A world in which each table has rows of the tenant, and both cells have rows of another one.
    pub async fn filled() -> World {
        let world = Box::pin(World::with_reports()).await;
        world.from.execute(include_str!("../../../store/src/tests/tenants/rows_of_features.sql")).await;
        world.from.execute(include_str!("core_rows.sql")).await;
        world
            .from
            .execute("DELETE FROM history_moves; DELETE FROM history_deletions; DELETE FROM history_tenants")
            .await;
        // An old day, for which the new cell has no partition, and an old month.
        let old = start().date() - time::Duration::days(40);
        partitions::ensure_partitions(&world.from.store, old, old).await.unwrap();
        world
            .from
            .execute(
                "INSERT INTO sessions (tenant, day, app, session_id, version, counted, started_at, received_at)
                 VALUES ('acme', '2026-10-11', 'shop', 'old', '', 1, '2026-10-11', '2026-10-11');
                 CREATE TABLE report_keys_202510 (LIKE report_keys INCLUDING ALL);
                 ALTER TABLE report_keys ATTACH PARTITION report_keys_202510 FOR VALUES IN ('2025-10-01');
                 INSERT INTO report_key_months (month, ended_at) VALUES ('2025-10-01', now());
                 INSERT INTO report_keys (tenant, report_id, variant, stored_month, content_hash, received_at, latest_revision)
                 VALUES ('acme', md5('old')::uuid, 0, '2025-10-01', sha256('x'), '2025-10-01', 1)",
            )
            .await;
        let empty = world.rows(&world.from).await;
        let empty: Vec<&String> =
            empty.iter().filter(|(_, rows)| rows.is_empty()).map(|(table, _)| table).collect();
        assert!(empty.is_empty(), "nothing to move in {empty:?}");
        for n in 0..20 {
            let key = keys::feature_file(&acme(), "files", unslide_store::Uuid::from_u128(n), "a");
            let put = Put { metadata: [("name".to_owned(), n.to_string())].into(), ..Put::default() };
            world
                .west
                .objects
                .put(&key, Bytes::from(vec![7; usize::try_from(n).unwrap()]), &put)
                .await
                .unwrap();
        }
        let large = keys::feature_file(&acme(), "files", unslide_store::Uuid::from_u128(99), "large");
        world.west.objects.put(&large, Bytes::from(vec![9; (8 << 20) + 17]), &Put::default()).await.unwrap();
        let others = keys::feature_file(&umbrella(), "files", unslide_store::Uuid::nil(), "a");
        for cell in [&world.west, &world.east] {
            cell.objects.put(&others, Bytes::from_static(b"umbrella"), &Put::default()).await.unwrap();
        }
        world
    }

    pub fn job<'w>(&'w self, observer: &'w dyn MoveObserver, limits: MoveLimits) -> Move<'w> {
        Move {
            tenant: acme(),
            from: &self.west,
            to: &self.east,
            directory: &self.west.store,
            limits,
            observer,
        }
    }

    /// Moves the tenant, while the old cell's builder and relay work.
    pub async fn move_tenant(
        &self,
        watcher: &Watcher<'_>,
        limits: MoveLimits,
    ) -> Result<(), TenantMoveError> {
        let job = self.job(watcher, limits);
        tokio::select! {
            done = Box::pin(move_tenant(&job)) => done,
            () = Box::pin(self.run_old_cell()) => unreachable!("it runs on"),
        }
    }

    /// Moves the tenant up to a step, as a kill would.
    pub async fn move_until(&self, step: Step, limits: MoveLimits) {
        let watcher = Watcher { stop_at: Some(step), ..Watcher::default() };
        tokio::select! {
            done = Box::pin(self.move_tenant(&watcher, limits)) => panic!("{step:?} is not reached: {done:?}"),
            () = watcher.stopped.notified() => {}
        }
    }

    /// Sends messages, passes records on, and erases deleted tenants.
    async fn run_old_cell(&self) {
        loop {
            self.from
                .execute(
                    "UPDATE outbox SET sent_at = now() WHERE sent_at IS NULL;
                     DELETE FROM deferred_ranges r USING tenants t WHERE t.slug = r.tenant AND t.place = 'moved'",
                )
                .await;
            let store = &self.west.store;
            let due = jobs::lease_jobs(store, &["erase"], "test", time::Duration::MINUTE, 10).await.unwrap();
            for job in due {
                let tenant = job.tenant().unwrap().clone();
                let mut emptied = 0;
                loop {
                    let mut tx = store.tenant(&tenant).await.unwrap();
                    let erased = erasure::erase_rows(&mut tx, &mut emptied, 100).await.unwrap();
                    tx.commit().await.unwrap();
                    if erased.is_none() {
                        break;
                    }
                }
                for key in self.objects(&self.west, &tenant).await.into_keys() {
                    let key = ObjectKey::parse_for_tenant(&tenant, &key).unwrap();
                    self.west.objects.delete(&key).await.unwrap();
                }
                let mut tx = store.tenant(&tenant).await.unwrap();
                assert!(erasure::finish_erasure(&mut tx, &job, 0).await.unwrap(), "rows are left");
                tx.commit().await.unwrap();
            }
            tokio::time::sleep(BUILDER_POLL_INTERVAL).await;
        }
    }

    /// The rows of all tables that move.
    pub async fn rows(&self, database: &TestDatabase) -> Rows {
        rows_of(database, "acme").await
    }

    /// The sizes of a tenant's objects.
    pub async fn objects(&self, cell: &CellServers, tenant: &TenantId) -> BTreeMap<String, u64> {
        let page = cell.objects.list(&keys::tenant_prefix(tenant), None, 1_000).await.unwrap();
        page.entries.into_iter().map(|entry| (entry.key.to_string(), entry.size)).collect()
    }

    /// Changes rows as the service.
    pub async fn write(&self, statements: &[&str]) -> Result<(), unslide_store::StoreError> {
        let mut tx = self.west.store.tenant(&acme()).await?;
        for statement in statements {
            sqlx::query(AssertSqlSafe((*statement).to_owned())).execute(tx.parts().0).await?;
        }
        tx.commit().await
    }

    /// Checks that a database has no trace of a move.
    pub async fn assert_no_traces(&self, database: &TestDatabase) {
        assert_eq!(database.number("SELECT count(*) FROM moving_rows").await, 0);
        assert_eq!(database.number("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'moving_%'").await, 0);
    }
}

/// The rows of a tenant in all tables that move. A lease of a job does not count: its worker is in the old cell.
pub async fn rows_of(database: &TestDatabase, tenant: &str) -> Rows {
    let tables = database
        .rows(
            "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace
               AND c.relkind IN ('r', 'p') AND NOT c.relispartition
               AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant')",
        )
        .await;
    let tables = tables.iter().map(|row| row.get::<String, _>(0));
    let tables: Vec<String> = tables.filter(|table| !STAYING.contains(&table.as_str())).collect();
    let parts = tables.iter().map(|table| {
        let without = match table.as_str() {
            "jobs" => " - '{status,lease_owner,lease_token,lease_until}'::text[]",
            _ => "",
        };
        let moved = if table == "audit_log" { " AND action <> 'tenant.move'" } else { "" };
        format!(
            "SELECT '{table}', (SELECT coalesce(array_agg(r ORDER BY r), '{{}}') FROM (
                 SELECT (to_jsonb(t){without})::text AS r FROM {table} t WHERE tenant = '{tenant}'{moved}) s)"
        )
    });
    let rows = database.rows(&parts.collect::<Vec<_>>().join(" UNION ALL ")).await;
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// A hook with all tables that are not of the core, for erasures.
async fn all_tables(database: &TestDatabase) -> StoreHook {
    let rows = rows_of(database, "nobody").await;
    let features = rows.into_keys().filter(|table| !CORE_TABLES.iter().any(|core| core.name == table));
    let tables: Vec<OwnedTable> =
        features.map(|table| OwnedTable::new(Box::leak(table.into_boxed_str()))).collect();
    StoreHook::with_tables("features", tables.leak())
}

async fn start_bucket(folder: &TempDir, name: &str) -> (S3Endpoint, ObjectStore) {
    let folder = folder.path().join(name);
    std::fs::create_dir(&folder).unwrap();
    let endpoint = S3Endpoint::start(&folder, "unslide").unwrap();
    let settings = Settings {
        endpoint: Some(endpoint.url()),
        bucket: "unslide".into(),
        access_key: Some(endpoint.access_key.clone()),
        secret_key: Secret::new(endpoint.secret_key.clone()),
        path_style: true,
        ..Settings::default()
    };
    let store = ObjectStore::s3(&settings).await;
    (endpoint, store)
}

/// Remembers what it hears, acts at steps, and may stop the move at one.
#[derive(Default)]
pub struct Watcher<'w> {
    pub lines: Mutex<Vec<String>>,
    pub stop_at: Option<Step>,
    pub stopped: Notify,
    pub act: Option<Box<dyn Fn(Step) -> BoxFuture<'w, ()> + Send + Sync + 'w>>,
}

impl Watcher<'_> {
    pub fn text(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }
}

impl MoveObserver for Watcher<'_> {
    fn say(&self, line: &str) {
        self.lines.lock().unwrap().push(line.to_owned());
    }

    fn reach(&self, step: Step) -> Reached<'_> {
        Box::pin(async move {
            if let Some(act) = &self.act {
                act(step).await;
            }
            if self.stop_at == Some(step) {
                self.stopped.notify_one();
                pending::<()>().await;
            }
        })
    }
}
