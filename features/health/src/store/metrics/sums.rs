//! Sums that payloads add to a row of a day or of an hour.

use serde_json::Value;
use unslide_health_formats::WEIGHT_UNIT;
use unslide_model::QuantileSketch;
use unslide_store::sql::json_bytes;
use unslide_store::{Result, StoreError};

/// Rows that one statement adds to.
pub(super) const ROWS_AT_ONCE: usize = 2_000;

/// Sums that a batch adds to one row.
#[derive(Default)]
pub(super) struct RowSums {
    /// In thousandths, as weights are.
    pub weight: u64,
    pub failed: u64,
    /// The sum of the squares of each payload's weight.
    squares: f64,
    /// True if some of the payloads have a weight of more than 1.
    sampled: bool,
    pub sketch: QuantileSketch,
}

impl RowSums {
    pub(super) fn merge(&mut self, payload: &RowSums, weight: u64) {
        self.sampled |= weight > WEIGHT_UNIT;
        self.weight = self.weight.saturating_add(payload.weight);
        self.failed = self.failed.saturating_add(payload.failed);
        self.squares += observations(payload.weight) * observations(payload.weight);
        self.sketch.merge(&payload.sketch);
    }

    /// Adds the columns with sums to those of a row's key.
    pub(super) fn add_columns(&self, mut columns: Value) -> Value {
        columns["observations"] = observations(self.weight).into();
        columns["failed"] = observations(self.failed).into();
        columns["squares"] = self.squares.into();
        columns["sampled"] = self.sampled.into();
        columns
    }

    /// Adds the column with the sketch of a stored row and these sums to those of the row's key.
    pub(super) fn add_sketch(&self, mut columns: Value, stored: &[u8]) -> Result<Value> {
        let mut whole = read_sketch(stored)?;
        whole.merge(&self.sketch);
        columns["sketch"] = json_bytes(&whole.to_bytes()).into();
        Ok(columns)
    }
}

#[expect(clippy::cast_precision_loss, reason = "exact below nine billions, and a figure for people")]
fn observations(weight: u64) -> f64 {
    weight as f64 / WEIGHT_UNIT as f64
}

/// Reads a sketch of a row.
pub fn read_sketch(bytes: &[u8]) -> Result<QuantileSketch> {
    QuantileSketch::from_bytes(bytes)
        .ok_or_else(|| StoreError::corrupt("metric_days", "a sketch that no program of ours writes"))
}
