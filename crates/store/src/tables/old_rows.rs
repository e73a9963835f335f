//! The end of rows that are kept for a time of their own.

use super::{OwnedTable, RowAge};
use crate::purge::rows_before;
use crate::{Result, Store};
use unslide_model::format_causes;

/// Deletes the old rows of all tables that are [kept for](RowAge::KeptFor) a time. Returns their number.
///
/// # Errors
/// The first failure; one table's failure does not keep the rows of others.
pub async fn purge_old_rows(store: &Store) -> Result<u64> {
    let (mut deleted, mut first) = (0, None);
    for table in store.tables() {
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
