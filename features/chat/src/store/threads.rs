//! The thread of a group. Its row is the lock under which one process at a time posts.

use crate::ids::SlackMarkerId;
use time::{Duration, OffsetDateTime};
use unslide_store::{GroupId, Result, TenantTx};

/// How long a process works on a thread at most. Longer than the work takes.
const THREAD_LEASE: Duration = Duration::minutes(3);
/// The longest time after its first report in which a group counts as new.
const NEW_FOR: Duration = Duration::days(30);
/// Threads that one look begins, and that one look finds changed.
const LOOK_LIMIT: i64 = 100;

/// A thread that this process works on.
#[derive(Clone, Debug)]
pub struct SlackThread {
    pub group: GroupId,
    pub channel: String,
    pub marker: SlackMarkerId,
    pub ts: Option<String>,
    pub sent_at: Option<OffsetDateTime>,
    pub reply_sent_at: Option<OffsetDateTime>,
    pub told_status: Option<String>,
    pub told_assignee: Option<String>,
    pub told_back_at: Option<OffsetDateTime>,
    pub is_renewed: bool,
    pub asked_at: OffsetDateTime,
    pub attempts: i32,
    pub leased_until: OffsetDateTime,
    pub problem: Option<String>,
}

/// The next step of a thread that is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadEnd {
    /// The work goes on under the same lease.
    GoOn,
    /// The work is done, until it is asked for again.
    Done,
    /// The work is due again after a pause.
    Again(Duration),
}

