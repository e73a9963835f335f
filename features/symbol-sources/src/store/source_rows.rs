//! The statements about rows of sources.

use crate::layouts::SourceLayout;
use crate::target::SymbolSourceKind;
use time::{Duration, OffsetDateTime};
use unslide_store::{OwnerTx, Result, TenantTx};

/// A source as the database has it.
#[derive(Clone, Debug)]
pub struct SourceRow {
    pub name: String,
    pub kind: SymbolSourceKind,
    pub layout: SourceLayout,
    pub shown_address: String,
    pub sealed_target: Vec<u8>,
    pub changed_at: OffsetDateTime,
    /// When it may be asked next.
    pub next_ask_at: OffsetDateTime,
    pub answered_at: Option<OffsetDateTime>,
    pub found_at: Option<OffsetDateTime>,
    /// Requests in a row that got no answer.
    pub failures: i32,
    pub problem: Option<String>,
}

/// A source to be set.
#[derive(Clone, Debug)]
pub struct NewSourceRow {
    pub name: String,
    pub kind: SymbolSourceKind,
    pub layout: SourceLayout,
    pub shown_address: String,
    pub sealed_target: Vec<u8>,
}

/// Returns the sources of the transaction's tenant, ordered by name.
pub async fn list_sources(tx: &mut TenantTx) -> Result<Vec<SourceRow>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        SourceRow,
        r#"SELECT name, kind AS "kind: SymbolSourceKind", layout AS "layout: SourceLayout", shown_address, sealed_target, changed_at,
                  next_ask_at, answered_at, found_at, failures, problem
           FROM symbol_sources WHERE tenant = $1 ORDER BY name"#,
        tenant
    );
    Ok(rows.fetch_all(connection).await?)
}

/// Lets one change of the sources of the transaction's tenant wait for the end of another, and returns them.
pub async fn lock_sources(tx: &mut TenantTx) -> Result<Vec<SourceRow>> {
    lock_tenant(tx).await?;
    list_sources(tx).await
}

async fn lock_tenant(tx: &mut OwnerTx) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "SELECT pg_advisory_xact_lock(hashtextextended('symbol sources of ' || $1::text, 0))",
        tenant
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Sets a source, under the lock of [`lock_sources`]. What it was asked for is asked again: it may be another place now.
pub async fn set_source(tx: &mut TenantTx, new: &NewSourceRow) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO symbol_sources (tenant, name, kind, layout, shown_address, sealed_target, changed_at, next_ask_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $7)
         ON CONFLICT (tenant, name) DO UPDATE
         SET kind = $3, layout = $4, shown_address = $5, sealed_target = $6, changed_at = $7, next_ask_at = $7, failures = 0,
             problem = NULL",
        tenant,
        new.name,
        new.kind.as_str(),
        new.layout.as_str(),
        new.shown_address,
        new.sealed_target,
        now
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "UPDATE symbol_source_requests SET attempts = 0, due_at = $3
         WHERE tenant = $1 AND source = $2 AND state <> 'found'",
        tenant,
        new.name,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Removes a source with its requests, under the lock of [`lock_sources`]. Returns false if there is none.
pub async fn remove_source(tx: &mut TenantTx, name: &str) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let removed = sqlx::query!("DELETE FROM symbol_sources WHERE tenant = $1 AND name = $2", tenant, name);
    if removed.execute(&mut *connection).await?.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query!("DELETE FROM symbol_source_requests WHERE tenant = $1 AND source = $2", tenant, name)
        .execute(connection)
        .await?;
    Ok(true)
}

/// Records that a source gave no answer, unless it was set again since. It is asked again after the pause.
pub async fn record_failure(
    tx: &mut TenantTx,
    source: &SourceRow,
    pause: Duration,
    problem: &str,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE symbol_sources SET failures = failures + 1, problem = $4, next_ask_at = $5
         WHERE tenant = $1 AND name = $2 AND changed_at = $3",
        tenant,
        source.name,
        source.changed_at,
        problem,
        now + pause
    )
    .execute(connection)
    .await?;
    Ok(())
}
