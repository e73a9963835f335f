//! The time from producing a report to reading its answer as committed: at a steady rate, and of the first
//! report of a symcache that no worker has.

use crate::input::Input;
use crate::online::fairness::{Run, reader};
use crate::online::flow::UNLIMITED;
use rdkafka::consumer::BaseConsumer;
use rdkafka::message::{Headers, Message};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};
use unslide_tests::installation::{Installation, TENANT};
use unslide_tests::proxy::{Proxy, Weather};
use unslide_tests::topics::Topics;

/// Reports a second.
pub const RATE: u32 = 60;
const WORKER: &str = "symbolizer";
const PARTITIONS: u32 = 4;
/// The numbers of reports that warm the worker up, and of first reports.
const WARM: u32 = 900_000;
const FIRST: u32 = 910_000;
const FIRST_SLOW: u32 = 920_000;
/// How much later each piece of an answer of object storage comes.
const SLOW: Duration = Duration::from_millis(250);

/// Prints median and p99 at a steady rate, and the times of first reports.
pub async fn print(input: &Input, full: bool) {
    let (reports, tenants) = if full { (RATE * 30, 9) } else { (RATE / 5, 1) };
    let proxy = Proxy::start().await;
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.wait_ready("api").await;
    let slugs: Vec<String> = (0..2 * tenants).map(|number| format!("first-{number}")).collect();
    for slug in slugs.iter().map(String::as_str).chain([TENANT]) {
        installation.make_tenant(slug);
        let upload = installation.client().upload_symbols(input.dsym.clone()).await;
        assert_eq!(upload["objects"][0]["status"], "ready", "{upload}");
    }
    let objects = installation.place().objects.trim_start_matches("http://").parse();
    proxy.forward_to(objects.expect("an address"));
    let endpoint = format!("http://{}", proxy.address());
    let settings = [UNLIMITED, ("UNSLIDE_OBJECTS__ENDPOINT", endpoint.as_str())];
    installation.start_service(WORKER, "symbolizer", &settings);
    installation.wait_ready(WORKER).await;
    let all = f64::from(PARTITIONS);
    installation.wait_metric(WORKER, "unslide_symbolizer_partitions{lane=\"live\"", all).await;

    let feed = Feed::of(&installation);
    feed.measure(input, TENANT, WARM..WARM + 8).await;
    let (fast, slow) = slugs.split_at(tenants);
    let fast = feed.firsts(input, FIRST, fast).await;
    proxy.set_weather(Weather::Slow(SLOW));
    let slow = feed.firsts(input, FIRST_SLOW, slow).await;
    proxy.set_weather(Weather::Fair);
    let steady = feed.measure(input, TENANT, 0..reports).await;
    installation.stop().await;
    println!("\nFrom producing a report to reading its answer as committed");
    let [half, most] = [0.5, 0.99].map(|share| steady.percentile(share));
    println!("  {RATE} reports/s: p50 {half} ms, p99 {most} ms of {reports} reports");
    println!("  the first report of a symcache that the worker lacks, with nothing else to do:");
    let later = format!("each piece of an answer {} ms later", SLOW.as_millis());
    for (what, run) in [("as it is", &fast), (&later, &slow)] {
        let [half, most] = [0.5, 1.0].map(|share| run.percentile(share));
        println!("    object storage {what}: p50 {half} ms, at most {most} ms of {tenants}");
    }
}

/// The topics of an installation that reports go to and answers come from.
pub struct Feed {
    topics: Topics,
    reports: String,
    answers: String,
}

impl Feed {
    /// Returns the feed of an installation on the test servers.
    pub fn of(installation: &Installation) -> Feed {
        Feed {
            topics: installation.topics.clone(),
            reports: installation.topic_name("crash.reports"),
            answers: installation.topic_name("crash.symbolicated"),
        }
    }

    /// Sends the first report of each tenant, one after the other: the worker has none of their symcaches.
    async fn firsts(&self, input: &Input, from: u32, tenants: &[String]) -> Run {
        let mut latencies = Vec::with_capacity(tenants.len());
        for (number, tenant) in (from..).zip(tenants) {
            latencies.extend(self.measure(input, tenant, number..number + 1).await.latencies);
        }
        latencies.sort_unstable();
        Run { latencies }
    }

    /// Sends the reports of these numbers at the rate. Returns the times until each answer was read.
    pub async fn measure(&self, input: &Input, tenant: &str, numbers: Range<u32>) -> Run {
        let reader = reader(&self.answers, true);
        let awaited = numbers.clone();
        let reading = tokio::task::spawn_blocking(move || read(&reader, &awaited));
        let begin = tokio::time::Instant::now();
        let sends = (0..).zip(numbers).map(async |(index, number)| {
            tokio::time::sleep_until(begin + Duration::from_secs(1) / RATE * index).await;
            let (report, sent) = (input.report(number), Instant::now());
            let partition = i32::try_from(number % PARTITIONS).expect("small");
            self.topics.produce_record(&self.reports, Some(partition), &[("tenant", tenant)], &report).await;
            (number, sent)
        });
        let sent: BTreeMap<u32, Instant> = futures::future::join_all(sends).await.into_iter().collect();
        let read = reading.await.expect("the reader ends");
        let took =
            read.into_iter().map(|(number, at)| at.saturating_duration_since(sent[&number]).as_millis());
        let mut latencies: Vec<u32> = took.map(|millis| u32::try_from(millis).unwrap_or(u32::MAX)).collect();
        latencies.sort_unstable();
        Run { latencies }
    }
}

/// When the answer of each of these numbers was read.
fn read(consumer: &BaseConsumer, numbers: &Range<u32>) -> BTreeMap<u32, Instant> {
    let mut read = BTreeMap::new();
    let begin = Instant::now();
    while read.len() < numbers.len() {
        assert!(begin.elapsed() < Duration::from_secs(600), "{} of {} came", read.len(), numbers.len());
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
        if let Some(number) = number(&message).filter(|number| numbers.contains(number)) {
            read.entry(number).or_insert_with(Instant::now);
        }
    }
    read
}

/// The number in the id of a message's report.
fn number(message: &impl Message) -> Option<u32> {
    let header = message.headers()?.iter().find(|header| header.key == "report-id")?;
    let id = std::str::from_utf8(header.value?).ok()?;
    u32::from_str_radix(id.get(id.len().checked_sub(8)?..)?, 16).ok()
}
