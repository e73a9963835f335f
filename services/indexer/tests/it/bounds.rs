//! What an indexer holds at most.

use crate::indexer_fixture::{Running, World, acme};
use std::time::Duration;
use unslide_indexer::Settings;

/// The database takes nothing for now, and much more waits than one transaction may hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_holds_so_many_bytes_however_much_waits() {
    const RECORD: usize = 20_000;
    const BOUND: u64 = 1 << 16;
    let world = World::new().await;
    for n in 0..12 {
        world.send_raw("acme", &format!("{n:0>RECORD$}")).await;
    }
    // What is no report is noted here.
    let closed = world.close("dead_letters").await;
    let own = Settings { batch_bytes: BOUND as usize, ..Settings::default() };
    // The first batch ends by its bytes, however slowly its records come.
    let running = world.start_with(Settings { batch_wait_milliseconds: 600_000, ..own.clone() });
    let in_flight = |running: &Running| running.values("unslide_indexer_in_flight_bytes");
    let held = loop {
        let held: Vec<u64> = in_flight(&running).into_iter().filter(|bytes| *bytes > 0).collect();
        if !held.is_empty() {
            break held;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    // Each reader of an indexer has a transaction of its own.
    assert!(held.iter().all(|bytes| (2 * RECORD as u64..=BOUND).contains(bytes)), "{held:?} bytes are held");
    World::open(closed).await;
    running.stop().await;
    // The last one is not full: an indexer that waits for less time stores it.
    let running = world.start_with(own);
    world.wait_for_number("SELECT count(*) FROM dead_letters WHERE stage = 'read'", 12).await;
    world.send(1, 1, None).await;
    world.wait_for_number(&format!("SELECT count(*) FROM reports WHERE tenant = '{}'", acme()), 1).await;
    while in_flight(&running).iter().any(|bytes| *bytes > 0) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    running.stop().await;
    world.end().await;
}
