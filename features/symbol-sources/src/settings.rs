//! The settings of the feature. The builder asks sources, and the api keeps and tests them: both read the same section.

use crate::target::{SEALING_KEY, SourceSealer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unslide_api::feature::receiver_networks::{parse_receiver_networks, warn_of_every_network};
use unslide_model::Secret;
use unslide_runtime::ConfigProblem;
use unslide_runtime::egress::AllowedReceivers;

/// The section of the settings with the operator's networks.
pub const SYMBOL_SOURCES_SECTION: &str = "builder.symbol_sources";

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `builder`, as far as the feature needs it.
    pub builder: SymbolSourcesBuilderSettings,
}

/// The part of the section `builder` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct SymbolSourcesBuilderSettings {
    /// Settings of tenants' own symbol sources.
    pub symbol_sources: SymbolSourcesSettings,
}

/// The section `builder.symbol_sources` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct SymbolSourcesSettings {
    /// The key that encrypts the addresses and credentials of symbol sources in the database: 32 bytes in base64, as
    /// `openssl rand -base64 32` prints. Every process of the builder and of the api needs the same. Without it no tenant can set a
    /// source. With another one, tenants set theirs again.
    #[schemars(with = "String")]
    pub sealing_key: Secret,
    /// Networks of the operator's own in which symbol sources may be, such as `10.1.0.0/16`, also without TLS. Other addresses that are
    /// not of the internet are refused. The api needs the same.
    pub networks: Vec<String>,
    /// Ports of symbol sources, beside 443. The api needs the same.
    pub ports: Vec<u16>,
    /// Milliseconds until a job looks again for symbols that reports wait for.
    #[serde(skip)]
    pub look_millis: u64,
    /// Milliseconds that a source has to begin an answer, and for each next part of it.
    #[serde(skip)]
    pub answer_millis: u64,
}

impl Default for SymbolSourcesSettings {
    fn default() -> SymbolSourcesSettings {
        SymbolSourcesSettings {
            sealing_key: Secret::default(),
            networks: Vec::new(),
            ports: Vec::new(),
            look_millis: 15_000,
            answer_millis: 20_000,
        }
    }
}

impl SymbolSourcesSettings {
    /// Returns the servers that tenants may name.
    ///
    /// # Errors
    /// Returns the network that is none.
    pub fn parse_receivers(&self) -> Result<AllowedReceivers, ConfigProblem> {
        parse_receiver_networks(SYMBOL_SOURCES_SECTION, &self.networks, &self.ports)
    }

    /// Returns the problems of the settings.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        if let Err(message) = SourceSealer::from_setting(&self.sealing_key) {
            problems.push(ConfigProblem::new(SEALING_KEY, message));
        }
        problems.extend(self.parse_receivers().err());
        problems
    }

    /// Returns settings that are allowed and unsafe.
    pub fn find_insecure(&self) -> Vec<ConfigProblem> {
        warn_of_every_network(SYMBOL_SOURCES_SECTION, &self.networks).into_iter().collect()
    }
}
