//! Whether a report costs the same however many tenants and dSYMs there are, what a worker needs before
//! it has anything to do, and what a cold image costs when many ask for it at once.

use crate::online::flow::{UNLIMITED, settle};
use futures::{StreamExt, stream};
use unslide_tests::app::App;
use unslide_tests::installation::Installation;

/// What object storage has answered a worker.
const REQUESTS: &str = "unslide_objects_requests_total{end=\"answered\"";

/// Prints what was measured.
pub async fn print(full: bool) {
    let (tenants, reports) = if full { (100, 4_000) } else { (3, 30) };
    let one = measure(1, reports).await;
    let many = measure(tenants, reports).await;
    println!("\nMany tenants, each with its own dSYM");
    println!("  a worker before its first report: {} MB resident", one.idle >> 20);
    for (tenants, run) in [(1, &one), (tenants, &many)] {
        println!(
            "  {tenants:>4} tenant(s): {:.3} ms of worker CPU a report; {:.0} requests to object storage for the first \
             {} reports, all sent before any answer",
            run.cpu_millis, run.requests, run.first
        );
    }
    println!("  many against one: {:.2}x the CPU", many.cpu_millis / one.cpu_millis);
}

struct Run {
    /// Bytes.
    idle: u64,
    cpu_millis: f64,
    /// How many reports came while every image was cold.
    first: u32,
    requests: f64,
}

async fn measure(tenants: u32, reports: u32) -> Run {
    let app = App::from_fixture("app");
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.wait_ready("api").await;
    let names: Vec<String> = (0..tenants).map(|n| format!("tenant-{n}")).collect();
    let mut clients = Vec::new();
    for name in &names {
        installation.make_tenant(name);
        clients.push(installation.client());
    }
    let uploads = stream::iter(clients).map(|client| {
        let dsym = app.dsym.clone();
        async move { assert_eq!(client.upload_symbols(dsym).await["objects"][0]["status"], "ready") }
    });
    uploads.buffer_unordered(8).for_each(async |()| {}).await;
    let workers = [String::from("symbolizer")];
    let worker = &workers[0];
    installation.start_service(worker, worker, &[UNLIMITED]);
    installation.wait_ready(worker).await;
    let idle = installation.find_process(worker).resident_bytes();
    let asked = installation.fetch_metric(worker, REQUESTS).await.unwrap_or(0.0);
    // Every image is cold for these, and warm for those that count.
    let first = reports / 10;
    send(&installation, &names, &app, 0..first).await;
    settle(&mut installation, &workers, f64::from(first)).await;
    let requests = installation.fetch_metric(worker, REQUESTS).await.unwrap_or(0.0) - asked;
    let before = installation.find_process(worker).cpu_time();
    send(&installation, &names, &app, first..first + reports).await;
    settle(&mut installation, &workers, f64::from(first + reports)).await;
    let spent = installation.find_process(worker).cpu_time() - before;
    installation.stop().await;
    Run { idle, cpu_millis: spent.as_secs_f64() * 1_000.0 / f64::from(reports), first, requests }
}

async fn send(installation: &Installation, tenants: &[String], app: &App, numbers: std::ops::Range<u32>) {
    let topic = installation.topic_name("crash.reports");
    let sends = stream::iter(numbers).map(|number| {
        let (topic, tenant) = (&topic, &tenants[number as usize % tenants.len()]);
        async move {
            let report = app.build_report(number).bytes();
            installation.topics.produce_record(topic, None, &[("tenant", tenant)], &report).await;
        }
    });
    sends.buffer_unordered(500).for_each(async |()| {}).await;
}
