//! Who did what with a group, and when.

use crate::{GroupActivityId, GroupId, Result, TenantTx};
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

crate::column::words! {
    /// Kinds of entries in a group's history.
    #[derive(ToSchema)]
    #[schema(rename_all = "snake_case")]
    pub enum GroupAction {
        /// It was resolved, optionally in a version.
        Resolved = "resolved",
        /// Its status was set to ignored, optionally until something.
        Ignored = "ignored",
        /// It was opened again because what it was ignored until has come.
        IgnoreEnded = "ignore_ended",
        /// It was opened again after it was resolved or ignored.
        Reopened = "reopened",
        /// A report arrived from a version that should not have the bug.
        Regressed = "regressed",
        /// Its assignee was set or removed.
        Assigned = "assigned",
        /// The address of its ticket was set or removed.
        Linked = "linked",
        /// The newest change of its state was taken back.
        Undone = "undone",
        /// A comment was added to the group.
        Commented = "commented",
        /// A comment was deleted by its author.
        CommentDeleted = "comment_deleted",
        /// Another group was merged into it.
        Merged = "merged",
        /// It was merged into another group.
        MergedInto = "merged_into",
        /// Another group was taken out of it again.
        Split = "split",
        /// It was taken out of another group again.
        SplitFrom = "split_from",
        /// It replaced another group: most of that one's reports moved here.
        Replaced = "replaced",
        /// Some reports of another group moved here, and most of them to the group that replaced it.
        ReplacedInPart = "replaced_in_part",
    }
}

/// An entry in a group's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct GroupActivity {
    /// Id of the entry in the history.
    #[schema(value_type = Uuid)]
    pub id: GroupActivityId,
    /// Time of the change (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// Id of the key that made the change; `indexer` if a report caused it, `builder` if its time came.
    #[schema(example = "0198c0de-0000-7000-8000-000000000001")]
    pub actor: String,
    /// The name that was chosen at sign-in to the console, or the key's. It proves nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The change that was made, such as `resolved`.
    pub action: GroupAction,
    /// The version, what it is ignored until or why that is over, the assignee, the ticket's address, the comment or
    /// the other group's title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// When its author changed or deleted the comment (RFC 3339); absent if that did not happen.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<OffsetDateTime>,
    /// The other group of a merge, a split or a replacement.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub group: Option<GroupId>,
    /// The group that the entry was written to, if this group replaced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub moved_from: Option<GroupId>,
}

/// Who does something with a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupActor<'a> {
    /// A key's id, or a service.
    pub actor: &'a str,
    /// The name of the console's session.
    pub name: Option<&'a str>,
}

/// Something that is done with a group, to be noted.
pub(crate) struct Deed<'a> {
    pub(crate) group: GroupId,
    pub(crate) action: GroupAction,
    pub(crate) text: Option<&'a str>,
    pub(crate) other: Option<GroupId>,
}

/// Records actions in the transaction that does them.
pub(crate) async fn record_actions(
    tx: &mut TenantTx,
    actor: GroupActor<'_>,
    deeds: &[Deed<'_>],
) -> Result<Vec<GroupActivityId>> {
    let groups: Vec<GroupId> = deeds.iter().map(|deed| deed.group).collect();
    let actions: Vec<String> = deeds.iter().map(|deed| deed.action.as_str().to_owned()).collect();
    let texts: Vec<Option<String>> = deeds.iter().map(|deed| deed.text.map(str::to_owned)).collect();
    let others: Vec<Option<GroupId>> = deeds.iter().map(|deed| deed.other).collect();
    let (connection, tenant, now) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"INSERT INTO group_activity (tenant, id, group_id, at, actor, name, action, text, other_group)
         SELECT $1, unslide_uuid($2), n.group_id, $2, $3, $4, n.action, n.text, n.other_group
         FROM unnest($5::uuid[], $6::text[], $7::text[], $8::uuid[]) AS n (group_id, action, text, other_group)
         RETURNING id AS "id: GroupActivityId""#,
        tenant,
        now,
        actor.actor,
        actor.name,
        &groups as &[GroupId],
        &actions,
        &texts as &[Option<String>],
        &others as &[Option<GroupId>]
    )
    .fetch_all(connection)
    .await?)
}

