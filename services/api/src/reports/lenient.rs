//! Reads the reports in a request body and leaves those that are broken out, so that one bad report never refuses the
//! others. The content decides what a body is; headers only help.

use crate::http::problem::{Kind, Problem};
use crate::limits::charge::Charge;
use crate::limits::permits::Reservation;
use crate::reports::ingest::{Bounds, Incoming, first_line_is_complete, is_blank, is_report, too_many};
use crate::requests::body::unpack_body;
use crate::uploads::multipart;
use bytes::Bytes;
use futures::stream;
use std::convert::Infallible;
use unslide_model::ReportId;
use unslide_report::reader::ReportReaders;
use unslide_report::{
    Element, ForeignFormat, LenientElement, ReadError, ReadLimits, Report, Text, foreign_format,
};

/// Reason of a report of an app that the key does not have.
const WRONG_APP: &str = "wrong_app";
/// Reason of a value that is no report.
const NOT_A_REPORT: &str = "not_a_report";
/// Longest line, in bytes, that is taken for the boundary of a form (RFC 2046 §5.1.1).
const LONGEST_BOUNDARY: usize = 70;
/// Line of an Apple crash log that names the app.
const IDENTIFIER: &str = "Identifier:";

/// One report of a request, in the order of the request.
#[derive(Clone, Debug)]
pub enum LenientReport {
    /// A report for the symbolizer.
    Accepted(Incoming),
    /// A report that is refused as data.
    Refused(RefusedReport),
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
}

/// Memory and cost units that reading takes.
pub struct ReadBudget {
    /// Bytes that the request holds in memory.
    pub reserved: Reservation,
    /// Units of the tenant's rate.
    pub charge: Charge,
}

/// Reads all reports of a body, also in the formats of readers. `boundary` is the one that the headers name, if any.
/// `refuse_app` returns why the sender may not send reports of an app, which is None if the report names none. Takes CPU
/// time: call it on the CPU pool.
///
/// # Errors
/// [`Kind::InvalidBody`] for broken packaging or a body without a report, [`Kind::TooLarge`] past a limit of the whole
/// body; or no bytes or units are left.
pub fn read_leniently(
    body: &Bytes,
    boundary: Option<&str>,
    bounds: &Bounds,
    readers: &ReportReaders,
    refuse_app: &dyn Fn(Option<&str>) -> Option<String>,
    budget: &mut ReadBudget,
) -> Result<Vec<LenientReport>, Problem> {
    let mut reading =
        Reading { reports: Vec::new(), left: bounds.unpacked, bounds, readers, refuse_app, budget };
    let body = reading.unpack_part(body)?;
    match content_boundary(&body).or(boundary) {
        Some(boundary) => {
            // The parts are copies, so they need their own reservation.
            reading.budget.reserved.reserve_more(body.len() as u64)?;
            for part in split_form(body.clone(), boundary, bounds.reports)? {
                let part = reading.unpack_part(&part)?;
                reading.read_document(&part)?;
            }
        }
        None if body.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0) => {
            return Err(Problem::new(Kind::InvalidBody, "the body has no report"));
        }
        None => reading.read_document(&body)?,
    }
    Ok(reading.reports)
}

/// Returns the boundary of a body that begins like a form: its first line after two dashes.
fn content_boundary(body: &[u8]) -> Option<&str> {
    let line = body.strip_prefix(b"--")?.split(|byte| *byte == b'\n').next()?.trim_ascii_end();
    let fits = (1..=LONGEST_BOUNDARY).contains(&line.len()) && line.iter().all(u8::is_ascii_graphic);
    std::str::from_utf8(line).ok().filter(|_| fits)
}

/// Returns the parts that hold reports: files, JSON, and all that begin like a report or like packed data. Other fields of
/// a form describe the sender. Returns at most `most` parts.
fn split_form(body: Bytes, boundary: &str, most: usize) -> Result<Vec<Bytes>, Problem> {
    let malformed = |error| multipart::to_problem(error, Kind::InvalidBody);
    let mut parts = multer::Multipart::new(stream::iter([Ok::<_, Infallible>(body)]), boundary);
    let reading = async {
        let mut found = Vec::new();
        while let Some(field) = parts.next_field().await.map_err(malformed)? {
            let json = field.content_type().is_some_and(|kind| kind.essence_str() == "application/json");
            let is_file = json || field.file_name().is_some();
            let bytes = field.bytes().await.map_err(malformed)?;
            let first = bytes.trim_ascii_start().first().copied();
            if bytes.is_empty() || !(is_file || matches!(first, Some(b'{' | b'[' | 0x1f | 0x28))) {
                continue;
            }
            if found.len() == most {
                return Err(too_many(most));
            }
            found.push(bytes);
        }
        Ok(found)
    };
    // The whole body is in memory, so this never waits.
    futures::executor::block_on(reading)
}

