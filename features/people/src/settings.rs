//! The settings of the feature.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unslide_api::feature::receiver_networks::{parse_receiver_networks, warn_of_every_network};
use unslide_runtime::ConfigProblem;
use unslide_runtime::egress::AllowedReceivers;

/// The section of the settings with the operator's networks.
const SIGN_IN_SECTION: &str = "api.sign_in";

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `api`, as far as sign-ins need it.
    pub api: PeopleApiSettings,
}

/// The part of the section `api` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct PeopleApiSettings {
    /// The address of the console, to which providers send browsers back. The api documents it.
    #[schemars(skip)]
    pub public_url: String,
    /// Settings of identity providers.
    pub sign_in: SignInSettings,
}

/// The section `api.sign_in` of the settings.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct SignInSettings {
    /// Networks of the operator's own with identity providers of tenants, such as `10.1.0.0/16`, also without TLS. Other
    /// addresses that are not of the internet are refused.
    pub networks: Vec<String>,
    /// Ports of identity providers, beside 443.
    pub ports: Vec<u16>,
}

impl SignInSettings {
    /// Returns the identity providers that tenants may name.
    ///
    /// # Errors
    /// Returns the network that is none.
    pub fn parse_receivers(&self) -> Result<AllowedReceivers, ConfigProblem> {
        parse_receiver_networks(SIGN_IN_SECTION, &self.networks, &self.ports)
    }

    /// Returns settings that are allowed and unsafe.
    pub fn find_insecure(&self) -> Vec<ConfigProblem> {
        warn_of_every_network(SIGN_IN_SECTION, &self.networks).into_iter().collect()
    }
}
