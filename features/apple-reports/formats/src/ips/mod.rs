//! Crash logs with the extension `.ips`: a header object on the first line, and the crash as a second JSON text.
//!
//! Sources: Apple, "Interpreting the JSON format of a crash report", and logs of iOS 15 to 18 and macOS 12 to 15.

mod document;
mod error;
mod frames;
mod images;
pub mod system;

use crate::json::JsonBuilder;
pub use document::{IpsDocument, is_kscrash};
pub use error::{namespace_name, namespace_number, region_words, signal_note, write_exit_reason};
use frames::FrameWriter;
use images::UsedImages;
use unslide_report::reader::{ReportReader, TranslatedReport};
use unslide_report::{JsonValue, ReadError, ReadLimits};

/// The reader of crash logs of two JSON texts.
pub const IPS_READER: ReportReader =
    ReportReader { name: "ips", recognizes: document::is_ips, translate, parts: None };

fn translate(bytes: &[u8], limits: &ReadLimits) -> Result<TranslatedReport, ReadError> {
    translate_document(&IpsDocument::read(bytes, limits)?, limits)
}

/// Translates the texts of a log.
///
/// # Errors
/// Returns [`ReadError::TooManyItems`] if there are too many images, threads and frames.
pub fn translate_document(
    document: &IpsDocument<'_>,
    limits: &ReadLimits,
) -> Result<TranslatedReport, ReadError> {
    translate_event(document, None, limits)
}

/// Translates the texts of a log. `event` is the type of an event that is no crash.
///
/// # Errors
/// Returns [`ReadError::TooManyItems`] if there are too many images, threads and frames.
pub fn translate_event(
    document: &IpsDocument<'_>,
    event: Option<&'static str>,
    limits: &ReadLimits,
) -> Result<TranslatedReport, ReadError> {
    let report = document.object.report_place().unwrap_or_default();
    let images = UsedImages::read(&document.body, limits)?;
    let mut frames = FrameWriter::new(&images, report.own_member.is_some(), limits);
    let error = error::IpsError::read(&document.body).with_event(event);
    let mut json = JsonBuilder::default();
    let mut outcome = Ok(());
    json.item(|json| {
        system::write(document, json);
        images.write(&document.body, json);
        json.object("crash", |json| {
            error.write(json);
            outcome = frames.crash(&document.body, json);
        });
        if let Some(own) = own_value(document.object).filter(|_| report.own_member.is_some()) {
            json.value("symbolication", own);
        }
    });
    outcome?;
    Ok(TranslatedReport { json: json.into_bytes(), frames: frames.places, report, text: None })
}

/// Returns the bytes of our member's value in an enriched object.
fn own_value(object: JsonValue<'_>) -> Option<&[u8]> {
    let own = object.frame_place(true)?.own_member?;
    let member = object.document().get(own)?;
    let colon = member.iter().position(|byte| *byte == b':')?;
    Some(member.get(colon + 1..)?.trim_ascii_start())
}
