//! The caps of a tenant.

use serde::Serialize;
use time::{Duration, OffsetDateTime, UtcOffset};
use unslide_store::sql::to_row32;
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

/// Most apps of a tenant that have a cap of their own.
const APPS_LIMIT: i64 = 50;
/// The greatest cap. A day's chosen bodies are compared at once.
pub const MAX_BODIES: u32 = 1_000;

/// The cap of an app.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = AppBodyCap)]
pub struct AppCap {
    /// Bundle identifier of the app; empty for the apps without a cap of their own.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// Bodies that are kept of a group and day.
    #[schema(minimum = 1, maximum = 1_000, example = 200)]
    pub bodies: u32,
    /// It holds for reports that arrived at this time or later (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub since: OffsetDateTime,
    /// When it was set last (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
}

/// Lists the caps of the transaction's tenant, that for the apps without one of their own first.
pub async fn list_caps(tx: &mut TenantTx) -> Result<Vec<AppCap>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT app, bodies, since, changed_at FROM body_caps WHERE tenant = $1 ORDER BY app COLLATE "C" LIMIT 51"#,
        tenant
    );
    let caps = rows.fetch_all(connection).await?.into_iter().map(|row| AppCap {
        app: row.app,
        bodies: row.bodies.unsigned_abs(),
        since: row.since,
        changed_at: row.changed_at,
    });
    Ok(caps.collect())
}

/// Sets the cap of an app, or removes it. A cap that is changed holds for the same reports as before. Returns false if too many
/// apps have one.
pub async fn set_cap(tx: &mut TenantTx, app: &str, bodies: Option<u32>) -> Result<bool> {
    let (connection, tenant, now) = tx.parts();
    // Others that set caps of the tenant wait, so that the limit holds.
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('body caps of ' || $1, 0))")
        .bind(tenant)
        .execute(&mut *connection)
        .await?;
    let Some(bodies) = bodies else {
        sqlx::query!("DELETE FROM body_caps WHERE tenant = $1 AND app = $2", tenant, app)
            .execute(&mut *connection)
            .await?;
        sqlx::query!(
            "DELETE FROM body_cap_turns WHERE tenant = $1 AND NOT EXISTS (SELECT FROM body_caps WHERE tenant = $1)",
            tenant
        )
        .execute(connection)
        .await?;
        return Ok(true);
    };
    let stored = sqlx::query!(
        "INSERT INTO body_caps (tenant, app, bodies, since, changed_at)
         SELECT $1, $2, $3, $4, $4
         WHERE $5 > (SELECT count(*) FROM body_caps c WHERE c.tenant = $1 AND c.app <> $2)
         ON CONFLICT (tenant, app) DO UPDATE SET bodies = EXCLUDED.bodies, changed_at = EXCLUDED.changed_at",
        tenant,
        app,
        to_row32(bodies),
        now,
        APPS_LIMIT
    )
    .execute(&mut *connection)
    .await?;
    if stored.rows_affected() == 0 {
        return Ok(false);
    }
    // Reports that are stored at this very moment count.
    let before = now - Duration::SECOND;
    sqlx::query!(
        "INSERT INTO body_cap_turns (tenant, next_at, swept_to, wait_day) VALUES ($1, $2, $2, $3) ON CONFLICT (tenant) DO NOTHING",
        tenant,
        before,
        now.to_offset(UtcOffset::UTC).date()
    )
    .execute(connection)
    .await?;
    Ok(true)
}

/// Describes the limit of apps.
pub fn describe_limit() -> String {
    format!("app: {APPS_LIMIT} apps of the tenant have a cap, which is the limit; remove that of one of them")
}
