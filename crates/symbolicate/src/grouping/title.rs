//! Titles of groups, as lists show them.

use super::GroupKind;
use unslide_report::CrashError;

/// The most characters of a title.
const MOST_CHARS: usize = 200;
/// Parts of the system that end processes, as logs name them.
const NAMESPACES: &[&str] = &[
    "AGGREGATED",
    "ANALYTICS",
    "ARKIT",
    "ASSERTIOND",
    "AUDIO",
    "BACKBOARD",
    "BACKLIGHTSERVICES",
    "BLUETOOTH_CHIP",
    "BOOTMOUNT",
    "CAMERA",
    "CODESIGNING",
    "COREANIMATION",
    "CORERC",
    "DYLD",
    "ENDPOINTSECURITY",
    "EXEC",
    "FOUNDATION",
    "FRONTBOARD",
    "GUARD",
    "HANGTRACER",
    "JETSAM",
    "LIBIGNITION",
    "LIBSYSTEM",
    "LIBXPC",
    "MEDIA",
    "METAL",
    "OBJC",
    "PAC_EXCEPTION",
    "PORT_SPACE",
    "POWEREXCEPTIONS",
    "REALITYKIT",
    "REPORTCRASH",
    "ROSETTA",
    "RUNNINGBOARD",
    "SANDBOX",
    "SECINIT",
    "SECURITY",
    "SELF_RESTRICT",
    "SETTINGS",
    "SIGNAL",
    "SKYWALK",
    "SPRINGBOARD",
    "TCC",
    "TEST",
    "WAKEBOARD",
    "WATCHDOG",
    "WATCHKIT",
    "WEBKIT",
];
/// Message of `libsystem_c` before each abort. It says no more than the signal.
const ABORT_MESSAGE: &str = "abort() called";

/// Returns one line that says what happened, and where if the reason does not say it.
pub(super) fn build_title(
    kind: GroupKind,
    error: &CrashError,
    trap: Option<&str>,
    culprit: Option<&str>,
) -> String {
    let exception = error.exception.as_deref().filter(|name| !name.is_empty());
    let is_news = |reason: &String| exception.is_none_or(|name| !name.eq_ignore_ascii_case(reason));
    let reason = error.reason.as_deref().filter(|reason| kind != GroupKind::Crash || !is_exit_reason(reason));
    let reason = reason.map(mask_lines).filter(|reason| !reason.is_empty()).filter(is_news);
    let place = culprit.map_or_else(String::new, |culprit| format!(" in {culprit}"));
    let title = match kind {
        GroupKind::OutOfMemory => "Out of memory".to_owned(),
        GroupKind::MemoryWarning => "Memory warning".to_owned(),
        GroupKind::Termination => {
            let why = error.termination.as_deref().unwrap_or("unexplained").replace('_', " ");
            format!("Ended by the system: {why}")
        }
        GroupKind::Hang => format!("Hang{place}"),
        GroupKind::Cpu => format!("High CPU use{place}"),
        GroupKind::DiskWrite => format!("Many disk writes{place}"),
        GroupKind::Launch => format!("Slow launch{place}"),
        GroupKind::Profile => match exception {
            Some(name) if name.eq_ignore_ascii_case("profile") => format!("Profile{place}"),
            name => format!("Profile {}{place}", name.unwrap_or("without a name")),
        },
        GroupKind::StackOverflow => format!("Stack overflow{place}"),
        GroupKind::Exception | GroupKind::User | GroupKind::JavaScript => match (exception, reason) {
            (Some(name), Some(reason)) => format!("{name}: {reason}"),
            (Some(name), None) => format!("{name}{place}"),
            (None, Some(reason)) => reason,
            (None, None) => format!("Exception{place}"),
        },
        GroupKind::Crash => match (trap, reason) {
            (Some(trap), _) => format!("{}{place}", capitalise_first(trap)),
            (None, Some(reason)) => match error.reason.as_deref().and_then(read_namespace) {
                Some(end) => format!("{}: {end}{place}", crash_name(error)),
                None => name_abort(error, reason),
            },
            (None, None) => match error.message.as_deref().map(masked_message) {
                Some(message) if !message.is_empty() && message != ABORT_MESSAGE => {
                    format!("{}{place}", name_abort(error, message))
                }
                _ => format!("{}{place}", crash_name(error)),
            },
        },
    };
    title.chars().take(MOST_CHARS).collect()
}

/// Returns true for the system's text about the end of a process, such as `Namespace SIGNAL, Code 11`: the exception says
/// more.
fn is_exit_reason(reason: &str) -> bool {
    reason.starts_with("Namespace ") || reason.contains("<RBSTerminateContext|")
}

