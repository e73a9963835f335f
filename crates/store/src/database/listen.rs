//! Notifications from the database: a hint that there is something to do, never the only way to
//! learn of it.

use crate::{Result, Store};
use sqlx::postgres::PgListener;
use std::time::Duration;

/// A channel that the database notifies listeners on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A job was added.
    Jobs,
    /// A message was put into the outbox.
    Outbox,
}

impl Channel {
    const ALL: [Channel; 2] = [Channel::Jobs, Channel::Outbox];

    fn name(self) -> &'static str {
        match self {
            Channel::Jobs => "unslide_jobs",
            Channel::Outbox => "unslide_outbox",
        }
    }
}

/// Listens to some channels on a connection of its own, which is one of the pool's.
pub struct Listener(PgListener);

impl Listener {
    /// Begins to listen.
    pub async fn new(store: &Store, channels: &[Channel]) -> Result<Listener> {
        let mut listener = PgListener::connect_with(store.pool()).await?;
        listener.listen_all(channels.iter().map(|channel| channel.name())).await?;
        Ok(Listener(listener))
    }

    /// Waits for the next notification and returns its channel. Returns None after `at_most`, or if the
    /// connection was lost and made again, so that notifications may have been missed. No notification has a
    /// payload: every role of the database may listen to a channel and may write to it, so a payload is
    /// ignored.
    pub async fn wait_for_notification(&mut self, at_most: Duration) -> Result<Option<Channel>> {
        match tokio::time::timeout(at_most, self.0.try_recv()).await {
            Ok(Ok(heard)) => Ok(heard.and_then(|notification| {
                Channel::ALL.into_iter().find(|channel| channel.name() == notification.channel())
            })),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Ok(None),
        }
    }
}
