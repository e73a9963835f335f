//! The settings of the feature.

use crate::sealing::{SEALING_KEY, SlackSealer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unslide_api::feature::receiver_networks::parse_receiver_networks;
use unslide_model::Secret;
use unslide_runtime::ConfigProblem;
use unslide_runtime::clients::network_of_everything;
use unslide_runtime::egress::{AllowedReceivers, check_url};

/// The section of the settings with the operator's networks.
pub const CHAT_SECTION: &str = "api.chat";

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `api`, as far as the feature needs it.
    pub api: ChatApiSettings,
}

/// The part of the section `api` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct ChatApiSettings {
    /// The address of the console, for links and requests. The api documents it.
    #[schemars(skip)]
    pub public_url: String,
    /// Settings of bugs in Slack.
    pub chat: ChatSettings,
}

/// The section `api.chat` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct ChatSettings {
    /// The key that encrypts the secrets of Slack apps in the database: 32 bytes in base64, as `openssl rand -base64 32` prints. Every
    /// process of the api needs the same. Without it no tenant can set a Slack app. With another one, tenants set theirs again.
    #[schemars(with = "String")]
    pub sealing_key: Secret,
    /// The address of Slack's API. Another one is a gateway of the operator's own, or GovSlack: `https://slack-gov.com/api`.
    pub slack_url: String,
    /// Networks of the operator's own with `slack_url`, such as `10.1.0.0/16`, also without TLS. Other addresses that are not of the
    /// internet are refused.
    pub networks: Vec<String>,
    /// Ports of `slack_url`, beside 443.
    pub ports: Vec<u16>,
    /// Milliseconds between two looks at which tenants have work.
    #[serde(skip)]
    pub look_millis: u64,
    /// Milliseconds between two looks at which groups of a tenant are new or have changed.
    #[serde(skip)]
    pub group_look_millis: u64,
    /// Milliseconds between two messages of a tenant.
    #[serde(skip)]
    pub pace_millis: u64,
    /// Milliseconds that Slack has for an answer.
    #[serde(skip)]
    pub answer_millis: u64,
}

impl Default for ChatSettings {
    fn default() -> ChatSettings {
        ChatSettings {
            sealing_key: Secret::default(),
            slack_url: "https://slack.com/api".to_owned(),
            networks: Vec::new(),
            ports: Vec::new(),
            look_millis: 1_000,
            group_look_millis: 15_000,
            pace_millis: 1_000,
            answer_millis: 15_000,
        }
    }
}

impl ChatSettings {
    /// Returns the addresses that requests may reach.
    ///
    /// # Errors
    /// Returns the network that is none.
    pub fn parse_receivers(&self) -> Result<AllowedReceivers, ConfigProblem> {
        parse_receiver_networks(CHAT_SECTION, &self.networks, &self.ports)
    }

    /// Returns the problems of the settings.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        if let Err(message) = SlackSealer::from_setting(&self.sealing_key) {
            problems.push(ConfigProblem::new(SEALING_KEY, message));
        }
        match self.parse_receivers() {
            Err(problem) => problems.push(problem),
            Ok(allowed) => {
                if let Err(message) = check_url(&Secret::new(&self.slack_url), &allowed, CHAT_SECTION) {
                    problems.push(ConfigProblem::new("api.chat.slack_url", message));
                }
            }
        }
        problems
    }

    /// Returns settings that are allowed and unsafe.
    pub fn find_insecure(&self) -> Vec<ConfigProblem> {
        let network = network_of_everything(&self.networks);
        let warn = |network| {
            let message = format!("{network} holds every address: name the network of api.chat.slack_url");
            ConfigProblem::new("api.chat.networks", message)
        };
        network.map(warn).into_iter().collect()
    }
}
