//! Two of three brokers go away while reports come in, and come back.

use crate::input::Input;
use std::cell::Cell;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use unslide_embedded::{KafkaCluster, S3Endpoint};
use unslide_testkit::servers;
use unslide_tests::installation::{BUCKET, Installation, Place, TENANT};

/// The time between two reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// The time between the deaths of the two brokers: groups and transactions have moved to the second.
const BETWEEN_DEATHS: Duration = Duration::from_secs(15);
/// The time with one broker.
const MINORITY: Duration = Duration::from_secs(45);
/// The time that reports are sent for after both are back.
const AFTERWARDS: Duration = Duration::from_secs(20);
/// The longest time until every report has its outcome.
const SETTLE: Duration = Duration::from_secs(300);
const SYMBOLIZERS: [&str; 2] = ["symbolizer-1", "symbolizer-2"];
const REPLICATED: [(&str, &str); 2] =
    [("UNSLIDE_KAFKA__REPLICATION_FACTOR", "3"), ("UNSLIDE_KAFKA__MIN_INSYNC_REPLICAS", "2")];

/// What the last line but one of `unslide audit` counts.
#[derive(Debug)]
struct Balance {
    records: u32,
    published: u32,
    undecided: u32,
}

/// Prints how many reports were sent and what became of them.
///
/// # Panics
/// If a process ends, or a report is lost or doubled.
pub async fn print(input: &Input) {
    let data = TempDir::new().expect("a folder");
    let folder = data.path().join("kafka");
    let cluster = tokio::task::block_in_place(|| KafkaCluster::start(&folder, 3, &|_| {}));
    let cluster = cluster.expect("three brokers");
    let s3 = S3Endpoint::start(&data.path().join("objects"), BUCKET).expect("an S3 endpoint");
    let place = Place {
        kafka: cluster.bootstrap(),
        postgres: servers::postgres(),
        objects: s3.url(),
        object_keys: (s3.access_key.clone(), s3.secret_key.clone()),
        kafka_admin: None,
    };
    let folder = TempDir::new().expect("a folder");
    let mut installation = Installation::prepare_on(&place, folder, &REPLICATED).await;
    for service in ["builder", "api", "indexer"] {
        installation.start_service(service, service, &[]);
    }
    for name in SYMBOLIZERS {
        installation.start_service(name, "symbolizer", &[]);
    }
    installation.make_tenant(TENANT);
    for name in ["builder", "api", "indexer"].into_iter().chain(SYMBOLIZERS) {
        installation.wait_ready(name).await;
    }
    let client = installation.client();
    client.upload_symbols(input.dsym.clone()).await;

    let over = Cell::new(false);
    let sending = async {
        let (mut sent, mut accepted) = (0, 0);
        while !over.get() {
            let answer = client.try_request("/v1/reports", Some(input.report(sent))).await;
            sent += 1;
            accepted += u32::from(answer.is_some_and(|(status, _)| (200..300).contains(&status)));
            tokio::time::sleep(REPORT_INTERVAL).await;
        }
        (sent, accepted)
    };
    let dying = async {
        tokio::time::sleep(AFTERWARDS).await;
        tokio::task::block_in_place(|| cluster.kill_node(2));
        tokio::time::sleep(BETWEEN_DEATHS).await;
        tokio::task::block_in_place(|| cluster.kill_node(1));
        tokio::time::sleep(MINORITY).await;
        tokio::task::block_in_place(|| cluster.start_nodes(&[1, 2])).expect("both start again");
        tokio::time::sleep(AFTERWARDS).await;
        over.set(true);
    };
    let ((sent, accepted), ()) = tokio::join!(sending, dying);
    for name in ["builder", "api", "indexer"].into_iter().chain(SYMBOLIZERS) {
        installation.wait_ready(name).await;
    }
    let balance = wait_until_settled(&installation).await;
    println!(
        "\nTwo of three brokers killed, {BETWEEN_DEATHS:?} apart, and back after {MINORITY:?}: {accepted} of {sent} reports \
         accepted, {} records, {} published, 0 lost, 0 doubled, no process ended",
        balance.records, balance.published
    );
    assert!(balance.published >= accepted, "{accepted} were accepted: {balance:?}");
    installation.stop().await;
}

/// Waits until every record has an outcome. The audit ends with an error if one is lost or has two.
async fn wait_until_settled(installation: &Installation) -> Balance {
    let began = Instant::now();
    loop {
        let (status, output, error) =
            tokio::task::block_in_place(|| installation.run_command(&["audit", "--wait", "90s"]));
        let balance = read_balance(&output);
        match balance {
            Some(balance) if balance.undecided == 0 && status == 0 => return balance,
            _ if began.elapsed() > SETTLE => panic!("audit ended with {status}:\n{output}{error}"),
            _ => tokio::time::sleep(Duration::from_secs(2)).await,
        }
    }
}

/// Reads the line `all` of the table: records, in, out, dead letters, others, waiting, unread, …
fn read_balance(table: &str) -> Option<Balance> {
    let line = table.lines().find(|line| line.starts_with("all "))?;
    let counts: Vec<u32> = line.split_whitespace().skip(1).map_while(|count| count.parse().ok()).collect();
    let [records, _, published, _, _, waiting, unread, ..] = counts[..] else { return None };
    Some(Balance { records, published, undecided: waiting + unread })
}
