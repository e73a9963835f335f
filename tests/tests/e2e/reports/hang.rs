//! A symbolizer with a Kafka client that hangs.
//! Proves: outages

use std::time::Duration;
use unslide_tests::EVENTUAL_TIMEOUT;
use unslide_tests::app::App;
use unslide_tests::debugger;
use unslide_tests::installation::{Installation, TENANT};

#[tokio::test(flavor = "multi_thread")]
async fn a_call_into_kafka_that_never_returns_ends_the_process_and_another_goes_on() {
    let app = App::from_fixture("app");
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.make_tenant(TENANT);
    let hangs = "symbolizer-0";
    installation.start_service(hangs, "symbolizer", &[]);
    installation.wait_ready(hangs).await;
    let all = "unslide_symbolizer_partitions{lane=\"live\"";
    installation.wait_metric(hangs, all, 4.0).await;
    // A lane that has nothing to do is in a call nearly all the time.
    let threads = installation.find_process(hangs).list_threads("lane live");
    assert_eq!(threads.len(), 1, "one thread is the lane");
    tokio::task::block_in_place(|| debugger::halt_thread(threads[0]));
    let input = installation.topic_name("crash.reports");
    let reports = 40;
    for number in 0..reports {
        let report = app.build_report(number).bytes();
        installation.topics.produce_record(&input, None, &[("tenant", TENANT)], &report).await;
    }
    let mut waited = Duration::ZERO;
    let status = loop {
        if let Some(status) = installation.find_process(hangs).exit_status() {
            break status;
        }
        assert!(waited < EVENTUAL_TIMEOUT, "it hangs and does not end:\n{}", installation.read_log(hangs));
        tokio::time::sleep(Duration::from_millis(200)).await;
        waited += Duration::from_millis(200);
    };
    let log = installation.read_log(hangs);
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("the lane live hangs in the Kafka client ("), "{log}");
    drop(installation.take_process(hangs));

    installation.start_service("symbolizer-1", "symbolizer", &[]);
    let output = installation.topic_name("crash.symbolicated");
    let all = reports as usize;
    let out = installation.topics.wait_for(&output, EVENTUAL_TIMEOUT, |records| records.len() >= all).await;
    assert_eq!(out.len(), all);
    installation.stop().await;
}
