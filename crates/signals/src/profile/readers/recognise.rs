//! Which format a file is in.

use super::folded::folded_line;
use super::{folded, metric_kit, sample, spindump};
use crate::profile::{MOST_BYTES, Profile, ProfileError};

/// Lines at the beginning that show whether a text is folded stacks.
const SHOWN_LINES: usize = 20;

/// Reads a profile in any of the formats.
///
/// # Errors
/// Where it is too large, in no known format, or has no frames.
pub fn read_profile(bytes: &[u8]) -> Result<Profile, ProfileError> {
    if bytes.len() > MOST_BYTES {
        return Err(ProfileError::TooLarge);
    }
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let profile = if text.starts_with(['{', '[']) { read_json(text)? } else { read_text(text)? };
    if profile.frames.iter().all(|frame| frame.label) {
        return Err(ProfileError::Empty);
    }
    Ok(profile)
}

/// JSON, or a text behind a header of JSON on the first line, as `.ips` files have it.
fn read_json(text: &str) -> Result<Profile, ProfileError> {
    metric_kit::read(text).or_else(|error| {
        let (header, body) = text.split_once('\n').unwrap_or((text, ""));
        let has_header = serde_json::from_str::<serde::de::IgnoredAny>(header).is_ok();
        if has_header && !body.trim_start().starts_with('{') { read_text(body) } else { Err(error) }
    })
}

fn read_text(text: &str) -> Result<Profile, ProfileError> {
    if text.lines().any(|line| line.trim() == sample::CALL_GRAPH) {
        return Ok(sample::read(text));
    }
    let is_head = |line: &str| spindump::PROCESS_HEADS.iter().any(|head| line.starts_with(head));
    if text.lines().any(is_head) {
        return Ok(spindump::read(text));
    }
    let mut shown = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .take(SHOWN_LINES)
        .peekable();
    if shown.peek().is_some() && shown.all(|line| folded_line(line).is_some()) {
        return Ok(folded::read(text));
    }
    Err(ProfileError::Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProfileFormat;

    #[test]
    fn each_format_is_recognised() {
        let format = |text: &str| read_profile(text.as_bytes()).map(|profile| profile.format);
        assert_eq!(format("\u{feff}main;a 3\n"), Ok(ProfileFormat::Folded));
        assert_eq!(format("a\nCall graph:\n  1 main  (in A)\n"), Ok(ProfileFormat::Sample));
        let spindump = "Process: A [1]\n\n  Thread 0x1    1 samples (1-1)\n  1  main + 1 (A + 1) [0x11]\n";
        assert_eq!(format(spindump), Ok(ProfileFormat::Spindump));
        assert_eq!(format(&format!("{{\"bug_type\":\"228\"}}\n{spindump}")), Ok(ProfileFormat::Spindump));
        let tree = "{\"callStacks\":[{\"callStackRootFrames\":[{\"address\":4096,\"sampleCount\":1}]}]}";
        assert_eq!(format(tree), Ok(ProfileFormat::MetricKit));
    }

    #[test]
    fn what_is_no_profile_is_refused_with_a_reason() {
        let refused = |text: &str| read_profile(text.as_bytes()).unwrap_err();
        assert_eq!(refused(""), ProfileError::Unknown);
        assert_eq!(refused("hello world\n"), ProfileError::Unknown);
        assert_eq!(refused("{}"), ProfileError::Empty);
        assert_eq!(refused("Call graph:\n  3 Thread_1\n"), ProfileError::Empty);
        assert!(matches!(refused("{\"callStacks\":"), ProfileError::Json(_)));
        assert!(matches!(refused("{\"bug_type\":\"309\"}\n{\"threads\":[]}"), ProfileError::Json(_)));
    }
}
