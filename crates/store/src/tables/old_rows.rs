//! The end of features' rows that do not go with reports.

use super::{OwnedTable, RowAge};
use crate::purge::rows_before;
use crate::{Result, Store};
use unslide_model::format_causes;

/// Deletes the old rows of all tables of features, as their declarations say. Returns their number.
///
/// # Errors
/// The first failure; one table's failure does not keep the rows of others.
pub async fn purge_features(store: &Store) -> Result<u64> {
    let (mut deleted, mut first) = (0, None);
    for table in store.hooks().iter().flat_map(|hook| hook.tables) {
        match delete_old_rows(store, table).await {
            Ok(rows) => deleted += rows,
            Err(error) => {
                let causes = format_causes(&error);
                tracing::warn!(table = table.name, error = causes, "old rows could not be removed");
                first.get_or_insert(error);
            }
        }
    }
    first.map_or(Ok(deleted), Err)
}

async fn delete_old_rows(store: &Store, table: &OwnedTable) -> Result<u64> {
    match table.age {
        RowAge::KeptFor(period) => rows_before(store, table.name, store.now() - period).await,
        _ => Ok(0),
    }
}
