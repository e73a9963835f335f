//! What events cost the database for each stored report, for a person to read.

use std::time::Duration;
use tokio::time::Instant;
use unslide_harness::database::{TestDatabase, acme, arrival};
use unslide_model::{ContentHash, ReportId};
use unslide_store::StoreHook;
use unslide_store::reports::Arrival;
use unslide_stored_events::store::{SILENT_HOOK, WRITING_HOOK, delete_sent, list_waiting};

/// Batches of an indexer, and reports in each.
const BATCHES: u16 = 40;
const BATCH_REPORTS: u16 = 100;

fn number_report(n: u16) -> Arrival {
    let (mut id, mut hash) = ([0; 16], [7; 32]);
    id[..2].copy_from_slice(&n.to_be_bytes());
    hash[..2].copy_from_slice(&n.to_be_bytes());
    Arrival {
        report_id: ReportId(id),
        content_hash: ContentHash(hash),
        ..arrival(u8::try_from(n % 200).unwrap())
    }
}

/// Returns the bytes of WAL and the time for each report. With events, the time has their way out of the database, too.
async fn measure(hook: StoreHook) -> (i64, Duration) {
    let database = TestDatabase::new(&[hook]).await;
    let position = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
    let (before, begun) = (database.number(position).await, Instant::now());
    for batch in 0..BATCHES {
        let from = batch * BATCH_REPORTS;
        let reports: Vec<Arrival> = (from..from + BATCH_REPORTS).map(number_report).collect();
        database.store(&reports).await;
        let mut tx = database.store.tenant(&acme()).await.unwrap();
        let waiting = list_waiting(&mut tx, false, BATCH_REPORTS).await.unwrap();
        if !waiting.is_empty() {
            delete_sent(&mut tx, &waiting).await.unwrap();
        }
        tx.commit().await.unwrap();
    }
    let elapsed = begun.elapsed();
    let reports = i64::from(BATCHES * BATCH_REPORTS);
    ((database.number(position).await - before) / reports, elapsed / u32::from(BATCHES * BATCH_REPORTS))
}

#[tokio::test]
#[ignore = "measures, and needs a database server that does nothing else"]
async fn the_cost_of_an_event_is_printed() {
    for round in 1..=3 {
        for (name, hook) in [("without events", SILENT_HOOK), ("with events", WRITING_HOOK)] {
            let (wal, time) = measure(hook).await;
            println!("round {round}, {name}: {wal} bytes of WAL and {} µs for each report", time.as_micros());
        }
    }
}
