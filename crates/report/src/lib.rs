//! KSCrash reports, read without changing a byte of them.
//!
//! One pass over the bytes checks the grammar of JSON within fixed bounds and notes where the
//! frames are and what they and the images say. Nothing else of a report is looked at, nothing is
//! copied, and what is written later is spliced into the input as it came.

mod blank;
mod cursor;
pub mod device_name;
mod error;
mod facts;
mod foreign;
mod frames;
mod number;
mod our_frame;
mod ours;
mod read;
mod report;
mod report_part;
mod scan;
pub mod splice;
mod split;
mod string;
mod summary;
pub mod text;
mod timestamp;
mod value;
mod warning;

pub use blank::{BlankFrame, FrameSlot};
pub use error::{ReadError, ReadLimits};
pub use foreign::{ForeignFormat, foreign_format};
pub use number::Number;
pub use our_frame::{OurCall, OurFrame};
pub use ours::{ENGINE_PREFIX, FrameCounts, OurImage, Ours};
pub use report::{Backtrace, ErrorKind, Frame, Image, Invalid, Origin, Part, Report, ThreadFacts};
pub use split::{Element, MOST_ELEMENTS, split};
pub use string::Text;
pub use summary::{Summary, TopFrame};
pub use warning::{Warning, WarningKind};
