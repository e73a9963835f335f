//! The statements about groups and their members.

use crate::ids::{ScimGroupId, ScimUserId};
use crate::protocol::{GroupForm, ScimGroup};
use std::collections::BTreeSet;
use time::OffsetDateTime;
use unslide_store::{Result, TenantTx};

struct GroupRow {
    id: ScimGroupId,
    display_name: String,
    external_id: Option<String>,
    created_at: OffsetDateTime,
    changed_at: OffsetDateTime,
}

impl From<GroupRow> for ScimGroup {
    fn from(row: GroupRow) -> ScimGroup {
        let GroupRow { id, display_name, external_id, created_at, changed_at } = row;
        ScimGroup { id, form: GroupForm { display_name, external_id }, created_at, changed_at }
    }
}

/// Returns a group without its members.
pub async fn find_group(tx: &mut TenantTx, id: ScimGroupId) -> Result<Option<ScimGroup>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_as!(
        GroupRow,
        r#"SELECT id AS "id: ScimGroupId", display_name, external_id, created_at, changed_at
           FROM scim_groups WHERE tenant = $1 AND id = $2"#,
        tenant,
        id as ScimGroupId
    );
    Ok(row.fetch_optional(connection).await?.map(ScimGroup::from))
}

/// Returns the group with a name in any case.
pub async fn find_group_by_name(tx: &mut TenantTx, name: &str) -> Result<Option<ScimGroup>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_as!(
        GroupRow,
        r#"SELECT id AS "id: ScimGroupId", display_name, external_id, created_at, changed_at
           FROM scim_groups WHERE tenant = $1 AND lower(display_name) = lower($2)"#,
        tenant,
        name
    );
    Ok(row.fetch_optional(connection).await?.map(ScimGroup::from))
}

/// Returns groups in the order in which they were made, after a number of them, and how many there are.
pub async fn list_groups(tx: &mut TenantTx, skipped: u32, limit: u32) -> Result<(Vec<ScimGroup>, i64)> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        GroupRow,
        r#"SELECT id AS "id: ScimGroupId", display_name, external_id, created_at, changed_at
           FROM scim_groups WHERE tenant = $1 ORDER BY id OFFSET $2 LIMIT $3"#,
        tenant,
        i64::from(skipped),
        i64::from(limit)
    )
    .fetch_all(&mut *connection)
    .await?;
    let total =
        sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM scim_groups WHERE tenant = $1"#, tenant);
    Ok((rows.into_iter().map(ScimGroup::from).collect(), total.fetch_one(connection).await?))
}

/// Returns the members of a group.
pub async fn list_members(tx: &mut TenantTx, group: ScimGroupId) -> Result<BTreeSet<ScimUserId>> {
    let (connection, tenant, _) = tx.parts();
    let members = sqlx::query_scalar!(
        r#"SELECT user_id AS "user_id: ScimUserId" FROM scim_members WHERE tenant = $1 AND group_id = $2"#,
        tenant,
        group as ScimGroupId
    );
    Ok(members.fetch_all(connection).await?.into_iter().collect())
}

/// Writes a group: a new one without an id. Returns the group as stored.
pub async fn write_group(tx: &mut TenantTx, id: Option<ScimGroupId>, form: &GroupForm) -> Result<ScimGroup> {
    let (connection, tenant, now) = tx.parts();
    let row = sqlx::query_as!(
        GroupRow,
        r#"INSERT INTO scim_groups (tenant, id, display_name, external_id, created_at, changed_at)
         VALUES ($1, coalesce($2, unslide_uuid($5)), $3, $4, $5, $5)
         ON CONFLICT (tenant, id) DO UPDATE SET display_name = $3, external_id = $4, changed_at = $5
         RETURNING id AS "id: ScimGroupId", display_name, external_id, created_at, changed_at"#,
        tenant,
        id as Option<ScimGroupId>,
        form.display_name,
        form.external_id,
        now
    );
    Ok(row.fetch_one(connection).await?.into())
}

/// Adds and removes members. Users who were deleted, and ids of no user, become no members.
pub async fn change_members(
    tx: &mut TenantTx,
    group: ScimGroupId,
    added: &[ScimUserId],
    removed: &[ScimUserId],
) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "DELETE FROM scim_members WHERE tenant = $1 AND group_id = $2 AND user_id = ANY ($3)",
        tenant,
        group as ScimGroupId,
        removed as &[ScimUserId]
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "INSERT INTO scim_members (tenant, group_id, user_id)
         SELECT $1, $2, u.id FROM scim_users u WHERE u.tenant = $1 AND u.id = ANY ($3) AND u.deleted_at IS NULL
         ON CONFLICT DO NOTHING",
        tenant,
        group as ScimGroupId,
        added as &[ScimUserId]
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Deletes a group. Returns false if there is no such group.
pub async fn delete_group(tx: &mut TenantTx, id: ScimGroupId) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let done =
        sqlx::query!("DELETE FROM scim_groups WHERE tenant = $1 AND id = $2", tenant, id as ScimGroupId);
    Ok(done.execute(connection).await?.rows_affected() > 0)
}
