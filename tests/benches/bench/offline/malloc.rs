//! How fast a log of allocations is replayed, on one core.

use std::hint::black_box;
use std::time::{Duration, Instant};
use unslide_captures_formats::malloc::{Checkpoints, EventLayout, EventLog, Replay};

const ALLOCATED: u64 = 2 << 56;
const FREED: u64 = 4 << 56;

/// Prints the events a second with few and with many live blocks.
pub fn print(full: bool) {
    let (events, rounds) = if full { (8_000_000, 5) } else { (20_000, 1) };
    println!("\nA log of {events} allocations and deallocations is replayed on one core");
    for live in [1_000, 100_000, 1_000_000] {
        let log = log(events, live);
        let best = (0..rounds).map(|_| replay(&log)).min().unwrap_or(Duration::MAX);
        let rate = f64::from(events) / best.as_secs_f64() / 1e6;
        println!("  {live:>9} live blocks: {rate:.1} million events a second");
        beside_checkpoints(&log, if full { 50 } else { 2 });
    }
}

/// The live sets at some events at random: each by a replay from the start, and all by checkpoints.
fn beside_checkpoints(log: &[u8], moments: usize) {
    let log = EventLog::new(log, EventLayout::Disk64);
    let mut random = 1;
    let ends: Vec<usize> = (0..moments).map(|_| next(&mut random) % log.len().max(1)).collect();
    let start = Instant::now();
    for end in &ends {
        let mut replay = Replay::new(log).expect("the log is not sorted");
        replay.advance_to(*end);
        drop(black_box(replay));
    }
    let from_start = start.elapsed();
    let start = Instant::now();
    let mut checkpoints = Checkpoints::new(log).expect("the log is not sorted");
    for end in &ends {
        drop(black_box(checkpoints.replay_to(*end)));
    }
    let by_checkpoints = start.elapsed();
    println!(
        "            {moments} live sets at random events: {from_start:.2?} from the start, {by_checkpoints:.2?} by \
         checkpoints: {:.1} times less",
        from_start.as_secs_f64() / by_checkpoints.as_secs_f64()
    );
}

fn next(random: &mut u64) -> usize {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*random >> 33) as usize
}

fn replay(log: &[u8]) -> Duration {
    let start = Instant::now();
    let mut replay = Replay::new(EventLog::new(log, EventLayout::Disk64)).expect("the log is not sorted");
    replay.advance_to(usize::MAX);
    assert!(replay.counts().unknown_deallocations == 0);
    start.elapsed()
}

/// A log with up to `live` blocks at a time: each event frees one of them at random, or allocates in its place.
fn log(events: u32, live: usize) -> Vec<u8> {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut taken = vec![false; live];
    let mut log = Vec::new();
    for _ in 0..events {
        let at = next(&mut random) % live;
        let kind = if taken[at] { FREED } else { ALLOCATED };
        taken[at] = !taken[at];
        let address = 0x6000_0000_0000 + (at as u64) * 48;
        for word in [48, address ^ 0x5555, kind | (at as u64 % 5_000)] {
            log.extend_from_slice(&u64::to_le_bytes(word));
        }
    }
    log
}
