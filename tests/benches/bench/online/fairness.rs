//! What a noisy tenant costs a quiet one on the same partitions, and what a diversion costs.

use crate::input::Input;
use futures::StreamExt;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use unslide_testkit::servers;
use unslide_tests::app::App;
use unslide_tests::installation::{Installation, TENANT};

/// The tenant that sends a hundred times what it may.
const NOISY: &str = "noisy";
/// How many times what it may the noisy tenant sends.
const TIMES: u32 = 100;
/// The reports a second that each tenant may use.
const LIMIT: u32 = 10;
/// The reports a second that the quiet tenant sends.
const QUIET: u32 = LIMIT / 2;
/// Reports of the noisy tenant for each one of the quiet tenant.
const NOISE: u32 = LIMIT * TIMES / QUIET;
const PARTITIONS: u32 = 4;
const WORKER: &str = "symbolizer";

/// Prints the quiet tenant's latency alone and under the flood, and the cost of a diversion.
pub async fn print(input: &Input, full: bool) {
    let reports = if full { 300 } else { 12 };
    let app = App::from_fixture("app");
    let alone = run(&app, reports, false).await;
    let flooded = run(&app, reports, true).await;
    println!(
        "\nTwo tenants may send {LIMIT} reports/s each: a quiet one sends {QUIET}, a noisy one {}, {TIMES} times what it may",
        LIMIT * TIMES
    );
    println!("  from the record's arrival at the broker to its answer at a reader of committed records");
    for (what, run) in [("alone", &alone), ("under the flood", &flooded)] {
        let [half, most] = [0.5, 0.99].map(|share| run.percentile(share));
        println!("  {what:<16} p50 {half:>6} ms, p99 {most:>6} ms of {} reports", run.latencies.len());
    }
    let ratio = f64::from(flooded.percentile(0.99)) / f64::from(alone.percentile(0.99).max(1));
    println!("  p99 under the flood against alone: {ratio:.2}x");
    let (diversion, symbolication) = costs(input, if full { 4_000 } else { 60 }).await;
    println!(
        "  worker CPU: a diversion to overflow {diversion:.3} ms, a symbolication {symbolication:.3} ms: {:.1}x",
        symbolication / diversion
    );
}

/// What a run measured.
pub struct Run {
    /// Milliseconds, sorted.
    pub latencies: Vec<u32>,
}

impl Run {
    /// Its latency below which this share of all are.
    pub fn percentile(&self, share: f64) -> u32 {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies.get((last as f64 * share).round() as usize).copied().unwrap_or(0)
    }
}

async fn run(app: &App, reports: u32, flood: bool) -> Run {
    let mut installation = prepare(app).await;
    // Both are warm before anything counts.
    let topic = installation.topic_name("crash.reports");
    for number in 0..8 {
        send(&installation, &topic, TENANT, 900_000 + number, app).await;
    }
    installation.wait_metric(WORKER, "unslide_symbolizer_records_total{lane=\"live\"", 8.0).await;
    let output = installation.topic_name("crash.symbolicated");
    let reader = reader(&output, false);
    let reading = tokio::task::spawn_blocking(move || read(&reader, reports as usize));
    let gap = Duration::from_secs(1) / QUIET;
    for number in 0..reports {
        let next = tokio::time::Instant::now() + gap;
        // The flood of this moment is on its way before the quiet tenant's report.
        let first = number * NOISE;
        let noise = (first..first + if flood { NOISE } else { 0 })
            .map(|n| send(&installation, &topic, NOISY, n, app));
        let quiet = send(&installation, &topic, TENANT, number, app);
        tokio::join!(futures::future::join_all(noise), quiet);
        tokio::time::sleep_until(next).await;
    }
    let latencies = reading.await.expect("the reader ends");
    installation.stop().await;
    Run { latencies }
}

async fn prepare(app: &App) -> Installation {
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.wait_ready("api").await;
    for tenant in [NOISY, TENANT] {
        installation.make_tenant(tenant);
        let upload = installation.client().upload_symbols(app.dsym.clone()).await;
        assert_eq!(upload["objects"][0]["status"], "ready", "{upload}");
    }
    let limit = LIMIT.to_string();
    installation.start_service(WORKER, "symbolizer", &[("UNSLIDE_TENANTS__UNITS_PER_SECOND", &limit)]);
    installation.wait_ready(WORKER).await;
    let all = f64::from(PARTITIONS);
    installation.wait_metric(WORKER, "unslide_symbolizer_partitions{lane=\"live\"", all).await;
    installation
}

