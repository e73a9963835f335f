//! Captures: files that were recorded on a device and are analysed as a whole.

mod compare;
mod delete;
mod file;
mod get;
mod list;
pub mod send;

pub use compare::{CapturePair, capture_pair};
pub use delete::delete_capture;
pub use get::{FoundAnalysis, analysis};
pub use list::{CaptureQuery, list_captures};
pub use send::{AdmittedCapture, SendCaptureQuery, upload};

use crate::operations::prelude::*;
use serde_json::Value;
use time::OffsetDateTime;
use unslide_model::{CaptureForm, CaptureKind, MallocLayout};
use unslide_store::Uuid;
use unslide_store::captures::{Capture, CaptureState};

/// The routes of this folder that answer at once.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new()
        .routes(routes!(list::list_captures))
        .routes(routes!(get::get_capture, delete::delete_capture))
        .routes(routes!(file::get_capture_file))
        .routes(routes!(compare::compare_captures))
}

/// The route that takes files, for as long as it needs.
pub fn upload_routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(send::send_capture))
}

/// There is no such capture of this tenant and app.
fn no_capture() -> Problem {
    Problem::new(Kind::NotFound, "there is no such capture")
}

/// A file, or several, that were recorded on a device and are analysed as a whole.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Capture)]
pub struct CaptureEntry {
    /// Its id.
    pub id: Uuid,
    /// The app that it was recorded of.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The app's version; empty where its sender named none.
    pub version: String,
    /// The id of the session that it was recorded in, where its sender named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// What it was recorded by.
    #[schema(value_type = String, example = "profile")]
    pub kind: CaptureKind,
    /// How the records of a log are laid out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub layout: Option<MallocLayout>,
    /// `queued`, `analysing`, `ready` or `failed`. One that has an analysis is `queued` again when symbols come
    /// that it lacked.
    #[schema(value_type = String)]
    pub state: CaptureState,
    /// Why the last analysis failed, a stable word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why the last analysis failed, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Bytes of its files.
    pub size: u64,
    /// What the analysis is about, in short: `unit`, `weight`, `count`, and `lacking`, the number of the app's images
    /// without symbols. `source` is what a graph of memory was read from, or `sorted_log`, of a log that is sorted by
    /// address: captures of one source are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub summary: Option<Value>,
    /// When it came.
    #[serde(with = "time::serde::rfc3339")]
    pub received_at: OffsetDateTime,
    /// When it was analysed last.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub analysed_at: Option<OffsetDateTime>,
}

impl From<Capture> for CaptureEntry {
    fn from(capture: Capture) -> CaptureEntry {
        let layout = match capture.form {
            CaptureForm::MallocLog { layout, .. } => Some(layout),
            CaptureForm::Profile | CaptureForm::StackSet | CaptureForm::MemoryGraph => None,
        };
        CaptureEntry {
            id: capture.id,
            app: capture.app,
            version: capture.version,
            session_id: capture.session_id,
            kind: capture.form.kind(),
            layout,
            state: capture.state,
            reason: capture.reason,
            detail: capture.detail,
            size: capture.size,
            summary: capture.summary,
            received_at: capture.received_at,
            analysed_at: capture.analysed_at,
        }
    }
}
