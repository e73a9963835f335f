//! The parsed form of a report, with everything that symbolication needs.

pub(crate) mod context;
pub(crate) mod crash_error;
pub(crate) mod crash_state;
pub(crate) mod javascript;
pub(crate) mod memory;
pub(crate) mod ours;
pub(crate) mod process_identity;
pub(crate) mod profile;
pub(crate) mod read;
mod script_stack;
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

/// A parsed report. Everything borrows from the input bytes. Nothing is cleaned, and nothing is
/// interpreted beyond its type.
#[derive(Debug)]
pub struct Report<'a> {
    /// The input bytes. Every offset below counts from their beginning.
    pub input: &'a [u8],
    /// `report.id`, or else `recrash_report.report.id`, or else the first 16 bytes of the SHA-256 of the
    /// input without our additions.
    pub id: ReportId,
    /// The outer report, then each `recrash_report`, at most four of them. Never empty.
    pub parts: Vec<ReportPart<'a>>,
    /// Every list of frames that is symbolicated, in the order of the document, so that
    /// [`Frame::insert_at`] ascends over all of them.
    pub backtraces: Vec<Backtrace<'a>>,
    /// Irregularities that were tolerated, each kind at each place once.
    pub warnings: Vec<Warning>,
    /// The numbers of array members that were skipped because they are not objects.
    pub invalid: Invalid,
    /// The offset of the closing brace of the report object.
    pub insert_at: usize,
    /// True if the report object has members other than ours.
    pub has_members: bool,
    /// Our earlier additions, read back. `None` for a report that was not enriched.
    pub ours: Option<Ours>,
    /// The bytes of our member of the report object, including its comma. They end before
    /// [`Report::insert_at`].
    pub own_member: Option<Range<usize>>,
    /// The Jetsam event, if the report is one.
    pub jetsam: Option<Box<JetsamEvent>>,
    /// Cached result of [`Report::memory_event`].
    memory: OnceLock<Option<MemoryEvent>>,
    /// Cached result of [`Report::crash_error`].
    error: OnceLock<CrashError>,
}

/// Numbers of array members that are not objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Invalid {
    /// In `crash.threads`.
    pub threads: u64,
    /// In a backtrace's `contents`, or a profile's `frames`.
    pub frames: u64,
    /// In `binary_images`.
    pub images: u64,
}

/// The outer report or a `recrash_report`, with the facts that apply to all its frames.
#[derive(Clone, Debug, Default)]
pub struct ReportPart<'a> {
    /// The objects of its own `binary_images` that have an address, a debug id or a name, in their order.
    pub images: Vec<Image<'a>>,
    /// The message of one of these images about the end of its process.
    pub(crate) message: Option<ImageMessage<'a>>,
    /// The part with the images that its frames refer to: itself, or if it has none, the nearest part
    /// with images (the inner one first). `None` if no part has images.
    pub image_source: Option<usize>,
    /// `crash.error.type`.
    pub error_type: Option<Text<'a>>,
    /// `report.monitor_id`, such as `MetricKit` or `profile`.
    pub monitor_id: Option<Text<'a>>,
    /// `report.type`: `standard`, `minimal` or `custom`.
    pub report_type: Option<Text<'a>>,
    /// `report.id` if it is a UUID.
    pub report_id: Option<ReportId>,
    /// `system.app_uuid`: the main executable's debug id. Here and below, `system_atcrash` takes
    /// precedence over `system`.
    pub app_uuid: Option<DebugId>,
    /// `system.CFBundleExecutable`: the main executable's file name.
    pub executable: Option<Text<'a>>,
    /// `system.CFBundleExecutablePath`: the main executable's path.
    pub executable_path: Option<Text<'a>>,
    /// `report.process_name`, or else `system.process_name`.
    pub process_name: Option<Text<'a>>,
    /// `system.proc_translated`: true for x86_64 code on an arm64 machine.
    pub proc_translated: Option<bool>,
    /// `system.cpu_type` and `cpu_subtype`: the hardware.
    pub cpu: Option<CpuType>,
    /// `system.binary_cpu_type` and `binary_cpu_subtype`: the executable's slice.
    pub binary_cpu: Option<CpuType>,
    /// `system.cpu_arch`, such as `arm64e`. It describes the hardware, never the frames.
    pub cpu_arch: Option<Text<'a>>,
    /// The MetricKit diagnostic that the part contains, if it has no crash.
    pub(crate) diagnostic: Option<Diagnostic>,
    /// The number of its diagnostics of any kind.
    pub(crate) diagnostics: usize,
    /// Offsets of the sections that only the summary and the text need.
    pub(crate) sections: Sections,
}

