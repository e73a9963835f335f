//! A database with many stored reports: one day of them goes through the service, and SQL repeats that day for each day before.
//!
//! The copies are made from the catalogue and from the declarations of the tables ([`CORE_TABLES`]), so that they follow the
//! schema: a row of a table whose key has a day, a time, a report or a person is copied with an earlier day and new ids. The
//! rows of other tables, such as groups, are those of the day itself.

use super::backlog::{Backlog, INDEXER, start_indexer, wait_stored};
use crate::online::database::{Indexes, run, run_scripts};
use sha2::{Digest, Sha256};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use unslide_embedded::{Options, S3Endpoint, Servers};
use unslide_model::{SystemClock, TenantId};
use unslide_store::tables::CORE_TABLES;
use unslide_store::{Store, partitions, tenants};
use unslide_testkit::servers;
use unslide_tests::app::App;
use unslide_tests::installation::{BUCKET, Installation, Place, TENANT};

/// The days that reports arrived on.
pub const DAYS: u32 = 30;
/// The migrations that a filled database has.
const CHECKSUMS: &str = include_str!("../../../../../migrations/checksums");
/// Settings of a server of production, with memory that is small beside the indexes, as it is with many more reports. No
/// checkpoint begins by itself, and nothing else writes.
const SETTINGS: [&str; 5] = [
    "shared_buffers=256MB",
    "max_wal_size=16GB",
    "checkpoint_timeout=1h",
    "autovacuum=off",
    "shared_preload_libraries=pg_stat_statements",
];
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Polls without a statement after which a database is quiet: a second.
const QUIET_POLLS: u32 = 20;
/// The least that the indexer's setting may be.
const SEGMENT_AFTER: Duration = Duration::from_secs(1);
const FILL_TIMEOUT: Duration = Duration::from_secs(7_200);

/// The servers that reports are stored on.
pub struct Site {
    /// Their addresses.
    pub place: Place,
    /// Where segments are written.
    pub objects: tempfile::TempDir,
    /// The folder of servers of our own, and their logs of Kafka.
    pub folder: Option<PathBuf>,
    _s3: S3Endpoint,
    _servers: Option<Servers>,
}

impl Site {
    /// Starts servers that wait for their disk, in the folder that `UNSLIDE_BENCH_STORE` names, and deletes what was filled for
    /// other migrations. Without the folder, uses those of the tests.
    pub fn start(reports: u64) -> Site {
        let objects = tempfile::tempdir().expect("a folder");
        let s3 = S3Endpoint::start(objects.path(), BUCKET).expect("an S3 endpoint");
        let object_keys = (s3.access_key.clone(), s3.secret_key.clone());
        let mut place = Place {
            kafka: servers::kafka(),
            postgres: servers::postgres(),
            objects: s3.url(),
            object_keys,
            kafka_admin: None,
        };
        let Some(kept) = std::env::var_os("UNSLIDE_BENCH_STORE").map(PathBuf::from) else {
            return Site { place, objects, folder: None, _s3: s3, _servers: None };
        };
        let folder = kept.join(name_folder(reports));
        for other in std::fs::read_dir(&kept).into_iter().flatten().flatten() {
            if other.path() != folder || !is_filled(&folder) {
                Servers::delete(&other.path()).expect("deleted");
            }
        }
        let options = Options {
            data: folder.clone(),
            postgres_settings: SETTINGS.map(str::to_owned).to_vec(),
            ..Options::default()
        };
        let servers = Servers::start(&options, &|_| {}).expect("the servers start");
        servers.postgres_url().clone_into(&mut place.postgres);
        place.kafka = servers.kafka_bootstrap();
        Site { place, objects, folder: Some(folder), _s3: s3, _servers: Some(servers) }
    }
}

