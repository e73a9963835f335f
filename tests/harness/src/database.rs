//! A migrated database with a clock that a test moves, and reports to fill it with: for the statements of features.

use crate::service::SERVICE_TIMEOUT;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection, Row};
use std::sync::Arc;
use time::{Date, Duration, OffsetDateTime};
use tokio::sync::{Mutex, MutexGuard};
use unslide_model::{
    Clock, ContentHash, DebugId, FixedClock, ReportGrouping, ReportId, Secret, SystemClock, TenantId,
};
use unslide_store::reports::{self, Arrival, Effects, FrameTotals, ImageUse, ReportDetails};
use unslide_store::tenants::{self, QuotaLimits};
use unslide_store::{Settings, Store, StoreHook, erasure, partitions};
use unslide_testkit::{databases, servers};

/// 20 November 2026, 08:00 UTC.
const START_MICROS: i64 = 1_795_161_600_000_000;

/// The time at which each test begins.
#[must_use]
pub fn start() -> OffsetDateTime {
    OffsetDateTime::UNIX_EPOCH + Duration::microseconds(START_MICROS)
}

/// The tenant whose reports are stored.
#[must_use]
pub fn acme() -> TenantId {
    TenantId::new("acme").expect("a tenant")
}

/// A tenant that has no reports.
#[must_use]
pub fn umbrella() -> TenantId {
    TenantId::new("umbrella").expect("a tenant")
}

/// Deletes a tenant, and erases its rows as a builder does.
pub async fn erase_tenant(store: &Store, tenant: &TenantId) {
    let mut tx = store.tenant(tenant).await.expect("a transaction");
    erasure::begin_erasure(&mut tx).await.expect("the database").expect("a tenant");
    tx.commit().await.expect("committed");
    let (mut emptied, mut is_done) = (0, false);
    while !is_done {
        let mut tx = store.tenant(tenant).await.expect("a transaction");
        is_done = erasure::erase_rows(&mut tx, &mut emptied, 100).await.expect("the database").is_none();
        tx.commit().await.expect("committed");
    }
}

/// The database of one test.
pub struct TestDatabase {
    name: String,
    url: String,
    /// The clock, which moves only when the test moves it.
    pub clock: Arc<FixedClock>,
    /// The store with the hooks that are tested.
    pub store: Store,
    /// The connection of [`TestDatabase::rows`] and [`TestDatabase::execute`].
    owner: Mutex<Option<PgConnection>>,
}

impl TestDatabase {
    /// Makes a migrated database with the tenants [`acme`] and [`umbrella`], and tables for the days around [`start`].
    pub async fn new(hooks: &[StoreHook]) -> TestDatabase {
        let name = servers::unique("unslide-feature").replace('-', "_");
        let url = Box::pin(databases::create(&name, "feature_tenants", fill_with_tenants)).await;
        let clock = Arc::new(FixedClock::at_micros(START_MICROS));
        let settings = Settings { max_connections: 8, ..Settings::with_url(url.clone()) };
        let store =
            Store::connect_timed(&settings, clock.clone()).await.expect("a database").with_hooks(hooks);
        TestDatabase { name, url, clock, store, owner: Mutex::new(None) }
    }

    /// Lets time pass.
    pub fn wait(&self, time: Duration) {
        self.clock.advance_micros(i64::try_from(time.whole_microseconds()).expect("a short time"));
    }

