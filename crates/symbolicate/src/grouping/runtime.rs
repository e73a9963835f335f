//! Functions that appear in many backtraces and are never the bug: those of the runtime, those of the standard
//! library, and those that only report an error that another function found.

use super::frames::NamedFunction;

/// Exact names, as [`super::names::normalise_name`] returns them.
const EXACT_RUNTIME_NAMES: &[&str] = &[
    "__abort",
    "__assert_rtn",
    "__exceptionPreprocess",
    "__kill",
    "__pthread_kill",
    "__rethrow",
    "__stack_chk_fail",
    "__terminate",
    "_exit",
    "_sigtramp",
    "abort",
    "abort_message",
    "abort_with_payload",
    "memcpy",
    "memmove",
    "memset",
    "pthread_kill",
    "strcmp",
    "strlen",
    "_pthread_start",
    "start_wqthread",
    "demangling_terminate_handler",
    "default_terminate_handler",
];

const RUNTIME_PREFIXES: &[&str] = &[
    "-[NSException ",
    "+[NSException ",
    "-[NSAssertionHandler ",
    "-[NSObject doesNotRecognizeSelector",
    "Swift runtime failure",
    "Swift.",
    "___forwarding___",
    "_CF_forwarding_prep",
    "__asan_",
    "__cxa_",
    "__cxxabiv1::",
    "__gnu_cxx::",
    "__platform_",
    "__swift_",
    "__ubsan_",
    "_NSDispatch",
    "_Unwind_",
    "_assertionFailure",
    "_dispatch_",
    "_fatalErrorMessage",
    "_objc_",
    "_os_unfair_lock_",
    "_platform_",
    "_pthread_",
    "_swift_",
    "assertionFailure",
    "objc_",
    "os_unfair_lock_",
    "outlined ",
    "rust_begin_unwind",
    "rust_panic",
    "std::",
    "swift_",
    "swift::",
    "thunk for ",
    "reabstraction thunk ",
    // Go.
    "internal/runtime/",
    "runtime.",
    "runtime/",
];

/// Rust libraries. A C++ namespace may have the same name.
const RUST_PREFIXES: &[&str] = &["alloc::", "core::"];

/// Names and prefixes of system functions that no compiler adds to an app. In the app's images they are the
/// app's own.
const SYSTEM_EXACT: &[&str] = &["exit", "kill", "raise", "start", "terminate", "thread_start"];
const SYSTEM_PREFIXES: &[&str] = &["dispatch_", "malloc_"];

/// Prefixes of the last part of a name, for functions that report a failure that their caller found.
const REPORTERS: &[&str] =
    &["assert", "fatal", "fatalerror", "panic", "abort", "precondition", "die", "unreachable"];

/// True for a function of the runtime or the standard library, which says nothing about the bug. `name` is the
/// function's normalised name.
pub(super) fn is_runtime(function: &NamedFunction, name: &str, in_app: bool) -> bool {
    let has = |prefixes: &[&str]| {
        prefixes.iter().any(|prefix| name.starts_with(prefix) || function.name.starts_with(prefix))
    };
    if in_app && is_extension_of_app(&function.name) {
        return false;
    }
    name.is_empty()
        || EXACT_RUNTIME_NAMES.contains(&name)
        || has(RUNTIME_PREFIXES)
        || function.is_rust && has(RUST_PREFIXES)
        || !in_app && (SYSTEM_EXACT.contains(&name) || has(SYSTEM_PREFIXES))
}

/// True for a method that a module of the app adds to a type of another module:
/// `(extension in Shop):Swift.Array.total()`.
fn is_extension_of_app(name: &str) -> bool {
    const SYSTEM_MODULES: [&str; 12] = [
        "AppKit",
        "Combine",
        "CoreFoundation",
        "CoreGraphics",
        "Dispatch",
        "Foundation",
        "ObjectiveC",
        "Swift",
        "SwiftUI",
        "UIKit",
        "_Concurrency",
        "_StringProcessing",
    ];
    let module = name.split_once("(extension in ").and_then(|(_, rest)| rest.split_once("):"));
    module.is_some_and(|(module, _)| !SYSTEM_MODULES.contains(&module))
}

