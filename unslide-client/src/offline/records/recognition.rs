//! Which bytes are a report, and which are other data.

use unslide_report::reader::ReportReaders;
use unslide_report::{Element, ReadError, ReadLimits, Report};

/// Reads a report of any format.
///
/// # Errors
/// Returns the reason why it is none.
pub fn check_report(bytes: &[u8], readers: &ReportReaders, limits: &ReadLimits) -> Result<(), ReadError> {
    if readers.split_document(bytes, limits).is_some() {
        return Ok(());
    }
    let document = readers.open(bytes, limits)?;
    Report::read_event(document.json(), limits).map(|_| ())
}

/// Returns true if an error is about other data, not about a report that is damaged or too large.
pub fn is_other_data(error: &ReadError) -> bool {
    matches!(error.reason(), "not_json" | "not_a_report")
}

/// Returns true for a report, and for an array with one.
pub fn has_report(record: &[u8], readers: &ReportReaders, limits: &ReadLimits) -> bool {
    any_report(record, readers, limits, |error| error.is_none())
}

/// Returns true for a report, a damaged one, and an array with one.
pub fn may_have_report(record: &[u8], readers: &ReportReaders, limits: &ReadLimits) -> bool {
    any_report(record, readers, limits, |error| error.is_none_or(|error| !is_other_data(error)))
}

/// Returns true if a record is wanted, or an element of it. `is_wanted` gets the error of what cannot be read.
fn any_report(
    record: &[u8],
    readers: &ReportReaders,
    limits: &ReadLimits,
    is_wanted: impl Fn(Option<&ReadError>) -> bool,
) -> bool {
    match readers.split_record(record, limits) {
        Err(error) => is_wanted(Some(&error)),
        Ok(elements) => elements.iter().any(|element| match element {
            Element::Report(bytes) => is_wanted(check_report(bytes, readers, limits).as_ref().err()),
            Element::Text(text) => is_report_text(&text.decode_bytes(), readers, limits),
            Element::Other { .. } => false,
        }),
    }
}

/// Returns true if a text is a report of a reader's format.
pub fn is_report_text(text: &[u8], readers: &ReportReaders, limits: &ReadLimits) -> bool {
    readers.find(text).is_some() && check_report(text, readers, limits).is_ok()
}

/// Returns the one problem of a file or an array without any report. `first` is the problem of its first part, and `more` the
/// number of the other ones.
pub fn no_report_problem(first: &str, more: usize) -> String {
    format!("{first}; this is no file of reports: {more} more could not be read")
}
