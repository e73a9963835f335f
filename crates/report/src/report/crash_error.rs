//! The error that a report states for its crash.

use crate::json::Value;
use crate::report::summary::facts::PartFacts;
use crate::report::{ErrorKind, Report};
use crate::{exception_name, read_signal, signal_name};
use unslide_model::ended::is_memory_reason;

/// Code of `exit_reason` with which the system ends an app that does not answer.
const WATCHDOG_CODE: u64 = 0x8BAD_F00D;
/// Numbers of `exit_reason.namespace`, from `<sys/reason.h>`.
const JETSAM_NAMESPACE: u64 = 1;
const WATCHDOG_NAMESPACE: u64 = 20;
/// The kernel's reasons for killing a process, by their code in the namespace of Jetsam (`kern_memorystatus.h`).
const JETSAM_REASONS: [(u64, &str); 17] = [
    (1, "jettisoned"),
    (2, "highwater"),
    (3, "vnode-limit"),
    (4, "vm-pageshortage"),
    (5, "proc-thrashing"),
    (6, "fc-thrashing"),
    (7, "per-process-limit"),
    (8, "disk-space-shortage"),
    (9, "idle-exit"),
    (10, "zone-map-exhaustion"),
    (11, "vm-compressor-thrashing"),
    (12, "vm-compressor-space-shortage"),
    (13, "low-swap"),
    (14, "sustained-memory-pressure"),
    (15, "vm-pageout-starvation"),
    (17, "long-idle-exit"),
    (100, "cpu-limit"),
];

/// `exit_reason`: why the system ended the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitReason {
    /// `code`. Its meaning depends on the namespace.
    pub code: Option<u64>,
    /// `namespace`: the number of the part of the system that ended the process. KSCrash 3.0 writes it.
    pub namespace: Option<u64>,
}

impl ExitReason {
    fn from_value(value: Value<'_>) -> ExitReason {
        let bits = |value: Option<Value<'_>>| value?.as_number()?.to_bits();
        let [code, namespace] = value.find_members(["code", "namespace"]);
        ExitReason { code: bits(code), namespace: bits(namespace) }
    }

    /// Returns the kernel's reason for a kill by Jetsam, `jetsam` if its code is not known.
    fn jetsam_reason(self) -> Option<&'static str> {
        if self.namespace != Some(JETSAM_NAMESPACE) {
            return None;
        }
        let known = JETSAM_REASONS.iter().find(|(code, _)| self.code == Some(*code));
        Some(known.map_or("jetsam", |(_, reason)| reason))
    }
}

/// `crash.error` of the main crash, with the members that all kinds of crashes share. Every text comes from the
/// device and is not verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashError {
    /// `type`, such as `mach`.
    pub kind: Option<String>,
    /// The name of the Objective-C, C++ or reported exception, or else of the Mach exception.
    pub exception: Option<String>,
    /// The signal's name, such as `SIGABRT`.
    pub signal: Option<String>,
    /// The Mach exception's code, such as `KERN_INVALID_ADDRESS`.
    pub code: Option<String>,
    /// The exception's message.
    pub reason: Option<String>,
    /// `termination_reason`: the system's reason for ending the process.
    pub termination: Option<String>,
    /// `subtype`, which refines the kind: `hang` of a profile, `memory_exception` of an end out of memory.
    pub subtype: Option<String>,
    /// `exit_reason`: why the system ended the process, in numbers.
    pub exit: ExitReason,
    /// An image's message about the end of its process, such as Swift's fatal error or a failed assertion. No library
    /// writes one before a bad access.
    pub message: Option<String>,
}

impl CrashError {
    fn from_facts(facts: &PartFacts<'_, '_>) -> CrashError {
        let [
            kind,
            nsexception,
            cpp_exception,
            user_reported,
            mach,
            signal,
            reason,
            termination,
            subtype,
            exit,
        ] = facts.error_members([
            "type",
            "nsexception",
            "cpp_exception",
            "user_reported",
            "mach",
            "signal",
            "reason",
            "termination_reason",
            "subtype",
            "exit_reason",
        ]);
        // An extension that could not hand its snapshot over has not written `exit_reason`.
        let corpse_exit =
            || facts.corpse()?.find_path(&["crashInfo", "exitReason"]).filter(|exit| exit.is_object());
        let text = |value: Option<Value<'_>>| value.and_then(Value::decode_string);
        let member = |value: Option<Value<'_>>, key| value.and_then(|value| text(value.get(key)));
        let number = |value: Option<Value<'_>>, key| value?.get(key)?.decimal_unsigned();
        let exceptions = [nsexception, cpp_exception, user_reported];
        let error = CrashError {
            kind: text(kind),
            exception: exceptions
                .into_iter()
                .find_map(|exception| member(exception, "name"))
                .or_else(|| member(mach, "exception_name"))
                .or_else(|| exception_name(number(mach, "exception")?).map(str::to_owned)),
            signal: member(signal, "name")
                .map(|name| read_signal(&name).unwrap_or(name))
                .or_else(|| signal_name(number(signal, "signal")?).map(str::to_owned)),
            code: member(mach, "code_name"),
            reason: text(reason).or_else(|| member(nsexception, "reason")),
            termination: text(termination),
            subtype: text(subtype),
            exit: exit.or_else(corpse_exit).map(ExitReason::from_value).unwrap_or_default(),
            message: None,
        };
        let message = if error.is_bad_access() { None } else { image_message(facts) };
        CrashError { message, ..error }
    }

