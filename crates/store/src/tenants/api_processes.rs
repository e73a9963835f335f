//! Which processes of the api run: each says so every few seconds. By the database's clock, as the hosts'
//! clocks may differ.

use crate::{Result, Store, Uuid};

/// Seconds after which a process that said nothing does not count any more.
pub const SILENT_SECONDS: f64 = 30.0;

/// Notes a process that begins, and gives it an id.
///
/// # Errors
/// Where the database fails.
pub async fn join(store: &Store) -> Result<Uuid> {
    let id = sqlx::query_scalar!(
        r#"INSERT INTO api_processes (id, seen_at) VALUES (unslide_uuid(now()), now()) RETURNING id"#
    );
    Ok(id.fetch_one(store.pool()).await?)
}

/// Notes that a process runs, forgets those that are gone, and returns the number that run: at least 1.
///
/// # Errors
/// Where the database fails.
pub async fn beat(store: &Store, process: Uuid) -> Result<u32> {
    sqlx::query!(
        "WITH gone AS (DELETE FROM api_processes WHERE seen_at < now() - make_interval(secs => $2) AND id <> $1)
         INSERT INTO api_processes (id, seen_at) VALUES ($1, now())
         ON CONFLICT (id) DO UPDATE SET seen_at = now()",
        process,
        SILENT_SECONDS
    )
    .execute(store.pool())
    .await?;
    let running = sqlx::query_scalar!(r#"SELECT count(*) AS "running!" FROM api_processes"#);
    Ok(u32::try_from(running.fetch_one(store.pool()).await?).unwrap_or(u32::MAX).max(1))
}

/// Notes that a process ends.
///
/// # Errors
/// Where the database fails.
pub async fn leave(store: &Store, process: Uuid) -> Result<()> {
    sqlx::query!("DELETE FROM api_processes WHERE id = $1", process).execute(store.pool()).await?;
    Ok(())
}
