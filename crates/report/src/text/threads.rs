//! What a page shows of a backtrace, and how much of it.

use super::escaped_text;
use crate::Text;
use unslide_model::DebugId;

/// Frames that are shown of one report, or of one thread of it.
const MOST_FRAMES: usize = 5_000;
/// Bytes of texts that are shown of one report.
const MOST_TEXT: usize = 2 << 20;

/// A backtrace.
#[derive(Clone, Debug, Default)]
pub struct ThreadView {
    /// Its position in [`Report::backtraces`](crate::Report::backtraces); their number for the frames of an error of JavaScript.
    pub position: usize,
    /// The thread's number; `None` for the backtrace of an exception and of an error of JavaScript.
    pub number: Option<u64>,
    /// The thread's name, else its queue's.
    pub name: Option<String>,
    /// True for the thread that crashed.
    pub crashed: bool,
    /// True for the frames of an error of JavaScript.
    pub is_javascript: bool,
    /// True for what was sampled before the app's end, which is not the cause of it.
    pub is_sample: bool,
    /// Frames that the device left out at the hot end.
    pub skipped: u64,
    /// The frames, the innermost first.
    pub frames: Vec<FrameView>,
    /// True where there was no room for the frames: [`thread_view`](super::view::thread_view) has them.
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
    /// True where the image is of the operating system.
    pub system: bool,
    /// The address.
    pub address: u64,
    /// Bytes from the image's start.
    pub relative: Option<u64>,
    /// `symbolicated`, `device`, `missing`, …
    pub status: String,
    /// Something had to be assumed.
    pub approximate: bool,
    /// The functions, the innermost inlined one first; empty where none is known.
    pub calls: Vec<CallView>,
    /// Lines of the source around the frame's own, and their numbers.
    pub context: Vec<(u64, String)>,
    /// Where the frame is in its bundle of JavaScript, such as `1:2345`, while the source map is missing.
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

/// How much may still be shown.
pub(super) struct ViewRoom {
    pub(super) frames: usize,
    text: usize,
    /// True where something was left out.
    pub(super) cut: bool,
}

impl Default for ViewRoom {
    fn default() -> ViewRoom {
        ViewRoom { frames: MOST_FRAMES, text: MOST_TEXT, cut: false }
    }
}

impl ViewRoom {
    pub(super) fn frame(&mut self) -> bool {
        self.cut |= self.frames == 0;
        self.frames = self.frames.saturating_sub(1);
        !self.cut
    }

    /// A text of the report, where there is room for it.
    pub(super) fn text(&mut self, text: Text<'_>) -> String {
        self.own(escaped_text(text).into_owned())
    }

    pub(super) fn own(&mut self, text: String) -> String {
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
