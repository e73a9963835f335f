//! The statements about the users and groups of a directory.

mod groups;
mod users;

pub use groups::{
    change_members, delete_group, find_group, find_group_by_name, list_groups, list_members, write_group,
};
pub use users::{UserKey, count_users, delete_user, find_user, is_taken, list_users, write_user};

use crate::ids::ScimUserId;
use sqlx::types::Json;
use time::Duration;
use unslide_store::directory::{DirectoryChange, DirectoryEntry};
use unslide_store::tables::OwnedTable;
use unslide_store::{Result, StoreEvent, StoreHook, TenantTx, report_directory_change};

/// How long a deleted user keeps the person from signing in.
const DELETED_KEPT_FOR: Duration = Duration::days(400);

/// The tables of the feature, and its answer to the sign-in of a person.
pub const SCIM_HOOK: StoreHook = StoreHook {
    tables: &[
        OwnedTable::kept_for("scim_users", DELETED_KEPT_FOR),
        OwnedTable::new("scim_groups"),
        OwnedTable::new("scim_members"),
    ],
    on_event: Some(|event| Box::pin(answer_event(event))),
    ..StoreHook::new(crate::NAME)
};

async fn answer_event(event: &mut StoreEvent<'_>) -> Result<()> {
    if let StoreEvent::DirectoryAsked(tx, id, entry) = event {
        lock_directory(tx, DirectoryLock::Shared).await?;
        **entry = find_entry(tx, id).await?;
    }
    Ok(())
}

/// A lock on the directory of a tenant, until the transaction ends: a sign-in that has read an entry is over before the entry
/// changes, so that the change ends its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryLock {
    /// No sign-in reads an entry.
    Exclusive,
    /// No entry changes.
    Shared,
}

/// Takes a lock on the directory of the transaction's tenant.
pub async fn lock_directory(tx: &mut TenantTx, lock: DirectoryLock) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    match lock {
        DirectoryLock::Exclusive => {
            sqlx::query!(
                "SELECT pg_advisory_xact_lock(hashtextextended('directory of ' || $1::text, 0))",
                tenant
            )
            .execute(connection)
            .await?
        }
        DirectoryLock::Shared => {
            sqlx::query!(
                "SELECT pg_advisory_xact_lock_shared(hashtextextended('directory of ' || $1::text, 0))",
                tenant
            )
            .execute(connection)
            .await?
        }
    };
    Ok(())
}

/// Returns the entry of a person by the provider's id. A user who was deleted counts unless the provider has sent the person again.
async fn find_entry(tx: &mut TenantTx, external_id: &str) -> Result<Option<DirectoryEntry>> {
    let (connection, tenant, _) = tx.parts();
    let id = sqlx::query_scalar!(
        r#"SELECT id AS "id: ScimUserId" FROM scim_users
           WHERE tenant = $1 AND external_id = $2 ORDER BY deleted_at DESC NULLS FIRST LIMIT 1"#,
        tenant,
        external_id
    );
    let Some(id) = id.fetch_optional(connection).await? else { return Ok(None) };
    Ok(list_entries(tx, &[id]).await?.pop())
}

/// Returns the entries of users, as far as they have the provider's id of a person.
async fn list_entries(tx: &mut TenantTx, users: &[ScimUserId]) -> Result<Vec<DirectoryEntry>> {
    let (connection, tenant, _) = tx.parts();
    let entries = sqlx::query_as!(
        DirectoryEntry,
        r#"SELECT u.external_id AS "id!", u.is_active,
                  ARRAY(SELECT g.display_name FROM scim_members m
                        JOIN scim_groups g ON g.tenant = $1 AND g.id = m.group_id
                        WHERE m.tenant = $1 AND m.user_id = u.id) AS "groups!"
           FROM scim_users u WHERE u.tenant = $1 AND u.id = ANY ($2) AND u.external_id IS NOT NULL"#,
        tenant,
        users as &[ScimUserId]
    );
    Ok(entries.fetch_all(connection).await?)
}

/// Tells the other features that users have changed. `left` is the provider's id of a person who is no user any more.
pub async fn report_changed_users(
    tx: &mut TenantTx,
    actor: &str,
    users: &[ScimUserId],
    left: Option<&str>,
) -> Result<()> {
    let mut entries = list_entries(tx, users).await?;
    entries.extend(left.map(|id| DirectoryEntry { id: id.to_owned(), is_active: false, groups: Vec::new() }));
    report_directory_change(tx, DirectoryChange { actor, entries: &entries }).await
}

/// The numbers of users and groups of one directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryCounts {
    pub users: i64,
    pub active_users: i64,
    pub unmatched_users: i64,
    pub groups: i64,
}

/// Counts the users and the groups of the transaction's tenant.
pub async fn count_directory(tx: &mut TenantTx) -> Result<DirectoryCounts> {
    let (connection, tenant, _) = tx.parts();
    let counts = sqlx::query_as!(
        DirectoryCounts,
        r#"SELECT count(*) AS "users!", count(*) FILTER (WHERE is_active) AS "active_users!",
                  count(*) FILTER (WHERE external_id IS NULL) AS "unmatched_users!",
                  (SELECT count(*) FROM scim_groups WHERE tenant = $1) AS "groups!"
           FROM scim_users WHERE tenant = $1 AND deleted_at IS NULL"#,
        tenant
    );
    Ok(counts.fetch_one(connection).await?)
}

/// The attributes of a user in the database.
type AttributesColumn = Json<serde_json::Map<String, serde_json::Value>>;
