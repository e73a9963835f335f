//! How long the statements of a migration wait for locks.

use crate::Result;
use sqlx::PgConnection;

/// How long a migration waits for a lock before it lets those go on that wait behind it.
pub(super) const LOCK_TIMEOUT: &str = "2s";
/// The value of `lock_timeout` for a statement that blocks no one while it waits.
pub(super) const NO_TIMEOUT: &str = "0";

/// Sets how long the statements of a connection wait for a lock.
pub(super) async fn set_lock_timeout(connection: &mut PgConnection, timeout: &str) -> Result<()> {
    sqlx::query("SELECT set_config('lock_timeout', $1, false)").bind(timeout).execute(connection).await?;
    Ok(())
}
