//! What moving old rows to ClickHouse changes: the time of a search that no index decides, and the bytes of a row.

use super::database::run;
use super::queries::fill::{self, Fill};
use sqlx::{Connection, PgConnection};
use std::sync::Arc;
use std::time::{Duration, Instant};
use unslide_history::{History, HistorySettings};
use unslide_model::{Secret, SystemClock, TenantId};
use unslide_store::{Store, history};
use unslide_testkit::servers;
use unslide_tests::installation::{Installation, TENANT};

/// The reports that are stored if `UNSLIDE_BENCH_STORED` names no other number.
const STORED: u64 = 10_000_000;
/// Rows and bytes of one move.
const MOVED_ROWS: u32 = 10_000;
const MOVED_BYTES: u64 = 64 << 20;
/// Days of which rows move at the same time.
const MOVERS: usize = 2;

/// Searches that no index decides, and that find nothing: they look at every row.
const SEARCHES: [(&str, &str); 3] = [
    ("of a model that no report has", "model=iPhone99%2C9"),
    ("of a frequent model and a version that it lacks", "model=iPhone3%2C1&os_version=18.77"),
    ("of an own key that no report has", "key=plan%3Dnone"),
];

/// Prints the times of searches with rows in PostgreSQL and in ClickHouse, and the bytes of a row in each.
pub async fn print(full: bool) {
    let asked = std::env::var("UNSLIDE_BENCH_STORED").ok().and_then(|text| text.parse().ok());
    let (reports, groups, rounds) = if full { (asked.unwrap_or(STORED), 500, 5) } else { (8_000, 20, 1) };
    let settings = HistorySettings {
        url: Some(servers::clickhouse()),
        user: "default".into(),
        password: Secret::default(),
        database: servers::unique("bench").replace('-', "_"),
        ..HistorySettings::default()
    };
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.make_tenant(TENANT);
    installation.wait_ready("api").await;
    println!("\nOld rows in ClickHouse");
    let url = installation.database_url();
    let begun = Instant::now();
    fill::fill(&url, Fill { reports, groups }).await;
    println!("  {reports} reports, stored in {:.1?}", begun.elapsed());
    let mut database = PgConnection::connect(&url).await.expect("PostgreSQL");
    let before = measure_database(&mut database).await;
    let without = measure(&installation, rounds).await;
    drop(installation.take_process("api"));

    let begun = Instant::now();
    let moved = Box::pin(move_rows(&url, &settings)).await;
    println!("  {moved} rows moved in {:.1?}", begun.elapsed());
    let after = measure_database(&mut database).await;
    database.close().await.expect("closed");
    let history_url = settings.url.clone().unwrap_or_default();
    let more = [
        ("UNSLIDE_HISTORY__URL", history_url.as_str()),
        ("UNSLIDE_HISTORY__USER", settings.user.as_str()),
        ("UNSLIDE_HISTORY__DATABASE", settings.database.as_str()),
    ];
    installation.start_service("api with history", "api", &more);
    installation.wait_ready("api with history").await;
    let with = measure(&installation, rounds).await;
    for ((name, _), (without, with)) in SEARCHES.iter().zip(without.into_iter().zip(with)) {
        let ratio = without.as_secs_f64() / with.as_secs_f64();
        println!("    {name:<48} {without:>9.1?} without, {with:>9.1?} with: {ratio:.1} times as fast");
    }
    let bytes = ask(
        &settings,
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase()",
    );
    let bytes: f64 = bytes.await.trim().parse().expect("a number");
    let (reports, moved) = (reports as f64, moved.max(1) as f64);
    println!(
        "    a report: {:.0} bytes in PostgreSQL without, {:.0} with, and {:.0} in ClickHouse",
        before / reports,
        after / reports,
        bytes / moved
    );
    ask(&settings, &format!("DROP DATABASE {} SYNC", settings.database)).await;
    installation.stop().await;
}

/// Moves all rows whose bodies are not in the database, several days at the same time. Returns their number.
async fn move_rows(url: &str, settings: &HistorySettings) -> u64 {
    let client = History::new(settings).expect("a client");
    client.create_schema().await.expect("the tables");
    let store = Store::connect(&unslide_store::Settings::with_url(url), Arc::new(SystemClock)).await;
    let store = store.expect("a database");
    let now = store.now() + time::Duration::days(1);
    let due = history::list_due(&store, now, 1_000).await.expect("the days");
    let mut movers = tokio::task::JoinSet::new();
    for mover in 0..MOVERS {
        let (store, client) = (store.clone(), client.clone());
        let days: Vec<_> = due.iter().skip(mover).step_by(MOVERS).cloned().collect();
        movers.spawn(async move {
            let mut moved = 0;
            for day in days {
                moved += Box::pin(move_day(&store, &client, &day, now)).await;
            }
            moved
        });
    }
    let moved = movers.join_all().await.into_iter().sum();
    store.close().await;
    moved
}

async fn move_day(store: &Store, client: &History, due: &history::DueMove, now: time::OffsetDateTime) -> u64 {
    let tenant: &TenantId = &due.tenant;
    let mut moved = 0;
    loop {
        let mut tx = store.tenant(tenant).await.expect("a transaction");
        let begun =
            history::begin_move(&mut tx, due.day, now, MOVED_ROWS, MOVED_BYTES).await.expect("a move");
        tx.commit().await.expect("committed");
        let Some(begun) = begun else { return moved };
        client.insert(tenant, begun.token, &begun.to_history_rows()).await.expect("inserted");
        let mut tx = store.tenant(tenant).await.expect("a transaction");
        let rows = history::finish_move(&mut tx, &begun).await.expect("the end of a move");
        tx.commit().await.expect("committed");
        moved += rows.expect("the intent is there");
    }
}

/// Returns the medians of [`SEARCHES`], each with all of its pages.
async fn measure(installation: &Installation, rounds: usize) -> Vec<Duration> {
    let client = installation.client();
    let mut medians = Vec::new();
    for (name, filter) in SEARCHES {
        let mut times = Vec::new();
        for _ in 0..rounds {
            let begun = Instant::now();
            let mut path = format!("/v1/reports?{filter}");
            loop {
                let (status, page) = client.get(&path).await;
                assert!(
                    status == 200 && page["items"].as_array().is_some_and(Vec::is_empty),
                    "{name}: {page}"
                );
                let Some(cursor) = page["next_cursor"].as_str() else { break };
                path = format!("/v1/reports?{filter}&cursor={cursor}");
            }
            times.push(begun.elapsed());
        }
        times.sort();
        medians.push(times[times.len() / 2]);
    }
    medians
}

/// Returns the bytes of a database without what deleted rows leave.
async fn measure_database(database: &mut PgConnection) -> f64 {
    run(database, "VACUUM (FULL, ANALYZE)").await;
    let size = "SELECT pg_database_size(current_database())::float8";
    sqlx::query_scalar(size).fetch_one(database).await.expect("an answer")
}

/// Runs a statement at ClickHouse.
async fn ask(settings: &HistorySettings, statement: &str) -> String {
    let url = format!("{}/?database={}", settings.url.as_deref().unwrap_or_default(), settings.database);
    let answer =
        reqwest::Client::new().post(url).basic_auth(&settings.user, Some("")).body(statement.to_owned());
    let answer = answer.send().await.expect("an answer");
    answer.error_for_status().expect("no error").text().await.expect("a text")
}
