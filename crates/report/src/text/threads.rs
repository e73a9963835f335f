//! Backtraces for a page, and their size limits.

use super::escaped_text;
use crate::Text;
use unslide_model::DebugId;

/// The maximum number of frames shown of one report, or of one thread of it.
const MOST_FRAMES: usize = 5_000;
/// The maximum size of texts shown of one report, in bytes.
const MOST_TEXT: usize = 2 << 20;

/// A backtrace.
#[derive(Clone, Debug, Default)]
pub struct ThreadView {
    /// Its position in [`Report::backtraces`](crate::Report::backtraces). For a JavaScript error, the number of
    /// backtraces.
    pub position: usize,
    /// The thread's number, or `None` for the backtrace of an exception or a JavaScript error.
    pub number: Option<u64>,
    /// The thread's name, or else its queue's.
    pub name: Option<String>,
    /// True for the thread that crashed.
    pub crashed: bool,
    /// True for the frames of a JavaScript error.
    pub is_javascript: bool,
    /// True for a sample from before the app's end. It does not show the cause.
    pub is_sample: bool,
    /// The number of frames that the device omitted at the innermost end.
    pub skipped: u64,
    /// The frames, the innermost first.
    pub frames: Vec<FrameView>,
    /// True if the frames did not fit: [`thread_view`](super::view::thread_view) returns them.
    pub left_out: bool,
}

/// A frame.
#[derive(Clone, Debug, Default)]
pub struct FrameView {
    /// Its position, 0 for the innermost.
    pub index: usize,
    /// The image's file name.
    pub image: Option<String>,
    /// The image's debug id.
    pub debug_id: Option<DebugId>,
    /// True if the image belongs to the operating system.
    pub system: bool,
    /// The address.
    pub address: u64,
    /// The offset of the address from the image's start, in bytes.
    pub relative: Option<u64>,
    /// `symbolicated`, `device`, `missing`, …
    pub status: String,
    /// True if the result depends on an assumption.
    pub approximate: bool,
    /// The functions, the innermost inlined one first. Empty if none is known.
    pub calls: Vec<CallView>,
    /// True if a source map gave the position of the frame.
    pub is_mapped: bool,
    /// The source lines around the frame's own, with their numbers.
    pub context: Vec<(u64, String)>,
    /// The frame's place in its JavaScript bundle, such as `1:2345`, while the source map is missing.
    pub bundle_place: Option<String>,
    /// The command that uploads the missing source map.
    pub upload: Option<String>,
}

/// A function of a frame.
#[derive(Clone, Debug, Default)]
pub struct CallView {
    /// The function's name.
    pub function: String,
    /// The source file's name.
    pub file: Option<String>,
    /// The source file's path.
    pub path: Option<String>,
    /// The line in it.
    pub line: Option<u64>,
    /// True for a function that was inlined into the next.
    pub inlined: bool,
}

/// The remaining capacity of a page.
pub(super) struct ViewRoom {
    pub(super) frames: usize,
    text: usize,
    /// True if something was left out.
    pub(super) cut: bool,
}

impl Default for ViewRoom {
    fn default() -> ViewRoom {
        ViewRoom { frames: MOST_FRAMES, text: MOST_TEXT, cut: false }
    }
}

impl ViewRoom {
    pub(super) fn take_frame(&mut self) -> bool {
        self.cut |= self.frames == 0;
        self.frames = self.frames.saturating_sub(1);
        !self.cut
    }

    /// Returns a text of the report if it fits.
    pub(super) fn take_text(&mut self, text: Text<'_>) -> String {
        self.take_string(escaped_text(text).into_owned())
    }

    pub(super) fn take_string(&mut self, text: String) -> String {
        match self.text.checked_sub(text.len()) {
            Some(left) => {
                self.text = left;
                text
            }
            None => {
                self.cut = true;
                String::new()
            }
        }
    }
}
