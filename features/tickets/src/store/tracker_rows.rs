//! The trackers of a tenant.

use super::requests::ClaimedRequest;
use crate::ticket::{TrackerId, TrackerKind};
use serde_json::Value;
use time::{Duration, OffsetDateTime};
use unslide_store::{Result, TenantTx};

/// A tracker of a tenant, as the database has it.
#[derive(Clone, Debug)]
pub struct TrackerRow {
    pub name: String,
    pub id: TrackerId,
    pub kind: TrackerKind,
    pub url: String,
    pub project: String,
    pub account: Option<String>,
    pub issue_type: Option<String>,
    pub labels: Vec<String>,
    pub fields: Option<Value>,
    /// The token, encrypted.
    pub sealed_token: Vec<u8>,
    /// The secret of hooks, encrypted.
    pub sealed_hook_secret: Vec<u8>,
    pub rule_reports: Option<i64>,
    pub rule_app: Option<String>,
    pub changed_at: OffsetDateTime,
    /// The number of failures in a row.
    pub failures: i32,
    /// Until when it wants no request.
    pub not_before: Option<OffsetDateTime>,
    pub problem: Option<String>,
}

/// A tracker to be set.
#[derive(Clone, Debug)]
pub struct NewTrackerRow {
    pub name: String,
    pub kind: TrackerKind,
    pub url: String,
    pub project: String,
    pub account: Option<String>,
    pub issue_type: Option<String>,
    pub labels: Vec<String>,
    pub fields: Option<Value>,
    pub sealed_token: Vec<u8>,
    pub sealed_hook_secret: Vec<u8>,
    pub rule_reports: Option<i64>,
    pub rule_app: Option<String>,
    pub problem: Option<String>,
}

/// Builds the statement that reads trackers; the first argument follows the condition on the tenant.
macro_rules! select_trackers {
    ($rest:tt, $($argument:expr),*) => {
        sqlx::query_as!(
            TrackerRow,
            r#"SELECT name, id AS "id: TrackerId", kind AS "kind: TrackerKind", url, project, account, issue_type, labels, fields,
                      sealed_token, sealed_hook_secret, rule_reports, rule_app, changed_at, failures, not_before, problem
               FROM trackers WHERE tenant = $1 "# + $rest,
            $($argument),*
        )
    };
}

/// Returns the trackers of the transaction's tenant, by name.
pub async fn list_trackers(tx: &mut TenantTx) -> Result<Vec<TrackerRow>> {
    let (connection, tenant, _) = tx.parts();
    let rows = select_trackers!("ORDER BY name", tenant);
    Ok(rows.fetch_all(connection).await?)
}

/// Returns a tracker of the transaction's tenant.
pub async fn get_tracker(tx: &mut TenantTx, name: &str) -> Result<Option<TrackerRow>> {
    let (connection, tenant, _) = tx.parts();
    let row = select_trackers!("AND name = $2", tenant, name);
    Ok(row.fetch_optional(connection).await?)
}

/// Returns the tracker of a hook.
pub async fn find_by_id(tx: &mut TenantTx, id: TrackerId) -> Result<Option<TrackerRow>> {
    let (connection, tenant, _) = tx.parts();
    let row = select_trackers!("AND id = $2", tenant, id as TrackerId);
    Ok(row.fetch_optional(connection).await?)
}

/// Returns a tracker of the transaction's tenant, locked until the transaction ends.
pub async fn lock_tracker(tx: &mut TenantTx, name: &str) -> Result<Option<TrackerRow>> {
    let (connection, tenant, _) = tx.parts();
    let row = select_trackers!("AND name = $2 FOR NO KEY UPDATE", tenant, name);
    Ok(row.fetch_optional(connection).await?)
}

/// Keeps the settings of a tracker as they are until the transaction ends. Returns when they were changed last, or None if the
/// tracker is gone.
pub async fn keep_tracker(tx: &mut TenantTx, name: &str) -> Result<Option<OffsetDateTime>> {
    let (connection, tenant, _) = tx.parts();
    let kept = sqlx::query_scalar!(
        "SELECT changed_at FROM trackers WHERE tenant = $1 AND name = $2 FOR SHARE",
        tenant,
        name
    );
    Ok(kept.fetch_optional(connection).await?)
}

/// Returns true if tickets exist in a tracker, or may.
pub async fn has_tickets(tx: &mut TenantTx, name: &str) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM tickets WHERE tenant = $1 AND tracker = $2
                          AND (ticket_id IS NOT NULL OR sent_at IS NOT NULL)) AS "found!""#,
        tenant,
        name
    );
    Ok(found.fetch_one(connection).await?)
}

/// Sets a tracker. Its id stays, and the start of its rule if the rule is the same. What waits because of the former settings goes on
/// at once.
pub async fn set_tracker(tx: &mut TenantTx, new: &NewTrackerRow) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO trackers AS k (tenant, name, id, kind, url, project, account, issue_type, labels, fields, sealed_token,
                                    sealed_hook_secret, rule_reports, rule_app, rule_since, next_look_at, changed_at, problem)
         VALUES ($1, $2, gen_random_uuid(), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14, $14, $15)
         ON CONFLICT (tenant, name) DO UPDATE
         SET kind = $3, url = $4, project = $5, account = $6, issue_type = $7, labels = $8, fields = $9, sealed_token = $10,
             sealed_hook_secret = $11, rule_reports = $12, rule_app = $13, next_look_at = $14, problem = $15, not_before = NULL,
             failures = 0, changed_at = greatest($14, k.changed_at + interval '1 microsecond'),
             rule_since = CASE WHEN k.rule_reports IS NOT DISTINCT FROM $12 AND k.rule_app IS NOT DISTINCT FROM $13
                          THEN k.rule_since ELSE $14 END",
        tenant,
        new.name,
        new.kind.as_str(),
        new.url,
        new.project,
        new.account,
        new.issue_type,
        &new.labels,
        new.fields,
        new.sealed_token,
        new.sealed_hook_secret,
        new.rule_reports,
        new.rule_app,
        now,
        new.problem
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Removes a tracker with its links to tickets. Returns false if there is none.
pub async fn remove_tracker(tx: &mut TenantTx, name: &str) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let removed = sqlx::query!("DELETE FROM trackers WHERE tenant = $1 AND name = $2", tenant, name);
    Ok(removed.execute(connection).await?.rows_affected() > 0)
}

/// Sends no request to a tracker for a while, unless it was set since a request was claimed. `problem` concerns all its tickets.
pub async fn hold_tracker(
    tx: &mut TenantTx,
    claimed: &ClaimedRequest,
    problem: &str,
    pause: Duration,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE trackers SET problem = $4, not_before = greatest($5, not_before), failures = failures + 1
         WHERE tenant = $1 AND name = $2 AND changed_at = $3",
        tenant,
        claimed.tracker,
        claimed.tracker_changed_at,
        problem,
        now + pause
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Records that a tracker answers. A pause that another request has begun goes on.
pub async fn release_tracker(tx: &mut TenantTx, name: &str) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE trackers SET problem = NULL, not_before = NULL, failures = 0
         WHERE tenant = $1 AND name = $2 AND (not_before IS NULL OR not_before <= $3)",
        tenant,
        name,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}
