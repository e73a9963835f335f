//! The shutdown of a process and its time limit.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The error for signal handlers that cannot be set.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for signals")]
pub struct ListenError(#[from] std::io::Error);

/// The shutdown of a process. First it is announced: the process reports that it is not ready, and continues for the
/// notice time of its services. Then it begins: the process takes no new work and finishes running work. It expires
/// when the drain time is over or a second signal arrives: the rest is abandoned. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Shutdown {
    announced: CancellationToken,
    notice: Arc<Mutex<Duration>>,
    begun: CancellationToken,
    expired: CancellationToken,
    drain: Duration,
}

impl Shutdown {
    /// Creates a shutdown that has not begun, with the maximum time for draining.
    #[must_use]
    pub fn new(drain: Duration) -> Shutdown {
        Shutdown {
            announced: CancellationToken::new(),
            notice: Arc::default(),
            begun: CancellationToken::new(),
            expired: CancellationToken::new(),
            drain,
        }
    }

    /// Sets the time between SIGTERM and the beginning. For a service with clients that must switch to another process.
    pub fn set_notice(&self, notice: Duration) {
        *self.notice.lock() = notice;
    }

    /// Begins on SIGTERM after the notice, or on SIGINT, and expires on a second signal. Returns at once.
    ///
    /// # Errors
    /// Returns an error if a signal handler cannot be set.
    pub fn listen_for_signals(&self) -> Result<(), ListenError> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shutdown = self.clone();
        tokio::spawn(async move {
            let notice = tokio::select! {
                _ = terminate.recv() => *shutdown.notice.lock(),
                _ = interrupt.recv() => Duration::ZERO,
            };
            tracing::info!(
                notice_seconds = notice.as_secs(),
                drain_seconds = shutdown.drain.as_secs(),
                "asked to stop"
            );
            shutdown.announce();
            let is_second = tokio::select! {
                () = tokio::time::sleep(notice) => false,
                _ = terminate.recv() => true,
                _ = interrupt.recv() => true,
            };
            shutdown.begin();
            if !is_second {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
            }
            tracing::warn!("asked to stop a second time: aborting the jobs that still run");
            shutdown.expired.cancel();
        });
        Ok(())
    }

    /// Announces the shutdown. Does nothing if it is already announced.
    pub fn announce(&self) {
        self.announced.cancel();
    }

    /// Returns true after the announcement.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        self.announced.is_cancelled()
    }

    /// Begins the shutdown. Does nothing if it has already begun.
    pub fn begin(&self) {
        self.announce();
        self.begun.cancel();
    }

    /// Returns true after the beginning of the shutdown. For loops on separate threads.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Waits for the beginning of the shutdown.
    pub async fn wait_until_begun(&self) {
        self.begun.cancelled().await;
    }

    /// Returns the token that is cancelled at the beginning. A child token may be cancelled alone.
    #[must_use]
    pub fn token(&self) -> &CancellationToken {
        &self.begun
    }

    /// Returns the maximum time for draining.
    #[must_use]
    pub fn drain_timeout(&self) -> Duration {
        self.drain
    }

    /// Waits until the shutdown has begun and its drain time is over, or until a second signal.
    pub async fn wait_until_expired(&self) {
        self.wait_until_begun().await;
        tokio::select! {
            () = self.expired.cancelled() => {}
            () = tokio::time::sleep(self.drain) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_expires_only_after_it_has_begun_and_drained() {
        let shutdown = Shutdown::new(Duration::from_secs(10));
        let waiting = tokio::time::timeout(Duration::from_secs(60), shutdown.wait_until_expired()).await;
        assert!(waiting.is_err(), "nobody has begun it");
        shutdown.begin();
        assert!(shutdown.is_begun());
        let early = tokio::time::timeout(Duration::from_secs(9), shutdown.wait_until_expired()).await;
        assert!(early.is_err(), "it still drains");
        shutdown.wait_until_expired().await;
    }
}