/// Adds a comment to a group, and returns the entry's id. The group has to exist and be locked.
pub async fn add_comment(
    tx: &mut TenantTx,
    actor: GroupActor<'_>,
    group: GroupId,
    text: &str,
) -> Result<GroupActivityId> {
    let deed = Deed { group, action: GroupAction::Commented, text: Some(text), other: None };
    let noted = record_actions(tx, actor, &[deed]).await?;
    Ok(noted.first().copied().unwrap_or_default())
}

/// Changes a comment of a group, or deletes it if there is no text. Returns false if this author has no such comment there: the
/// author is the key, with the name of the session. The group has to be locked.
pub async fn change_comment(
    tx: &mut TenantTx,
    actor: GroupActor<'_>,
    group: GroupId,
    comment: GroupActivityId,
    text: Option<&str>,
) -> Result<bool> {
    let action = if text.is_some() { GroupAction::Commented } else { GroupAction::CommentDeleted };
    let (connection, tenant, now) = tx.parts();
    let changed = sqlx::query!(
        "UPDATE group_activity SET action = $6, text = $7, edited_at = $8
         WHERE tenant = $1 AND group_id = $2 AND id = $3 AND action = 'commented'
           AND actor = $4 AND name IS NOT DISTINCT FROM $5",
        tenant,
        group as GroupId,
        comment as GroupActivityId,
        actor.actor,
        actor.name,
        action.as_str(),
        text,
        now
    )
    .execute(connection)
    .await?;
    Ok(changed.rows_affected() > 0)
}

/// Lists names that groups are assigned to, at most `limit`.
pub async fn list_assignees(tx: &mut TenantTx, limit: u32) -> Result<Vec<String>> {
    let (connection, tenant, _) = tx.parts();
    // From name to name, one index look-up each.
    Ok(sqlx::query_scalar!(
        r#"WITH RECURSIVE walked AS (
               (SELECT assignee FROM groups WHERE tenant = $1 AND assignee IS NOT NULL ORDER BY assignee LIMIT 1)
               UNION ALL
               SELECT n.assignee FROM walked w CROSS JOIN LATERAL
                    (SELECT g.assignee FROM groups g WHERE g.tenant = $1 AND g.assignee > w.assignee
                     ORDER BY g.assignee LIMIT 1) n)
           SELECT assignee AS "assignee!" FROM walked LIMIT $2"#,
        tenant,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}

/// Returns at most `limit` entries of a group's history, the newest first. `after` is the time and the id of
/// the entry to continue from.
pub async fn list_activity(
    tx: &mut TenantTx,
    group: GroupId,
    after: Option<(OffsetDateTime, GroupActivityId)>,
    limit: u32,
) -> Result<Vec<GroupActivity>> {
    let (connection, tenant, _) = tx.parts();
    let (at, id) = after.unzip();
    Ok(sqlx::query_as!(
        GroupActivity,
        r#"SELECT a.id AS "id: GroupActivityId", a.at, a.actor, coalesce(a.name, k.name) AS name, a.action AS "action: GroupAction", a.text,
                  a.edited_at, a.other_group AS "group: GroupId", a.moved_from AS "moved_from: GroupId"
           FROM group_activity a LEFT JOIN keys k ON k.tenant = a.tenant AND k.id::text = a.actor
           WHERE a.tenant = $1 AND a.group_id = $2
             AND ($3::timestamptz IS NULL OR (a.at, a.id) < ($3, $4::uuid))
           ORDER BY a.at DESC, a.id DESC LIMIT $5"#,
        tenant,
        group as GroupId,
        at,
        id as Option<GroupActivityId>,
        i64::from(limit)
    )
    .fetch_all(connection)
    .await?)
}
