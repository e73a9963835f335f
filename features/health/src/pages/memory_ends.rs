//! Sentences about ends for lack of memory: what MetricKit reported, and what was inferred before.

use super::prelude::*;
use super::values::format_share;
use crate::store::memory_exceptions::MemoryEndCheck;
use unslide_site::grouped;

/// Describes how many memory exceptions were joined with sessions, how often the inferred ends were right, and how MetricKit's own counts
/// compare.
pub(super) fn describe_memory_ends(found: &MemoryEndCheck) -> Vec<String> {
    let mut sentences = Vec::new();
    if found.exceptions > 0 {
        let exceptions = counted(found.exceptions, "memory exception", "memory exceptions");
        let why = match (found.without_session, found.ambiguous) {
            (0, 0) => String::new(),
            (none, several) => format!(" {none} fit no session, and {several} fit several."),
        };
        let joined = found.joined;
        sentences.push(format!(
            "MetricKit reported {exceptions}. {joined} of them belong to a known session.{why}"
        ));
    }
    if found.inferred > 0 {
        let MemoryEndCheck { inferred, inferred_right, by_exclusion, .. } = *found;
        sentences.push(format!(
            "Of {inferred} of these sessions an end was inferred before. {inferred_right} times it was out of memory as well, \
             {by_exclusion} of these by exclusion alone."
        ));
    }
    for (place, ends) in
        [("on the screen", found.foreground_ends), ("in the background", found.background_ends)]
    {
        if let Some(ends) = ends {
            let share = format_share(ends.share());
            sentences.push(format!(
                "By MetricKit's counts the system ended the app {place} for lack of memory in {share} of {} ends.",
                grouped(ends.ends)
            ));
        }
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory_exceptions::CountedEnds;

    #[test]
    fn the_sentences_say_how_many_of_how_many() {
        let found = MemoryEndCheck {
            exceptions: 5,
            joined: 3,
            without_session: 1,
            ambiguous: 1,
            inferred: 3,
            inferred_right: 2,
            by_exclusion: 1,
            foreground_ends: Some(CountedEnds { ends: 200, out_of_memory: 5 }),
            background_ends: None,
        };
        assert_eq!(
            describe_memory_ends(&found),
            [
                "MetricKit reported 5 memory exceptions. 3 of them belong to a known session. 1 fit no session, and 1 fit several.",
                "Of 3 of these sessions an end was inferred before. 2 times it was out of memory as well, 1 of these by exclusion alone.",
                "By MetricKit's counts the system ended the app on the screen for lack of memory in 2.50 % of 200 ends.",
            ]
        );
        assert!(describe_memory_ends(&MemoryEndCheck::default()).is_empty());
    }
}
