//! What a report says its crash is.

use crate::json::Value;
use crate::report::summary::facts::PartFacts;
use crate::report::{ErrorKind, Report};

/// `crash.error` of the crash of interest, as far as all kinds of crashes have it. Every text is the device's
/// claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashError {
    /// `type`, such as `mach`.
    pub kind: Option<String>,
    /// The exception's name: of the Objective-C, C++ or reported exception, else the Mach exception's.
    pub exception: Option<String>,
    /// The signal's name, such as `SIGABRT`.
    pub signal: Option<String>,
    /// The Mach exception's code, such as `KERN_INVALID_ADDRESS`.
    pub code: Option<String>,
    /// What the exception says.
    pub reason: Option<String>,
    /// `termination_reason`: why the system ended the process.
    pub termination: Option<String>,
    /// What an image says of the end of its process, such as Swift's fatal error or a failed assertion. No library
    /// writes it before a bad access.
    pub message: Option<String>,
}

impl CrashError {
    fn of(facts: &PartFacts<'_, '_>) -> CrashError {
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
        let text = |value: Option<Value<'_>>| value.and_then(Value::string);
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

    /// Why it ended, in the words of the exception, the system or an image.
    pub(crate) fn why(&self) -> Option<&str> {
        [&self.reason, &self.termination, &self.message].into_iter().flatten().map(String::as_str).next()
    }

    /// True where the process has touched memory that it may not.
    #[must_use]
    pub fn is_bad_access(&self) -> bool {
        self.exception.as_deref() == Some("EXC_BAD_ACCESS")
            || matches!(self.signal.as_deref(), Some("SIGSEGV" | "SIGBUS"))
    }

    /// True if the process ran into an instruction that a compiler puts where a program must not go on.
    #[must_use]
    pub fn is_trap(&self) -> bool {
        matches!(self.exception.as_deref(), Some("EXC_BREAKPOINT" | "EXC_BAD_INSTRUCTION"))
            || matches!(self.signal.as_deref(), Some("SIGTRAP" | "SIGILL"))
    }
}

/// What an image says of the end of its process, where that was a Mach exception or a signal.
pub(crate) fn image_message(facts: &PartFacts<'_, '_>) -> Option<String> {
    let part =
        facts.part().filter(|part| matches!(part.error_kind(), ErrorKind::Mach | ErrorKind::Signal))?;
    let message = facts.report.parts.get(part.image_source?)?.message?;
    Some(message.text.decode().trim().to_owned())
}

/// How far from the stack pointer the first access beyond a full stack lies at most: 16 pages of 16 KiB, for functions
/// with large variables.
const STACK_REACH: u64 = 16 << 14;

impl Report<'_> {
    /// True where the address of the error lies near the stack pointer of the thread that crashed, as it does where the
    /// stack is full. `None` where either is not known.
    #[must_use]
    pub fn has_failed_near_stack_pointer(&self) -> Option<bool> {
        let facts = PartFacts::of(self, self.main_part());
        let bits = |value: Value<'_>| value.number()?.to_bits();
        let address = facts.error(&["address"]).and_then(bits)?;
        let registers = facts.crashed_thread()?.path(&["registers", "basic"])?.members(["sp", "rsp", "esp"]);
        let stack_pointer = registers.into_iter().flatten().find_map(bits)?;
        Some(address.abs_diff(stack_pointer) <= STACK_REACH)
    }

    /// What the report says its crash is.
    #[must_use]
    pub fn crash_error(&self) -> &CrashError {
        self.error.get_or_init(|| {
            let error = CrashError::of(&PartFacts::of(self, self.main_part()));
            match self.diagnostic() {
                Some(kind) => CrashError { kind: Some(kind.as_str().to_owned()), ..error },
                None => error,
            }
        })
    }
}
