//! Days that are over: each tenant's by its own limit, the tables once no tenant keeps them.

use super::{Compactor, Trouble};
use time::{Date, UtcOffset};
use unslide_model::TenantId;
use unslide_store::tenants::{self, State};
use unslide_store::{partitions, retention};

/// Reports that one transaction deletes.
const REPORTS: u32 = 1_000;
/// Objects that one transaction condemns, and images that it forgets.
const OBJECTS: u32 = 1_000;
/// Tenants that are looked up at once.
const TENANTS: u32 = 200;

impl Compactor {
    /// Deletes every tenant's reports that are older than its limit, then the tables of the days that
    /// nobody keeps, then what of those days lies in object storage, and images that no report wants any
    /// more. Gives up half-way when the service stops; the next time goes on.
    ///
    /// # Errors
    /// Where the database fails.
    pub async fn expire(&self) -> Result<(), Trouble> {
        let settings = &self.settings;
        let today = self.store.clock().now().to_offset(UtcOffset::UTC).date();
        let longest = retention::longest(&self.store, settings.keep_days, settings.remember_days).await?;
        let all = self.boundaries(today).await?;
        let oldest = today.saturating_sub(time::Duration::days(longest.into()));
        // What all tenants are done with goes with its tables.
        for (tenant, before) in all.iter().filter(|(_, before)| *before > oldest) {
            loop {
                if self.shutdown.is_begun() {
                    return Ok(());
                }
                let mut tx = self.store.tenant(tenant).await?;
                let expired = retention::expire(&mut tx, *before, REPORTS).await?;
                tx.commit().await?;
                self.metrics.expired.inc_by(expired);
                if expired == 0 {
                    break;
                }
            }
        }
        let dropped = partitions::drop_before(&self.store, oldest).await?;
        if dropped > 0 {
            tracing::info!(tables = dropped, "dropped the tables of days that are over");
        }
        for (tenant, before) in &all {
            loop {
                let mut tx = self.store.tenant(tenant).await?;
                let condemned = retention::condemn_days(&mut tx, *before, OBJECTS).await?;
                let forgotten = retention::forget_wanted(&mut tx, *before, OBJECTS).await?;
                tx.commit().await?;
                if condemned + forgotten == 0 || self.shutdown.is_begun() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Each tenant with the first day that is kept of it.
    async fn boundaries(&self, today: Date) -> Result<Vec<(TenantId, Date)>, Trouble> {
        let (mut all, mut last) = (Vec::new(), None);
        loop {
            let page = tenants::list(&self.store, last.as_ref(), TENANTS).await?;
            if page.is_empty() {
                return Ok(all);
            }
            last = page.last().map(|tenant| tenant.id.clone());
            // A deleted tenant's rows and objects are taken away by the builder.
            let kept = page.into_iter().filter(|tenant| tenant.state != State::Deleted);
            all.extend(kept.map(|tenant| {
                let limit = tenant.limits.retention_days;
                let days = retention::days(limit, self.settings.keep_days, self.settings.remember_days);
                (tenant.id, today.saturating_sub(time::Duration::days(days.into())))
            }));
        }
    }
}
