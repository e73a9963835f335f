//! Triggers of one tenant on each table, which note changed rows and refuse changes while the tenant is elsewhere.

use crate::catalog::{Tables, quote_name, quote_text};
use crate::error::During;
use crate::transactions::{Reads, TimeLimits, begin_owner, commit_tx};
use crate::{CellServers, Move, TenantMoveError};
use sqlx::AssertSqlSafe;
use std::time::Duration;
use tokio::time::sleep;
use unslide_model::TenantId;

/// A trigger waits this long for the lock on its table: all later statements on the table wait behind it.
const TRIGGER_LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const TRIGGER_TRIES: u32 = 30;
const TRIGGER_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The changes that triggers hear of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchedChanges {
    /// Each change of a row.
    AllChanges,
    /// Changes of rows that are there. New rows of the service are refused without a trigger.
    OldRows,
}

/// A kind of change: its letter in a trigger's name, its words, and its condition on a row.
type Change = (char, &'static str, &'static str);

const CHANGES: [Change; 3] = [
    ('i', "INSERT", "NEW.tenant = {}"),
    ('u', "UPDATE", "OLD.tenant = {} OR NEW.tenant = {}"),
    ('d', "DELETE", "OLD.tenant = {}"),
];

/// Returns a trigger's name: at most 50 of the 63 bytes that a name may have.
fn trigger_name(tenant: &TenantId, letter: char) -> String {
    quote_name(&format!("moving_{tenant}_{letter}"))
}

/// Makes the triggers of all tables, each table in a transaction of its own.
pub(crate) async fn watch_tables(
    job: &Move<'_>,
    cell: &CellServers,
    tables: &Tables,
    watch: WatchedChanges,
) -> Result<(), TenantMoveError> {
    let there = list_watched(cell, &job.tenant).await?;
    let who = quote_text(job.tenant.as_str());
    for table in tables.ordered.iter().filter(|table| !there.contains(&table.name)) {
        let key: Vec<String> = table.key.iter().map(|column| quote_text(column)).collect();
        let changes =
            CHANGES.iter().filter(|(letter, ..)| watch == WatchedChanges::AllChanges || *letter != 'i');
        let statements: Vec<String> = changes
            .map(|(letter, change, condition)| {
                format!(
                    "CREATE TRIGGER {} AFTER {change} ON {} FOR EACH ROW WHEN ({})
                     EXECUTE FUNCTION public.unslide_watch_moving({who}, {})",
                    trigger_name(&job.tenant, *letter),
                    table.quoted(),
                    condition.replace("{}", &who),
                    key.join(", ")
                )
            })
            .collect();
        execute_locked(cell, &job.tenant, &statements.join("; "), &format!("watching {}", table.name))
            .await?;
    }
    Ok(())
}

/// Lists the tables that have triggers of the tenant.
async fn list_watched(cell: &CellServers, tenant: &TenantId) -> Result<Vec<String>, TenantMoveError> {
    let mut tx = begin_owner(cell, tenant, Reads::Latest, TimeLimits::NONE).await?;
    let names = CHANGES.map(|(letter, ..)| format!("moving_{tenant}_{letter}"));
    let watched = sqlx::query_scalar(
        "SELECT DISTINCT c.relname::text FROM pg_trigger g JOIN pg_class c ON c.oid = g.tgrelid
         WHERE g.tgname = ANY ($1) AND g.tgparentid = 0",
    );
    let watched = watched.bind(&names[..]).fetch_all(tx.parts().0).await;
    let watched = watched.during(&cell.name, "listing triggers")?;
    tx.rollback().await?;
    Ok(watched)
}

/// Removes all triggers of the tenant.
pub(crate) async fn remove_triggers(cell: &CellServers, tenant: &TenantId) -> Result<(), TenantMoveError> {
    for table in list_watched(cell, tenant).await? {
        let statements = CHANGES.map(|(letter, ..)| {
            format!(
                "DROP TRIGGER IF EXISTS {} ON public.{}",
                trigger_name(tenant, letter),
                quote_name(&table)
            )
        });
        execute_locked(cell, tenant, &statements.join("; "), &format!("no longer watching {table}")).await?;
    }
    Ok(())
}

/// Executes statements in a transaction as soon as their lock is to be had.
pub(crate) async fn execute_locked(
    cell: &CellServers,
    tenant: &TenantId,
    statements: &str,
    action: &str,
) -> Result<(), TenantMoveError> {
    let limits = TimeLimits { lock: TRIGGER_LOCK_TIMEOUT, ..TimeLimits::NONE };
    let mut tries = 0;
    loop {
        let mut tx = begin_owner(cell, tenant, Reads::Latest, limits).await?;
        let done = sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(tx.parts().0).await;
        match done.during(&cell.name, action) {
            Ok(_) => return commit_tx(tx).await,
            Err(error) if error.is_locked() && tries < TRIGGER_TRIES => {
                tx.rollback().await?;
                tries += 1;
                sleep(TRIGGER_RETRY_INTERVAL).await;
            }
            Err(error) => return Err(error),
        }
    }
}
