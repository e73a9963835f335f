//! The settings of the feature.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unslide_api::feature::receiver_networks::{parse_receiver_networks, warn_of_every_network};
use unslide_runtime::ConfigProblem;
use unslide_runtime::egress::AllowedReceivers;

/// The section of the settings with the operator's networks.
pub const MCP_SECTION: &str = "api.mcp";

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `api`, as far as the feature needs it.
    pub api: McpApiSettings,
}

/// The part of the section `api` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct McpApiSettings {
    /// The address of the console, which names the service to assistants. The api documents it.
    #[schemars(skip)]
    pub public_url: String,
    /// Settings of assistants that sign people in.
    pub mcp: McpSettings,
}

/// The section `api.mcp` of the settings.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct McpSettings {
    /// Networks of the operator's own with documents in which assistants describe themselves, such as `10.1.0.0/16`, also without
    /// TLS. Other addresses that are not of the internet are refused.
    pub networks: Vec<String>,
    /// Ports of such documents, beside 443.
    pub ports: Vec<u16>,
}

impl McpSettings {
    /// Returns the addresses that requests may reach.
    ///
    /// # Errors
    /// Returns the network that is none.
    pub fn parse_receivers(&self) -> Result<AllowedReceivers, ConfigProblem> {
        parse_receiver_networks(MCP_SECTION, &self.networks, &self.ports)
    }

    /// Returns settings that are allowed and unsafe.
    pub fn find_insecure(&self) -> Vec<ConfigProblem> {
        warn_of_every_network(MCP_SECTION, &self.networks).into_iter().collect()
    }
}
