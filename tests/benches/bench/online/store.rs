//! How many reports of a backlog are symbolicated and stored a second, what the processes use, and how many statements
//! a batch takes.

use crate::input::Input;
use crate::online::flow::UNLIMITED;
use futures::{StreamExt, stream};
use sqlx::{Connection, PgConnection};
use std::sync::Arc;
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use unslide_model::{ContentHash, ReportGrouping, ReportId, SystemClock, TenantId};
use unslide_store::reports::{self, Arrival, Effects, ReportDetails};
use unslide_store::{Store, partitions, tenants};
use unslide_testkit::statements;
use unslide_tests::app::App;
use unslide_tests::installation::{Installation, TENANT};

const WORKER: &str = "symbolizer";
const INDEXER: &str = "indexer";
/// What the worker has committed.
const RECORDS: &str = "unslide_symbolizer_records_total{lane=\"live\"";
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const BACKLOG_TIMEOUT: Duration = Duration::from_secs(1_800);
/// Clock ticks of `/proc` in a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// Prints both rates of small and of large reports, the CPU of each process, and the statements of a batch.
pub async fn print(input: &Input, full: bool) {
    let app = App::from_fixture("app");
    let reports = if full { 20_000 } else { 60 };
    println!(
        "\nA backlog of one tenant's reports: symbolicated by one worker, and then stored by one indexer"
    );
    let small = |number| app.build_report(number).bytes();
    run("small", &app.dsym, reports, small).await;
    run("large", &input.dsym, reports / 5, |number| input.report(number)).await;
    let [one, many] = [1, 500].map(count_statements);
    println!("  statements of a batch of one report: {one}, of 500: {many}");
}

