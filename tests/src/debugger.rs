//! A thread of another process that stands still, as one does in a call that never returns.

use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::sync::mpsc;
use std::time::Duration;

/// Halts a thread permanently in a call that waits; returns when it stands. Its process goes on, and can end.
///
/// # Panics
/// If the thread does not wait for anything, or the kernel does not allow it: the process has to be one that this
/// one has started.
pub fn halt_thread(thread: i32) {
    wait_asleep(thread);
    let (stands, standing) = mpsc::channel();
    // Only the thread that halts another may hear of it.
    std::thread::spawn(move || {
        let thread = Pid::from_raw(thread);
        ptrace::seize(thread, Options::empty()).expect("a thread of a child");
        ptrace::interrupt(thread).expect("it is seized");
        let wait = || waitpid(thread, Some(WaitPidFlag::__WALL));
        wait().expect("it stands");
        // The caller may have given up.
        let _ = stands.send(());
        // A process is not gone before all that is left of its halted thread was seen.
        while !matches!(wait(), Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(_)) {}
    });
    standing.recv().expect("the thread stands");
}

/// Waits until a thread is asleep two times in a row: then it waits for more than a lock.
fn wait_asleep(thread: i32) {
    let path = format!("/proc/{thread}/task/{thread}/stat");
    let mut times = 0;
    for _ in 0..5_000 {
        let stat = std::fs::read_to_string(&path).expect("the thread runs");
        // Its state is behind its name in parentheses.
        let is_asleep = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'));
        times = if is_asleep { times + 1 } else { 0 };
        if times == 2 {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the thread {thread} is never asleep");
}
