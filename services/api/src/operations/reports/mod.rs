//! Reports.

mod delete;
mod explain;
mod get;
mod list;
mod schemas;
mod send;
mod symbolicate;

use crate::operations::prelude::*;
use time::OffsetDateTime;
use unslide_model::ReportId;
use unslide_store::queries::reports;

/// The routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(send::send_reports, list::list_reports))
        .routes(routes!(delete::delete_report))
        .routes(routes!(explain::explain_report))
        .routes(routes!(symbolicate::symbolicate))
}

/// The route that waits by wish of the client.
pub fn waiting_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(get::get_report))
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
    /// True where an image of the app itself has no symbols, so that its frames have the device's names
    /// or none: upload its dSYM.
    pub symbols_missing: bool,
    /// The group of its bug.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<uuid::Uuid>,
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
    /// Those of them that lie in an image of the app itself.
    pub device_app: u32,
    /// In images without symbols.
    pub missing: u32,
}

impl From<reports::ReportRow> for ListedReport {
    fn from(listed: reports::ReportRow) -> ListedReport {
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
                device_app: listed.frames.device_app,
                missing: listed.frames.missing,
            },
            symbols_missing: listed.symbols_missing,
            group: listed.group,
        }
    }
}
