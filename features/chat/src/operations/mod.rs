//! The Slack app of a tenant, for its administrators.

pub mod get;
pub mod remove;
pub mod set;
pub mod test;

use crate::Chat;
use crate::hooks::request_path;
use crate::store::SlackAppRow;
use serde::Serialize;
use time::OffsetDateTime;
use unslide_api::feature::OperationRouter;
use unslide_api::routes;
use unslide_model::TenantId;
use utoipa::ToSchema;

/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "a Slack app is for all apps of a tenant";

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(get::get_slack, set::set_slack, remove::remove_slack))
        .routes(routes!(test::test_slack))
}

/// The Slack app of a tenant, without its secrets.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = SlackApp)]
pub struct ShownSlackApp {
    /// Id of the workspace.
    #[schema(example = "T0123ABCD")]
    pub team: String,
    /// Id of the channel in which bugs are posted.
    #[schema(example = "C0123ABCD")]
    pub channel: String,
    /// A new group is posted when it has this many reports.
    pub reports: i64,
    /// The only app (bundle identifier) whose groups are posted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    /// The path, or the address if it is known, to which Slack has to send its requests.
    #[schema(example = "https://crashes.example.com/chat/slack/acme.0b5c1d2e-0000-4000-8000-000000000001")]
    pub request_url: String,
    /// When the settings were changed last (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
    /// Until when Slack gets no request (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub waits_until: Option<OffsetDateTime>,
    /// Why the last request failed, if it concerns all groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl ShownSlackApp {
    fn from_row(chat: &Chat, tenant: &TenantId, row: SlackAppRow) -> ShownSlackApp {
        ShownSlackApp {
            request_url: format!("{}{}", chat.public_url, request_path(tenant, row.id)),
            team: row.team,
            channel: row.channel,
            reports: row.reports,
            app: row.app,
            changed_at: row.changed_at,
            waits_until: row.not_before,
            problem: row.problem,
        }
    }
}

/// The setting for Slack.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct SlackSetting {
    /// The Slack app; absent if none is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slack: Option<ShownSlackApp>,
}
