//! Names of the symbolizer's lanes, which are also in their consumer groups.

/// Incoming reports.
pub const LIVE: &str = "live";
/// Records in the retry tiers and in overflow.
pub const RETRY: &str = "retry";
/// Stored reports that are symbolicated again.
pub const RESYMBOLICATE: &str = "resymbolicate";

/// Returns the consumer group of a lane in the installation with this prefix.
#[must_use]
pub fn consumer_group(prefix: &str, lane: &str) -> String {
    format!("{prefix}unslide.{lane}")
}
