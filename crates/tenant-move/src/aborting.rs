//! Ends a move before the switch.

use crate::catalog::{Tables, quote_text};
use crate::error::During;
use crate::leaving::forget_move;
use crate::objects::delete_objects;
use crate::piping::{Side, execute_statement};
use crate::places::Places;
use crate::transactions::{MoveLock, Reads, TimeLimits, begin_owner, check_owner, commit_tx};
use crate::triggers::remove_triggers;
use crate::{Move, TenantMoveError};
use unslide_artifacts::keys;
use unslide_store::place;

pub(crate) async fn abort_move(job: &Move<'_>) -> Result<(), TenantMoveError> {
    let _lock = MoveLock::take_both(job).await?;
    let places = Places::read(job).await?;
    if places.is_handed_over(job) {
        return Err(TenantMoveError::Switched { tenant: job.tenant.clone(), cell: job.to.name.clone() });
    }
    for cell in [job.from, job.to] {
        check_owner(cell, &job.tenant).await?;
    }
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    place::thaw_tenant(&mut tx).await?;
    commit_tx(tx).await?;
    // First what is in the new cell: the notes in the old one say that a move has begun.
    if places.is_arriving() {
        remove_triggers(job.to, &job.tenant).await?;
        let objects = delete_objects(&job.to.objects, &keys::tenant_prefix(&job.tenant)).await?;
        let rows = delete_rows(job).await?;
        job.say(&format!("aborted: {rows} rows and {objects} objects deleted in the cell {}", job.to.name));
    }
    remove_triggers(job.from, &job.tenant).await?;
    forget_move(job.from, &job.tenant).await?;
    job.say(&format!("the cell {} serves the tenant {} as before", job.from.name, job.tenant));
    Ok(())
}

/// Deletes all rows of the arriving tenant, its own last.
async fn delete_rows(job: &Move<'_>) -> Result<u64, TenantMoveError> {
    let mut tx = begin_owner(job.to, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let tables = Tables::read(job.to, tx.parts().0).await?;
    let who = quote_text(job.tenant.as_str());
    let mut side = Side { cell: &job.to.name, connection: tx.parts().0 };
    let mut rows = 0;
    for table in tables.ordered.iter().rev() {
        let delete = format!("DELETE FROM {} t WHERE t.tenant = {who}", table.quoted());
        rows += execute_statement(&mut side, delete, &format!("clearing {}", table.name)).await?;
    }
    commit_tx(tx).await?;
    forget_move(job.to, &job.tenant).await?;
    let mut tx = begin_owner(job.to, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    for statement in
        ["DELETE FROM outbox WHERE tenant = $1", "DELETE FROM tenants WHERE slug = $1 AND place = 'arriving'"]
    {
        sqlx::query(statement)
            .bind(job.tenant.as_str())
            .execute(tx.parts().0)
            .await
            .during(&job.to.name, "deleting the tenant")?;
    }
    commit_tx(tx).await?;
    Ok(rows)
}
