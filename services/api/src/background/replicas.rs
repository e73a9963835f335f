//! How many processes of the api run: each lets in its part of a tenant's rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use unslide_store::{Store, StoreError, api_processes};

/// Between two looks. A process that is silent for three of them counts no more.
const EVERY: Duration = Duration::from_secs(10);

/// The number of processes, as it was at the last look. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Replicas(Arc<AtomicU32>);

impl Replicas {
    /// Notes that this process runs, and goes on to until `stop`; the task ends when it is noted that the
    /// process is gone. While the database does not answer, the last number holds.
    ///
    /// # Errors
    /// Where the database fails at the beginning.
    pub async fn start(
        store: Store,
        stop: CancellationToken,
    ) -> Result<(Replicas, JoinHandle<()>), StoreError> {
        let process = api_processes::join(&store).await?;
        let replicas = Replicas(Arc::new(AtomicU32::new(api_processes::beat(&store, process).await?)));
        let counted = replicas.clone();
        let task = tokio::spawn(async move {
            while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
                match api_processes::beat(&store, process).await {
                    Ok(running) => counted.0.store(running, Ordering::Relaxed),
                    Err(error) => tracing::warn!(error = %error, "the api's processes could not be counted"),
                }
            }
            if let Err(error) = api_processes::leave(&store, process).await {
                tracing::warn!(error = %error, "the end of this process could not be noted");
            }
        });
        Ok((replicas, task))
    }

    /// The number of processes; at least 1.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}
