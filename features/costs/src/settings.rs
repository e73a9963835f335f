//! The operator's prices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unslide_model::ResourceUse;
use unslide_runtime::ConfigProblem;

/// Microseconds of an hour.
const HOUR_MICROS: f64 = 3_600e6;
const GIGABYTE: f64 = 1e9;
const MILLION: f64 = 1e6;

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `api`, as far as the feature needs it.
    pub api: CostsApiSettings,
}

/// The part of the section `api` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct CostsApiSettings {
    /// Prices of what tenants use. Without any, amounts are shown alone.
    pub costs: Prices,
}

/// The section `api.costs` of the settings. Prices of what the operator pays, in one currency.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Prices {
    /// The currency, such as `EUR`.
    pub currency: String,
    /// Price of an hour of one CPU core.
    pub cpu_hour: f64,
    /// Price of a gigabyte of records read from or written to Kafka, before compression and without replicas.
    pub kafka_gigabyte: f64,
    /// Price of a million requests to object storage.
    pub object_requests_million: f64,
    /// Price of a gigabyte sent to or received from object storage.
    pub object_gigabyte: f64,
    /// Price of a million stored reports and events.
    pub stored_million: f64,
}

impl Prices {
    /// Returns the problems of the settings.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let bad = self.list_prices().into_iter().filter(|(_, price)| !(0.0..=MILLION).contains(price));
        bad.map(|(name, _)| ConfigProblem::new(format!("api.costs.{name}"), "a price from 0 to 1000000"))
            .collect()
    }

    /// Returns the price of what was used, or `None` if no price is set.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a price is rounded")]
    pub fn price(&self, used: &ResourceUse) -> Option<f64> {
        let amounts = [
            used.cpu_micros as f64 / HOUR_MICROS,
            used.kafka_bytes as f64 / GIGABYTE,
            used.object_requests as f64 / MILLION,
            used.object_bytes as f64 / GIGABYTE,
            used.stored as f64 / MILLION,
        ];
        let prices = self.list_prices().map(|(_, price)| price);
        let sum = amounts.iter().zip(prices).map(|(amount, price)| amount * price).sum::<f64>();
        prices.iter().any(|price| *price > 0.0).then(|| (sum * 1e6).round() / 1e6)
    }

    /// Returns the names of the settings with their values, in the order of [`ResourceUse`].
    fn list_prices(&self) -> [(&'static str, f64); 5] {
        [
            ("cpu_hour", self.cpu_hour),
            ("kafka_gigabyte", self.kafka_gigabyte),
            ("object_requests_million", self.object_requests_million),
            ("object_gigabyte", self.object_gigabyte),
            ("stored_million", self.stored_million),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_the_sum_of_amounts_times_prices() {
        let used = ResourceUse {
            cpu_micros: 7_200_000_000,
            kafka_bytes: 3_000_000_000,
            object_requests: 500_000,
            object_bytes: 1_000_000_000,
            stored: 2_000_000,
        };
        assert_eq!(Prices::default().price(&used), None);
        let prices = Prices {
            cpu_hour: 0.05,
            kafka_gigabyte: 0.1,
            object_requests_million: 5.0,
            object_gigabyte: 0.01,
            stored_million: 1.5,
            ..Prices::default()
        };
        assert_eq!(prices.price(&used), Some(5.91), "0.1 + 0.3 + 2.5 + 0.01 + 3");
        assert_eq!(prices.problems(), []);
        let wrong = Prices { cpu_hour: -1.0, stored_million: f64::NAN, ..prices };
        assert_eq!(wrong.problems().len(), 2);
    }
}
