//! The Slack app of a tenant.

use crate::ids::SlackAppId;
use time::{Duration, OffsetDateTime};
use unslide_model::TenantId;
use unslide_store::sql::TenantColumn;
use unslide_store::{Result, Store, TenantTx};

/// The Slack app of a tenant as it is stored.
#[derive(Clone, Debug)]
pub struct SlackAppRow {
    pub id: SlackAppId,
    pub team: String,
    pub channel: String,
    pub sealed_token: Vec<u8>,
    pub sealed_signing_secret: Vec<u8>,
    pub reports: i64,
    pub app: Option<String>,
    pub changed_at: OffsetDateTime,
    pub not_before: Option<OffsetDateTime>,
    pub problem: Option<String>,
}

/// A Slack app to be set.
#[derive(Clone, Debug)]
pub struct NewSlackAppRow {
    pub team: String,
    pub channel: String,
    pub sealed_token: Vec<u8>,
    pub sealed_signing_secret: Vec<u8>,
    pub reports: i64,
    pub app: Option<String>,
    pub problem: Option<String>,
}

/// Returns tenants with work that is due, from the one after `last` on.
pub async fn list_due(store: &Store, last: &str, limit: u16) -> Result<Vec<TenantId>> {
    let rows = sqlx::query_scalar!(
        r#"SELECT tenant AS "tenant!: TenantColumn" FROM unslide_slack_due($1, $2, $3)"#,
        store.now(),
        last,
        i32::from(limit)
    );
    Ok(rows.fetch_all(store.pool()).await?.into_iter().map(TenantId::from).collect())
}

/// Returns the Slack app of the transaction's tenant.
pub async fn get_app(tx: &mut TenantTx) -> Result<Option<SlackAppRow>> {
    let (connection, tenant, _) = tx.parts();
    let row = sqlx::query_as!(
        SlackAppRow,
        r#"SELECT id AS "id: SlackAppId", team, channel, sealed_token, sealed_signing_secret, reports, app, changed_at, not_before, problem
         FROM slack_apps WHERE tenant = $1"#,
        tenant
    );
    Ok(row.fetch_optional(connection).await?)
}

/// Sets the Slack app. Its id and its begin stay. What waits because of the former settings goes on at once.
pub async fn set_app(tx: &mut TenantTx, new: &NewSlackAppRow) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO slack_apps (tenant, id, team, channel, sealed_token, sealed_signing_secret, reports, app, since, next_look_at,
                                 changed_at, problem)
         VALUES ($1, gen_random_uuid(), $2, $3, $4, $5, $6, $7, $8, $8, $8, $9)
         ON CONFLICT (tenant) DO UPDATE
         SET team = $2, channel = $3, sealed_token = $4, sealed_signing_secret = $5, reports = $6, app = $7, next_look_at = $8,
             changed_at = $8, problem = $9, not_before = NULL",
        tenant,
        new.team,
        new.channel,
        new.sealed_token,
        new.sealed_signing_secret,
        new.reports,
        new.app,
        now,
        new.problem
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Removes the Slack app with its threads and its accounts of people. Returns false if there is none.
pub async fn remove_app(tx: &mut TenantTx) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let removed = sqlx::query!("DELETE FROM slack_apps WHERE tenant = $1", tenant);
    Ok(removed.execute(connection).await?.rows_affected() > 0)
}

/// Records whether Slack takes requests: the problem that concerns all groups, and the pause before the next request.
pub async fn hold_app(tx: &mut TenantTx, problem: Option<&str>, pause: Option<Duration>) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE slack_apps SET problem = $2, not_before = $3
         WHERE tenant = $1 AND (problem IS DISTINCT FROM $2 OR not_before IS DISTINCT FROM $3)",
        tenant,
        problem,
        pause.map(|pause| now + pause)
    )
    .execute(connection)
    .await?;
    Ok(())
}
