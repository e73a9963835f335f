//! Reports through real Kafka with one and with two workers, and the first answer of a cold image.

use crate::input::Input;
use crate::offline::core::{answer, core_time, median_micros};
use crate::online::quota::Quota;
use lz4_flex::frame::{BlockMode, FrameDecoder, FrameEncoder, FrameInfo};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use unslide_tests::binary::ThreadUse;
use unslide_tests::installation::{Installation, TENANT};

/// Input partitions of a test's installation.
const PARTITIONS: u32 = 4;
/// What a worker has committed.
const RECORDS: &str = "unslide_symbolizer_records_total{lane=\"live\"";

/// What is measured is the workers and not what one tenant may use of them.
pub const UNLIMITED: (&str, &str) = ("UNSLIDE_TENANTS__UNITS_PER_SECOND", "0");

/// How many transactions a worker has ended, and the time they took together.
const TRANSACTIONS: &str = "unslide_symbolizer_transaction_seconds_count{lane=\"live\"";
const TRANSACTION_SECONDS: &str = "unslide_symbolizer_transaction_seconds_sum{lane=\"live\"";

/// The part of a core that a worker gets where two are to have room beside Kafka and the load.
const SHARE: f64 = 0.15;

/// Prints throughput and memory, and the cold start.
pub async fn print(input: &Input, full: bool) {
    println!("\nThrough real Kafka, everything on this machine ({} cores)", cores());
    let reports = if full { 4_000 } else { 40 };
    compare(input, reports, None).await;
    compare(input, reports / 4, Some(SHARE)).await;
    cold(input).await;
}

/// One worker against two.
async fn compare(input: &Input, reports: u32, share: Option<f64>) {
    let one = match throughput(input, 1, reports, share).await {
        Ok(run) => run,
        Err(error) => return println!("  no CPU limits for workers here: {error}"),
    };
    let two = throughput(input, 2, reports, share).await.expect("as the one before");
    if let Some(share) = share {
        println!("  each worker limited to {share} of a core, as in a container:");
    }
    for (workers, run) in [(1, &one), (2, &two)] {
        println!(
            "  {workers} worker(s): {:.0} reports/s, {:.2} ms of worker CPU a report, at most {} MB resident each; \
             {:.0} reports a transaction, which takes {:.0} ms",
            run.per_second,
            run.cpu_millis,
            run.resident >> 20,
            run.transaction_reports,
            run.transaction_millis
        );
    }
    println!("  two workers against one: {:.2}x", two.per_second / one.per_second);
    if share.is_none() {
        let core = core_time(input);
        println!(
            "  of one worker's CPU a report the core is {:.3} ms, all is {:.2}x:",
            core,
            one.cpu_millis / core
        );
        print_threads(&one.threads, reports);
        print_parts(input);
    }
}

/// Prints what the work on the bytes of one report takes that the client of Kafka does, each by itself in this process.
fn print_parts(input: &Input) {
    let report = input.report(0);
    let answer = answer(input, &report);
    // As librdkafka does.
    let pack = |bytes: &[u8]| {
        let info = FrameInfo::new().block_mode(BlockMode::Independent);
        let mut packed = FrameEncoder::with_frame_info(info, Vec::new());
        packed.write_all(bytes).expect("memory");
        packed.finish().expect("memory")
    };
    let (packed_report, packed_answer) = (pack(&report), pack(&answer));
    let unpack = || {
        let mut bytes = Vec::with_capacity(report.len());
        FrameDecoder::new(&packed_report[..]).read_to_end(&mut bytes).expect("it was packed");
        bytes
    };
    println!(
        "    of that, each by itself: LZ4 of the answer {:.0} µs and of the report's bytes back {:.0} µs; CRC-32C of both, \
         packed, {:.0} µs; a copy of the answer {:.0} µs",
        median_micros(|| drop(black_box(pack(&answer)))),
        median_micros(|| drop(black_box(unpack()))),
        median_micros(
            || _ = black_box(crc_fast::crc32_iscsi(&packed_report) ^ crc_fast::crc32_iscsi(&packed_answer))
        ),
        median_micros(|| drop(black_box(answer.clone()))),
    );
}

/// Prints what the threads of a process used for each report.
pub fn print_threads(threads: &BTreeMap<String, ThreadUse>, reports: u32) {
    let mut threads: Vec<_> = threads.iter().collect();
    threads.sort_by_key(|(_, used)| std::cmp::Reverse(used.cpu));
    for (name, used) in threads.into_iter().take(12) {
        let micros = used.cpu.as_secs_f64() * 1e6 / f64::from(reports);
        let wakes = used.wakes as f64 / f64::from(reports);
        println!("    {name:<16} {:>3} thread(s) {micros:>7.1} µs {wakes:>6.2} wake-ups", used.count);
    }
}

