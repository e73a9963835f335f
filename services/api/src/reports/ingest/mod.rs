//! Reads the reports in a request body. A broken report is refused alone, so that it never refuses the others.
//!
//! Accepted forms are one report as a bare object, an array of reports (what KSCrash's HTTP sink sends), and
//! one report per line (NDJSON). Each may be compressed with gzip or zstd, detected by its magic bytes and not by the
//! headers, or be a part of multipart/form-data, or a file of a zip archive. The symbolizer, not this module, decides whether a report is
//! valid.

mod archive;
mod form;
#[cfg(test)]
mod tests;

pub use form::BodyForm;

use crate::limits::charge::Charge;
use crate::limits::permits::Reservation;
use crate::problem::{Kind, Problem};
use crate::requests::body::{ZIP, unpack_body};
use crate::requests::records::RecordMaker;
use crate::requests::refused::{RefusedElement, RefusedValue, WRONG_APP};
use archive::{FileOutcome, ReportArchive};
use bytes::Bytes;
use form::{content_boundary, first_line_is_complete, is_blank, is_report, split_form};
use unslide_model::ReportId;
use unslide_report::reader::ReportReaders;
use unslide_report::{
    Element, ForeignFormat, LenientElement, ReadError, ReadLimits, Report, Text, foreign_format,
};
use unslide_stream::OutRecord;

/// Reason of a value that is no report.
const NOT_A_REPORT: &str = "not_a_report";
const NOT_JSON: &str = "not_json";
/// Reason of a report over the limit of bytes.
const TOO_LARGE: &str = "too_large";
/// Line of an Apple crash log that names the app.
const IDENTIFIER: &str = "Identifier:";

/// One report of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    pub bytes: Bytes,
    /// Its id; `None` for a text that no reader takes, which will end among the dead letters.
    pub id: Option<ReportId>,
    /// Its app. `None` for a text that no reader takes, or if the sender may send reports of every app and this one names none.
    pub app: Option<ReportApp>,
}

/// The app of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportApp {
    /// The bundle identifier of the app.
    pub id: String,
    /// The marketing version, or else the build. Empty if the report names neither, or if the sender may send reports of
    /// every app: that takes time to find.
    pub version: String,
}

/// A report that can be read.
struct IdentifiedReport {
    id: ReportId,
    app: Option<ReportApp>,
}

/// One report of a request, in the order of the request.
#[derive(Clone, Debug)]
pub enum ReceivedReport {
    /// A report for the symbolizer.
    Accepted(Incoming),
    /// A report that is refused as data.
    Refused(RefusedReport),
}

impl ReceivedReport {
    /// Names the file of an archive in the error of a report that is refused.
    fn name_file(&mut self, name: &str) {
        if let ReceivedReport::Refused(refused) = self {
            refused.detail = format!("{name}: {}", refused.detail);
        }
    }

    /// Returns the record of the report, for the input topic.
    #[must_use]
    pub fn build_record(&self, maker: &RecordMaker<'_>) -> OutRecord {
        match self {
            ReceivedReport::Accepted(report) => {
                let app = report.app.as_ref().map(|app| app.id.as_str());
                maker.make_report(&report.bytes, report.id, app)
            }
            ReceivedReport::Refused(refused) => maker.make_refused(&RefusedValue {
                bytes: &refused.bytes,
                version: refused.version.as_deref(),
                reason: refused.reason,
                detail: &refused.detail,
            }),
        }
    }
}

/// A report that is refused.
#[derive(Clone, Debug)]
pub struct RefusedReport {
    /// Its bytes, as they were sent.
    pub bytes: Bytes,
    /// Its id, if it can be read.
    pub id: Option<ReportId>,
    /// The version of its app, if it can be read.
    pub version: Option<String>,
    /// A stable word, for machines.
    pub reason: &'static str,
    /// The exact error, for people.
    pub detail: String,
    /// Its place in the request, such as `line 2: `. Empty for a request of one report.
    pub place: String,
}

impl RefusedReport {
    /// Returns the problem for a request that is refused because of this report.
    #[must_use]
    pub fn to_problem(&self) -> Problem {
        let RefusedReport { place, detail, reason, .. } = self;
        let (kind, detail) = match *reason {
            WRONG_APP => (Kind::InsufficientScope, format!("{place}{detail}")),
            TOO_LARGE => (Kind::TooLarge, format!("{place}report_bytes: {detail} ({reason})")),
            NOT_A_REPORT => (Kind::NotAReport, format!("{place}{detail} ({reason})")),
            _ => (Kind::InvalidReport, format!("{place}{detail} ({reason})")),
        };
        Problem::new(kind, detail)
    }
}

