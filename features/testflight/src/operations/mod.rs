//! The TestFlight inbox of a tenant, for its administrators.

pub mod get;
pub mod poll;
pub mod remove;
pub mod set;

use crate::store::{self, InboxCounts, InboxSubmission};
use serde::Serialize;
use time::OffsetDateTime;
use unslide_api::feature::OperationRouter;
use unslide_api::routes;
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "a key of App Store Connect is for all apps of a team";
/// Submissions that the state lists.
const RECENT_LIMIT: u32 = 20;

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new()
        .routes(routes!(get::get_testflight, set::set_testflight, remove::remove_testflight))
        .routes(routes!(poll::poll_testflight))
}

/// The TestFlight inbox of a tenant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TestFlightState {
    /// The key of App Store Connect; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<TestFlightKey>,
    /// Submissions so far, of 400 days.
    pub submissions: InboxCounts,
    /// The newest submissions.
    #[schema(max_items = 20)]
    pub recent: Vec<InboxSubmission>,
}

/// A key of App Store Connect, without the private key.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TestFlightKey {
    /// The id of the issuer, which is the team. Absent for a key of one person.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "57246542-96fe-1a63-e053-0824d011072a")]
    pub issuer_id: Option<String>,
    /// The id of the key.
    #[schema(example = "2X9R4HXF34")]
    pub key_id: String,
    /// Bundle identifiers of the apps whose submissions are taken.
    #[schema(max_items = 20, example = json!(["com.example.shop"]))]
    pub apps: Vec<String>,
    /// When the key is no longer used (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<OffsetDateTime>,
    /// When the settings were changed last (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub changed_at: OffsetDateTime,
    /// The end of the last poll (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub polled_at: Option<OffsetDateTime>,
    /// The begin of the next poll, about (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub next_poll_at: OffsetDateTime,
    /// Why the last poll failed, or why the key cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Reads the state of the transaction's tenant.
async fn read_state(tx: &mut TenantTx) -> Result<TestFlightState> {
    let (key, apps) = (store::get_key(tx).await?, store::list_apps(tx).await?);
    let key = key.map(|key| TestFlightKey {
        issuer_id: key.issuer_id,
        key_id: key.key_id,
        apps: apps.into_iter().map(|app| app.app).collect(),
        expires_at: key.expires_at,
        changed_at: key.changed_at,
        polled_at: key.polled_at,
        next_poll_at: key.not_before.map_or(key.next_poll_at, |end| end.max(key.next_poll_at)),
        problem: key.problem,
    });
    let submissions = store::count_states(tx).await?;
    let recent = store::list_recent(tx, RECENT_LIMIT).await?;
    Ok(TestFlightState { key, submissions, recent })
}
