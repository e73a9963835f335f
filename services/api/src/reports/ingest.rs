//! Reads the reports in a request body.
//!
//! Accepted forms are one report as a bare object, an array of reports (what KSCrash's HTTP sink sends), and
//! one report per line (NDJSON). Each may be compressed with gzip or zstd, detected by its magic bytes and not by the
//! headers, or be a part of multipart/form-data. The symbolizer, not this module, decides whether a report is
//! valid.

use crate::http::problem::{Kind, Problem};
use crate::limits::charge::Charge;
use crate::limits::permits::Reservation;
use crate::requests::body::unpack_body;
use crate::uploads::multipart;
use bytes::Bytes;
use futures::stream;
use unslide_model::ReportId;
use unslide_report::reader::ReportReaders;
use unslide_report::{Element, ForeignFormat, ReadError, ReadLimits, Report, foreign_format};

/// One report of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incoming {
    pub bytes: Bytes,
    /// Its id; `None` for a text, which will end among the dead letters.
    pub id: Option<ReportId>,
}

/// Limits of a request body.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of all reports together, unpacked.
    pub unpacked: u64,
    pub reports: usize,
    pub report: ReadLimits,
}

/// Kinds of reports that a request may hold.
#[derive(Clone, Copy, Debug)]
pub struct ReportScope<'s> {
    /// The only app that the key is valid for, if it is restricted to one.
    pub app: Option<&'s str>,
    /// Readers of formats other than KSCrash's JSON.
    pub readers: &'s ReportReaders,
}

/// Form of a body, according to its content type.
#[derive(Clone, Debug)]
pub enum BodyForm {
    Parts(String),
    /// One JSON text per line.
    Lines,
    /// Any form; the content decides.
    Any,
}

/// Reads all reports of a body; reserves bytes and takes cost units for what it unpacks. If the key is
/// restricted to one app, all reports must be of that app. Takes CPU time: call it on the CPU pool.
///
/// # Errors
/// [`Kind::InvalidReport`] or [`Kind::NotAReport`] naming the report and the place in it,
/// [`Kind::InvalidBody`] for broken packaging, [`Kind::TooLarge`] past a limit, [`Kind::InsufficientScope`]
/// for another app's report; or no bytes or units are left.
pub fn read_reports(
    body: &Bytes,
    form: &BodyForm,
    bounds: &Bounds,
    scope: &ReportScope<'_>,
    reserved: &mut Reservation,
    charge: &mut Charge,
) -> Result<Vec<Incoming>, Problem> {
    let mut reading =
        Reading { reports: Vec::new(), lines: 0, left: bounds.unpacked, bounds, scope, reserved, charge };
    match form {
        BodyForm::Parts(boundary) => {
            let body = reading.unpack_bytes(body)?;
            // The parts are copies, so they need their own reservation.
            reading.reserved.reserve_more(body.len() as u64)?;
            for (name, part) in split_parts(body, boundary, bounds.reports)? {
                reading.read_document(&part, false, &format!("part {name}: "))?;
            }
        }
        BodyForm::Lines => reading.read_document(body, true, "")?,
        BodyForm::Any => reading.read_document(body, false, "")?,
    }
    if reading.reports.is_empty() {
        return Err(Problem::new(Kind::InvalidReport, "the body has no report"));
    }
    Ok(reading.reports)
}

struct Reading<'b> {
    reports: Vec<Incoming>,
    /// Number of lines that are not empty, whether they contain reports or not.
    lines: usize,
    /// Bytes that may still be unpacked.
    left: u64,
    bounds: &'b Bounds,
    scope: &'b ReportScope<'b>,
    reserved: &'b mut Reservation,
    charge: &'b mut Charge,
}

