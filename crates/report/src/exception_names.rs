//! Names of Mach exceptions and signals, for reports that have their numbers only.

/// Mach exceptions by number, from 1 (`<mach/exception_types.h>`).
const EXCEPTIONS: [&str; 13] = [
    "EXC_BAD_ACCESS",
    "EXC_BAD_INSTRUCTION",
    "EXC_ARITHMETIC",
    "EXC_EMULATION",
    "EXC_SOFTWARE",
    "EXC_BREAKPOINT",
    "EXC_SYSCALL",
    "EXC_MACH_SYSCALL",
    "EXC_RPC_ALERT",
    "EXC_CRASH",
    "EXC_RESOURCE",
    "EXC_GUARD",
    "EXC_CORPSE_NOTIFY",
];
/// Signals by number, from 1 (`<sys/signal.h>`).
const SIGNALS: [&str; 31] = [
    "SIGHUP",
    "SIGINT",
    "SIGQUIT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGEMT",
    "SIGFPE",
    "SIGKILL",
    "SIGBUS",
    "SIGSEGV",
    "SIGSYS",
    "SIGPIPE",
    "SIGALRM",
    "SIGTERM",
    "SIGURG",
    "SIGSTOP",
    "SIGTSTP",
    "SIGCONT",
    "SIGCHLD",
    "SIGTTIN",
    "SIGTTOU",
    "SIGIO",
    "SIGXCPU",
    "SIGXFSZ",
    "SIGVTALRM",
    "SIGPROF",
    "SIGWINCH",
    "SIGINFO",
    "SIGUSR1",
    "SIGUSR2",
];

/// Returns the name of a Mach exception.
#[must_use]
pub fn exception_name(number: u64) -> Option<&'static str> {
    named(&EXCEPTIONS, number)
}

/// Returns the number of a Mach exception.
#[must_use]
pub fn exception_number(name: &str) -> Option<u64> {
    position(&EXCEPTIONS, name)
}

/// Returns the name of a signal.
#[must_use]
pub fn signal_name(number: u64) -> Option<&'static str> {
    named(&SIGNALS, number)
}

/// Returns the number of a signal.
#[must_use]
pub fn signal_number(name: &str) -> Option<u64> {
    position(&SIGNALS, name)
}

/// Returns the name of the signal in a text: `SIGABRT`, `SIGKILL (Code Signature Invalid)`, `SIGKILL - CODESIGNING`, or a
/// number such as `6` or `signal 6`.
#[must_use]
pub fn read_signal(text: &str) -> Option<String> {
    let text = text.trim().trim_matches(['(', ')']).trim();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let mut words = words.filter(|word| !word.is_empty());
    let first = words.next()?;
    if first.len() > 3 && first.starts_with("SIG") && !first.eq_ignore_ascii_case("signal") {
        return Some(first.to_owned());
    }
    let number = if first.eq_ignore_ascii_case("signal") { words.next()? } else { first };
    signal_name(number.parse().ok()?).map(str::to_owned)
}

fn named(names: &[&'static str], number: u64) -> Option<&'static str> {
    names.get(usize::try_from(number.checked_sub(1)?).ok()?).copied()
}

fn position(names: &[&str], name: &str) -> Option<u64> {
    names.iter().position(|known| *known == name).map(|index| index as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_read_without_the_text_around_it() {
        for (text, expected) in [
            ("SIGABRT", Some("SIGABRT")),
            ("SIGKILL (Code Signature Invalid)", Some("SIGKILL")),
            ("SIGKILL - CODESIGNING", Some("SIGKILL")),
            ("SIGSEGV: invalid", Some("SIGSEGV")),
            ("6", Some("SIGABRT")),
            ("signal 11", Some("SIGSEGV")),
            ("SIGNAL 9", Some("SIGKILL")),
            ("SIGUSR2", Some("SIGUSR2")),
            ("77", None),
            ("KERN_INVALID_ADDRESS", None),
            ("", None),
        ] {
            assert_eq!(read_signal(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn names_and_numbers_are_those_of_the_system() {
        assert_eq!((exception_name(1), exception_name(0)), (Some("EXC_BAD_ACCESS"), None));
        assert_eq!((signal_name(31), signal_name(32)), (Some("SIGUSR2"), None));
        assert_eq!((exception_number("EXC_CRASH"), signal_number("SIGSEGV")), (Some(10), Some(11)));
    }
}
