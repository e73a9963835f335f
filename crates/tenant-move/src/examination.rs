//! The contents of a move, and the reasons for which it is refused.

use crate::catalog::{MovedTable, Tables, quote_name, quote_text};
use crate::error::During;
use crate::history::{NO_HISTORY, count_rows_to_bring, has_history};
use crate::objects::count_objects;
use crate::places::Places;
use crate::transactions::{Reads, TimeLimits, begin_owner};
use crate::{CellServers, Move, TenantMoveError};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;
use unslide_artifacts::keys;
use unslide_store::cells::list_cells;
use unslide_store::place::TenantPlace;
use unslide_store::tenants::{self, TenantStanding};

/// How the columns of secrets begin that are sealed with a key of the service.
const SEALED_COLUMN: &str = "sealed_";

/// The rows of the tenant in one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSize {
    /// The table.
    pub name: String,
    /// Rows of the tenant.
    pub rows: u64,
    /// Bytes of these rows in PostgreSQL.
    pub bytes: u64,
}

/// The contents of a move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Examination {
    /// Tables with rows of the tenant, in the order in which they are copied.
    pub tables: Vec<TableSize>,
    /// Rows of reports in ClickHouse, which come back to PostgreSQL first.
    pub history_rows: u64,
    /// Objects of the tenant.
    pub objects: u64,
    /// Bytes of these objects.
    pub object_bytes: u64,
    /// Uploads in parts that are not complete. They are not copied: the client begins again.
    pub unfinished_uploads: u64,
}

/// Circumstances that may be in the way of a move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Obstacles {
    /// Reasons for which the move is refused.
    pub refusals: Vec<String>,
    /// Tables with sealed secrets of the tenant: the new cell needs the same sealing keys.
    pub sealed: Vec<String>,
    /// True if the old cell has handed the tenant over: the move ends without checks.
    pub is_handed_over: bool,
    /// True if the new cell has the tenant by an earlier move, and the old cell's database was restored to a time before it.
    pub is_restored: bool,
}

pub(crate) async fn find_obstacles(job: &Move<'_>) -> Result<Obstacles, TenantMoveError> {
    let places = Places::read(job).await?;
    let refusals = find_refusals(job, &places).await?;
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let tables = Tables::read(job.from, tx.parts().0).await?;
    let sealed = find_sealed(job, tx.parts().0, &tables).await?;
    tx.rollback().await?;
    Ok(Obstacles {
        refusals,
        sealed,
        is_handed_over: places.is_handed_over(job),
        is_restored: places.is_restored(),
    })
}

pub(crate) async fn examine_move(job: &Move<'_>) -> Result<Examination, TenantMoveError> {
    let mut examination = Examination::default();
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let connection = tx.parts().0;
    let tables = Tables::read(job.from, connection).await?;
    let sizes: Vec<String> = tables.ordered.iter().map(|table| size_query(job, table)).collect();
    let sizes: Vec<(String, i64, i64)> = sqlx::query_as(AssertSqlSafe(sizes.join(" UNION ALL ")))
        .fetch_all(&mut *connection)
        .await
        .during(&job.from.name, "measuring tables")?;
    let number = |number: i64| u64::try_from(number).unwrap_or_default();
    examination.tables = sizes
        .into_iter()
        .filter(|(_, rows, _)| *rows > 0)
        .map(|(name, rows, bytes)| TableSize { name, rows: number(rows), bytes: number(bytes) })
        .collect();
    let unfinished: i64 = sqlx::query_scalar("SELECT count(*) FROM partial_uploads WHERE tenant = $1")
        .bind(job.tenant.as_str())
        .fetch_one(&mut *connection)
        .await
        .during(&job.from.name, "counting uploads")?;
    tx.rollback().await?;
    examination.history_rows = count_rows_to_bring(job).await?;
    examination.unfinished_uploads = number(unfinished);
    let counted = count_objects(&job.from.objects, &keys::tenant_prefix(&job.tenant)).await?;
    examination.objects = counted.listed;
    examination.object_bytes = counted.listed_bytes;
    Ok(examination)
}

