//! Diagnostic reports of MetricKit since iOS 27: one event each, as `JSONEncoder` writes Apple's `DiagnosticReport`.
//!
//! Sources: Apple, "DiagnosticReport", and documents of devices with iOS 27 and of Xcode's simulated payloads. Reports of
//! crashes and of memory exceptions are translated into crashes, those with sampled stacks into diagnostics of older systems,
//! which the core reads.

mod crash;
mod document;
mod environment;
mod kind;
mod members;
mod notes;
mod scalars;
mod tree;

use crate::identity::text_id;
use crate::json::JsonBuilder;
use crate::metric_kit::crash::CrashFacts;
use crate::metric_kit::own_value;
use document::{DocumentContents, DocumentReport, read_root};
use environment::Environment;
use kind::{ReportKind, SampledKind};
use members::{find, get, text, type_name};
use notes::{Form, Notes};
use scalars::{Measurement, TimeRange};
use tree::DiagnosticTree;
use unslide_report::MemberPlace;
use unslide_report::reader::{DocumentText, ReportReader, TranslatedReport};
use unslide_report::{JsonValue, ReadError, ReadLimits};

/// The reader of diagnostic reports.
pub const DIAGNOSTIC_REPORT_READER: ReportReader = ReportReader {
    name: "diagnostic_report",
    recognizes: document::is_diagnostic_report,
    translate: translate_document,
    parts: Some(document::split_document),
};

/// One report, read.
struct DiagnosticReport<'a> {
    kind: ReportKind,
    diagnostic: JsonValue<'a>,
    environment: Environment,
    tree: DiagnosticTree<'a>,
    notes: Notes,
    /// Our member of an enriched document.
    own: Option<&'a [u8]>,
}

fn unsupported(problem: impl Into<String>) -> ReadError {
    ReadError::Unsupported { problem: problem.into() }
}

fn translate_document(bytes: &[u8], limits: &ReadLimits) -> Result<TranslatedReport, ReadError> {
    let root = read_root(bytes, limits)?;
    let mut found = DocumentContents::search(root);
    let count = found.reports.len() + found.payloads.len() + found.texts.len();
    if count > 1 {
        return Err(ReadError::Diagnostics { count });
    }
    if let Some(text) = found.texts.pop() {
        let inner = read_root(text.as_bytes(), limits)?;
        let report = find_single(&DocumentContents::search(inner))?;
        let translated = translate_report(inner, &report, true, limits)?;
        // The object has no place for answers, so they are beside the document.
        let frames = vec![None; translated.frames.len()];
        let text = Some(DocumentText::default());
        return Ok(TranslatedReport { frames, report: MemberPlace::default(), text, ..translated });
    }
    let report = find_single(&found)?;
    translate_report(root, &report, found.is_wrapped, limits)
}

/// Returns the only report of a document.
fn find_single<'a>(found: &DocumentContents<'a>) -> Result<DocumentReport<'a>, ReadError> {
    if let [report] = found.reports.as_slice() {
        return Ok(report.clone());
    }
    if found.reports.len() > 1 {
        return Err(ReadError::Diagnostics { count: found.reports.len() });
    }
    if found.has_metrics {
        return Err(unsupported(
            "this is a MetricReport of MetricKit since iOS 27, which has figures of a period and no event: send it to POST \
             /v1/metrics, alone or as `metric_kit` of a payload",
        ));
    }
    Err(match &found.without_tree {
        Some((name, value)) if value.is_object() => unsupported(format!(
            "this is a DiagnosticReport of MetricKit since iOS 27, but its `{name}` has no object `callStackTree`: send the report as \
             JSONEncoder writes it"
        )),
        Some((name, value)) => unsupported(format!(
            "this is a DiagnosticReport of MetricKit since iOS 27, but its `{name}` is {}, not an object: send the report as JSONEncoder \
             writes it",
            type_name(*value)
        )),
        None => unsupported(
            "this object has the text of no report of MetricKit: send what JSONEncoder writes for a DiagnosticReport",
        ),
    })
}

fn translate_report(
    root: JsonValue<'_>,
    found: &DocumentReport<'_>,
    is_wrapped: bool,
    limits: &ReadLimits,
) -> Result<TranslatedReport, ReadError> {
    let place = root.report_place().unwrap_or_default();
    let is_enriched = place.own_member.is_some();
    let mut notes = Notes::default();
    if !found.is_apples {
        notes.record_form(Form::Kind);
    }
    if is_wrapped {
        notes.record_form(Form::Envelope);
    }
    let [environment, range] = find(found.object, ["environment", "timeRange"]);
    if let Some(environment) = environment.filter(|environment| !environment.is_object()) {
        return Err(unsupported(format!(
            "this is a DiagnosticReport of MetricKit since iOS 27, but its `environment` is {}, not an object",
            type_name(environment)
        )));
    }
    let range = range.map(|range| TimeRange::read(range, &mut notes)).transpose();
    let range = range.map_err(|problem| {
        unsupported(format!(
            "this is a DiagnosticReport of MetricKit since iOS 27, but its `timeRange` {problem}"
        ))
    })?;
    let environment = Environment::read(environment, range.unwrap_or_default(), &mut notes);
    let tree = get(found.diagnostic, "callStackTree").filter(|tree| tree.is_object());
    let tree = DiagnosticTree::read(tree.unwrap_or(found.diagnostic), is_enriched, &mut notes, limits)?;
    let own = own_value(root, &place);
    let kind = found.kind.clone();
    if kind == ReportKind::Tree && !tree.is_per_thread {
        return Err(unsupported(
            "this is MetricKit's call stack tree of samples without the rest of its report: send the whole report",
        ));
    }
    let report = DiagnosticReport { kind, diagnostic: found.diagnostic, environment, tree, notes, own };
    report.translate(place)
}

