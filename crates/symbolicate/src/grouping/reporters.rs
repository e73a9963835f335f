//! Functions that only report a failure that their caller found, such as `check_failed` and `throw_exception`.
//!
//! The evidence is that such a function never returns. Debug information says so for functions declared that
//! way, and for functions without a path that returns. The name decides only if neither is known:
//! `app_assert(bool)` returns if all is well, and a symbol table says nothing about returns.

use super::GroupingVerdict;
use super::frames::NamedFunction;
use super::runtime::is_reporter;
use crate::symcache::NoReturn;

/// System and runtime functions that are called to report a failure, by normalised name. A failure inside
/// `objc_msgSend` or `memcpy` is the caller's failure, so they are not in the list.
const FAILURES: &[&str] = &[
    "__abort",
    "__assert_rtn",
    "__cxa_rethrow",
    "__cxa_throw",
    "__kill",
    "__pthread_kill",
    "__rethrow",
    "__terminate",
    "_exit",
    "_objc_terminate",
    "abort",
    "abort_message",
    "abort_with_payload",
    "abort_with_reason",
    "abort_with_payload_wrapper_internal",
    "demangling_terminate_handler",
    "objc_exception_rethrow",
    "objc_exception_throw",
    "objc_terminate",
    "pthread_kill",
    "rust_begin_unwind",
    "rust_panic",
    "swift_errorInMain",
    "swift_unexpectedError",
];
const FAILURE_PREFIXES: &[&str] = &[
    "+[NSException raise",
    "-[NSAssertionHandler handleFailure",
    "-[NSException raise",
    "Swift._assertionFailure",
    "Swift._fatalErrorMessage",
    "Swift.fatalError",
    "Swift.preconditionFailure",
    "__cxxabiv1::failed_throw",
    "_assertionFailure",
    "_fatalErrorMessage",
    "core::panicking::",
    "std::__1::__libcpp_verbose_abort",
    "std::__1::__throw_",
    "std::__terminate",
    "std::__throw_",
    "std::panicking::",
    "std::terminate",
];
/// Names of such functions that an app's own functions may have too.
const SYSTEM_FAILURES: &[&str] = &["exit", "kill", "raise", "terminate"];

/// First words of the names of functions that only report.
const FIRST_WORDS: &[&str] =
    &["abort", "bail", "crash", "die", "fail", "halt", "oom", "raise", "rethrow", "terminate", "throw"];
/// Last words of such names.
const LAST_WORDS: &[&str] = &["abort", "assertion", "crash", "die", "fail", "failed", "failure", "fatal"];

/// True for a function that ends the process or throws, as its caller intends.
pub(super) fn is_failure(name: &str, in_app: bool) -> bool {
    FAILURES.contains(&name)
        || FAILURE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || !in_app && SYSTEM_FAILURES.contains(&name)
}

/// True for a function of the standard library. It may appear between a reporting function and its caller.
pub(super) fn is_between(name: &str) -> bool {
    name.starts_with("std::")
}

/// Returns why a function only reports; `None` if it does more. `after_failure` is true if the function that it
/// called ended the process or threw, and `None` if the report is not about a failure.
pub(super) fn reporter_verdict(
    function: &NamedFunction,
    name: &str,
    after_failure: Option<bool>,
) -> Option<GroupingVerdict> {
    let after = after_failure == Some(true);
    match function.no_return {
        Some(NoReturn::Declared) if after_failure.is_some() => Some(GroupingVerdict::ReporterByDeclaration),
        // An event loop never returns either, but the functions that it calls do.
        Some(NoReturn::Inferred) if after => Some(GroupingVerdict::ReporterByCode),
        _ if is_reporter(name) || after && !function.has_debug_info && is_named_for_failure(name) => {
            Some(GroupingVerdict::Reporter)
        }
        _ => None,
    }
}

