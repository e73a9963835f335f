//! The settings of the feature.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unslide_api::feature::operation::network_of_everything;
use unslide_runtime::ConfigProblem;
use unslide_runtime::egress::AllowedReceivers;

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
    /// Returns the problems of the settings.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let refused = AllowedReceivers::from_networks(&self.networks, &self.ports).err();
        let problem = |network| {
            let message = format!("{network} is not a network such as 10.0.0.0/8");
            ConfigProblem::new("api.sign_in.networks", message)
        };
        refused.map(problem).into_iter().collect()
    }

    /// Returns settings that are allowed and unsafe.
    pub fn find_insecure(&self) -> Vec<ConfigProblem> {
        let problem = |network| {
            let message = format!(
                "{network} holds every address: tenants can have requests sent to any server that this service reaches"
            );
            ConfigProblem::new("api.sign_in.networks", message)
        };
        network_of_everything(&self.networks).map(problem).into_iter().collect()
    }
}
