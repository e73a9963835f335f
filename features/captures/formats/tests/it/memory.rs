//! What a replay costs in memory.

use unslide_captures_formats::malloc::{EventLayout, EventLog, Replay};
use unslide_testkit::memory::peak;

#[test]
fn a_replay_takes_the_memory_of_its_live_blocks_and_not_of_its_log() {
    // Blocks are freed a hundred events after they were allocated.
    let mut log = Vec::new();
    for n in 0..400_000_u64 {
        let (kind, block) = if n % 2 == 0 { (2_u64, n) } else { (4, n.saturating_sub(199)) };
        let address = 0x6000_0000 + (block % 4_000) * 16;
        for word in [16, address ^ 0x5555, kind << 56 | 1] {
            log.extend_from_slice(&u64::to_le_bytes(word));
        }
    }
    let (live, bytes) = peak(|| {
        let mut replay = Replay::new(EventLog::new(&log, EventLayout::Disk64)).unwrap();
        replay.advance_to(usize::MAX);
        replay.live().heap_blocks().count()
    });
    assert!((50..200).contains(&live), "{live}");
    assert!(bytes < 100_000, "{bytes} for a log of {}", log.len());
}
