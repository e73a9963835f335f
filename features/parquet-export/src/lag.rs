//! Measures how late the exports of all tenants are, beside the requests of the api: a builder that is away cannot say so.

use crate::settings::ExportTimes;
use crate::store;
use prometheus::IntGauge;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use unslide_store::Store;

/// Interval between two measurements of the lag.
const MEASURE_INTERVAL: Duration = Duration::from_secs(30);

/// Measures the lag until `stop` is cancelled.
pub fn start_measuring(
    store: Store,
    times: ExportTimes,
    lag: IntGauge,
    stop: CancellationToken,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            match store::oldest_due(&store, times.after_day, times.change_wait_max).await {
                Ok(due) => lag.set(due.map_or(0, |at| (store.now() - at).whole_seconds().max(0))),
                Err(error) => tracing::warn!(%error, "the lag of Parquet exports could not be measured"),
            }
            if tokio::time::timeout(MEASURE_INTERVAL, stop.cancelled()).await.is_ok() {
                return;
            }
        }
    })
}
