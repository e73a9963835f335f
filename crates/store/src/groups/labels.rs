//! Labels: words that features put on groups, such as the owner of their code. Lists of groups filter by them.

use crate::{GroupId, Result, TenantTx};

/// The most bytes of a label.
pub const MAX_LABEL_BYTES: usize = 1_024;

/// Sets the labels of a group that begin with a prefix. Its other labels stay.
pub async fn set_labels(tx: &mut TenantTx, group: GroupId, prefix: &str, labels: &[String]) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "DELETE FROM group_labels WHERE tenant = $1 AND group_id = $2 AND starts_with(label, $3) AND label <> ALL ($4)",
        tenant,
        group as GroupId,
        prefix,
        labels
    )
    .execute(&mut *connection)
    .await?;
    if labels.is_empty() {
        return Ok(());
    }
    sqlx::query!(
        r#"INSERT INTO group_labels (tenant, group_id, label)
           SELECT $1, $2, l.label FROM unnest($3::text[]) AS l (label) ORDER BY l.label COLLATE "C"
           ON CONFLICT DO NOTHING"#,
        tenant,
        group as GroupId,
        labels
    )
    .execute(connection)
    .await?;
    Ok(())
}