/// Offsets of the objects of a part that are read again on demand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sections {
    pub(crate) report: Option<usize>,
    pub(crate) system: Option<usize>,
    pub(crate) system_atcrash: Option<usize>,
    pub(crate) crash: Option<usize>,
    /// True if `crash.threads` is an array.
    pub(crate) has_threads: bool,
    pub(crate) error: Option<usize>,
    pub(crate) process: Option<usize>,
    pub(crate) user: Option<usize>,
    pub(crate) user_atcrash: Option<usize>,
    pub(crate) debug: Option<usize>,
    /// KSCrash's snapshot of a process that has ended.
    pub(crate) corpse: Option<usize>,
    /// The main thread of the part's crash: the crashed one, or else `crashed_thread`, or else the one that
    /// ran the handler. The second number is its position in `crash.threads`, 0 for `crashed_thread`.
    pub(crate) subject: Option<(usize, usize)>,
    pub(crate) memory: MemorySections,
}

impl Sections {
    /// Records the offset of a member of the part, or `None` if it is no object.
    pub(crate) fn record_member(&mut self, key: &[u8], begin: Option<usize>) {
        let section = match key {
            b"report" => &mut self.report,
            b"system" => &mut self.system,
            b"system_atcrash" => &mut self.system_atcrash,
            b"crash" => &mut self.crash,
            b"process" => &mut self.process,
            b"user" => &mut self.user,
            b"user_atcrash" => &mut self.user_atcrash,
            b"debug" => &mut self.debug,
            b"corpse" => &mut self.corpse,
            _ => return,
        };
        *section = begin;
    }
}

/// Offsets of the values about memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemorySections {
    /// In the report object, in `crash` and in `user`, by [`MemoryMember`](crate::report::memory::MemoryMember).
    pub(crate) members: [[Option<usize>; MEMORY_MEMBERS]; 3],
    /// The `stack_oom` member that the kept stacks come from.
    pub(crate) allocations: Option<usize>,
}

/// The values of `crash.error.type` that a rule distinguishes.
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
    /// `user`: reported by the app.
    User,
    /// `deadlock`: the main thread's watchdog in old versions.
    Deadlock,
    /// `hang`: a hang from which the app recovered.
    Hang,
    /// `profile`: a sampling profile.
    Profile,
    /// Any other text, or none.
    Other,
}

impl ReportPart<'_> {
    /// Returns the kind of `crash.error.type`.
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

    /// Returns true if only a crash, a hang or a profiler writes this kind of error.
    pub(crate) fn is_of_another_event(&self) -> bool {
        !matches!(self.error_kind(), ErrorKind::User | ErrorKind::Deadlock | ErrorKind::Other)
    }

    /// Returns true if `crash` has an error or threads.
    pub(crate) fn tells_of_crash(&self) -> bool {
        self.sections.error.is_some() || self.sections.has_threads
    }

    /// Returns true if the error's type or the monitor is `profile`.
    #[must_use]
    pub fn is_profile(&self) -> bool {
        self.error_kind() == ErrorKind::Profile || self.monitor_id.is_some_and(|m| m.is("profile"))
    }

    /// Returns true if the report is a MetricKit payload or was made from one.
    #[must_use]
    pub fn is_metric_kit(&self) -> bool {
        self.diagnostic.is_some() || self.monitor_id.is_some_and(|m| m.is("MetricKit"))
    }

    /// Returns true if `report.type` is `minimal`: a crash of the crash handler.
    #[must_use]
    pub fn is_minimal(&self) -> bool {
        self.report_type.is_some_and(|t| t.is("minimal"))
    }
}

