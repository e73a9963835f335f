//! What a tenant with small bodies that unpack to many bytes costs a quiet one, over HTTP and with the rates
//! that a service has by default.

use crate::online::fairness::{Run, latency, reader};
use flate2::{Compression, write::GzEncoder};
use rdkafka::consumer::BaseConsumer;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use unslide_tests::app::App;
use unslide_tests::client::Client;
use unslide_tests::installation::Installation;

/// The tenant that attacks.
const NOISY: &str = "noisy";
/// The time between two reports of the quiet tenant.
const GAP: Duration = Duration::from_millis(100);
/// The time between two bodies of the attack: 6.8 a second.
const ATTACK: Duration = Duration::from_millis(147);
/// Reports of one body of the attack, and bytes that each is padded with: 57 MiB together.
const REPORTS: u32 = 3;
const PADDING: usize = 19 << 20;
/// The time after an attack in which what it left is worked off.
const REST: Duration = Duration::from_secs(15);
const LONG: Duration = Duration::from_secs(300);

/// Prints the quiet tenant's latencies alone and under the attack, of runs in pairs.
pub async fn print(full: bool) {
    let (pairs, reports) = if full { (5, 100) } else { (1, 5) };
    let app = App::from_fixture("app");
    let mut installation = Installation::start().await;
    let quiet = installation.client();
    quiet.upload_symbols(app.dsym.clone()).await;
    installation.make_tenant(NOISY);
    let noisy = installation.client();
    let body = bomb(&app);
    let output = installation.topic_name("crash.symbolicated");
    // Warm before anything counts.
    run(&quiet, &app, &output, 900_000..900_008).await;
    println!(
        "\nOne tenant sends bodies of {} KiB that unpack to {} MiB, one each {ATTACK:?}; another a report each {GAP:?}",
        body.len() >> 10,
        (REPORTS as usize * PADDING) >> 20
    );
    let mut better = 0;
    for pair in 0..pairs {
        let first = pair * 2 * reports;
        let (alone, _) = run(&quiet, &app, &output, first..first + reports).await;
        let over = AtomicBool::new(false);
        let attacked = async {
            let attacked = run(&quiet, &app, &output, first + reports..first + 2 * reports).await;
            over.store(true, Ordering::Relaxed);
            attacked
        };
        let ((attacked, answered), bodies) = tokio::join!(attacked, attack(&noisy, &body, &over));
        let [before, after] = [&alone, &attacked].map(|run| run.percentile(0.99));
        let held = f64::from(after) <= (f64::from(before) * 1.5).max(f64::from(before) + 5.0);
        better += u32::from(held);
        println!(
            "  p99 of its POST {before:>4} ms alone, {after:>5} ms attacked; p99 until the answer {:>6} ms; bodies: {bodies}",
            answered.percentile(0.99)
        );
        tokio::time::sleep(if full { REST } else { Duration::ZERO }).await;
    }
    println!("  at most 1.5x or 5 ms more: {better} of {pairs} pairs");
    installation.stop().await;
}

/// Three reports with much padding, in gzip.
fn bomb(app: &App) -> Vec<u8> {
    let mut packing = GzEncoder::new(Vec::new(), Compression::best());
    let padding = vec![b' '; PADDING];
    for number in 0..REPORTS {
        packing.write_all(if number == 0 { b"[" } else { b"," }).expect("packed");
        let report = app.build_report(800_000 + number).bytes();
        let (inside, end) = report.split_at(report.len() - 1);
        for piece in [inside, padding.as_slice(), end] {
            packing.write_all(piece).expect("packed");
        }
    }
    packing.write_all(b"]").expect("packed");
    packing.finish().expect("packed")
}

/// Sends the body at its pace, whatever the answers are. Returns how many had which answer.
async fn attack(noisy: &Client, body: &[u8], over: &AtomicBool) -> String {
    let mut sending = Vec::new();
    let mut tick = tokio::time::interval(ATTACK);
    while !over.load(Ordering::Relaxed) {
        tick.tick().await;
        let (noisy, body) = (noisy.clone(), body.to_vec());
        sending.push(tokio::spawn(async move { noisy.try_request("/v1/reports", Some(body)).await }));
    }
    let mut answers: BTreeMap<String, u32> = BTreeMap::new();
    for answer in futures::future::join_all(sending).await {
        let status = answer.ok().flatten().map(|(status, _)| status.to_string());
        *answers.entry(status.unwrap_or_else(|| "no answer".to_owned())).or_default() += 1;
    }
    answers.iter().map(|(answer, bodies)| format!("{bodies} {answer}")).collect::<Vec<_>>().join(", ")
}

/// Sends reports of these numbers at their pace: how long their POSTs took, and how long it was from their
/// arrival at the broker to their answers.
async fn run(quiet: &Client, app: &App, output: &str, numbers: std::ops::Range<u32>) -> (Run, Run) {
    let topic = output.to_owned();
    let wanted = numbers.clone();
    let consumer = tokio::task::block_in_place(|| reader(&topic, true));
    let reading = tokio::task::spawn_blocking(move || read(&consumer, &wanted));
    let mut tick = tokio::time::interval(GAP);
    let mut posts = Vec::new();
    for number in numbers {
        tick.tick().await;
        let (client, report) = (quiet.clone(), app.build_report(number).bytes());
        posts.push(tokio::spawn(async move {
            let begin = Instant::now();
            let (status, answer) = client.post("/v1/reports", report).await;
            assert_eq!(status, 202, "{answer}");
            u32::try_from(begin.elapsed().as_millis()).unwrap_or(u32::MAX)
        }));
    }
    let mut latencies = Vec::with_capacity(posts.len());
    for post in posts {
        latencies.push(post.await.expect("an answer"));
    }
    latencies.sort_unstable();
    (Run { latencies }, Run { latencies: reading.await.expect("the reader ends") })
}

fn read(consumer: &BaseConsumer, numbers: &std::ops::Range<u32>) -> Vec<u32> {
    let mut latencies = Vec::with_capacity(numbers.len());
    let begin = Instant::now();
    while latencies.len() < numbers.len() {
        assert!(begin.elapsed() < LONG, "{} of {} answers came", latencies.len(), numbers.len());
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
        let own = latency(&message).filter(|(number, _)| numbers.contains(number));
        latencies.extend(own.map(|(_, millis)| millis));
    }
    latencies.sort_unstable();
    latencies
}