impl DiagnosticReport<'_> {
    fn translate(mut self, report: MemberPlace) -> Result<TranslatedReport, ReadError> {
        let facts = crash::read_facts(self.diagnostic, &mut self.notes);
        if self.kind == ReportKind::Crash && self.tree.is_empty() && !facts.has_reason() {
            return Err(unsupported(
                "this is a crash of MetricKit since iOS 27 without frames in its `callStackTree`, and without an exception, a signal or \
                 a reason: send the report as JSONEncoder writes it",
            ));
        }
        let measured = self.kind.sampled().and_then(|sampled| self.read_measure(sampled));
        let sampled_time = get(self.diagnostic, "totalSampledTime");
        let sampled_time = sampled_time.and_then(|time| Measurement::read(time, "s", &mut self.notes));
        let event = EventFacts { facts, measured, sampled_time };
        // The id is made of what was read: the same report in another style of JSON is the same report.
        let (json, _) = self.write(&event, "", false);
        let (json, frames) = self.write(&event, &text_id(&json), true);
        Ok(TranslatedReport { json, frames, report, text: None })
    }

    fn write(&self, event: &EventFacts, id: &str, has_answers: bool) -> (Vec<u8>, Vec<Option<MemberPlace>>) {
        let mut json = JsonBuilder::default();
        let mut frames = Vec::new();
        json.item(|json| {
            self.environment.write_report(id, json);
            self.environment.write_system(self.tree.is_simulated(), json);
            json.object("user", |json| self.write_keys(event, json));
            match self.kind.sampled() {
                Some(sampled) => {
                    json.array(sampled.list_key, |json| {
                        json.item(|json| {
                            frames = self.tree.write_tree(has_answers, json);
                            self.write_metadata(sampled, event.measured.as_ref(), json);
                        });
                    });
                }
                None => {
                    self.tree.images.write_images(json);
                    json.object("crash", |json| {
                        self.write_error(&event.facts, json);
                        frames = self.tree.write_threads(has_answers, json);
                    });
                }
            }
            if let Some(own) = self.own.filter(|_| has_answers) {
                json.value("symbolication", own);
            }
        });
        (json.into_bytes(), frames)
    }

    /// Reads the measured value. One that is not understood is named.
    fn read_measure(&mut self, sampled: SampledKind) -> Option<MeasuredText> {
        let value = get(self.diagnostic, sampled.measure)?;
        if let Some(written) = text(Some(value)) {
            self.notes.record_form(Form::Measurements);
            return Some(MeasuredText { written, is_of_device: true });
        }
        let Some(found) = Measurement::read(value, sampled.unit, &mut self.notes) else {
            let found = type_name(value);
            self.notes.record_unread(|| format!("{} is {found} without a value and a unit", sampled.measure));
            return None;
        };
        Some(MeasuredText { written: found.to_string(), is_of_device: false })
    }

    /// Writes the facts that reports of KSCrash have no members for.
    fn write_keys(&self, event: &EventFacts, json: &mut JsonBuilder) {
        json.some_string("terminationCategory", event.facts.category.as_deref());
        self.environment.write_keys(json);
        let sampled_time = event.sampled_time.as_ref().map(Measurement::to_string);
        json.some_string("totalSampledTime", sampled_time.as_deref());
        for (key, is_true) in [
            ("simulatedPayload", self.tree.is_simulated()),
            ("stackIsCut", self.kind.sampled().is_none() && self.tree.is_cut()),
        ] {
            if is_true {
                json.flag(key, true);
            }
        }
        json.some_string("notApplesForm", Some(&self.notes.describe_forms()));
        json.some_string("unread", Some(&self.notes.describe_unread()));
    }

    /// Writes what older systems write about such an event.
    fn write_metadata(&self, sampled: SampledKind, measured: Option<&MeasuredText>, json: &mut JsonBuilder) {
        let environment = &self.environment;
        json.object("diagnosticMetaData", |json| {
            for (key, value) in [
                ("bundleIdentifier", &environment.app),
                ("appVersion", &environment.version),
                ("appBuildVersion", &environment.build),
                ("osVersion", &environment.system_text),
                ("deviceType", &environment.device),
                ("platformArchitecture", &environment.cpu),
            ] {
                json.some_string(key, value.as_deref());
            }
            if let Some(pid) = environment.pid {
                json.number("pid", pid);
            }
            if let Some(measured) = measured {
                // Our own numbers have a point before decimals.
                json.some_string("regionFormat", Some("US").filter(|_| !measured.is_of_device));
                json.string(sampled.payload_measure, &measured.written);
            }
        });
    }

    /// Writes the member `error` of the crash.
    fn write_error(&self, facts: &CrashFacts, json: &mut JsonBuilder) {
        match &self.kind {
            ReportKind::Memory => json.object("error", |json| {
                json.string("type", "termination");
                json.string("subtype", "memory_exception");
                json.string("termination_reason", "memory_limit");
                json.flag("is_fatal", true);
            }),
            ReportKind::Other(name) => json.object("error", |json| {
                json.string("type", "user");
                json.string("reason", name);
                json.object("user_reported", |json| json.string("name", name));
            }),
            _ => facts.write_error(json),
        }
    }
}

/// Facts of the diagnostic beside its tree.
struct EventFacts {
    facts: CrashFacts,
    measured: Option<MeasuredText>,
    /// The time in which the samples were taken, of CPU use.
    sampled_time: Option<Measurement>,
}

/// A measured value as a text.
struct MeasuredText {
    written: String,
    /// True if a device has written it for its region.
    is_of_device: bool,
}
