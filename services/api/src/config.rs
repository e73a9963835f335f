//! The api's configuration.

use crate::http::{TrustedProxies, network_of_everything};
use crate::limits::pace::ClientPace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use unslide_model::Secret;
use unslide_runtime::{ConfigProblem, TenantDefaults};
use unslide_signatures::{KeyError, Signer, SigningKey};
use unslide_store::retention::RetentionSettings;

/// A client that takes fewer bytes of a response per second counts as stalled.
const ANSWER_BYTES_PER_SECOND: u64 = 16 << 10;
/// A client that sends less of a body in [`RequestLimits::stall_seconds`] counts as stalled.
const STALL_BYTES: u64 = 16 << 10;

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
    /// Kafka, which gets the reports of requests.
    pub kafka: unslide_stream::Settings,
    /// How long indexers keep events: the api says which are too old.
    pub indexer: RetentionSettings,
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
    /// URL of the console for people, such as `https://crashes.example.com`: messages link to it. Without it they have no
    /// links.
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

/// Limits on requests. Operators have no reason to change them; tests make them smaller.
#[derive(Clone, Debug)]
pub struct RequestLimits {
    /// Maximum number of concurrent requests.
    pub requests: usize,
    /// Maximum number of concurrent uploads. Each takes about 16 MiB of memory, and about 8 MiB more if it is
    /// unpacked here.
    pub uploads: usize,
    /// Bytes of each part of an upload in parts, more for files of more than 9,500 parts. Object storage
    /// accepts no parts under 5 MiB.
    pub part_bytes: u64,
    /// Maximum number of incomplete uploads in parts of one tenant.
    pub open_uploads: u64,
    /// Maximum number of files in one multipart upload.
    pub upload_files: usize,
    /// Maximum size of a `POST /v1/reports` body on the wire, in bytes.
    pub ingest_bytes: u64,
    /// Maximum size of that body after unpacking, all reports together, in bytes.
    pub ingest_unpacked_bytes: u64,
    /// Maximum number of reports in one such body, and of its lines with any content.
    pub ingest_reports: usize,
    /// Maximum size of one report in bytes, at most `kafka.max_record_size`; a tenant's own limit can only be
    /// smaller.
    pub report_bytes: usize,
    /// Maximum number of concurrent requests that wait because their client asked for it. They do not count
    /// as running requests.
    pub waits: usize,
    /// Maximum number of report bodies in memory, each counted as the part it uses of the larger of
    /// `ingest_bytes` and `ingest_unpacked_bytes`. A body counts while it is received, unpacked and answered.
    pub bodies: usize,
    /// Bytes of stored reports, symbolicated reports and dead letters held in memory for responses, until
    /// their clients have them.
    pub answer_bytes: u64,
    /// Maximum number of concurrent requests that read dead letters from Kafka: each may hold a record of the
    /// largest size and has its own Kafka client.
    pub letters: usize,
    /// Percentage of `requests`, `waits`, `uploads`, `bodies`, `answer_bytes`, `letters`, the symcache
    /// downloads and `postgres.max_connections` that one tenant may use.
    pub tenant_share: u8,
    /// Seconds that a client may take to send 16 KiB of a body, or all of a smaller one. After that it counts
    /// as stalled.
    pub stall_seconds: u64,
    /// Seconds that a client may take to receive 16 KiB of a response for each of these seconds.
    pub answer_stall_seconds: u64,
    /// Seconds for an operation after its body is received, without waits that the client asked for.
    pub request_seconds: u64,
    /// Seconds for a symbol upload as a whole, or between two parts of it. Less than a builder waits for the
    /// bytes of an upload.
    pub upload_seconds: u64,
    /// Seconds that the creation of a tenant waits for the workers to learn of it.
    pub announce_seconds: u64,
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

impl Default for RequestLimits {
    fn default() -> RequestLimits {
        RequestLimits {
            requests: 512,
            uploads: 32,
            part_bytes: 8 << 20,
            open_uploads: 256,
            upload_files: 64,
            ingest_bytes: 32 << 20,
            ingest_unpacked_bytes: 64 << 20,
            ingest_reports: 1_000,
            report_bytes: usize::MAX,
            waits: 1_024,
            bodies: 16,
            answer_bytes: 1 << 30,
            letters: 4,
            tenant_share: 25,
            stall_seconds: 30,
            answer_stall_seconds: 10,
            request_seconds: 30,
            upload_seconds: 6 * 3_600,
            announce_seconds: 15,
        }
    }
}

impl RequestLimits {
    /// Returns how fast a client must receive its responses.
    #[must_use]
    pub fn answer_pace(&self) -> ClientPace {
        let bytes = self.answer_stall_seconds.saturating_mul(ANSWER_BYTES_PER_SECOND);
        ClientPace::new(Duration::from_secs(self.answer_stall_seconds), bytes)
    }

    /// Returns how fast a client must send its bodies.
    #[must_use]
    pub fn client_pace(&self) -> ClientPace {
        ClientPace::new(Duration::from_secs(self.stall_seconds), STALL_BYTES)
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
        problems.extend(ConfigProblem::in_section("kafka", self.kafka.problems()));
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
