//! The error that a report states for its crash.

use crate::json::Value;
use crate::report::summary::facts::PartFacts;
use crate::report::{ErrorKind, Report};

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
    /// An image's message about the end of its process, such as Swift's fatal error or a failed assertion. No library
    /// writes one before a bad access.
    pub message: Option<String>,
}

impl CrashError {
    fn from_facts(facts: &PartFacts<'_, '_>) -> CrashError {
        let [kind, nsexception, cpp_exception, user_reported, mach, signal, reason, termination] = facts
            .error_members([
                "type",
                "nsexception",
                "cpp_exception",
                "user_reported",
                "mach",
                "signal",
                "reason",
                "termination_reason",
            ]);
        let text = |value: Option<Value<'_>>| value.and_then(Value::decode_string);
        let member = |value: Option<Value<'_>>, key| value.and_then(|value| text(value.get(key)));
        let exceptions = [nsexception, cpp_exception, user_reported];
        let error = CrashError {
            kind: text(kind),
            exception: exceptions
                .into_iter()
                .find_map(|exception| member(exception, "name"))
                .or_else(|| member(mach, "exception_name")),
            signal: member(signal, "name"),
            code: member(mach, "code_name"),
            reason: text(reason).or_else(|| member(nsexception, "reason")),
            termination: text(termination),
            message: None,
        };
        let message = if error.is_bad_access() { None } else { image_message(facts) };
        CrashError { message, ..error }
    }

    /// Returns the reason of the end, from the exception, the system or an image.
    pub(crate) fn find_reason(&self) -> Option<&str> {
        [&self.reason, &self.termination, &self.message].into_iter().flatten().map(String::as_str).next()
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
