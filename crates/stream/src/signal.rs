//! Lets a thread wait for several things at once: its Kafka client wakes it when there is something to poll, and
//! its users do too. So it need not look ten times a second whether there is anything.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// Wakes one thread.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
    waiter: OnceLock<Thread>,
}

impl Signal {
    /// Wakes the thread, or has its next wait return at once.
    pub(crate) fn raise(&self) {
        self.raised.store(true, Ordering::SeqCst);
        if let Some(waiter) = self.waiter.get() {
            waiter.unpark();
        }
    }

    /// Waits until the signal is raised, at most `at_most`, and lowers it again. It may return early. All calls
    /// have to come from one thread.
    pub(crate) fn wait(&self, at_most: Duration) {
        self.waiter.get_or_init(std::thread::current);
        // One that is raised from here on lets the thread go on at once.
        if !self.raised.swap(false, Ordering::SeqCst) {
            std::thread::park_timeout(at_most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc;

    #[test]
    fn a_signal_is_never_missed_whenever_it_is_raised() {
        let signal = Arc::new(Signal::default());
        let (sender, woken) = mpsc::channel();
        // Raised before anybody waits.
        signal.raise();
        let waiting = Arc::clone(&signal);
        let thread = std::thread::spawn(move || {
            for _ in 0..1_000 {
                waiting.wait(Duration::from_secs(600));
                sender.send(()).unwrap();
            }
        });
        for _ in 0..1_000 {
            // Each may find the thread before, in or behind its wait.
            woken.recv_timeout(Duration::from_secs(60)).unwrap();
            signal.raise();
        }
        thread.join().unwrap();
    }
}
