//! How long a dashboard waits for its lists and pages, with few and with many stored reports.

pub mod fill;
mod statements;

use fill::{APPS, DAYS, Fill, VERSIONS, word};
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use std::time::{Duration, Instant};
use unslide_tests::client::Client;
use unslide_tests::installation::{Installation, TENANT};

/// How many reports are stored where nothing else is asked for.
const STORED: u64 = 1_000_000;
/// What no query may exceed: `BUDGET` in 99 of 100 cases.
const BUDGET: Duration = Duration::from_millis(50);

/// Prints the times of each query. `UNSLIDE_BENCH_STORED` says how many reports are stored.
pub async fn print(full: bool) {
    let asked = std::env::var("UNSLIDE_BENCH_STORED").ok().and_then(|text| text.parse().ok());
    let (few, many, groups, rounds) =
        if full { (10_000, asked.unwrap_or(STORED), 500, 400) } else { (4_000, 8_000, 20, 5) };
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.make_tenant(TENANT);
    installation.wait_ready("api").await;
    println!(
        "\nQueries over HTTP, {APPS} apps of {VERSIONS} versions and {groups} groups each, over {DAYS} days"
    );
    let mut before: Option<Vec<[Duration; 2]>> = None;
    for reports in [few, many] {
        let begun = Instant::now();
        fill::fill(&installation.database_url(), Fill { reports, groups }).await;
        println!("  {reports} reports, stored in {:.1?}", begun.elapsed());
        let times = measure(&installation, rounds).await;
        for (n, (name, [half, most])) in NAMES.iter().zip(&times).enumerate() {
            let grown = before.as_ref().map_or(String::new(), |before| {
                format!(", {:.2}x that of few", most.as_secs_f64() / before[n][1].as_secs_f64())
            });
            let over = if *most > BUDGET { "  over 50 ms" } else { "" };
            println!("    {name:<32} p50 {half:>8.1?}, p99 {most:>8.1?}{grown}{over}");
        }
        before = Some(times);
    }
    drop(installation.take_process("api"));
    installation.start_service("api that logs", "api", &[statements::LOGGED]);
    installation.wait_ready("api that logs").await;
    measure(&installation, rounds / 4 + 1).await;
    statements::print(&installation.read_log("api that logs"));
    let mut database = PgConnection::connect(&installation.database_url()).await.expect("PostgreSQL");
    without_counts(&mut database, before.as_deref().unwrap_or_default(), rounds.min(20)).await;
    database.close().await.expect("closed");
    installation.stop().await;
}

