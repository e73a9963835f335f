//! The trackers of a tenant, for its administrators, and the tickets of groups.

pub mod create;
pub mod get;
pub mod link;
pub mod list;
pub mod remove;
pub mod set;
pub mod test;

use crate::Tickets;
use crate::hooks::hook_path;
use crate::store::{StoredTicket, TrackerRow};
use crate::ticket::{TicketState, TrackerKind};
use serde::Serialize;
use time::OffsetDateTime;
use unslide_api::feature::OperationRouter;
use unslide_api::routes;
use unslide_model::TenantId;
use unslide_store::GroupId;
use utoipa::ToSchema;

/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "a tracker is for all apps of a tenant";
/// Units of a ticket, as many as those of 100 reports.
const TICKET_UNITS: usize = 100;
/// Trackers of a tenant.
const TRACKERS_LIMIT: usize = 20;

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(list::list_trackers, set::set_tracker))
        .routes(routes!(remove::remove_tracker))
        .routes(routes!(test::test_tracker))
        .routes(routes!(get::get_ticket, create::create_ticket, link::link_ticket))
}

/// A tracker, without its secrets.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Tracker)]
pub struct ShownTracker {
    /// Its name in this tenant.
    #[schema(example = "main")]
    pub name: String,
    /// The product.
    pub kind: TrackerKind,
    /// The address of its API.
    #[schema(example = "https://api.github.com")]
    pub url: String,
    /// The repository, project or team of new tickets.
    #[schema(example = "example/shop")]
    pub project: String,
    /// The e-mail address of the token's account, for Jira Cloud.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// The type of new issues, for Jira; `Bug` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issue_type: Option<String>,
    /// Labels of new tickets.
    #[schema(max_items = 10)]
    pub labels: Vec<String>,
    /// A new group gets a ticket when it has this many reports. Absent: only if a person asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_reports: Option<i64>,
    /// The only app of that rule, and of commits that fix groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule_app: Option<String>,
    /// The path, or the address if it is known, to which the tracker has to send its hooks.
    #[schema(
        example = "https://crashes.example.com/v1/hooks/trackers/acme.0b5c1d2e-0000-4000-8000-000000000001"
    )]
    pub hook_url: String,
    /// The secret of hooks, only in the answer that made it. It is stored encrypted and never shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_hook_secret: Option<String>,
    /// When the settings were changed last (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
    /// Until when the tracker gets no request (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub waits_until: Option<OffsetDateTime>,
    /// Why the last request failed, if it concerns all tickets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl ShownTracker {
    fn from_row(tickets: &Tickets, tenant: &TenantId, row: TrackerRow) -> ShownTracker {
        ShownTracker {
            hook_url: format!("{}{}", tickets.public_url, hook_path(tenant, row.id)),
            name: row.name,
            kind: row.kind,
            url: row.url,
            project: row.project,
            account: row.account,
            issue_type: row.issue_type,
            labels: row.labels,
            rule_reports: row.rule_reports,
            rule_app: row.rule_app,
            new_hook_secret: None,
            changed_at: row.changed_at,
            waits_until: row.not_before,
            problem: row.problem,
        }
    }
}

/// The trackers of a tenant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TrackerList {
    /// By name.
    #[schema(max_items = 20)]
    pub trackers: Vec<ShownTracker>,
}

/// The ticket of a group.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct GroupTicket {
    /// Id of the group.
    #[schema(value_type = Uuid)]
    pub group: GroupId,
    /// The ticket; absent if the group has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<ShownTicket>,
}

/// A ticket.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Ticket)]
pub struct ShownTicket {
    /// The name of its tracker.
    #[schema(example = "main")]
    pub tracker: String,
    /// `creating`, `failed`, `open`, `done`, `dropped` (closed without a fix) or `lost` (the tracker does not have it).
    #[schema(value_type = String, example = "open")]
    pub state: TicketState,
    /// Its name in the tracker; absent until there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "#17")]
    pub key: Option<String>,
    /// Its address; absent until there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "https://github.com/example/shop/issues/17")]
    pub url: Option<String>,
    /// The version that the ticket names as the one with the fix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix_version: Option<String>,
    /// When it was asked for (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it was read last (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub read_at: Option<OffsetDateTime>,
    /// Why it could not be made, read or changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl From<StoredTicket> for ShownTicket {
    fn from(ticket: StoredTicket) -> ShownTicket {
        ShownTicket {
            tracker: ticket.tracker,
            state: ticket.state,
            key: ticket.ticket_key,
            url: ticket.url,
            fix_version: ticket.fix_version,
            created_at: ticket.created_at,
            read_at: ticket.read_at,
            problem: ticket.problem,
        }
    }
}
