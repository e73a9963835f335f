//! The statements about users of a directory.

use super::AttributesColumn;
use crate::ids::ScimUserId;
use crate::protocol::{ScimUser, UserForm};
use time::OffsetDateTime;
use unslide_store::{Result, TenantTx};

struct UserRow {
    id: ScimUserId,
    user_name: String,
    external_id: Option<String>,
    is_active: bool,
    attributes: AttributesColumn,
    created_at: OffsetDateTime,
    changed_at: OffsetDateTime,
}

impl From<UserRow> for ScimUser {
    fn from(row: UserRow) -> ScimUser {
        let UserRow { id, user_name, external_id, is_active, attributes, created_at, changed_at } = row;
        let form = UserForm { user_name, external_id, is_active, attributes: attributes.0 };
        ScimUser { id, form, created_at, changed_at }
    }
}

/// A key that finds at most one user.
#[derive(Clone, Copy, Debug)]
pub enum UserKey<'k> {
    Id(ScimUserId),
    /// The name in any case.
    Name(&'k str),
    External(&'k str),
}

/// Returns a user who was not deleted.
pub async fn find_user(tx: &mut TenantTx, key: UserKey<'_>) -> Result<Option<ScimUser>> {
    let (id, name, external) = match key {
        UserKey::Id(id) => (Some(id), None, None),
        UserKey::Name(name) => (None, Some(name), None),
        UserKey::External(external) => (None, None, Some(external)),
    };
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_as!(
        UserRow,
        r#"SELECT id AS "id: ScimUserId", user_name, external_id, is_active, attributes AS "attributes: AttributesColumn", created_at, changed_at
           FROM scim_users
           WHERE tenant = $1 AND (id = $2 OR lower(user_name) = lower($3) OR external_id = $4) AND deleted_at IS NULL"#,
        tenant,
        id as Option<ScimUserId>,
        name,
        external
    );
    let row = row.fetch_optional(connection).await?;
    Ok(row.map(ScimUser::from))
}

/// Returns users in the order in which they were made, after a number of them.
pub async fn list_users(tx: &mut TenantTx, skipped: u32, limit: u32) -> Result<Vec<ScimUser>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        UserRow,
        r#"SELECT id AS "id: ScimUserId", user_name, external_id, is_active, attributes AS "attributes: AttributesColumn", created_at, changed_at
           FROM scim_users WHERE tenant = $1 AND deleted_at IS NULL ORDER BY id OFFSET $2 LIMIT $3"#,
        tenant,
        i64::from(skipped),
        i64::from(limit)
    );
    Ok(rows.fetch_all(connection).await?.into_iter().map(ScimUser::from).collect())
}

/// Counts the users who were not deleted.
pub async fn count_users(tx: &mut TenantTx) -> Result<i64> {
    let (connection, tenant, _) = tx.parts();
    let count = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM scim_users WHERE tenant = $1 AND deleted_at IS NULL"#,
        tenant
    );
    Ok(count.fetch_one(connection).await?)
}

/// Returns true if another user than `own` has the name or the provider's id of a user.
pub async fn is_taken(tx: &mut TenantTx, form: &UserForm, own: Option<ScimUserId>) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let is_taken = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM scim_users
                          WHERE tenant = $1 AND lower(user_name) = lower($2) AND deleted_at IS NULL AND id IS DISTINCT FROM $4)
               OR EXISTS (SELECT FROM scim_users
                          WHERE tenant = $1 AND external_id = $3 AND deleted_at IS NULL AND id IS DISTINCT FROM $4)
               AS "is_taken!""#,
        tenant,
        form.user_name,
        form.external_id.as_deref(),
        own as Option<ScimUserId>
    );
    Ok(is_taken.fetch_one(connection).await?)
}

/// Writes a user: a new one without an id. Returns the user as stored.
pub async fn write_user(tx: &mut TenantTx, id: Option<ScimUserId>, form: &UserForm) -> Result<ScimUser> {
    let (connection, tenant, now) = tx.parts();
    let attributes = serde_json::Value::Object(form.attributes.clone());
    let row = sqlx::query_as!(
        UserRow,
        r#"INSERT INTO scim_users (tenant, id, user_name, external_id, is_active, attributes, created_at, changed_at)
           VALUES ($1, coalesce($2, unslide_uuid($7)), $3, $4, $5, $6, $7, $7)
           ON CONFLICT (tenant, id) DO UPDATE
               SET user_name = $3, external_id = $4, is_active = $5, attributes = $6, changed_at = $7
           RETURNING id AS "id: ScimUserId", user_name, external_id, is_active, attributes AS "attributes: AttributesColumn", created_at, changed_at"#,
        tenant,
        id as Option<ScimUserId>,
        form.user_name,
        form.external_id,
        form.is_active,
        attributes,
        now
    );
    Ok(row.fetch_one(connection).await?.into())
}

/// Deletes a user, who leaves all groups. The row stays without the name, so that the person cannot sign in.
pub async fn delete_user(tx: &mut TenantTx, id: ScimUserId) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "WITH left_groups AS (DELETE FROM scim_members WHERE tenant = $1 AND user_id = $2)
         UPDATE scim_users SET user_name = '', attributes = '{}', is_active = false, changed_at = $3, deleted_at = $3
         WHERE tenant = $1 AND id = $2 AND deleted_at IS NULL",
        tenant,
        id as ScimUserId,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}
