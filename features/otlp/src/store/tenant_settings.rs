//! The settings of a tenant, and when its outbox is sent.

use time::{Duration, OffsetDateTime};
use unslide_model::TenantId;
use unslide_store::sql::TenantColumn;
use unslide_store::{Result, Store, TenantTx};

/// How long a process sends at most. Longer than a turn takes.
const SEND_LEASE: Duration = Duration::minutes(5);

/// The settings of a tenant, with the state of its export.
#[derive(Clone, Debug)]
pub struct OtlpSettings {
    pub refuses_others: bool,
    pub export_url: Option<String>,
    pub header_names: Vec<String>,
    pub changed_at: OffsetDateTime,
    pub sent_at: Option<OffsetDateTime>,
    pub failures: i32,
    pub problem: Option<String>,
    /// Reports that did not go to the collector since the settings were set, and why the last of them did not.
    pub dropped: i64,
    pub drop_reason: Option<String>,
    pub sealed_headers: Option<Vec<u8>>,
}

/// Settings to be stored.
#[derive(Clone, Debug)]
pub struct NewOtlpSettings {
    pub refuses_others: bool,
    pub export_url: Option<String>,
    pub header_names: Vec<String>,
    pub sealed_headers: Option<Vec<u8>>,
}

/// The collector of a tenant, once its turn is claimed. The turn ends if the settings change, or another process claims them.
#[derive(Clone, Debug)]
pub struct ExportTarget {
    pub url: String,
    /// The headers of each request, encrypted.
    pub sealed_headers: Option<Vec<u8>>,
    pub changed_at: OffsetDateTime,
    pub leased_until: OffsetDateTime,
    /// Requests in a row that failed.
    pub failures: i32,
}

/// The end of a turn.
#[derive(Clone, Debug)]
pub struct SendEnd {
    /// The pause until the next turn.
    pub pause: Duration,
    /// True if the collector took records.
    pub has_sent: bool,
    /// Requests in a row that failed.
    pub failures: i32,
    /// Why the last request failed.
    pub problem: Option<String>,
}

/// Reports that leave the outbox unsent.
#[derive(Clone, Copy, Debug)]
pub struct DroppedReports<'r> {
    pub count: usize,
    /// The words for the tenant.
    pub reason: &'r str,
}

/// Returns the settings of the transaction's tenant.
pub async fn find_settings(tx: &mut TenantTx) -> Result<Option<OtlpSettings>> {
    let (connection, tenant, _) = tx.parts();
    let settings = sqlx::query_as!(
        OtlpSettings,
        "SELECT refuses_others, export_url, header_names, changed_at, sent_at, failures, problem, dropped, drop_reason, sealed_headers
         FROM otlp_settings WHERE tenant = $1",
        tenant
    );
    Ok(settings.fetch_optional(connection).await?)
}

/// Returns the settings of the transaction's tenant, and locks them: another change waits for the end of this one.
pub async fn lock_settings(tx: &mut TenantTx) -> Result<Option<OtlpSettings>> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query_scalar!("SELECT tenant FROM otlp_settings WHERE tenant = $1 FOR UPDATE", tenant)
        .fetch_optional(connection)
        .await?;
    find_settings(tx).await
}

/// Sets the settings of the transaction's tenant, whose `known` ones are locked. The outbox is sent at once. It is emptied if there is
/// no collector, and if there was none: what waits then was stored while the last one was removed.
pub async fn set_settings(
    tx: &mut TenantTx,
    known: Option<&OtlpSettings>,
    new: &NewOtlpSettings,
) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO otlp_settings (tenant, refuses_others, export_url, header_names, sealed_headers, changed_at, next_send_at)
         VALUES ($1, $2, $3, $4, $5, $6, $6)
         ON CONFLICT (tenant) DO UPDATE SET refuses_others = $2, export_url = $3, header_names = $4, sealed_headers = $5,
             changed_at = $6, next_send_at = $6, leased_until = NULL, failures = 0, problem = NULL, dropped = 0,
             drop_reason = NULL",
        tenant,
        new.refuses_others,
        new.export_url,
        &new.header_names,
        new.sealed_headers,
        now
    )
    .execute(&mut *connection)
    .await?;
    let had_collector = known.is_some_and(|known| known.export_url.is_some());
    sqlx::query!(
        "DELETE FROM otlp_outbox WHERE tenant = $1 AND NOT $2::boolean",
        tenant,
        had_collector && new.export_url.is_some()
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Removes the settings of the transaction's tenant, with its outbox. Returns true if there were any.
pub async fn remove_settings(tx: &mut TenantTx) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let removed =
        sqlx::query!("DELETE FROM otlp_settings WHERE tenant = $1", tenant).execute(&mut *connection).await?;
    sqlx::query!("DELETE FROM otlp_outbox WHERE tenant = $1", tenant).execute(connection).await?;
    Ok(removed.rows_affected() > 0)
}

