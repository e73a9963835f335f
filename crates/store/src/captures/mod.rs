//! Captures: files that were recorded on a device and are analysed as a whole.
//!
//! The bytes lie in object storage. Before they are put their keys are *condemned* from a day later on; the
//! transaction that makes the row takes them off that list. So a sender that breaks off leaves nothing.
//!
//! A builder analyses a capture in *runs*. Only the last run that was begun may end, and the row names the run
//! that answers. Its end notes which symbols it has seen, in the way of [`crate::reports`]' waits: of
//! "symbols arrive" and "an analysis ends", the second sees the first.

mod list;
mod receive;
mod run;
mod wake;

pub use list::{CaptureFilter, all, delete, earlier, expire, get, list};
pub use receive::{NewCapture, ReceivedCapture, expect, receive};
pub use run::{AnalysisEnd, CaptureRun, SeenSymbols, begin, fail, finish};
pub use wake::wake;

use crate::Uuid;
use crate::column::{json_column, words};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use unslide_model::{CaptureForm, CaptureKind, MallocLayout};
use utoipa::ToSchema;

words! {
    /// How far a capture is.
    pub enum CaptureState {
        /// It waits for a builder.
        Queued = "queued",
        /// A builder analyses it.
        Analysing = "analysing",
        /// There is an analysis.
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
    /// Bytes.
    pub size: u64,
}

/// A file, or several, that were recorded on a device and are analysed as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Capture {
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
    /// The runs that may have stored an analysis: the one that answers, and the last one.
    pub fn runs(&self) -> impl Iterator<Item = u32> + use<> {
        let last = Some(self.run).filter(|run| *run > 0 && self.answer != Some(*run));
        self.answer.into_iter().chain(last)
    }
}

json_column!(CaptureForm);
json_column!(CaptureKind);
json_column!(MallocLayout);
json_column!(Vec<CaptureFile>);

/// The captures that the rest of the statement names.
macro_rules! query_captures {
    ($rest:tt, $($argument:expr),+ $(,)?) => {{
        use $crate::captures::{Capture, CaptureFile, CaptureState};
        use $crate::column::{JsonColumn, Nullable, U32, U64};
        use unslide_model::{CaptureForm, CaptureKind, MallocLayout};
        sqlx::query_as!(
            Capture,
            r#"SELECT id, app, version, session_id, form -> 'kind' AS "kind!: JsonColumn<CaptureKind>",
                      form -> 'layout' AS "layout!: Nullable<JsonColumn<MallocLayout>>",
                      form AS "form: JsonColumn<CaptureForm>", files AS "files: JsonColumn<Vec<CaptureFile>>",
                      size AS "size: U64", state AS "state: CaptureState", reason, detail, run AS "run: U32",
                      answer AS "answer!: Nullable<U32>", summary, received_at, analysed_at
               FROM captures "#
                + $rest,
            $($argument),+
        )
    }};
}
use query_captures;
