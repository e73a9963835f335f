//! The statements about rules, salts, counts and runs over stored reports.

pub mod runs;

use ring::rand::{SystemRandom, generate};
use serde_json::Value;
use sqlx::FromRow;
use std::collections::BTreeMap;
use time::OffsetDateTime;
use unslide_model::{ReportId, TenantId};
use unslide_scrubbing_rules::{ScrubConfig, ScrubSalt};
use unslide_store::report_rows::{ReportSample, SampleScope, read_samples};
use unslide_store::reports::find_arrival_times;
use unslide_store::sql::TenantColumn;
use unslide_store::tables::{KeyColumn, OwnedTable};
use unslide_store::{ReportPlace, Result, Store, StoreError, StoreHook, TenantTx};

/// Most apps of a tenant that have rules.
pub const APPS_LIMIT: i64 = 50;

/// The tables of the feature, in the order in which it locks their rows.
pub const SCRUBBING_HOOK: StoreHook = StoreHook::with_tables(
    crate::NAME,
    &[
        OwnedTable::new("scrub_salts"),
        OwnedTable { key: &[KeyColumn::Text("app")], ..OwnedTable::new("scrub_rules") },
        OwnedTable::new("scrub_runs"),
    ],
);

/// The rules of an app.
#[derive(Clone, Debug)]
pub struct AppRules {
    /// The app's bundle identifier; empty for the apps without rules of their own.
    pub app: String,
    /// The revision, new with each change.
    pub revision: String,
    pub config: ScrubConfig,
    pub changed_at: OffsetDateTime,
}

/// Which rules a tenant has, without the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesRevision {
    pub tenant: TenantId,
    /// See [`AppRules::app`].
    pub app: String,
    pub revision: String,
}

fn read_config(rules: Value) -> Result<ScrubConfig> {
    serde_json::from_value(rules).map_err(|error| StoreError::corrupt("scrub_rules", error))
}

/// Lists which rules there are, of all tenants.
pub async fn list_revisions(store: &Store) -> Result<Vec<RulesRevision>> {
    let rows = sqlx::query!(
        r#"SELECT tenant AS "tenant!: TenantColumn", app AS "app!", revision::text AS "revision!" FROM unslide_scrub_revisions()"#
    );
    let rows = rows.fetch_all(store.pool()).await?.into_iter();
    Ok(rows
        .map(|row| RulesRevision { tenant: row.tenant.into(), app: row.app, revision: row.revision })
        .collect())
}

/// Lists the rules of the transaction's tenant, those for the apps without rules of their own first.
pub async fn list_rules(tx: &mut TenantTx) -> Result<Vec<AppRules>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT app, revision::text AS "revision!", rules, changed_at FROM scrub_rules WHERE tenant = $1 ORDER BY app"#,
        tenant
    );
    let rows = rows.fetch_all(connection).await?.into_iter();
    rows.map(|row| {
        let config = read_config(row.rules)?;
        Ok(AppRules { app: row.app, revision: row.revision, config, changed_at: row.changed_at })
    })
    .collect()
}

/// Returns the salt of the transaction's tenant, which exists since its first rules.
pub async fn find_salt(tx: &mut TenantTx) -> Result<Option<ScrubSalt>> {
    let (connection, tenant, _) = tx.parts();
    let salt = sqlx::query_scalar!("SELECT salt FROM scrub_salts WHERE tenant = $1", tenant);
    let salt = salt.fetch_optional(connection).await?;
    let bytes = salt.map(|salt| <[u8; 32]>::try_from(salt.as_slice())).transpose();
    Ok(bytes.map_err(|error| StoreError::corrupt("scrub_salts", error))?.map(|bytes| ScrubSalt::new(&bytes)))
}

/// Sets the rules of an app, or removes them. Returns false if too many apps have rules.
pub async fn set_rules(tx: &mut TenantTx, app: &str, config: Option<&ScrubConfig>) -> Result<bool> {
    let Some(config) = config else {
        let (connection, tenant, _) = tx.parts();
        sqlx::query!("DELETE FROM scrub_rules WHERE tenant = $1 AND app = $2", tenant, app)
            .execute(connection)
            .await?;
        return Ok(true);
    };
    let salt: [u8; 32] = generate(&SystemRandom::new())
        .map_err(|_| StoreError::corrupt("scrub_salts", "the operating system gives no random bytes"))?
        .expose();
    let rules = serde_json::to_value(config).map_err(|error| StoreError::corrupt("scrub_rules", error))?;
    let (connection, tenant, now) = tx.parts();
    sqlx::query!(
        "INSERT INTO scrub_salts (tenant, salt) VALUES ($1, $2) ON CONFLICT (tenant) DO NOTHING",
        tenant,
        salt.as_slice()
    )
    .execute(&mut *connection)
    .await?;
    // Others that set rules of the tenant wait, so that the limit holds.
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('scrub rules of ' || $1, 0))")
        .bind(tenant)
        .execute(&mut *connection)
        .await?;
    let stored = sqlx::query!(
        "INSERT INTO scrub_rules (tenant, app, revision, rules, changed_at)
         SELECT $1, $2, gen_random_uuid(), $3, $4
         WHERE $5 > (SELECT count(*) FROM scrub_rules r WHERE r.tenant = $1 AND r.app <> $2)
         ON CONFLICT (tenant, app) DO UPDATE
         SET revision = EXCLUDED.revision, rules = EXCLUDED.rules, changed_at = EXCLUDED.changed_at",
        tenant,
        app,
        rules,
        now,
        APPS_LIMIT
    )
    .execute(connection)
    .await?;
    Ok(stored.rows_affected() > 0)
}

/// The changes that a report names.
#[derive(FromRow)]
struct TakenRow {
    counts: Option<Value>,
}

/// Returns what was taken out of a report, by the names of rules.
pub async fn find_taken(tx: &mut TenantTx, report: ReportId, variant: u32) -> Result<BTreeMap<String, u64>> {
    let times = find_arrival_times(tx, &[report.uuid()]).await?;
    let place = |received_at| ReportPlace { id: report, variant, received_at };
    let places: Vec<ReportPlace> = times.into_iter().map(place).collect();
    let sample = ReportSample::new(SampleScope::Places(&places), "r.context -> 'changes' AS changes", 1);
    let taken: Vec<TakenRow> = read_samples(tx, [sample], &|query| {
        query.push("SELECT changes -> ").push_bind(crate::NAME).push(" AS counts FROM newest");
    })
    .await?;
    let counts = taken.into_iter().next().and_then(|row| row.counts);
    let counts = counts.map(serde_json::from_value).transpose();
    Ok(counts.map_err(|error| StoreError::corrupt("reports", error))?.unwrap_or_default())
}

/// Returns the rules that hold for an app: its own, or those for the apps without.
pub fn find_app_rules(listed: &[AppRules], app: &str) -> Option<ScrubConfig> {
    let of_app = |app: &str| listed.iter().find(|rules| rules.app == app);
    of_app(app).or_else(|| of_app("")).map(|rules| rules.config.clone())
}
