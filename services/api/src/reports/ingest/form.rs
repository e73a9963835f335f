//! Forms of request bodies: multipart/form-data, lines, or one JSON text.

use super::too_many;
use crate::problem::{Kind, Problem};
use crate::requests::body::ZIP;
use crate::uploads::multipart;
use bytes::Bytes;
use futures::stream;
use std::convert::Infallible;
use unslide_report::reader::ReportReaders;
use unslide_report::{Element, ReadLimits, Report};

/// Longest line, in bytes, that is taken for the boundary of a form (RFC 2046 §5.1.1).
const LONGEST_BOUNDARY: usize = 70;

/// Form of a body, according to its content type.
#[derive(Clone, Debug)]
pub enum BodyForm {
    /// A form with this boundary.
    Parts(String),
    /// One JSON text per line.
    Lines,
    /// Any form; the content decides.
    Any,
}

/// A part of a form that holds reports.
pub(super) struct FormPart {
    pub(super) name: String,
    pub(super) bytes: Bytes,
}

/// Returns the boundary of a body that begins like a form: its first line after two dashes. A line of dashes alone is the first
/// one of a crash log that macOS has translated.
pub(super) fn content_boundary(body: &[u8]) -> Option<&str> {
    let line = body.strip_prefix(b"--")?.split(|byte| *byte == b'\n').next()?.trim_ascii_end();
    let fits = (1..=LONGEST_BOUNDARY).contains(&line.len()) && line.iter().all(u8::is_ascii_graphic);
    let fits = fits && line.iter().any(|byte| *byte != b'-');
    std::str::from_utf8(line).ok().filter(|_| fits)
}

/// Returns the parts that hold reports: files, JSON, fields named `report` or `reports`, and all that begin like a report
/// or like packed data. Other fields of a form describe the sender. Returns at most `most` parts.
pub(super) fn split_form(body: Bytes, boundary: &str, most: usize) -> Result<Vec<FormPart>, Problem> {
    let malformed = |error| multipart::to_problem(error, Kind::InvalidBody);
    let mut parts = multer::Multipart::new(stream::iter([Ok::<_, Infallible>(body)]), boundary);
    let reading = async {
        let mut found = Vec::new();
        while let Some(field) = parts.next_field().await.map_err(malformed)? {
            let name = field.name().unwrap_or_default().to_owned();
            let is_json = field.content_type().is_some_and(|kind| kind.essence_str() == "application/json");
            let is_named =
                field.file_name().is_some() || is_json || matches!(name.as_str(), "report" | "reports");
            let bytes = field.bytes().await.map_err(malformed)?;
            let first = bytes.trim_ascii_start().first().copied();
            let is_packed = matches!(first, Some(0x1f | 0x28)) || bytes.starts_with(ZIP);
            if bytes.is_empty() || !(is_named || is_packed || matches!(first, Some(b'{' | b'['))) {
                continue;
            }
            if found.len() == most {
                return Err(too_many(most));
            }
            found.push(FormPart { name, bytes });
        }
        Ok(found)
    };
    // The whole body is in memory, so this never waits.
    futures::executor::block_on(reading)
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
    let complete = |line: &[u8]| match readers.split_record(line, limits) {
        // A bare object has not been scanned yet.
        Ok(elements) => {
            elements.iter().all(|e| !matches!(e, Element::Report(r) if !is_report(r, readers, limits)))
        }
        Err(_) => false,
    };
    lines.next().is_some() && first.is_some_and(complete)
}
