//! What a tenant that floods within its limits costs its neighbour: the time until the neighbour's report is visible,
//! its dSYM ready, its capture analysed, and its requests answered.

mod floods;

use crate::input::Input;
use floods::{Dsym, FLOODS, Flood, Kind, Sender, Sizes};
use serde_json::Value;
use sqlx::{Connection, PgConnection};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use unslide_tests::app::App;
use unslide_tests::client::Client;
use unslide_tests::installation::{Installation, TENANT};

/// The tenant that floods.
const NOISY: &str = "noisy";
/// What it may send a second: what a tenant may without a limit of its own.
const UNITS_PER_SECOND: (&str, &str) = ("UNSLIDE_TENANTS__UNITS_PER_SECOND", "2000");
/// How the tenant floods, and when its neighbour sends, in seconds.
#[derive(Clone, Copy)]
struct Form {
    connections: u32,
    time: Duration,
    /// The most requests that are accepted from a connection.
    requests: u32,
    moments: &'static [u64],
}

const WHOLE: Form = Form {
    connections: 8,
    time: Duration::from_secs(20),
    requests: u32::MAX,
    moments: &[0, 3, 7, 10, 13, 17],
};
/// Each flood, and no more of it than shows that it is accepted and done.
const SHORT: Form = Form { connections: 1, requests: 2, moments: &[0], ..WHOLE };
/// The time between two looks whether something is there.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// The time between the neighbour's requests that wait for nothing but their answers, and between looks at the work that is left.
const ANSWER_INTERVAL: Duration = Duration::from_millis(100);
const FLOOD_TIMEOUT: Duration = Duration::from_secs(1_800);

/// The neighbour, and what it sends.
struct Neighbour<'a> {
    client: Client,
    dsym: Dsym<'a>,
}

/// Prints the neighbour's waits alone and beside each flood.
pub async fn print(input: &Input, full: bool) {
    let form = if full { WHOLE } else { SHORT };
    let sizes = if full {
        Sizes { events: 300_000, stacks: 20_000, sources: 18_000, addresses: 9_000 }
    } else {
        Sizes { events: 1_000, stacks: 10, sources: 10, addresses: 10 }
    };
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api", "indexer", "symbolizer"] {
        installation.start_service(service, service, &[UNITS_PER_SECOND]);
    }
    let app = App::from_fixture("app");
    installation.make_tenant(TENANT);
    let dsym = Dsym { file: &app.dsym, debug_id: app.debug_id };
    let neighbour = Neighbour { client: installation.client(), dsym };
    installation.make_tenant(NOISY);
    for service in ["builder", "api", "indexer", "symbolizer"] {
        installation.wait_ready(service).await;
    }
    let admin = installation.make_key(NOISY, "tenant:admin,symbols:read,reports:read");
    let admin = Client::new(&installation.url, &admin);
    let noisy = Sender::prepare(installation.client(), admin, input, sizes).await;
    println!(
        "\nA tenant floods with {} connections for {:?}, at most {} units/s; seconds until what its neighbour sends at {:?} s is \
         there",
        form.connections, form.time, UNITS_PER_SECOND.1, form.moments
    );
    // One report is there already.
    let (mut alone, mut accepted) = (None, 1);
    for (number, flood) in FLOODS.iter().enumerate() {
        let first = (u32::try_from(number).unwrap_or(0) + 1) * 1_000;
        if alone.replace(flood.kind) != Some(flood.kind) {
            // Warm before anything counts.
            neighbour.wait(flood.kind, first + 900).await;
            let waits = neighbour.waits(flood.kind, first + 800, form).await;
            println!("  {}, alone: {}", what(flood.kind), texts(flood.kind, &waits));
        }
        let sending = send(&noisy, flood, first * 1_000, form);
        let (beside, sent) = tokio::join!(neighbour.waits(flood.kind, first, form), sending);
        assert!(sent > 0, "nothing of {} was accepted", flood.name);
        accepted += sent;
        println!("    beside {}: {}; {sent} accepted", flood.name, texts(flood.kind, &beside));
        let began = Instant::now();
        wait_done(&installation, flood.kind, accepted).await;
        println!("      all of it done {:.1} s after the flood", began.elapsed().as_secs_f64());
    }
    let deferred = installation.fetch_metric("indexer", "unslide_indexer_deferred_records_total").await;
    println!("  {} reports were deferred", deferred.unwrap_or(0.0));
    installation.stop().await;
}

fn what(kind: Kind) -> &'static str {
    match kind {
        Kind::Reports => "a report, until queries find it",
        Kind::Symbols => "a dSYM, until it is ready",
        Kind::Captures => "a capture, until it is analysed",
        Kind::Answers => {
            "a report sent, one symbolicated, a list of apps and one of reports (seconds, median and slowest)"
        }
    }
}

fn texts(kind: Kind, waits: &[Duration]) -> String {
    if kind == Kind::Answers {
        let mut sorted = waits.to_vec();
        sorted.sort_unstable();
        let seconds = |wait: Option<&Duration>| wait.map_or(0.0, Duration::as_secs_f64);
        return format!("{:.3}, {:.3}", seconds(sorted.get(sorted.len() / 2)), seconds(sorted.last()));
    }
    waits.iter().map(|wait| format!("{:.1}", wait.as_secs_f64())).collect::<Vec<_>>().join(", ")
}

