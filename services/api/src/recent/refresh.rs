//! Reads the stamps of the keys and tenants in use, from the service's start to its end.

use super::changes::AccessChanges;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use unslide_model::Clock;
use unslide_store::Store;
use unslide_store::access_stamps::access_stamps;

/// The time between two stamp queries while requests come. Two of them fit into the second for which an
/// answer counts.
const STAMP_INTERVAL: Duration = Duration::from_millis(400);
/// Timeout of a stamp query.
const STAMP_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts to read stamps, until `stop`.
#[must_use]
pub fn start(
    changes: AccessChanges,
    store: Store,
    clock: Arc<dyn Clock>,
    stop: CancellationToken,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = refresh(&changes, &store, &*clock) => {}
        }
    })
}

async fn refresh(changes: &AccessChanges, store: &Store, clock: &dyn Clock) {
    let mut is_failing = false;
    loop {
        let at = clock.monotonic_micros();
        let entries = changes.entries_in_use(at);
        if entries.is_empty() {
            changes.wait_for_use().await;
            continue;
        }
        let error = match timeout(STAMP_TIMEOUT, access_stamps(store, &entries)).await {
            Ok(Ok(stamps)) => {
                changes.apply(&entries, &stamps, at);
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the database does not answer in time".to_owned()),
        };
        if let Some(error) = error.as_ref().filter(|_| !is_failing) {
            tracing::warn!(error, "changes of keys are not read; each key is looked up once a second");
        }
        is_failing = error.is_some();
        sleep(STAMP_INTERVAL).await;
    }
}
