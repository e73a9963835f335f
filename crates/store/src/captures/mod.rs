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

pub use list::{CaptureFilter, delete, earlier, expire, get, list};
pub use receive::{NewCapture, ReceivedCapture, expect, receive};
pub use run::{AnalysisEnd, CaptureRun, SeenSymbols, begin, fail, finish};
pub use wake::wake;

use crate::Uuid;
use crate::column::{json_column, words};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;
use unslide_model::CaptureForm;

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

/// A capture.
#[derive(Clone, Debug, PartialEq)]
pub struct Capture {
    /// Its id.
    pub id: Uuid,
    /// The app that it was recorded of.
    pub app: String,
    /// The app's version; empty where it is not known.
    pub version: String,
    /// The id of the session that it was recorded in.
    pub session_id: Option<String>,
    /// How its files are read.
    pub form: CaptureForm,
    /// Its files.
    pub files: Vec<CaptureFile>,
    /// Bytes of all files.
    pub size: u64,
    /// How far it is.
    pub state: CaptureState,
    /// Why the last analysis failed, a stable word.
    pub reason: Option<String>,
    /// Why the last analysis failed, for people.
    pub detail: Option<String>,
    /// Analyses that were begun.
    pub run: u32,
    /// The one that answers.
    pub answer: Option<u32>,
    /// What a list says of the analysis.
    pub summary: Option<Value>,
    /// When it came.
    pub received_at: OffsetDateTime,
    /// When it was analysed last.
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
json_column!(Vec<CaptureFile>);

/// The captures that the rest of the statement names.
macro_rules! query_captures {
    ($rest:tt, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            $crate::captures::Capture,
            r#"SELECT id, app, version, session_id, form AS "form: JsonColumn<CaptureForm>",
                      files AS "files: JsonColumn<Vec<CaptureFile>>", size AS "size: U64",
                      state AS "state: CaptureState", reason, detail, run AS "run: U32",
                      answer AS "answer!: Nullable<U32>", summary, received_at, analysed_at
               FROM captures "#
                + $rest,
            $($argument),+
        )
    };
}
use query_captures;