    /// Returns the reason of the end, from the exception, the system or an image.
    pub(crate) fn find_reason(&self) -> Option<&str> {
        [&self.reason, &self.termination, &self.message].into_iter().flatten().map(String::as_str).next()
    }

    /// Returns true if the system ended the process because it did not answer.
    #[must_use]
    pub fn is_fatal_hang(&self) -> bool {
        self.exit.code == Some(WATCHDOG_CODE)
            || self.exit.namespace == Some(WATCHDOG_NAMESPACE)
            || self.termination.as_deref() == Some("hang")
    }

    /// Returns true for the samples of a hang, which KSCrash 3.0 writes as a profile.
    #[must_use]
    pub fn is_sampled_hang(&self) -> bool {
        self.kind.as_deref() == Some("profile") && self.subtype.as_deref() == Some("hang")
    }

    /// Returns true for a memory exception of MetricKit: the system says itself that it ended the process for lack of memory.
    #[must_use]
    pub fn is_memory_exception(&self) -> bool {
        self.subtype.as_deref() == Some("memory_exception")
    }

    /// Returns true if the system ended the process for lack of memory.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        self.is_memory_exception()
            || matches!(self.termination.as_deref(), Some("memory_limit" | "memory_pressure"))
            || self.jetsam_reason().is_some_and(is_memory_reason)
    }

    /// Returns the kernel's reason for a kill by Jetsam, `jetsam` if its code is not known.
    pub(crate) fn jetsam_reason(&self) -> Option<&'static str> {
        self.exit.jetsam_reason()
    }

    /// Returns true if the process accessed memory without permission.
    #[must_use]
    pub fn is_bad_access(&self) -> bool {
        self.exception.as_deref() == Some("EXC_BAD_ACCESS")
            || matches!(self.signal.as_deref(), Some("SIGSEGV" | "SIGBUS"))
    }

    /// Returns true if the process ran into a trap instruction, which compilers insert to stop a program that must not
    /// continue.
    #[must_use]
    pub fn is_trap(&self) -> bool {
        matches!(self.exception.as_deref(), Some("EXC_BREAKPOINT" | "EXC_BAD_INSTRUCTION"))
            || matches!(self.signal.as_deref(), Some("SIGTRAP" | "SIGILL"))
    }
}

/// Returns an image's message about the end of its process, for a Mach exception or a signal.
pub(crate) fn image_message(facts: &PartFacts<'_, '_>) -> Option<String> {
    let part =
        facts.part().filter(|part| matches!(part.error_kind(), ErrorKind::Mach | ErrorKind::Signal))?;
    let message = facts.report.parts.get(part.image_source?)?.message?;
    Some(message.text.decode().trim().to_owned())
}

/// The maximum distance of the first access beyond a full stack from the stack pointer: 16 pages of 16 KiB, for
/// functions with large variables.
const STACK_REACH: u64 = 16 << 14;

impl Report<'_> {
    /// Returns true if the address of the error lies near the stack pointer of the crashed thread, as after a stack
    /// overflow. Returns `None` if either is not known.
    #[must_use]
    pub fn has_failed_near_stack_pointer(&self) -> Option<bool> {
        let facts = PartFacts::for_part(self, self.main_part());
        let bits = |value: Value<'_>| value.as_number()?.to_bits();
        let address = facts.error_member(&["address"]).and_then(bits)?;
        let registers =
            facts.crashed_thread()?.find_path(&["registers", "basic"])?.find_members(["sp", "rsp", "esp"]);
        let stack_pointer = registers.into_iter().flatten().find_map(bits)?;
        Some(address.abs_diff(stack_pointer) <= STACK_REACH)
    }

    /// Returns the error that the report states for its crash.
    #[must_use]
    pub fn crash_error(&self) -> &CrashError {
        self.error.get_or_init(|| {
            let error = CrashError::from_facts(&PartFacts::for_part(self, self.main_part()));
            match self.diagnostic() {
                Some(kind) => CrashError { kind: Some(kind.as_str().to_owned()), ..error },
                None => error,
            }
        })
    }
}
