//! One metric of a version by one dimension, such as by device model.

use super::comparison::MetricSums;
use super::requests::sum_values;
use super::signals::read_values;
use crate::store::metrics::{MOST_VALUES, MetricDimension};
use serde::Serialize;
use std::collections::BTreeMap;
use time::Date;
use unslide_health_formats::MetricName;
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

/// Figures of a metric on one device model, on one OS version or of one host.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct DimensionFigures {
    /// The model, the system or the host; `(other)` for those beyond 200 of a version and day.
    #[schema(example = "iPhone16,1")]
    pub value: String,
    /// Observations. A sampled one counts as many as it represents.
    pub observations: f64,
    /// True where `observations` is an estimate: some of them were sampled.
    pub estimated: bool,
    /// The share that failed, 0 to 1; only for `requests`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<f64>,
    /// The 5th percentile, at most 1 % off. `requests` have no values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p5: Option<f64>,
    /// The median, at most 1 % off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// The 95th percentile, at most 1 % off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// All values together, at most 1 % off; only for bytes that were sent, received or written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<f64>,
}

/// Returns a metric of a version in a period by the values of a dimension, those with the most observations
/// first, at most [`MOST_VALUES`].
pub async fn break_down(
    tx: &mut TenantTx,
    app: &str,
    version: &str,
    metric: MetricName,
    by: MetricDimension,
    period: (Date, Date),
) -> Result<Vec<DimensionFigures>> {
    let mut found: BTreeMap<String, MetricSums> = BTreeMap::new();
    // The bound on rows is above what the longest period has.
    read_values(tx, app, version, by, Some(metric), period, |row| {
        found.entry(row.value.clone()).or_default().merge(&row.sums()?);
        Ok(())
    })
    .await?;
    let mut figures: Vec<DimensionFigures> =
        found.into_iter().map(|(value, sums)| dimension_figures(value, metric, &sums)).collect();
    figures.sort_by(|a, b| b.observations.total_cmp(&a.observations).then_with(|| a.value.cmp(&b.value)));
    figures.truncate(MOST_VALUES);
    Ok(figures)
}

fn dimension_figures(value: String, metric: MetricName, sums: &MetricSums) -> DimensionFigures {
    DimensionFigures {
        value,
        observations: sums.observations,
        estimated: sums.sampled,
        failed: sums.failed_share().filter(|_| metric == MetricName::Requests),
        p5: sums.sketch.quantile(0.05),
        p50: sums.sketch.quantile(0.5),
        p95: sums.sketch.quantile(0.95),
        sum: sum_values(metric, sums),
    }
}