/// One object of `binary_images`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Image<'a> {
    /// `image_addr`: the address of the Mach-O header in memory.
    pub addr: Option<Number>,
    /// `image_vmaddr`: `__TEXT`'s vm address as the device reports it.
    pub vmaddr: Option<Number>,
    /// `image_size`: the size of `__TEXT`. 0 if it is absent or not an unsigned integer.
    pub size: u64,
    /// `uuid`.
    pub uuid: Option<DebugId>,
    /// `name`: the path on the device.
    pub name: Option<Text<'a>>,
    /// `cpu_type` and `cpu_subtype`. `None` without a type. MetricKit's type is 0.
    pub cpu: Option<CpuType>,
}

/// The location of a list of frames in its part.
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
    /// `stack_deadlock`: the main thread when it was found to be blocked.
    BlockedThread,
    /// One item of `stack_oom`: the code that allocated memory that is still in use.
    AllocationStack,
    /// The frames of MetricKit's `callStackTree`, in the order in which they end.
    CallStackTree,
}

/// A list of frames.
#[derive(Clone, Debug)]
pub struct Backtrace<'a> {
    /// The index of its part in [`Report::parts`].
    pub part: usize,
    /// Its location.
    pub origin: BacktraceOrigin,
    /// Its thread, for [`BacktraceOrigin::Thread`], [`BacktraceOrigin::CrashedThread`] and
    /// [`BacktraceOrigin::BlockedThread`]. For [`BacktraceOrigin::AllocationStack`], only the position is set.
    pub thread: Option<ThreadFacts>,
    /// `skipped`: the number of frames that the writer omitted at the innermost end. 0 if it is absent.
    pub skipped: u64,
    /// The objects of `contents` with a useful member, in their order.
    pub frames: Vec<Frame<'a>>,
    /// The other objects of `contents`. [`Backtrace::frame_slots`] returns both, in the order of the document.
    pub blank_frames: Vec<BlankFrame>,
    /// The number of members of `contents` that are not objects.
    pub invalid: u64,
    /// The callers of the frames, for [`BacktraceOrigin::CallStackTree`].
    pub(crate) tree: Option<Box<CallStackTree>>,
    /// The offset of `contents`.
    pub(crate) start: usize,
}

/// Members of a thread object other than its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreadFacts {
    /// The thread's position in `crash.threads`, or the stack's in `stack_oom`, including non-objects. 0 for a
    /// single thread.
    pub position: usize,
    /// `index`: the writer's own number of the thread. It may differ from the position.
    pub index: Option<i64>,
    /// `crashed`. False if it is absent.
    pub crashed: bool,
    /// `current_thread`: true for the thread that ran the handler. False if it is absent.
    pub current_thread: bool,
    /// `pc`, `rip` or `eip` of `registers.basic`.
    pub pc: Option<Number>,
    /// True if `registers.basic` is an object with a member.
    pub has_registers: bool,
}

/// One frame object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame<'a> {
    /// The frame's position in its array, including non-objects. 0 is the innermost.
    pub index: usize,
    /// The offset of the frame object's closing brace.
    pub insert_at: usize,
    /// True if the object has members other than ours, so that one more needs a comma.
    pub has_members: bool,
    /// `instruction_addr`.
    pub instruction_addr: Option<Number>,
    /// `object_addr`: the image's load address according to the writer.
    pub object_addr: Option<Number>,
    /// `object_uuid`.
    pub object_uuid: Option<DebugId>,
    /// `object_name`: the image's file name according to the writer.
    pub object_name: Option<Text<'a>>,
    /// `symbol_addr`: the start of the symbol that the device found.
    pub symbol_addr: Option<Number>,
    /// `symbol_name`: the name that the device found.
    pub symbol_name: Option<Text<'a>>,
    /// The bytes of our member, including its comma, in an enriched report.
    pub own_member: Option<Range<usize>>,
}
