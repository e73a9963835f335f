//! Reports.

mod delete;
mod explain;
mod get;
mod list;
mod send;
mod symbolicate;

use crate::access::Access;
use crate::problem::Problem;
use crate::state::Api;
use serde::Serialize;
use time::OffsetDateTime;
use unslide_model::ReportId;
use unslide_store::queries::reports;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(send::send_reports, list::list_reports))
        .routes(routes!(get::get_report, delete::delete_report))
        .routes(routes!(explain::explain_report))
        .routes(routes!(symbolicate::symbolicate))
}

/// Takes one from the symbolications that the key's tenant may ask for a second.
fn symbolication_rate<P>(api: &Api, access: &Access<P>) -> Result<(), Problem> {
    let limit = api.limits.symbolications_per_second;
    api.symbolications
        .take(access.tenant(), f64::from(limit) / f64::from(api.replicas), 1, api.clock.now())
        .map_err(|seconds| api.over_rate("symbolications_per_second", limit, seconds))
}

/// A report in a list. Texts are the device's words.
#[derive(Debug, Serialize, ToSchema)]
pub struct ListedReport {
    /// Its id.
    #[schema(value_type = String, format = Uuid)]
    pub id: ReportId,
    /// 0; or its place among reports of the same id and other bytes.
    pub variant: u32,
    /// Its revision: 1 at first, one more with each better answer.
    pub revision: u32,
    /// When it arrived.
    #[serde(with = "time::serde::rfc3339")]
    pub received_at: OffsetDateTime,
    /// Bundle identifier; empty where unknown.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// Version; empty where unknown.
    #[schema(example = "3.1.4")]
    pub version: String,
    /// Build; empty where unknown.
    pub build: String,
    /// The crash's type, such as `mach`; empty where unknown.
    #[serde(rename = "type")]
    pub kind: String,
    /// `complete`, `partial` or `none`: how far symbolication got.
    pub status: String,
    /// When it crashed, by the device's clock.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub device_time: Option<OffsetDateTime>,
    /// The operating system's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_name: Option<String>,
    /// The operating system's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
    /// The machine, such as `iPhone16,1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The process's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// The reason in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// More for a list: exception, signal, top frames.
    pub summary: serde_json::Value,
    /// How its frames ended.
    pub frames: Frames,
}

/// How many frames ended how.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Frames {
    /// All of them.
    pub total: u32,
    /// Answered by symbols.
    pub symbolicated: u32,
    /// Answered by the device.
    pub device: u32,
    /// In images without symbols.
    pub missing: u32,
}

impl From<reports::Listed> for ListedReport {
    fn from(listed: reports::Listed) -> ListedReport {
        ListedReport {
            id: listed.report_id,
            variant: listed.variant,
            revision: listed.revision,
            received_at: listed.received_at,
            app: listed.app,
            version: listed.version,
            build: listed.build,
            kind: listed.kind,
            status: listed.status,
            device_time: listed.device_time,
            os_name: listed.os_name,
            os_version: listed.os_version,
            model: listed.model,
            process: listed.process,
            reason: listed.reason,
            summary: listed.summary,
            frames: Frames {
                total: listed.frames.total,
                symbolicated: listed.frames.symbolicated,
                device: listed.frames.device,
                missing: listed.frames.missing,
            },
        }
    }
}
