//! Figures of all tenants as metrics.

use crate::metrics::TenantGauges;
use std::time::Duration;
use tokio::time::Instant;
use unslide_store::figures::{self, FigureOrder};
use unslide_store::{Store, StoreError};

/// Interval between two reads: each goes through the symbols of all tenants.
const READ_INTERVAL: Duration = Duration::from_secs(60);

/// Reads the figures of all tenants once a minute.
pub struct TenantWatch {
    store: Store,
    gauges: TenantGauges,
    /// Limit on symbols of tenants that have none of their own.
    symbol_limit: u64,
    read_at: Option<Instant>,
}

impl TenantWatch {
    /// Creates a watch that has read nothing yet.
    pub fn new(store: Store, gauges: TenantGauges, symbol_limit: u64) -> TenantWatch {
        TenantWatch { store, gauges, symbol_limit, read_at: None }
    }

    /// Sets the gauges unless they were set within the last minute.
    ///
    /// # Errors
    /// Returns an error if the database does not answer. Until the next read no tenant has a gauge then.
    pub async fn update_gauges(&mut self) -> Result<(), StoreError> {
        if self.read_at.is_some_and(|at| at.elapsed() < READ_INTERVAL) {
            return Ok(());
        }
        self.read_at = Some(Instant::now());
        // Each gauge has an order of its own.
        let read =
            figures::list_figures(&self.store, FigureOrder::Full, self.symbol_limit, None, u32::MAX).await;
        self.gauges.set_figures(read.as_deref().unwrap_or_default());
        read.map(drop)
    }
}
