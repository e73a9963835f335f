//! Several symbolizers on one topic, and their sudden end.

use std::collections::BTreeSet;
use std::time::Duration;
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::App;
use unslide_tests::installation::{Installation, TENANT};

const WORKERS: [&str; 2] = ["symbolizer-0", "symbolizer-1"];

/// The numbers of the reports in a topic, by origin; fails where one came twice.
fn once_each(records: &[unslide_tests::topics::Record]) -> BTreeSet<(String, String)> {
    let mut seen = BTreeSet::new();
    for record in records {
        let origin = (
            record.header_text("origin-partition").to_owned(),
            record.header_text("origin-offset").to_owned(),
        );
        assert!(seen.insert(origin.clone()), "{origin:?} has two outcomes");
    }
    seen
}

/// Produces reports, in turns to each of the four partitions.
async fn send(installation: &Installation, app: &App, numbers: std::ops::Range<u32>) {
    let input = installation.topic_name("crash.reports");
    for number in numbers {
        let partition = i32::try_from(number % 4).expect("small");
        let report = app.build_report(number).bytes();
        installation.topics.produce_record(&input, Some(partition), &[("tenant", TENANT)], &report).await;
    }
}

/// Waits until as many reports as were sent have come out, each once.
async fn all_come_out(installation: &Installation, sent: u32) {
    let (output, all) = (installation.topic_name("crash.symbolicated"), sent as usize);
    let records =
        installation.topics.wait_for(&output, EVENTUAL_TIMEOUT, |records| records.len() >= all).await;
    assert_eq!(once_each(&records).len(), all);
}

/// How many records each worker has taken, once they have counted all that were sent.
async fn worked(installation: &mut Installation, sent: u32) -> [f64; 2] {
    let mut counts = [0.0; 2];
    for _ in 0..1_500 {
        for (worker, count) in WORKERS.into_iter().zip(&mut counts) {
            let metric =
                installation.fetch_metric(worker, "unslide_symbolizer_records_total{lane=\"live\"").await;
            *count = metric.unwrap_or(0.0);
        }
        if counts.iter().sum::<f64>() >= f64::from(sent) {
            return counts;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("of {sent} records the workers have counted {counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_share_the_partitions_and_a_killed_one_loses_and_doubles_nothing() {
    let app = App::from_fixture("app");
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.make_tenant(TENANT);
    installation.wait_ready("api").await;
    installation.client().upload_symbols(app.dsym.clone()).await;
    for worker in WORKERS {
        installation.start_service(worker, "symbolizer", &[]);
    }
    for worker in WORKERS {
        installation.wait_ready(worker).await;
    }

    // The first to come had all four partitions; it hands two of them over.
    for worker in WORKERS {
        installation.wait_metric(worker, "unslide_symbolizer_partitions{lane=\"live\"", 2.0).await;
    }

    // Two partitions each; a worker that was slow for a moment may have lent the other one its own, until later reports.
    let mut sent = 0;
    loop {
        send(&installation, &app, sent..sent + 400).await;
        sent += 400;
        all_come_out(&installation, sent).await;
        let counts = worked(&mut installation, sent).await;
        if counts.iter().all(|count| *count > 0.0) {
            break;
        }
        assert!(sent < 8_000, "one worker does all the work: {counts:?}");
    }

    // Killed while reports flow, at a moment that nobody chose.
    let victim = installation.take_process("symbolizer-0");
    send(&installation, &app, sent..sent + 300).await;
    tokio::task::block_in_place(|| victim.kill());
    send(&installation, &app, sent + 300..sent + 600).await;
    all_come_out(&installation, sent + 600).await;

    // The killed worker comes back under its name and takes its share again.
    installation.start_service("symbolizer-0", "symbolizer", &[]);
    installation.wait_ready("symbolizer-0").await;
    send(&installation, &app, sent + 600..sent + 700).await;
    all_come_out(&installation, sent + 700).await;
    installation.stop().await;
}
