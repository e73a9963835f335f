//! The slowest report while an operator changes the number of symbolizers by hand.

use crate::input::Input;
use crate::online::flow::UNLIMITED;
use crate::online::latency::{Feed, RATE};
use std::time::Duration;
use unslide_tests::installation::{Installation, TENANT};

/// The numbers of symbolizers, one after the other.
const STEPS: [usize; 4] = [2, 1, 3, 1];
/// The seconds that each number stays.
const STEP_SECONDS: u32 = 15;
const WORKERS: [&str; 3] = ["symbolizer-1", "symbolizer-2", "symbolizer-3"];
/// The numbers of reports that warm the workers up.
const WARM: u32 = 900_000;

/// Prints the times from producing a report to reading its answer. Without `full` it does nothing: the steps take
/// their time.
pub async fn print(input: &Input, full: bool) {
    if !full {
        return;
    }
    let mut installation = Installation::prepare().await;
    for service in ["builder", "api"] {
        installation.start_service(service, service, &[]);
    }
    installation.wait_ready("api").await;
    installation.make_tenant(TENANT);
    let upload = installation.client().upload_symbols(input.dsym.clone()).await;
    assert_eq!(upload["objects"][0]["status"], "ready", "{upload}");
    scale(&mut installation, 0, STEPS[0]).await;
    let feed = Feed::of(&installation);
    feed.measure(input, TENANT, WARM..WARM + 8).await;
    let steps = async {
        for step in STEPS.windows(2) {
            tokio::time::sleep(Duration::from_secs(STEP_SECONDS.into())).await;
            scale(&mut installation, step[0], step[1]).await;
        }
    };
    let seconds = STEP_SECONDS * u32::try_from(STEPS.len()).expect("few");
    let (run, ()) = tokio::join!(feed.measure(input, TENANT, 0..RATE * seconds), steps);
    installation.stop().await;
    let [half, most, slowest] = [0.5, 0.99, 1.0].map(|share| run.percentile(share));
    println!(
        "\nSymbolizers {STEPS:?}, {STEP_SECONDS} s each, by SIGTERM and by starting them, {RATE} reports/s"
    );
    println!("  p50 {half} ms, p99 {most} ms, slowest {slowest} ms of {} reports", run.latencies.len());
}

/// Starts symbolizers that lack, or ends those that are too many.
async fn scale(installation: &mut Installation, from: usize, to: usize) {
    for worker in WORKERS.iter().take(to).skip(from) {
        installation.start_service(worker, "symbolizer", &[UNLIMITED]);
    }
    for worker in WORKERS.iter().take(to).skip(from) {
        installation.wait_ready(worker).await;
    }
    for worker in WORKERS.iter().take(from).skip(to) {
        let process = installation.take_process(worker);
        let ended = tokio::task::spawn_blocking(|| process.terminate()).await.expect("ended");
        assert!(ended.success(), "{worker} ended with {ended}");
    }
}
