//! Settings of the allocator: the process keeps freed memory for the next report, and returns it when idle.
//!
//! By default the C library returns a large block when it is freed, and each page of the next one causes a page fault.
//! A symbolizer would spend a fifth of its CPU time on that.

use nix::libc::{M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, c_int, mallopt};
use nix::time::{ClockId, clock_gettime};
use std::io;
use std::time::Duration;

/// Size in bytes from which a block is returned at once.
const LARGE: c_int = 32 << 20;
/// The maximum number of free bytes that each arena of the heap keeps.
const MOST_KEPT: c_int = 256 << 20;
/// The interval between checks of the process's CPU use.
const CPU_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// CPU time per interval from which the process counts as busy.
const BUSY_CPU_TIME: Duration = Duration::from_millis(500);

/// Keeps freed memory until the process has been idle for a while.
///
/// # Errors
/// Returns an error if the thread that returns memory cannot be started.
#[expect(unsafe_code, reason = "settings of the C library")]
pub fn keep_freed() -> io::Result<()> {
    // SAFETY: both are valid parameters of mallopt, which takes its own lock.
    unsafe {
        mallopt(M_MMAP_THRESHOLD, LARGE);
        mallopt(M_TRIM_THRESHOLD, MOST_KEPT);
    }
    std::thread::Builder::new().name("memory".to_owned()).spawn(give_back_when_idle).map(drop)
}

#[expect(unsafe_code, reason = "a call of the C library")]
fn give_back_when_idle() {
    let (mut before, mut was_busy) = (read_cpu_time(), false);
    loop {
        std::thread::sleep(CPU_CHECK_INTERVAL);
        let now = read_cpu_time();
        let is_busy = now.saturating_sub(before) > BUSY_CPU_TIME;
        if was_busy && !is_busy {
            // SAFETY: malloc_trim may be called at any time.
            unsafe { nix::libc::malloc_trim(0) };
        }
        (before, was_busy) = (now, is_busy);
    }
}

/// Returns the memory limit of the process's control group (version 2) in bytes, or None if it has none.
pub(crate) fn read_limit() -> Option<u64> {
    parse_limit(&std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok()?)
}

fn parse_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Returns the CPU time of the process so far.
#[expect(clippy::disallowed_methods, reason = "it is no time of day")]
fn read_cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map(Duration::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::parse_limit;

    #[test]
    fn a_limit_is_a_number_and_none_is_a_word() {
        assert_eq!((parse_limit("536870912\n"), parse_limit("max\n")), (Some(536_870_912), None));
    }
}
