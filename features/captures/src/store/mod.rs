//! Captures: files that were recorded on a device and are analysed as a whole.
//!
//! The bytes lie in object storage. Before they are put their keys are *condemned* from a day later on; the
//! transaction that makes the row takes them off that list. So a sender that breaks off leaves nothing.
//!
//! A builder analyses a capture in *runs*. Only the last run that was begun may end, and the row names the run
//! that answers. Its end notes which symbols it has seen, in the way of [`unslide_store::reports`]' waits: of
//! "symbols arrive" and "an analysis ends", the second sees the first.

mod hooks;
mod list;
mod receive;
mod run;
mod wake;

pub use crate::ids::CaptureId;
pub use hooks::CAPTURE_HOOK;
pub use list::{CaptureFilter, RunCapture, delete, earlier, for_run, get, list};
pub use receive::{NewCapture, ReceivedCapture, expect, receive};
pub use run::{AnalysisEnd, CaptureRun, SeenSymbols, begin, fail, finish};
pub use wake::wake;

use crate::capture::{CaptureForm, CaptureKind, MallocLayout};
use crate::keys::CaptureKeys;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::types::Json;
use time::OffsetDateTime;
use unslide_model::TenantId;
use unslide_store::Result;
use unslide_store::jobs::{FeatureWork, Work};
use unslide_store::sql::{from_row, from_row32, words};
use utoipa::ToSchema;

words! {
    /// How far a capture is.
    pub enum CaptureState {
        /// It waits for a builder.
        Queued = "queued",
        Analysing = "analysing",
        Ready = "ready",
        /// Nothing could be made of it; the reason says why.
        Failed = "failed",
    }
}

/// A file of a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureFile {
    /// The name of the part.
    pub name: String,
    pub size: u64,
}

/// A file, or several, that were recorded on a device and are analysed as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Capture {
    /// Its id.
    #[schema(value_type = Uuid)]
    pub id: CaptureId,
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
    /// How its files are read.
    #[serde(skip)]
    pub form: CaptureForm,
    /// Its files.
    #[serde(skip)]
    pub files: Vec<CaptureFile>,
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
    /// Analyses that were begun.
    #[serde(skip)]
    pub run: u32,
    /// The one that answers.
    #[serde(skip)]
    pub answer: Option<u32>,
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

impl Capture {
    /// Returns the keys of its files and analyses, to be condemned.
    #[must_use]
    pub fn object_keys(&self, tenant: &TenantId) -> Vec<String> {
        CaptureKeys::new(tenant, self.id).all(&self.form, self.runs())
    }

    /// Returns the runs that may have stored an analysis: the one that answers, and the last one.
    pub fn runs(&self) -> impl Iterator<Item = u32> + use<> {
        list_runs(self.run, self.answer)
    }
}

/// Returns the runs that may have stored an analysis, of a capture with this last run and this answer.
fn list_runs(last: u32, answer: Option<u32>) -> impl Iterator<Item = u32> {
    let last = Some(last).filter(|run| *run > 0 && answer != Some(*run));
    answer.into_iter().chain(last)
}

struct CaptureRow {
    id: CaptureId,
    app: String,
    version: String,
    session_id: Option<String>,
    form: Json<CaptureForm>,
    files: Json<Vec<CaptureFile>>,
    size: i64,
    state: CaptureState,
    reason: Option<String>,
    detail: Option<String>,
    run: i32,
    answer: Option<i32>,
    summary: Option<Value>,
    received_at: OffsetDateTime,
    analysed_at: Option<OffsetDateTime>,
}

impl From<CaptureRow> for Capture {
    fn from(row: CaptureRow) -> Capture {
        let Json(form) = row.form;
        Capture {
            id: row.id,
            app: row.app,
            version: row.version,
            session_id: row.session_id,
            kind: form.kind(),
            layout: form.layout(),
            form,
            files: row.files.0,
            state: row.state,
            reason: row.reason,
            detail: row.detail,
            size: from_row(row.size),
            run: from_row32(row.run),
            answer: row.answer.map(from_row32),
            summary: row.summary,
            received_at: row.received_at,
            analysed_at: row.analysed_at,
        }
    }
}

/// The captures that the rest of the statement names, as rows.
macro_rules! query_captures {
    ($rest:tt, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            $crate::store::CaptureRow,
            r#"SELECT id AS "id: crate::store::CaptureId", app, version, session_id, form AS "form: sqlx::types::Json<crate::capture::CaptureForm>",
                      files AS "files: sqlx::types::Json<Vec<crate::store::CaptureFile>>", size,
                      state AS "state: crate::store::CaptureState", reason, detail, run, answer, summary, received_at,
                      analysed_at
               FROM captures "#
                + $rest,
            $($argument),+
        )
    };
}
use query_captures;

/// The kind of the jobs.
pub const JOB_KIND: &str = "analyse";

/// The job that analyses a capture.
pub(crate) fn analysis_work(capture: CaptureId) -> Work {
    Work::Feature(FeatureWork::on_row(JOB_KIND, "capture", capture))
}