/// Lists the tables with secrets of the tenant that are sealed with a key of the old cell.
async fn find_sealed(
    job: &Move<'_>,
    connection: &mut PgConnection,
    tables: &Tables,
) -> Result<Vec<String>, TenantMoveError> {
    let mut sealed = Vec::new();
    for table in &tables.ordered {
        let columns = table.columns.iter().filter(|column| column.name.starts_with(SEALED_COLUMN));
        let columns: Vec<String> =
            columns.map(|column| format!("octet_length(t.{}) > 0", quote_name(&column.name))).collect();
        if columns.is_empty() {
            continue;
        }
        let any = format!(
            "SELECT EXISTS (SELECT FROM {} t WHERE t.tenant = $1 AND ({}))",
            table.quoted(),
            columns.join(" OR ")
        );
        let any = sqlx::query_scalar(AssertSqlSafe(any))
            .bind(job.tenant.as_str())
            .fetch_one(&mut *connection)
            .await;
        if any.during(&job.from.name, "looking for sealed secrets")? {
            sealed.push(table.name.clone());
        }
    }
    Ok(sealed)
}

fn size_query(job: &Move<'_>, table: &MovedTable) -> String {
    format!(
        "SELECT {}, count(*), coalesce(sum(pg_column_size(t.*)), 0)::bigint FROM {} t WHERE t.tenant = {}",
        quote_text(&table.name),
        table.quoted(),
        quote_text(job.tenant.as_str())
    )
}

/// Lists the reasons for which the databases do not allow the move.
pub(crate) async fn find_refusals(job: &Move<'_>, places: &Places) -> Result<Vec<String>, TenantMoveError> {
    let (from, to) = (&job.from.name, &job.to.name);
    let mut refusals = Vec::new();
    refusals.extend(match places.from.as_ref().map(|location| location.place) {
        None => Some(format!("the cell {from} has no such tenant")),
        Some(TenantPlace::Moved) => Some(format!("the cell {from} has handed it over to another cell")),
        Some(TenantPlace::Arriving) => {
            Some(format!("it is on its way to the cell {from}: end that move first"))
        }
        Some(TenantPlace::Here | TenantPlace::Leaving) => None,
    });
    refusals.extend(match places.to.as_ref().map(|location| location.place) {
        None | Some(TenantPlace::Arriving) => None,
        Some(TenantPlace::Moved) => Some(format!(
            "the cell {to} had it before, and keeps its row to pass late records on: choose a cell that never had it"
        )),
        Some(TenantPlace::Here | TenantPlace::Leaving) if places.is_restored() => None,
        Some(TenantPlace::Here | TenantPlace::Leaving) => {
            Some(format!("the cell {to} has another tenant of that name, or one that was deleted"))
        }
    });
    if places.from.is_some() {
        refusals.extend(find_state_refusals(job).await?);
    }
    if list_migrations(job.from, job).await? != list_migrations(job.to, job).await? {
        refusals.push(format!(
            "{from} and {to} have other migrations: run `unslide migrate` of one version in both"
        ));
    }
    let cells = list_cells(job.directory).await?;
    refusals.extend(match cells.iter().find(|cell| cell.name == *to) {
        None => Some(format!("the directory has no cell {to}: `unslide cells list` shows the cells")),
        Some(cell) if cell.topic_prefix != job.to.topic_prefix => Some(format!(
            "the directory says that the topics of {to} begin with \"{}\", its settings say \"{}\"",
            cell.topic_prefix, job.to.topic_prefix
        )),
        Some(_) => None,
    });
    if job.from.topic_prefix == job.to.topic_prefix {
        refusals.push(format!("{from} and {to} have the same topics: kafka.topic_prefix must differ"));
    }
    Ok(refusals)
}

/// Lists the reasons that lie in the tenant's own rows.
async fn find_state_refusals(job: &Move<'_>) -> Result<Vec<String>, TenantMoveError> {
    let mut refusals = Vec::new();
    let mut tx = begin_owner(job.from, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    if tenants::get(&mut tx).await?.is_some_and(|tenant| tenant.state == TenantStanding::Deleted) {
        refusals.push("it was deleted".to_owned());
    }
    tx.rollback().await?;
    if job.from.store.history().is_none() && has_history(job).await? {
        refusals.push(NO_HISTORY.to_owned());
    }
    Ok(refusals)
}

async fn list_migrations(cell: &CellServers, job: &Move<'_>) -> Result<Vec<(i64, Vec<u8>)>, TenantMoveError> {
    let mut tx = begin_owner(cell, &job.tenant, Reads::Latest, TimeLimits::NONE).await?;
    let migrations =
        sqlx::query_as("SELECT version, checksum FROM _sqlx_migrations WHERE success ORDER BY version")
            .fetch_all(tx.parts().0)
            .await
            .during(&cell.name, "listing migrations")?;
    tx.rollback().await?;
    Ok(migrations)
}
