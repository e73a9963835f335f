//! Enriched reports: stored once each, however often they come, with everything that is derived
//! from them in the same transaction.

mod delete;
mod duplicates;
mod groups;
pub mod history;
pub mod kept_bodies;
mod keys;
pub mod pages;
pub mod partitions;
mod person;
pub mod retention;
mod rollups;
pub mod row_texts;
mod rows;
mod same_crash;
mod store;
mod waits;

pub use delete::delete_report;
pub(crate) use delete::drop_rest;
pub use groups::{deltas, regroup, return_group};
pub(crate) use groups::{device_hash, normalize_term, stored_sketch};
pub use keys::find_arrival_times;
pub(crate) use keys::{KeyRow, RowKey, lock_known};
pub use person::{PersonReports, list_person_reports};
pub(crate) use rollups::HOUR_COUNTS_RETENTION;
pub(crate) use same_crash::LATE_TELLING_LIMIT;
pub use same_crash::{CrashTeller, count_once};
pub use store::{StoredBatch, rewrite_reports, store_arrivals, store_batch};
#[cfg(test)]
pub(crate) use waits::record_in_steps;
pub(crate) use waits::{NeedsByReport, newer_of_system, own_symbols, system_since};

use crate::Uuid;
use crate::column::U32;
use crate::persons::PersonHash;
#[cfg(test)]
use crate::{Result, TenantTx};
use serde::Serialize;
use sqlx::FromRow;
use time::OffsetDateTime;
use unslide_model::{AppSignal, ContentHash, DebugId, ReportGrouping, ReportId, SenderKeyId};
use utoipa::ToSchema;

/// An enriched report, read from the output topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// The report's id, as the report says.
    pub report_id: ReportId,
    /// SHA-256 of the report without our keys: distinguishes a second copy from another report of that id.
    pub content_hash: ContentHash,
    /// From 1.
    pub revision: u32,
    /// The broker's time. Of a report's first arrival it is kept; later ones don't count.
    pub received_at: OffsetDateTime,
    /// The enriched JSON as [`unslide_proto::body::compress_report`] makes it.
    pub body: Vec<u8>,
    /// The enriched JSON's size in bytes.
    pub size: u64,
    /// The fields that queries ask for.
    pub facts: ReportDetails,
    /// The images that a frame refers to, each debug id once.
    pub images: Vec<ImageUse>,
    /// The first record of the report's history.
    pub origin: Option<ReportOrigin>,
    /// The W3C trace context that the report travels under.
    pub traceparent: Option<String>,
}

/// Users of one report that are recorded.
pub const MOST_REPORT_USERS: usize = 8;

/// Fields of a report, for lists and filters. Texts come from the device: they are cut to a limit and freed
/// of NULs when they are stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportDetails {
    /// Bundle identifier; empty if unknown.
    pub app: String,
    /// `CFBundleShortVersionString`; empty if unknown.
    pub version: String,
    /// `CFBundleVersion`; empty if unknown.
    pub build: String,
    /// The crash's type, such as `mach`; empty if unknown.
    pub kind: String,
    /// `complete`, `partial` or `none`.
    pub status: String,
    /// The device's claim of when it crashed.
    pub device_time: Option<OffsetDateTime>,
    /// An identifier of the device, at most 32 bytes.
    pub device: Option<Vec<u8>>,
    /// The hashes of the users that it names, each once, at most [`MOST_REPORT_USERS`].
    pub users: Vec<PersonHash>,
    /// The operating system's name.
    pub os_name: Option<String>,
    /// The operating system's version.
    pub os_version: Option<String>,
    /// The operating system's build.
    pub os_build: Option<String>,
    /// The machine, such as `iPhone16,1`.
    pub model: Option<String>,
    /// The process's name.
    pub process: Option<String>,
    /// The reason in one line.
    pub reason: Option<String>,
    /// More for a list: exception, signal, top frames. At most 16 KiB are kept.
    pub summary: serde_json::Value,
    /// State of the app and the device, and the app's own keys, for the shares of a group: an object with the objects
    /// `facts` and `keys`. At most 8 KiB are kept.
    pub context: serde_json::Value,
    /// How the frames ended.
    pub frames: FrameTotals,
    /// Which bug it is about.
    pub grouping: Option<ReportGrouping>,
    /// The run of the app that ended, if the device names it.
    pub run_id: Option<Uuid>,
    /// The public key that an app sent it with.
    pub sender_key: Option<SenderKeyId>,
    /// The process that ended: equal for KSCrash's and MetricKit's reports of one.
    pub process_identity: Option<Uuid>,
    /// Made by MetricKit and not by KSCrash.
    pub metric_kit: bool,
    /// Who tells of the crash. `None` is the app's own handler, or MetricKit.
    pub teller: Option<CrashTeller>,
    /// True if a handler wrote it that may run after another one of the same crash.
    pub is_second_handler: bool,
    /// The id of the process, if the report names it.
    pub process_id: Option<u32>,
    /// True for a memory exception of MetricKit: the system ended the app for lack of memory.
    pub is_memory_exception: bool,
    /// The share of such reports that is sent, 0.001 to 1; all if absent. It does not count for a crash.
    pub sampled: Option<f64>,
    /// The search terms of its group: functions, files and the reason. The first 200 count.
    pub terms: Vec<String>,
}

