//! Documents with diagnostic reports: the report itself, in another object, or as a JSON text in a string.

use super::kind::ReportKind;
use super::members::{get, is_name};
use crate::ips::is_kscrash;
use crate::json::JsonBuilder;
use crate::metric_kit::payload;
use unslide_report::{JsonValue, ReadError, ReadLimits};

/// The levels of objects around a report that are searched, and the members in them.
const SEARCHED_LEVELS: usize = 4;
const SEARCHED_MEMBERS: usize = 4_096;
/// The maximum number of reports in a document.
const REPORTS_LIMIT: usize = 1_000;
/// The bytes at the beginning in which a JSON text in a string is recognised. An answered document has them escaped, in the
/// first 16 KiB that readers see.
const TEXT_HEAD_BYTES: usize = 4 << 10;
/// Ends of names of which each document with a report or a tree has one, and those of a JSON text in a string.
const NAME_ENDS: [&[u8]; 8] = [
    b"Diagnostic\"",
    b"_diagnostic\"",
    b"callStackTree\"",
    b"call_stack_tree\"",
    b"callStackThreads\"",
    b"call_stack_threads\"",
    b"ntervalEntries\"",
    b"nterval_entries\"",
];
const TEXT_NAME_ENDS: [&[u8]; 4] =
    [b"Diagnostic\\\"", b"_diagnostic\\\"", b"callStackTree\\\"", b"call_stack_tree\\\""];
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A report of one diagnostic.
#[derive(Clone, Debug)]
pub struct DocumentReport<'a> {
    /// The object with `environment` and `timeRange`. Of a bare tree it is the tree.
    pub object: JsonValue<'a>,
    pub kind: ReportKind,
    /// The object with `callStackTree`.
    pub diagnostic: JsonValue<'a>,
    /// True if the diagnostic is where Apple's encoder writes it.
    pub is_apples: bool,
}

/// The contents of a document.
#[derive(Debug, Default)]
pub struct DocumentContents<'a> {
    pub reports: Vec<DocumentReport<'a>>,
    /// Payloads of older systems beside them.
    pub payloads: Vec<JsonValue<'a>>,
    /// Strings with a JSON text that has a report.
    pub texts: Vec<String>,
    /// True if there is a metric report.
    pub has_metrics: bool,
    /// The name of a diagnostic without a tree, and its value.
    pub without_tree: Option<(String, JsonValue<'a>)>,
    /// True if the report lies in another object.
    pub is_wrapped: bool,
}

/// Returns a document after its byte order mark and white space.
fn trim_start(document: &[u8]) -> &[u8] {
    document.strip_prefix(BYTE_ORDER_MARK).unwrap_or(document).trim_ascii_start()
}

/// Returns true if a document has a report of MetricKit since iOS 27, or is about to be refused as one.
pub fn is_diagnostic_report(document: &[u8]) -> bool {
    let start = trim_start(document);
    // A report of KSCrash is not searched, unless its first member may be a diagnostic.
    let first = start.strip_prefix(b"{").unwrap_or_default().trim_ascii_start();
    if !first.starts_with(b"\"") || is_kscrash(start) && !first.starts_with(b"\"crash\"") {
        return false;
    }
    if has_text(start) {
        return true;
    }
    let has = |name: &&[u8]| memchr::memmem::find(start, name).is_some();
    if !NAME_ENDS.iter().any(has) {
        return false;
    }
    let limits = ReadLimits { max_bytes: usize::MAX, ..ReadLimits::default() };
    let Ok(root) = read_root(document, &limits) else { return false };
    let found = DocumentContents::search(root);
    !found.reports.is_empty() || found.has_metrics || found.without_tree.is_some()
}

/// Returns true if the beginning of a document has a string with a JSON text of a report.
fn has_text(start: &[u8]) -> bool {
    let head = start.get(..TEXT_HEAD_BYTES).unwrap_or(start);
    !is_kscrash(start) && TEXT_NAME_ENDS.iter().any(|name| memchr::memmem::find(head, name).is_some())
}

/// Reads the object of a document.
///
/// # Errors
/// Returns [`ReadError`] if it is no JSON, or nests too deep.
pub fn read_root<'a>(document: &'a [u8], limits: &ReadLimits) -> Result<JsonValue<'a>, ReadError> {
    let begin = if document.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    // Frames count as levels here, and trees have a limit of their own.
    let (root, end) = JsonValue::read(document, begin, &ReadLimits { max_depth: usize::MAX, ..*limits })?;
    let rest = document.get(end..).unwrap_or_default();
    match rest.iter().position(|byte| !byte.is_ascii_whitespace() && *byte != 0) {
        Some(at) => Err(ReadError::NotJson { offset: end + at, expected: "the end of the report" }),
        None => Ok(root),
    }
}

