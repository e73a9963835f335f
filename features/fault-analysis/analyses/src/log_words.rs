//! The system's words on a crash in a log.

use unslide_report::CrashState;

/// Returns the sentence of a log that has one of these words, in any case.
pub fn find_words<'s>(state: &'s CrashState<'_>, wanted: &[&str]) -> Option<&'s str> {
    let has = |sentence: &&String| {
        let sentence = sentence.to_ascii_lowercase();
        wanted.iter().any(|words| sentence.contains(words))
    };
    state.words.iter().chain(&state.kernel_notes).find(has).map(String::as_str)
}
