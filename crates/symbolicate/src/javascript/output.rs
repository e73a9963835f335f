//! The part of the report's member about its JavaScript error.

use super::JavaScriptAnswer;
use crate::answer::Judged;
use crate::json::{ObjectWriter, key};
use crate::plan::PlannedJavaScript;
use crate::status::FrameStatus;
use crate::symcache::SymCache;
use unslide_report::Text;

/// Source lines on each side of a frame's own.
const CONTEXT_LINES: u32 = 5;
/// The most frames with context lines.
const MOST_CONTEXTS: usize = 16;

/// How much detail is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JavaScriptDetail {
    /// Everything.
    Full,
    /// Everything but the context lines.
    WithoutContext,
    /// The status of each frame.
    StatusOnly,
}

/// Returns the most bytes of the part with the least detail.
pub(crate) fn least_bytes(javascript: &PlannedJavaScript) -> usize {
    const FRAME_BYTES: usize = 32;
    const MEMBER_BYTES: usize = 64;
    MEMBER_BYTES + javascript.error.frames.len() * FRAME_BYTES
}

/// Writes the value of the report's member `javascript`.
pub(crate) fn write_javascript(
    out: &mut Vec<u8>,
    javascript: &PlannedJavaScript,
    answers: &[JavaScriptAnswer<'_>],
    judged: &[Judged<'_>],
    detail: JavaScriptDetail,
) {
    let mut object = ObjectWriter::open(out);
    if let Some(name) = javascript.error.name.as_ref().filter(|_| detail != JavaScriptDetail::StatusOnly) {
        object.write_text(key!("name"), name);
    }
    let out = object.write_key(key!("frames"));
    let mut contexts = 0;
    for (at, (answer, (frame, _))) in answers.iter().zip(javascript.frames()).enumerate() {
        out.push(if at == 0 { b'[' } else { b',' });
        let mut object = ObjectWriter::open(out);
        object.write_escaped(key!("status"), answer.status.as_str().as_bytes());
        if detail != JavaScriptDetail::StatusOnly {
            write_origin(&mut object, answer, frame.bundle.as_deref(), judged);
            // Until a file is known, the position is the one in the bundle.
            let place = answer.place.as_ref().filter(|place| place.file.is_some());
            let place = place.map(|place| (place.line.saturating_add(1), place.column));
            let in_bundle =
                frame.line.filter(|_| !answer.is_of_engine()).map(|line| (line, frame.column.unwrap_or(0)));
            if let Some((line, column)) = place.or(in_bundle) {
                object.write_number(key!("line"), line);
                object.write_number(key!("column"), column.saturating_add(1));
            }
            object.write_flag(key!("in_app"), answer.in_app);
            object.write_flag(key!("component"), frame.is_component);
            object.write_flag(key!("approximate"), answer.approximate);
        }
        if detail == JavaScriptDetail::Full && answer.in_app && contexts < MOST_CONTEXTS {
            contexts += usize::from(write_context(&mut object, answer, judged));
        }
        object.close();
    }
    out.push(b']');
    object.close();
}

fn write_origin(
    object: &mut ObjectWriter<'_>,
    answer: &JavaScriptAnswer<'_>,
    bundle: Option<&str>,
    judged: &[Judged<'_>],
) {
    if let Some(bundle) = bundle {
        object.write_text(key!("bundle"), bundle);
    }
    let judged = answer.image.and_then(|image| judged.get(image as usize));
    if let Some(id) = judged.and_then(|judged| judged.debug_id.as_ref()) {
        object.write_escaped(key!("debug_id"), id);
    }
    if let Some((function, source)) = &answer.function {
        object.write_text(key!("function"), function);
        object.write_escaped(key!("function_source"), source.as_str().as_bytes());
    }
    if let Some(file) = answer.place.as_ref().and_then(|place| place.file) {
        object.write_escaped(key!("file"), file.raw());
    }
}

/// Writes the lines around a frame's own. Returns false if the map has no sources.
fn write_context(
    object: &mut ObjectWriter<'_>,
    answer: &JavaScriptAnswer<'_>,
    judged: &[Judged<'_>],
) -> bool {
    let symbols = answer.image.and_then(|image| judged.get(image as usize)?.symbols);
    let table = symbols.and_then(SymCache::source_map);
    let around = answer.place.as_ref().filter(|_| answer.status == FrameStatus::Symbolicated);
    let around = around.and_then(|place| table?.find_context(place, CONTEXT_LINES));
    let Some((first, lines)) = around else { return false };
    let mut own = ObjectWriter::open(object.write_key(key!("context")));
    own.write_number(key!("first_line"), first.saturating_add(1));
    write_texts(own.write_key(key!("lines")), &lines);
    own.close();
    true
}

fn write_texts(out: &mut Vec<u8>, lines: &[Text<'_>]) {
    for (at, line) in lines.iter().enumerate() {
        out.extend_from_slice(if at == 0 { b"[\"" } else { b",\"" });
        out.extend_from_slice(line.raw());
        out.push(b'"');
    }
    out.push(b']');
}
