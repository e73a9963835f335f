//! What the api is told at its start.

use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use unslide_model::Secret;
use unslide_proto::signed::{KeyError, Signer, SigningKey};
use unslide_runtime::Problem;

/// The api's configuration. Each field is a section.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The api's own settings.
    pub api: Settings,
    /// Where tenants, keys, uploads and reports are.
    pub postgres: unslide_store::Settings,
    /// Where uploaded files and symcaches are.
    pub objects: unslide_artifacts::Settings,
    /// What the symcaches on this machine may take, beside `api.cache_bytes`.
    pub symcaches: unslide_artifacts::CacheLimits,
    /// Where reports go.
    pub kafka: unslide_stream::Settings,
}

/// The section `api`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Where the public HTTP interface listens; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Where symcaches are kept for `POST /v1/symbolicate`. May be deleted at any time.
    pub cache_dir: PathBuf,
    /// Bytes of symcaches kept on disk.
    pub cache_bytes: u64,
    /// Processes of the api that clients are spread over: each lets in its part of a tenant's reports
    /// a second.
    pub replicas: u32,
    /// Signs what the api sends to Kafka, for symbolizers that ask for signatures.
    pub signing: Signing,
    /// Bounds on what clients may send.
    pub limits: Limits,
}

/// The section `api.signing`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Signing {
    /// The key's name, as it is in `symbolizer.signatures.keys`.
    pub name: String,
    /// The private key of Ed25519: 32 bytes in base64. Nothing is signed without one.
    pub key: Secret,
}

impl Signing {
    /// What signs, where there is a key.
    ///
    /// # Errors
    /// [`KeyError`] where it can't be used.
    pub fn signer(&self) -> Result<Option<Signer>, KeyError> {
        if self.key.reveal().is_empty() {
            return Ok(None);
        }
        SigningKey::parse(&self.key).map(|key| Some(Signer::new(self.name.clone(), key)))
    }
}

/// Bounds on requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of one symbol upload, where the tenant has no limit of its own.
    pub upload_bytes: u64,
    /// Symbol uploads that are received at once. Each takes about 16 MiB of memory.
    pub uploads: usize,
    /// Bytes of a tenant's stored symbols, where the tenant has no limit of its own: as
    /// `builder.symbol_bytes`.
    pub symbol_bytes: u64,
    /// Reports a second of one tenant over all processes of the api, where the tenant has no limit of
    /// its own.
    pub reports_per_second: u32,
    /// Files of one multipart upload.
    pub upload_files: usize,
    /// Bytes of a `POST /v1/reports` body as it comes over the wire.
    pub ingest_bytes: u64,
    /// Bytes of that body unpacked, all reports together.
    pub ingest_unpacked_bytes: u64,
    /// Reports in one such body.
    pub ingest_reports: usize,
    /// Bytes of one report; a tenant's own limit can only be smaller.
    pub report_bytes: usize,
    /// Bytes of a JSON request body.
    pub json_bytes: u64,
    /// Requests in work at once.
    pub requests: usize,
    /// Bodies of reports held in memory at once, each at most `ingest_bytes` and unpacked at most
    /// `ingest_unpacked_bytes`.
    pub bodies: usize,
    /// Open connections.
    pub connections: usize,
    /// Seconds for a request's head to arrive.
    pub head_seconds: u64,
    /// Seconds without a byte after which a body counts as stalled.
    pub stall_seconds: u64,
    /// Seconds for an operation, waiting by wish of the client not counted.
    pub request_seconds: u64,
    /// Seconds for a symbol upload as a whole.
    pub upload_seconds: u64,
    /// Seconds that a client may wish to wait for an upload to be built.
    pub wait_seconds: u64,
    /// Seconds that the making of a tenant waits for the workers to learn of it.
    pub announce_seconds: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            cache_dir: std::env::temp_dir().join("unslide-api"),
            cache_bytes: 2 << 30,
            replicas: 1,
            signing: Signing::default(),
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            upload_bytes: 4 << 30,
            uploads: 32,
            symbol_bytes: 1 << 40,
            reports_per_second: 1_000,
            upload_files: 64,
            ingest_bytes: 32 << 20,
            ingest_unpacked_bytes: 64 << 20,
            ingest_reports: 1_000,
            report_bytes: 20 << 20,
            json_bytes: 1 << 20,
            requests: 512,
            bodies: 16,
            connections: 4_096,
            head_seconds: 30,
            stall_seconds: 30,
            request_seconds: 30,
            upload_seconds: 6 * 3_600,
            wait_seconds: 60,
            announce_seconds: 15,
        }
    }
}

impl Limits {
    /// How long a body may give nothing.
    #[must_use]
    pub fn stall(&self) -> Duration {
        Duration::from_secs(self.stall_seconds)
    }
}

impl Config {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let limits = &self.api.limits;
        let numbers = [
            ("upload_bytes", limits.upload_bytes),
            ("uploads", limits.uploads as u64),
            ("symbol_bytes", limits.symbol_bytes),
            ("reports_per_second", limits.reports_per_second.into()),
            ("upload_files", limits.upload_files as u64),
            ("ingest_bytes", limits.ingest_bytes),
            ("ingest_unpacked_bytes", limits.ingest_unpacked_bytes),
            ("ingest_reports", limits.ingest_reports as u64),
            ("report_bytes", limits.report_bytes as u64),
            ("json_bytes", limits.json_bytes),
            ("requests", limits.requests as u64),
            ("bodies", limits.bodies as u64),
            ("connections", limits.connections as u64),
            ("head_seconds", limits.head_seconds),
            ("stall_seconds", limits.stall_seconds),
            ("request_seconds", limits.request_seconds),
            ("upload_seconds", limits.upload_seconds),
            ("wait_seconds", limits.wait_seconds),
            ("announce_seconds", limits.announce_seconds),
        ];
        let zero = numbers.iter().filter(|(_, value)| *value == 0);
        problems
            .extend(zero.map(|(name, _)| Problem::new(format!("api.limits.{name}"), "must be more than 0")));
        if self.api.replicas == 0 {
            problems.push(Problem::new("api.replicas", "must be more than 0"));
        }
        if self.api.cache_dir.as_os_str().is_empty() {
            problems.push(Problem::new("api.cache_dir", "must name a folder"));
        }
        if limits.report_bytes > self.kafka.max_record_bytes {
            let message = format!("more than kafka.max_record_bytes ({})", self.kafka.max_record_bytes);
            problems.push(Problem::new("api.limits.report_bytes", message));
        }
        match self.api.signing.signer() {
            Err(error) => problems.push(Problem::new("api.signing.key", error.to_string())),
            Ok(Some(_)) if self.api.signing.name.is_empty() => {
                problems.push(Problem::new("api.signing.name", "must name the key"));
            }
            Ok(_) => {}
        }
        problems.extend(Problem::in_section("postgres", self.postgres.problems()));
        problems.extend(Problem::in_section("objects", self.objects.problems()));
        problems.extend(Problem::in_section("symcaches", self.symcaches.problems()));
        problems.extend(Problem::in_section("kafka", self.kafka.problems()));
        problems
    }
}
