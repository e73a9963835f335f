//! Counts of metric payloads by app, version, hour and metric: for all values together, by host and by endpoint.

use super::sums::{ROWS_AT_ONCE, RowSums};
use super::versions::CountedPayload;
use crate::store::hours::counted_hour;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::OffsetDateTime;
use unslide_health_formats::MetricName;
use unslide_model::QuantileSketch;
use unslide_proto::event::GatewayEvent;
use unslide_store::sql::json_time;
use unslide_store::{Result, TenantTx};

/// The dimensions that are counted by hour: those that rules watch. All values together have none.
const HOURLY_DIMENSIONS: [&str; 3] = ["", "endpoint", "host"];

/// App, dimension, value, metric, hour and version.
type HourKey = (String, String, String, String, OffsetDateTime, String);

/// Sums that a batch adds to the rows of hours.
pub(super) struct HourSums {
    rows: BTreeMap<HourKey, RowSums>,
    now: OffsetDateTime,
}

impl HourSums {
    pub(super) fn new(now: OffsetDateTime) -> HourSums {
        HourSums { rows: BTreeMap::new(), now }
    }

    /// Adds what one payload adds to a row of its day, if its hour is kept.
    pub(super) fn merge(
        &mut self,
        counted: &CountedPayload<'_>,
        place: (&'static str, &str),
        metric: MetricName,
        sums: &RowSums,
    ) {
        let (dimension, value) = place;
        let (_, measured_at) = counted.payload.event_time();
        let Some(hour) = counted_hour(measured_at, self.now) else { return };
        if !HOURLY_DIMENSIONS.contains(&dimension) {
            return;
        }
        let (app, version) = (counted.app.clone(), counted.version.clone());
        let key = (app, dimension.to_owned(), value.to_owned(), metric.to_string(), hour, version);
        self.rows.entry(key).or_default().merge(sums, counted.weight);
    }
}

/// Adds to the rows, in the order of their keys.
pub(super) async fn add(tx: &mut TenantTx, sums: &HourSums) -> Result<()> {
    let rows: Vec<(&HourKey, &RowSums)> = sums.rows.iter().collect();
    for part in rows.chunks(ROWS_AT_ONCE) {
        add_part(tx, part).await?;
    }
    Ok(())
}

async fn add_part(tx: &mut TenantTx, sums: &[(&HourKey, &RowSums)]) -> Result<()> {
    let rows = sums.iter().map(|(key, row)| row.add_columns(key_columns(key)));
    let (connection, tenant, _) = tx.parts();
    // Locks the rows and returns their sketches; those of a new row are empty.
    let rows = sqlx::query!(
        r#"INSERT INTO metric_hours AS h (tenant, app, dimension, value, metric, hour, version, observations, failed,
                                          squares, sampled, sketch)
           SELECT $1, n.app, n.dimension, n.value, n.metric, n.hour, n.version, n.observations, n.failed, n.squares,
                  n.sampled, $3
           FROM jsonb_populate_recordset(NULL::metric_hours, $2) AS n
           ORDER BY n.app COLLATE "C", n.dimension COLLATE "C", n.value COLLATE "C", n.metric COLLATE "C", n.hour,
                    n.version COLLATE "C"
           ON CONFLICT (tenant, app, dimension, value, metric, hour, version) DO UPDATE
           SET observations = h.observations + EXCLUDED.observations, failed = h.failed + EXCLUDED.failed,
               squares = h.squares + EXCLUDED.squares, sampled = h.sampled OR EXCLUDED.sampled
           RETURNING app, dimension, value, metric, hour, version, sketch"#,
        tenant,
        rows.collect::<Value>(),
        QuantileSketch::default().to_bytes()
    )
    .fetch_all(connection)
    .await?;
    let mut merged = Vec::new();
    for row in rows {
        let key = (row.app, row.dimension, row.value, row.metric, row.hour, row.version);
        let Ok(at) = sums.binary_search_by_key(&&key, |(key, _)| *key) else { continue };
        merged.push(sums[at].1.add_sketch(key_columns(&key), &row.sketch)?);
    }
    write_sketches(tx, merged).await
}

async fn write_sketches(tx: &mut TenantTx, merged: Vec<Value>) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE metric_hours h SET sketch = n.sketch
         FROM jsonb_populate_recordset(NULL::metric_hours, $2) AS n
         WHERE h.tenant = $1 AND h.app = n.app AND h.dimension = n.dimension AND h.value = n.value
           AND h.metric = n.metric AND h.hour = n.hour AND h.version = n.version",
        tenant,
        Value::Array(merged)
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the columns of a row's key, without its tenant.
fn key_columns(key: &HourKey) -> Value {
    let (app, dimension, value, metric, hour, version) = key;
    json!({"app": app, "dimension": dimension, "value": value, "metric": metric, "hour": json_time(*hour),
           "version": version})
}