async fn run(name: &str, dsym: &[u8], reports: u32, report: impl Fn(u32) -> Vec<u8>) {
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.wait_ready("api").await;
    installation.make_tenant(TENANT);
    let upload = installation.client().upload_symbols(dsym.to_vec()).await;
    assert_eq!(upload["objects"][0]["status"], "ready", "{upload}");
    let topic = installation.topic_name("crash.reports");
    let bytes = report(0).len();
    let sends = stream::iter(0..reports).map(|number| {
        let (installation, topic, report) = (&installation, &topic, report(number));
        async move { installation.topics.produce_record(topic, None, &[("tenant", TENANT)], &report).await }
    });
    sends.buffer_unordered(500).for_each(async |()| {}).await;

    installation.start_service(WORKER, "symbolizer", &[UNLIMITED]);
    installation.wait_ready(WORKER).await;
    let (mut begun, mut committed) = (None, 0.0);
    while committed < f64::from(reports) {
        committed = installation.fetch_metric(WORKER, RECORDS).await.unwrap_or(0.0);
        if begun.is_none() && committed > 0.0 {
            begun = Some((Instant::now(), committed));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let symbolicated = rate(begun, f64::from(reports));
    let worker = installation.take_process(WORKER);
    tokio::task::block_in_place(|| worker.terminate());

    let mut database = PgConnection::connect(&installation.database_url()).await.expect("PostgreSQL");
    let postmaster = postmaster(&mut database).await;
    installation.start_service(INDEXER, "indexer", &[]);
    installation.wait_ready(INDEXER).await;
    let (mut begun, mut used) = (None, [0.0; 2]);
    let cpu = |installation: &mut Installation| {
        [installation.find_process(INDEXER).cpu_time().as_secs_f64(), cpu_of_tree(postmaster)]
    };
    let timeout = Instant::now();
    loop {
        let there = count(&mut database).await;
        if begun.is_none() && there > 0.0 {
            (begun, used) = (Some((Instant::now(), there)), cpu(&mut installation));
        }
        if there >= f64::from(reports) {
            break;
        }
        assert!(timeout.elapsed() < BACKLOG_TIMEOUT, "{there} of {reports} reports are stored");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let seconds = begun.map_or(0.0, |(at, _)| at.elapsed().as_secs_f64());
    let stored = rate(begun, f64::from(reports));
    let now = cpu(&mut installation);
    let share = [0, 1].map(|n| 100.0 * (now[n] - used[n]) / seconds.max(0.001));
    println!(
        "  {name} ({bytes} bytes): {symbolicated:.0} symbolicated/s, {stored:.0} stored/s, {:.2} of that; while storing the \
         indexer used {:.0} % of a core and PostgreSQL {:.0} %",
        stored / symbolicated.max(1.0),
        share[0],
        share[1]
    );
    drop(database);
    installation.stop().await;
}

/// Returns how many came a second after the first look that saw some.
fn rate(begun: Option<(Instant, f64)>, all: f64) -> f64 {
    begun.map_or(0.0, |(at, first)| (all - first) / at.elapsed().as_secs_f64().max(0.001))
}

async fn count(database: &mut PgConnection) -> f64 {
    // Counting rows is work as well: roll-ups have the number.
    let question = "SELECT coalesce(sum(reports), 0)::float8 FROM app_days";
    sqlx::query_scalar(question).fetch_one(database).await.expect("an answer")
}

/// The process that all processes of PostgreSQL are children of.
async fn postmaster(database: &mut PgConnection) -> u32 {
    let question = "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)::bigint";
    let id: i64 = sqlx::query_scalar(question).fetch_one(database).await.expect("the server's superuser");
    u32::try_from(id).expect("a process")
}

/// Returns the CPU seconds of a process and its children, those that have ended among them.
fn cpu_of_tree(id: u32) -> f64 {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
    let children = children.split_ascii_whitespace().filter_map(|child| child.parse().ok());
    std::iter::once(id).chain(children).map(cpu_of_process).sum()
}

fn cpu_of_process(id: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The second field is the command's name in parentheses; 14 to 17 are times of the process and of its ended children.
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = fields.split(' ').skip(11).take(4).map(|field| field.parse::<f64>().unwrap_or(0.0));
    ticks.sum::<f64>() / TICKS_PER_SECOND
}

/// Returns the statements that storing so many new reports of one app takes, without those of the transaction itself.
fn count_statements(reports: u32) -> usize {
    let counting = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let installation = Installation::prepare().await;
            let settings = unslide_store::Settings::with_url(installation.database_url());
            let store = Store::connect(&settings, Arc::new(SystemClock)).await.expect("a database");
            let today = store.clock().now();
            partitions::ensure_partitions(&store, today.date(), today.date()).await.expect("a day");
            let arrivals: Vec<Arrival> = (0..reports).map(|number| arrival(number, today)).collect();
            let mut tx = store.tenant(&TenantId::new(TENANT).expect("a slug")).await.expect("a transaction");
            let made = tenants::create_tenant(&mut tx, TENANT, &tenants::QuotaLimits::default()).await;
            made.expect("the database").expect("a new tenant");
            let storing = reports::store_arrivals(&mut tx, &arrivals, Effects::Now, None);
            let (stored, statements) = statements::counted(storing).await;
            assert_eq!(stored.expect("stored").len(), arrivals.len());
            drop(tx);
            store.close().await;
            installation.stop().await;
            statements
        })
    });
    counting.join().expect("it ends")
}

fn arrival(number: u32, received_at: OffsetDateTime) -> Arrival {
    let mut id = [7; 16];
    id[..4].copy_from_slice(&number.to_be_bytes());
    let mut hash = [7; 32];
    hash[..4].copy_from_slice(&number.to_be_bytes());
    Arrival {
        report_id: ReportId(id),
        content_hash: ContentHash(hash),
        revision: 1,
        received_at,
        body: unslide_proto::body::compress_report(b"{}"),
        size: 2,
        facts: ReportDetails {
            app: "com.acme.shop".into(),
            version: "1.0".into(),
            kind: "mach".into(),
            status: "complete".into(),
            device: Some(id[..4].to_vec()),
            grouping: Some(ReportGrouping {
                fingerprint: [1; 16],
                kind: "crash".into(),
                provisional: false,
                title: "a bug".into(),
                culprit: "leaf_crash".into(),
            }),
            ..ReportDetails::default()
        },
        images: Vec::new(),
        origin: None,
        traceparent: None,
    }
}
