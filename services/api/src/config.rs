//! The api's configuration.

use crate::limits::request_limits::RequestLimits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use unslide_history::HistorySettings;
use unslide_model::Secret;
use unslide_runtime::clients::{TrustedProxies, network_of_everything};
use unslide_runtime::{ConfigProblem, TenantDefaults};
use unslide_signatures::{KeyError, Signer, SigningKey};
use unslide_store::cells::CellSettings;
use unslide_store::retention::RetentionSettings;

/// The longest time for which keys may count without the database.
const LONGEST_KEY_OUTAGE_SECONDS: u64 = 3_600;

/// The api's configuration. Each field is a section.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Config {
    /// The section `api`, for this service alone.
    pub api: Settings,
    /// Limits of tenants that have none of their own.
    pub tenants: TenantDefaults,
    /// The database with tenants, keys, uploads and reports.
    pub postgres: unslide_store::Settings,
    /// Object storage, with uploaded files and symcaches.
    pub objects: unslide_artifacts::Settings,
    /// Limits of the local cache of symcaches, beside `api.cache_size`.
    pub symcaches: unslide_artifacts::CacheLimits,
    /// ClickHouse, with the rows of old reports.
    pub history: HistorySettings,
    /// Kafka, which gets the reports of requests.
    pub kafka: unslide_stream::Settings,
    /// How long indexers keep events: the api says which are too old.
    pub indexer: RetentionSettings,
    /// The directory of cells, in which the api claims the names of new tenants.
    pub cells: CellSettings,
}

/// The section `api` of the settings.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Settings {
    /// Address of the public HTTP interface; port 0 takes any free one.
    pub listen: SocketAddr,
    /// How long the api serves requests after SIGTERM, while `/readyz` reports it as not ready. Longer than a load
    /// balancer takes to notice.
    #[serde(rename = "stop_delay", with = "unslide_model::units::seconds")]
    #[schemars(with = "String")]
    pub stop_delay_seconds: u64,
    /// How long an API key counts after PostgreSQL confirmed it last, while PostgreSQL does not answer. A key that is revoked
    /// in that time still counts. Public keys of apps count longer.
    #[serde(rename = "key_outage", with = "unslide_model::units::seconds")]
    #[schemars(with = "String")]
    pub key_outage_seconds: u64,
    /// Whether the log has a line for each request. Otherwise it has those of requests that fail.
    pub log_requests: bool,
    /// Folder of symcaches for `POST /v1/symbolicate`. May be deleted at any time.
    #[serde(skip)]
    pub cache_dir: PathBuf,
    /// Disk space for symcaches in `process.data_dir`.
    #[serde(rename = "cache_size", with = "unslide_model::units::bytes")]
    #[schemars(with = "String")]
    pub cache_bytes: u64,
    /// Networks of proxies in front of the api, such as `10.0.0.0/8`. Their `X-Forwarded-For` names a request's
    /// client. A request of theirs without the header has no limits by address.
    pub trusted_proxies: Vec<String>,
    /// Signs what the api sends to Kafka, for symbolizers that ask for signatures.
    pub signing: Signing,
    /// URL of the console for people, such as `https://crashes.example.com`: messages and
    /// Markdown link to it. Without it they have no links.
    pub public_url: String,
    /// Bounds on what clients may send.
    #[serde(skip)]
    pub limits: RequestLimits,
}

/// The section `api.signing` of the settings.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Signing {
    /// The key's name in `symbolizer.signatures.keys`.
    pub name: String,
    /// The private key of Ed25519: 32 bytes in base64. Nothing is signed without one.
    #[schemars(with = "String")]
    pub key: Secret,
}

impl Signing {
    /// Returns the signer of records, or None if no key is set.
    ///
    /// # Errors
    /// [`KeyError`] if the key cannot be used.
    pub fn build_signer(&self) -> Result<Option<Signer>, KeyError> {
        if self.key.reveal().is_empty() {
            return Ok(None);
        }
        SigningKey::parse(&self.key).map(|key| Some(Signer::new(self.name.clone(), key)))
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            stop_delay_seconds: 5,
            key_outage_seconds: 30,
            log_requests: true,
            cache_dir: PathBuf::new(),
            cache_bytes: 2 << 30,
            trusted_proxies: Vec::new(),
            signing: Signing::default(),
            public_url: String::new(),
            limits: RequestLimits::default(),
        }
    }
}

impl Settings {
    /// Returns settings that are allowed and unsafe.
    #[must_use]
    pub fn find_insecure(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        if let Some(network) = network_of_everything(&self.trusted_proxies) {
            let message =
                format!("{network} holds every address: any client can name another client's address");
            problems.push(ConfigProblem::new("api.trusted_proxies", message));
        }
        problems
    }
}

impl Config {
    /// Returns all errors of the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        problems.extend(self.tenants.problems());
        if let Err(network) = TrustedProxies::from_networks(&self.api.trusted_proxies) {
            let message = format!("{network} is not a network such as 10.0.0.0/8");
            problems.push(ConfigProblem::new("api.trusted_proxies", message));
        }
        if self.api.key_outage_seconds > LONGEST_KEY_OUTAGE_SECONDS {
            problems.push(ConfigProblem::new(
                "api.key_outage",
                "must be at most 1h: revoked keys count as long".to_owned(),
            ));
        }
        match self.api.signing.build_signer() {
            Err(error) => problems.push(ConfigProblem::new("api.signing.key", error.to_string())),
            Ok(Some(_)) if self.api.signing.name.is_empty() => {
                problems.push(ConfigProblem::new("api.signing.name", "must name the key"));
            }
            Ok(_) => {}
        }
        let link = self.api.public_url.as_str();
        if !link.is_empty() && !link.starts_with("https://") && !link.starts_with("http://") {
            let message = format!("{link} is not a URL such as https://crashes.example.com");
            problems.push(ConfigProblem::new("api.public_url", message));
        }
        problems.extend(ConfigProblem::in_section("postgres", self.postgres.problems()));
        problems.extend(ConfigProblem::in_section("objects", self.objects.problems()));
        problems.extend(ConfigProblem::in_section("symcaches", self.symcaches.problems()));
        problems.extend(ConfigProblem::in_section("history", self.history.problems()));
        problems.extend(ConfigProblem::in_section("kafka", self.kafka.problems()));
        problems.extend(ConfigProblem::in_section("cells", self.cells.problems()));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_bound_nothing_and_networks_that_are_none_are_named() {
        let networks = |texts: [&str; 2]| texts.map(str::to_owned).to_vec();
        let mut config = Config::default();
        config.api.trusted_proxies = networks(["10.0.0.0/8", "2001:db8::/32"]);
        let keys = |config: &Config| config.validate().into_iter().map(|p| p.key).collect::<Vec<_>>();
        assert_eq!(keys(&config), ["postgres.url", "objects.bucket", "kafka.bootstrap"]);
        config.api.trusted_proxies = networks(["10.0.0.0/8", "10.0.0.0/33"]);
        config.tenants.upload_bytes = 0;
        config.api.key_outage_seconds = 3_601;
        assert_eq!(keys(&config)[..3], ["tenants.upload_size", "api.trusted_proxies", "api.key_outage"]);
    }
}