impl<'a> DocumentContents<'a> {
    /// Searches an object, and objects in it, for reports.
    pub fn search(root: JsonValue<'a>) -> DocumentContents<'a> {
        let mut found = DocumentContents::default();
        let (mut level, mut left) = (vec![root], SEARCHED_MEMBERS);
        for depth in 0..SEARCHED_LEVELS {
            let mut below = Vec::new();
            for value in level {
                if found.add_object(value) {
                    found.is_wrapped |= depth > 0;
                    continue;
                }
                let mut visit = |name: &[u8], value: JsonValue<'a>| {
                    if left == 0 || name == b"symbolication" {
                        return;
                    }
                    left -= 1;
                    if value.is_container() {
                        below.push(value);
                    } else {
                        found.add_text(value);
                    }
                };
                value.each_member(&mut visit);
                value.each_item(|item| visit(b"", item));
            }
            level = below;
        }
        found
    }

    /// Adds what an object is. Returns false for an object that is nothing of MetricKit's.
    fn add_object(&mut self, object: JsonValue<'a>) -> bool {
        if !object.is_object() {
            return false;
        }
        if payload::is_payload_object(object) {
            self.payloads.push(object);
            return true;
        }
        let [threads, intervals, states, time_range, result] = super::members::find(
            object,
            ["callStackThreads", "intervalEntries", "stateEntries", "timeRange", "result"],
        );
        if intervals.is_some() || states.is_some() && time_range.is_some() {
            self.has_metrics = true;
            return true;
        }
        if threads.is_some() {
            let kind = ReportKind::Tree;
            self.reports.push(DocumentReport { object, kind, diagnostic: object, is_apples: true });
            return true;
        }
        let before = self.reports.len();
        object.each_member(|name, value| self.add_diagnostic(object, name, value, false));
        if let Some(result) = result {
            result.each_member(|name, value| self.add_diagnostic(object, name, value, true));
        }
        self.reports.truncate(REPORTS_LIMIT);
        self.reports.len() > before || self.without_tree.is_some()
    }

    fn add_diagnostic(&mut self, object: JsonValue<'a>, name: &[u8], value: JsonValue<'a>, is_result: bool) {
        let name = String::from_utf8_lossy(name);
        let Some((kind, is_full_name)) = ReportKind::from_name(&name) else { return };
        // Swift writes the values of a case under `_0`.
        let inner = get(value, "_0").filter(|inner| inner.is_object());
        let diagnostic = inner.unwrap_or(value);
        let has_tree = get(diagnostic, "callStackTree").is_some_and(JsonValue::is_object);
        if has_tree {
            let is_apples = is_full_name && !is_result && inner.is_none();
            self.reports.push(DocumentReport { object, kind, diagnostic, is_apples });
        } else if is_full_name && kind.is_known() && self.without_tree.is_none() && !value.is_null() {
            self.without_tree = Some((name.into_owned(), value));
        }
    }

    /// Adds a string with the JSON text of a report.
    fn add_text(&mut self, value: JsonValue<'a>) {
        let Some(text) = value.as_text().filter(|text| text.raw().trim_ascii_start().starts_with(b"{"))
        else {
            return;
        };
        let has = |name: &&[u8]| memchr::memmem::find(text.raw(), name).is_some();
        if self.texts.len() < REPORTS_LIMIT && TEXT_NAME_ENDS.iter().any(has) {
            self.texts.push(text.decode().into_owned());
        }
    }

    /// Returns the number of reports.
    fn count(&self) -> usize {
        self.reports.len() + self.payloads.len() + self.texts.len()
    }
}

/// Splits a document with several reports. Each report has its own time, so that equal reports are one.
pub fn split_document(document: &[u8], limits: &ReadLimits) -> Option<Vec<Vec<u8>>> {
    if !is_diagnostic_report(document) {
        return None;
    }
    let found = DocumentContents::search(read_root(document, limits).ok()?);
    if found.count() < 2 {
        return None;
    }
    let mut parts = Vec::with_capacity(found.count());
    for report in &found.reports {
        let of_object = found.reports.iter().filter(|one| one.object.offset() == report.object.offset());
        parts.push(if of_object.count() == 1 {
            report.object.raw_bytes().to_vec()
        } else {
            report.write_alone()
        });
    }
    for payload in &found.payloads {
        let own = payload.raw_bytes();
        parts.extend(payload::split_payload(own, limits).unwrap_or_else(|| vec![own.to_vec()]));
    }
    for text in found.texts {
        let own = text.as_bytes();
        let own = split_document(own, limits).or_else(|| payload::split_payload(own, limits));
        parts.extend(own.unwrap_or_else(|| vec![text.into_bytes()]));
    }
    Some(parts)
}

impl DocumentReport<'_> {
    /// Returns one of several diagnostics of an object as an object of its own.
    fn write_alone(&self) -> Vec<u8> {
        let mut json = JsonBuilder::default();
        json.item(|json| {
            self.object.each_member(|name, value| {
                let shared = ["version", "timeRange", "environment"];
                if let Some(key) = shared.into_iter().find(|key| is_name(name, key)) {
                    json.value(key, value.raw_bytes());
                }
            });
            json.value(&self.kind.key(), self.diagnostic.raw_bytes());
        });
        json.into_bytes()
    }
}
