//! Which format a file is in.

use super::backtrace::is_backtrace;
use super::folded::folded_line;
use super::{folded, metric_kit, sample, spindump};
use crate::profile::{MOST_BYTES, Profile, ProfileError};

/// Lines at the beginning that show whether a text is folded stacks.
const SHOWN_LINES: usize = 20;

/// Reads a profile in any of the formats.
///
/// # Errors
/// Returns an error if the profile is too large, has no known format, or has no frames.
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

/// Reads JSON, or a text after a header of JSON on the first line, as `.ips` files have it.
fn read_json(text: &str) -> Result<Profile, ProfileError> {
    metric_kit::read_document(text).or_else(|error| {
        let (header, body) = text.split_once('\n').unwrap_or((text, ""));
        let has_header = serde_json::from_str::<serde::de::IgnoredAny>(header).is_ok();
        if has_header && !body.trim_start().starts_with('{') { read_text(body) } else { Err(error) }
    })
}

fn read_text(text: &str) -> Result<Profile, ProfileError> {
    if text.lines().any(|line| line.trim() == sample::CALL_GRAPH) {
        return Ok(sample::read_sample(text));
    }
    if text.lines().any(|line| spindump::process_head(line).is_some()) {
        let profile = spindump::read_spindump(text);
        // Crash logs begin with the same words, and have no samples.
        let has_samples = profile.frames.iter().any(|frame| !frame.label);
        return if !has_samples && is_backtrace(text) { Err(ProfileError::Backtrace) } else { Ok(profile) };
    }
    if is_backtrace(text) {
        return Err(ProfileError::Backtrace);
    }
    if is_folded(text) { Ok(folded::read_folded(text)) } else { Err(ProfileError::Unknown) }
}

/// Returns true if each line is a stack and a count. Either a stack has `;` between its frames, or all are
/// names of one word. Other texts end their lines with numbers, too.
fn is_folded(text: &str) -> bool {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let shown: Option<Vec<&str>> =
        lines.take(SHOWN_LINES).map(|line| folded_line(line).map(|(stack, _)| stack)).collect();
    shown.is_some_and(|stacks| {
        let has_chain = stacks.iter().any(|stack| stack.contains(';'));
        let are_names = stacks.iter().all(|stack| !stack.contains(char::is_whitespace));
        !stacks.is_empty() && (has_chain || are_names)
    })
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
    fn a_backtrace_is_refused_as_one() {
        let line = "0   CoreFoundation  0x00007fff23e3cf0e __exceptionPreprocess + 350\n";
        let more = "1   libobjc.A.dylib  0x00007fff50ba89b2 objc_exception_throw + 48\n";
        let log =
            "Incident Identifier: 1\nProcess:             Shop [42]\nPath: /Shop\n\nThread 0 Crashed:\n";
        for text in [
            line.to_owned(),
            format!("{line}{more}"),
            format!("Thread 3:\n{line}"),
            format!("{log}{line}{more}"),
        ] {
            let error = read_profile(text.as_bytes()).unwrap_err();
            assert_eq!(error, ProfileError::Backtrace, "{text}");
        }
        let said = ProfileError::Backtrace.to_string();
        assert!(said.contains("a backtrace") && said.contains("unslide symbolicate"), "{said}");
    }

    #[test]
    fn folded_stacks_of_any_names_are_read() {
        for text in
            ["main 3\n", "Process::run;draw 3\n", "a b;c d 2\n(left out) 4\n", "-[Cart total];x + 3;y 2\n"]
        {
            let profile = read_profile(text.as_bytes()).unwrap();
            assert_eq!((profile.format, profile.skipped), (ProfileFormat::Folded, 0), "{text}");
        }
    }

    #[test]
    fn what_is_no_profile_is_refused_with_a_reason() {
        let refused = |text: &str| read_profile(text.as_bytes()).unwrap_err();
        assert_eq!(refused(""), ProfileError::Unknown);
        assert_eq!(refused("hello world\n"), ProfileError::Unknown);
        assert_eq!(refused("disk of server has 12\nno room since 13\n"), ProfileError::Unknown);
        assert_eq!(refused("{}"), ProfileError::Empty);
        assert_eq!(refused("Call graph:\n  3 Thread_1\n"), ProfileError::Empty);
        assert!(matches!(refused("{\"callStacks\":"), ProfileError::Json(_)));
        assert!(matches!(refused("{\"bug_type\":\"309\"}\n{\"threads\":[]}"), ProfileError::Json(_)));
    }
}