/// True for a function that reports an error that its caller found: for `app_assert`, `Log.fatalError`,
/// `assertValid`; not for `Asserts.list` or `diet`.
pub(super) fn is_reporter(name: &str) -> bool {
    let name = name.split('(').next().unwrap_or(name).trim_end_matches([']', ':']);
    let last = name.rsplit([':', '.', ' ', '[']).find(|part| !part.is_empty()).unwrap_or(name);
    let begins = |(at, c): &(usize, char)| {
        *at == 0 || c.is_ascii_uppercase() || last.as_bytes().get(*at - 1) == Some(&b'_')
    };
    let is_reporter_word = |word: &str| {
        REPORTERS.iter().any(|reporter| {
            // Either another word follows, or nothing.
            word.split_at_checked(reporter.len()).is_some_and(|(start, after)| {
                start.eq_ignore_ascii_case(reporter) && !after.starts_with(char::is_lowercase)
            })
        })
    };
    last.char_indices().filter(begins).any(|(at, _)| last.get(at..).is_some_and(is_reporter_word))
}

/// True for the app's entry point. It says nothing about a bug unless the bug is in it.
pub(super) fn is_entry(name: &str) -> bool {
    matches!(name, "main" | "_main" | "__main" | "UIApplicationMain" | "NSApplicationMain")
        || name.ends_with(".$main")
        || name.ends_with(".main")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runtime(name: &str, is_rust: bool, in_app: bool) -> bool {
        let function = NamedFunction {
            name: name.to_owned(),
            path: None,
            is_rust,
            no_return: None,
            has_debug_info: true,
        };
        is_runtime(&function, name, in_app)
    }

    #[test]
    fn names_of_an_apps_own_are_not_the_runtimes() {
        for name in ["core::Cart::total", "alloc::Pool::take"] {
            assert!(runtime(name, true, true) && !runtime(name, false, true), "{name}");
        }
        for name in ["dispatch_event", "malloc_report", "start", "raise"] {
            assert!(runtime(name, false, false) && !runtime(name, false, true), "{name}");
        }
        for (name, is_runtime) in [
            ("(extension in Shop):Swift.Array.total() -> Swift.Int", false),
            ("(extension in Swift):Swift.Sequence.total() -> Swift.Int", true),
            ("Swift.Array.total() -> Swift.Int", true),
        ] {
            let function = NamedFunction::new(name, None, None);
            assert_eq!(super::is_runtime(&function, "Swift.Array.total", true), is_runtime, "{name}");
        }
    }

    #[test]
    fn the_runtime_and_reporters_are_known_and_the_app_is_not() {
        for name in [
            "abort",
            "objc_msgSend",
            "swift_unexpectedError",
            "std::vector::at",
            "__cxa_throw",
            "app_assert",
            "Log.fatalError",
            "Log.fatalError(message:)",
            "assertValid",
            "-[Log assert:]",
            "shop::panic",
            "größe_panic",
            "Läden.fatalErrorÄ",
            "",
        ] {
            assert!(runtime(name, false, true) || is_reporter(name), "{name}");
        }
        for name in [
            "Cart.total",
            "-[Cart total]",
            "diet",
            "shop::Asserts::list",
            "crash",
            "stdlib_of_ours",
            "Cart.abortion",
            "Cart.total(abort:)",
            "Dice.throw",
            "main",
            "größe",
            "naïve_total",
            "données_à_charger",
            "-[Kasse größe]",
            "ショップ.合計",
            "👜.paie",
        ] {
            assert!(!runtime(name, false, false) && !is_reporter(name), "{name}");
        }
        assert!(is_entry("main") && is_entry("Shop.App.$main") && !is_entry("domain"));
    }
}
