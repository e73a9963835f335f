//! The settings of the feature.

use crate::target::{SEALING_KEY, TargetSealer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unslide_api::feature::receiver_networks::{parse_receiver_networks, warn_of_every_network};
use unslide_model::Secret;
use unslide_runtime::ConfigProblem;
use unslide_runtime::egress::AllowedReceivers;

/// The section of the settings with the operator's networks.
pub const AUDIT_EXPORT_SECTION: &str = "api.audit_export";

/// The port of syslog over TLS (RFC 5425).
const SYSLOG_TLS_PORT: u16 = 6_514;

/// The settings that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `api`, as far as the feature needs it.
    pub api: AuditExportApiSettings,
}

/// The part of the section `api` that the feature reads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct AuditExportApiSettings {
    /// The address of the console. Its host is the one of messages of syslog. The api documents it.
    #[schemars(skip)]
    pub public_url: String,
    /// Settings of the export of audit logs.
    pub audit_export: AuditExportSettings,
}

/// The section `api.audit_export` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct AuditExportSettings {
    /// The key that encrypts the addresses and secrets of receivers in the database: 32 bytes in base64, as `openssl rand -base64 32`
    /// prints. Every process of the api needs the same. Without it no tenant can set a receiver. With another one, tenants set theirs again.
    #[schemars(with = "String")]
    pub sealing_key: Secret,
    /// Networks of the operator's own in which receivers may be, such as `10.1.0.0/16`, webhooks also without TLS. Other addresses that are
    /// not of the internet are refused.
    pub networks: Vec<String>,
    /// Ports of receivers, beside 443. The port of syslog over TLS is 6514.
    pub ports: Vec<u16>,
    /// Milliseconds between two looks at which tenants have new entries.
    #[serde(skip)]
    pub look_millis: u64,
    /// Milliseconds that a receiver has for a number of entries.
    #[serde(skip)]
    pub answer_millis: u64,
}

impl Default for AuditExportSettings {
    fn default() -> AuditExportSettings {
        AuditExportSettings {
            sealing_key: Secret::default(),
            networks: Vec::new(),
            ports: vec![SYSLOG_TLS_PORT],
            look_millis: 2_000,
            answer_millis: 20_000,
        }
    }
}

impl AuditExportSettings {
    /// Returns the receivers that tenants may name.
    ///
    /// # Errors
    /// Returns the network that is none.
    pub fn parse_receivers(&self) -> Result<AllowedReceivers, ConfigProblem> {
        parse_receiver_networks(AUDIT_EXPORT_SECTION, &self.networks, &self.ports)
    }

    /// Returns the problems of the settings.
    pub fn problems(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        if let Err(message) = TargetSealer::from_setting(&self.sealing_key) {
            problems.push(ConfigProblem::new(SEALING_KEY, message));
        }
        problems.extend(self.parse_receivers().err());
        problems
    }

    /// Returns settings that are allowed and unsafe.
    pub fn find_insecure(&self) -> Vec<ConfigProblem> {
        warn_of_every_network(AUDIT_EXPORT_SECTION, &self.networks).into_iter().collect()
    }
}