/// Begins threads for groups that are new, and asks for work on the threads of groups that have changed, if a look is due.
pub async fn add_threads(tx: &mut TenantTx, look_interval: Duration) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    let due = sqlx::query!(
        "UPDATE slack_apps SET next_look_at = $3 WHERE tenant = $1 AND next_look_at <= $2",
        tenant,
        now,
        now + look_interval
    );
    if due.execute(&mut *connection).await?.rows_affected() == 0 {
        return Ok(());
    }
    sqlx::query!(
        "INSERT INTO slack_threads (tenant, group_id, channel, marker, created_at, asked_at, due_at)
         SELECT $1, o.id, s.channel, gen_random_uuid(), $2, $2, $2
         FROM slack_apps s CROSS JOIN LATERAL (
             SELECT g.id FROM groups g
             WHERE g.tenant = $1 AND (s.app IS NULL OR g.app = s.app) AND g.last_seen >= s.since
               AND g.first_seen >= greatest(s.since, $3) AND g.reports >= s.reports AND NOT g.provisional
               AND g.merged_into IS NULL AND g.status IN ('open', 'regressed')
               AND NOT EXISTS (SELECT FROM slack_threads t WHERE t.tenant = $1 AND t.group_id = g.id)
             ORDER BY g.last_seen DESC, g.id DESC LIMIT $4) o
         WHERE s.tenant = $1 ORDER BY o.id ON CONFLICT DO NOTHING",
        tenant,
        now,
        now - NEW_FOR,
        LOOK_LIMIT
    )
    .execute(&mut *connection)
    .await?;
    // A group that is deleted or replaced has no row.
    sqlx::query!(
        "UPDATE slack_threads t SET asked_at = $2, due_at = $2
         FROM (SELECT c.group_id FROM slack_threads c LEFT JOIN groups g ON g.tenant = $1 AND g.id = c.group_id
               WHERE c.tenant = $1 AND c.due_at IS NULL AND c.ts IS NOT NULL
                 AND (g.status, g.assignee, g.regressed_at) IS DISTINCT FROM (c.told_status, c.told_assignee, c.told_back_at)
               ORDER BY c.group_id LIMIT $3 FOR UPDATE OF c SKIP LOCKED) n
         WHERE t.tenant = $1 AND t.group_id = n.group_id",
        tenant,
        now,
        LOOK_LIMIT
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Claims the thread of the transaction's tenant that has waited longest. Commit before the work.
pub async fn claim_thread(tx: &mut TenantTx) -> Result<Option<SlackThread>> {
    let (connection, tenant, now) = tx.parts();
    let claimed = sqlx::query_as!(
        SlackThread,
        r#"UPDATE slack_threads t SET attempts = t.attempts + 1, leased_until = $3
           FROM (SELECT o.group_id FROM slack_threads o JOIN slack_apps s ON s.tenant = $1
                 WHERE o.tenant = $1 AND o.due_at <= $2 AND (o.leased_until IS NULL OR o.leased_until <= $2)
                   AND (s.not_before IS NULL OR s.not_before <= $2)
                 ORDER BY o.due_at, o.group_id LIMIT 1 FOR UPDATE OF o SKIP LOCKED) n
           WHERE t.tenant = $1 AND t.group_id = n.group_id
           RETURNING t.group_id AS "group: GroupId", t.channel, t.marker AS "marker: SlackMarkerId", t.ts, t.sent_at, t.reply_sent_at, t.told_status,
                     t.told_assignee, t.told_back_at, t.is_renewed, t.asked_at, t.attempts, t.leased_until AS "leased_until!",
                     t.problem"#,
        tenant,
        now,
        now + THREAD_LEASE
    );
    Ok(claimed.fetch_optional(connection).await?)
}

/// Saves a thread. Returns false if another process works on it: then nothing may be sent.
pub async fn save_thread(tx: &mut TenantTx, thread: &SlackThread, end: ThreadEnd) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    let due = match end {
        ThreadEnd::GoOn => Some(now),
        ThreadEnd::Done => None,
        ThreadEnd::Again(pause) => Some(now + pause),
    };
    let saved = sqlx::query!(
        "UPDATE slack_threads
         SET ts = $4, sent_at = $5, reply_sent_at = $6, told_status = $7, told_assignee = $8, told_back_at = $9, is_renewed = $10,
             attempts = $11, problem = $12, leased_until = CASE WHEN $13 THEN leased_until END,
             due_at = CASE WHEN asked_at > $14 OR $13 THEN due_at ELSE $15 END
         WHERE tenant = $1 AND group_id = $2 AND leased_until = $3",
        tenant,
        thread.group as GroupId,
        thread.leased_until,
        thread.ts,
        thread.sent_at,
        thread.reply_sent_at,
        thread.told_status,
        thread.told_assignee,
        thread.told_back_at,
        thread.is_renewed,
        thread.attempts,
        thread.problem,
        end == ThreadEnd::GoOn,
        thread.asked_at,
        due
    );
    Ok(saved.execute(connection).await?.rows_affected() > 0)
}

/// Asks for an update of the thread of a group at once.
pub async fn request_update(tx: &mut TenantTx, group: GroupId) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE slack_threads SET asked_at = $3, due_at = $3 WHERE tenant = $1 AND group_id = $2 AND ts IS NOT NULL",
        tenant,
        group as GroupId,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Hands a thread over to the group that replaced its own, unless that has one.
pub async fn move_thread(tx: &mut TenantTx, thread: &SlackThread, target: GroupId) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO slack_threads (tenant, group_id, channel, marker, ts, sent_at, told_status, told_assignee, told_back_at, is_renewed,
                                    created_at, asked_at, due_at)
         SELECT tenant, $3, channel, marker, ts, sent_at, NULL, NULL, told_back_at, is_renewed, created_at, $4, $4
         FROM slack_threads WHERE tenant = $1 AND group_id = $2 ON CONFLICT DO NOTHING",
        tenant,
        thread.group as GroupId,
        target as GroupId,
        now
    )
    .execute(connection)
    .await?;
    drop_thread(tx, thread.group).await
}

/// Forgets the thread of a group. Its messages stay.
pub async fn drop_thread(tx: &mut TenantTx, group: GroupId) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!("DELETE FROM slack_threads WHERE tenant = $1 AND group_id = $2", tenant, group as GroupId)
        .execute(connection)
        .await?;
    Ok(())
}
