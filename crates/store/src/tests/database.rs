//! A migrated database for one test, and reports to fill it with.

use crate::outbox::Relay;
use crate::reports::{self, Arrival, Effects, FrameTotals, ImageUse, ReportDetails, StoredArrival};
use crate::tenants::{self, QuotaLimits};
use crate::{Settings, Store, apply_migrations, deltas, partitions};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection, Row};
use std::sync::Arc;
use time::{Duration, OffsetDateTime};
use tokio::sync::Mutex;
use unslide_model::{ContentHash, DebugId, FixedClock, Quality, ReportGrouping, ReportId, Secret, TenantId};
use unslide_testkit::{databases, servers};

/// 20 November 2026, 08:00 UTC.
pub const START_MICROS: i64 = 1_795_161_600_000_000;

pub fn start() -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(START_MICROS) * 1_000).unwrap()
}

pub struct Database {
    name: String,
    pub url: String,
    pub clock: Arc<FixedClock>,
    pub store: Store,
    /// The connection of [`Database::rows`].
    owner: Mutex<Option<PgConnection>>,
}

pub async fn admin(statement: &str) {
    databases::execute(&servers::postgres(), statement).await;
}

/// The URL of another database on the same server as a role. The role's password is its name.
pub fn url_of(database: &str, role: &str) -> String {
    let url = databases::url(database);
    let (scheme, rest) = url.split_once("://").unwrap();
    let address = rest.rsplit_once('@').map_or(rest, |(_, address)| address);
    format!("{scheme}://{role}:{role}@{address}")
}

impl Database {
    /// A migrated database with the tenants `acme` and `umbrella`, and tables for the days around
    /// [`start`].
    pub async fn new() -> Database {
        let name = servers::unique("unslide-store").replace('-', "_");
        // The tables of a day take PostgreSQL more time than most tests. The tenants are new at [`start`].
        let fill = async |url: String| {
            apply_migrations(&Secret::new(url.clone())).await.unwrap();
            let clock = Arc::new(FixedClock::at_micros(START_MICROS));
            let store = Store::connect_timed(&Settings::with_url(url), clock).await.unwrap();
            let day = start().date();
            let (first, last) = (day - Duration::days(3), day + Duration::DAY);
            partitions::ensure_partitions(&store, first, last).await.unwrap();
            for tenant in ["acme", "umbrella"] {
                let mut tx = store.tenant(&tenant_id(tenant)).await.unwrap();
                tenants::create_tenant(&mut tx, tenant, &QuotaLimits::default()).await.unwrap().unwrap();
                tx.commit().await.unwrap();
            }
            store.close().await;
        };
        let url = databases::create(&name, "store_tenants", fill).await;
        let clock = Arc::new(FixedClock::at_micros(START_MICROS));
        let settings = Settings { max_connections: 24, ..Settings::with_url(url.clone()) };
        let store = Store::connect_timed(&settings, clock.clone()).await.unwrap();
        Database { name, url, clock, store, owner: Mutex::new(None) }
    }

    /// Lets time pass.
    pub fn wait(&self, time: Duration) {
        self.clock.advance_micros(i64::try_from(time.whole_microseconds()).unwrap());
    }

    /// What the clock says.
    pub fn clock_now(&self) -> OffsetDateTime {
        unslide_model::Clock::now(&*self.clock)
    }

    /// Rows as the owner sees them: those of all tenants.
    pub async fn rows(&self, query: &str) -> Vec<PgRow> {
        let mut owner = self.owner.lock().await;
        if owner.is_none() {
            *owner = Some(PgConnection::connect(&self.url).await.unwrap());
        }
        let query = sqlx::query(AssertSqlSafe(query.to_owned())).persistent(false);
        query.fetch_all(owner.as_mut().unwrap()).await.unwrap()
    }

    /// When the outstanding request of a report was sent; the clock's time where there is none.
    pub async fn sent(&self, (id, variant): (ReportId, u32)) -> OffsetDateTime {
        let query = format!(
            "SELECT requested_at FROM report_keys
             WHERE report_id = '{}' AND variant = {variant} AND requested_at IS NOT NULL",
            id.uuid()
        );
        self.rows(&query).await.first().map_or_else(|| self.clock_now(), |row| row.get(0))
    }

    pub async fn number(&self, query: &str) -> i64 {
        self.rows(query).await[0].get(0)
    }

    /// Stores arrivals of `acme` and commits.
    pub async fn store(&self, arrivals: &[Arrival]) -> Vec<StoredArrival> {
        self.store_as(arrivals, Effects::Now).await
    }

    pub async fn store_as(&self, arrivals: &[Arrival], effects: Effects) -> Vec<StoredArrival> {
        let mut tx = self.store.tenant(&acme()).await.unwrap();
        let stored = reports::store_arrivals(&mut tx, arrivals, effects, None).await.unwrap();
        tx.commit().await.unwrap();
        stored
    }

