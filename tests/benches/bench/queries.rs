//! How long a dashboard waits for its lists, with few and with many stored reports.

use serde_json::Value;
use sqlx::{Connection, Executor, PgConnection};
use std::time::{Duration, Instant};
use unslide_tests::installation::{Installation, TENANT};

/// How many reports are stored where nothing else is asked for.
const STORED: u64 = 1_000_000;
/// The apps and the versions of each that reports are of.
const APPS: u64 = 40;
const VERSIONS: u64 = 25;
/// Groups of each app.
const GROUPS: u64 = 100;
/// How many reports one statement stores.
const AT_ONCE: u64 = 200_000;

/// Prints the times of each query. `UNSLIDE_BENCH_STORED` says how many reports are stored.
pub async fn print(full: bool) {
    let asked = std::env::var("UNSLIDE_BENCH_STORED").ok().and_then(|text| text.parse().ok());
    let (few, many, rounds) = if full { (10_000, asked.unwrap_or(STORED), 400) } else { (4_000, 8_000, 5) };
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.make_tenant(TENANT);
    installation.wait_ready("api").await;
    let mut database = PgConnection::connect(&installation.database_url()).await.expect("PostgreSQL");
    println!("\nQueries over HTTP, {APPS} apps of {VERSIONS} versions, over 30 days");
    let mut before: Option<Vec<[Duration; 2]>> = None;
    for (from, to) in [(0, few), (few, many)] {
        store(&mut database, from, to).await;
        let times = measure(&installation, rounds).await;
        println!("  {to} reports stored");
        for (n, (name, [half, most])) in NAMES.iter().zip(&times).enumerate() {
            let grown = before.as_ref().map_or(String::new(), |before| {
                format!(", {:.2}x that of few", most.as_secs_f64() / before[n][1].as_secs_f64())
            });
            println!("    {name:<28} p50 {half:>8.1?}, p99 {most:>8.1?}{grown}");
        }
        before = Some(times);
    }
    without_counts(&mut database, before.as_deref().unwrap_or_default(), rounds.min(20)).await;
    installation.stop().await;
}

const NAMES: [&str; 11] = [
    "reports of a version",
    "reports of an app, next page",
    "versions of an app",
    "apps",
    "groups of an app",
    "groups by reports",
    "groups of a version",
    "a group, with its days",
    "reports of a group",
    "groups with a function",
    "reports with a function",
];

/// The statements that would answer from the reports alone, with the name of what answers from counts.
const WITHOUT_COUNTS: [(usize, &str); 3] = [
    (2, "SELECT version, count(*), count(DISTINCT device) FROM reports WHERE tenant = $1 AND app = $2 GROUP BY 1"),
    (
        5,
        "SELECT group_id, count(*), count(DISTINCT device), min(received_at), max(received_at) FROM reports
         WHERE tenant = $1 AND app = $2 GROUP BY 1 ORDER BY 2 DESC LIMIT 51",
    ),
    (
        7,
        "SELECT version, model, (received_at AT TIME ZONE 'UTC')::date, count(*), count(DISTINCT device) FROM reports
         WHERE tenant = $1 AND group_id = (SELECT id FROM groups WHERE tenant = $1 AND app = $2 LIMIT 1) GROUP BY 1, 2, 3",
    ),
];

/// Prints the times of the same answers from the reports alone.
async fn without_counts(database: &mut PgConnection, counted: &[[Duration; 2]], rounds: u64) {
    println!("  the same from the reports alone, by one SQL statement");
    for (name, statement) in WITHOUT_COUNTS {
        let mut times = Vec::new();
        for round in 0..rounds {
            let begun = Instant::now();
            let query =
                sqlx::query(statement).bind(TENANT).bind(format!("com.example.app{}", round * 7 % APPS));
            query.fetch_all(&mut *database).await.expect("an answer");
            times.push(begun.elapsed());
        }
        let [half, most] = quantiles(times);
        let ratio = half.as_secs_f64() / counted[name][0].as_secs_f64();
        println!(
            "    {:<28} p50 {half:>8.1?}, p99 {most:>8.1?}, {ratio:.1}x the median of counts",
            NAMES[name]
        );
    }
}

/// The median and the 99th percentile of each of [`NAMES`].
async fn measure(installation: &Installation, rounds: u64) -> Vec<[Duration; 2]> {
    let client = installation.client();
    let mut times = vec![Vec::new(); NAMES.len()];
    for round in 0..rounds {
        let app = format!("com.example.app{}", round * 7 % APPS);
        let version = format!("{}.0", round * 11 % VERSIONS);
        let (_, page) = client.get(&format!("/v1/reports?app={app}")).await;
        let cursor =
            page["next_cursor"].as_str().unwrap_or_else(|| panic!("a second page: {page}")).to_owned();
        let (_, groups) = client.get(&format!("/v1/groups?app={app}&limit=1")).await;
        let group =
            groups["items"][0]["id"].as_str().unwrap_or_else(|| panic!("a group: {groups}")).to_owned();
        let paths = [
            format!("/v1/reports?app={app}&version={version}"),
            format!("/v1/reports?app={app}&cursor={cursor}"),
            format!("/v1/apps/{app}/versions"),
            "/v1/apps".to_owned(),
            format!("/v1/groups?app={app}"),
            format!("/v1/groups?app={app}&sort=reports"),
            format!("/v1/groups?app={app}&version={version}"),
            format!("/v1/groups/{group}"),
            format!("/v1/reports?group={group}"),
            format!("/v1/groups?q=function_{}_7", round % GROUPS),
            format!("/v1/reports?q=function_{}_7", round % GROUPS),
        ];
        for (path, times) in paths.iter().zip(&mut times) {
            let begun = Instant::now();
            let (status, answer) = client.get(path).await;
            times.push(begun.elapsed());
            let entries = answer.get("items").or_else(|| answer.get("versions"));
            let found = entries.and_then(Value::as_array).is_some_and(|entries| !entries.is_empty());
            assert!(status == 200 && found, "{path}: {answer}");
        }
    }
    times.into_iter().map(quantiles).collect()
}

