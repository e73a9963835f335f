//! Crash logs in other formats, recognised by their first bytes, so that an error can name the format.
//!
//! Sources: Apple, "Interpreting the JSON format of a crash report" (`.ips`: a header object on the first line, with
//! `bug_type`, and the body behind it) and "Examining the fields in a crash report" (the older text).

use crate::json::{JsonScanner, Stop};
use std::fmt;

/// Bytes at the beginning that are examined. The header of an `.ips` log has about half a KiB.
const LOOKED_AT: usize = 16 << 10;

/// A crash log format other than KSCrash's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForeignFormat {
    /// Apple's `.ips`: two JSON texts, or one that a collector made from them.
    AppleIps,
    /// Apple's `.crash`: text, as older systems write it and macOS shows it.
    AppleCrash,
}

impl fmt::Display for ForeignFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extension = match self {
            ForeignFormat::AppleIps => ".ips",
            ForeignFormat::AppleCrash => ".crash",
        };
        write!(f, "this is an Apple log ({extension}), not KSCrash JSON")
    }
}

/// Returns the format of a file or record that is not a KSCrash report, if its first bytes show it. The `Display`
/// text of the result is a complete error message. `None` means only that the format is not recognised: the bytes
/// may or may not be a KSCrash report.
#[must_use]
pub fn foreign_format(bytes: &[u8]) -> Option<ForeignFormat> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let start = bytes.get(..LOOKED_AT).unwrap_or(bytes).trim_ascii_start();
    if start.first() == Some(&b'{') {
        return is_ips(start).then_some(ForeignFormat::AppleIps);
    }
    is_apple_text(start).then_some(ForeignFormat::AppleCrash)
}

/// Returns true if the readable members of the first object are those of an `.ips` header or body,
/// and none is KSCrash's.
fn is_ips(start: &[u8]) -> bool {
    let (mut header, mut body, mut kscrash) = (false, false, false);
    let mut scanner = JsonScanner::from_position(start, 0, usize::MAX);
    // The examined bytes may end within the object.
    let _: Result<_, Stop> = scanner.read_members(|s, member| {
        match &*member.key {
            b"bug_type" => header |= matches!(s.peek_byte(), Some(b'"' | b'0'..=b'9')),
            b"incident" | b"usedImages" | b"procName" | b"captureTime" => body = true,
            b"crash" | b"report" | b"recrash_report" | b"binary_images" => kscrash = true,
            _ => {}
        }
        s.skip_value()
    });
    (header || body) && !kscrash
}

/// Returns true if one of the first lines is a field of Apple's text, or the line above a translated `.ips`.
fn is_apple_text(start: &[u8]) -> bool {
    const FIELDS: [&[u8]; 6] = [
        b"Incident Identifier:",
        b"CrashReporter Key:",
        b"Hardware Model:",
        b"Process:",
        b"Exception Type:",
        b"Translated Report",
    ];
    let mut lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start).take(8);
    lines.any(|line| FIELDS.iter().any(|field| line.starts_with(field)))
}