    /// The time by the clock.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        unslide_model::Clock::now(&*self.clock)
    }

    /// Stores reports of [`acme`] with their effects.
    pub async fn store(&self, arrivals: &[Arrival]) {
        self.store_as(arrivals, Effects::Now).await;
    }

    /// Stores reports of [`acme`].
    pub async fn store_as(&self, arrivals: &[Arrival], effects: Effects) {
        let mut tx = self.store.tenant(&acme()).await.expect("a transaction");
        reports::store_arrivals(&mut tx, arrivals, effects, None).await.expect("stored");
        tx.commit().await.expect("committed");
    }

    /// Rows as the owner sees them: those of all tenants.
    pub async fn rows(&self, query: &str) -> Vec<PgRow> {
        let mut owner = self.connect_owner().await;
        let statement = sqlx::query(AssertSqlSafe(query.to_owned())).persistent(false);
        statement.fetch_all(owner.as_mut().expect("a connection")).await.expect(query)
    }

    /// The number that a query gives to the owner.
    pub async fn number(&self, query: &str) -> i64 {
        self.rows(query).await[0].get(0)
    }

    /// Waits until a statement waits for a lock that another transaction has.
    pub async fn wait_for_lock(&self) {
        let waits = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let end = tokio::time::Instant::now() + SERVICE_TIMEOUT;
        while self.number(waits).await == 0 {
            assert!(tokio::time::Instant::now() < end, "no statement waits for a lock");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Changes the database as its owner.
    pub async fn execute(&self, statement: &str) {
        let mut owner = self.connect_owner().await;
        let statements = sqlx::raw_sql(AssertSqlSafe(statement.to_owned()));
        statements.execute(owner.as_mut().expect("a connection")).await.expect(statement);
    }

    /// One connection serves the whole test: each new one costs PostgreSQL a process.
    async fn connect_owner(&self) -> MutexGuard<'_, Option<PgConnection>> {
        let mut owner = self.owner.lock().await;
        if owner.is_none() {
            *owner = Some(PgConnection::connect(&self.url).await.expect("PostgreSQL"));
        }
        owner
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let name = self.name.clone();
        // A runtime of its own, on a thread of its own: this one is busy with the test.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let statement = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
            runtime.expect("a runtime").block_on(databases::execute(&servers::postgres(), &statement));
        })
        .join();
        assert!(dropped.is_ok() || std::thread::panicking(), "the test's database was not dropped");
    }
}

/// Makes a migrated database that has the tables of some days; its URL. It is a copy of one that is made once for each `kind`, a word
/// for these days: the tables of a day take PostgreSQL more time than most tests.
pub async fn create_with_days(name: &str, kind: &str, (first, last): (Date, Date)) -> String {
    let fill = async |url: String| {
        migrate(url, Arc::new(SystemClock), (first, last)).await.close().await;
    };
    databases::create(name, kind, fill).await
}

/// Makes the tables of the days around [`start`], and the tenants, which are new at [`start`].
async fn fill_with_tenants(url: String) {
    let day = start().date();
    let days = (day - Duration::days(3), day + Duration::DAY);
    let store = migrate(url, Arc::new(FixedClock::at_micros(START_MICROS)), days).await;
    for tenant in [acme(), umbrella()] {
        let mut tx = store.tenant(&tenant).await.expect("a transaction");
        let made = tenants::create_tenant(&mut tx, tenant.as_str(), &QuotaLimits::default()).await;
        made.expect("the database").expect("a new tenant");
        tx.commit().await.expect("committed");
    }
    store.close().await;
}

async fn migrate(url: String, clock: Arc<dyn Clock>, (first, last): (Date, Date)) -> Store {
    unslide_store::apply_migrations(&Secret::new(url.clone())).await.expect("migrated");
    let store = Store::connect_timed(&Settings::with_url(url), clock).await.expect("a database");
    partitions::ensure_partitions(&store, first, last).await.expect("partitions");
    store
}

/// Report number `n`, as it comes first: one app image without symbols, one system image.
#[must_use]
pub fn arrival(n: u8) -> Arrival {
    let body = format!("{{\"n\":{n},\"revision\":1}}");
    Arrival {
        report_id: ReportId([n; 16]),
        content_hash: ContentHash([n; 32]),
        revision: 1,
        received_at: start() + Duration::seconds(n.into()),
        body: unslide_proto::body::compress_report(body.as_bytes()),
        size: body.len().try_into().expect("a short body"),
        facts: ReportDetails {
            app: "com.acme.shop".into(),
            version: "1.0".into(),
            build: "100".into(),
            kind: "mach".into(),
            status: "partial".into(),
            frames: FrameTotals {
                total: 10,
                symbolicated: 4,
                device: 2,
                device_app: 1,
                missing: 4,
                own: 6,
                own_symbolicated: 3,
            },
            grouping: Some(grouping(n % 3, true)),
            ..ReportDetails::default()
        },
        images: vec![missing_image(1, false), missing_image(200, true)],
        origin: None,
        traceparent: None,
    }
}

/// Bug number `n`, before or after its symbols came.
#[must_use]
pub fn grouping(n: u8, provisional: bool) -> ReportGrouping {
    ReportGrouping {
        fingerprint: [if provisional { n } else { 100 + n }; 16],
        kind: "crash".into(),
        provisional,
        title: format!("bug {n}"),
        culprit: "Cart.total (Cart.swift)".into(),
    }
}

fn missing_image(n: u8, system: bool) -> ImageUse {
    ImageUse {
        debug_id: DebugId([n; 16]),
        name: format!("image-{n}"),
        arch: "arm64".into(),
        system,
        found: false,
        stripped: false,
        failed: false,
        seen_generation: 0,
    }
}
