//! A report as Apple's crash text, in the form of KSCrash's own filter for it, with what we found.
//!
//! Every text of the device goes through [`escaped`] before it gets here, so that none of it can look
//! like a line of ours. All passes are over the report or over one section of it, never over one thing
//! for each of another.

mod backtrace;
mod crash;
mod header;
mod javascript;
mod log;
mod rest;
pub mod threads;
pub mod view;

use crate::json::Value;
use crate::report::summary::facts::{PartFacts, nearest_first};
use crate::{Report, Text};
use crash::Crash;
use log::Log;
use std::borrow::Cow;
use std::fmt::Write;

/// The report as text: header, exception, threads, registers of the thread that crashed, images,
/// and behind `EOF` what Apple's form has no place for.
///
/// The crash of interest goes first; where its handler crashed too, that follows under
/// `Handler crashed while reporting:`. On an enriched report a frame shows what its `symbolication`
/// says: functions as `function + offset (File.swift:12)`, functions that were inlined on lines of their
/// own before it, a guess with `[approximate]` behind it, and where it names none, image and offset. On any other report it shows the device's
/// own symbol. A thread without `index` has its position for a number. In texts of the device, control
/// characters are escaped, line ends too.
///
/// The text is bounded: what names and indentation would make many times as large as the report is
/// cut off, and its last line says so.
#[must_use]
pub fn apple_log(report: &Report<'_>) -> String {
    let main = report.main_part();
    let mut out = Log::of(report.input.len());
    for index in nearest_first(report.parts.len(), main) {
        let facts = PartFacts::of(report, index);
        let crash = Crash::of(&facts);
        if index == main {
            let ended = report.ended();
            header::header(&facts, ended.as_ref(), &mut out);
            header::exception(&facts, &crash, &mut out);
            if let Some(ended) = ended {
                let _ = write!(out, "\nEnded: {}\n", escaped(&ended.to_string()));
            }
            javascript::stack(report, &mut out);
            backtrace::threads(&facts, &crash, &mut out);
            rest::registers(&facts, &crash, &mut out);
            rest::images(&facts, &mut out);
            rest::extra(&facts, &crash, &mut out);
        } else {
            out.push_str("\nHandler crashed while reporting:\n");
            header::exception(&facts, &crash, &mut out);
            backtrace::threads(&facts, &crash, &mut out);
            rest::registers(&facts, &crash, &mut out);
            rest::diagnosis(&crash, "Recrash Diagnosis", &mut out);
        }
    }
    out.finish()
}

/// Returns one line for a terminal: escapes line breaks and every character that a terminal obeys as `\n` or
/// `\u{1b}`. Tabs stay.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, |c| is_obeyed(c) && c != '\t')
}

/// A text of the device on one line: what a terminal obeys as `\n` or `\u{1b}`.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    escape(text, is_obeyed)
}

/// Returns true for control characters, and for characters that separate lines or change the direction of writing
/// (`Bidi_Control` of Unicode's `PropList.txt`).
#[must_use]
pub fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escape(text: &str, obeyed: impl Fn(char) -> bool) -> Cow<'_, str> {
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

/// As [`escaped`], of a string of the report.
fn escaped_text(text: Text<'_>) -> Cow<'_, str> {
    match text.decode() {
        Cow::Borrowed(text) => escaped(text),
        Cow::Owned(text) => Cow::Owned(escaped(&text).into_owned()),
    }
}

/// The file name at the end of an image's path.
fn escaped_file_name(path: Text<'_>) -> Cow<'_, str> {
    fn last(path: &str) -> &str {
        path.rsplit('/').next().unwrap_or_default()
    }
    match path.decode() {
        Cow::Borrowed(path) => escaped(last(path)),
        Cow::Owned(path) => Cow::Owned(escaped(last(&path)).into_owned()),
    }
}

/// A string of the report; `None` for another value.
fn string(value: Option<Value<'_>>) -> Option<Cow<'_, str>> {
    value?.text().map(escaped_text)
}

/// The bytes of any value on one line.
fn raw(value: Value<'_>) -> String {
    escaped(&String::from_utf8_lossy(value.raw())).into_owned()
}

/// The text of a string or number; `(null)` for anything else, as Apple's formatter says.
fn shown(value: Option<Value<'_>>) -> Cow<'_, str> {
    let number =
        |value: Option<Value<'_>>| Some(Cow::Owned(value.filter(|v| v.number().is_some()).map(raw)?));
    string(value).or_else(|| number(value)).unwrap_or(Cow::Borrowed("(null)"))
}

/// The address that a value holds, as 64 bits.
fn address(value: Option<Value<'_>>) -> Option<u64> {
    value?.number()?.to_bits()
}
