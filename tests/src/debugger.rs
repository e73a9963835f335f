//! A thread of another process that stands still, as one does in a call that never returns.

use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::sync::mpsc;

/// Halts a thread for good; returns when it stands. Its process goes on, and can end.
///
/// # Panics
/// Where the kernel does not allow it: the process has to be one that this one has started.
pub fn halt(thread: i32) {
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
