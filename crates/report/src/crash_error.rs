//! What a report says its crash is.

use crate::json::Value;
use crate::report::Report;
use crate::summary::PartFacts;

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
}

impl CrashError {
    pub(crate) fn of(facts: &PartFacts<'_, '_>) -> CrashError {
        let error = |path: &[&str]| facts.error(path).and_then(Value::string);
        CrashError {
            kind: error(&["type"]),
            exception: ["nsexception", "cpp_exception", "user_reported"]
                .iter()
                .find_map(|kind| error(&[kind, "name"]))
                .or_else(|| error(&["mach", "exception_name"])),
            signal: error(&["signal", "name"]),
            code: error(&["mach", "code_name"]),
            reason: error(&["reason"]).or_else(|| error(&["nsexception", "reason"])),
            termination: error(&["termination_reason"]),
        }
    }

    /// True where the process has touched memory that it may not.
    #[must_use]
    pub fn is_bad_access(&self) -> bool {
        self.exception.as_deref() == Some("EXC_BAD_ACCESS")
            || matches!(self.signal.as_deref(), Some("SIGSEGV" | "SIGBUS"))
    }
}

impl Report<'_> {
    /// What the report says its crash is.
    #[must_use]
    pub fn crash_error(&self) -> CrashError {
        let error = CrashError::of(&PartFacts::of(self, self.main_part()));
        match self.diagnostic() {
            Some(kind) => CrashError { kind: Some(kind.as_str().to_owned()), ..error },
            None => error,
        }
    }
}