/// What was used since `before`.
pub fn since(
    mut now: BTreeMap<String, ThreadUse>,
    before: &BTreeMap<String, ThreadUse>,
) -> BTreeMap<String, ThreadUse> {
    for (name, used) in &mut now {
        let old = before.get(name).copied().unwrap_or_default();
        used.cpu = used.cpu.saturating_sub(old.cpu);
        used.wakes = used.wakes.saturating_sub(old.wakes);
    }
    now
}

struct Run {
    per_second: f64,
    cpu_millis: f64,
    resident: u64,
    transaction_reports: f64,
    transaction_millis: f64,
    /// Of the first worker.
    threads: BTreeMap<String, ThreadUse>,
}

async fn throughput(input: &Input, workers: usize, reports: u32, share: Option<f64>) -> std::io::Result<Run> {
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.make_tenant(TENANT);
    installation.wait_ready("api").await;
    let upload = installation.client().upload_symbols(input.dsym.clone()).await;
    assert_eq!(upload["objects"][0]["status"], "ready", "{upload}");
    let topic = installation.topic_name("crash.reports");
    // The first tenth warms the workers up and is not counted.
    let warm = reports / 10;
    for number in 0..warm {
        installation.topics.produce_record(&topic, None, &[("tenant", TENANT)], &input.report(number)).await;
    }
    let names: Vec<String> = (0..workers).map(|n| format!("symbolizer-{n}")).collect();
    for name in &names {
        installation.start_service(name, "symbolizer", &[UNLIMITED]);
    }
    for name in &names {
        installation.wait_ready(name).await;
    }
    for name in &names {
        let share = f64::from(PARTITIONS) / workers as f64;
        installation.wait_metric(name, "unslide_symbolizer_partitions{lane=\"live\"", share).await;
    }
    settle(&mut installation, &names, f64::from(warm)).await;
    let limits = names.iter().filter_map(|name| Some((installation.find_process(name).id(), share?)));
    let quotas = limits.map(|(id, share)| Quota::of(id, share)).collect::<Result<Vec<_>, _>>();
    let threads_before = installation.find_process(&names[0]).use_by_thread();
    let before: Duration = names.iter().map(|name| installation.find_process(name).cpu_time()).sum();
    let sends = (warm..warm + reports).map(|number| {
        let (installation, topic) = (&installation, &topic);
        async move {
            let report = input.report(number);
            let partition = i32::try_from(number % PARTITIONS).expect("small");
            installation.topics.produce_record(topic, Some(partition), &[("tenant", TENANT)], &report).await;
        }
    });
    let start = Instant::now();
    futures::future::join_all(sends).await;
    settle(&mut installation, &names, f64::from(warm + reports)).await;
    let elapsed = start.elapsed();
    let threads = since(installation.find_process(&names[0]).use_by_thread(), &threads_before);
    let after: Duration = names.iter().map(|name| installation.find_process(name).cpu_time()).sum();
    let resident = names.iter().map(|name| installation.find_process(name).peak_bytes()).max().unwrap_or(0);
    let (mut transactions, mut seconds) = (0.0, 0.0);
    for name in &names {
        transactions += installation.fetch_metric(name, TRANSACTIONS).await.unwrap_or(0.0);
        seconds += installation.fetch_metric(name, TRANSACTION_SECONDS).await.unwrap_or(0.0);
    }
    let quotas = quotas.map(drop);
    installation.stop().await;
    quotas.map(|()| Run {
        transaction_reports: f64::from(warm + reports) / transactions,
        transaction_millis: seconds * 1_000.0 / transactions,
        per_second: f64::from(reports) / elapsed.as_secs_f64(),
        threads,
        cpu_millis: (after - before).as_secs_f64() * 1_000.0 / f64::from(reports),
        resident,
    })
}

/// Waits until the workers together have committed this many input records.
pub async fn settle(installation: &mut Installation, workers: &[String], count: f64) {
    for _ in 0..12_000 {
        let mut done = 0.0;
        for worker in workers {
            done += installation.fetch_metric(worker, RECORDS).await.unwrap_or(0.0);
        }
        if done >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the workers do not reach {count} records");
}

async fn cold(input: &Input) {
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.make_tenant(TENANT);
    installation.wait_ready("api").await;
    let client = installation.client();
    client.upload_symbols(input.dsym.clone()).await;
    let ask = async |number: u32| {
        let report = input.report(number);
        let start = Instant::now();
        let (status, answer) = client.post("/v1/symbolicate", report).await;
        assert_eq!(status, 200, "{answer}");
        start.elapsed()
    };
    let first = ask(0).await;
    let mut warm = Vec::new();
    for number in 1..20 {
        warm.push(ask(number).await);
    }
    warm.sort();
    println!("\nThe first answer of an image that no cache has, over HTTP");
    println!("  cold {first:.1?}, then {:.1?} (median of {})", warm[warm.len() / 2], warm.len());
    installation.stop().await;
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
