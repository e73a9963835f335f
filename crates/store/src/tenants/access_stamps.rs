//! Stamps of keys and tenants: a process that remembers a row learns from its stamp whether the row has changed.

use crate::column::TenantColumn;
use crate::{Result, Store, StoreError, Uuid};
use std::collections::HashMap;
use unslide_model::TenantId;

/// A row of which a process remembers something.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AccessEntry {
    /// A key, with the state and the limits of its tenant.
    Key(Uuid),
    /// A tenant: its state, its limits and its grouping rules.
    Tenant(TenantId),
}

/// Returns the stamps of these entries, in one statement. An entry that does not exist has none. A stamp differs from an
/// earlier one if anything that decides about access has changed and was committed before the call; the time of a key's
/// last use does not count.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn access_stamps(store: &Store, entries: &[AccessEntry]) -> Result<HashMap<AccessEntry, i64>> {
    let (mut keys, mut tenants) = (Vec::new(), Vec::new());
    for entry in entries {
        match entry {
            AccessEntry::Key(id) => keys.push(*id),
            AccessEntry::Tenant(tenant) => tenants.push(tenant.to_string()),
        }
    }
    let rows = sqlx::query!(
        r#"SELECT key, tenant AS "tenant: TenantColumn", stamp AS "stamp!" FROM unslide_access_stamps($1, $2)"#,
        &keys,
        &tenants
    )
    .fetch_all(store.pool())
    .await?;
    let stamps = rows.into_iter().map(|row| {
        let entry = match (row.key, row.tenant) {
            (Some(key), _) => AccessEntry::Key(key),
            (None, Some(tenant)) => AccessEntry::Tenant(tenant.into()),
            (None, None) => return Err(StoreError::corrupt("tenants", "a stamp of nothing")),
        };
        Ok((entry, row.stamp))
    });
    stamps.collect()
}
