//! The rows of figures by hour, and of sessions by day, for rules and for charts of one figure.

use super::{HealthSums, read};
use crate::store::metrics::MetricDimension;
use crate::store::sessions::read_sketch;
use std::collections::BTreeMap;
use time::{Date, OffsetDateTime};
use unslide_health_formats::MetricName;
use unslide_store::watched_figures::FigureQuery;
use unslide_store::{Result, TenantTx};

/// Rows of a period, one for each version and day or hour, that a figure is made of: the newest.
pub(super) const WATCHED_ROWS_LIMIT: i64 = 1_000;

/// The columns of a row of a metric that are read.
pub(super) struct WatchedRow {
    /// The beginning of its hour or day.
    pub begin: OffsetDateTime,
    pub observations: f64,
    pub failed: f64,
    pub squares: f64,
    pub sampled: bool,
    pub sketch: Vec<u8>,
}

/// Returns the sessions of an app by the hour of their begin.
pub(super) async fn session_hour_counts(
    tx: &mut TenantTx,
    app: &str,
    version: Option<&str>,
    period: (OffsetDateTime, OffsetDateTime),
) -> Result<BTreeMap<OffsetDateTime, HealthSums>> {
    let (from, to) = period;
    let (connection, tenant, _) = tx.parts();
    let rows = sqlx::query!(
        "SELECT hour, sessions, crashed, out_of_memory, unexplained, background_memory, squares, users, crashed_users
         FROM session_hour_counts
         WHERE tenant = $1 AND app = $2 AND hour >= $3 AND hour < $4 AND ($5::text IS NULL OR version = $5)
         ORDER BY hour DESC, version DESC LIMIT $6",
        tenant,
        app,
        from,
        to,
        version,
        WATCHED_ROWS_LIMIT
    )
    .fetch_all(connection)
    .await?;
    let mut hours = BTreeMap::<OffsetDateTime, HealthSums>::new();
    for row in rows {
        hours.entry(row.hour).or_default().merge(&HealthSums {
            sessions: row.sessions,
            crashed: row.crashed,
            out_of_memory: row.out_of_memory,
            unexplained: row.unexplained,
            background_memory: row.background_memory,
            squares: row.squares,
            users: read_sketch(&row.users)?,
            crashed_users: read_sketch(&row.crashed_users)?,
            ..HealthSums::default()
        });
    }
    Ok(hours)
}

/// Returns the sessions of an app by the begin of their day.
pub(super) async fn session_days(
    tx: &mut TenantTx,
    app: &str,
    version: Option<&str>,
    period: (Date, Date),
) -> Result<BTreeMap<OffsetDateTime, HealthSums>> {
    let mut days = BTreeMap::<OffsetDateTime, HealthSums>::new();
    let versions = version.map(|version| vec![version.to_owned()]);
    read(tx, Some(app), versions.as_deref(), period, |row| {
        days.entry(row.day.midnight().assume_utc()).or_default().add(row)
    })
    .await?;
    Ok(days)
}

/// A value of a dimension of requests.
pub(super) struct ValuePlace<'p> {
    pub dimension: MetricDimension,
    pub value: &'p str,
}

/// Reads the rows of a metric by hour: of one value, or of all values together.
pub(super) async fn read_hour_rows(
    tx: &mut TenantTx,
    query: FigureQuery<'_>,
    metric: MetricName,
    period: (OffsetDateTime, OffsetDateTime),
    place: Option<ValuePlace<'_>>,
) -> Result<Vec<WatchedRow>> {
    let (from, to) = period;
    let (dimension, value) = place.map_or(("", ""), |place| (place.dimension.as_str(), place.value));
    let (connection, tenant, _) = tx.parts();
    Ok(sqlx::query_as!(
        WatchedRow,
        "SELECT hour AS begin, observations, failed, squares, sampled, sketch FROM metric_hours
         WHERE tenant = $1 AND app = $2 AND dimension = $3 AND value = $4 AND metric = $5 AND hour >= $6 AND hour < $7
           AND ($8::text IS NULL OR version = $8)
         ORDER BY hour DESC, version DESC LIMIT $9",
        tenant,
        query.app,
        dimension,
        value,
        metric.as_str(),
        from,
        to,
        query.version,
        WATCHED_ROWS_LIMIT
    )
    .fetch_all(connection)
    .await?)
}
