//! Answers for the frames of a JavaScript error.

use super::device_name::{is_numbered, stable_device_name};
use super::table::{MappedPlace, SourceMapTable};
use crate::answer::Judged;
use crate::plan::PlannedJavaScript;
use crate::status::{FrameStatus, ImageStatus};
use crate::symcache::SymCache;
use std::borrow::Cow;
use std::ops::Range;
use unslide_model::words;
use unslide_report::{JavaScriptFrame, Text};

words! {
    /// Source of a frame's function name. The first one available is used.
    pub enum FunctionSource {
        /// The source map's function map, at the position.
        FunctionMap = "function_map",
        /// The text of the source, at the position.
        Scope = "scope",
        /// The device.
        Device = "device",
        /// The name in the map at the call in the next frame, which is a guess.
        Caller = "caller",
    }
}

/// The answer for one frame.
pub(crate) struct JavaScriptAnswer<'s> {
    pub(crate) status: FrameStatus,
    pub(crate) place: Option<MappedPlace<'s>>,
    pub(crate) function: Option<(Cow<'s, str>, FunctionSource)>,
    pub(crate) in_app: bool,
    pub(crate) approximate: bool,
    /// The bundle's position among the plan's images.
    pub(crate) image: Option<u32>,
}

impl JavaScriptAnswer<'_> {
    fn with_status(self, status: FrameStatus) -> Self {
        JavaScriptAnswer { status, ..self }
    }

    /// True if no better source names the function than the text of its call.
    fn may_be_named_by_caller(&self, called: &str) -> bool {
        // The source's text shows that the function has no name.
        if self.place.as_ref().is_none_or(|place| place.has_scopes) {
            return false;
        }
        match &self.function {
            None => true,
            Some((name, FunctionSource::Device)) => {
                stable_device_name(name).is_none() || is_numbered(name, called)
            }
            Some(_) => false,
        }
    }

    /// True for a function of the engine itself, which no map covers.
    pub(crate) fn is_of_engine(&self) -> bool {
        self.status == FrameStatus::Device
    }
}

/// Answers every frame. `judged` are the checked images of the plan.
pub(crate) fn answer_frames<'s>(
    javascript: &'s PlannedJavaScript,
    judged: &[Judged<'s>],
) -> Vec<JavaScriptAnswer<'s>> {
    let mut answers: Vec<JavaScriptAnswer<'s>> =
        javascript.frames().map(|(frame, image)| answer_frame(frame, image, judged)).collect();
    for at in 0..answers.len() {
        // The name at the caller's position is the name of the function that it calls.
        let called = answers.get(at + 1).and_then(|caller| caller.place.as_ref()?.name);
        let Some(name) = called.filter(|name| !name.is_empty()).map(Text::decode) else { continue };
        let Some(own) = answers.get_mut(at).filter(|own| own.may_be_named_by_caller(&name)) else { continue };
        own.function = Some((name, FunctionSource::Caller));
        own.approximate = true;
    }
    answers
}

fn answer_frame<'s>(
    frame: &'s JavaScriptFrame,
    image: Option<u32>,
    judged: &[Judged<'s>],
) -> JavaScriptAnswer<'s> {
    let function = frame.function.as_deref().map(|name| (Cow::Borrowed(name), FunctionSource::Device));
    let own = JavaScriptAnswer {
        status: FrameStatus::Device,
        place: None,
        function,
        in_app: frame.bundle.is_some(),
        approximate: false,
        image,
    };
    if frame.bundle.is_none() {
        return own;
    }
    let Some(judged) = image.and_then(|image| judged.get(image as usize)) else {
        return own.with_status(FrameStatus::UnknownImage);
    };
    // A line of a bundle is very long: without a column it says nothing.
    let line = frame.line.and_then(|line| line.checked_sub(1));
    let Some(place) = line.zip(frame.column) else { return own.with_status(FrameStatus::InvalidAddress) };
    match judged.status {
        ImageStatus::Missing => own.with_status(FrameStatus::Missing),
        ImageStatus::Malformed => own.with_status(FrameStatus::Malformed),
        ImageStatus::Unsupported => own.with_status(FrameStatus::Unsupported),
        ImageStatus::FetchingFailed => own.with_status(FrameStatus::FetchingFailed),
        ImageStatus::Found => match judged.symbols.and_then(SymCache::source_map) {
            None => own.with_status(FrameStatus::Malformed),
            Some(table) => match table.find_part(frame.module) {
                None => own.with_status(FrameStatus::Unsupported),
                // A bundler's map of many lines does not cover bytecode, which is one line.
                Some(lines) if frame.is_bytecode && lines.len() > 1 => {
                    own.with_status(FrameStatus::Unsupported)
                }
                Some(lines) => look_up_place(own, &table, lines, place.0, place.1),
            },
        },
    }
}

fn look_up_place<'s>(
    own: JavaScriptAnswer<'s>,
    table: &SourceMapTable<'s>,
    lines: Range<u32>,
    line: u32,
    column: u32,
) -> JavaScriptAnswer<'s> {
    let line = lines.start.checked_add(line).filter(|line| lines.contains(line));
    let Some(place) = line.and_then(|line| table.lookup(line, column)) else {
        // Code that a bundler put between the sources.
        return JavaScriptAnswer { status: FrameStatus::MissingSymbol, in_app: false, ..own };
    };
    let source = if place.has_scopes { FunctionSource::Scope } else { FunctionSource::FunctionMap };
    let named = place.function.map(|name| (name.decode(), source));
    JavaScriptAnswer {
        status: FrameStatus::Symbolicated,
        function: named.or(own.function),
        in_app: !place.is_library,
        approximate: false,
        place: Some(place),
        image: own.image,
    }
}
