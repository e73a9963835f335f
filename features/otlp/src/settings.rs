//! The settings of the feature.

use crate::sealing::{HeaderSealer, SEALING_KEY};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unslide_api::feature::receiver_networks::{parse_receiver_networks, warn_of_every_network};
use unslide_model::Secret;
use unslide_runtime::ConfigProblem;
use unslide_runtime::egress::AllowedReceivers;

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `api`, as far as the feature needs it.
    pub api: OtlpApiSettings,
}

/// The part of the section `api` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct OtlpApiSettings {
    /// The address of the console, for links. The api documents it.
    #[schemars(skip)]
    pub public_url: String,
    /// Settings of OTLP.
    pub otlp: CollectorSettings,
}

/// The section `api.otlp` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct CollectorSettings {
    /// The key that encrypts the headers for collectors of tenants in the database: 32 bytes in base64, as `openssl rand -base64 32`
    /// prints. Every process of the api needs the same. Without it no tenant can set headers. With another one, tenants set theirs again.
    #[schemars(with = "String")]
    pub sealing_key: Secret,
    /// Networks of the operator's own in which collectors of tenants may be, such as `10.1.0.0/16`, also without TLS.
    /// Other addresses that are not of the internet are refused.
    pub networks: Vec<String>,
    /// Ports of collectors, beside 443.
    pub ports: Vec<u16>,
    /// Milliseconds between two looks at which tenants are due.
    #[serde(skip)]
    pub look_millis: u64,
}

impl Default for CollectorSettings {
    fn default() -> CollectorSettings {
        CollectorSettings {
            sealing_key: Secret::default(),
            networks: Vec::new(),
            ports: Vec::new(),
            look_millis: 2_000,
        }
    }
}

impl CollectorSettings {
    /// Returns the collectors that tenants may name.
    ///
    /// # Errors
    /// Returns the network that is none.
    pub fn parse_receivers(&self) -> Result<AllowedReceivers, ConfigProblem> {
        parse_receiver_networks("api.otlp", &self.networks, &self.ports)
    }

    /// Returns the problems of the settings.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        if let Err(message) = HeaderSealer::from_setting(&self.sealing_key) {
            problems.push(ConfigProblem::new(SEALING_KEY, message));
        }
        problems.extend(self.parse_receivers().err());
        problems
    }

    /// Returns settings that are allowed and unsafe.
    pub fn find_insecure(&self) -> Vec<ConfigProblem> {
        warn_of_every_network("api.otlp", &self.networks).into_iter().collect()
    }
}
