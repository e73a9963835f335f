//! Call trees that other tools have written: `sample`, spindump and its relatives, MetricKit's diagnostics,
//! and folded stacks. Read to the frames as the file has them; [`Profile::symbolicate`] makes a call tree.

mod image_list;
mod images;
mod readers;
mod symbolicate;

pub use image_list::read_images;
pub(crate) use images::ImageRanges;
pub use images::ProfileImage;
pub use readers::read_profile;
pub use symbolicate::SymbolicatedTree;
pub(crate) use symbolicate::{FrameNames, LackingImages, NamedCall};

use unslide_calltree::SourcePlace;

/// The most bytes of a file.
pub const MOST_BYTES: usize = 64 << 20;
/// The most frames that are read.
const MOST_FRAMES: usize = 1 << 20;
/// The most images that are read.
const MOST_IMAGES: usize = 1 << 16;

/// The format of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProfileFormat {
    /// The text of `sample`.
    Sample,
    /// The text of spindump, and of reports of hangs, of CPU use and of disk writes.
    Spindump,
    /// MetricKit's JSON.
    MetricKit,
    /// Folded stacks.
    Folded,
    /// The message `unslide.signal.v1.StackSet`.
    StackSet,
}

/// Why a file is no profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Larger than [`MOST_BYTES`].
    #[error("the profile has more than {MOST_BYTES} bytes")]
    TooLarge,
    /// In none of the formats.
    #[error(
        "not a profile: neither the text of sample, spindump or a hang report, nor MetricKit's JSON, nor folded stacks"
    )]
    Unknown,
    /// A backtrace, which looks like folded stacks of large counts.
    #[error(
        "a backtrace, not a profile: it has one stack and no samples that a graph could show. Send the report that it is \
         from to `unslide symbolicate`, or record a profile with sample, spindump or MetricKit"
    )]
    Backtrace,
    /// JSON that cannot be read.
    #[error("not JSON: {0}")]
    Json(String),
    /// Without a single frame.
    #[error("the profile has no frames")]
    Empty,
}

/// A call tree as its file has it.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The format that it was read from.
    pub format: ProfileFormat,
    /// The binaries that addresses lie in.
    pub images: Vec<ProfileImage>,
    /// Its frames and labels, callers before the functions that they call.
    pub frames: Vec<ProfileFrame>,
    /// Lines or objects among the frames that could not be read, and frames beyond the limits.
    pub skipped: u64,
}

/// A frame of a profile, with all that it calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileFrame {
    /// The position of its caller; `None` for an outermost one.
    pub parent: Option<u32>,
    /// The samples of the frame and all below it.
    pub count: u64,
    /// True for a thread, a process or a diagnostic, which `symbol` names.
    pub label: bool,
    /// The function's name in the file's words.
    pub symbol: Option<String>,
    /// The position of its image.
    pub image: Option<u32>,
    /// The image's name as the file writes it; empty if it has none.
    pub image_name: String,
    /// Addresses in the process. Several are of one function.
    pub addresses: Vec<u64>,
    /// True if the addresses are program counters. Otherwise they are return addresses.
    pub exact: bool,
    /// True for the kernel's code.
    pub kernel: bool,
    /// The line of its source in the file's words.
    pub place: Option<SourcePlace>,
}

impl Profile {
    fn new(format: ProfileFormat) -> Profile {
        Profile { format, images: Vec::new(), frames: Vec::new(), skipped: 0 }
    }

    /// Adds a frame and returns its position. Returns `None` if there are too many.
    fn push(&mut self, frame: ProfileFrame) -> Option<u32> {
        if self.frames.len() >= MOST_FRAMES {
            self.skipped += 1;
            return None;
        }
        self.frames.push(frame);
        u32::try_from(self.frames.len() - 1).ok()
    }

    /// Marks the frames from `first` on that call nothing: only their addresses are program counters.
    fn mark_leaves(&mut self, first: usize) {
        let frames = &mut self.frames[first..];
        let mut calls = vec![false; frames.len()];
        for parent in frames.iter().filter_map(|frame| frame.parent) {
            if let Some(caller) = (parent as usize).checked_sub(first).and_then(|at| calls.get_mut(at)) {
                *caller = true;
            }
        }
        for (frame, calls) in frames.iter_mut().zip(calls) {
            frame.exact = !calls;
        }
    }
}

/// Parses a hexadecimal number that begins with `0x`.
fn parse_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
