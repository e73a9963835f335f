//! Names of the message headers. Every value is UTF-8 text; numbers are decimal.
//!
//! An output names two input records: its *origin*, the first record of its history, and its
//! *source*, the record that it was made from at once. They differ once a record went through a
//! retry or overflow topic, or was asked for again.

/// The tenant's slug, on shared topics. Set by the gateway or the api, never read from the report.
pub const TENANT: &str = "tenant";
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
/// Where one record held an array of reports: the report's place in it, from 0.
pub const SOURCE_INDEX: &str = "source-index";
/// Where one record held an array of reports: how many there were.
pub const SOURCE_COUNT: &str = "source-count";
/// W3C trace context, continued from the input record.
pub const TRACEPARENT: &str = "traceparent";
/// Why a record is in a dead-letter, retry or overflow topic: a stable word, such as `not_json`.
pub const REASON: &str = "reason";
/// What exactly was wrong, for a person.
pub const DETAIL: &str = "detail";
/// How often a record was tried before it came to this topic, from 1.
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
/// Which of the stored reports with this id is meant; absent for the first.
pub const VARIANT: &str = "report-variant";
/// Of a request and of its dead letter: when it was sent, microseconds since the Unix epoch.
pub const REQUESTED_AT: &str = "requested-at";
/// Of an input record that an operator sent again: the dead letter that it is a copy of, as
/// `topic/partition/offset`.
pub const REPLAY_OF: &str = "replay-of";
/// Of a replay: the Ed25519 signature of the service that sent it again, base64. It proves that [`REPLAY_OF`] was not
/// written by another producer.
pub const REPLAY_SIGNATURE: &str = "replay-signature";
/// The name of the public key that [`REPLAY_SIGNATURE`] is checked with.
pub const REPLAY_SIGNATURE_KEY: &str = "replay-signature-key";
/// When the replay was signed, milliseconds since the Unix epoch.
pub const REPLAY_SIGNED_AT: &str = "replay-signed-at";
/// Of a dead letter without its value, which was too large for the topic: the bytes of the value.
pub const VALUE_BYTES: &str = "value-bytes";
/// Ed25519 signature of a gateway, base64.
pub const SIGNATURE: &str = "signature";
/// The name of the public key that [`SIGNATURE`] is checked with.
pub const SIGNATURE_KEY: &str = "signature-key";
/// When the gateway signed, milliseconds since the Unix epoch.
pub const SIGNED_AT: &str = "signed-at";
/// The version of Unslide that wrote the record.
pub const UNSLIDE_VERSION: &str = "unslide-version";
/// The id of a message, which stays the same when the message is sent again.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
