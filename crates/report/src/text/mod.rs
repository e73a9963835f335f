//! A report as Apple's crash text, in the format of KSCrash's own filter, with our results.
//!
//! Every text of the device is [`escape_line`] first, so that none of it can look like a line of ours. Every pass
//! covers the report or one section of it once: no pass is repeated for each item of another.

mod backtrace;
mod crash;
mod header;
mod javascript;
mod log;
mod rest;
pub mod source_lines;
pub mod threads;
pub mod view;

use crate::json::Value;
use crate::report::summary::facts::{PartFacts, nearest_first};
use crate::{OurVariable, Report, Text};
use crash::Crash;
use log::Log;
use std::borrow::Cow;
use std::fmt::Write;

/// Returns the report as text: header, exception, threads, registers of the crashed thread, images,
/// and after `EOF` everything that Apple's format cannot hold.
///
/// The main crash comes first. If its handler crashed too, that crash follows under
/// `Handler crashed while reporting:`. In an enriched report a frame shows only its `symbolication`:
/// functions as `function + offset (File.swift:12)`, inlined functions on separate lines before it,
/// `[approximate]` after a guess, and image and offset if there is no name. In any other report it
/// shows the device's own symbol. A thread without `index` is numbered by its position. Control
/// characters and line ends in texts of the device are escaped.
///
/// The text has a maximum size: if names and indentation would make it many times as large as the
/// report, it is cut off, and its last line says so.
#[must_use]
pub fn apple_log(report: &Report<'_>) -> String {
    let main = report.main_part();
    let mut out = Log::for_report_size(report.input.len());
    for index in nearest_first(report.parts.len(), main) {
        let facts = PartFacts::for_part(report, index);
        let crash = Crash::from_facts(&facts);
        if index == main {
            let ended = report.evaluate_end();
            header::write_header(&facts, ended.as_ref(), &mut out);
            header::write_exception(&facts, &crash, &mut out);
            if let Some(ended) = ended {
                let _ = write!(out, "\nEnded: {}\n", escape_line(&ended.to_string()));
            }
            write_findings(report, &mut out);
            write_variables(report, &mut out);
            javascript::write_stack(report, &mut out);
            backtrace::write_threads(&facts, &crash, &mut out);
            rest::write_registers(&facts, &crash, &mut out);
            rest::write_images(&facts, &mut out);
            rest::write_extra(&facts, &crash, &mut out);
        } else {
            out.push_str("\nHandler crashed while reporting:\n");
            header::write_exception(&facts, &crash, &mut out);
            backtrace::write_threads(&facts, &crash, &mut out);
            rest::write_registers(&facts, &crash, &mut out);
            rest::write_diagnosis(&crash, "Recrash Diagnosis", &mut out);
        }
    }
    out.into_text()
}

/// Writes the sentence of each finding of an analysis, with its evidence and with what it does not state.
fn write_findings(report: &Report<'_>, out: &mut Log) {
    for finding in report.ours.iter().flat_map(|ours| &ours.findings) {
        let _ = write!(out, "\nAnalysis: {}\n", escape_line(&finding.sentence));
        if !finding.evidence.is_empty() {
            let _ = writeln!(out, "Evidence: {}", escape_line(&finding.evidence.join("; ")));
        }
        for text in &finding.abstained {
            let _ = writeln!(out, "Note: {}", escape_line(text));
        }
    }
}

/// Writes the variables of the innermost frame, one a line.
fn write_variables(report: &Report<'_>, out: &mut Log) {
    let variables = report.ours.as_ref().map(|ours| ours.variables.as_slice()).unwrap_or_default();
    if !variables.is_empty() {
        out.push_str("\nVariables of frame 0:\n");
    }
    for variable in variables {
        let OurVariable { function, name, type_name, .. } = variable;
        let line = format!("{function}: {name} ({type_name}) = {}", variable.describe_value());
        let _ = writeln!(out, "{}", escape_line(&line));
    }
}

/// Returns one line for a terminal. Escapes the characters of [`is_obeyed`] as `\n` or `\u{1b}`, except tabs.
#[must_use]
pub fn escape_for_terminal(text: &str) -> Cow<'_, str> {
    escape_chars(text, |c| is_obeyed(c) && c != '\t')
}

/// Returns a text of the device on one line. Escapes the characters of [`is_obeyed`] as `\n` or `\u{1b}`.
#[must_use]
pub fn escape_line(text: &str) -> Cow<'_, str> {
    escape_chars(text, is_obeyed)
}

/// Returns true for control characters, and for characters that separate lines or change the direction of writing
/// (`Bidi_Control` of Unicode's `PropList.txt`).
#[must_use]
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape_chars(text: &str, obeyed: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if obeyed(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// Works as [`escape_line`], for a string of the report.
fn escaped_text(text: Text<'_>) -> Cow<'_, str> {
    match text.decode() {
        Cow::Borrowed(text) => escape_line(text),
        Cow::Owned(text) => Cow::Owned(escape_line(&text).into_owned()),
    }
}

/// Returns the file name at the end of an image's path.
fn escaped_file_name(path: Text<'_>) -> Cow<'_, str> {
    fn last_path_segment(path: &str) -> &str {
        path.rsplit('/').next().unwrap_or_default()
    }
    match path.decode() {
        Cow::Borrowed(path) => escape_line(last_path_segment(path)),
        Cow::Owned(path) => Cow::Owned(escape_line(last_path_segment(&path)).into_owned()),
    }
}

/// Returns a string of the report, or `None` for any other value.
fn format_string(value: Option<Value<'_>>) -> Option<Cow<'_, str>> {
    value?.as_text().map(escaped_text)
}

/// Returns the bytes of any value on one line.
fn format_raw(value: Value<'_>) -> String {
    escape_line(&String::from_utf8_lossy(value.raw_bytes())).into_owned()
}

/// Returns the text of a string or number, or `(null)` for any other value, as Apple's formatter does.
fn format_value(value: Option<Value<'_>>) -> Cow<'_, str> {
    let number = |value: Option<Value<'_>>| {
        Some(Cow::Owned(value.filter(|v| v.as_number().is_some()).map(format_raw)?))
    };
    format_string(value).or_else(|| number(value)).unwrap_or(Cow::Borrowed("(null)"))
}

/// Returns the address in a value, as 64 bits.
fn read_address(value: Option<Value<'_>>) -> Option<u64> {
    value?.as_number()?.to_bits()
}
