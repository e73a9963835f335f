//! Settings of a tenant for its apps.

use crate::app_signals::SignalSettings;
use crate::column::JsonColumn;
use crate::{Result, TenantTx};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The name of the default of the signals, for all apps of a tenant without a choice of their own.
pub const ALL_APPS: &str = "*";

/// Apps of a tenant that may have settings.
pub const APPS_WITH_SETTINGS_LIMIT: i64 = 1_000;

/// The settings of an app. An empty text is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct AppSettings {
    /// URL of a source file: a template with `{path}`, and optionally `{line}`, `{version}` and `{build}`. No
    /// links if it is empty.
    #[schema(max_length = 1000, example = "https://git.example.com/shop/blob/v{version}/{path}#L{line}")]
    pub source_url: String,
    /// The folder that held the repository during the build. `{path}` is the rest of a source file's path after it.
    /// Files outside of it have no link. If it is empty, only relative paths have links.
    #[schema(max_length = 1000, example = "/Users/runner/work/shop/shop")]
    pub source_root: String,
    /// How much of each signal is kept.
    #[schema(inline)]
    pub signals: SignalSettings,
}

/// An app with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppWithSettings {
    /// Bundle identifier of the app.
    #[schema(min_length = 1, max_length = 255, example = "com.example.shop")]
    pub app: String,
    /// The settings of this app.
    #[serde(flatten)]
    #[schema(inline)]
    pub settings: AppSettings,
}

/// Returns the settings of an app of the transaction's tenant; the defaults if the tenant chose none.
pub async fn get(tx: &mut TenantTx, app: &str) -> Result<AppSettings> {
    let (connection, tenant, _) = tx.parts();
    let found = sqlx::query_as!(
        AppSettings,
        r#"SELECT coalesce(s.source_url, '') AS "source_url!", coalesce(s.source_root, '') AS "source_root!",
                  coalesce(nullif(s.signals, '{}'), u.signals, '{}') AS "signals!: JsonColumn<SignalSettings>"
           FROM (VALUES (1)) one
           LEFT JOIN app_settings s ON s.tenant = $1 AND s.app = $2
           LEFT JOIN app_settings u ON u.tenant = $1 AND u.app = $3"#,
        tenant,
        app,
        ALL_APPS
    );
    Ok(found.fetch_one(connection).await?)
}

/// Lists the apps that have settings, by name, from the one after `after` on; with `only` this one alone.
pub async fn list_settings(
    tx: &mut TenantTx,
    only: Option<&str>,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<AppWithSettings>> {
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        r#"SELECT s.app, s.source_url, s.source_root,
                  coalesce(nullif(s.signals, '{}'), u.signals, '{}') AS "signals!: JsonColumn<SignalSettings>"
           FROM app_settings s LEFT JOIN app_settings u ON u.tenant = $1 AND u.app = $5
           WHERE s.tenant = $1 AND ($2::text IS NULL OR s.app = $2) AND ($3::text IS NULL OR s.app COLLATE "C" > $3)
           ORDER BY s.app COLLATE "C" LIMIT $4"#,
        tenant,
        only,
        after,
        i64::from(limit),
        ALL_APPS
    );
    let rows = rows.fetch_all(connection).await?.into_iter();
    let apps = rows.map(|row| AppWithSettings {
        app: row.app,
        settings: AppSettings {
            source_url: row.source_url,
            source_root: row.source_root,
            signals: row.signals.0,
        },
    });
    Ok(apps.collect())
}

/// Replaces the settings of an app; the defaults remove its row. Signals that equal those of [`ALL_APPS`] follow them
/// from then on. Those of [`ALL_APPS`] are stored as they are, so a later release with other defaults changes none of
/// them. Returns false if [`APPS_WITH_SETTINGS_LIMIT`] others have some.
pub async fn replace_settings(tx: &mut TenantTx, app: &str, settings: &AppSettings) -> Result<bool> {
    let follows = app != ALL_APPS && settings.signals == get(tx, ALL_APPS).await?.signals;
    let (connection, tenant, _) = tx.parts();
    if follows && settings.source_url.is_empty() && settings.source_root.is_empty() {
        sqlx::query!("DELETE FROM app_settings WHERE tenant = $1 AND app = $2", tenant, app)
            .execute(connection)
            .await?;
        return Ok(true);
    }
    // The query for signals does not read apps without a choice of their own.
    let signals = match follows {
        true => serde_json::json!({}),
        false => serde_json::json!(settings.signals),
    };
    // Two at once must not both be the last one.
    sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('app settings of ' || $1, 0))", tenant)
        .execute(&mut *connection)
        .await?;
    let written = sqlx::query!(
        "INSERT INTO app_settings (tenant, app, source_url, source_root, signals)
         SELECT $1, $2, $3, $4, $5
         WHERE (SELECT count(*) FROM app_settings WHERE tenant = $1 AND app <> $2) < $6
         ON CONFLICT (tenant, app) DO UPDATE
         SET source_url = excluded.source_url, source_root = excluded.source_root, signals = excluded.signals",
        tenant,
        app,
        settings.source_url,
        settings.source_root,
        signals,
        APPS_WITH_SETTINGS_LIMIT
    )
    .execute(connection)
    .await?;
    Ok(written.rows_affected() > 0)
}
