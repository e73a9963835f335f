//! What the api is told at its start.

use crate::pace::Pace;
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
    /// Bytes of each part of an upload in parts, more for files of more than 9,500 of them. Object storage
    /// takes no parts under 5 MiB.
    pub part_bytes: u64,
    /// Uploads in parts of one tenant that are not complete.
    pub open_uploads: u64,
    /// Files of one multipart upload.
    pub upload_files: usize,
    /// Bytes of a `POST /v1/reports` body as it comes over the wire.
    pub ingest_bytes: u64,
    /// Bytes of that body unpacked, all reports together.
    pub ingest_unpacked_bytes: u64,
    /// Reports in one such body, and lines, whatever is in them.
    pub ingest_reports: usize,
    /// Bytes of one report; a tenant's own limit can only be smaller.
    pub report_bytes: usize,
    /// Bytes of a JSON request body.
    pub json_bytes: u64,
    /// Requests in work at once.
    pub requests: usize,
    /// Requests that wait by wish of their client at once; they are not in work meanwhile.
    pub waits: usize,
    /// Bodies of reports in memory at once, each counted with what it has of the larger of `ingest_bytes`
    /// and `ingest_unpacked_bytes`: those that come, that are unpacked and that are answered.
    pub bodies: usize,
    /// Bytes of stored reports, symbolicated reports and dead letters held in memory for answers, until
    /// their clients have them.
    pub answer_bytes: u64,
    /// Requests that read dead letters from Kafka at once: each may hold a record of the largest size
    /// and has a client of its own.
    pub letters: usize,
    /// Per cent of `requests`, `waits`, `uploads`, `bodies`, `answer_bytes`, `letters`,
    /// `symcaches.downloads` and `postgres.max_connections` that one tenant may have.
    pub tenant_share: u8,
    /// Reports a second that one tenant has symbolicated or explained by requests, over all processes of
    /// the api.
    pub symbolications_per_second: u32,
    /// Open connections.
    pub connections: usize,
    /// Seconds for a request's head to arrive.
    pub head_seconds: u64,
    /// Seconds that a client is waited for before `stall_bytes` of a body have come, or of an answer
    /// have been taken. After that it counts as stalled.
    pub stall_seconds: u64,
    /// Bytes that have to pass in that time. Where a body or an answer has fewer, all of it.
    pub stall_bytes: u64,
    /// Seconds for an operation, waiting by wish of the client not counted.
    pub request_seconds: u64,
    /// Seconds for a symbol upload as a whole, or between two parts of it.
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
            part_bytes: 8 << 20,
            open_uploads: 256,
            upload_files: 64,
            ingest_bytes: 32 << 20,
            ingest_unpacked_bytes: 64 << 20,
            ingest_reports: 1_000,
            report_bytes: 20 << 20,
            json_bytes: 1 << 20,
            requests: 512,
            waits: 1_024,
            bodies: 16,
            answer_bytes: 1 << 30,
            letters: 4,
            tenant_share: 25,
            symbolications_per_second: 20,
            connections: 4_096,
            head_seconds: 30,
            stall_seconds: 30,
            stall_bytes: 16 << 10,
            request_seconds: 30,
            upload_seconds: 6 * 3_600,
            wait_seconds: 60,
            announce_seconds: 15,
        }
    }
}

impl Limits {
    /// How fast a client has to send and to take bytes.
    #[must_use]
    pub fn pace(&self) -> Pace {
        Pace::new(Duration::from_secs(self.stall_seconds), self.stall_bytes)
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
            ("open_uploads", limits.open_uploads),
            ("upload_files", limits.upload_files as u64),
            ("ingest_bytes", limits.ingest_bytes),
            ("ingest_unpacked_bytes", limits.ingest_unpacked_bytes),
            ("ingest_reports", limits.ingest_reports as u64),
            ("report_bytes", limits.report_bytes as u64),
            ("json_bytes", limits.json_bytes),
            ("requests", limits.requests as u64),
            ("waits", limits.waits as u64),
            ("bodies", limits.bodies as u64),
            ("answer_bytes", limits.answer_bytes >> 10),
            ("letters", limits.letters as u64),
            ("symbolications_per_second", limits.symbolications_per_second.into()),
            ("connections", limits.connections as u64),
            ("head_seconds", limits.head_seconds),
            ("stall_seconds", limits.stall_seconds),
            ("stall_bytes", limits.stall_bytes),
            ("request_seconds", limits.request_seconds),
            ("upload_seconds", limits.upload_seconds),
            ("wait_seconds", limits.wait_seconds),
            ("announce_seconds", limits.announce_seconds),
        ];
        let zero = numbers.iter().filter(|(_, value)| *value == 0);
        problems
            .extend(zero.map(|(name, _)| Problem::new(format!("api.limits.{name}"), "must be more than 0")));
        if !(5 << 20..=16 << 20).contains(&limits.part_bytes) {
            problems.push(Problem::new("api.limits.part_bytes", "must be from 5 to 16 MiB"));
        }
        if !(1..=100).contains(&limits.tenant_share) {
            problems.push(Problem::new("api.limits.tenant_share", "a percentage from 1 to 100"));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_bound_nothing_or_everything_are_named() {
        let wrong = |limits: Limits| {
            let config = Config { api: Settings { limits, ..Settings::default() }, ..Config::default() };
            let named = config.validate().into_iter().map(|problem| problem.to_string());
            named.filter(|problem| problem.contains("api.limits.")).collect::<Vec<_>>()
        };
        assert_eq!(wrong(Limits::default()), [""; 0]);
        for tenant_share in [0, 101] {
            let found = wrong(Limits { tenant_share, ..Limits::default() });
            assert!(found.len() == 1 && found[0].contains("tenant_share"), "{found:?}");
        }
        for part_bytes in [(5 << 20) - 1, (16 << 20) + 1] {
            let found = wrong(Limits { part_bytes, ..Limits::default() });
            assert!(found.len() == 1 && found[0].contains("part_bytes"), "{found:?}");
        }
        let zero = Limits { stall_bytes: 0, waits: 0, symbolications_per_second: 0, ..Limits::default() };
        assert_eq!(wrong(zero).len(), 3);
    }
}
