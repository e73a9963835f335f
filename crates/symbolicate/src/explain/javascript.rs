//! Why each frame of a JavaScript error got its answer.

use super::Room;
use super::advice::missing_map;
use crate::answer::Judged;
use crate::grouping::CountedFrame;
use crate::javascript::{self, FunctionSource, JavaScriptAnswer};
use crate::plan::Plan;
use crate::status::FrameStatus;
use serde::Serialize;
use unslide_model::DebugId;
use unslide_report::JavaScriptFrame;

/// The steps from a JavaScript frame to its answer.
#[derive(Clone, Debug, Serialize)]
pub struct ExplainedJavaScriptFrame {
    /// Its position, 0 the innermost.
    pub index: usize,
    /// The bundle's file name; absent for a function of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    /// The debug id by which the source map is looked up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debug_id: Option<DebugId>,
    /// The line in the bundle, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle_line: Option<u32>,
    /// The column in the bundle, from 0, or the offset in Hermes bytecode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle_column: Option<u32>,
    /// Status of the frame.
    pub status: FrameStatus,
    /// The function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Source of the function's name: `function_map`, `scope`, `device` or `caller`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function_source: Option<FunctionSource>,
    /// The source file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// True for a function of the app.
    pub in_app: bool,
    /// True if it is part of the group's fingerprint.
    pub counted: bool,
    /// The reason for the status, as a sentence.
    pub reason: String,
}

/// Explains the frames of a plan's JavaScript error, as many as fit.
pub(super) fn explain_javascript_frames(
    plan: &Plan<'_, '_>,
    judged: &[Judged<'_>],
    counted: &[CountedFrame],
    room: &mut Room,
) -> Vec<ExplainedJavaScriptFrame> {
    let Some(error) = &plan.javascript else { return Vec::new() };
    let answers = javascript::answer_frames(error, judged);
    let mut explained = Vec::new();
    for (index, (answer, (frame, image))) in answers.iter().zip(error.frames()).enumerate() {
        if !room.try_reserve_frame() {
            break;
        }
        let image = image.and_then(|image| plan.images.get(image as usize));
        let missing = image.filter(|_| answer.status == FrameStatus::Missing);
        let advice = missing.map(|image| missing_map(error, image));
        let advice = advice.filter(|advice| room.try_reserve_text(advice.len()));
        let place = answer.place.as_ref().filter(|place| place.file.is_some());
        explained.push(ExplainedJavaScriptFrame {
            index,
            bundle: frame.bundle.clone(),
            debug_id: image.and_then(|image| image.debug_id),
            bundle_line: frame.line,
            bundle_column: frame.column,
            status: answer.status,
            function: answer.function.as_ref().map(|(name, _)| name.to_string()),
            function_source: answer.function.as_ref().map(|(_, source)| *source),
            file: place.and_then(|place| place.file).map(|file| file.decode().into_owned()),
            line: place.map(|place| place.line.saturating_add(1)),
            in_app: answer.in_app,
            counted: counted.iter().any(|counted| counted.frame == index),
            reason: describe_reason(answer, frame, advice),
        });
    }
    explained
}

fn describe_reason(answer: &JavaScriptAnswer<'_>, frame: &JavaScriptFrame, advice: Option<String>) -> String {
    let of_status = match answer.status {
        FrameStatus::Symbolicated => match answer.function.as_ref().map(|(_, source)| *source) {
            Some(FunctionSource::FunctionMap) => "the source map answered, and names the function around",
            Some(FunctionSource::Scope) => {
                "the source map answered; the text of the source has the function around"
            }
            Some(FunctionSource::Caller) => {
                "the source map answered; the function is named as the next frame calls it, which is a guess"
            }
            Some(FunctionSource::Device) => {
                "the source map answered, and names no function; the name is the device's"
            }
            None => "the source map answered, and the function has no known name",
        },
        FrameStatus::Device => "it is a function of the engine",
        FrameStatus::MissingSymbol => "the source map says that this code comes from no source",
        FrameStatus::InvalidAddress => "the frame has no line, or no column in it",
        FrameStatus::UnknownImage => "the error has too many bundles",
        FrameStatus::Malformed => "what was uploaded for the bundle is broken, or no source map",
        FrameStatus::Unsupported if frame.is_bytecode => {
            "the source map is the bundler's: for bytecode upload the one that compose-source-maps writes"
        }
        FrameStatus::Unsupported if frame.module.is_some() => {
            "the source map knows no such module: upload the one that was written with the RAM bundle"
        }
        FrameStatus::Unsupported => "the source map is of a kind that is not read",
        FrameStatus::FetchingFailed => "the source map could not be fetched",
        FrameStatus::Missing => "no source map is known for the bundle",
    };
    advice.unwrap_or_else(|| of_status.to_owned())
}