const NAMES: [&str; 30] = [
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
    "groups by reports, all apps",
    "new groups, all apps",
    "growing groups, all apps",
    "groups with a rare name",
    "reports with a rare name",
    "missing symbols",
    "reports of an image",
    "a report",
    "groups of a version, by reports",
    "groups of a version, all apps",
    "groups of a week, by reports",
    "page: overview",
    "page: overview of an app",
    "page: groups",
    "page: groups, searched",
    "page: a group",
    "page: reports, searched",
    "page: versions",
    "page: symbols",
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
            let query = sqlx::query(statement).bind(TENANT).bind(app(round));
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

/// An app, another one each round.
fn app(round: u64) -> String {
    format!("com.example.app{}", round * 7 % APPS)
}

/// What is asked for in a round, in the order of [`NAMES`]: of the API first, and then the pages of the console.
async fn paths(client: &Client, round: u64) -> Vec<String> {
    let (number, app, version) = (round * 7 % APPS, app(round), format!("{}.0", round * 11 % VERSIONS));
    let (_, page) = client.get(&format!("/v1/reports?app={app}")).await;
    let cursor = page["next_cursor"].as_str().unwrap_or_else(|| panic!("a second page: {page}")).to_owned();
    let (_, groups) = client.get(&format!("/v1/groups?app={app}&limit=1")).await;
    let group = groups["items"][0]["id"].as_str().unwrap_or_else(|| panic!("a group: {groups}")).to_owned();
    let (_, newest) = client.get("/v1/reports?limit=100").await;
    let place = usize::try_from(round % 100).unwrap_or_default();
    let report =
        newest["items"][place]["id"].as_str().unwrap_or_else(|| panic!("a report: {newest}")).to_owned();
    let (_, missing) = client.get(&format!("/v1/missing-symbols?app={app}")).await;
    // The second of each pair of images has no report that waits for it.
    let image = missing["items"].as_array().into_iter().flatten().find(|image| image["name"] == "Shop");
    let image =
        image.and_then(|image| image["debug_id"].as_str()).unwrap_or_else(|| panic!("{missing}")).to_owned();
    // Groups are sorted by their last report, so that the first has a week of days.
    let (_, days) = client.get(&format!("/v1/groups/{group}")).await;
    let week = days["days"]
        .as_array()
        .into_iter()
        .flatten()
        .take(7)
        .last()
        .and_then(|day| day["day"].as_str())
        .unwrap_or_else(|| panic!("a week: {days}"))
        .to_owned();
    let (function, rare) = (word(round % 10, 7), word(fill::OWN_NAMES + number, 0));
    vec![
        format!("/v1/reports?app={app}&version={version}"),
        format!("/v1/reports?app={app}&cursor={cursor}"),
        format!("/v1/apps/{app}/versions"),
        "/v1/apps".to_owned(),
        format!("/v1/groups?app={app}"),
        format!("/v1/groups?app={app}&sort=reports"),
        format!("/v1/groups?app={app}&version={version}"),
        format!("/v1/groups/{group}"),
        format!("/v1/reports?group={group}"),
        format!("/v1/groups?q={function}"),
        format!("/v1/reports?q={function}"),
        "/v1/groups?sort=reports".to_owned(),
        "/v1/groups?sort=first_seen".to_owned(),
        "/v1/groups?sort=growing".to_owned(),
        format!("/v1/groups?q={rare}"),
        format!("/v1/reports?q={rare}"),
        format!("/v1/missing-symbols?app={app}"),
        format!("/v1/reports?debug_id={image}"),
        format!("/v1/reports/{report}"),
        format!("/v1/groups?app={app}&version={version}&sort=reports"),
        format!("/v1/groups?version={version}&sort=reports"),
        format!("/v1/groups?from_day={week}&sort=reports"),
        "/console".to_owned(),
        format!("/console?app={app}"),
        "/console/groups".to_owned(),
        format!("/console/groups?q={function}"),
        format!("/console/groups/{group}"),
        format!("/console/reports?q={function}"),
        format!("/console/versions?app={app}"),
        format!("/console/symbols?app={app}"),
    ]
}

/// The median and the 99th percentile of each of [`NAMES`].
async fn measure(installation: &Installation, rounds: u64) -> Vec<[Duration; 2]> {
    let (client, browser) = (installation.client(), Browser::sign_in(installation).await);
    let mut times = vec![Vec::new(); NAMES.len()];
    for round in 0..rounds {
        for (path, times) in paths(&client, round).await.iter().zip(&mut times) {
            let begun = Instant::now();
            if path.starts_with("/console") {
                browser.open(path).await;
                times.push(begun.elapsed());
                continue;
            }
            let (status, answer) = client.get(path).await;
            times.push(begun.elapsed());
            let entries = answer.get("items").or_else(|| answer.get("versions"));
            let empty = entries.and_then(Value::as_array).is_some_and(Vec::is_empty);
            // Few reports of a version wait for an image, if any.
            assert!(status == 200 && (!empty || path.contains("debug_id")), "{path}: {answer}");
        }
    }
    times.into_iter().map(quantiles).collect()
}

/// A session of the console.
struct Browser {
    client: reqwest::Client,
    url: String,
    cookie: String,
}

impl Browser {
    async fn sign_in(installation: &Installation) -> Browser {
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
        let (client, url) = (client.expect("a client"), installation.url.clone());
        let sent = client.post(format!("{url}/console/sign-in")).header("sec-fetch-site", "same-origin");
        let answer = sent.body(format!("key={}", installation.key)).send().await.expect("an answer");
        let cookie = answer.headers().get("set-cookie").and_then(|cookie| cookie.to_str().ok());
        let cookie = cookie.and_then(|cookie| cookie.split(';').next()).expect("a cookie").to_owned();
        Browser { client, url, cookie }
    }

    async fn open(&self, path: &str) {
        let sent = self.client.get(format!("{}{path}", self.url)).header("cookie", &self.cookie);
        let answer = sent.send().await.expect("an answer");
        let status = answer.status();
        let page = answer.text().await.expect("a page");
        assert!(status.is_success(), "{path}: {status}: {page}");
    }
}

/// The median and the 99th percentile.
fn quantiles(mut times: Vec<Duration>) -> [Duration; 2] {
    times.sort();
    [times[times.len() / 2], times[times.len() * 99 / 100]]
}
