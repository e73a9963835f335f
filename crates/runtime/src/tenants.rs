//! Default limits of tenants.

use crate::ConfigProblem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The section `tenants` of a configuration.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct TenantDefaults {
    /// The largest symbol upload of a tenant that has no limit of its own.
    #[serde(rename = "upload_size", with = "unslide_model::units::bytes")]
    #[schemars(with = "String")]
    pub upload_bytes: u64,
    /// Storage that the symbols of a tenant may take if it has no limit of its own.
    #[serde(rename = "symbols_size", with = "unslide_model::units::bytes")]
    #[schemars(with = "String")]
    pub symbol_bytes: u64,
    /// Cost units a second of a tenant that has no limit of its own: a report costs one, and one more for each
    /// 64 KiB. Each process of the api refuses more; all symbolizers together let more from Kafka wait in the
    /// overflow topic. 0: no limit.
    pub units_per_second: u32,
    /// Cost units a second of the reports that one tenant has symbolicated or explained by requests, in each
    /// process of the api.
    pub symbolication_units_per_second: u32,
}

impl Default for TenantDefaults {
    fn default() -> TenantDefaults {
        TenantDefaults {
            upload_bytes: 4 << 30,
            symbol_bytes: 1 << 40,
            units_per_second: 2_000,
            symbolication_units_per_second: 80,
        }
    }
}

impl TenantDefaults {
    /// Returns the problems of this section.
    #[must_use]
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let numbers = [
            ("upload_size", self.upload_bytes),
            ("symbols_size", self.symbol_bytes),
            ("symbolication_units_per_second", self.symbolication_units_per_second.into()),
        ];
        let zero = numbers.iter().filter(|(_, value)| *value == 0);
        zero.map(|(name, _)| ConfigProblem::new(format!("tenants.{name}"), "must be more than 0")).collect()
    }
}
