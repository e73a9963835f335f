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
    const ALL: [Channel; 3] = [Channel::Jobs, Channel::Outbox, Channel::Uploads];

    fn name(self) -> &'static str {
        match self {
            Channel::Jobs => "unslide_jobs",
            Channel::Outbox => "unslide_outbox",
            Channel::Uploads => "unslide_uploads",
        }
    }
}

/// Hears some channels on a connection of its own, which is one of the pool's.
pub struct Listener(PgListener);

impl Listener {
    /// Begins to listen.
    pub async fn new(store: &Store, channels: &[Channel]) -> Result<Listener> {
        let mut listener = PgListener::connect_with(store.pool()).await?;
        listener.listen_all(channels.iter().map(|channel| channel.name())).await?;
        Ok(Listener(listener))
    }

    /// Waits for the next notification and gives its channel and payload; `None` after `at_most`, or
    /// where the connection was lost and made again, when notifications may have been missed.
    pub async fn wait(&mut self, at_most: Duration) -> Result<Option<(Channel, String)>> {
        match tokio::time::timeout(at_most, self.0.try_recv()).await {
            Ok(Ok(heard)) => Ok(heard.and_then(|notification| {
                let channel =
                    Channel::ALL.into_iter().find(|channel| channel.name() == notification.channel())?;
                Some((channel, notification.payload().to_owned()))
            })),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Ok(None),
        }
    }
}