async fn send(installation: &Installation, topic: &str, tenant: &str, number: u32, app: &App) {
    produce(installation, topic, tenant, number, &app.build_report(number).bytes()).await;
}

async fn produce(installation: &Installation, topic: &str, tenant: &str, number: u32, report: &[u8]) {
    let partition = i32::try_from(number % PARTITIONS).expect("small");
    installation.topics.produce_record(topic, Some(partition), &[("tenant", tenant)], report).await;
}

/// A reader of a topic's committed records, from their start, or of those that are yet to come.
pub fn reader(topic: &str, later: bool) -> BaseConsumer {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", servers::kafka())
        .set("group.id", "unslide-bench-reader")
        .set("isolation.level", "read_committed")
        .set("fetch.wait.max.ms", "10")
        .create()
        .expect("a consumer");
    let wait = Duration::from_secs(20);
    let metadata = consumer.fetch_metadata(Some(topic), wait).expect("metadata");
    let mut list = TopicPartitionList::new();
    for partition in metadata.topics()[0].partitions() {
        let offset = if later {
            Offset::Offset(consumer.fetch_watermarks(topic, partition.id(), wait).expect("offsets").1)
        } else {
            Offset::Beginning
        };
        list.add_partition_offset(topic, partition.id(), offset).expect("an offset");
    }
    consumer.assign(&list).expect("assigned");
    consumer
}

/// The milliseconds that each report of the quiet tenant took, sorted.
fn read(consumer: &BaseConsumer, reports: usize) -> Vec<u32> {
    let mut latencies = Vec::with_capacity(reports);
    let begin = Instant::now();
    while latencies.len() < reports {
        assert!(begin.elapsed() < Duration::from_secs(600), "{} of {reports} reports came", latencies.len());
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) else { continue };
        latencies.extend(latency(&message).filter(|(number, _)| *number < 900_000).map(|(_, millis)| millis));
    }
    latencies.sort_unstable();
    latencies
}

/// The number of a report of [`TENANT`], and the milliseconds from its arrival until now.
pub fn latency(message: &impl Message) -> Option<(u32, u32)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis());
    let header = |name: &str| {
        let headers = message.headers()?;
        let found = headers.iter().find(|header| header.key == name)?;
        std::str::from_utf8(found.value?).ok()
    };
    header("tenant").filter(|tenant| *tenant == TENANT)?;
    let id = header("report-id").unwrap_or_default();
    let number = id.get(id.len().saturating_sub(8)..).and_then(|n| u32::from_str_radix(n, 16).ok());
    let arrived: u128 = header("origin-time").and_then(|time| time.parse().ok()).expect("a time");
    Some((number.unwrap_or(0), u32::try_from(now.saturating_sub(arrived)).unwrap_or(u32::MAX)))
}

/// Milliseconds of the worker's CPU for a diversion, and for a symbolication, of the same reports.
async fn costs(input: &Input, reports: u32) -> (f64, f64) {
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.wait_ready("api").await;
    installation.make_tenant(TENANT);
    installation.client().upload_symbols(input.dsym.clone()).await;
    let topic = installation.topic_name("crash.reports");
    let mut costs = Vec::new();
    // A limit of one a second sends all but a handful to overflow, which then stands still.
    for (name, limit) in [("symbolizer-answers", "0"), ("symbolizer-diverts", "1")] {
        let settings = [("UNSLIDE_TENANTS__UNITS_PER_SECOND", limit)];
        installation.start_service(name, "symbolizer", &settings);
        installation.wait_ready(name).await;
        let all = f64::from(PARTITIONS);
        installation.wait_metric(name, "unslide_symbolizer_partitions{lane=\"live\"", all).await;
        let before = installation.find_process(name).cpu_time();
        let numbers = futures::stream::iter(0..reports);
        let send = async |number| produce(&installation, &topic, TENANT, number, &input.report(number)).await;
        numbers.map(send).buffer_unordered(500).for_each(|()| async {}).await;
        let begin = Instant::now();
        loop {
            let taken =
                installation.fetch_metric(name, "unslide_symbolizer_records_total{lane=\"live\"").await;
            if taken.is_some_and(|taken| taken >= f64::from(reports)) {
                break;
            }
            assert!(begin.elapsed() < Duration::from_secs(600), "{taken:?} of {reports} records were taken");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let spent = installation.find_process(name).cpu_time() - before;
        costs.push(spent.as_secs_f64() * 1_000.0 / f64::from(reports));
        let process = installation.take_process(name);
        tokio::task::block_in_place(|| process.terminate());
    }
    installation.stop().await;
    (costs[1], costs[0])
}