/// Names a folder by all that its content depends on. Rows end after 90 days: it serves for a month.
fn name_folder(reports: u64) -> String {
    let today = time::OffsetDateTime::now_utc();
    let digest =
        Sha256::digest(format!("{CHECKSUMS}{}{}", include_str!("fill.rs"), include_str!("reports.rs")));
    let hash: String = digest[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{reports}-{hash}-{}{:02}", today.year(), u8::from(today.month()))
}

fn mark(folder: &Path) -> PathBuf {
    folder.join("filled")
}

fn is_filled(folder: &Path) -> bool {
    mark(folder).exists()
}

/// A database with stored reports.
pub struct Filled {
    /// Its URL as the superuser.
    pub url: String,
    /// Its name on its server.
    pub name: String,
    /// The reports that it was filled with.
    pub reports: u64,
    /// Bytes of a report in object storage.
    pub object_bytes: f64,
}

impl Filled {
    /// Opens the database that an earlier run has filled, or fills one.
    pub async fn prepare(site: &Site, app: &App, reports: u64) -> Filled {
        let name = if site.folder.is_some() {
            "filled".to_owned()
        } else {
            servers::unique("filled").replace('-', "_")
        };
        let url = site.place.database_url(&name);
        let day = u32::try_from(reports).expect("a number of reports") / DAYS;
        let kept = site.folder.as_deref().and_then(|folder| std::fs::read_to_string(mark(folder)).ok());
        let object_bytes = match kept {
            Some(text) => text.trim().parse().expect("a number"),
            None => {
                let begun = Instant::now();
                let object_bytes = fill(site, app, &name, day).await;
                if let Some(folder) = &site.folder {
                    std::fs::write(mark(folder), object_bytes.to_string()).expect("written");
                }
                println!("  {} reports stored in {:.0?}", day * DAYS, begun.elapsed());
                object_bytes
            }
        };
        // Runs before this one have left bodies in a folder that is kept, which an indexer would move, and rows that they replaced.
        let mut database = PgConnection::connect(&url).await.expect("PostgreSQL");
        run(&mut database, "TRUNCATE report_bodies").await;
        run(&mut database, "VACUUM (ANALYZE)").await;
        run(&mut database, "CHECKPOINT").await;
        Filled { url, name, reports: u64::from(day * DAYS), object_bytes }
    }

    /// Deletes the database, unless it is kept.
    pub async fn end(self, site: &Site) {
        if site.folder.is_none() {
            let mut admin = PgConnection::connect(&site.place.postgres).await.expect("PostgreSQL");
            run(&mut admin, &format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
        }
    }
}

/// Fills a new database. Returns the bytes of a report in object storage.
async fn fill(site: &Site, app: &App, name: &str, day: u32) -> f64 {
    let mut admin = PgConnection::connect(&site.place.postgres).await.expect("PostgreSQL");
    run(&mut admin, &format!("CREATE DATABASE {name}")).await;
    let url = site.place.database_url(name);
    let devices = day / 3 + 1;
    let mut backlog = Backlog::symbolicate(&site.place, &app.dsym, day, |number| {
        super::reports::build(app, number, devices)
    })
    .await;
    let installation = &mut backlog.installation;
    let (status, _, error) = installation.command_with(&["migrate"], &[("UNSLIDE_POSTGRES__URL", &url)]);
    assert_eq!(status, 0, "{error}");
    make_tenant(&url).await;
    let begun = Instant::now();
    start_indexer(installation, &url, &[]).await;
    wait_stored(installation, f64::from(day)).await;
    stop_indexer(installation);
    // Bodies of this age move to object storage when an indexer starts.
    tokio::time::sleep(SEGMENT_AFTER).await;
    start_indexer(installation, &url, &[("UNSLIDE_INDEXER__SEGMENT_AFTER", "1s")]).await;
    let mut database = PgConnection::connect(&url).await.expect("PostgreSQL");
    wait_for(&mut database, "SELECT NOT EXISTS (SELECT FROM report_bodies)").await;
    let object_bytes = folder_bytes(site.objects.path(), "") / f64::from(day.max(1));
    wait_quiet(&mut database).await;
    println!("  a day of {day} reports went through the service in {:.0?}", begun.elapsed());
    stop_indexer(installation);
    copy_days(&url, &mut database).await;
    // What maintenance does once with so many rows is no part of storing.
    start_indexer(installation, &url, &[]).await;
    wait_quiet(&mut database).await;
    stop_indexer(installation);
    backlog.installation.stop().await;
    object_bytes
}

fn stop_indexer(installation: &mut Installation) {
    let indexer = installation.take_process(INDEXER);
    tokio::task::block_in_place(|| indexer.terminate());
}

/// Makes the tenant, and tables for all days.
async fn make_tenant(url: &str) {
    let settings = unslide_store::Settings::with_url(url.to_owned());
    let store = Store::connect(&settings, Arc::new(SystemClock)).await.expect("a database");
    let mut tx = store.tenant(&TenantId::new(TENANT).expect("a slug")).await.expect("a transaction");
    let made = tenants::create_tenant(&mut tx, TENANT, &tenants::QuotaLimits::default()).await;
    made.expect("the database").expect("a new tenant");
    tx.commit().await.expect("committed");
    let today = store.clock().now().date();
    let first = today - time::Duration::days(DAYS.into());
    partitions::ensure_partitions(&store, first, today + time::Duration::days(1)).await.expect("the days");
    store.close().await;
}

/// Copies the rows of the newest day to each day before.
async fn copy_days(url: &str, database: &mut PgConnection) {
    let begun = Instant::now();
    let mut renewed = BTreeSet::from(["report_id", "content_hash"]);
    for table in CORE_TABLES {
        renewed.extend([table.session, table.user, table.installation].into_iter().flatten());
    }
    run(database, "CREATE SCHEMA IF NOT EXISTS bench").await;
    let (mut copies, mut indexes, mut dropped) =
        (vec![Vec::new(); DAYS as usize - 1], Vec::new(), Vec::new());
    for table in CORE_TABLES {
        let name = table.name;
        let Some(columns) = Column::read_copied(database, name, &renewed).await else { continue };
        run(database, &format!("CREATE UNLOGGED TABLE bench.day_{name} AS TABLE {name}")).await;
        let definitions = Indexes::read(database, name).await;
        definitions.drop(database).await;
        indexes.push(definitions.statements().join(";\n"));
        dropped.push(format!("DROP TABLE bench.day_{name}"));
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        for (day, copy) in (1..).zip(&mut copies) {
            let values: Vec<String> = columns.iter().map(|column| column.copy_value(day, &renewed)).collect();
            copy.push(format!(
                "INSERT INTO {name} ({}) SELECT {} FROM bench.day_{name}",
                names.join(", "),
                values.join(", ")
            ));
        }
    }
    run_scripts(url, copies.into_iter().map(|copy| copy.join(";\n")).collect()).await;
    println!("  copied in {:.0?}", begun.elapsed());
    run_scripts(url, indexes).await;
    for statement in dropped {
        run(database, &statement).await;
    }
    println!("  indexed in {:.0?}", begun.elapsed());
}

/// A column of a table.
struct Column {
    name: String,
    kind: String,
    is_key: bool,
}

impl Column {
    /// Returns the columns of a table that has rows, and whose key differs from day to day.
    async fn read_copied(
        database: &mut PgConnection,
        table: &str,
        renewed: &BTreeSet<&str>,
    ) -> Option<Vec<Column>> {
        let any = format!("SELECT EXISTS (SELECT FROM {table})");
        let any: bool =
            sqlx::query_scalar(AssertSqlSafe(any)).fetch_one(&mut *database).await.expect("an answer");
        let columns = "SELECT a.attname::text, format_type(a.atttypid, NULL),
                coalesce(a.attnum = ANY (i.indkey), false)
            FROM pg_attribute a LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
            WHERE a.attrelid = $1::text::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
            ORDER BY a.attnum";
        let rows = sqlx::query(columns).bind(table).fetch_all(database).await.expect("an answer");
        let columns =
            rows.iter().map(|row| Column { name: row.get(0), kind: row.get(1), is_key: row.get(2) });
        let columns: Vec<Column> = columns.collect();
        let differs = |column: &Column| column.is_key && column.copy_value(1, renewed) != column.name;
        (any && columns.iter().any(differs)).then_some(columns)
    }

    /// Returns the value that a row has so many days earlier.
    fn copy_value(&self, days: u32, renewed: &BTreeSet<&str>) -> String {
        let name = &self.name;
        match (self.kind.as_str(), renewed.contains(name.as_str())) {
            // A key lies in the month in which it was stored, whenever the report arrived.
            ("date", _) if name == "stored_month" => name.clone(),
            ("date", _) => format!("{name} - {days}"),
            ("timestamp with time zone", _) => format!("{name} - make_interval(days => {days})"),
            ("uuid", true) => format!("md5({name} || '{days}')::uuid"),
            ("text", true) => format!("md5({name} || '{days}')"),
            ("bytea", true) => {
                format!("substring(sha256({name} || int4send({days})) FROM 1 FOR length({name}))")
            }
            _ => name.clone(),
        }
    }
}

/// Waits until a question has the answer true.
async fn wait_for(database: &mut PgConnection, question: &'static str) {
    let begun = Instant::now();
    while !sqlx::query_scalar::<_, bool>(question).fetch_one(&mut *database).await.expect("an answer") {
        assert!(begun.elapsed() < FILL_TIMEOUT, "{question}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Waits until no other connection has run a statement for a second.
async fn wait_quiet(database: &mut PgConnection) {
    let quiet = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle')";
    let mut polls = 0;
    while polls < QUIET_POLLS {
        let is_quiet: bool = sqlx::query_scalar(quiet).fetch_one(&mut *database).await.expect("an answer");
        polls = if is_quiet { polls + 1 } else { 0 };
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Returns the bytes of the files below a folder whose names end so.
pub fn folder_bytes(folder: &Path, end: &str) -> f64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => folder_bytes(&entry.path(), end),
        Ok(data) if entry.file_name().to_string_lossy().ends_with(end) => data.len() as f64,
        _ => 0.0,
    });
    bytes.sum()
}