struct Reading<'b> {
    reports: Vec<LenientReport>,
    /// Bytes that may still be unpacked.
    left: u64,
    bounds: &'b Bounds,
    /// Readers of formats other than KSCrash's JSON.
    readers: &'b ReportReaders,
    refuse_app: &'b dyn Fn(Option<&str>) -> Option<String>,
    budget: &'b mut ReadBudget,
}

impl Reading<'_> {
    fn unpack_part(&mut self, bytes: &Bytes) -> Result<Bytes, Problem> {
        let bytes = unpack_body(bytes, self.left, &mut self.budget.reserved, &mut self.budget.charge)?;
        self.left = self.left.saturating_sub(bytes.len() as u64);
        Ok(bytes)
    }

    /// Reads one JSON text, or one on each line.
    fn read_document(&mut self, document: &Bytes) -> Result<(), Problem> {
        let whole = ReadLimits {
            max_bytes: usize::try_from(self.bounds.unpacked).unwrap_or(usize::MAX),
            ..self.bounds.report
        };
        let is_one = self.readers.split_record(document, &whole).is_ok_and(|elements| {
            !matches!(elements.as_slice(), [Element::Report(bytes)] if !is_report(bytes, self.readers, &whole))
        });
        if is_one || !first_line_is_complete(document, self.readers, &self.bounds.report) {
            return self.read_record(document, &whole);
        }
        for line in document.split(|byte| *byte == b'\n').filter(|line| !is_blank(line)) {
            self.read_record(&document.slice_ref(line), &whole)?;
        }
        Ok(())
    }

    fn read_record(&mut self, record: &Bytes, limits: &ReadLimits) -> Result<(), Problem> {
        let most = self.bounds.reports;
        let elements = match self.readers.split_record_leniently(record, limits) {
            Ok(elements) => elements,
            Err(ReadError::TooMany { .. }) => return Err(too_many(most)),
            Err(error) => return Err(Problem::new(Kind::TooLarge, error.to_string())),
        };
        if self.reports.len() + elements.len() > most {
            return Err(too_many(most));
        }
        for element in elements {
            match self.split_element(&element) {
                Some(parts) if self.reports.len() + parts.len() > most => return Err(too_many(most)),
                Some(parts) => self.read_parts(parts)?,
                None => {
                    let report = self.read_element(record, &element);
                    self.reports.push(report);
                }
            }
        }
        Ok(())
    }

    /// Returns the documents of an element that holds several reports.
    fn split_element(&self, element: &LenientElement<'_>) -> Option<Vec<Vec<u8>>> {
        let LenientElement::Whole(Element::Report(bytes)) = element else { return None };
        self.readers.split_document(bytes, &self.bounds.report)
    }

    /// Reads the documents of an element that holds several reports. They are copies, so they need their own reservation.
    fn read_parts(&mut self, parts: Vec<Vec<u8>>) -> Result<(), Problem> {
        let bytes: usize = parts.iter().map(Vec::len).sum();
        self.budget.reserved.reserve_more(bytes as u64)?;
        for part in parts {
            let report = self.read_report(&Bytes::from(part));
            self.reports.push(report);
        }
        Ok(())
    }

    fn read_element(&self, record: &Bytes, element: &LenientElement<'_>) -> LenientReport {
        let refused = |bytes: &[u8], reason, detail| {
            let bytes = record.slice_ref(bytes);
            LenientReport::Refused(RefusedReport { bytes, id: None, version: None, reason, detail })
        };
        match element {
            LenientElement::Whole(Element::Report(bytes)) => self.read_report(&record.slice_ref(bytes)),
            LenientElement::Whole(Element::Text(text)) => self.read_text(*text),
            LenientElement::Whole(Element::Other { bytes, found }) => {
                refused(bytes, NOT_A_REPORT, format!("a report is an object, this is {found}"))
            }
            LenientElement::Broken { bytes, error } => match foreign_format(bytes) {
                Some(format @ ForeignFormat::AppleCrash) => refused(bytes, NOT_A_REPORT, format.to_string()),
                _ => refused(bytes, error.reason(), error.to_string()),
            },
        }
    }

    fn read_report(&self, bytes: &Bytes) -> LenientReport {
        self.read_log(bytes, bytes)
    }

    /// Reads the document of a record: the record itself, or the text of a string.
    fn read_log(&self, bytes: &Bytes, document: &[u8]) -> LenientReport {
        let refused = |id, version, reason, detail| {
            LenientReport::Refused(RefusedReport { bytes: bytes.clone(), id, version, reason, detail })
        };
        let document = match self.readers.open(document, &self.bounds.report) {
            Ok(document) => document,
            Err(error) => return refused(None, None, error.reason(), error.to_string()),
        };
        let report = match Report::read_event(document.json(), &self.bounds.report) {
            Ok(report) => report,
            Err(error) => return refused(None, None, error.reason(), error.to_string()),
        };
        let summary = report.summary();
        match (self.refuse_app)(summary.app.as_deref()) {
            Some(detail) => refused(Some(report.id), summary.version, WRONG_APP, detail),
            None => LenientReport::Accepted(Incoming { id: Some(report.id), bytes: bytes.clone() }),
        }
    }

    /// Reads a log that the device rendered. Its header names the app.
    fn read_text(&self, text: Text<'_>) -> LenientReport {
        let bytes: Bytes = [b"\"", text.raw(), b"\""].concat().into();
        let decoded = text.decode();
        let log = text.decode_bytes();
        if self.readers.find(&log).is_some() {
            return self.read_log(&bytes, &log);
        }
        let app = decoded.lines().find_map(|line| line.trim_start().strip_prefix(IDENTIFIER)).map(str::trim);
        match (self.refuse_app)(app) {
            Some(detail) => LenientReport::Refused(RefusedReport {
                bytes,
                id: None,
                version: None,
                reason: WRONG_APP,
                detail,
            }),
            None => LenientReport::Accepted(Incoming { id: None, bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::charge::tests::charge;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;
    use unslide_report::reader::{DocumentText, ReportReader, TranslatedReport};

    const BOUNDS: Bounds = Bounds {
        unpacked: 10_000,
        reports: 4,
        report: ReadLimits { max_bytes: 2_000, max_depth: 16, max_items: 1_000 },
    };
    const A: &str = r#"{"report":{"id":"11111111-1111-1111-1111-111111111111"},"system":{"CFBundleIdentifier":"com.a"},"crash":{"error":{}}}"#;
    const B: &str = r#"{"report":{"id":"22222222-2222-2222-2222-222222222222"},"system":{"CFBundleIdentifier":"com.b"},"crash":{"threads":[]}}"#;

    /// The line before a report in a format of these tests.
    const MARK: &str = "{\"mark\":1}\n";
    const MARKED: ReportReader = ReportReader {
        name: "marked",
        recognizes: |document| document.starts_with(MARK.trim_end().as_bytes()),
        translate: |document, limits| {
            let json = document.get(MARK.len()..).unwrap_or_default().to_vec();
            Report::read(&json, limits)?;
            Ok(TranslatedReport { json, ..TranslatedReport::default() })
        },
        parts: None,
    };

    /// A format that is text.
    const LOG: ReportReader = ReportReader {
        name: "log",
        recognizes: |document| document.starts_with(b"Log"),
        translate: |_, _| {
            let text = Some(DocumentText::default());
            Ok(TranslatedReport { json: A.into(), text, ..TranslatedReport::default() })
        },
        parts: None,
    };
    /// A document with two reports.
    const SEVERAL: &str = "{\"several\":2}";
    const BOTH: ReportReader = ReportReader {
        name: "both",
        recognizes: |_| false,
        translate: |_, _| Ok(TranslatedReport::default()),
        parts: Some(|document, _| (document == SEVERAL.as_bytes()).then(|| vec![A.into(), B.into()])),
    };

    fn read(body: impl Into<Bytes>, app: &str) -> Result<Vec<String>, Kind> {
        let (reserved, _other) = crate::limits::permits::tests::reservation(1 << 20);
        let mut budget = ReadBudget { reserved, charge: charge(1_000) };
        let refuse = |found: Option<&str>| (found != Some(app)).then(|| format!("{found:?}"));
        let readers = ReportReaders::new([MARKED, LOG, BOTH]);
        let read = read_leniently(&body.into(), None, &BOUNDS, &readers, &refuse, &mut budget);
        let word = |report: LenientReport| match report {
            LenientReport::Accepted(report) => String::from_utf8(report.bytes.to_vec()).unwrap(),
            LenientReport::Refused(refused) => refused.reason.to_owned(),
        };
        read.map(|reports| reports.into_iter().map(word).collect()).map_err(|problem| problem.kind())
    }

    #[test]
    fn one_bad_report_refuses_no_other() {
        let log = r#""Incident: 1\nIdentifier:   com.a\n""#;
        for (body, wanted) in [
            (format!("[{A}, {{\"a\": }}, {A}]"), vec![A, "not_json", A]),
            (format!("[{A},{B},7,{A}]"), vec![A, "wrong_app", "not_a_report", A]),
            (format!("[{log},\"no app\",{{}}]"), vec![log, "wrong_app", "not_a_report"]),
            (format!("{A}\n{{\"a\" 1}}\n\0\0\n[{A}]\n"), vec![A, "not_json", A]),
            (format!("[{A},{{\"report\":{{\"id\""), vec![A, "truncated"]),
            ("{\"report\":".to_owned(), vec!["truncated"]),
            ("[]".to_owned(), vec![]),
        ] {
            assert_eq!(read(body.clone(), "com.a").unwrap(), wanted, "{body}");
        }
        let large = format!("[{A},{{\"crash\":{{\"error\":{{}}}},\"a\":\"{}\"}}]", "x".repeat(2_000));
        assert_eq!(read(large, "com.a").unwrap(), [A, "too_large"]);
    }

    #[test]
    fn a_document_of_another_format_is_one_report() {
        let marked = format!("{MARK}{A}\n");
        assert_eq!(read(marked.clone(), "com.a").unwrap(), std::slice::from_ref(&marked));
        assert_eq!(read(marked.clone(), "com.b").unwrap(), ["wrong_app"]);
        assert_eq!(read(MARK, "com.a").unwrap(), ["truncated"], "without its report");
        let part = "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n";
        let form = format!("{part}{marked}\r\n{part}{A}\r\n--b--\r\n");
        assert_eq!(read(form, "com.a").unwrap(), [marked, A.to_owned()]);
        assert_eq!(read("Incident Identifier: 1\nIdentifier: com.a\n", "com.a").unwrap(), ["not_a_report"]);
    }

    #[test]
    fn a_text_is_one_report_alone_and_in_an_array() {
        assert_eq!(read("Log\nof a crash\n", "com.a").unwrap(), ["Log\nof a crash\n"]);
        assert_eq!(read("Log\n", "com.b").unwrap(), ["wrong_app"]);
        let log = r#""Log\nof a crash""#;
        assert_eq!(read(format!("[{log},{A}]"), "com.a").unwrap(), [log, A]);
    }

    #[test]
    fn a_document_of_several_reports_is_a_record_of_each() {
        assert_eq!(read(SEVERAL, "com.a").unwrap(), [A, "wrong_app"]);
        assert_eq!(read(format!("[{B},{SEVERAL}]"), "com.b").unwrap(), [B, "wrong_app", B]);
        assert_eq!(read(format!("[{A},{A},{A},{SEVERAL}]"), "com.a"), Err(Kind::TooLarge));
    }

    #[test]
    fn the_content_decides_what_a_body_is() {
        let mut form = Vec::new();
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(A.as_bytes()).unwrap();
        for (head, data) in [
            ("name=\"any name\"", format!("[{A}]").into_bytes()),
            ("name=\"x\"; filename=\"r.gz\"", packed.finish().unwrap()),
            ("name=\"sender\"", b"an app".to_vec()),
        ] {
            form.extend(format!("--b0-\r\nContent-Disposition: form-data; {head}\r\n\r\n").bytes());
            form.extend(data);
            form.extend(b"\r\n");
        }
        let cut = form.clone();
        form.extend(b"--b0---\r\n");
        assert_eq!(read(form.clone(), "com.a").unwrap(), [A, A]);
        assert_eq!(read(zstd::encode_all(&form[..], 3).unwrap(), "com.a").unwrap(), [A, A]);
        assert_eq!(read(cut, "com.a"), Err(Kind::InvalidBody));
        assert_eq!(read(" \n\0", "com.a"), Err(Kind::InvalidBody));
        assert_eq!(read(format!("[{A},{A},{A},{A},{A}]"), "com.a"), Err(Kind::TooLarge));
        assert_eq!(read([&b"\x1f\x8b"[..], &[0; 9]].concat(), "com.a"), Err(Kind::InvalidBody));
    }
}