/// Returns the refused reports of a request, for its answer.
#[must_use]
pub fn list_refused(reports: &[ReceivedReport]) -> Vec<RefusedElement> {
    let mut listed = Vec::new();
    for (index, report) in reports.iter().enumerate() {
        if let ReceivedReport::Refused(refused) = report {
            let (id, reason) = (refused.id.map(|id| id.to_string()), refused.reason.to_owned());
            listed.push(RefusedElement { index, id, reason, detail: refused.detail.clone() });
        }
    }
    listed
}

/// Limits of a request body.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of all reports together, unpacked.
    pub unpacked: u64,
    pub reports: usize,
    pub report: ReadLimits,
}

/// Returns the problem with reports of an app, if there is one.
pub type RefuseApp<'s> = dyn Fn(Option<&str>) -> Option<String> + 's;

/// Kinds of reports that a request may hold.
#[derive(Clone, Copy)]
pub struct ReportScope<'s> {
    /// Returns why the sender may not send reports of an app, which is None if the report names none. None for a sender
    /// that may send reports of every app.
    pub refuse_app: Option<&'s RefuseApp<'s>>,
    /// Readers of formats other than KSCrash's JSON.
    pub readers: &'s ReportReaders,
}

/// Memory and cost units that reading takes.
pub struct ReadBudget {
    /// Bytes that the request holds in memory.
    pub reserved: Reservation,
    /// Units of the tenant's rate.
    pub charge: Charge,
}

/// Reads all reports of a body, also in the formats of readers. Takes CPU time: call it on the CPU pool.
///
/// # Errors
/// [`Kind::InvalidBody`] for broken packaging, [`Kind::InvalidReport`] for an empty body, [`Kind::TooLarge`] past a limit
/// of the whole body; or no bytes or units are left.
pub fn read_reports(
    body: &Bytes,
    form: &BodyForm,
    bounds: &Bounds,
    scope: &ReportScope<'_>,
    budget: &mut ReadBudget,
) -> Result<Vec<ReceivedReport>, Problem> {
    let mut reading = Reading { reports: Vec::new(), lines: 0, left: bounds.unpacked, bounds, scope, budget };
    let body = reading.unpack_part(body)?;
    if body.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0) {
        return Err(no_report());
    }
    let boundary = content_boundary(&body).or(match form {
        BodyForm::Parts(boundary) => Some(boundary.as_str()),
        BodyForm::Lines | BodyForm::Any => None,
    });
    let Some(boundary) = boundary else {
        reading.read_packaged(&body, matches!(form, BodyForm::Lines), "")?;
        return Ok(reading.reports);
    };
    // The parts are copies, so they need their own reservation.
    reading.budget.reserved.reserve_more(body.len() as u64)?;
    for part in split_form(body.clone(), boundary, bounds.reports)? {
        let bytes = reading.unpack_part(&part.bytes)?;
        reading.read_packaged(&bytes, false, &format!("part {}: ", part.name))?;
    }
    Ok(reading.reports)
}

/// Returns the problem for a body without a report.
#[must_use]
pub fn no_report() -> Problem {
    Problem::new(Kind::InvalidReport, "the body has no report")
}

fn too_many(most: usize) -> Problem {
    Problem::new(Kind::TooLarge, format!("more than {most} reports; send them in several requests"))
}

/// Returns the refusal of a document of which no line and no element is a report. Returns `None` for any other document.
fn refuse_once(document: &Bytes, unread: &[ReceivedReport], limits: &ReadLimits) -> Option<RefusedReport> {
    let refused: Vec<&RefusedReport> = unread
        .iter()
        .filter_map(|report| match report {
            ReceivedReport::Refused(refused) => Some(refused),
            ReceivedReport::Accepted(_) => None,
        })
        .collect();
    let is_no_report = |refused: &&RefusedReport| matches!(refused.reason, NOT_JSON | NOT_A_REPORT);
    let (first, others) = refused.split_first()?;
    if others.is_empty() || refused.len() < unread.len() || !refused.iter().all(is_no_report) {
        return None;
    }
    let count = others.len();
    let detail = format!("{}; this is no file of reports: {count} more could not be read", first.detail);
    let bytes = if document.len() <= limits.max_bytes { document } else { &first.bytes };
    Some(RefusedReport { bytes: bytes.clone(), detail, ..(*first).clone() })
}

/// Reason why a report is refused.
enum Refusal {
    Unreadable(ReadError),
    WrongApp { id: ReportId, version: Option<String>, detail: String },
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Refusal {
        Refusal::Unreadable(error)
    }
}

struct Reading<'b> {
    reports: Vec<ReceivedReport>,
    /// Number of lines that are not empty, whether they contain reports or not.
    lines: usize,
    /// Bytes that may still be unpacked.
    left: u64,
    bounds: &'b Bounds,
    scope: &'b ReportScope<'b>,
    budget: &'b mut ReadBudget,
}

