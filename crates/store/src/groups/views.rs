//! Saved views: names of filters of the list of groups.

use crate::column::{JsonColumn, json_column};
use crate::{GroupViewId, Result, TenantTx};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

/// The most views of a key, and of a whole tenant.
pub const MAX_VIEWS: i64 = 50;

/// The filter of a saved view, as the parameters of `GET /v1/groups` have it. A field that is absent does not
/// limit the list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GroupViewFilter {
    /// Bundle identifier of the app.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "com.example.shop")]
    pub app: Option<String>,
    /// Reports of this version count alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Their first report was of this version, or a report of it brought them back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_in: Option<String>,
    /// Their first report arrived in this many days; today is the last one, and 1 is the last 24 hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 365, example = 7)]
    pub new_days: Option<u16>,
    /// Reports of this many days count alone; today is the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 365, example = 7)]
    pub days: Option<u16>,
    /// Kind of the failure, such as `crash`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// A part of a name, a file, a reason or a title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// True for groups with missing symbols, false for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provisional: Option<bool>,
    /// `open`, `regressed`, `resolved` or `ignored`; several with commas between.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "open,regressed")]
    pub status: Option<String>,
    /// The name that the groups are assigned to; empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// True for groups that are assigned to the person who looks at the view, instead of `assignee`.
    #[serde(skip_serializing_if = "is_false")]
    pub assigned_to_me: bool,
    /// A label of the groups, such as `owner:@example/cart`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "owner:@example/cart")]
    pub label: Option<String>,
    /// `last_seen`, `first_seen`, `reports` or `growing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sort: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A saved view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct GroupView {
    /// Id of the view.
    #[schema(value_type = Uuid)]
    pub id: GroupViewId,
    /// Its name, which no other view of the key or of the tenant has.
    #[schema(example = "Mine this week")]
    pub name: String,
    /// True if it belongs to the whole tenant, false if it belongs to the key of the request.
    pub shared: bool,
    /// The groups that it lists.
    pub filter: GroupViewFilter,
    /// When it was saved (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// The key that a view is seen or changed with.
#[derive(Clone, Copy, Debug)]
pub struct ViewReader<'k> {
    /// Its id.
    pub key: &'k str,
    /// The only app that it may see.
    pub app: Option<&'k str>,
}

/// The outcome of a change of views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewOutcome {
    /// It is done, and the view is this now.
    Done(Box<GroupView>),
    /// The key sees no such view.
    NotFound,
    /// Another view of the same owner has the name.
    NameTaken,
    /// The owner has [`MAX_VIEWS`].
    TooMany,
}

json_column!(GroupViewFilter);

/// Lists the views of a key and of its tenant, by name. A key for one app does not see views of others.
pub async fn list_views(tx: &mut TenantTx, reader: ViewReader<'_>) -> Result<Vec<GroupView>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        GroupView,
        r#"SELECT id AS "id: GroupViewId", name, owner = '' AS "shared!", filter AS "filter: JsonColumn<GroupViewFilter>", created_at
           FROM group_views
           WHERE tenant = $1 AND (owner = '' OR owner = $2) AND ($3::text IS NULL OR filter ->> 'app' = $3)
           ORDER BY name COLLATE "C", owner LIMIT $4"#,
        tenant,
        reader.key,
        reader.app,
        2 * MAX_VIEWS
    )
    .fetch_all(connection)
    .await?)
}

/// Finds a view that a key sees.
pub async fn find_view(
    tx: &mut TenantTx,
    reader: ViewReader<'_>,
    id: GroupViewId,
) -> Result<Option<GroupView>> {
    Ok(list_views(tx, reader).await?.into_iter().find(|view| view.id == id))
}

/// Saves a view for a key, or for the whole tenant.
pub async fn save_view(
    tx: &mut TenantTx,
    reader: ViewReader<'_>,
    shared: bool,
    name: &str,
    filter: &GroupViewFilter,
) -> Result<ViewOutcome> {
    let owner = if shared { "" } else { reader.key };
    lock_views(tx, owner).await?;
    let (connection, tenant, now) = tx.parts();
    let saved = sqlx::query_scalar!(
        r#"SELECT count(*) AS "count!" FROM group_views WHERE tenant = $1 AND owner = $2"#,
        tenant,
        owner
    )
    .fetch_one(&mut *connection)
    .await?;
    if saved >= MAX_VIEWS {
        return Ok(ViewOutcome::TooMany);
    }
    let filter_json = serde_json::to_value(filter).unwrap_or_default();
    let id = sqlx::query_scalar!(
        r#"INSERT INTO group_views (tenant, id, owner, name, filter, created_by, created_at)
         VALUES ($1, unslide_uuid($2), $3, $4, $5, $6, $2) ON CONFLICT DO NOTHING RETURNING id AS "id: GroupViewId""#,
        tenant,
        now,
        owner,
        name,
        filter_json,
        reader.key
    )
    .fetch_optional(connection)
    .await?;
    let Some(id) = id else { return Ok(ViewOutcome::NameTaken) };
    let (name, filter) = (name.to_owned(), filter.clone());
    Ok(ViewOutcome::Done(Box::new(GroupView { id, name, shared, filter, created_at: now })))
}

/// Renames a view that a key sees, or gives it another filter.
pub async fn change_view(
    tx: &mut TenantTx,
    reader: ViewReader<'_>,
    id: GroupViewId,
    name: Option<&str>,
    filter: Option<&GroupViewFilter>,
) -> Result<ViewOutcome> {
    let Some(mut view) = find_view(tx, reader, id).await? else { return Ok(ViewOutcome::NotFound) };
    let owner = if view.shared { "" } else { reader.key };
    lock_views(tx, owner).await?;
    view.name = name.map_or(view.name, str::to_owned);
    view.filter = filter.cloned().unwrap_or(view.filter);
    let (connection, tenant, _) = tx.parts();
    let changed = sqlx::query!(
        "UPDATE group_views v SET name = $3, filter = $4
         WHERE v.tenant = $1 AND v.id = $2
           AND NOT EXISTS (SELECT FROM group_views o
                           WHERE o.tenant = $1 AND o.owner = v.owner AND o.name = $3 AND o.id <> v.id)",
        tenant,
        id as GroupViewId,
        view.name,
        serde_json::to_value(&view.filter).unwrap_or_default()
    )
    .execute(connection)
    .await?;
    match changed.rows_affected() {
        0 => Ok(ViewOutcome::NameTaken),
        _ => Ok(ViewOutcome::Done(Box::new(view))),
    }
}

/// Deletes a view. The caller has found it with [`find_view`].
pub async fn delete_view(tx: &mut TenantTx, id: GroupViewId) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM group_views WHERE tenant = $1 AND id = $2", tenant, id as GroupViewId)
        .execute(connection)
        .await?;
    Ok(())
}

/// Makes changes of one owner's views wait for each other, so that the limit and the names hold.
async fn lock_views(tx: &mut TenantTx, owner: &str) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('group views ' || $1 || ' ' || $2, 0))")
        .bind(tenant)
        .bind(owner)
        .execute(connection)
        .await?;
    Ok(())
}
