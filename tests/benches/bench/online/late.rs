//! How long reports that wait for one dSYM take to come again once it is there, and what that costs
//! the reports that come in meanwhile.

use crate::online::fairness::{Run, latency, reader};
use futures::{StreamExt, stream};
use rdkafka::consumer::BaseConsumer;
use sqlx::{Connection, PgConnection};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use unslide_tests::app::App;
use unslide_tests::installation::{Installation, TENANT};

/// The tenant with the late dSYM.
const LATE: &str = "late";
/// The time between two reports of the other tenant.
const GAP: Duration = Duration::from_millis(50);
/// The numbers from which on reports come while nothing else is done, and while the late ones do.
const ALONE: u32 = 100_000;
const BESIDE: u32 = 500_000;
const FOR_EVER: Duration = Duration::from_secs(1_800);

/// Prints the time until the last report is stored anew, and the latency of live reports.
pub async fn print(full: bool) {
    let waiting = if full { 10_000 } else { 100 };
    let app = App::from_fixture("app");
    let mut installation = Installation::start().await;
    installation.client().upload_symbols(app.dsym.clone()).await;
    installation.make_tenant(LATE);
    let late = installation.client();
    let numbers = stream::iter(0..waiting);
    numbers.map(|n| send(&installation, LATE, n, &app)).buffer_unordered(500).for_each(async |()| {}).await;
    stored(&installation, 1, waiting).await;
    // Warm before anything counts.
    for number in 0..8 {
        send(&installation, TENANT, number, &app).await;
    }

    let alone = AtomicBool::new(false);
    let (alone, ()) = tokio::join!(live(&installation, &app, ALONE, &alone), async {
        tokio::time::sleep(GAP * if full { 300 } else { 12 }).await;
        alone.store(true, Ordering::Relaxed);
    });
    let healed = AtomicBool::new(false);
    let (beside, took) = tokio::join!(live(&installation, &app, BESIDE, &healed), async {
        let upload = late.upload_symbols(app.dsym.clone()).await;
        assert_eq!(upload["objects"][0]["status"], "ready", "{upload}");
        let ready = Instant::now();
        stored(&installation, 2, waiting).await;
        healed.store(true, Ordering::Relaxed);
        ready.elapsed().as_secs_f64()
    });
    installation.stop().await;
    println!(
        "\n{waiting} reports of a tenant wait for one dSYM; another tenant's come in meanwhile, one each {GAP:?}"
    );
    println!(
        "  from its symbols being ready to the last revision 2 stored: {took:.1} s, {:.0} reports/s",
        f64::from(waiting) / took
    );
    for (what, run) in [("alone", &alone), ("meanwhile", &beside)] {
        let [half, most] = [0.5, 0.99].map(|share| run.percentile(share));
        println!("  live, {what:<10} p50 {half:>6} ms, p99 {most:>6} ms of {} reports", run.latencies.len());
    }
    let [half, most] = [0.5, 0.99]
        .map(|share| f64::from(beside.percentile(share)) / f64::from(alone.percentile(share).max(1)));
    println!("  live, meanwhile against alone: p50 {half:.2}x, p99 {most:.2}x");
}

async fn send(installation: &Installation, tenant: &str, number: u32, app: &App) {
    let topic = installation.topic_name("crash.reports");
    installation
        .topics
        .produce_record(&topic, None, &[("tenant", tenant)], &app.build_report(number).bytes())
        .await;
}

/// Waits until `count` reports of the late tenant are stored in this revision.
async fn stored(installation: &Installation, revision: i32, count: u32) {
    let mut database = PgConnection::connect(&installation.database_url()).await.expect("PostgreSQL");
    let begin = Instant::now();
    loop {
        let question = "SELECT count(*) FROM reports WHERE tenant = $1 AND revision = $2";
        let asked = sqlx::query_scalar(question).bind(LATE).bind(revision).fetch_one(&mut database).await;
        let there: i64 = asked.expect("an answer");
        if there >= i64::from(count) {
            return;
        }
        assert!(begin.elapsed() < FOR_EVER, "{there} of {count} reports have the revision {revision}");
        // Counting is work as well.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Sends live reports, numbered from `first` on, until it is enough; their latencies.
async fn live(installation: &Installation, app: &App, first: u32, enough: &AtomicBool) -> Run {
    let reader = reader(&installation.topic_name("crash.symbolicated"), true);
    let sent = Arc::new(AtomicUsize::new(usize::MAX));
    let reading = tokio::task::spawn_blocking({
        let sent = Arc::clone(&sent);
        move || read(&reader, first..first + 400_000, &sent)
    });
    let mut number = first;
    while !enough.load(Ordering::Relaxed) {
        let next = tokio::time::Instant::now() + GAP;
        send(installation, TENANT, number, app).await;
        number += 1;
        tokio::time::sleep_until(next).await;
    }
    sent.store((number - first) as usize, Ordering::Relaxed);
    Run { latencies: reading.await.expect("the reader ends") }
}

/// The milliseconds that the reports of these numbers took, sorted, once as many as were sent have
/// come.
fn read(consumer: &BaseConsumer, numbers: Range<u32>, sent: &AtomicUsize) -> Vec<u32> {
    let mut latencies = Vec::new();
    let begin = Instant::now();
    while latencies.len() < sent.load(Ordering::Relaxed) {
        assert!(begin.elapsed() < FOR_EVER, "{} reports came", latencies.len());
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
        let told = latency(&message).filter(|(number, _)| numbers.contains(number));
        latencies.extend(told.map(|(_, millis)| millis));
    }
    latencies.sort_unstable();
    latencies
}
