//! Limits on requests, and the pace of clients.

use super::pace::ClientPace;
use std::time::Duration;

/// A client that takes fewer bytes of a response per second counts as stalled.
const ANSWER_BYTES_PER_SECOND: u64 = 16 << 10;
/// A client that sends less of a body in [`RequestLimits::stall_seconds`] counts as stalled.
const STALL_BYTES: u64 = 16 << 10;

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
