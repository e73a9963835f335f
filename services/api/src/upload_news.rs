//! News of uploads: one connection to the database listens for all requests that wait.

use std::time::Duration;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;
use unslide_store::{Channel, Listener, Store, Uuid};

/// Notifications that may pile up before a slow waiter looks again by itself.
const PENDING: usize = 256;
/// How often a waiter looks even without news: a notification is a hint only.
const LOOK: Duration = Duration::from_secs(2);

/// Says when an upload's status may have changed. Cheap to clone.
#[derive(Clone, Debug)]
pub struct UploadNews(broadcast::Sender<Uuid>);

impl UploadNews {
    /// Begins to listen, until `stop`.
    #[must_use]
    pub fn listen(store: Store, stop: CancellationToken) -> UploadNews {
        let news = UploadNews(broadcast::Sender::new(PENDING));
        let sender = news.clone();
        tokio::spawn(async move {
            tokio::select! {
                // First: the pool that is closed in a shutdown is no failure to tell of.
                biased;
                () = stop.cancelled() => {}
                () = sender.forward(&store) => {}
            }
        });
        news
    }

    /// Subscribes. What happens from now on is heard by [`Subscription::changed`].
    #[must_use]
    pub fn subscribe(&self, id: Uuid) -> Subscription {
        Subscription { id, news: self.0.subscribe() }
    }

    async fn forward(&self, store: &Store) {
        loop {
            if let Err(error) = self.hear(store).await {
                tracing::warn!(error = %error, "listening for uploads failed; waiting requests look for themselves");
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn hear(&self, store: &Store) -> Result<(), unslide_store::StoreError> {
        let mut listener = Listener::new(store, &[Channel::Uploads]).await?;
        loop {
            let heard = listener.wait(Duration::from_secs(60)).await?;
            if let Some(id) = heard.and_then(|(_, payload)| payload.parse().ok()) {
                // Nobody may be waiting.
                let _ = self.0.send(id);
            }
        }
    }
}

/// A waiter for one upload.
#[derive(Debug)]
pub struct Subscription {
    id: Uuid,
    news: broadcast::Receiver<Uuid>,
}

impl Subscription {
    /// Returns when the upload may have changed, after `at_most`, or after two seconds.
    pub async fn changed(&mut self, at_most: Duration) {
        let news = async {
            loop {
                match self.news.recv().await {
                    Ok(id) if id != self.id => {}
                    Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                    Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
                }
            }
        };
        // Over: time to look.
        let _ = tokio::time::timeout(at_most.min(LOOK), news).await;
    }
}
