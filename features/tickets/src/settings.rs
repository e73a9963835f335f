//! The settings of the feature.

use crate::sealing::{SEALING_KEY, TrackerSealer};
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
    pub api: TicketApiSettings,
}

/// The part of the section `api` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct TicketApiSettings {
    /// The address of the console, for links and hooks. The api documents it.
    #[schemars(skip)]
    pub public_url: String,
    /// Settings of tickets in trackers.
    pub tickets: TicketSettings,
}

/// The section `api.tickets` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct TicketSettings {
    /// The key that encrypts the tokens of trackers in the database: 32 bytes in base64, as `openssl rand -base64 32` prints. Every
    /// process of the api needs the same. Without it no tenant can set a tracker. With another one, tenants set theirs again.
    #[schemars(with = "String")]
    pub sealing_key: Secret,
    /// Networks of the operator's own with trackers, such as `10.1.0.0/16`, also without TLS. Other addresses that are not of the
    /// internet are refused.
    pub networks: Vec<String>,
    /// Ports of trackers, beside 443.
    pub ports: Vec<u16>,
    /// Milliseconds between two looks at which tenants have work.
    #[serde(skip)]
    pub look_millis: u64,
    /// Milliseconds after which a tenant's turn ends.
    #[serde(skip)]
    pub turn_millis: u64,
    /// Milliseconds after which a ticket that was not found is made again, instead of the time of its tracker.
    #[serde(skip)]
    pub settle_millis: Option<u64>,
    /// Milliseconds that a tracker has for an answer.
    #[serde(skip)]
    pub answer_millis: u64,
}

impl Default for TicketSettings {
    fn default() -> TicketSettings {
        TicketSettings {
            sealing_key: Secret::default(),
            networks: Vec::new(),
            ports: Vec::new(),
            look_millis: 2_000,
            turn_millis: 20_000,
            settle_millis: None,
            answer_millis: 20_000,
        }
    }
}

impl TicketSettings {
    /// Returns the trackers that tenants may name.
    ///
    /// # Errors
    /// Returns the network that is none.
    pub fn parse_receivers(&self) -> Result<AllowedReceivers, ConfigProblem> {
        parse_receiver_networks("api.tickets", &self.networks, &self.ports)
    }

    /// Returns the problems of the settings.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        if let Err(message) = TrackerSealer::from_setting(&self.sealing_key) {
            problems.push(ConfigProblem::new(SEALING_KEY, message));
        }
        problems.extend(self.parse_receivers().err());
        problems
    }

    /// Returns settings that are allowed and unsafe.
    pub fn find_insecure(&self) -> Vec<ConfigProblem> {
        warn_of_every_network("api.tickets", &self.networks).into_iter().collect()
    }
}