impl ReportDetails {
    /// Returns who tells of the crash.
    #[must_use]
    pub fn teller(&self) -> CrashTeller {
        let known = if self.metric_kit { CrashTeller::MetricKit } else { CrashTeller::Handler };
        self.teller.unwrap_or(known)
    }

    /// Returns the signal of the report; `None` for crashes and other kinds that are always kept. A report of
    /// the app's end is a crash, also for a hang or an error of JavaScript; an end out of memory has a signal
    /// of its own.
    #[must_use]
    pub fn signal(&self) -> Option<AppSignal> {
        self.signal_of_group().filter(|_| !self.is_fatal())
    }

    fn signal_of_group(&self) -> Option<AppSignal> {
        AppSignal::from_group_kind(&self.grouping.as_ref()?.kind)
    }

    /// Returns the weight of the report by its sender's sampling rate, in thousandths.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1,000 to 1,000,000")]
    fn sent_weight(&self) -> u64 {
        (1_000.0 / self.sampled.unwrap_or(1.0).clamp(0.001, 1.0)).round() as u64
    }

    /// Returns true for a crash of any kind of group: the app did not survive it. The device's statement
    /// counts; versions that make none report only the crash's type. An end out of memory is no crash, as
    /// with sessions, even if the device says so.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        if self.signal_of_group() == Some(AppSignal::Memory) {
            return false;
        }
        let said = self.summary.get("fatal").map(|fatal| *fatal == serde_json::Value::Bool(true));
        said.unwrap_or(matches!(
            &*self.kind,
            "mach" | "signal" | "nsexception" | "cpp_exception" | "deadlock"
        ))
    }
}

/// Counts of frames, by the source of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromRow, Serialize, ToSchema)]
#[schema(as = Frames)]
pub struct FrameTotals {
    /// Number of all frames in the report.
    #[sqlx(rename = "frames_total", try_from = "U32")]
    pub total: u32,
    /// Frames that uploaded symbols named.
    #[sqlx(rename = "frames_symbolicated", try_from = "U32")]
    pub symbolicated: u32,
    /// Frames with only the name that the device wrote.
    #[sqlx(rename = "frames_device", try_from = "U32")]
    pub device: u32,
    /// Frames of `device` that lie in an image of the app itself.
    #[sqlx(rename = "frames_device_app", try_from = "U32")]
    pub device_app: u32,
    /// Frames in images that have no symbols.
    #[sqlx(rename = "frames_missing", try_from = "U32")]
    pub missing: u32,
    /// Frames in images of the app itself, and of its own JavaScript.
    #[sqlx(rename = "frames_own", try_from = "U32")]
    pub own: u32,
    /// Frames of `own` that uploaded symbols named.
    #[sqlx(rename = "frames_own_symbolicated", try_from = "U32")]
    pub own_symbolicated: u32,
}

