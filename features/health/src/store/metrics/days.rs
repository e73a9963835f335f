//! Counts of metric payloads by app, version, day and metric: for all values together, and by dimension.

use super::dimension::{KnownValues, MetricDimension, made_on, request_values};
use super::hours::HourSums;
use super::sums::{ROWS_AT_ONCE, RowSums};
use super::versions::CountedPayload;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use time::{Date, OffsetDateTime};
use unslide_health_formats::{MetricName, RequestTiming};
use unslide_model::QuantileSketch;
use unslide_proto::event::GatewayEvent;
use unslide_store::{Result, StoreError, TenantTx};

/// App, version, dimension, day, value and metric. Of all values together, the dimension and the value are empty.
type RowKey = (String, String, &'static str, Date, String, &'static str);
/// Sums that one payload adds to rows, by the dimension of requests and its value, and the metric. All together have no
/// dimension.
type OwnSums = BTreeMap<(Option<MetricDimension>, String, MetricName), RowSums>;

pub(super) struct PayloadSums {
    rows: BTreeMap<RowKey, RowSums>,
    hours: HourSums,
    known: KnownValues,
}

impl PayloadSums {
    /// Makes empty sums; the values `known` have rows.
    pub(super) fn new(known: KnownValues, now: OffsetDateTime) -> PayloadSums {
        PayloadSums { rows: BTreeMap::new(), hours: HourSums::new(now), known }
    }

    /// Adds what one payload says.
    pub(super) fn add(&mut self, counted: &CountedPayload<'_>) {
        let made_on: Vec<(MetricDimension, String)> = made_on(counted)
            .map(|(dimension, value)| {
                (dimension, self.known.counted_as(counted, dimension, value).to_owned())
            })
            .collect();
        for ((dimension, value, metric), sums) in self.payload_sums(counted) {
            if let Some(dimension) = dimension {
                self.merge(counted, (dimension.as_str(), &value), metric, &sums);
                continue;
            }
            for (dimension, value) in &made_on {
                self.merge(counted, (dimension.as_str(), value), metric, &sums);
            }
            self.merge(counted, ("", ""), metric, &sums);
        }
    }

    /// Returns all that one payload adds to rows: it counts as one for the squares.
    fn payload_sums(&self, counted: &CountedPayload<'_>) -> OwnSums {
        let payload = counted.payload;
        let mut own = OwnSums::new();
        for sample in &payload.samples {
            let weight = counted.weight.saturating_mul(sample.count.into());
            let row = own.entry((None, String::new(), sample.metric)).or_default();
            row.weight = row.weight.saturating_add(weight);
            row.sketch.add_value(sample.value, weight);
        }
        for state in &payload.state_samples {
            let dimension = MetricDimension::State;
            let counted_as = self.known.counted_as(counted, dimension, &state.state).to_owned();
            let row = own.entry((Some(dimension), counted_as, state.sample.metric)).or_default();
            let weight = counted.weight.saturating_mul(state.sample.count.into());
            row.weight = row.weight.saturating_add(weight);
            row.sketch.add_value(state.sample.value, weight);
        }
        for request in &payload.requests {
            add_request(&mut own, request, (None, String::new()), counted.weight);
            for (dimension, value) in request_values(request) {
                let counted_as = self.known.counted_as(counted, dimension, value).to_owned();
                add_request(&mut own, request, (Some(dimension), counted_as), counted.weight);
            }
        }
        own
    }