impl Neighbour<'_> {
    /// Sends things at these seconds. Returns how long each took to be there.
    async fn waits(&self, kind: Kind, first: u32, form: Form) -> Vec<Duration> {
        let begin = tokio::time::Instant::now();
        if kind == Kind::Answers {
            let mut waits = Vec::new();
            let last = Duration::from_secs(form.moments.last().copied().unwrap_or(0));
            while waits.is_empty() || begin.elapsed() < last {
                waits.push(self.wait_answers(first).await);
                tokio::time::sleep(ANSWER_INTERVAL).await;
            }
            return waits;
        }
        let sends = (first..).zip(form.moments).map(|(number, moment)| async move {
            tokio::time::sleep_until(begin + Duration::from_secs(*moment)).await;
            self.wait(kind, number).await
        });
        futures::future::join_all(sends).await
    }

    /// Sends one request of each kind, and waits for the answers.
    async fn wait_answers(&self, number: u32) -> Duration {
        let began = Instant::now();
        let body = || report(number, "com.acme.shop").into_bytes();
        let (sent, symbolicated, apps, reports) = tokio::join!(
            self.client.post("/v1/reports", body()),
            self.client.post("/v1/symbolicate", body()),
            self.client.get("/v1/apps"),
            self.client.get("/v1/reports?limit=50"),
        );
        for (status, answer) in [sent, symbolicated, apps, reports] {
            assert!((200..300).contains(&status), "{answer}");
        }
        began.elapsed()
    }

    /// Sends the thing with this number and waits until it is there.
    async fn wait(&self, kind: Kind, number: u32) -> Duration {
        let sent = Instant::now();
        let (path, body) = match kind {
            Kind::Reports => ("/v1/reports", report(number, "com.acme.shop").into_bytes()),
            Kind::Symbols => ("/v1/symbols", self.dsym.numbered(number)),
            Kind::Captures => {
                let line = format!("main;work_{number} 1\n");
                ("/v1/captures?app=com.acme.shop&kind=profile", line.into_bytes())
            }
            Kind::Answers => return self.wait_answers(number).await,
        };
        let (status, answer) = self.client.post(path, body).await;
        assert_eq!(status, 202, "{answer}");
        let id = answer["id"].as_str().unwrap_or_default();
        let path = match kind {
            Kind::Reports => format!("/v1/reports/{}", report_id(number)),
            Kind::Symbols => format!("/v1/symbols/uploads/{id}"),
            Kind::Captures | Kind::Answers => format!("/v1/captures/{id}"),
        };
        let is_there = |status, answer: &Value| match kind {
            Kind::Reports | Kind::Answers => status == 200,
            Kind::Symbols => answer["objects"][0]["status"] == "ready",
            Kind::Captures => answer["state"] == "ready",
        };
        loop {
            let (status, answer) = self.client.get(&path).await;
            if is_there(status, &answer) {
                return sent.elapsed();
            }
            assert!(sent.elapsed() < FLOOD_TIMEOUT, "{path}: {answer}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Sends a flood until it is over. Returns how many reports, dSYMs or captures were accepted.
async fn send(noisy: &Sender<'_>, flood: &Flood, first: u32, form: Form) -> u32 {
    let (next, begin) = (AtomicU32::new(first), Instant::now());
    let connections = (0..form.connections).map(|_| async {
        let (mut accepted, mut requests) = (0, 0);
        while begin.elapsed() < form.time && requests < form.requests {
            match flood.send(noisy, next.fetch_add(1, Ordering::Relaxed)).await {
                Some(count) => {
                    accepted += count;
                    requests += 1;
                }
                // A refused request is sent again after a while, as a device does.
                None => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
        accepted
    });
    futures::future::join_all(connections).await.into_iter().sum()
}

/// Waits until all that was accepted of the flooding tenant is stored, built or analysed: `accepted` reports, or no job.
async fn wait_done(installation: &Installation, kind: Kind, accepted: u32) {
    let mut database = PgConnection::connect(&installation.database_url()).await.expect("PostgreSQL");
    let begin = Instant::now();
    loop {
        let (question, wanted) = match kind {
            Kind::Reports => ("SELECT count(*) FROM reports WHERE tenant = $1", i64::from(accepted)),
            Kind::Symbols | Kind::Captures | Kind::Answers => {
                ("SELECT count(*) FROM jobs WHERE tenant = $1 AND status IN ('queued', 'running')", 0)
            }
        };
        let asked = sqlx::query_scalar(question).bind(NOISY).fetch_one(&mut database).await;
        let count: i64 = asked.expect("an answer");
        if count == wanted {
            return;
        }
        assert!(begin.elapsed() < FLOOD_TIMEOUT, "{count} instead of {wanted}");
        tokio::time::sleep(ANSWER_INTERVAL).await;
    }
}

fn report_id(number: u32) -> String {
    format!("00000000-0000-4000-8000-0000{number:08x}")
}

/// A report without frames.
fn report(number: u32, app: &str) -> String {
    format!(
        r#"{{"report":{{"id":"{}"}},"system":{{"CFBundleIdentifier":"{app}","CFBundleShortVersionString":"1.0"}},"crash":{{"error":{{"type":"mach"}}}}}}"#,
        report_id(number)
    )
}
