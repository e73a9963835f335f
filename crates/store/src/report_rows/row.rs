//! A report as lists show it, and a page of them.

use crate::column::{Nullable, ReportIdColumn, U32};
use crate::cursor::ReportCursor;
use crate::reports::FrameTotals;
use crate::{GroupId, Result};
use serde::Serialize;
use sqlx::FromRow;
use time::OffsetDateTime;
use unslide_history::HistoryError;
use unslide_model::ReportId;
use utoipa::ToSchema;

/// A report in a list. Texts are the device's words.
#[derive(Clone, Debug, PartialEq, FromRow, Serialize, ToSchema)]
#[schema(as = ListedReport)]
pub struct ReportRow {
    /// Id of the report, from its `report.id`.
    #[sqlx(try_from = "ReportIdColumn")]
    #[serde(rename = "id")]
    #[schema(value_type = String, format = Uuid)]
    pub report_id: ReportId,
    /// 0, or its index among reports with the same id and other bytes.
    #[sqlx(try_from = "U32")]
    pub variant: u32,
    /// Its revision: 1 at first, one more with each better answer.
    #[sqlx(try_from = "U32")]
    pub revision: u32,
    /// When the service received it (RFC 3339).
    #[serde(with = "time::serde::rfc3339")]
    pub received_at: OffsetDateTime,
    /// Bundle identifier of the app; empty if it is not known.
    #[schema(example = "com.example.shop")]
    pub app: String,
    /// The app's version; empty if it is not known.
    #[schema(example = "3.1.4")]
    pub version: String,
    /// The app's build number; empty if it is not known.
    pub build: String,
    /// The crash's type, such as `mach`; empty if it is not known.
    #[sqlx(rename = "type")]
    #[serde(rename = "type")]
    pub kind: String,
    /// `complete`, `partial` or `none`: how far symbolication got.
    pub status: String,
    /// When it crashed, by the device's clock.
    #[serde(with = "time::serde::rfc3339::option", skip_serializing_if = "Option::is_none")]
    pub device_time: Option<OffsetDateTime>,
    /// Name of the operating system, such as `iOS`; absent if the report names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_name: Option<String>,
    /// Version of the operating system, such as `18.1`; absent if the report names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_version: Option<String>,
    /// The machine, such as `iPhone16,1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Name of the crashed process; absent if the report names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// The reason in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// More for a list: exception, signal, top frames.
    pub summary: serde_json::Value,
    /// Counts of its frames, by the source of their names.
    #[sqlx(flatten)]
    pub frames: FrameTotals,
    /// True if an image of the app has no symbols, or only those of a stripped binary. Its frames have the device's
    /// names or none: upload its dSYM.
    pub symbols_missing: bool,
    /// The group of its bug.
    #[sqlx(rename = "group_id")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Uuid>)]
    pub group: Option<GroupId>,
    /// Who tells of the crash: `corpse`, `handler`, `log` or `metric_kit`. Absent for reports of other events.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "handler")]
    pub told_by: Option<String>,
    /// Id of the report of the same crash that is counted instead of this one, because it is better or came first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[sqlx(try_from = "Nullable<ReportIdColumn>")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub same_crash_as: Option<ReportId>,
    /// Weight: the number of reports that it represents and counts as. 1, or more if it was sampled.
    #[sqlx(try_from = "U32")]
    pub weight: u32,
    /// True if its body is not kept: its group had enough bodies of that day. The report counts as any other.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = Option<bool>)]
    pub body_dropped: bool,
    /// Id of the report that was most like it, with a body, when its own body was dropped; absent if that one is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[sqlx(try_from = "Nullable<ReportIdColumn>")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub like_report: Option<ReportId>,
}

impl ReportRow {
    /// Returns true if the report has frames of the app, and all of them are symbolicated.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let FrameTotals { own, own_symbolicated, .. } = self.frames;
        own > 0 && own_symbolicated >= own && !self.symbols_missing
    }
}

/// A page of reports.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportPage {
    /// The reports, newest first.
    pub reports: Vec<ReportRow>,
    /// The position at which the next page begins; `None` on the last one.
    pub next: Option<ReportCursor>,
    /// Set if the page ended before it was full, because comparing the reports took long: all that arrived at this time or
    /// later were compared. The next page goes on from there.
    pub searched_to: Option<OffsetDateTime>,
    /// Set if rows of older reports are in ClickHouse and it does not answer: the list ends with reports that arrived after this
    /// time.
    pub history_unavailable: Option<OffsetDateTime>,
}

impl ReportPage {
    /// Makes a page of these reports; one more than `limit` shows that there are more.
    pub(super) fn from_rows(mut reports: Vec<ReportRow>, limit: usize) -> ReportPage {
        let more = reports.len() > limit;
        reports.truncate(limit);
        let last = reports.last().filter(|_| more);
        let next =
            last.map(|last| ReportCursor::after_report(last.received_at, last.report_id, last.variant));
        ReportPage { reports, next, searched_to: None, history_unavailable: None }
    }

    /// Returns the page if all its reports were there, for work that must not take a part for the whole.
    ///
    /// # Errors
    /// ClickHouse does not answer.
    pub(crate) fn require_history(self) -> Result<ReportPage> {
        match self.history_unavailable {
            None => Ok(self),
            Some(at) => {
                Err(HistoryError::Away(format!("reports that arrived at {at} or before are there")).into())
            }
        }
    }

    /// Makes a page that ends where PostgreSQL has all reports: those that arrived after a time.
    pub(super) fn without_history(
        mut reports: Vec<ReportRow>,
        limit: usize,
        at: OffsetDateTime,
    ) -> ReportPage {
        reports.retain(|report| report.received_at > at);
        let page = ReportPage::from_rows(reports, limit);
        // A next page begins with reports that PostgreSQL has.
        let history_unavailable = page.next.is_none().then_some(at);
        ReportPage { history_unavailable, ..page }
    }
}

/// The columns of a list, of the report `r`.
pub(crate) const REPORT_COLUMNS: &str = "r.report_id, r.variant, r.revision, r.received_at, r.app, r.version, r.build, r.type, \
     r.status, r.device_time, r.os_name, r.os_version, r.model, r.process, r.reason, r.summary, r.frames_total, \
     r.frames_symbolicated, r.frames_device, r.frames_device_app, r.frames_missing, r.frames_own, r.frames_own_symbolicated, r.symbols_missing, r.same_crash_as, r.weight, \
     r.body_kept IS FALSE AS body_dropped, \
     CASE WHEN r.like_report IS NOT NULL AND EXISTS (SELECT FROM report_keys k WHERE k.tenant = r.tenant AND k.report_id = r.like_report \
         AND k.variant = r.like_variant AND k.deleted_at IS NULL) THEN r.like_report END AS like_report, \
     CASE WHEN r.fatal THEN coalesce(r.teller, CASE WHEN r.metric_kit THEN 'metric_kit' ELSE 'handler' END) END AS told_by, \
     coalesce((SELECT g.merged_into FROM groups g WHERE g.tenant = r.tenant AND g.id = r.group_id), r.group_id) AS group_id";