    /// Adds the sums of a payload to the row of its day, and to that of its hour.
    fn merge(
        &mut self,
        counted: &CountedPayload<'_>,
        place: (&'static str, &str),
        metric: MetricName,
        sums: &RowSums,
    ) {
        self.hours.merge(counted, place, metric, sums);
        let (dimension, value) = place;
        let (app, version) = (counted.app.clone(), counted.version.clone());
        let key = (app, version, dimension, counted.payload.event_day(), value.to_owned(), metric.as_str());
        self.rows.entry(key).or_default().merge(sums, counted.weight);
    }

    /// Returns the sums to add to each row of days, and of hours.
    pub(super) fn finish(self) -> (BTreeMap<RowKey, RowSums>, HourSums) {
        (self.rows, self.hours)
    }
}

/// Counts every request, and each value that is known.
fn add_request(
    own: &mut OwnSums,
    request: &RequestTiming,
    place: (Option<MetricDimension>, String),
    weight: u64,
) {
    let (dimension, value_name) = place;
    let all = own.entry((dimension, value_name.clone(), MetricName::Requests)).or_default();
    all.weight = all.weight.saturating_add(weight);
    if request.failed {
        all.failed = all.failed.saturating_add(weight);
    }
    for (metric, value) in MetricName::REQUEST_VALUES.into_iter().zip(request.values) {
        let Some(value) = value else { continue };
        let row = own.entry((dimension, value_name.clone(), metric)).or_default();
        row.weight = row.weight.saturating_add(weight);
        row.sketch.add_value(value, weight);
    }
}

/// Adds to the rows, in the order of their keys.
pub(super) async fn add(tx: &mut TenantTx, sums: &BTreeMap<RowKey, RowSums>) -> Result<()> {
    let rows: Vec<(&RowKey, &RowSums)> = sums.iter().collect();
    for part in rows.chunks(ROWS_AT_ONCE) {
        add_part(tx, part).await?;
    }
    Ok(())
}

async fn add_part(tx: &mut TenantTx, sums: &[(&RowKey, &RowSums)]) -> Result<()> {
    let rows = sums.iter().map(|(key, row)| row.add_columns(key_columns(key)));
    let (connection, tenant, _) = tx.parts();
    // Locks the rows and returns their sketches; those of a new row are empty.
    let rows = sqlx::query!(
        r#"INSERT INTO metric_days AS d (tenant, app, version, dimension, day, value, metric, observations, failed,
                                         squares, sampled, sketch)
           SELECT $1, n.app, n.version, n.dimension, n.day, n.value, n.metric, n.observations, n.failed, n.squares,
                  n.sampled, $3
           FROM jsonb_populate_recordset(NULL::metric_days, $2) AS n
           ORDER BY n.app COLLATE "C", n.version COLLATE "C", n.dimension COLLATE "C", n.day, n.value COLLATE "C",
                    n.metric COLLATE "C"
           ON CONFLICT (tenant, app, version, dimension, day, value, metric) DO UPDATE
           SET observations = d.observations + EXCLUDED.observations, failed = d.failed + EXCLUDED.failed,
               squares = d.squares + EXCLUDED.squares, sampled = d.sampled OR EXCLUDED.sampled
           RETURNING app, version, dimension, day, value, metric, sketch"#,
        tenant,
        rows.collect::<Value>(),
        QuantileSketch::default().to_bytes()
    )
    .fetch_all(connection)
    .await?;
    let mut merged = Vec::new();
    for row in rows {
        let metric = MetricName::parse(&row.metric)
            .ok_or_else(|| StoreError::corrupt("metric_days", "a metric that no program of ours knows"))?;
        let dimension = MetricDimension::parse(&row.dimension).map_or("", MetricDimension::as_str);
        let key = (row.app, row.version, dimension, row.day, row.value, metric.as_str());
        let Ok(at) = sums.binary_search_by_key(&&key, |(key, _)| *key) else { continue };
        merged.push(sums[at].1.add_sketch(key_columns(&key), &row.sketch)?);
    }
    write_sketches(tx, merged).await
}

async fn write_sketches(tx: &mut TenantTx, merged: Vec<Value>) -> Result<()> {
    let (connection, tenant, _) = tx.parts();
    sqlx::query!(
        "UPDATE metric_days d SET sketch = n.sketch
         FROM jsonb_populate_recordset(NULL::metric_days, $2) AS n
         WHERE d.tenant = $1 AND d.app = n.app AND d.version = n.version AND d.dimension = n.dimension AND d.day = n.day
           AND d.value = n.value AND d.metric = n.metric",
        tenant,
        Value::Array(merged)
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Returns the columns of a row's key, without its tenant.
fn key_columns(key: &RowKey) -> Value {
    let (app, version, dimension, day, value, metric) = key;
    json!({
        "app": app,
        "version": version,
        "dimension": dimension,
        "day": day.to_string(),
        "value": value,
        "metric": metric,
    })
}
