//! The directory of cells: which cell has a tenant. A cell is an installation with a PostgreSQL, topics and objects of its own. The
//! directory is the database of one of them, or a small one with the same migrations.

pub mod place;
mod settings;

pub use settings::CellSettings;

use crate::column::TenantColumn;
use crate::{Result, Store};
use serde::Serialize;
use time::OffsetDateTime;
use unslide_model::TenantId;

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// Its name in the directory.
    pub name: String,
    /// The address of its api.
    pub url: String,
    /// The prefix of its topics.
    pub topic_prefix: String,
    /// The place of its servers, in the operator's words; may be empty.
    pub region: String,
}

/// The cell of a tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantCell {
    /// The tenant.
    pub tenant: TenantId,
    /// The cell's name.
    pub cell: String,
    /// Grows with each change of any tenant's cell.
    pub version: i64,
}

/// Lists the cells by name.
///
/// # Errors
/// The database fails.
pub async fn list_cells(directory: &Store) -> Result<Vec<Cell>> {
    let cells = sqlx::query_as!(Cell, "SELECT name, url, topic_prefix, region FROM cells ORDER BY name");
    Ok(cells.fetch_all(directory.pool()).await?)
}

/// Adds a cell, or changes the one of that name.
///
/// # Errors
/// The database fails, or its login may not: it needs that of the tables' owner.
pub async fn set_cell(directory: &mut sqlx::PgConnection, cell: &Cell, at: OffsetDateTime) -> Result<()> {
    sqlx::query!(
        "INSERT INTO cells (name, url, topic_prefix, region, created_at) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (name) DO UPDATE SET url = $2, topic_prefix = $3, region = $4",
        cell.name,
        cell.url,
        cell.topic_prefix,
        cell.region,
        at
    )
    .execute(directory)
    .await?;
    Ok(())
}

/// Returns the tenants that came to their cells after a version, in the order of the changes, at most `limit`.
///
/// # Errors
/// The database fails.
pub async fn find_changed_tenants(directory: &Store, after: i64, limit: u32) -> Result<Vec<TenantCell>> {
    let rows = sqlx::query_as!(
        TenantCell,
        r#"SELECT slug AS "tenant: TenantColumn", cell, version FROM cell_tenants WHERE version > $1 ORDER BY version LIMIT $2"#,
        after,
        i64::from(limit)
    );
    Ok(rows.fetch_all(directory.pool()).await?)
}

/// Says that a new tenant is in a cell. Returns the cell that has it: another one if the name was taken there before.
///
/// # Errors
/// The database fails, or there is no such cell.
pub async fn claim_tenant(directory: &Store, tenant: &TenantId, cell: &str) -> Result<String> {
    let claimed = sqlx::query_scalar!(
        r#"SELECT unslide_claim_tenant($1, $2, $3) AS "cell!""#,
        tenant.as_str(),
        cell,
        directory.now()
    );
    Ok(claimed.fetch_one(directory.pool()).await?)
}

/// Says that a tenant is in another cell from now on.
///
/// # Errors
/// The database fails, there is no such cell, or the login is not that of the tables' owner.
pub async fn set_tenant_cell(
    directory: &mut sqlx::PgConnection,
    tenant: &TenantId,
    cell: &str,
    at: OffsetDateTime,
) -> Result<()> {
    let mut tx = sqlx::Connection::begin(directory).await?;
    // As in `unslide_claim_tenant`: one change at a time.
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('cell_tenants', 0))")
        .execute(&mut *tx)
        .await?;
    sqlx::query!(
        "INSERT INTO cell_tenants (slug, cell, version, changed_at) VALUES ($1, $2, nextval('cell_changes'), $3)
         ON CONFLICT (slug) DO UPDATE SET cell = $2, version = EXCLUDED.version, changed_at = $3
         WHERE cell_tenants.cell <> $2",
        tenant.as_str(),
        cell,
        at
    )
    .execute(&mut *tx)
    .await?;
    Ok(tx.commit().await?)
}
