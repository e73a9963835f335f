//! Looks up which tenants exist, once for each.

use std::collections::BTreeSet;
use unslide_model::TenantId;
use unslide_store::{Store, StoreError, tenants};

/// The tenants that are known to exist. A deleted tenant keeps its name, so a known tenant needs no second
/// look-up.
#[derive(Default)]
pub struct KnownTenants(BTreeSet<TenantId>);

impl KnownTenants {
    /// Returns those of these tenants that do not exist.
    ///
    /// # Errors
    /// Returns an error if the database fails.
    pub async fn find_unknown(
        &mut self,
        store: &Store,
        named: impl Iterator<Item = &TenantId>,
    ) -> Result<BTreeSet<TenantId>, StoreError> {
        let asked = named.filter(|tenant| !self.0.contains(*tenant)).cloned().collect();
        let unknown = tenants::find_unknown(store, &asked).await?;
        self.0.extend(asked.difference(&unknown).cloned());
        Ok(unknown)
    }
}
