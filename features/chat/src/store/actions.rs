//! Buttons that people pressed, which wait for the work.

use unslide_store::{GroupId, Result, TenantTx};

/// Pressed buttons of a tenant that wait. More are refused.
const WAITING_LIMIT: i64 = 1_000;

/// A pressed button that waits for the work.
#[derive(Clone, Debug)]
pub struct NewSlackAction {
    /// The hash of what names the press.
    pub id: [u8; 32],
    pub slack_user: String,
    pub user_name: String,
    pub channel: String,
    pub action: String,
    pub group: GroupId,
}

/// A pressed button that this transaction acts on.
#[derive(Clone, Debug)]
pub struct SlackActionRow {
    pub slack_user: String,
    pub user_name: String,
    pub channel: String,
    pub action: String,
    pub group: GroupId,
}

/// Records a pressed button, once. Returns false if too many wait.
pub async fn add_action(tx: &mut TenantTx, new: &NewSlackAction) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let has_room = sqlx::query_scalar!(
        r#"WITH waiting AS (SELECT count(*) AS number FROM (SELECT FROM slack_actions
                            WHERE tenant = $1 AND due_at IS NOT NULL LIMIT $9) w),
           added AS (
             INSERT INTO slack_actions (tenant, id, slack_user, user_name, channel, action, group_id, received_at, due_at)
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $8 FROM waiting WHERE number < $9 ON CONFLICT DO NOTHING)
           SELECT number < $9 AS "has_room!" FROM waiting"#,
        tenant,
        new.id.as_slice(),
        new.slack_user,
        new.user_name,
        new.channel,
        new.action,
        new.group as GroupId,
        now,
        WAITING_LIMIT
    );
    Ok(has_room.fetch_one(connection).await?)
}

/// Takes the pressed button that has waited longest. It counts as done with the transaction.
pub async fn claim_action(tx: &mut TenantTx) -> Result<Option<SlackActionRow>> {
    let (connection, tenant, now) = tx.parts();
    let claimed = sqlx::query_as!(
        SlackActionRow,
        r#"UPDATE slack_actions a SET due_at = NULL
           FROM (SELECT o.id FROM slack_actions o WHERE o.tenant = $1 AND o.due_at <= $2
                 ORDER BY o.due_at, o.id LIMIT 1 FOR UPDATE SKIP LOCKED) n
           WHERE a.tenant = $1 AND a.id = n.id
           RETURNING a.slack_user, a.user_name, a.channel, a.action, a.group_id AS "group: GroupId""#,
        tenant,
        now
    );
    Ok(claimed.fetch_optional(connection).await?)
}