/// Returns tenants with reports that are to be sent.
pub async fn list_due(store: &Store, limit: u16) -> Result<Vec<TenantId>> {
    let rows = sqlx::query_scalar!(
        r#"SELECT tenant AS "tenant!: TenantColumn" FROM unslide_otlp_due($1, $2)"#,
        store.now(),
        i32::from(limit)
    );
    Ok(rows.fetch_all(store.pool()).await?.into_iter().map(TenantId::from).collect())
}

/// Claims the turn of the transaction's tenant for this process. Returns None if it is not due, or another process sends.
pub async fn claim_turn(tx: &mut TenantTx) -> Result<Option<ExportTarget>> {
    let (connection, tenant, now) = tx.parts();
    let claimed = sqlx::query_as!(
        ExportTarget,
        r#"UPDATE otlp_settings SET leased_until = $3
           WHERE tenant = $1 AND export_url IS NOT NULL AND next_send_at <= $2
             AND (leased_until IS NULL OR leased_until <= $2)
           RETURNING export_url AS "url!", sealed_headers, changed_at, leased_until AS "leased_until!", failures"#,
        tenant,
        now,
        now + SEND_LEASE
    );
    Ok(claimed.fetch_optional(connection).await?)
}

/// Returns true if a turn still is this process's, with the settings as it claimed them. They stay so until the transaction ends.
/// Counts reports that are dropped in the same transaction.
pub async fn guard_turn(
    tx: &mut TenantTx,
    claimed: &ExportTarget,
    dropped: Option<DroppedReports<'_>>,
) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let guarded = sqlx::query!(
        "UPDATE otlp_settings SET dropped = dropped + $4, drop_reason = coalesce($5, drop_reason)
         WHERE tenant = $1 AND changed_at = $2 AND leased_until = $3",
        tenant,
        claimed.changed_at,
        claimed.leased_until,
        dropped.map_or(0, |dropped| i64::try_from(dropped.count).unwrap_or(i64::MAX)),
        dropped.map(|dropped| dropped.reason)
    );
    Ok(guarded.execute(connection).await?.rows_affected() > 0)
}

/// Returns true if a turn still is this process's, with the settings as it claimed them.
pub async fn is_current_turn(tx: &mut TenantTx, claimed: &ExportTarget) -> Result<bool> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_scalar!(
        "SELECT tenant FROM otlp_settings WHERE tenant = $1 AND changed_at = $2 AND leased_until = $3",
        tenant,
        claimed.changed_at,
        claimed.leased_until
    );
    Ok(found.fetch_optional(connection).await?.is_some())
}

/// Records the end of a turn, unless it is no longer this process's.
pub async fn finish_turn(tx: &mut TenantTx, claimed: &ExportTarget, end: &SendEnd) -> Result<()> {
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "UPDATE otlp_settings SET leased_until = NULL, next_send_at = $5, problem = $7, failures = $8,
             sent_at = CASE WHEN $6::boolean THEN $4 ELSE sent_at END
         WHERE tenant = $1 AND changed_at = $2 AND leased_until = $3",
        tenant,
        claimed.changed_at,
        claimed.leased_until,
        now,
        now + end.pause,
        end.has_sent,
        end.problem,
        end.failures
    )
    .execute(connection)
    .await?;
    Ok(())
}
