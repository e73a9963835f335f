//! Copies the rows that changed since their table was copied. Triggers in the old cell have noted their keys.
//!
//! A note says that a row changed, not how: the newest state of the row is copied, or its absence.

use crate::catalog::{MovedTable, Tables, count_rows, quote_text};
use crate::error::During;
use crate::partitions::prepare_partitions;
use crate::piping::{Side, execute_statement, pipe_rows};
use crate::transactions::{Reads, TimeLimits, begin_owner, commit_tx};
use crate::{CellServers, Move, Step, TenantMoveError};
use sqlx::postgres::PgConnection;
use std::collections::{BTreeMap, BTreeSet};
use unslide_model::TenantId;

/// In place of a table: before the name of one that is copied already or in part.
pub(crate) const PROGRESS: &str = "copied ";

/// Noted changes that one transaction copies. If rows refer to others with later notes, it copies more.
const FIRST_NOTES: i64 = 10_000;
pub(crate) const MOST_NOTES: i64 = 1_000_000;

/// The oldest notes of the tenant, in the order of their numbers.
pub(crate) struct RowNotes {
    numbers: Vec<i64>,
    /// The tables with notes, each with the names that triggers gave it: its own or those of partitions.
    tables: BTreeMap<String, Vec<String>>,
}

impl RowNotes {
    /// Reads up to `limit` notes.
    pub(crate) async fn read(
        cell: &CellServers,
        connection: &mut PgConnection,
        tenant: &TenantId,
        limit: i64,
    ) -> Result<RowNotes, TenantMoveError> {
        let rows: Vec<(i64, String)> = sqlx::query_as(
            "SELECT number, target FROM moving_rows WHERE slug = $1 AND NOT starts_with(target, $2) ORDER BY number LIMIT $3",
        )
        .bind(tenant.as_str())
        .bind(PROGRESS)
        .bind(limit)
        .fetch_all(&mut *connection)
        .await
        .during(&cell.name, "reading noted changes")?;
        let targets: BTreeSet<&str> = rows.iter().map(|(_, target)| target.as_str()).collect();
        let targets: Vec<&str> = targets.into_iter().collect();
        // A partition that is gone has no table: its rows are gone with it.
        let roots: Vec<(String, String)> = sqlx::query_as(
            "SELECT n.target, c.relname::text FROM unnest($1::text[]) AS n (target)
             JOIN pg_class c ON c.oid = coalesce(pg_partition_root(to_regclass(n.target)), to_regclass(n.target))",
        )
        .bind(targets)
        .fetch_all(connection)
        .await
        .during(&cell.name, "reading the tables of noted changes")?;
        let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (target, root) in roots {
            tables.entry(root).or_default().push(target);
        }
        Ok(RowNotes { numbers: rows.into_iter().map(|(number, _)| number).collect(), tables })
    }

    /// Returns true if there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Returns the query of the noted keys of a table.
    fn key_query(&self, tenant: &TenantId, table: &MovedTable) -> String {
        let targets: Vec<String> =
            self.tables.get(&table.name).into_iter().flatten().map(|target| quote_text(target)).collect();
        let (first, last) = (self.numbers.first().unwrap_or(&0), self.numbers.last().unwrap_or(&0));
        format!(
            "SELECT DISTINCT {} FROM public.moving_rows m CROSS JOIN LATERAL jsonb_populate_record(NULL::{}, m.key) k
             WHERE m.slug = {} AND m.number BETWEEN {first} AND {last} AND m.target IN ({})",
            table.key_list("k"),
            table.quoted(),
            quote_text(tenant.as_str()),
            targets.join(", ")
        )
    }

    /// Brings the noted rows of these tables into temporary tables of the other database, and deletes those that are gone: the last
    /// table first, so that nothing refers to them. [`insert_noted`] inserts the others.
    pub(crate) async fn copy_rows(
        &self,
        tenant: &TenantId,
        tables: &[&MovedTable],
        from: &mut Side<'_>,
        to: &mut Side<'_>,
    ) -> Result<(), TenantMoveError> {
        let who = quote_text(tenant.as_str());
        for (index, table) in tables.iter().enumerate() {
            let keys = self.key_query(tenant, table);
            let columns = table.key_names();
            pipe_rows(from, &keys, to, &format!("keys_{index}"), &columns, &table.quoted()).await?;
            let rows = format!(
                "WITH k AS MATERIALIZED ({keys}) SELECT {} FROM k JOIN {} t ON {} WHERE t.tenant = {who}",
                table.value_list(),
                table.quoted(),
                table.same_key("t", "k")
            );
            let columns = table.column_list();
            pipe_rows(from, &rows, to, &format!("rows_{index}"), &columns, &table.quoted()).await?;
        }
        for (index, table) in tables.iter().enumerate().rev() {
            let gone = format!(
                "DELETE FROM {} t USING pg_temp.keys_{index} k
                 WHERE t.tenant = {who} AND {} AND NOT EXISTS (SELECT FROM pg_temp.rows_{index} r WHERE {})",
                table.quoted(),
                table.same_key("t", "k"),
                table.same_key("r", "k")
            );
            execute_statement(to, gone, &format!("deleting rows of {}", table.name)).await?;
        }
        Ok(())
    }

