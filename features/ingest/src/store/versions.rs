//! The statements about versions of apps that use a key.

use serde::Serialize;
use time::{Date, Duration};
use unslide_model::TenantId;
use unslide_store::sql::to_row;
use unslide_store::{Result, Store, TenantTx};
use utoipa::ToSchema;

/// The period in which a version counts as one that uses a key.
const SHOWN_PERIOD: Duration = Duration::days(30);
/// Versions of a key and day that are counted, about: a stranger may send any number of them.
const DAY_VERSIONS: i64 = 100;

/// Reports and summaries of runs to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedVersion {
    pub key_id: String,
    pub day: Date,
    pub app: String,
    pub version: String,
    pub uses: VersionUses,
}

/// Uses of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionUses {
    pub reports: u64,
    /// Summaries of runs.
    pub runs: u64,
}

/// A version of an app that uses a key.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PublicKeyVersion)]
pub struct KeyVersion {
    /// Id of the key that it used.
    #[serde(skip)]
    pub key_id: String,
    /// Bundle identifier of the app.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// Version of the app, empty if its reports name none.
    #[schema(example = "3.0.1")]
    pub version: String,
    /// The day of its newest report (UTC).
    #[schema(format = Date, example = "2026-11-26")]
    pub last_day: String,
    /// Reports in the last 30 days.
    pub reports: i64,
    /// Summaries of runs in the last 30 days.
    pub runs: i64,
}

/// Reports of today (UTC) that came with a key, beside all reports of today.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PublicKeyToday)]
pub struct KeyToday {
    /// Id of the key.
    #[serde(skip)]
    pub key_id: String,
    /// Reports that the broker accepted with the key.
    pub reports: i64,
    /// Stored reports of the tenant, or of the app for a caller that sees one app.
    pub all_reports: i64,
}

impl KeyToday {
    /// Returns the share of today's reports that came with the key, at most 1. Returns None if there are no reports.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    pub fn share(&self) -> Option<f64> {
        // A report that is not stored yet counts as one of all.
        let all = self.all_reports.max(self.reports);
        (all > 0).then(|| self.reports as f64 / all as f64)
    }
}

/// Adds to the counts of a tenant's keys.
pub async fn count_versions(store: &Store, tenant: &TenantId, versions: &[CountedVersion]) -> Result<()> {
    let texts = |text: fn(&CountedVersion) -> &str| -> Vec<String> {
        versions.iter().map(|version| text(version).to_owned()).collect()
    };
    let days: Vec<Date> = versions.iter().map(|version| version.day).collect();
    let reports: Vec<i64> = versions.iter().map(|version| to_row(version.uses.reports)).collect();
    let runs: Vec<i64> = versions.iter().map(|version| to_row(version.uses.runs)).collect();
    let mut tx = store.tenant(tenant).await?;
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "INSERT INTO ingest_key_versions (tenant, key_id, day, app, version, reports, runs)
         SELECT $1, n.key_id, n.day, n.app, n.version, n.reports, n.runs
         FROM unnest($2::text[], $3::date[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])
              AS n (key_id, day, app, version, reports, runs)
         WHERE EXISTS (SELECT FROM keys k WHERE k.tenant = $1 AND k.kind = 'public' AND k.prefix = n.key_id)
           AND (EXISTS (SELECT FROM ingest_key_versions v
                        WHERE v.tenant = $1 AND v.key_id = n.key_id AND v.day = n.day AND v.app = n.app
                          AND v.version = n.version)
                OR (SELECT count(*) FROM ingest_key_versions v
                    WHERE v.tenant = $1 AND v.key_id = n.key_id AND v.day = n.day) < $8)
         ORDER BY n.key_id, n.day, n.app, n.version
         ON CONFLICT (tenant, key_id, day, app, version)
         DO UPDATE SET reports = ingest_key_versions.reports + excluded.reports,
                       runs = ingest_key_versions.runs + excluded.runs",
        tenant,
        &texts(|version| &version.key_id),
        &days,
        &texts(|version| &version.app),
        &texts(|version| &version.version),
        &reports,
        &runs,
        DAY_VERSIONS
    )
    .execute(connection)
    .await?;
    tx.commit().await
}

/// Returns the versions that used keys in the last 30 days, at most `each` of each key, those with the newest reports
/// first.
pub async fn list_key_versions(tx: &mut TenantTx, keys: &[String], each: i64) -> Result<Vec<KeyVersion>> {
    let (connection, tenant, now) = tx.parts();
    let versions = sqlx::query_as!(
        KeyVersion,
        r#"SELECT key_id AS "key_id!", app AS "app!", version AS "version!",
                  to_char(last_day, 'YYYY-MM-DD') AS "last_day!", reports AS "reports!", runs AS "runs!"
           FROM (SELECT v.key_id, v.app, v.version, max(v.day) AS last_day, sum(v.reports)::bigint AS reports,
                        sum(v.runs)::bigint AS runs,
                        row_number() OVER (PARTITION BY v.key_id
                                           ORDER BY max(v.day) DESC, sum(v.reports + v.runs) DESC, v.app, v.version) AS place
                 FROM ingest_key_versions v
                 WHERE v.tenant = $1 AND v.key_id = ANY ($2) AND v.day > $3
                 GROUP BY v.key_id, v.app, v.version) counted
           WHERE place <= $4 ORDER BY key_id, place"#,
        tenant,
        keys,
        (now - SHOWN_PERIOD).date(),
        each
    );
    Ok(versions.fetch_all(connection).await?)
}

/// Returns how many of today's reports came with each of these keys. With `app` all reports are those of this app.
pub async fn read_today(tx: &mut TenantTx, keys: &[String], app: Option<&str>) -> Result<Vec<KeyToday>> {
    let (connection, tenant, now) = tx.parts();
    let today = sqlx::query_as!(
        KeyToday,
        r#"SELECT k.key_id AS "key_id!",
                  (SELECT coalesce(sum(v.reports), 0)::bigint FROM ingest_key_versions v
                   WHERE v.tenant = $1 AND v.key_id = k.key_id AND v.day = $3) AS "reports!",
                  a.reports AS "all_reports!"
           FROM unnest($2::text[]) AS k (key_id)
           CROSS JOIN (SELECT coalesce(sum(h.reports), 0)::bigint AS reports FROM app_hours h
                       WHERE h.tenant = $1 AND h.hour >= $4 AND ($5::text IS NULL OR h.app = $5)) a"#,
        tenant,
        keys,
        now.date(),
        now.date().midnight().assume_utc(),
        app
    );
    Ok(today.fetch_all(connection).await?)
}
