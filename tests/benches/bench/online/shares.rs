//! What a tenant that floods within its limits costs its neighbour: the time until the neighbour's report is visible.

use sqlx::{Connection, PgConnection};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use unslide_tests::client::Client;
use unslide_tests::installation::{Installation, TENANT};

/// The tenant that floods.
const NOISY: &str = "noisy";
/// What it may send a second: what a tenant may without a limit of its own.
const UNITS_PER_SECOND: (&str, &str) = ("UNSLIDE_TENANTS__UNITS_PER_SECOND", "2000");
/// Connections that send the flood, and reports of one request.
const CONNECTIONS: u32 = 8;
const REPORTS: u32 = 200;
/// The time between two looks whether a report is visible.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const FLOOD_TIMEOUT: Duration = Duration::from_secs(1_800);

/// A flood that a tenant sends with one key.
struct Flood {
    name: &'static str,
    path: &'static str,
    /// The body of the request with this number.
    body: fn(u32) -> Vec<u8>,
}

const FLOODS: [Flood; 2] = [
    Flood { name: "one app", path: "/v1/reports", body: one_app },
    Flood { name: "a new app in each report", path: "/v1/reports", body: new_apps },
];

/// Prints the neighbour's waits alone and beside each flood.
pub async fn print(full: bool) {
    let (connections, flood_time, moments): (u32, u64, &[u64]) =
        if full { (CONNECTIONS, 20, &[0, 3, 7, 10, 13, 17]) } else { (1, 1, &[0]) };
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api", "indexer", "symbolizer"] {
        installation.start_service(service, service, &[UNITS_PER_SECOND]);
    }
    installation.make_tenant(TENANT);
    let neighbour = installation.client();
    installation.make_tenant(NOISY);
    let noisy = installation.client();
    for service in ["builder", "api", "indexer", "symbolizer"] {
        installation.wait_ready(service).await;
    }
    // Warm before anything counts.
    wait_visible(&neighbour, 900_000).await;
    println!(
        "\nA tenant floods with {connections} connections, {REPORTS} reports a request, at most {} reports/s; its neighbour's \
         report, sent at {moments:?} s, is visible after",
        UNITS_PER_SECOND.1
    );
    println!("  {:<26} {}", "alone", texts(&waits(&neighbour, 0, moments).await));
    let mut accepted = 0;
    for (number, flood) in FLOODS.iter().enumerate() {
        let first = (u32::try_from(number).unwrap_or(0) + 1) * 1_000;
        let over = AtomicBool::new(false);
        let timer = async {
            tokio::time::sleep(Duration::from_secs(flood_time)).await;
            over.store(true, Ordering::Relaxed);
        };
        let sending = send(&noisy, flood, first * 1_000, connections, &over);
        let (beside, sent, ()) = tokio::join!(waits(&neighbour, first, moments), sending, timer);
        accepted += sent;
        let began = Instant::now();
        stored(&installation, accepted).await;
        println!(
            "  {:<26} {}; {} reports/s accepted, all stored {:.1} s after the flood",
            flood.name,
            texts(&beside),
            u64::from(sent) / flood_time,
            began.elapsed().as_secs_f64()
        );
    }
    let deferred = installation.metric("indexer", "unslide_indexer_deferred_records_total").await;
    println!("  {} reports were deferred", deferred.unwrap_or(0.0));
    installation.stop().await;
}

fn texts(waits: &[Duration]) -> String {
    waits.iter().map(|wait| format!("{:.1}", wait.as_secs_f64())).collect::<Vec<_>>().join(", ")
}

/// Sends the neighbour's reports at these seconds. Returns how long each took to be visible.
async fn waits(neighbour: &Client, first: u32, moments: &[u64]) -> Vec<Duration> {
    let begin = tokio::time::Instant::now();
    let sends = (first..).zip(moments).map(|(number, moment)| async move {
        tokio::time::sleep_until(begin + Duration::from_secs(*moment)).await;
        wait_visible(neighbour, number).await
    });
    futures::future::join_all(sends).await
}

async fn wait_visible(neighbour: &Client, number: u32) -> Duration {
    let sent = Instant::now();
    let (status, answer) = neighbour.post("/v1/reports", report(number, "com.acme.shop").into_bytes()).await;
    assert_eq!(status, 202, "{answer}");
    let path = format!("/v1/reports/{}", id(number));
    while neighbour.get(&path).await.0 != 200 {
        assert!(sent.elapsed() < FLOOD_TIMEOUT, "{path} is not visible");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    sent.elapsed()
}

/// Sends a flood until it is over. Returns the number of reports that were accepted.
async fn send(noisy: &Client, flood: &Flood, first: u32, connections: u32, over: &AtomicBool) -> u32 {
    let next = AtomicU32::new(first);
    let connections = (0..connections).map(|_| async {
        let mut accepted = 0;
        while !over.load(Ordering::Relaxed) {
            let body = (flood.body)(next.fetch_add(1, Ordering::Relaxed));
            match noisy.attempt(flood.path, Some(body)).await {
                Some((202, _)) => accepted += REPORTS,
                // A refused request is sent again after a while, as a device does.
                _ => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
        accepted
    });
    futures::future::join_all(connections).await.into_iter().sum()
}

/// Waits until so many reports of the flooding tenant are stored.
async fn stored(installation: &Installation, count: u32) {
    let mut database = PgConnection::connect(&installation.database_url()).await.expect("PostgreSQL");
    let begin = Instant::now();
    loop {
        let question = "SELECT count(*) FROM reports WHERE tenant = $1";
        let asked = sqlx::query_scalar(question).bind(NOISY).fetch_one(&mut database).await;
        let there: i64 = asked.expect("an answer");
        if there >= i64::from(count) {
            return;
        }
        assert!(begin.elapsed() < FLOOD_TIMEOUT, "{there} of {count} reports are stored");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn one_app(request: u32) -> Vec<u8> {
    body(request, |_| "com.noisy.app".to_owned())
}

fn new_apps(request: u32) -> Vec<u8> {
    body(request, |number| format!("com.noisy.app{number}"))
}

fn body(request: u32, app: impl Fn(u32) -> String) -> Vec<u8> {
    let numbers = request * REPORTS..(request + 1) * REPORTS;
    let reports: Vec<String> = numbers.map(|number| report(number, &app(number))).collect();
    format!("[{}]", reports.join(",")).into_bytes()
}

fn id(number: u32) -> String {
    format!("00000000-0000-4000-8000-0000{number:08x}")
}

/// A report without frames.
fn report(number: u32, app: &str) -> String {
    format!(
        r#"{{"report":{{"id":"{}"}},"system":{{"CFBundleIdentifier":"{app}","CFBundleShortVersionString":"1.0"}},"crash":{{"error":{{"type":"mach"}}}}}}"#,
        id(number)
    )
}