/// An image that a frame of a report refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageUse {
    /// The image.
    pub debug_id: DebugId,
    /// Its name.
    pub name: String,
    /// Its architecture.
    pub arch: String,
    /// It is a system image.
    pub system: bool,
    /// Its symbols were found.
    pub found: bool,
    /// They are of a stripped binary of the app: its dSYM is missing.
    pub stripped: bool,
    /// Its symbols exist and could not be fetched.
    pub failed: bool,
    /// The generation that answered; 0 for none.
    pub seen_generation: u64,
}

impl ImageUse {
    /// Returns true for an image of the app that lacks its dSYM. A dSYM that could not be fetched exists.
    fn lacks_symbols(&self) -> bool {
        !self.system && !self.failed && (!self.found || self.stripped)
    }
}

/// The first record of a report's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportOrigin {
    /// Its topic.
    pub topic: String,
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Index of the report in the record, from 0, if the record held several.
    pub index: i32,
}

/// Whether a stored report may ask for a better one at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effects {
    /// It may.
    Now,
    /// Later revisions may follow in the log: record the need, and request what is still open with
    /// [`crate::requests::ask_pending`] when the log's end is reached. The retries of symbols that could not
    /// be fetched begin then too.
    Deferred,
}

/// The outcome of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalOutcome {
    /// Stored: the first revision that the store has of the report.
    New,
    /// Stored in the place of an earlier revision.
    Revised,
    /// A later arrival of the same batch has taken its place already.
    Superseded,
    /// This revision or a later one is stored: nothing was done.
    Duplicate,
    /// The report was deleted, or a person or a public key of it was erased: nothing was done, or only its key was stored.
    Deleted,
    /// Older than reports are kept: only its key was stored.
    Expired,
    /// The app does not keep reports of this signal: only its key was stored.
    SwitchedOff,
}

/// The outcome of an arrival, and the identity that it was stored under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredArrival {
    /// The outcome.
    pub outcome: ArrivalOutcome,
    /// 0 for the first report of this id; another one's place among those of the same id.
    pub variant: u32,
    /// The revision that was requested, if newer symbols exist.
    pub requested: Option<u32>,
}

/// A report that changes: its key, and the first and the last arrival that were accepted.
pub(crate) struct Change<'a> {
    key: KeyRow,
    arrival: &'a Arrival,
    came: &'a Arrival,
    place: usize,
    /// The weight of the report, if it is new.
    weight: i64,
    previous: Option<rows::Previous>,
}

impl<'a> Change<'a> {
    /// Returns false for a crash that another report is counted for.
    fn is_counted(&self) -> bool {
        self.previous.as_ref().is_none_or(|previous| previous.same_crash_as.is_none())
    }

    /// Returns the weight of the report: it does not change after the first revision.
    fn weight(&self) -> i64 {
        self.previous.as_ref().map_or(self.weight, |previous| previous.weight)
    }

    /// Returns the images that a new report came without symbols for, also if the batch brings the next
    /// revision with it: how the log is cut into batches must not show.
    fn wanted_images(&self) -> impl Iterator<Item = &'a ImageUse> + use<'a> {
        self.came.images.iter().filter(|image| !image.found)
    }
}

#[cfg(test)]
impl<'a> Change<'a> {
    /// Makes the change for a report that comes for the first time, and locks its key.
    pub(crate) async fn for_first_arrival(tx: &mut TenantTx, arrival: &'a Arrival) -> Result<Change<'a>> {
        let new = keys::NewReportKey {
            report_id: arrival.report_id,
            content_hash: arrival.content_hash,
            received_at: arrival.received_at,
            revision: arrival.revision,
            retry: Vec::new(),
            origin: arrival.origin.as_ref(),
        };
        let key = keys::insert_and_lock(tx, &[new]).await?[0];
        Ok(Change { key, arrival, came: arrival, place: 0, weight: 1, previous: None })
    }
}
