//! The receivers of the audit log of a tenant, and the log in the order of its places, for the tenant's administrators.

pub mod entries;
pub mod list;
pub mod remove;
pub mod set;
pub mod test;

use crate::store::ReceiverRow;
use crate::target::AuditReceiverKind;
use serde::Serialize;
use time::OffsetDateTime;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::operation::{Kind, Problem};
use unslide_api::routes;
use utoipa::ToSchema;

/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "the audit log is about all apps of a tenant";
/// Receivers of a tenant.
const RECEIVERS_LIMIT: usize = 5;

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(entries::list_audit_entries))
        .routes(routes!(list::list_audit_receivers, set::set_audit_receiver))
        .routes(routes!(remove::remove_audit_receiver))
        .routes(routes!(test::test_audit_receiver))
}

/// A receiver of the audit log, without its secrets.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = AuditReceiver)]
pub struct ShownReceiver {
    /// Its name in this tenant.
    #[schema(example = "siem")]
    pub name: String,
    /// The protocol of its requests.
    pub kind: AuditReceiverKind,
    /// The part of its address that is no secret.
    #[schema(example = "https://siem.example.com/…")]
    pub address: String,
    /// The secret that signs webhooks, only in the answer that made it. It is stored encrypted and never shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_secret: Option<String>,
    /// The place in the log of the last entry that it has taken.
    #[schema(minimum = 0)]
    pub position: i64,
    /// Number of entries that wait.
    #[schema(minimum = 0)]
    pub waiting: i64,
    /// When it took entries last (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<OffsetDateTime>,
    /// Turns in a row that failed.
    #[schema(minimum = 0)]
    pub failures: i32,
    /// Why the last one failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// When the next attempt is due, after a failure (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub waits_until: Option<OffsetDateTime>,
    /// When its settings were changed last (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
}

impl ShownReceiver {
    fn from_row(row: ReceiverRow, last_position: i64) -> ShownReceiver {
        ShownReceiver {
            name: row.name,
            kind: row.kind,
            address: row.shown_address,
            new_secret: None,
            position: row.position,
            waiting: (last_position - row.position).max(0),
            sent_at: row.sent_at,
            failures: row.failures,
            waits_until: row.problem.is_some().then_some(row.next_send_at),
            problem: row.problem,
            changed_at: row.changed_at,
        }
    }
}

/// The receivers of a tenant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct AuditReceiverList {
    /// The receivers, ordered by name.
    #[schema(max_items = 5)]
    pub receivers: Vec<ShownReceiver>,
}

fn no_receiver() -> Problem {
    Problem::new(Kind::NotFound, "there is no such receiver of the audit log")
}
