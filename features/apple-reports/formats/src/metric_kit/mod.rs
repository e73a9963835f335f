//! Crash diagnostics of MetricKit: a payload with one, the diagnostic alone, or its call stack tree.
//!
//! Sources: Apple, "MXCrashDiagnostic" and "MXCallStackTree", and payloads of iOS 14 to 26. The core reads diagnostics of
//! hangs, CPU use, disk writes and launches.

pub mod crash;
pub mod payload;
pub mod places;
pub mod stacks;
mod termination;

use crate::identity::text_id;
use crate::json::JsonBuilder;
use crash::CrashFacts;
use places::PlacedImages;
use stacks::CrashStacks;
use unslide_report::MemberPlace;
use unslide_report::reader::{ReportReader, TranslatedReport};
use unslide_report::{JsonValue, ReadError, ReadLimits};

/// The reader of crash diagnostics.
pub const METRIC_KIT_READER: ReportReader = ReportReader {
    name: "metrickit",
    recognizes: payload::is_crash_payload,
    translate: translate_payload,
    parts: Some(payload::split_payload),
};
/// Levels of JSON around a tree and in a frame.
const LEVELS_AROUND_TREE: usize = 16;
/// The maximum number of frames of a stack. Apple's have at most 512.
pub const STACK_FRAMES_LIMIT: usize = 512;

/// The members of one diagnostic.
#[derive(Clone, Copy, Debug, Default)]
struct Diagnostic<'a> {
    tree: Option<JsonValue<'a>>,
    metadata: Option<JsonValue<'a>>,
}

impl<'a> Diagnostic<'a> {
    fn from_object(object: JsonValue<'a>) -> Diagnostic<'a> {
        let [tree, metadata] = object.find_members(["callStackTree", "diagnosticMetaData"]);
        Diagnostic { tree: tree.filter(|tree| tree.is_object()), metadata }
    }

    /// Finds the diagnostic of a payload, which has one.
    fn find_single(root: JsonValue<'a>) -> Result<Diagnostic<'a>, ReadError> {
        let own = Diagnostic::from_object(root);
        if own.tree.is_some() {
            return Ok(own);
        }
        if root.get("callStacks").is_some() {
            return Ok(Diagnostic { tree: Some(root), metadata: None });
        }
        let lists = root.find_members(payload::LISTS);
        let count = lists.into_iter().flatten().map(|list| list.items().len()).sum();
        let [crashes, ..] = lists;
        match crashes.map(JsonValue::items).unwrap_or_default().as_slice() {
            [crash] if count == 1 => Ok(Diagnostic::from_object(*crash)),
            _ => Err(ReadError::Diagnostics { count }),
        }
    }
}

fn translate_payload(bytes: &[u8], limits: &ReadLimits) -> Result<TranslatedReport, ReadError> {
    let begin = if bytes.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
    // A frame is an object in an array in the frame that it called.
    let depth = 2 * STACK_FRAMES_LIMIT + LEVELS_AROUND_TREE;
    let (root, end) = JsonValue::read(bytes, begin, &ReadLimits { max_depth: depth, ..*limits })?;
    if let Some(at) =
        bytes.get(end..).unwrap_or_default().iter().position(|byte| !byte.is_ascii_whitespace() && *byte != 0)
    {
        return Err(ReadError::NotJson { offset: end + at, expected: "the end of the payload" });
    }
    let diagnostic = Diagnostic::find_single(root)?;
    let report = root.report_place().unwrap_or_default();
    let is_enriched = report.own_member.is_some();
    let stacks = CrashStacks::read_tree(diagnostic.tree, is_enriched, limits)?;
    if diagnostic.metadata.is_none() && !stacks.is_per_thread {
        let problem = "this is MetricKit's call stack tree of samples without the rest of its diagnostic: send the whole \
                       diagnostic, or open the file with `unslide flame`";
        return Err(ReadError::Unsupported { problem: problem.to_owned() });
    }
    let facts = CrashFacts::from_metadata(diagnostic.metadata);
    if stacks.places.is_empty() && !facts.has_reason() {
        let problem = "this is a crash diagnostic of MetricKit without frames in its `callStackTree`, and without an exception, a \
                       signal or a reason: send the diagnostic as MetricKit writes it";
        return Err(ReadError::Unsupported { problem: problem.to_owned() });
    }
    let images = PlacedImages::from_frames(&stacks.places);
    let mut translated =
        TranslatedReport { frames: stacks.members.clone(), report, ..TranslatedReport::default() };
    let id = root.find_path(&["report", "id"]).and_then(JsonValue::decode_string);
    let id = id.unwrap_or_else(|| text_id(&translated.stripped(bytes)));
    let mut json = JsonBuilder::default();
    json.item(|json| {
        crash::write_header(root, diagnostic.metadata, &id, json);
        images.write_images(json);
        json.object("crash", |json| {
            facts.write_error(json);
            stacks.write_threads(&images, json);
        });
        if let Some(own) = own_value(root, &translated.report) {
            json.value("symbolication", own);
        }
    });
    translated.json = json.into_bytes();
    Ok(translated)
}

/// Returns the bytes of our member's value in an enriched object.
pub fn own_value<'a>(object: JsonValue<'a>, place: &MemberPlace) -> Option<&'a [u8]> {
    let member = object.document().get(place.own_member.clone()?)?;
    let colon = member.iter().position(|byte| *byte == b':')?;
    Some(member.get(colon + 1..)?.trim_ascii_start())
}
