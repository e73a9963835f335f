//! OTLP of a tenant, for its administrators.

pub mod get;
pub mod remove;
pub mod set;

use crate::store;
use serde::Serialize;
use time::OffsetDateTime;
use unslide_api::feature::OperationRouter;
use unslide_api::routes;
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "the settings of OTLP are for all apps of a tenant";

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(get::get_otlp, set::set_otlp, remove::remove_otlp))
}

/// How records that are no crash are answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OtherRecords {
    /// They are taken, counted and dropped.
    #[default]
    Accept,
    /// The answer names their number as rejected.
    Refuse,
}

/// The settings of OTLP of a tenant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OtlpState {
    /// How records that are no crash are answered.
    pub other_records: OtherRecords,
    /// The collector to which crashes are sent; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<OtlpExport>,
    /// When the settings were changed last (RFC 3339); absent for the default.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<OffsetDateTime>,
}

/// The collector of a tenant.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OtlpExport {
    /// The URL to which logs are posted.
    #[schema(example = "https://otlp.example.com/v1/logs")]
    pub url: String,
    /// The names of the headers of each request. Their values are never shown.
    #[schema(max_items = 10, example = json!(["authorization"]))]
    pub headers: Vec<String>,
    /// Reports that wait.
    #[schema(minimum = 0)]
    pub waiting: i64,
    /// When the collector took records last (RFC 3339).
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<OffsetDateTime>,
    /// Requests in a row that failed.
    #[schema(minimum = 0)]
    pub failures: i32,
    /// Why the last request failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Reports that did not go to the collector since these settings were set: it refused them, or they cannot be read.
    #[schema(minimum = 0)]
    pub dropped: i64,
    /// Why the last of them did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drop_reason: Option<String>,
}

/// Reads the state of the transaction's tenant.
async fn read_state(tx: &mut TenantTx) -> Result<OtlpState> {
    let (settings, waiting) = (store::find_settings(tx).await?, store::count_entries(tx).await?);
    let Some(settings) = settings else {
        return Ok(OtlpState { other_records: OtherRecords::Accept, export: None, changed_at: None });
    };
    let export = settings.export_url.map(|url| OtlpExport {
        url,
        headers: settings.header_names,
        waiting,
        sent_at: settings.sent_at,
        failures: settings.failures,
        problem: settings.problem,
        dropped: settings.dropped,
        drop_reason: settings.drop_reason,
    });
    Ok(OtlpState {
        other_records: if settings.refuses_others { OtherRecords::Refuse } else { OtherRecords::Accept },
        export,
        changed_at: Some(settings.changed_at),
    })
}
