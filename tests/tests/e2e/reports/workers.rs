//! Several symbolizers on one topic, and their sudden end.

use std::collections::BTreeSet;
use std::time::Duration;
use unslide_tests::app::App;
use unslide_tests::installation::{Installation, TENANT};

const SOON: Duration = Duration::from_secs(120);

/// The numbers of the reports in a topic, by origin; fails where one came twice.
fn once_each(records: &[unslide_tests::topics::Record]) -> BTreeSet<(String, String)> {
    let mut seen = BTreeSet::new();
    for record in records {
        let origin =
            (record.header("origin-partition").to_owned(), record.header("origin-offset").to_owned());
        assert!(seen.insert(origin.clone()), "{origin:?} has two outcomes");
    }
    seen
}

/// Produces reports, in turns to each of the four partitions.
async fn send(installation: &Installation, app: &App, numbers: std::ops::Range<u32>) {
    let input = installation.topic("crash.reports");
    for number in numbers {
        let partition = i32::try_from(number % 4).expect("small");
        let report = app.report(number).bytes();
        installation.topics.produce(&input, Some(partition), &[("tenant", TENANT)], &report).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_share_the_partitions_and_a_killed_one_loses_and_doubles_nothing() {
    let app = App::fixture("app");
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.make_tenant(TENANT);
    installation.wait_ready("api").await;
    installation.client().upload(app.dsym.clone()).await;
    for worker in ["symbolizer-0", "symbolizer-1"] {
        installation.start_service(worker, "symbolizer", &[]);
    }
    for worker in ["symbolizer-0", "symbolizer-1"] {
        installation.wait_ready(worker).await;
    }

    // The first to come had all four partitions; it hands two of them over.
    for worker in ["symbolizer-0", "symbolizer-1"] {
        installation.wait_metric(worker, "unslide_symbolizer_partitions{lane=\"live\"", 2.0).await;
    }

    let output = installation.topic("crash.symbolicated");
    send(&installation, &app, 0..400).await;
    let half = installation.topics.wait_for(&output, SOON, |records| records.len() >= 400).await;
    assert_eq!(once_each(&half).len(), 400);
    // Two partitions each; a worker that was slow for a moment may have lent the other one some.
    let mut counts = [None; 2];
    for _ in 0..300 {
        for (worker, count) in ["symbolizer-0", "symbolizer-1"].into_iter().zip(&mut counts) {
            *count = installation.metric(worker, "unslide_symbolizer_records_total{lane=\"live\"").await;
        }
        if counts.iter().flatten().sum::<f64>() >= 400.0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(counts.iter().flatten().sum::<f64>() >= 400.0, "{counts:?}");
    assert!(counts.iter().all(|count| count.is_some_and(|count| count > 0.0)), "{counts:?}");

    // Killed while reports flow, at a moment that nobody chose.
    let victim = installation.take("symbolizer-0");
    send(&installation, &app, 400..700).await;
    tokio::task::block_in_place(|| victim.kill());
    send(&installation, &app, 700..1_000).await;
    let all = installation.topics.wait_for(&output, SOON, |records| records.len() >= 1_000).await;
    assert_eq!(once_each(&all).len(), 1_000);

    // The killed worker comes back under its name and takes its share again.
    installation.start_service("symbolizer-0", "symbolizer", &[]);
    installation.wait_ready("symbolizer-0").await;
    send(&installation, &app, 1_000..1_100).await;
    let all = installation.topics.wait_for(&output, SOON, |records| records.len() >= 1_100).await;
    assert_eq!(once_each(&all).len(), 1_100);
    installation.stop().await;
}
