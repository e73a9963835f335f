//! Jobs of tenants that are deleted.

use crate::failure::JobFailure;
use unslide_store::OwnerTx;
use unslide_store::tenants::{self, TenantStanding};

/// Fails if the transaction's tenant is deleted. Otherwise delays the deletion until the transaction ends,
/// for data that is stored outside of the database.
pub(crate) async fn check_alive(tx: &mut OwnerTx) -> Result<(), JobFailure> {
    match tenants::read_standing(tx).await? {
        Some(TenantStanding::Deleted) => Err(JobFailure::TenantDeleted),
        _ => Ok(()),
    }
}
