//! Our symbolicated frames of a JavaScript error, read back.

use crate::json::{Value, debug_id};
use unslide_model::DebugId;

/// The maximum number of frames read from one error.
pub const MOST_JAVASCRIPT_FRAMES: usize = 256;
/// The maximum number of source lines of a frame: its own line and those around it.
const MOST_LINES: usize = 11;

/// One item of `symbolication.javascript.frames`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OurJavaScriptFrame {
    /// `symbolicated`, `missing`, …
    pub status: String,
    /// The bundle's file name.
    pub bundle: Option<String>,
    /// The bundle's debug id.
    pub debug_id: Option<DebugId>,
    /// The function's name.
    pub function: Option<String>,
    /// True if the function's name comes from the device.
    pub(crate) by_device: bool,
    /// The path of the source file.
    pub file: Option<String>,
    /// The line in the source file, from 1. While the source map is missing, the line in the bundle.
    pub line: Option<u32>,
    /// The column, from 1.
    pub column: Option<u32>,
    /// True for a function of the app, false for one of a library.
    pub in_app: bool,
    /// True for a component of React that was being rendered, and no call of the error's stack.
    pub is_component: bool,
    /// True if the function's name is a guess.
    pub approximate: bool,
    /// The source lines around the frame's own, and the number of the first.
    pub(crate) context: Option<OurContext>,
}

/// Lines of a source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OurContext {
    pub(crate) first_line: u32,
    pub(crate) lines: Vec<String>,
}

/// Reads `symbolication.javascript`.
pub(crate) fn read_frames(value: Value<'_>) -> Vec<OurJavaScriptFrame> {
    let frames = value.get("frames").map(Value::items).unwrap_or_default();
    frames.into_iter().take(MOST_JAVASCRIPT_FRAMES).map(OurJavaScriptFrame::from_value).collect()
}

impl OurJavaScriptFrame {
    /// Returns true if the function's name comes from the device.
    #[must_use]
    pub fn is_named_by_device(&self) -> bool {
        self.by_device
    }

    /// Returns true if only the frame's status was stored. Every frame has a bundle, except the engine's.
    #[must_use]
    pub fn is_shortened(&self) -> bool {
        self.status != "device" && self.bundle.is_none()
    }

    fn from_value(value: Value<'_>) -> OurJavaScriptFrame {
        let mut frame = OurJavaScriptFrame::default();
        value.each_member(|key, value| match key {
            b"status" => frame.status = value.decode_string().unwrap_or_default(),
            b"bundle" => frame.bundle = value.decode_string(),
            b"debug_id" => frame.debug_id = value.as_uuid().and_then(debug_id),
            b"function" => frame.function = value.decode_string(),
            b"function_source" => frame.by_device = value.as_text().is_some_and(|source| source.is("device")),
            b"file" => frame.file = value.decode_string(),
            b"line" => frame.line = value.unsigned_32(),
            b"column" => frame.column = value.unsigned_32(),
            b"in_app" => frame.in_app = value.as_boolean() == Some(true),
            b"component" => frame.is_component = value.as_boolean() == Some(true),
            b"approximate" => frame.approximate = value.as_boolean() == Some(true),
            b"context" => {
                let [first, lines] = value.find_members(["first_line", "lines"]);
                let lines = lines.map(Value::items).unwrap_or_default();
                let lines = lines.into_iter().take(MOST_LINES).filter_map(Value::decode_string).collect();
                frame.context =
                    Some(OurContext { first_line: first.and_then(Value::unsigned_32).unwrap_or(1), lines });
            }
            _ => {}
        });
        frame
    }
}