/// Reads the system's reason for the end of a process if it is a namespace with its code and a few words: `CODESIGNING 0x4
/// Launch Constraint Violation`. Returns its text for a title. The code of a guard is a number that no list explains.
fn read_namespace(reason: &str) -> Option<String> {
    let mut words = reason.split([' ', '\n']).filter(|word| !word.is_empty());
    let name = words.next()?;
    let is_name = NAMESPACES.contains(&name);
    let code = words.next().filter(|_| is_name && !reason.contains('\n'));
    let is_code = |code: &str| {
        let digits = code.strip_prefix("0x").unwrap_or(code);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match code {
        None if is_name && !reason.contains('\n') => Some(name.to_owned()),
        Some(code) if is_code(code) => {
            let shown = if name == "GUARD" { "#" } else { code };
            let rest: Vec<String> = words.map(mask_word).collect();
            let text = [vec![name.to_owned(), shown.to_owned()], rest].concat().join(" ");
            Some(text.trim_end().to_owned())
        }
        _ => None,
    }
}

/// Puts `abort: ` before the message of a process that aborted.
fn name_abort(error: &CrashError, message: String) -> String {
    let is_abort = error.signal.as_deref() == Some("SIGABRT");
    if is_abort && !message.starts_with("abort") { format!("abort: {message}") } else { message }
}

/// Returns the name of the Mach exception or of the signal. `EXC_CRASH` only says that a signal ended the process.
fn crash_name(error: &CrashError) -> String {
    let signal = error.signal.as_deref();
    let exception = error.exception.as_deref();
    if let (Some("EXC_CRASH"), Some(signal)) = (exception, signal) {
        return signal.to_owned();
    }
    let name = exception.or(signal).unwrap_or("Crash");
    // The code of this exception is no code of the kernel, so its name is chance.
    match error.code.as_deref().filter(|_| name != "EXC_CRASH") {
        Some(code) if !code.is_empty() && code != name => format!("{name} ({code})"),
        _ => name.to_owned(),
    }
}

/// Returns the title with other words in place of the exception's name. Returns `None` if the title says more than
/// that name and the place.
pub(super) fn replace_crash_name(title: &str, error: &CrashError, words: &str) -> Option<String> {
    let place = title.strip_prefix(&crash_name(error))?;
    let is_place = place.is_empty() || place.starts_with(" in ");
    is_place.then(|| format!("{words}{place}").chars().take(MOST_CHARS).collect())
}

fn capitalise_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Masks a message of an image, and removes the source file and the line that Swift puts around it:
/// `Shop/Cart.swift:12: Fatal error: no price`, `Fatal error: no price: file Shop/Cart.swift, line 12`.
pub(super) fn masked_message(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let is_place = |before: &str| {
        let number = before.rsplit_once(".swift:").map(|(_, number)| number);
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    };
    let text = line.split_once(": ").filter(|(before, _)| is_place(before)).map_or(line, |(_, text)| text);
    let text =
        text.rsplit_once(": file ").filter(|(_, place)| place.contains(", line ")).map_or(text, |t| t.0);
    mask_text(text)
}

/// Returns all lines of a text as [`mask_text`] returns the first, because the first of some exceptions is the same
/// for all errors of one API. Without the stack that React Native appends.
fn mask_lines(text: &str) -> String {
    let text = text.split(", js engine: ").next().unwrap_or_default();
    let text = text.split(", stack:\n").next().unwrap_or_default();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut masked = String::new();
    for line in lines {
        if masked.len() > MOST_CHARS {
            break;
        }
        if !masked.is_empty() {
            masked.push(' ');
        }
        masked.push_str(&mask_text(line));
    }
    masked.chars().take(MOST_CHARS).collect()
}

/// Returns the first line of a text with `#` in place of each number, address and UUID, because those
/// differ between reports of one bug.
pub(super) fn mask_text(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    // React Native appends its engine to the message.
    let line = line.split_once(", js engine: ").map_or(line, |(message, _)| message);
    let mut out = String::with_capacity(line.len().min(4 * MOST_CHARS));
    let mut word = String::new();
    for c in line.chars().take(4 * MOST_CHARS) {
        if c.is_alphanumeric() || c == '-' || c == '_' {
            word.push(c);
            continue;
        }
        out.push_str(&mask_word(&word));
        word.clear();
        out.push(if c.is_control() { ' ' } else { c });
    }
    out.push_str(&mask_word(&word));
    out.chars().take(MOST_CHARS).collect()
}

/// Replaces a number, an address or a UUID with `#`. Inside other words, only the digits are replaced.
fn mask_word(word: &str) -> String {
    let hex = word.strip_prefix("0x").unwrap_or(word);
    let is_hex = hex.len() >= 6
        && hex.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
        && hex.bytes().any(|b| b.is_ascii_digit());
    if is_hex || (word.starts_with("0x") && hex.bytes().all(|b| b.is_ascii_hexdigit())) {
        return "#".to_owned();
    }
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_reports_of_one_bug_is_masked() {
        for (text, expected) in [
            (
                "-[__NSArrayM objectAtIndex:]: index 5 beyond bounds [0 .. 2]",
                "-[__NSArrayM objectAtIndex:]: index # beyond bounds [# .. #]",
            ),
            (
                "-[Cart total]: unrecognized selector sent to instance 0x600003a1c2d0",
                "-[Cart total]: unrecognized selector sent to instance #",
            ),
            ("no item 6F9619FF-8B86-D011-B42D-00C04FC964FF\nsecond line", "no item #"),
            ("  \n deadbeef is a word, 00deadbeef is not", "deadbeef is a word, # is not"),
            ("Unhandled JS Exception: no cart, js engine: hermes, stack:", "Unhandled JS Exception: no cart"),
            ("", ""),
        ] {
            assert_eq!(mask_text(text), expected);
        }
        assert_eq!(mask_text(&"é".repeat(5_000)).chars().count(), MOST_CHARS);
    }

    #[test]
    fn a_message_loses_its_file_and_line() {
        let nil = "Fatal error: Unexpectedly found nil while unwrapping an Optional value";
        for (text, expected) in [
            (format!("Shop/Cart.swift:12: {nil}\n"), nil),
            (format!("{nil}: file Shop/Cart.swift, line 12\n"), nil),
            ("Fatal error: no file: 7".to_owned(), "Fatal error: no file: #"),
            ("Fatal error: Cart.swift: gone".to_owned(), "Fatal error: Cart.swift: gone"),
            (
                "Assertion failed: (price > 0), function total, file cart.c, line 12.".to_owned(),
                "Assertion failed: (price > #), function total, file cart.c, line #.",
            ),
            (String::new(), ""),
        ] {
            assert_eq!(masked_message(&text), expected);
        }
    }

    #[test]
    fn a_title_says_what_happened_and_where() {
        let error = CrashError {
            exception: Some("EXC_BAD_ACCESS".into()),
            code: Some("KERN_INVALID_ADDRESS".into()),
            ..CrashError::default()
        };
        let titled = |kind, error: &CrashError, trap| build_title(kind, error, trap, Some("Cart.total"));
        assert_eq!(
            titled(GroupKind::Crash, &error, None),
            "EXC_BAD_ACCESS (KERN_INVALID_ADDRESS) in Cart.total"
        );
        assert_eq!(
            titled(GroupKind::Crash, &error, Some("arithmetic overflow")),
            "Arithmetic overflow in Cart.total"
        );
        assert_eq!(titled(GroupKind::Hang, &error, None), "Hang in Cart.total");
        let stopped =
            CrashError { message: Some("Cart.swift:7: Fatal error: no price".into()), ..error.clone() };
        assert_eq!(titled(GroupKind::Crash, &stopped, None), "Fatal error: no price in Cart.total");
        assert_eq!(
            titled(GroupKind::Crash, &stopped, Some("arithmetic overflow")),
            "Arithmetic overflow in Cart.total"
        );
        let said = CrashError { reason: Some("its own".into()), ..stopped };
        assert_eq!(titled(GroupKind::Crash, &said, None), "its own");
        let raised = CrashError {
            exception: Some("NSRangeException".into()),
            reason: Some("index 7".into()),
            ..CrashError::default()
        };
        assert_eq!(titled(GroupKind::Exception, &raised, None), "NSRangeException: index #");
        let twice = CrashError { reason: Some("nsrangeexception".into()), ..raised };
        assert_eq!(titled(GroupKind::Exception, &twice, None), "NSRangeException in Cart.total");
        let killed = CrashError {
            exception: Some("EXC_CRASH".into()),
            reason: Some("Namespace SIGNAL, Code 6".into()),
            ..error
        };
        assert_eq!(titled(GroupKind::Crash, &killed, None), "EXC_CRASH in Cart.total");
        let ended = CrashError { termination: Some("low_battery".into()), ..CrashError::default() };
        assert_eq!(titled(GroupKind::Termination, &ended, None), "Ended by the system: low battery");
    }

    #[test]
    fn an_abort_is_named_by_its_signal_and_its_message() {
        let titled = |exception: &str, signal: &str, message: &str, reason: &str| {
            let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
            let error = CrashError {
                exception: text(exception),
                signal: text(signal),
                message: text(message),
                reason: text(reason),
                ..CrashError::default()
            };
            build_title(GroupKind::Crash, &error, None, Some("Cart.total"))
        };
        let failed = "Assertion failed: (price > limit), function total, file cart.c, line 12.";
        let shown =
            "abort: Assertion failed: (price > limit), function total, file cart.c, line #. in Cart.total";
        for (exception, signal, message, reason, expected) in [
            ("EXC_CRASH", "SIGABRT", "", "", "SIGABRT in Cart.total"),
            ("", "SIGABRT", "", "", "SIGABRT in Cart.total"),
            ("EXC_CRASH", "SIGKILL", "", "", "SIGKILL in Cart.total"),
            ("EXC_CRASH", "", "", "", "EXC_CRASH in Cart.total"),
            ("EXC_CRASH", "SIGABRT", "abort() called", "", "SIGABRT in Cart.total"),
            ("EXC_CRASH", "SIGABRT", failed, "", shown),
            ("", "SIGABRT", failed, "", shown),
            ("EXC_CRASH", "SIGABRT", "", "no room", "abort: no room"),
            ("EXC_BREAKPOINT", "SIGTRAP", "Fatal error: no price", "", "Fatal error: no price in Cart.total"),
        ] {
            assert_eq!(titled(exception, signal, message, reason), expected);
        }
    }

    #[test]
    fn an_end_by_a_namespace_alone_is_named_with_its_signal_and_its_function() {
        let titled = |exception: &str, signal: &str, reason: &str| {
            let error = CrashError {
                exception: Some(exception.to_owned()),
                signal: Some(signal.to_owned()).filter(|signal| !signal.is_empty()),
                reason: Some(reason.to_owned()),
                ..CrashError::default()
            };
            build_title(GroupKind::Crash, &error, None, Some("Cart.total"))
        };
        for (exception, signal, reason, expected) in [
            ("EXC_CRASH", "SIGKILL", "CODESIGNING 0x4", "SIGKILL: CODESIGNING 0x4 in Cart.total"),
            (
                "EXC_BAD_ACCESS",
                "SIGKILL",
                "CODESIGNING 0x2 Invalid Page",
                "EXC_BAD_ACCESS: CODESIGNING 0x2 Invalid Page in Cart.total",
            ),
            ("EXC_CRASH", "SIGABRT", "LIBXPC 0x2", "SIGABRT: LIBXPC 0x2 in Cart.total"),
            (
                "EXC_CRASH",
                "SIGKILL",
                "RUNNINGBOARD 0xdead10cc",
                "SIGKILL: RUNNINGBOARD 0xdead10cc in Cart.total",
            ),
            ("EXC_GUARD", "", "GUARD 0x2000000000000012", "EXC_GUARD: GUARD # in Cart.total"),
            ("EXC_CRASH", "SIGKILL", "WATCHKIT", "SIGKILL: WATCHKIT in Cart.total"),
            ("EXC_CRASH", "SIGABRT", "Library not loaded", "abort: Library not loaded"),
            ("EXC_CRASH", "SIGKILL", "TCC is not allowed", "TCC is not allowed"),
            ("EXC_CRASH", "SIGKILL", "DYLD 0x1\nmore", "DYLD # more"),
        ] {
            assert_eq!(titled(exception, signal, reason), expected, "{reason}");
        }
    }

    #[test]
    fn words_replace_the_name_of_the_exception_only() {
        let error = CrashError { exception: Some("EXC_BAD_ACCESS".to_owned()), ..CrashError::default() };
        let replaced = |title| replace_crash_name(title, &error, "Null pointer: Cart.total");
        assert_eq!(replaced("EXC_BAD_ACCESS in add").as_deref(), Some("Null pointer: Cart.total in add"));
        assert_eq!(replaced("EXC_BAD_ACCESS").as_deref(), Some("Null pointer: Cart.total"));
        for says_more in ["Index out of range in add", "EXC_BAD_ACCESS_OF_OURS", "abort: no price"] {
            assert_eq!(replaced(says_more), None, "{says_more}");
        }
    }

    #[test]
    fn exceptions_with_different_messages_have_different_titles() {
        let titled = |reason: &str| {
            let error = CrashError {
                exception: Some("NSInternalInconsistencyException".into()),
                reason: Some(reason.into()),
                ..CrashError::default()
            };
            build_title(GroupKind::Exception, &error, None, None)
        };
        let first = titled("Invalid update:\n\n  section 0 has 3 rows\n");
        assert_eq!(first, "NSInternalInconsistencyException: Invalid update: section # has # rows");
        assert_eq!(titled("Invalid update:\nsection 1 has 12 rows"), first);
        assert_ne!(titled("Invalid update:\nrow 1 was deleted twice"), first);
        let native = titled("Unhandled JS Exception: no cart, stack:\nbuy@1:20\nrender@1:900");
        assert_eq!(native, "NSInternalInconsistencyException: Unhandled JS Exception: no cart");
        assert_eq!(titled(&"long\n".repeat(100_000)).chars().count(), MOST_CHARS);
    }
}
