//! What a test of a service runs on: a database, topics and a bucket that no other test has, on the servers that all
//! tests share.
#![expect(clippy::missing_panics_doc, reason = "a test that lacks a server fails")]

pub mod database;
pub mod receivers;
pub mod service;
mod waiting;

pub use database::{acme, umbrella};

use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Connection, Row};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use time::{Duration, UtcOffset};
use tokio::sync::Mutex;
use unslide_artifacts::ObjectStore;
use unslide_embedded::S3Endpoint;
use unslide_model::{Clock, Secret, SystemClock, TenantId};
use unslide_store::Store;
use unslide_store::tenants::{self, QuotaLimits};
use unslide_stream::{Partitions, admin};
use unslide_testkit::{databases, servers};

const BUCKET: &str = "unslide";
/// The days for which an indexer makes tables ahead.
const DAYS_AHEAD: Duration = Duration::days(7);

/// Makes a migrated database as an indexer leaves it, with the tables of today and the days ahead; its URL.
pub async fn create_service_database(name: &str) -> String {
    let today = SystemClock.now().to_offset(UtcOffset::UTC).date();
    let kind = format!("days_{}", today.to_julian_day());
    database::create_with_days(name, &kind, (today, today + DAYS_AHEAD)).await
}

/// The servers of one test.
pub struct TestServers {
    /// The migrated database.
    pub postgres: unslide_store::Settings,
    /// The topics, which are there.
    pub kafka: unslide_stream::Settings,
    /// The bucket.
    pub objects: unslide_artifacts::Settings,
    /// The database as the service sees it.
    pub store: Store,
    database: String,
    /// The connection of [`TestServers::number`] and [`TestServers::text`].
    owner: Mutex<Option<PgConnection>>,
    s3: Option<S3Endpoint>,
    folder: TempDir,
}

impl TestServers {
    /// Makes them, with names that begin so. `change` sets what is special about the topics.
    pub async fn start(name: &str, change: impl FnOnce(&mut unslide_stream::Settings)) -> TestServers {
        let name = servers::unique(name);
        let database = name.replace('-', "_");
        let postgres = unslide_store::Settings::with_url(Box::pin(create_service_database(&database)).await);
        let store = Store::connect(&postgres, Arc::new(SystemClock)).await.expect("a database");
        let mut kafka = unslide_stream::Settings {
            topic_prefix: format!("{name}."),
            ..unslide_stream::Settings::single_broker(servers::kafka())
        };
        // The broker makes a folder, files and an election for each partition. Most tests read no topic.
        kafka.partitions = Partitions { input: 1, output: 1, overflow: 1, ..kafka.partitions };
        change(&mut kafka);
        admin::create_topics(&kafka).await.expect("topics");
        let folder = tempfile::tempdir().expect("a folder");
        let s3 = S3Endpoint::start(folder.path(), BUCKET).expect("an S3 endpoint");
        let objects = unslide_artifacts::Settings {
            endpoint: Some(s3.url()),
            bucket: BUCKET.to_owned(),
            access_key: Some(s3.access_key.clone()),
            secret_key: Secret::new(s3.secret_key.clone()),
            path_style: true,
            ..unslide_artifacts::Settings::default()
        };
        let owner = Mutex::default();
        TestServers { postgres, kafka, objects, store, database, owner, s3: Some(s3), folder }
    }

    /// A folder for what the service keeps.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a tenant.
    pub async fn make_tenant(&self, tenant: &TenantId) {
        let mut tx = self.store.tenant(tenant).await.expect("a transaction");
        let made = tenants::create_tenant(&mut tx, tenant.as_str(), &QuotaLimits::default()).await;
        made.expect("the database").expect("a new tenant");
        tx.commit().await.expect("committed");
    }

    /// The bucket.
    pub async fn bucket(&self) -> ObjectStore {
        ObjectStore::s3(&self.objects).await
    }

    /// The database as its superuser sees it.
    pub async fn connect(&self) -> PgConnection {
        PgConnection::connect(self.postgres.url.reveal()).await.expect("PostgreSQL")
    }

    /// Changes the database as its superuser.
    pub async fn execute(&self, statements: &str) {
        databases::execute(self.postgres.url.reveal(), statements).await;
    }

    /// The number that a query gives to the superuser.
    pub async fn number(&self, query: &str) -> i64 {
        self.row(query).await.get(0)
    }

    /// The text that a query gives to the superuser.
    pub async fn text(&self, query: &str) -> String {
        self.row(query).await.get(0)
    }

    /// One connection serves the whole test: each new one costs PostgreSQL a process. A test may have ended the last one.
    async fn row(&self, query: &str) -> PgRow {
        let mut owner = self.owner.lock().await;
        let mut kept = owner.take();
        let is_open = match &mut kept {
            Some(kept) => kept.ping().await.is_ok(),
            None => false,
        };
        let mut connection = match kept.filter(|_| is_open) {
            Some(kept) => kept,
            None => self.connect().await,
        };
        let statement = sqlx::query(AssertSqlSafe(query.to_owned())).persistent(false);
        let row = statement.fetch_one(&mut connection).await.expect(query);
        *owner = Some(connection);
        row
    }

    /// Lets nobody connect to the database any more and ends all connections, or lets them in again.
    pub async fn let_connect(&self, allowed: bool) {
        let alter = format!("ALTER DATABASE {} WITH ALLOW_CONNECTIONS {allowed}", self.database);
        databases::execute(&servers::postgres(), &alter).await;
        if !allowed {
            let of = format!("datname = '{}' AND pid <> pg_backend_pid()", self.database);
            let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {of}");
            databases::execute(&servers::postgres(), &end).await;
        }
    }

    /// Stops object storage, or starts it again under the same address with what it held.
    pub async fn run_storage(&mut self, running: bool) {
        match (running, self.s3.take()) {
            (false, Some(s3)) => s3.stop().await,
            (true, None) => self.s3 = Some(S3Endpoint::start(self.folder(), BUCKET).expect("an S3 endpoint")),
            (_, s3) => self.s3 = s3,
        }
    }

    /// Removes everything. Fails if a service has left a connection open, unless it was killed.
    pub async fn stop(self, killed: bool) {
        self.store.close().await;
        if let Some(owner) = self.owner.into_inner() {
            // A test may have ended it.
            owner.close().await.ok();
        }
        admin::delete_topics(&self.kafka).await.expect("no topics");
        if killed {
            let statement = format!("DROP DATABASE {} WITH (FORCE)", self.database);
            databases::execute(&servers::postgres(), &statement).await;
        } else {
            databases::drop(&self.database).await;
        }
        if let Some(s3) = self.s3 {
            s3.stop().await;
        }
        self.folder.close().expect("an empty folder");
    }
}
