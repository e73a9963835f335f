//! Listens for changes of keys and tenants, from the service's start to its end.

use super::Recent;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use unslide_model::Clock;
use unslide_store::access_changes::AccessListener;
use unslide_store::{Store, StoreError};

/// Between two heartbeats while requests come: three within the second that one counts for.
const HEARTBEAT: Duration = Duration::from_millis(300);
/// While none come.
const QUIET: Duration = Duration::from_secs(60);
/// How long an answer may take. A connection that is silent for longer is given up.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause before another connection.
const PAUSE: Duration = Duration::from_secs(1);

/// Begins to listen, until `stop`.
#[must_use]
pub fn start(recent: Recent, store: Store, clock: Arc<dyn Clock>, stop: CancellationToken) -> JoinHandle<()> {
    tokio::spawn(async move {
        let listening = async {
            loop {
                let error = match listen(&recent, &store, &*clock).await {
                    Ok(()) => "the connection was lost".to_owned(),
                    Err(error) => error.to_string(),
                };
                tracing::warn!(error, "changes of keys are not heard; the database is asked once a second");
                sleep(PAUSE).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = listening => {}
        }
    })
}

/// Listens on one connection, until it is lost.
async fn listen(recent: &Recent, store: &Store, clock: &dyn Clock) -> Result<(), StoreError> {
    let changes = &recent.changes;
    let mut listener = AccessListener::new(store).await?;
    changes.begin(clock.monotonic_micros());
    loop {
        let in_use = changes.is_used(clock.monotonic_micros());
        tokio::select! {
            changed = listener.next() => match changed? {
                Some(tenant) => recent.forget(&tenant),
                None => return Ok(()),
            },
            () = sleep(if in_use { HEARTBEAT } else { QUIET }) => {}
            () = changes.wanted() => {}
        }
        let asked = clock.monotonic_micros();
        let Ok(changed) = timeout(PATIENCE, listener.catch_up()).await else { return Ok(()) };
        for tenant in changed? {
            recent.forget(&tenant);
        }
        changes.heard_until(asked);
    }
}
