//! Backtraces: recognised, so that they are not taken for folded stacks because their lines end in numbers.

use crate::profile::parse_hex;

/// Lines that are searched for frames of a backtrace.
const SEARCHED_LINES: usize = 1_000;

/// Returns true if a text has lines of a backtrace near its beginning, as crash logs, debuggers and
/// `callStackSymbols` write them.
pub(super) fn is_backtrace(text: &str) -> bool {
    text.lines().filter(|line| !line.trim().is_empty()).take(SEARCHED_LINES).any(is_frame)
}

/// Returns true for a line with an index and an address, or with ` + offset` at its end, such as `0
/// CoreFoundation  0x00007fff23e3cf0e __exceptionPreprocess + 350`. Frames of folded stacks have `;` between
/// them.
pub(super) fn is_frame(line: &str) -> bool {
    if line.contains(';') {
        return false;
    }
    let line = line.trim().trim_start_matches("* ").trim_start_matches("frame ");
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    let index = first.trim_start_matches('#').trim_end_matches(':');
    let has_index = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
    let has_address = words.any(|word| parse_hex(word).is_some());
    has_index && has_address || ends_with_offset(line)
}

/// Returns true for a text that ends with ` + ` and a decimal number, after a name.
fn ends_with_offset(line: &str) -> bool {
    let Some((name, offset)) = line.rsplit_once(" + ") else { return false };
    !name.trim().is_empty() && !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_backtraces_are_told_from_folded_stacks() {
        for frame in [
            "0   CoreFoundation  0x00007fff23e3cf0e __exceptionPreprocess + 350",
            "12  Shop            0x0000000104c8a1b4 0x104c80000 + 41396",
            "libsystem_kernel.dylib  0x10fd79c2a __workq_kernreturn + 10",
            "  * frame #0: 0x0000000100003f5c Shop`main at main.swift:3:5",
            "#1  0x0000000100003f5c in main ()",
            "3 Shop 0x104c8a1b4 350",
            "-[Cart total] + 12",
        ] {
            assert!(is_frame(frame), "{frame}");
        }
        for other in
            ["main;a 3", "main 2", "a + 3;b 4", "operator+ 3", "foo+0x12 7", "0x104c8a1b4 7", "a b 4", ""]
        {
            assert!(!is_frame(other), "{other}");
        }
    }
}
