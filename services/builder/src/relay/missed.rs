//! Looking for wakes that were missed, whatever the cause.

use crate::builder::Builder;
use std::time::Duration;
use tokio::time::sleep;
use unslide_store::wakes;

/// Before the first look, so that builders that start again and again don't look all the time.
const FIRST: Duration = Duration::from_secs(10);
/// Between two looks: each goes through all waits.
const EVERY: Duration = Duration::from_secs(3_600);
/// After one that failed.
const AGAIN: Duration = Duration::from_secs(60);

/// Looks until it is dropped.
pub(crate) async fn look(builder: &Builder) {
    let mut pause = FIRST;
    loop {
        sleep(pause).await;
        pause = match wakes::missed::ask(&builder.store).await {
            Ok(found) => {
                builder.metrics.missed_wakes.set(i64::try_from(found).unwrap_or(i64::MAX));
                if found > 0 {
                    tracing::warn!(
                        waits = found,
                        "reports waited for symbols that are there; they are asked for"
                    );
                }
                EVERY
            }
            Err(error) => {
                tracing::warn!(error = %error, "missed wakes could not be looked for");
                AGAIN
            }
        };
    }
}