    /// Returns the tables of a set that have notes, in their order.
    pub(crate) fn noted_tables<'t>(
        &self,
        tables: &'t Tables,
        wanted: &BTreeSet<String>,
    ) -> Vec<&'t MovedTable> {
        let has_notes =
            |table: &&MovedTable| wanted.contains(&table.name) && self.tables.contains_key(&table.name);
        tables.ordered.iter().filter(has_notes).collect()
    }
}

/// Inserts what [`RowNotes::copy_rows`] has brought of a table.
pub(crate) async fn insert_noted(
    to: &mut Side<'_>,
    table: &MovedTable,
    index: usize,
) -> Result<(), TenantMoveError> {
    let statement = table.upsert_from(&format!("rows_{index}"));
    execute_statement(to, statement, &format!("writing {}", table.name)).await?;
    Ok(())
}

/// Copies the noted changes of the tables that are copied already or in part, until few are left. Forgets those of other tables,
/// which are copied later. Returns the number of notes.
pub(crate) async fn apply_notes(
    job: &Move<'_>,
    tables: &Tables,
    begun: &BTreeSet<String>,
) -> Result<u64, TenantMoveError> {
    let (mut limit, mut applied) = (FIRST_NOTES, 0);
    loop {
        match apply_page(job, tables, begun, limit).await {
            Ok(page) => {
                applied += page;
                if page < u64::try_from(limit).unwrap_or(u64::MAX) {
                    return Ok(applied);
                }
            }
            // They may refer to rows that have later notes, or lie in a partition that is new.
            Err(error) if error.is_out_of_order() && limit < MOST_NOTES => {
                prepare_partitions(job, tables).await?;
                limit *= 10;
            }
            Err(error) => return Err(error),
        }
    }
}

async fn apply_page(
    job: &Move<'_>,
    tables: &Tables,
    early: &BTreeSet<String>,
    limit: i64,
) -> Result<u64, TenantMoveError> {
    let mut from = begin_owner(job.from, &job.tenant, Reads::Snapshot, TimeLimits::NONE).await?;
    let notes = RowNotes::read(job.from, from.parts().0, &job.tenant, limit).await?;
    if notes.is_empty() {
        from.rollback().await?;
        return Ok(0);
    }
    let mut to = begin_owner(job.to, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let noted = notes.noted_tables(tables, early);
    let mut from_side = Side { cell: &job.from.name, connection: from.parts().0 };
    let mut to_side = Side { cell: &job.to.name, connection: to.parts().0 };
    notes.copy_rows(&job.tenant, &noted, &mut from_side, &mut to_side).await?;
    for (index, table) in noted.iter().enumerate() {
        insert_noted(&mut to_side, table, index).await?;
    }
    commit_tx(to).await?;
    from.rollback().await?;
    job.reach(Step::ChangesCopied).await;
    forget_notes(job, &notes.numbers).await?;
    Ok(notes.numbers.len() as u64)
}

/// Deletes exactly these notes: a transaction that commits late has a lower number than some of them.
async fn forget_notes(job: &Move<'_>, numbers: &[i64]) -> Result<(), TenantMoveError> {
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    sqlx::query("DELETE FROM moving_rows WHERE slug = $1 AND number = ANY ($2)")
        .bind(job.tenant.as_str())
        .bind(numbers)
        .execute(tx.parts().0)
        .await
        .during(&job.from.name, "forgetting copied changes")?;
    commit_tx(tx).await
}

/// Copies all noted changes, and compares the numbers of rows of the tables that are copied already, as one moment of the old
/// cell has them.
pub(crate) async fn compare_early(job: &Move<'_>, tables: &Tables) -> Result<(), TenantMoveError> {
    let mut from = begin_owner(job.from, &job.tenant, Reads::Snapshot, TimeLimits::NONE).await?;
    let mut to = begin_owner(job.to, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let notes = RowNotes::read(job.from, from.parts().0, &job.tenant, MOST_NOTES).await?;
    let noted = notes.noted_tables(tables, &tables.early_names());
    let mut from_side = Side { cell: &job.from.name, connection: from.parts().0 };
    let mut to_side = Side { cell: &job.to.name, connection: to.parts().0 };
    notes.copy_rows(&job.tenant, &noted, &mut from_side, &mut to_side).await?;
    for (index, table) in noted.iter().enumerate() {
        insert_noted(&mut to_side, table, index).await?;
    }
    let who = job.tenant.as_str();
    let here = count_rows(job.from, from_side.connection, who, tables.early(), None).await?;
    let there = count_rows(job.to, to_side.connection, who, tables.early(), None).await?;
    commit_tx(to).await?;
    from.rollback().await?;
    forget_notes(job, &notes.numbers).await?;
    compare_counts(&here, &there)
}

/// Compares numbers of rows.
///
/// # Errors
/// [`TenantMoveError::Unequal`] with the first table that differs.
pub(crate) fn compare_counts(
    from: &BTreeMap<String, u64>,
    to: &BTreeMap<String, u64>,
) -> Result<(), TenantMoveError> {
    for (table, rows) in from {
        let there = to.get(table).copied().unwrap_or_default();
        if *rows != there {
            let number = |rows: u64| i64::try_from(rows).unwrap_or(i64::MAX);
            return Err(TenantMoveError::Unequal {
                table: table.clone(),
                from: number(*rows),
                to: number(there),
            });
        }
    }
    Ok(())
}
