//! Deletes expired days: each tenant's rows by its own limit, and the tables once no tenant keeps them.

use super::{BodyMover, MoveError};
use crate::config::Settings;
use time::{Date, UtcOffset};
use unslide_model::{TenantId, format_causes};
use unslide_store::reports::kept_bodies;
use unslide_store::tenants::{self, QuotaLimits, TenantStanding};
use unslide_store::{StoreError, expire_features, partitions, retention};

/// Number of reports that one transaction deletes.
const EXPIRED_REPORTS_LIMIT: u32 = 1_000;
/// Number of bodies that one transaction drops: their reports are locked.
const EXPIRED_BODIES_LIMIT: u32 = 500;
/// Number of objects that one transaction condemns, and of images, hours and rows of each feature that it deletes.
const CONDEMNED_OBJECTS_LIMIT: u32 = 1_000;
/// Number of tenants that are read at once.
const TENANT_PAGE_ENTRIES: u32 = 200;

impl BodyMover {
    /// Deletes every tenant's reports that are older than its limit. Then deletes the tables of the days that no
    /// tenant keeps, the objects of those days, expired rows of features, and images that no report needs any more. Stops half-way when the service stops; the next call continues.
    ///
    /// # Errors
    /// Returns the first failure. A failure for one tenant does not stop the deletion for the others.
    pub async fn expire_all(&self) -> Result<(), MoveError> {
        let settings = &self.settings;
        let today = self.store.clock().now().to_offset(UtcOffset::UTC).date();
        let longest =
            retention::read_longest_days(&self.store, settings.keep_days, settings.remember_days).await?;
        let all = self.list_boundaries(today).await?;
        let oldest = today.saturating_sub(time::Duration::days(longest.into()));
        // Days that no tenant keeps are deleted with their tables.
        let mut failed = None;
        for days in all.iter().filter(|days| days.reports > oldest) {
            keep_first_failure(&mut failed, self.expire_reports(&days.tenant, days.reports).await)?;
        }
        for days in &all {
            if let Some(before) = days.bodies {
                keep_first_failure(&mut failed, self.expire_bodies(&days.tenant, before).await)?;
            }
        }
        match partitions::drop_before(&self.store, oldest).await {
            Ok(0) => {}
            Ok(dropped) => tracing::info!(tables = dropped, "dropped the tables of days that are over"),
            Err(error) => keep_first_failure(&mut failed, Err(error))?,
        }
        for days in &all {
            keep_first_failure(&mut failed, self.condemn_days(&days.tenant, days.reports).await)?;
        }
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn expire_reports(&self, tenant: &TenantId, before: Date) -> Result<(), StoreError> {
        while !self.shutdown.is_begun() {
            let mut tx = self.store.tenant(tenant).await?;
            let expired = retention::expire_reports(&mut tx, before, EXPIRED_REPORTS_LIMIT).await?;
            tx.commit().await?;
            if expired == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Drops the bodies of a tenant that arrived before a day, which is later than the first one that reports are kept of.
    async fn expire_bodies(&self, tenant: &TenantId, before: Date) -> Result<(), StoreError> {
        while !self.shutdown.is_begun() {
            let mut tx = self.store.tenant(tenant).await?;
            let expired = kept_bodies::expire_bodies(&mut tx, before, EXPIRED_BODIES_LIMIT).await?;
            tx.commit().await?;
            if expired == 0 {
                break;
            }
        }
        Ok(())
    }

    async fn condemn_days(&self, tenant: &TenantId, before: Date) -> Result<(), StoreError> {
        while !self.shutdown.is_begun() {
            let mut tx = self.store.tenant(tenant).await?;
            let condemned = retention::condemn_days(&mut tx, before, CONDEMNED_OBJECTS_LIMIT).await?;
            // Rows are locked in the order in which reports are counted.
            let hours = retention::forget_hours(&mut tx, CONDEMNED_OBJECTS_LIMIT).await?;
            let forgotten = retention::forget_wanted(&mut tx, before, CONDEMNED_OBJECTS_LIMIT).await?;
            let expired = expire_features(&mut tx, before, CONDEMNED_OBJECTS_LIMIT).await?;
            tx.commit().await?;
            if condemned + forgotten + hours + expired == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Returns the first days that are kept for each tenant.
    pub async fn list_boundaries(&self, today: Date) -> Result<Vec<KeptDays>, MoveError> {
        let (mut all, mut last) = (Vec::new(), None);
        loop {
            let page = tenants::list_tenants(&self.store, last.as_ref(), TENANT_PAGE_ENTRIES).await?;
            if page.is_empty() {
                return Ok(all);
            }
            last = page.last().map(|tenant| tenant.id.clone());
            // The builder deletes a deleted tenant's rows and objects.
            let kept = page.into_iter().filter(|tenant| tenant.state != TenantStanding::Deleted);
            all.extend(kept.map(|tenant| {
                let QuotaLimits { retention_days, body_days, .. } = tenant.limits;
                let Settings { keep_days, remember_days, .. } = self.settings;
                let days = retention::kept_days(retention_days, keep_days, remember_days);
                let first = |days: u32| today.saturating_sub(time::Duration::days(days.into()));
                let bodies = (1..days).contains(&body_days).then(|| first(body_days));
                KeptDays { tenant: tenant.id, reports: first(days), bodies }
            }));
        }
    }
}

/// The first days that are kept for a tenant.
pub struct KeptDays {
    pub tenant: TenantId,
    /// The first day of reports.
    pub reports: Date,
    /// The first day of bodies, if it is later.
    pub bodies: Option<Date>,
}

/// Keeps the first failure, so that the other tenants are processed.
///
/// # Errors
/// Returns an outage of the database, which would affect every tenant.
fn keep_first_failure(
    failed: &mut Option<StoreError>,
    done: Result<(), StoreError>,
) -> Result<(), StoreError> {
    match done {
        // The cell that serves a tenant that is moving does it.
        Ok(()) | Err(StoreError::TenantMoving) => Ok(()),
        Err(error) if error.is_outage() => Err(error),
        Err(error) => {
            let text = format_causes(&error);
            tracing::warn!(
                error = text,
                "what is over cannot be deleted for one tenant or day and is tried again"
            );
            failed.get_or_insert(error);
            Ok(())
        }
    }
}
