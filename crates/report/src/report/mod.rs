//! A report as far as symbolication needs it: what the scanner leaves behind.

pub(crate) mod crash_error;
pub(crate) mod javascript;
pub(crate) mod memory;
pub(crate) mod ours;
pub(crate) mod process_identity;
pub(crate) mod profile;
pub(crate) mod read;
pub(crate) mod summary;

use crate::image_message::ImageMessage;
use crate::jetsam::JetsamEvent;
use crate::{BlankFrame, Number, Ours, Text, Warning};
use crash_error::CrashError;
use memory::MemoryEvent;
use memory::member::MEMORY_MEMBERS;
use profile::diagnostic_kind::Diagnostic;
use profile::tree::CallStackTree;
use std::ops::Range;
use std::sync::OnceLock;
use unslide_model::{CpuType, DebugId, ReportId};

/// One report, read. Everything borrows from the bytes that were read; nothing is cleaned or
/// interpreted beyond its type.
#[derive(Debug)]
pub struct Report<'a> {
    /// The bytes that were read. Every offset below counts from their beginning.
    pub input: &'a [u8],
    /// `report.id`, else `recrash_report.report.id`, else the first 16 bytes of the SHA-256 of the
    /// input without what we added to it.
    pub id: ReportId,
    /// The outer report, then each `recrash_report`, at most four of them. Never empty.
    pub parts: Vec<ReportPart<'a>>,
    /// Every list of frames that is symbolicated, in the order of the document, so that
    /// [`Frame::insert_at`] ascends over all of them.
    pub backtraces: Vec<Backtrace<'a>>,
    /// What was tolerated, each kind at each place once.
    pub warnings: Vec<Warning>,
    /// How many members of arrays were left alone because they are no objects.
    pub invalid: Invalid,
    /// The offset of the closing brace of the report object.
    pub insert_at: usize,
    /// True where the report object has members, ours not counted.
    pub has_members: bool,
    /// What we added earlier, read back; `None` on a report that was not enriched.
    pub ours: Option<Ours>,
    /// The bytes of our member of the report object, comma included; they end before
    /// [`Report::insert_at`].
    pub own_member: Option<Range<usize>>,
    /// The Jetsam event that the report is; `None` for any other report.
    pub jetsam: Option<Box<JetsamEvent>>,
    /// What [`Report::memory_event`] has found.
    memory: OnceLock<Option<MemoryEvent>>,
    /// What [`Report::crash_error`] has found.
    error: OnceLock<CrashError>,
}

/// Members of arrays that are no objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Invalid {
    /// In `crash.threads`.
    pub threads: u64,
    /// In a backtrace's `contents`, or a profile's `frames`.
    pub frames: u64,
    /// In `binary_images`.
    pub images: u64,
}

/// The outer report or a `recrash_report`: what holds for all its frames.
#[derive(Clone, Debug, Default)]
pub struct ReportPart<'a> {
    /// The objects of its own `binary_images` that have an address, a debug id or a name, in their order.
    pub images: Vec<Image<'a>>,
    /// What one of these images says of the end of its process.
    pub(crate) message: Option<ImageMessage<'a>>,
    /// The part with the images that its frames refer to: itself, or where it has none the nearest part
    /// that has some (the inner one first). `None` where no part has images.
    pub image_source: Option<usize>,
    /// `crash.error.type`.
    pub error_type: Option<Text<'a>>,
    /// `report.monitor_id`, such as `MetricKit` or `profile`.
    pub monitor_id: Option<Text<'a>>,
    /// `report.type`: `standard`, `minimal` or `custom`.
    pub report_type: Option<Text<'a>>,
    /// `report.id` where it is a UUID.
    pub report_id: Option<ReportId>,
    /// `system.app_uuid`: the main executable's debug id. Here and below, `system_atcrash` goes
    /// before `system`.
    pub app_uuid: Option<DebugId>,
    /// `system.CFBundleExecutable`: the main executable's file name.
    pub executable: Option<Text<'a>>,
    /// `system.CFBundleExecutablePath`: the main executable's path.
    pub executable_path: Option<Text<'a>>,
    /// `report.process_name`, else `system.process_name`.
    pub process_name: Option<Text<'a>>,
    /// `system.proc_translated`: x86_64 code on an arm64 machine.
    pub proc_translated: Option<bool>,
    /// `system.cpu_type` and `cpu_subtype`: the hardware.
    pub cpu: Option<CpuType>,
    /// `system.binary_cpu_type` and `binary_cpu_subtype`: the executable's slice.
    pub binary_cpu: Option<CpuType>,
    /// `system.cpu_arch`, such as `arm64e`: the hardware, never the frames.
    pub cpu_arch: Option<Text<'a>>,
    /// The diagnostic of MetricKit that the part is, where it has no crash.
    pub(crate) diagnostic: Option<Diagnostic>,
    /// How many diagnostics it has, whatever they are about.
    pub(crate) diagnostics: usize,
    /// Where the sections that only the summary and the text need begin.
    pub(crate) sections: Sections,
}

