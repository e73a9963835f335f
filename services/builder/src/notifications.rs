//! Notifications about jobs and outbox messages: one connection to the database listens for the whole
//! process.

use std::time::Duration;
use tokio::sync::watch;
use unslide_store::{Channel, Listener, Store, StoreError};

/// Pause before listening is tried again.
const LISTEN_BACKOFF: Duration = Duration::from_secs(1);
/// Timeout of one wait for a notification.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(60);

/// Notifies of rows that were added to the database. A notification is only a hint, so a waiter also polls
/// after a while.
pub(crate) struct Notifications {
    jobs: watch::Sender<()>,
    outbox: watch::Sender<()>,
}

/// Waits for notifications since it was created or last waited.
pub(crate) struct Waiter(watch::Receiver<()>);

impl Notifications {
    pub(crate) fn new() -> Notifications {
        Notifications { jobs: watch::Sender::new(()), outbox: watch::Sender::new(()) }
    }

    /// Returns a waiter for jobs that were added.
    pub(crate) fn subscribe_jobs(&self) -> Waiter {
        Waiter(self.jobs.subscribe())
    }

    /// Returns a waiter for messages that were added to the outbox.
    pub(crate) fn subscribe_outbox(&self) -> Waiter {
        Waiter(self.outbox.subscribe())
    }

    /// Listens until it is dropped.
    pub(crate) async fn run_listener(&self, store: &Store) {
        loop {
            if let Err(error) = self.receive_notifications(store).await {
                tracing::warn!(error = %error, "listening for jobs failed; they are found by looking");
            }
            tokio::time::sleep(LISTEN_BACKOFF).await;
        }
    }

    async fn receive_notifications(&self, store: &Store) -> Result<(), StoreError> {
        let mut listener = Listener::new(store, &[Channel::Jobs, Channel::Outbox]).await?;
        loop {
            match listener.wait_for_notification(NOTIFICATION_TIMEOUT).await? {
                Some(Channel::Jobs) => self.jobs.send_replace(()),
                Some(Channel::Outbox) => self.outbox.send_replace(()),
                // Some notifications may have been missed.
                None => {
                    self.jobs.send_replace(());
                    self.outbox.send_replace(());
                }
            }
        }
    }
}

impl Waiter {
    /// Marks the notifications so far as seen; the caller polls next.
    pub(crate) fn mark_seen(&mut self) {
        self.0.mark_unchanged();
    }

    /// Waits for a notification, for at most `at_most`.
    pub(crate) async fn wait_for_change(&mut self, at_most: Duration) {
        let notifications = async {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        // After the timeout the caller polls.
        let _ = tokio::time::timeout(at_most, notifications).await;
    }
}
