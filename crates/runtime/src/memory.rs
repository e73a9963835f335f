//! Memory that was freed stays with the process for the next report, and goes back to the system once little happens.
//!
//! By itself the C library gives a large piece back as soon as it is freed, and a page of the next one has to be faulted
//! in again: a symbolizer would spend a fifth of its CPU time on that.

use nix::libc::{M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, c_int, mallopt};
use nix::time::{ClockId, clock_gettime};
use std::io;
use std::time::Duration;

/// Pieces of at least this size are given back at once.
const LARGE: c_int = 32 << 20;
/// The most that each part of the heap keeps.
const MOST_KEPT: c_int = 256 << 20;
/// How often the process's use of the CPU is looked at.
const EVERY: Duration = Duration::from_secs(10);
/// CPU time within that from which on the process is busy.
const BUSY: Duration = Duration::from_millis(500);

/// Keeps freed memory, until the process has done little for a while.
///
/// # Errors
/// Where the thread that gives memory back is refused.
#[expect(unsafe_code, reason = "settings of the C library")]
pub fn keep_freed() -> io::Result<()> {
    // SAFETY: both are numbers that it knows; it takes them under its own lock.
    unsafe {
        mallopt(M_MMAP_THRESHOLD, LARGE);
        mallopt(M_TRIM_THRESHOLD, MOST_KEPT);
    }
    std::thread::Builder::new().name("memory".to_owned()).spawn(give_back_when_idle).map(drop)
}

#[expect(unsafe_code, reason = "a call of the C library")]
fn give_back_when_idle() {
    let (mut before, mut was_busy) = (used(), false);
    loop {
        std::thread::sleep(EVERY);
        let now = used();
        let is_busy = now.saturating_sub(before) > BUSY;
        if was_busy && !is_busy {
            // SAFETY: it may be called at any time.
            unsafe { nix::libc::malloc_trim(0) };
        }
        (before, was_busy) = (now, is_busy);
    }
}

/// The CPU time of the process so far.
#[expect(clippy::disallowed_methods, reason = "it is no time of day")]
fn used() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}
