//! The ids of groups that were replaced: each leads to the group that most of the reports went to.

use crate::{GroupId, Result, TenantTx};

/// Returns the group that each of these ids leads to: the id itself unless its group was replaced.
pub async fn follow_redirects(tx: &mut TenantTx, ids: &[GroupId]) -> Result<Vec<GroupId>> {
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_scalar!(
        r#"SELECT coalesce(r.target, n.id) AS "id!: GroupId" FROM unnest($2::uuid[]) WITH ORDINALITY AS n (id, place)
           LEFT JOIN group_redirects r ON r.tenant = $1 AND r.id = n.id ORDER BY n.place"#,
        tenant,
        ids as &[GroupId]
    )
    .fetch_all(connection)
    .await?)
}

/// Ends the redirects of groups that exist again. The groups must be locked.
pub(crate) async fn end_redirects(tx: &mut TenantTx, ids: &[GroupId]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "DELETE FROM group_redirects r
         USING (SELECT id FROM group_redirects WHERE tenant = $1 AND id = ANY ($2) ORDER BY id FOR UPDATE) o
         WHERE r.tenant = $1 AND r.id = o.id",
        tenant,
        ids as &[GroupId]
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Redirects the ids of replaced groups, and the ids that led to them, to their successors. Takes pairs of a
/// group and its successor, both locked.
pub(super) async fn redirect_groups(tx: &mut TenantTx, pairs: &[(GroupId, GroupId)]) -> Result<()> {
    let (ids, targets): (Vec<GroupId>, Vec<GroupId>) = pairs.iter().copied().unzip();
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE group_redirects r SET target = o.target
         FROM (SELECT f.id, n.target FROM unnest($2::uuid[], $3::uuid[]) AS n (id, target)
               JOIN group_redirects f ON f.tenant = $1 AND f.target = n.id ORDER BY f.id FOR UPDATE OF f) o
         WHERE r.tenant = $1 AND r.id = o.id",
        tenant,
        &ids as &[GroupId],
        &targets as &[GroupId]
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "INSERT INTO group_redirects (tenant, id, target)
         SELECT $1, n.id, n.target FROM unnest($2::uuid[], $3::uuid[]) AS n (id, target) ORDER BY n.id",
        tenant,
        &ids as &[GroupId],
        &targets as &[GroupId]
    )
    .execute(connection)
    .await?;
    Ok(())
}