impl Reading<'_> {
    fn unpack_bytes(&mut self, bytes: &Bytes) -> Result<Bytes, Problem> {
        let bytes = unpack_body(bytes, self.left, self.reserved, self.charge)?;
        self.left = self.left.saturating_sub(bytes.len() as u64);
        Ok(bytes)
    }

    fn read_document(&mut self, packed: &Bytes, lines: bool, place: &str) -> Result<(), Problem> {
        let bytes = self.unpack_bytes(packed)?;
        if lines {
            return self.read_lines(&bytes, place);
        }
        match self.read_record(&bytes, self.bounds.unpacked, place) {
            // A reader of one value finds more text after a complete value if the body has lines.
            Err(_) if first_line_is_complete(&bytes, self.scope.readers, &self.bounds.report) => {
                self.read_lines(&bytes, place)
            }
            outcome => outcome,
        }
    }

    fn read_lines(&mut self, bytes: &Bytes, place: &str) -> Result<(), Problem> {
        for (number, line) in bytes.split(|b| *b == b'\n').enumerate() {
            if is_blank(line) {
                continue;
            }
            if self.lines == self.bounds.reports {
                return Err(too_many(self.bounds.reports));
            }
            self.lines += 1;
            let line = bytes.slice_ref(line);
            self.read_record(
                &line,
                self.bounds.report.max_bytes as u64,
                &format!("{place}line {}: ", number + 1),
            )?;
        }
        Ok(())
    }

    /// Reads one JSON text: a report, or an array of reports.
    fn read_record(&mut self, record: &Bytes, max_bytes: u64, place: &str) -> Result<(), Problem> {
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let limits = ReadLimits { max_bytes, ..self.bounds.report };
        let elements =
            unslide_report::split_record(record, &limits).map_err(|error| match foreign_format(record) {
                Some(format @ ForeignFormat::AppleCrash) => {
                    Problem::new(Kind::NotAReport, format!("{place}{format} (not_a_report)"))
                }
                _ => to_problem(place, &error, self.bounds.report.max_bytes),
            })?;
        let before = self.reports.len();
        let many = elements.len() > 1 || record.trim_ascii_start().starts_with(b"[");
        for (index, element) in elements.into_iter().enumerate() {
            if self.reports.len() == self.bounds.reports {
                self.reports.truncate(before);
                return Err(too_many(self.bounds.reports));
            }
            let place = if many { format!("{place}report {index}: ") } else { place.to_owned() };
            let incoming = self.read_element(record, &element, &place);
            match incoming {
                Ok(incoming) => self.reports.push(incoming),
                Err(problem) => {
                    // The caller may read the same bytes again as lines.
                    self.reports.truncate(before);
                    return Err(problem);
                }
            }
        }
        Ok(())
    }

    fn read_element(&self, record: &Bytes, element: &Element<'_>, place: &str) -> Result<Incoming, Problem> {
        match element {
            Element::Report(bytes) => {
                let limits = &self.bounds.report;
                let refused = |error: ReadError| to_problem(place, &error, limits.max_bytes);
                let document = self.scope.readers.open(bytes, limits).map_err(refused)?;
                let report = Report::read_event(document.json(), limits).map_err(refused)?;
                self.check_app(place, || report.summary().app)?;
                Ok(Incoming { id: Some(report.id), bytes: record.slice_ref(bytes) })
            }
            // The device has already rendered this log. It cannot be symbolicated, but after a refusal the SDK
            // would send its neighbours again and again: it goes to the dead letters.
            Element::Text(text) => {
                self.check_app(place, || None)?;
                let bytes = [b"\"", text.raw(), b"\""].concat();
                Ok(Incoming { id: None, bytes: bytes.into() })
            }
            Element::Other { found, .. } => {
                let problem = format!("{place}a report is an object, this is {found} (not_a_report)");
                Err(Problem::new(Kind::NotAReport, problem))
            }
        }
    }

    /// Refuses a report of another app if the key is restricted to one app.
    fn check_app(&self, place: &str, of: impl FnOnce() -> Option<String>) -> Result<(), Problem> {
        match self.scope.app {
            Some(app) if of().as_deref() != Some(app) => {
                let problem = format!(
                    "{place}the key is valid for the app {app} only, and the report is of another app"
                );
                Err(Problem::new(Kind::InsufficientScope, problem))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn too_many(most: usize) -> Problem {
    Problem::new(Kind::TooLarge, format!("more than {most} reports; send them in several requests"))
}

/// Converts a read error. `limit` is the limit of one report.
fn to_problem(place: &str, error: &ReadError, limit: usize) -> Problem {
    if matches!(error, ReadError::TooLarge { limit: reached, .. } if *reached == limit) {
        return Problem::new(Kind::TooLarge, format!("{place}report_bytes: {error} (too_large)"));
    }
    Problem::new(Kind::from_read_error(error), format!("{place}{error} ({})", error.reason()))
}

/// Returns true for a line of only white space and NULs. Files that were allocated before they were filled
/// have NULs after their end.
pub(super) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0)
}

/// Returns true if a document of any format is a report.
pub(super) fn is_report(document: &[u8], readers: &ReportReaders, limits: &ReadLimits) -> bool {
    readers.open(document, limits).is_ok_and(|document| Report::read(document.json(), limits).is_ok())
}

/// Returns true if there are several lines and the first that is not empty is a complete JSON text: a report, or an
/// array of them. The first line of a log of two JSON texts is its header, and no report.
pub(super) fn first_line_is_complete(bytes: &[u8], readers: &ReportReaders, limits: &ReadLimits) -> bool {
    let mut lines = bytes.split(|b| *b == b'\n').filter(|line| !is_blank(line));
    let first = lines.next();
    let complete = |line: &[u8]| match unslide_report::split_record(line, limits) {
        // A bare object has not been scanned yet.
        Ok(elements) => {
            elements.iter().all(|e| !matches!(e, Element::Report(r) if !is_report(r, readers, limits)))
        }
        Err(_) => false,
    };
    lines.next().is_some() && first.is_some_and(complete)
}

/// Returns the parts that hold reports: files, JSON, and fields named `report` or `reports`. Other fields of
/// a form describe the sender and are skipped. Returns at most `most` parts.
fn split_parts(body: Bytes, boundary: &str, most: usize) -> Result<Vec<(String, Bytes)>, Problem> {
    let malformed = |error| multipart::to_problem(error, Kind::InvalidBody);
    let mut parts = multer::Multipart::new(stream::iter([Ok::<_, std::convert::Infallible>(body)]), boundary);
    let reading = async {
        let mut found = Vec::new();
        while let Some(field) = parts.next_field().await.map_err(malformed)? {
            let name = field.name().unwrap_or_default().to_owned();
            let json = field.content_type().is_some_and(|t| t.essence_str() == "application/json");
            let wanted = field.file_name().is_some() || json || matches!(name.as_str(), "report" | "reports");
            let bytes = field.bytes().await.map_err(malformed)?;
            if wanted && !bytes.is_empty() {
                if found.len() == most {
                    return Err(too_many(most));
                }
                found.push((name, bytes));
            }
        }
        Ok(found)
    };
    // The whole body is in memory, so this never waits.
    futures::executor::block_on(reading)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::charge::tests::charge;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    const BOUNDS: Bounds = Bounds {
        unpacked: 10_000,
        reports: 3,
        report: ReadLimits { max_bytes: 2_000, max_depth: 16, max_items: 1_000 },
    };
    const A: &str = r#"{"report":{"id":"11111111-1111-1111-1111-111111111111"},"crash":{"error":{}}}"#;
    const B: &str = r#"{"report":{"id":"22222222-2222-2222-2222-222222222222"},"crash":{"threads":[]}}"#;

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn all(body: impl Into<Bytes>, form: &BodyForm) -> Result<Vec<Incoming>, Problem> {
        let (mut room, _other) = crate::limits::permits::tests::reservation(1 << 20);
        let scope = ReportScope { app: None, readers: &ReportReaders::default() };
        read_reports(&body.into(), form, &BOUNDS, &scope, &mut room, &mut charge(1_000))
    }

    fn reports(body: impl Into<Bytes>, form: &BodyForm) -> Vec<String> {
        let read = all(body, form).unwrap();
        read.into_iter().map(|r| String::from_utf8(r.bytes.to_vec()).unwrap()).collect()
    }

    fn refusal(body: impl Into<Bytes>, form: &BodyForm) -> (Kind, String) {
        let problem = all(body, form).unwrap_err();
        (problem.kind(), problem.detail().unwrap_or_default().to_owned())
    }

    #[test]
    fn every_packaging_gives_the_same_reports_byte_for_byte() {
        assert_eq!(reports(A, &BodyForm::Any), [A]);
        assert_eq!(reports(format!("[{A},\n {B}]"), &BodyForm::Any), [A, B]);
        assert_eq!(reports(format!("{A}\n\n{B}\r\n"), &BodyForm::Lines).len(), 2);
        assert_eq!(reports(format!("{A}\n{B}\n"), &BodyForm::Any), [A, B]);
        assert_eq!(reports(format!("[{A}]\n{B}\n"), &BodyForm::Any), [A, B]);
        for form in [BodyForm::Any, BodyForm::Lines] {
            assert_eq!(reports(format!("{A}\n\0\0\n{B}\n\0\0"), &form), [A, B]);
            assert_eq!(reports(format!("[{A}]\n\0\0"), &form), [A]);
        }
        assert_eq!(reports(gzip(&format!("[{A},{B}]")), &BodyForm::Any), [A, B]);
        let id = all(A, &BodyForm::Any).unwrap()[0].id.unwrap();
        assert_eq!(id.to_string(), "11111111-1111-1111-1111-111111111111");
    }

    #[test]
    fn a_form_brings_its_files_and_json_and_nothing_else() {
        let mut body = Vec::new();
        for (head, data) in [
            (
                "name=\"reports\"; filename=\"reports.json\"\r\nContent-Type: application/json",
                format!("[{A}]").into_bytes(),
            ),
            ("name=\"x\"; filename=\"r.gz\"", gzip(B)),
            ("name=\"sender\"", b"not a report".to_vec()),
        ] {
            body.extend_from_slice(
                format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n").as_bytes(),
            );
            body.extend_from_slice(&data);
            body.extend_from_slice(b"\r\n");
        }
        let cut = body.clone();
        body.extend_from_slice(b"--b--\r\n");
        let form = BodyForm::Parts("b".to_owned());
        assert_eq!(reports(body.clone(), &form), [A, B]);
        let packed: Vec<u8> = {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(&body).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(reports(packed, &form), [A, B]);
        assert_eq!(refusal(cut, &form).0, Kind::InvalidBody);
    }

    #[test]
    fn a_log_as_text_is_called_that() {
        let (kind, detail) =
            refusal("Incident Identifier: 5A9E\nHardware Model: iPhone15,2\n", &BodyForm::Any);
        assert_eq!(kind, Kind::NotAReport);
        assert!(detail.contains("an Apple log (.crash)"), "{detail}");
    }

    #[test]
    fn a_rendered_log_is_taken_and_has_no_id() {
        let read = all(format!("[\"Incident\\n\", {A}]"), &BodyForm::Any).unwrap();
        assert_eq!((read[0].id, &read[0].bytes[..]), (None, &b"\"Incident\\n\""[..]));
        assert!(read[1].id.is_some());
    }

    #[test]
    fn a_refusal_names_the_report_and_the_place() {
        let (kind, detail) = refusal(format!("[{A}, {{\"a\": }}]"), &BodyForm::Any);
        assert_eq!(kind, Kind::InvalidReport);
        assert!(detail.contains("at byte") && detail.contains("not_json"), "{detail}");
        let (kind, detail) = refusal(format!("{A}\n{{\"a\" 1}}\n"), &BodyForm::Any);
        assert_eq!(kind, Kind::InvalidReport);
        assert!(detail.starts_with("line 2: at byte 5"), "{detail}");
        let (kind, detail) = refusal(format!("[{A}, 7]"), &BodyForm::Any);
        assert_eq!(kind, Kind::NotAReport);
        assert!(detail.starts_with("report 1: ") && detail.contains("a number"), "{detail}");
        let (kind, detail) = refusal(format!("{A}\n{{}}\n"), &BodyForm::Any);
        assert_eq!(kind, Kind::NotAReport);
        assert!(detail.starts_with("line 2: a crash report has an object `crash`"), "{detail}");
        assert!(refusal(r#"{"report": {"#, &BodyForm::Any).1.contains("truncated"));
        assert!(refusal("{\"a\":".repeat(40), &BodyForm::Any).1.contains("too_deep"));
        assert_eq!(refusal("", &BodyForm::Any).0, Kind::InvalidReport);
        assert_eq!(refusal("[]", &BodyForm::Any), (Kind::InvalidReport, "the body has no report".to_owned()));
    }

    #[test]
    fn bounds_hold_for_bytes_and_numbers() {
        assert_eq!(refusal(format!("[{A},{A},{A},{A}]"), &BodyForm::Any).0, Kind::TooLarge);
        assert_eq!(refusal(gzip(&" ".repeat(10_001)), &BodyForm::Any).0, Kind::TooLarge);
        let large = format!("{{\"a\":\"{}\"}}", "x".repeat(2_000));
        assert_eq!(refusal(large.clone(), &BodyForm::Any).0, Kind::TooLarge);
        assert_eq!(refusal(format!("[{large}]"), &BodyForm::Any).0, Kind::TooLarge);
    }

    /// However few reports there are in them.
    #[test]
    fn lines_and_parts_are_as_many_as_reports_may_be() {
        let part = "--b\r\nContent-Disposition: form-data; name=\"report\"\r\n\r\n[]\r\n";
        let parts = |number| format!("{}--b--\r\n", part.repeat(number));
        for (form, three, four) in [
            (BodyForm::Lines, "[]\n \n".repeat(3), "[]\n".repeat(4)),
            (BodyForm::Any, "[]\n \n".repeat(3), "[]\n".repeat(4)),
            (BodyForm::Any, "[]\n".repeat(3), format!("[{A}]\n{}", "[]\n".repeat(3))),
            (BodyForm::Parts("b".to_owned()), parts(3), parts(4)),
        ] {
            assert_eq!(refusal(three, &form).0, Kind::InvalidReport, "{form:?}");
            let (kind, detail) = refusal(four, &form);
            assert_eq!(kind, Kind::TooLarge, "{form:?}: {detail}");
            assert!(detail.starts_with("more than 3 reports"), "{detail}");
        }
    }

    /// A part's gzip is unpacked within the same room as a body's.
    #[test]
    fn what_is_unpacked_has_room_wherever_it_is_packed() {
        let bounds = Bounds { unpacked: 1 << 20, ..BOUNDS };
        let packed = gzip(&" ".repeat(900_000));
        let head = "--b\r\nContent-Disposition: form-data; name=\"x\"; filename=\"r.gz\"\r\n\r\n";
        let form = [head.as_bytes(), &packed, b"\r\n--b--\r\n"].concat();
        for (body, form) in [(packed, BodyForm::Any), (form, BodyForm::Parts("b".to_owned()))] {
            let (mut room, _other) = crate::limits::permits::tests::reservation(500_000);
            let scope = ReportScope { app: None, readers: &ReportReaders::default() };
            let refused = read_reports(&body.into(), &form, &bounds, &scope, &mut room, &mut charge(1_000))
                .unwrap_err();
            assert_eq!(refused.kind(), Kind::TenantBusy, "{form:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>) {
            for form in [BodyForm::Any, BodyForm::Lines, BodyForm::Parts("b".to_owned())] {
                let _ = all(bytes.clone(), &form);
            }
        }
    }
}
