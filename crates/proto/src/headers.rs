//! Names of the message headers. Every value is UTF-8 text; numbers are decimal.
//!
//! An output names two input records. Its *origin* is the first record of its history. Its *source* is
//! the record that it was directly made from. They differ after a retry or overflow topic, or after a
//! request to symbolicate again.

/// The tenant's slug, on shared topics. Set by the gateway or the api, never read from the report.
pub const TENANT: &str = "tenant";
/// Id of the public key that an app sent the report or the summary of a run with: 8 hexadecimal digits, never the key.
pub const SENDER_KEY: &str = "sender-key";
/// Topic of the first record of this report's history.
pub const ORIGIN_TOPIC: &str = "origin-topic";
/// Partition of the first record of this report's history.
pub const ORIGIN_PARTITION: &str = "origin-partition";
/// Offset of the first record of this report's history.
pub const ORIGIN_OFFSET: &str = "origin-offset";
/// Topic of the record that this one was made from.
pub const SOURCE_TOPIC: &str = "source-topic";
/// Partition of the record that this one was made from.
pub const SOURCE_PARTITION: &str = "source-partition";
/// Offset of the record that this one was made from.
pub const SOURCE_OFFSET: &str = "source-offset";
/// The report's index in its record, from 0, if the record held an array of reports.
pub const SOURCE_INDEX: &str = "source-index";
/// The number of reports in the record, if it held an array of reports.
pub const SOURCE_COUNT: &str = "source-count";
/// W3C trace context, continued from the input record.
pub const TRACEPARENT: &str = "traceparent";
/// The reason why a record is in a dead-letter, retry or overflow topic: a stable word, such as `not_json`.
pub const REASON: &str = "reason";
/// The exact error as a text for people.
pub const DETAIL: &str = "detail";
/// The number of attempts before the record reached this topic, from 1.
pub const ATTEMPT: &str = "attempt";
/// The report's id, lower-case dashed.
pub const REPORT_ID: &str = "report-id";
/// The report's revision, from 1.
pub const REVISION: &str = "revision";
/// The revision that this one replaces.
pub const SUPERSEDES: &str = "supersedes";
/// Broker time at which the first record of this report's history arrived, milliseconds since the
/// Unix epoch.
pub const ORIGIN_TIME: &str = "origin-time";
/// Selects one of the stored reports with this id. Absent for the first.
pub const VARIANT: &str = "report-variant";
/// On a later revision: SHA-256 of the report as it first arrived, 64 hexadecimal digits. The report and its id
/// are those of the first revision, also if the later one was made from other bytes.
pub const CONTENT_HASH: &str = "content-hash";
/// On a request and its dead letter: the time of the request, in microseconds since the Unix epoch.
pub const REQUESTED_AT: &str = "requested-at";
/// On an input record that an operator sent again: the dead letter that it copies, as
/// `topic/partition/offset`.
pub const REPLAY_OF: &str = "replay-of";
/// On a replay: the Ed25519 signature of the service that sent it again, base64. It proves that no other producer
/// wrote [`REPLAY_OF`].
pub const REPLAY_SIGNATURE: &str = "replay-signature";
/// The name of the public key that verifies [`REPLAY_SIGNATURE`].
pub const REPLAY_SIGNATURE_KEY: &str = "replay-signature-key";
/// The time of the replay's signature, in milliseconds since the Unix epoch.
pub const REPLAY_SIGNED_AT: &str = "replay-signed-at";
/// On an input record that the api already refused: the reason, one of [`REASONS`](crate::refused::REASONS). The symbolizer makes its dead
/// letter. A sender can refuse only its own record.
pub const REFUSED_REASON: &str = "refused-reason";
/// On such a record: the exact error as a text for people.
pub const REFUSED_DETAIL: &str = "refused-detail";
/// On a record of the overflow topic of ingest: the units a second at which records with the same key are drained.
pub const DRAIN_RATE: &str = "drain-rate";
/// On such a record: the topic that it is forwarded to. Without it the symbolizer processes the record.
pub const DRAIN_TOPIC: &str = "drain-topic";
/// On such a record: its key on that topic.
pub const DRAIN_KEY: &str = "drain-key";
/// On a dead letter without its value, which was too large for the topic: the size of the value in bytes.
pub const VALUE_BYTES: &str = "value-bytes";
/// Ed25519 signature of a gateway, base64.
pub const SIGNATURE: &str = "signature";
/// The name of the public key that verifies [`SIGNATURE`].
pub const SIGNATURE_KEY: &str = "signature-key";
/// The time of the gateway's signature, in milliseconds since the Unix epoch.
pub const SIGNED_AT: &str = "signed-at";
/// The version of Unslide that wrote the record.
pub const UNSLIDE_VERSION: &str = "unslide-version";
/// The id of a message. It stays the same if the message is sent again.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
