//! Entries that are sent at once, and what comes of it.

use time::OffsetDateTime;
use unslide_model::TenantId;
use unslide_store::audit::AuditEntry;

/// Entries that are sent at once.
pub struct SentEntries<'e> {
    pub tenant: &'e TenantId,
    pub entries: &'e [AuditEntry],
    /// The time of the request.
    pub at: OffsetDateTime,
}

/// Outcome of a request: the text that was sent, and its answer.
pub struct AuditExchange {
    /// The request or the messages, without secrets.
    pub sent: String,
    /// The status of an answer over HTTP.
    pub status: Option<u16>,
    pub outcome: Result<(), AuditDeliveryFailure>,
}

/// The failure of a receiver, or of its settings.
#[derive(Debug, PartialEq, Eq)]
pub struct AuditDeliveryFailure {
    /// The words for the tenant.
    pub text: String,
    /// The pause that the receiver asks for.
    pub pause: Option<time::Duration>,
}

impl AuditDeliveryFailure {
    pub fn new(text: impl Into<String>) -> AuditDeliveryFailure {
        AuditDeliveryFailure { text: text.into(), pause: None }
    }
}
