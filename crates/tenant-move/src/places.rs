//! The location of the tenant, as both cells have it.

use crate::error::During;
use crate::transactions::{Reads, TimeLimits, begin_owner};
use crate::{CellServers, Move, TenantMoveError};
use unslide_model::TenantId;
use unslide_store::place::{TenantLocation, TenantPlace, read_location};

/// The place of the tenant in both cells.
pub(crate) struct Places {
    pub from: Option<TenantLocation>,
    pub to: Option<TenantLocation>,
    /// The new cell has recorded that the tenant moved there from the old one.
    has_arrival: bool,
}

impl Places {
    pub(crate) async fn read(job: &Move<'_>) -> Result<Places, TenantMoveError> {
        Ok(Places {
            from: read_place(job.from, &job.tenant).await?,
            to: read_place(job.to, &job.tenant).await?,
            has_arrival: has_arrival(job).await?,
        })
    }

    /// Returns true if the old cell has handed the tenant over to the new one.
    pub(crate) fn is_handed_over(&self, job: &Move<'_>) -> bool {
        let moved_to = self.from.as_ref().and_then(|location| location.moved_to.as_deref());
        moved_to == Some(&job.to.topic_prefix)
    }

    /// Returns true if the new cell is still copying.
    pub(crate) fn is_arriving(&self) -> bool {
        self.to.as_ref().is_some_and(|location| location.place == TenantPlace::Arriving)
    }

    /// Returns true if both cells serve the tenant after a move: the old cell's database was restored to a time before it.
    pub(crate) fn is_restored(&self) -> bool {
        let is_here =
            |location: &TenantLocation| matches!(location.place, TenantPlace::Here | TenantPlace::Leaving);
        self.has_arrival && self.is_arrived() && self.from.as_ref().is_some_and(is_here)
    }

    /// Returns true if the new cell serves the tenant.
    pub(crate) fn is_arrived(&self) -> bool {
        self.to.as_ref().is_some_and(|location| location.place == TenantPlace::Here)
    }
}

/// Returns true if the audit log of the new cell has the move.
async fn has_arrival(job: &Move<'_>) -> Result<bool, TenantMoveError> {
    let mut tx = begin_owner(job.to, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let found = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM audit_log WHERE tenant = $1 AND action = 'tenant.move' AND detail ->> 'from' = $2)",
    )
    .bind(job.tenant.as_str())
    .bind(&job.from.name)
    .fetch_one(tx.parts().0)
    .await
    .during(&job.to.name, "looking for an earlier move")?;
    tx.rollback().await?;
    Ok(found)
}

async fn read_place(
    cell: &CellServers,
    tenant: &TenantId,
) -> Result<Option<TenantLocation>, TenantMoveError> {
    let mut tx = begin_owner(cell, tenant, Reads::Latest, TimeLimits::NONE).await?;
    let location = read_location(&mut tx).await?;
    tx.rollback().await?;
    Ok(location)
}
