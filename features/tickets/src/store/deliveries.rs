//! Deliveries of hooks that were taken, and commits that have resolved groups.

use unslide_store::{GroupId, Result, TenantTx};

/// Returns true if a delivery was taken.
pub async fn is_known_delivery(tx: &mut TenantTx, tracker: &str, delivery: &str) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let known = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM tracker_deliveries WHERE tenant = $1 AND tracker = $2 AND delivery = $3) AS "known!""#,
        tenant,
        tracker,
        delivery
    );
    Ok(known.fetch_one(connection).await?)
}

/// Records a delivery. Returns false if another process has taken it: then the transaction must not commit.
pub async fn add_delivery(tx: &mut TenantTx, tracker: &str, delivery: &str) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let added = sqlx::query!(
        "INSERT INTO tracker_deliveries (tenant, tracker, delivery, received_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
        tenant,
        tracker,
        delivery,
        now
    );
    Ok(added.execute(connection).await?.rows_affected() > 0)
}

/// Returns which of these pairs of a group and a commit are known.
pub async fn find_known_fixes(
    tx: &mut TenantTx,
    groups: &[GroupId],
    revisions: &[String],
) -> Result<Vec<(GroupId, String)>> {
    let (connection, tenant, _) = tx.parts();
    let known = sqlx::query!(
        r#"SELECT f.group_id AS "group_id: GroupId", f.revision
           FROM unnest($2::uuid[], $3::text[]) AS n (group_id, revision)
           JOIN ticket_fixes f ON f.tenant = $1 AND f.group_id = n.group_id AND f.revision = n.revision"#,
        tenant,
        groups as &[GroupId],
        revisions
    )
    .fetch_all(connection)
    .await?;
    Ok(known.into_iter().map(|row| (row.group_id, row.revision)).collect())
}

/// Records pairs of a group and a commit.
pub async fn add_fixes(tx: &mut TenantTx, groups: &[GroupId], revisions: &[String]) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO ticket_fixes (tenant, group_id, revision, fixed_at)
         SELECT $1, n.group_id, n.revision, $4 FROM unnest($2::uuid[], $3::text[]) AS n (group_id, revision)
         ORDER BY n.group_id, n.revision ON CONFLICT DO NOTHING",
        tenant,
        groups as &[GroupId],
        revisions,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}