impl Reading<'_> {
    fn unpack_part(&mut self, bytes: &Bytes) -> Result<Bytes, Problem> {
        let bytes = unpack_body(bytes, self.left, &mut self.budget.reserved, &mut self.budget.charge)?;
        self.left = self.left.saturating_sub(bytes.len() as u64);
        Ok(bytes)
    }

    /// Reads a zip archive, or else a document.
    fn read_packaged(&mut self, bytes: &Bytes, has_lines: bool, place: &str) -> Result<(), Problem> {
        if !bytes.starts_with(ZIP) {
            return self.read_document(bytes, has_lines, place);
        }
        let mut archive = ReportArchive::open(bytes)?;
        for file in std::mem::take(&mut archive.files) {
            let before = self.reports.len();
            match archive.unpack_file(&file, self.left, self.budget)? {
                FileOutcome::Unpacked(unpacked) => {
                    self.left = self.left.saturating_sub(unpacked.len() as u64);
                    // A report in an archive may be packed itself.
                    let unpacked = self.unpack_part(&unpacked)?;
                    self.read_document(&unpacked, false, place)?;
                }
                FileOutcome::Refused { .. } if before == self.bounds.reports => return Err(too_many(before)),
                FileOutcome::Refused { reason, detail } => {
                    let (bytes, place) = (Bytes::new(), place.to_owned());
                    let refused = RefusedReport { bytes, id: None, version: None, reason, detail, place };
                    self.reports.push(ReceivedReport::Refused(refused));
                }
            }
            for report in self.reports.iter_mut().skip(before) {
                report.name_file(&file.name);
            }
        }
        Ok(())
    }

    /// Reads one JSON text, or one on each line. A document without any report is refused once.
    fn read_document(&mut self, document: &Bytes, has_lines: bool, place: &str) -> Result<(), Problem> {
        let before = self.reports.len();
        self.read_texts(document, has_lines, place)?;
        let unread = self.reports.get(before..).unwrap_or_default();
        if let Some(refused) = refuse_once(document, unread, &self.bounds.report) {
            self.reports.truncate(before);
            self.reports.push(ReceivedReport::Refused(refused));
        }
        Ok(())
    }

    fn read_texts(&mut self, document: &Bytes, has_lines: bool, place: &str) -> Result<(), Problem> {
        let whole = ReadLimits {
            max_bytes: usize::try_from(self.bounds.unpacked).unwrap_or(usize::MAX),
            ..self.bounds.report
        };
        if !has_lines && !self.is_of_lines(document, &whole) {
            return self.read_record(document, &whole, place);
        }
        for (number, line) in document.split(|byte| *byte == b'\n').enumerate() {
            if is_blank(line) {
                continue;
            }
            if self.lines == self.bounds.reports {
                return Err(too_many(self.bounds.reports));
            }
            self.lines += 1;
            self.read_record(&document.slice_ref(line), &whole, &format!("{place}line {}: ", number + 1))?;
        }
        Ok(())
    }

    /// Returns true if a document is no JSON text as a whole, and its first line is one, or a line is a report.
    fn is_of_lines(&self, document: &[u8], whole: &ReadLimits) -> bool {
        let readers = self.scope.readers;
        let is_one = readers.split_record(document, whole).is_ok_and(|elements| {
            !matches!(elements.as_slice(), [Element::Report(bytes)] if !is_report(bytes, readers, whole))
        });
        let limits = &self.bounds.report;
        !is_one
            && (first_line_is_complete(document, readers, limits)
                || readers.has_report_lines(document, limits))
    }

    /// Reads one JSON text: a report, or an array of reports.
    fn read_record(&mut self, record: &Bytes, limits: &ReadLimits, place: &str) -> Result<(), Problem> {
        let most = self.bounds.reports;
        let elements = match self.scope.readers.split_record_leniently(record, limits) {
            Ok(elements) => elements,
            Err(ReadError::TooMany { .. }) => return Err(too_many(most)),
            Err(error) => return Err(Problem::new(Kind::TooLarge, error.to_string())),
        };
        if self.reports.len() + elements.len() > most {
            return Err(too_many(most));
        }
        let has_many = elements.len() > 1 || record.trim_ascii_start().starts_with(b"[");
        for (index, element) in elements.iter().enumerate() {
            let place = if has_many { format!("{place}report {index}: ") } else { place.to_owned() };
            match self.split_element(element) {
                Some(parts) if self.reports.len() + parts.len() > most => return Err(too_many(most)),
                Some(parts) => self.read_parts(parts, &place)?,
                None => {
                    let report = self.read_element(record, element, place);
                    self.reports.push(report);
                }
            }
        }
        Ok(())
    }

    /// Returns the documents of an element that holds several reports.
    fn split_element(&self, element: &LenientElement<'_>) -> Option<Vec<Vec<u8>>> {
        let LenientElement::Whole(Element::Report(bytes)) = element else { return None };
        self.scope.readers.split_document(bytes, &self.bounds.report)
    }

    /// Reads the documents of an element that holds several reports. They are copies, so they need their own reservation.
    fn read_parts(&mut self, parts: Vec<Vec<u8>>, place: &str) -> Result<(), Problem> {
        let bytes: usize = parts.iter().map(Vec::len).sum();
        self.budget.reserved.reserve_more(bytes as u64)?;
        for (number, part) in parts.into_iter().enumerate() {
            let part = Bytes::from(part);
            let report = self.read_report(&part, &part, format!("{place}diagnostic {number}: "));
            self.reports.push(report);
        }
        Ok(())
    }

    fn read_element(&self, record: &Bytes, element: &LenientElement<'_>, place: String) -> ReceivedReport {
        let (bytes, reason, detail) = match element {
            LenientElement::Whole(Element::Report(bytes)) => {
                return self.read_report(&record.slice_ref(bytes), bytes, place);
            }
            LenientElement::Whole(Element::Text(text)) => return self.read_text(*text, place),
            LenientElement::Whole(Element::Other { bytes, found }) => {
                (bytes, NOT_A_REPORT, format!("a report is an object, this is {found}"))
            }
            LenientElement::Broken { bytes, error } => match foreign_format(bytes) {
                Some(format @ ForeignFormat::AppleCrash) => (bytes, NOT_A_REPORT, format.to_string()),
                _ => (bytes, error.reason(), error.to_string()),
            },
        };
        let bytes = record.slice_ref(bytes);
        ReceivedReport::Refused(RefusedReport { bytes, id: None, version: None, reason, detail, place })
    }

    /// Reads the document of a record: the record itself, or the text of a string.
    fn read_report(&self, bytes: &Bytes, document: &[u8], place: String) -> ReceivedReport {
        let bytes = bytes.clone();
        let (id, version, reason, detail) = match self.identify_report(document) {
            Ok(IdentifiedReport { id, app }) => {
                return ReceivedReport::Accepted(Incoming { bytes, id: Some(id), app });
            }
            Err(Refusal::Unreadable(error)) => (None, None, error.reason(), error.to_string()),
            Err(Refusal::WrongApp { id, version, detail }) => (Some(id), version, WRONG_APP, detail),
        };
        ReceivedReport::Refused(RefusedReport { bytes, id, version, reason, detail, place })
    }

    /// Returns the id of a report and its app, or why it is refused.
    fn identify_report(&self, document: &[u8]) -> Result<IdentifiedReport, Refusal> {
        let limits = &self.bounds.report;
        let document = self.scope.readers.open(document, limits)?;
        let report = Report::read_event(document.json(), limits)?;
        let Some(refuse_app) = self.scope.refuse_app else {
            let app = report.app().map(|id| ReportApp { id, version: String::new() });
            return Ok(IdentifiedReport { id: report.id, app });
        };
        let summary = report.summary();
        if let Some(detail) = refuse_app(summary.app.as_deref()) {
            return Err(Refusal::WrongApp { id: report.id, version: summary.version, detail });
        }
        let version = summary.version.or(summary.build).unwrap_or_default();
        let app = ReportApp { id: summary.app.unwrap_or_default(), version };
        Ok(IdentifiedReport { id: report.id, app: Some(app) })
    }

    /// Reads a log that the device rendered. If no reader takes it, it cannot be symbolicated and goes to the dead letters.
    /// Its header names the app.
    fn read_text(&self, text: Text<'_>, place: String) -> ReceivedReport {
        let bytes: Bytes = [b"\"", text.raw(), b"\""].concat().into();
        let log = text.decode_bytes();
        if self.scope.readers.find(&log).is_some() {
            return self.read_report(&bytes, &log, place);
        }
        let Some(refuse_app) = self.scope.refuse_app else {
            return ReceivedReport::Accepted(Incoming { id: None, app: None, bytes });
        };
        let decoded = text.decode();
        let app = decoded.lines().find_map(|line| line.trim_start().strip_prefix(IDENTIFIER)).map(str::trim);
        match refuse_app(app) {
            Some(detail) => ReceivedReport::Refused(RefusedReport {
                bytes,
                id: None,
                version: None,
                reason: WRONG_APP,
                detail,
                place,
            }),
            None => ReceivedReport::Accepted(Incoming { id: None, app: None, bytes }),
        }
    }
}