/// Offsets of the objects of a part that are read again on demand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sections {
    pub(crate) report: Option<usize>,
    pub(crate) system: Option<usize>,
    pub(crate) system_atcrash: Option<usize>,
    pub(crate) crash: Option<usize>,
    /// True where `crash.threads` is an array.
    pub(crate) has_threads: bool,
    pub(crate) error: Option<usize>,
    pub(crate) process: Option<usize>,
    /// The thread that the part is about: the one that crashed, else `crashed_thread`, else the one
    /// that ran the handler. With its position in `crash.threads`, 0 for `crashed_thread`.
    pub(crate) subject: Option<(usize, usize)>,
    pub(crate) memory: MemorySections,
}

/// Where the values of members about memory begin.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemorySections {
    /// In the report object, in `crash` and in `user`, by [`MemoryMember`](crate::report::memory::MemoryMember).
    pub(crate) members: [[Option<usize>; MEMORY_MEMBERS]; 3],
    /// The `stack_oom` of the stacks that were kept.
    pub(crate) allocations: Option<usize>,
}

/// What `crash.error.type` says, as far as a rule asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// `mach`: a Mach exception.
    Mach,
    /// `signal`: a POSIX signal.
    Signal,
    /// `nsexception`: an Objective-C exception.
    NsException,
    /// `cpp_exception`: a C++ exception.
    CppException,
    /// `user`: reported by the app itself.
    User,
    /// `deadlock`: the main thread's watchdog of old versions.
    Deadlock,
    /// `hang`: a hang that ended by itself.
    Hang,
    /// `profile`: a sampling profile.
    Profile,
    /// Any other text, or none.
    Other,
}

impl ReportPart<'_> {
    /// The kind of `crash.error.type`.
    #[must_use]
    pub fn error_kind(&self) -> ErrorKind {
        let Some(text) = self.error_type else { return ErrorKind::Other };
        match text.decode().as_ref() {
            "mach" => ErrorKind::Mach,
            "signal" => ErrorKind::Signal,
            "nsexception" => ErrorKind::NsException,
            "cpp_exception" => ErrorKind::CppException,
            "user" => ErrorKind::User,
            "deadlock" => ErrorKind::Deadlock,
            "hang" => ErrorKind::Hang,
            "profile" => ErrorKind::Profile,
            _ => ErrorKind::Other,
        }
    }

    /// True where the error is one that nothing but a crash, a hang or a profiler writes.
    pub(crate) fn is_of_another_event(&self) -> bool {
        !matches!(self.error_kind(), ErrorKind::User | ErrorKind::Deadlock | ErrorKind::Other)
    }

    /// True where `crash` has an error or threads.
    pub(crate) fn tells_of_crash(&self) -> bool {
        self.sections.error.is_some() || self.sections.has_threads
    }

    /// True where the error's type or the monitor is `profile`.
    #[must_use]
    pub fn is_profile(&self) -> bool {
        self.error_kind() == ErrorKind::Profile || self.monitor_id.is_some_and(|m| m.is("profile"))
    }

    /// True where the report is a MetricKit payload or was made from one.
    #[must_use]
    pub fn is_metric_kit(&self) -> bool {
        self.diagnostic.is_some() || self.monitor_id.is_some_and(|m| m.is("MetricKit"))
    }

    /// True where `report.type` is `minimal`: the crash of the crash handler.
    #[must_use]
    pub fn is_minimal(&self) -> bool {
        self.report_type.is_some_and(|t| t.is("minimal"))
    }
}

