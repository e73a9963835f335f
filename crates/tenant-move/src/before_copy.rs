//! The checks before a move, and the tenant in the new cell.

use crate::catalog::Tables;
use crate::examination::find_refusals;
use crate::history::bring_rows_back;
use crate::observer::seconds_since;
use crate::partitions::prepare_partitions;
use crate::places::Places;
use crate::transactions::{Reads, TimeLimits, begin_owner, check_owner, commit_tx, connect_directory};
use crate::triggers::{WatchedChanges, watch_tables};
use crate::{Move, Step, TenantMoveError, copying};
use tokio::time::Instant;
use unslide_store::place;
use unslide_store::tenants::{self, TenantRecord, TenantStanding};

/// Refuses a move that cannot succeed.
pub(crate) async fn check_move(job: &Move<'_>, places: &Places) -> Result<(), TenantMoveError> {
    for cell in [job.from, job.to] {
        check_owner(cell, &job.tenant).await?;
    }
    drop(connect_directory(job).await?);
    match find_refusals(job, places).await?.into_iter().next() {
        None => Ok(()),
        Some(reason) => {
            Err(TenantMoveError::Refused { tenant: job.tenant.clone(), cell: job.to.name.clone(), reason })
        }
    }
}

/// Brings rows of the tenant back from ClickHouse, adds it to the new cell, and has changes of its rows noted in the old one. Returns the
/// tables that move.
pub(crate) async fn prepare_copy(job: &Move<'_>) -> Result<Tables, TenantMoveError> {
    let begin = Instant::now();
    let mut from = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    // An earlier process may have been killed while rows were frozen.
    place::thaw_tenant(&mut from).await?;
    let tables = Tables::read(job.from, from.parts().0).await?;
    let tenant = tenants::get(&mut from).await?;
    commit_tx(from).await?;
    let Some(tenant) = tenant else {
        return Err(TenantMoveError::Other(format!("the tenant {} is gone", job.tenant)));
    };
    copying::begin_progress(job).await?;
    bring_rows_back(job).await?;
    let mut to = begin_owner(job.to, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    // Nothing is due for a suspended tenant. The switch sets its true state.
    let arriving = TenantRecord { state: TenantStanding::Suspended, ..tenant };
    place::add_arriving(&mut to, &arriving).await?;
    commit_tx(to).await?;
    job.reach(Step::Arriving).await;
    prepare_partitions(job, &tables).await?;
    watch_tables(job, job.from, &tables, WatchedChanges::AllChanges).await?;
    watch_tables(job, job.to, &tables, WatchedChanges::OldRows).await?;
    job.say(&format!("watched: {} tables ({})", tables.ordered.len(), seconds_since(begin)));
    job.reach(Step::Watched).await;
    Ok(tables)
}
