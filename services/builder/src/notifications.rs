//! News of jobs and of outbox messages: one connection to the database listens for the whole process.

use std::time::Duration;
use tokio::sync::watch;
use unslide_store::{Channel, Listener, Store, StoreError};

/// The pause before listening is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a connection without notifications is waited on at a time.
const QUIET: Duration = Duration::from_secs(60);

/// Notifies of rows that were added to the database. A notification is a hint: a waiter looks by
/// himself after a while.
pub(crate) struct Notifications {
    jobs: watch::Sender<()>,
    outbox: watch::Sender<()>,
}

/// Waits for news since it was made or last waited.
pub(crate) struct Waiter(watch::Receiver<()>);

impl Notifications {
    pub(crate) fn new() -> Notifications {
        Notifications { jobs: watch::Sender::new(()), outbox: watch::Sender::new(()) }
    }

    /// Hears of jobs that were added.
    pub(crate) fn of_jobs(&self) -> Waiter {
        Waiter(self.jobs.subscribe())
    }

    /// Hears of messages that were put into the outbox.
    pub(crate) fn of_outbox(&self) -> Waiter {
        Waiter(self.outbox.subscribe())
    }

    /// Listens until it is dropped.
    pub(crate) async fn listen(&self, store: &Store) {
        loop {
            if let Err(error) = self.hear(store).await {
                tracing::warn!(error = %error, "listening for jobs failed; they are found by looking");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn hear(&self, store: &Store) -> Result<(), StoreError> {
        let mut listener = Listener::new(store, &[Channel::Jobs, Channel::Outbox]).await?;
        loop {
            match listener.wait(QUIET).await? {
                Some(Channel::Jobs) => self.jobs.send_replace(()),
                Some(Channel::Outbox) => self.outbox.send_replace(()),
                // Some may have been missed.
                None => {
                    self.jobs.send_replace(());
                    self.outbox.send_replace(());
                }
            }
        }
    }
}

impl Waiter {
    /// Marks the notifications so far as seen: the caller looks at what they are about next.
    pub(crate) fn looked(&mut self) {
        self.0.mark_unchanged();
    }

    /// Returns when there is something new, or after `at_most`.
    pub(crate) async fn wait(&mut self, at_most: Duration) {
        let notifications = async {
            if self.0.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        // Over: time to look.
        let _ = tokio::time::timeout(at_most, notifications).await;
    }
}