/// One object of `binary_images`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Image<'a> {
    /// `image_addr`: where the Mach-O header lies in memory.
    pub addr: Option<Number>,
    /// `image_vmaddr`: `__TEXT`'s vm address as the device reports it.
    pub vmaddr: Option<Number>,
    /// `image_size`: the size of `__TEXT`; 0 where it is absent or no unsigned integer.
    pub size: u64,
    /// `uuid`.
    pub uuid: Option<DebugId>,
    /// `name`: the path on the device.
    pub name: Option<Text<'a>>,
    /// `cpu_type` and `cpu_subtype`; `None` without a type. MetricKit's type is 0.
    pub cpu: Option<CpuType>,
}

/// Where a list of frames lies in its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BacktraceOrigin {
    /// `crash.threads[].backtrace`.
    Thread,
    /// `crash.crashed_thread.backtrace`.
    CrashedThread,
    /// `crash.last_exception_backtrace`.
    LastException,
    /// `process.last_dealloced_nsexception.backtrace`.
    DeallocatedException,
    /// `crash.error.profile.frames`.
    Profile,
    /// `stack_deadlock`: the main thread when it was found blocked.
    BlockedThread,
    /// One of `stack_oom`: where memory was allocated that is still held.
    AllocationStack,
    /// The frames of MetricKit's `callStackTree`, in the order in which they end.
    CallStackTree,
}

/// A list of frames.
#[derive(Clone, Debug)]
pub struct Backtrace<'a> {
    /// The index of its part in [`Report::parts`].
    pub part: usize,
    /// Where it lies.
    pub origin: BacktraceOrigin,
    /// The thread that it belongs to, for [`BacktraceOrigin::Thread`], [`BacktraceOrigin::CrashedThread`] and
    /// [`BacktraceOrigin::BlockedThread`]; of a [`BacktraceOrigin::AllocationStack`] its position alone.
    pub thread: Option<ThreadFacts>,
    /// `skipped`: frames that the writer left out at the hot end; 0 where absent.
    pub skipped: u64,
    /// The objects of `contents` that say something, in their order.
    pub frames: Vec<Frame<'a>>,
    /// The other objects of `contents`. [`Backtrace::slots`] has both, in the order of the document.
    pub blank_frames: Vec<BlankFrame>,
    /// How many members of `contents` are no objects.
    pub invalid: u64,
    /// Which frames call which, of [`BacktraceOrigin::CallStackTree`].
    pub(crate) tree: Option<Box<CallStackTree>>,
    /// Where `contents` begins.
    pub(crate) start: usize,
}

/// What a thread object says besides its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreadFacts {
    /// The thread's position in `crash.threads`, or the stack's in `stack_oom`, non-objects counted; 0 for a
    /// single thread.
    pub position: usize,
    /// `index`: the writer's own number of the thread, which need not be its position.
    pub index: Option<i64>,
    /// `crashed`; false where absent.
    pub crashed: bool,
    /// `current_thread`: the thread that ran the handler; false where absent.
    pub current_thread: bool,
    /// `pc`, `rip` or `eip` of `registers.basic`.
    pub pc: Option<Number>,
    /// True where `registers.basic` is an object with a member.
    pub has_registers: bool,
}

/// One frame object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame<'a> {
    /// The frame's position in its array, non-objects counted: 0 is the innermost.
    pub index: usize,
    /// The offset of the frame object's closing brace.
    pub insert_at: usize,
    /// True where the object has members (ours not counted), so that one more needs a comma.
    pub has_members: bool,
    /// `instruction_addr`.
    pub instruction_addr: Option<Number>,
    /// `object_addr`: the image's load address in the writer's opinion.
    pub object_addr: Option<Number>,
    /// `object_uuid`.
    pub object_uuid: Option<DebugId>,
    /// `object_name`: the image's file name in the writer's opinion.
    pub object_name: Option<Text<'a>>,
    /// `symbol_addr`: the start of the symbol that the device found.
    pub symbol_addr: Option<Number>,
    /// `symbol_name`: the name that the device found.
    pub symbol_name: Option<Text<'a>>,
    /// The bytes of our member, comma included, on an enriched report.
    pub own_member: Option<Range<usize>>,
}