/// True for `check_failed`, `throwOutOfRange`, `Check::~CheckFailure`; not for `parse_failed_order`.
fn is_named_for_failure(name: &str) -> bool {
    let name = name.split('(').next().unwrap_or(name).trim_end_matches([']', ':']);
    let last = name.rsplit([':', '.', ' ', '[']).find(|part| !part.is_empty()).unwrap_or(name);
    let words = split_words(last);
    let is_one =
        |word: Option<&String>, known: &[&str]| word.is_some_and(|word| known.contains(&word.as_str()));
    is_one(words.first(), FIRST_WORDS) || is_one(words.last(), LAST_WORDS)
}

/// Splits an identifier into lower-case words: `check_failed`, `CHECK_fail` and `CheckFailure` have two each.
fn split_words(identifier: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = None;
    for c in identifier.chars() {
        let is_letter = c.is_alphanumeric();
        let begins = match before {
            Some(before) => !char::is_alphanumeric(before) || c.is_uppercase() && !char::is_uppercase(before),
            None => true,
        };
        if is_letter && begins {
            words.push(String::new());
        }
        if is_letter && let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(
        name: &str,
        no_return: Option<NoReturn>,
        has_debug_info: bool,
        after: Option<bool>,
    ) -> Option<GroupingVerdict> {
        let function =
            NamedFunction { name: name.to_owned(), path: None, is_rust: false, no_return, has_debug_info };
        reporter_verdict(&function, name, after)
    }

    #[test]
    fn a_function_that_never_returns_only_reports_whatever_its_name() {
        use GroupingVerdict::{ReporterByCode, ReporterByDeclaration};
        let declared = |after| verdict("helper", Some(NoReturn::Declared), true, after);
        let inferred = |after| verdict("helper", Some(NoReturn::Inferred), true, after);
        assert_eq!(declared(Some(false)), Some(ReporterByDeclaration));
        assert_eq!(inferred(Some(true)), Some(ReporterByCode));
        // An event loop that runs into something, and a hang.
        assert_eq!((inferred(Some(false)), inferred(None), declared(None)), (None, None, None));
        // Debug information says that it returns.
        for name in ["parse", "raise_price", "throw_dice", "bail_out_bank"] {
            assert_eq!(verdict(name, None, true, Some(true)), None, "{name}");
        }
    }

    #[test]
    fn a_name_decides_without_debug_information() {
        let names = [
            "check_failed",
            "raise_error",
            "handle_assertion_failure",
            "crash_now",
            "throw_exception",
            "assertion_failed",
            "bail_out",
            "CHECK_fail",
            "fail_fast",
            "terminate_app",
            "verify_failed",
            "shop::throwOutOfRange",
            "shop::CheckFailure::~CheckFailure",
            "-[Log raiseError:]",
        ];
        for name in names {
            assert_eq!(verdict(name, None, false, Some(true)), Some(GroupingVerdict::Reporter), "{name}");
            assert_eq!(verdict(name, None, false, Some(false)), None, "{name}");
        }
        for name in ["parse", "parse_failed_order", "crashed", "diet", "failover", "", "::"] {
            assert_eq!(verdict(name, None, false, Some(true)), None, "{name}");
        }
    }

    #[test]
    fn words_of_any_alphabet_are_told_apart() {
        assert!(is_named_for_failure("größe_failed") && is_named_for_failure("Größe::prüfungFailed"));
        assert!(!is_named_for_failure("größe") && !is_named_for_failure("数量を計算する"));
    }

    #[test]
    fn what_ends_a_process_is_known() {
        for name in
            ["abort", "__cxa_throw", "objc_exception_throw", "swift_unexpectedError", "std::terminate"]
        {
            assert!(is_failure(name, false) && is_failure(name, true), "{name}");
        }
        assert!(is_failure("raise", false) && !is_failure("raise", true));
        for name in ["objc_msgSend", "memcpy", "__stack_chk_fail", "free", "std::vector::at"] {
            assert!(!is_failure(name, false), "{name}");
        }
    }
}
