//! Notifications from the database: a hint that there is something to do, never the only way to
//! learn of it.

use crate::{Result, Store};
use sqlx::postgres::PgListener;
use std::time::Duration;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A job was added.
    Jobs,
    /// A message was put into the outbox.
    Outbox,
    /// An upload's status changed; the payload is its id.
    Uploads,
}

impl Channel {
    fn name(self) -> &'static str {
        match self {
            Channel::Jobs => "unslide_jobs",
            Channel::Outbox => "unslide_outbox",
            Channel::Uploads => "unslide_uploads",
        }
    }
}

/// Hears one channel on a connection of its own.
pub struct Listener(PgListener);

impl Listener {
    /// Begins to listen.
    ///
    /// # Errors
    /// Where the database cannot be reached.
    pub async fn new(store: &Store, channel: Channel) -> Result<Listener> {
        let mut listener = PgListener::connect_with(store.pool()).await?;
        listener.listen(channel.name()).await?;
        Ok(Listener(listener))
    }

    /// Waits for the next notification and gives its payload; `None` after `at_most`, or where the
    /// connection was lost and made again, when a notification may have been missed.
    ///
    /// # Errors
    /// Where the database cannot be reached any more.
    pub async fn wait(&mut self, at_most: Duration) -> Result<Option<String>> {
        match tokio::time::timeout(at_most, self.0.try_recv()).await {
            Ok(Ok(notification)) => Ok(notification.map(|n| n.payload().to_owned())),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Ok(None),
        }
    }
}
