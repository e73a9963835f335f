//! The trackers of a tenant.

use crate::ticket::{TrackerId, TrackerKind};
use serde_json::Value;
use time::{Duration, OffsetDateTime};
use unslide_store::{Result, TenantTx};

/// A stored tracker.
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

/// Returns the trackers of the transaction's tenant, by name.
pub async fn list_trackers(tx: &mut TenantTx) -> Result<Vec<TrackerRow>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query_as!(
        TrackerRow,
        r#"SELECT name, id AS "id: TrackerId", kind AS "kind: TrackerKind", url, project, account, issue_type, labels, fields,
                  sealed_token, sealed_hook_secret, rule_reports, rule_app, changed_at, not_before, problem
           FROM trackers WHERE tenant = $1 ORDER BY name"#,
        tenant
    );
    Ok(rows.fetch_all(connection).await?)
}

/// Returns a tracker of the transaction's tenant.
pub async fn get_tracker(tx: &mut TenantTx, name: &str) -> Result<Option<TrackerRow>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_as!(
        TrackerRow,
        r#"SELECT name, id AS "id: TrackerId", kind AS "kind: TrackerKind", url, project, account, issue_type, labels, fields,
                  sealed_token, sealed_hook_secret, rule_reports, rule_app, changed_at, not_before, problem
           FROM trackers WHERE tenant = $1 AND name = $2"#,
        tenant,
        name
    );
    Ok(row.fetch_optional(connection).await?)
}

/// Returns the tracker of a hook.
pub async fn find_by_id(tx: &mut TenantTx, id: TrackerId) -> Result<Option<TrackerRow>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_as!(
        TrackerRow,
        r#"SELECT name, id AS "id: TrackerId", kind AS "kind: TrackerKind", url, project, account, issue_type, labels, fields,
                  sealed_token, sealed_hook_secret, rule_reports, rule_app, changed_at, not_before, problem
           FROM trackers WHERE tenant = $1 AND id = $2"#,
        tenant,
        id as TrackerId
    );
    Ok(row.fetch_optional(connection).await?)
}

/// Sets a tracker. Its id and the start of its rule stay. What waits because of the former settings goes on at once.
pub async fn set_tracker(tx: &mut TenantTx, new: &NewTrackerRow) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO trackers AS k (tenant, name, id, kind, url, project, account, issue_type, labels, fields, sealed_token,
                                    sealed_hook_secret, rule_reports, rule_app, rule_since, next_look_at, changed_at, problem)
         VALUES ($1, $2, gen_random_uuid(), $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14, $14, $15)
         ON CONFLICT (tenant, name) DO UPDATE
         SET kind = $3, url = $4, project = $5, account = $6, issue_type = $7, labels = $8, fields = $9, sealed_token = $10,
             sealed_hook_secret = $11, rule_reports = $12, rule_app = $13, next_look_at = $14, changed_at = $14, problem = $15,
             rule_since = CASE WHEN k.rule_reports IS NULL THEN $14 ELSE k.rule_since END, not_before = NULL",
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

/// Records whether the tracker takes requests: the problem that concerns all its tickets, and the pause before the next request.
pub async fn hold_tracker(
    tx: &mut TenantTx,
    name: &str,
    problem: Option<&str>,
    pause: Option<Duration>,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE trackers SET problem = $3, not_before = $4
         WHERE tenant = $1 AND name = $2 AND (problem IS DISTINCT FROM $3 OR not_before IS DISTINCT FROM $4)",
        tenant,
        name,
        problem,
        pause.map(|pause| now + pause)
    )
    .execute(connection)
    .await?;
    Ok(())
}
