//! A report as Apple's crash text, in the form of KSCrash's own filter for it, with what we found.

mod backtrace;
mod header;
mod log;
mod rest;

use crate::Report;
use crate::cursor::Value;
use crate::facts::{Facts, nearest_first};
use log::Log;
use std::borrow::Cow;
use std::fmt::Write;

/// The report as text: header, exception, threads, registers of the thread that crashed, images,
/// and behind `EOF` what Apple's form has no place for.
///
/// The crash of interest goes first; where its handler crashed too, that follows under
/// `Handler crashed while reporting:`. On an enriched report a frame shows our functions as
/// `function + offset (File.swift:12)`, functions that were inlined on lines of their own before
/// it; other frames show the device's symbol, or image and offset. What came from the device drives
/// no terminal: see [`printable`].
///
/// The text is bounded: what names and indentation would make many times as large as the report is
/// cut off, and its last line says so.
#[must_use]
pub fn apple_log(report: &Report<'_>) -> String {
    let main = report.main_part();
    let mut out = Log::of(report.input.len());
    for index in nearest_first(report.parts.len(), main) {
        let facts = Facts::of(report, index);
        if index == main {
            header::header(&facts, &mut out);
            header::exception(&facts, &mut out);
            backtrace::threads(&facts, &mut out);
            rest::registers(&facts, &mut out);
            rest::images(&facts, &mut out);
            rest::extra(&facts, &mut out);
        } else {
            out.push_str("\nHandler crashed while reporting:\n");
            header::exception(&facts, &mut out);
            backtrace::threads(&facts, &mut out);
            rest::registers(&facts, &mut out);
            rest::diagnosis(&facts, "Recrash Diagnosis", &mut out);
        }
    }
    out.finish()
}

/// The text with control characters as `\u{1b}`, but for line ends and tabs: a terminal that it is
/// printed on shows them and does not obey them.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 64);
    for c in text.chars() {
        if obeyed(c) {
            let _ = write!(shown, "{}", c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The text of a string or number; `(null)` for anything else, as Apple's formatter says.
fn shown(value: Option<Value<'_>>) -> String {
    let text = value.and_then(|value| {
        value.string().or_else(|| {
            value.number()?;
            Some(String::from_utf8_lossy(value.raw()).into_owned())
        })
    });
    text.unwrap_or_else(|| "(null)".into())
}

/// The address that a value holds, as 64 bits.
fn address(value: Option<Value<'_>>) -> Option<u64> {
    value?.number()?.to_bits()
}

/// `index` of a thread, 0 where it has none.
fn thread_index(thread: Value<'_>) -> u64 {
    thread.get("index").and_then(Value::unsigned).unwrap_or(0)
}