    /// The relay. The lock of the one before is free once the database has seen its connection's end.
    pub async fn relay(&self) -> Relay {
        for _ in 0..15_000 {
            if let Some(relay) = Relay::acquire(&self.store).await.unwrap() {
                return relay;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("somebody else is the relay");
    }

    /// Waits until a statement waits for a lock that another transaction has.
    pub async fn wait_for_lock(&self) {
        let waits = "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND wait_event_type = 'Lock'";
        for _ in 0..15_000 {
            if self.number(waits).await > 0 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("no statement waits for a lock");
    }

    /// Folds the rows of each group, at most `limit` in a transaction and at most as many transactions.
    pub async fn fold(&self, limit: u32, mut transactions: usize) {
        for due in deltas::list_due(&self.store, 1, self.store.now(), u32::MAX >> 1).await.unwrap() {
            let mut more = true;
            while more && transactions > 0 {
                transactions -= 1;
                let mut tx = self.store.tenant(&due.tenant).await.unwrap();
                more = deltas::fold_groups(&mut tx, &[due.group], limit).await.unwrap();
                tx.commit().await.unwrap();
            }
        }
    }

    /// Everything that reports leave behind, as text. Counts are folded.
    pub async fn dump(&self) -> String {
        self.fold(1_000, usize::MAX).await;
        let mut dump = String::new();
        for table in [
            "report_keys",
            "report_duplicates",
            "reports",
            "report_bodies",
            "waits",
            "system_waits",
            "app_days",
            "app_hours",
            "app_devices",
            "wanted_images",
            "groups",
            "group_days",
            "group_breakdowns",
            "group_devices",
            "group_terms",
            "group_activity",
            "symbol_slots",
            "captures",
            "capture_waits",
            "sessions",
            "session_days",
            "session_hour_counts",
            "metric_payloads",
            "metric_days",
            "metric_hours",
            "metric_versions",
            "signal_drops",
            "outbox",
            "jobs",
        ] {
            let rows = self.rows(&format!("SELECT t::text FROM {table} t ORDER BY 1")).await;
            for row in rows {
                dump.push_str(&format!("{table} {}\n", row.get::<String, _>(0)));
            }
        }
        dump
    }
}

/// Changes the database as its owner.
pub async fn execute(database: &Database, statement: &str) {
    databases::execute(&database.url, statement).await;
}

impl Drop for Database {
    fn drop(&mut self) {
        let name = self.name.clone();
        // A runtime of its own, on a thread of its own: this one is busy with the test.
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(admin(&format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")));
        })
        .join();
        assert!(dropped.is_ok() || std::thread::panicking(), "the test's database was not dropped");
    }
}

pub fn tenant_id(slug: &str) -> TenantId {
    TenantId::new(slug).unwrap()
}

pub fn acme() -> TenantId {
    tenant_id("acme")
}

pub fn debug_id(n: u8) -> DebugId {
    DebugId([n; 16])
}

/// Report number `n`, as it comes first: one app image without symbols, one system image.
pub fn arrival(n: u8) -> Arrival {
    let body = format!("{{\"n\":{n},\"revision\":1}}");
    Arrival {
        report_id: ReportId([n; 16]),
        content_hash: ContentHash([n; 32]),
        revision: 1,
        received_at: start() + Duration::seconds(n.into()),
        body: unslide_proto::body::compress_report(body.as_bytes()),
        size: body.len().try_into().unwrap(),
        facts: ReportDetails {
            app: "com.acme.shop".into(),
            version: "1.0".into(),
            build: "100".into(),
            kind: "mach".into(),
            status: "partial".into(),
            device: Some(vec![n % 4; 16]),
            os_name: Some("iOS".into()),
            os_version: Some(format!("18.{}", n % 2)),
            model: (!n.is_multiple_of(5)).then(|| format!("iPhone{},1", n % 3)),
            reason: Some("it crashed".into()),
            summary: serde_json::json!({"signal": "SIGABRT"}),
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
        images: vec![image(1, false, None), image(200, true, None)],
        origin: None,
        traceparent: None,
    }
}

/// Bug number `n`, before or after its symbols came.
pub fn grouping(n: u8, provisional: bool) -> ReportGrouping {
    ReportGrouping {
        fingerprint: [if provisional { n } else { 100 + n }; 16],
        kind: "crash".into(),
        provisional,
        title: format!("bug {n}"),
        culprit: "Cart.total (Cart.swift)".into(),
    }
}

/// An image that was symbolicated with a generation, or was missing.
pub fn image(n: u8, system: bool, generation: Option<u64>) -> ImageUse {
    ImageUse {
        debug_id: debug_id(n),
        name: format!("image-{n}"),
        arch: "arm64".into(),
        system,
        found: generation.is_some(),
        stripped: false,
        failed: false,
        seen_generation: generation.unwrap_or(0),
    }
}

/// The next revision of a report, with this app image.
pub fn revised(of: &Arrival, revision: u32, app_image: ImageUse) -> Arrival {
    let mut next = of.clone();
    next.revision = revision;
    next.received_at += Duration::hours(30);
    next.images[0] = app_image;
    next.facts.status = "complete".into();
    // Half of the bugs turn out to be one.
    next.facts.grouping = Some(grouping(of.report_id.0[0] % 2, false));
    next.facts.frames = FrameTotals {
        total: 10,
        symbolicated: 8,
        device: 2,
        device_app: 0,
        missing: 0,
        own: 6,
        own_symbolicated: 6,
    };
    let body = format!("{{\"revision\":{revision}}}");
    next.body = unslide_proto::body::compress_report(body.as_bytes());
    next.size = body.len().try_into().unwrap();
    next
}

/// New symbols for a debug id of `acme`; gives the generation.
pub async fn publish(database: &Database, n: u8, quality: Quality) -> u64 {
    let mut tx = database.store.tenant(&acme()).await.unwrap();
    let generation = crate::slots::publish_symbols(&mut tx, &symbols(n, quality)).await.unwrap();
    tx.commit().await.unwrap();
    generation
}

pub fn symbols(n: u8, quality: Quality) -> crate::slots::PublishedSymbols {
    crate::slots::PublishedSymbols {
        debug_id: debug_id(n),
        quality,
        content_hash: ContentHash([n; 32]),
        symcache_version: 1,
        generation: 0,
    }
}