/// The median and the 99th percentile.
fn quantiles(mut times: Vec<Duration>) -> [Duration; 2] {
    times.sort();
    [times[times.len() / 2], times[times.len() * 99 / 100]]
}

/// Stores reports with these numbers by SQL, as the indexer would leave them.
async fn store(database: &mut PgConnection, from: u64, to: u64) {
    let reports = "INSERT INTO reports (tenant, received_at, report_id, variant, revision, app, version, build, type, \
             status, device, os_name, os_version, model, process, reason, summary, frames_total, frames_symbolicated, \
             frames_device, frames_device_app, frames_missing, symbols_missing, system_images, wanted, stored_at, group_id) \
         SELECT $1, now() - (n * 7919 % 2592000) * interval '1 second', md5(n::text)::uuid, 0, 1, \
             'com.example.app' || n % $4, n / $4 % $5 || '.0', '1', 'mach', 'complete', sha256(n::text::bytea), 'iOS', '18.1', \
             'iPhone17,1', 'Shop', 'EXC_BAD_ACCESS', '{\"exception\": \"EXC_BAD_ACCESS\", \"signal\": \"SIGSEGV\"}', 320, 320, \
             0, 0, 0, false, '{}', '{}', now(), md5(n % $4 || ' ' || n / $4 % $6)::uuid \
         FROM generate_series($2, $3 - 1) n";
    let today = "SELECT unslide_partitions_ensure(current_date - 31, current_date + 1)";
    database.execute(today).await.expect("partitions");
    let mut next = from;
    while next < to {
        let end = to.min(next + AT_ONCE);
        let done = sqlx::query(reports)
            .bind(TENANT)
            .bind(next as i64)
            .bind(end as i64)
            .bind(APPS as i64)
            .bind(VERSIONS as i64)
            .bind(GROUPS as i64);
        done.execute(&mut *database).await.expect("stored");
        next = end;
    }
    let days = "INSERT INTO app_days (tenant, app, version, day, reports, devices, frames_total, frames_symbolicated, \
             complete, partial, none) \
         SELECT tenant, app, version, (received_at AT TIME ZONE 'UTC')::date, count(*), count(*), sum(frames_total), \
             sum(frames_symbolicated), count(*), 0, 0 \
         FROM reports GROUP BY 1, 2, 3, 4";
    let groups = "INSERT INTO groups (tenant, id, app, fingerprint, kind, title, culprit, provisional, reports, first_seen, \
             first_version, last_seen, last_version, own_reports, devices, own_devices, own_first_seen, own_first_version, \
             own_last_seen, own_last_version) \
         SELECT tenant, group_id, app, group_id, 'crash', 'EXC_BAD_ACCESS in Shop.Cart.total(of:)', 'Shop.Cart.total(of:)', \
             false, count(*), min(received_at), min(version), max(received_at), max(version), count(*), count(*), count(*), \
             min(received_at), min(version), max(received_at), max(version) \
         FROM reports GROUP BY tenant, group_id, app";
    let group_days = "INSERT INTO group_days (tenant, group_id, day, version, reports) \
         SELECT tenant, group_id, (received_at AT TIME ZONE 'UTC')::date, version, count(*) FROM reports GROUP BY 1, 2, 3, 4";
    let breakdowns = "INSERT INTO group_breakdowns (tenant, group_id, dimension, day, value, reports) \
         SELECT tenant, group_id, 'model', (received_at AT TIME ZONE 'UTC')::date, model, count(*) FROM reports \
         GROUP BY 1, 2, 4, 5";
    // Forty functions of a group, and a name that it shares with no other group of its app.
    let terms = "INSERT INTO group_terms (tenant, group_id, terms) \
         SELECT $1, md5(a || ' ' || g)::uuid, (SELECT string_agg('shop.module.function_' || g || '_' || f, E'\\n') \
             FROM generate_series(1, 40) f) \
         FROM generate_series(0, $2 - 1) a, generate_series(0, $3 - 1) g";
    let emptied = "TRUNCATE app_days, groups, group_days, group_breakdowns, group_activity, group_terms";
    database.execute(emptied).await.expect("emptied");
    for statement in [days, groups, group_days, breakdowns] {
        database.execute(statement).await.expect("counted");
    }
    let written = sqlx::query(terms).bind(TENANT).bind(APPS as i64).bind(GROUPS as i64);
    written.execute(&mut *database).await.expect("written");
    let analyse = "ANALYZE reports; ANALYZE app_days; ANALYZE groups; ANALYZE group_days; ANALYZE group_breakdowns; \
         ANALYZE group_terms";
    database.execute(analyse).await.expect("analysed");
}
