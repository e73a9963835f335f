//! Answers in the ledger: requests that ended without a new revision.

use crate::enriched::Unreadable;
use prost::Message;
use time::OffsetDateTime;
use unslide_model::{ReportId, TenantId};
use unslide_proto::headers;
use unslide_proto::report::{LedgerRecord, Outcome, ledger_record::Entry};
use unslide_store::requests::Answer;
use unslide_stream::Record;

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answered {
    /// Whose report.
    pub tenant: TenantId,
    /// Which report.
    pub report_id: ReportId,
    /// Which of the reports with this id.
    pub variant: u32,
    /// The revision that had been asked for.
    pub revision: u32,
    /// True where the symbols made nothing better, false where the report is gone.
    pub unchanged: bool,
    /// When the worker said so, in microseconds since the Unix epoch.
    pub at_micros: i64,
}

impl Answered {
    /// What the store calls it.
    pub fn answer(&self) -> Answer {
        if self.unchanged { Answer::Unchanged } else { Answer::Gone }
    }

    /// When the worker said so.
    pub fn given_at(&self) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.at_micros) * 1_000)
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}

/// Reads a record of the ledger; `None` for one that answers no request.
pub fn read(record: &Record) -> Result<Option<Answered>, Unreadable> {
    let unreadable = |detail: String| Unreadable { reason: "not_ledger", detail };
    // A program of before says nothing of variants; its answers are of the first.
    let variant = record.headers.number(headers::VARIANT).unwrap_or(0);
    let value = record.value.clone().ok_or_else(|| unreadable("the record has no value".to_owned()))?;
    let record = LedgerRecord::decode(value).map_err(|e| unreadable(e.to_string()))?;
    let Some(Entry::Terminal(terminal)) = record.entry else { return Ok(None) };
    let unchanged = match terminal.outcome() {
        Outcome::Unchanged => true,
        Outcome::SourceGone | Outcome::DroppedDeleted => false,
        _ => return Ok(None),
    };
    // A report that was dropped before it was read has no id, and nobody asked for it.
    let Ok(id) = <[u8; 16]>::try_from(terminal.report_id.as_ref()) else { return Ok(None) };
    let tenant = TenantId::new(&terminal.tenant).map_err(|e| unreadable(e.to_string()))?;
    Ok(Some(Answered {
        tenant,
        report_id: ReportId(id),
        variant,
        revision: terminal.revision,
        unchanged,
        at_micros: record.at_micros,
    }))
}
