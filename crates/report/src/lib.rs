//! KSCrash reports, read without changing a byte of them.
//!
//! One pass over the bytes checks the JSON grammar within fixed limits. It records the byte offsets of the
//! frames, and the contents of the frames and images. It reads nothing else and copies nothing. Later output
//! is spliced into the unchanged input.

#![warn(missing_docs)]

mod blank;
mod device_clock;
pub mod device_models;
pub mod device_name;
mod error;
mod exception_names;
mod foreign;
mod image_message;
pub mod jetsam;
mod json;
pub mod markdown;
mod measurement;
pub mod reader;
mod report;
mod spans;
pub mod splice;
mod split;
mod system_path;
pub mod text;
mod users;
mod warning;

pub use blank::{BlankFrame, FrameSlot};
pub use device_clock::device_clock_time;
pub use error::{ReadError, ReadLimits};
pub use exception_names::{exception_name, exception_number, read_signal, signal_name, signal_number};
pub use foreign::{ForeignFormat, foreign_format};
pub use json::{MemberPlace, NestedObject, NestedShape, Number, Text, Value as JsonValue};
pub use measurement::{RegionalNumber, parse_measurement};
pub use report::context::{
    AppState, Breadcrumb, ContextKey, CorpseFact, CorpseValue, DeviceState, ReportContext, list_state_facts,
};
pub use report::crash_error::{CrashError, ExitReason};
pub use report::crash_state::{CrashState, NotableAddress, StackWindow};
pub use report::javascript::{
    BundleModule, JavaScriptError, JavaScriptFrame, MOST_JAVASCRIPT_FRAMES, OurJavaScriptFrame, platform_name,
};
pub use report::memory::{AllocationWeight, MemoryEvent, MemoryEventKind};
pub use report::ours::{
    ENGINE_PREFIX, FrameCounts, OurCall, OurFinding, OurFrame, OurImage, OurVariable, Ours, OwnFrames,
    format_value,
};
pub use report::process_identity::ProcessIdentity;
pub use report::profile::load_address::load_address;
pub use report::profile::{DiagnosticKind, ProfileNode, ReportProfile, TreeEnds, tree_samples};
pub use report::summary::{ReportSummary, TopFrame};
pub use report::{
    Backtrace, BacktraceOrigin, ErrorKind, Frame, Image, Invalid, Report, ReportPart, ThreadFacts,
};
pub use split::{Element, LenientElement, MOST_ELEMENTS, split_leniently, split_record};
pub use system_path::{is_framework_name, is_system_file_name, is_system_path};
pub use users::list_users;
pub use warning::{Warning, WarningKind};
