//! Rules applied to one text.

use crate::cut::cut_text;
use crate::mark::mask;
use crate::pattern::{PatternRule, TooManyMatches};
use crate::rules::ScrubRules;
use crate::taken::TakenCounts;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that searches of one own pattern go through in one line: this many, or this many times the line. A search may go to the end
/// of the line, so many matches may cost the square of its length. A line that needs more is taken as a whole.
const SEARCH_LIMITS: (usize, usize) = (64 << 10, 64);
/// Rounds of all patterns over one line. What stays after a match may match again: after this many rounds the line is taken as a whole.
const ROUNDS_LIMIT: usize = 4;
/// Growth of a line by marks. A line that grows more is taken as a whole.
const GROWTH_LIMIT: usize = 8;

/// A text without what rules took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScrubbedText {
    /// The text with marks.
    pub text: String,
    /// How often each rule took something, by the names of the rules.
    pub taken: BTreeMap<String, u64>,
}

impl ScrubRules {
    /// Takes what the patterns name out of a text of a report.
    #[must_use]
    pub fn scrub_plain_text(&self, text: &str) -> ScrubbedText {
        let mut taken = TakenCounts::default();
        let scrubbed = self.scrub_text(&self.patterns, text, &mut taken);
        ScrubbedText { text: scrubbed.unwrap_or_else(|| text.to_owned()), taken: taken.counts }
    }

    /// Returns the text without what the patterns take in each of its lines, or None if they take nothing. Marks of these rules
    /// stay, so the result is not changed by the same rules.
    pub(crate) fn scrub_text(
        &self,
        patterns: &[PatternRule],
        text: &str,
        taken: &mut TakenCounts,
    ) -> Option<String> {
        let (mut out, mut is_changed) = (String::new(), false);
        for (place, line) in text.split('\n').enumerate() {
            if place > 0 {
                out.push('\n');
            }
            let scrubbed = self.scrub_line(patterns, line, taken);
            if let Some(scrubbed) = &scrubbed {
                taken.keep_text(line, scrubbed);
                is_changed = true;
            }
            out.push_str(scrubbed.as_deref().unwrap_or(line));
        }
        is_changed.then_some(out)
    }

    fn scrub_line(&self, patterns: &[PatternRule], text: &str, taken: &mut TakenCounts) -> Option<String> {
        let mut now = text.to_owned();
        for round in 0..=ROUNDS_LIMIT {
            let mut last = None;
            for rule in patterns {
                let Ok((replaced, count)) = self.replace_matches(rule, &now) else {
                    return Some(take_whole(rule, taken));
                };
                if count > 0 {
                    if replaced.len() > (text.len() + 64) * GROWTH_LIMIT || round == ROUNDS_LIMIT {
                        return Some(take_whole(rule, taken));
                    }
                    taken.add(&rule.name, count);
                    (now, last) = (replaced, Some(rule));
                }
            }
            if last.is_none() {
                break;
            }
        }
        (now != text).then_some(now)
    }

    /// Replaces the matches of one rule between the marks.
    fn replace_matches(&self, rule: &PatternRule, text: &str) -> Result<(String, u64), TooManyMatches> {
        let (mut out, mut count) = (String::with_capacity(text.len()), 0);
        let (bytes, lines) = SEARCH_LIMITS;
        let mut budget = bytes.max(lines * text.len());
        let mut replace_gap = |gap: Range<usize>, out: &mut String| {
            let (gap, mut copied) = (cut_text(text, gap), 0);
            for range in rule.find_ranges(gap, &mut budget)? {
                out.push_str(cut_text(gap, copied..range.start));
                let value = cut_text(gap, range.clone());
                out.push_str(&self.salt.replace_value(&rule.name, rule.action, value));
                copied = range.end;
                count += 1;
            }
            out.push_str(cut_text(gap, copied..gap.len()));
            Ok(())
        };
        let mut from = 0;
        for found in self.marks.find_iter(text) {
            replace_gap(from..found.start(), &mut out)?;
            out.push_str(found.as_str());
            from = found.end();
        }
        replace_gap(from..text.len(), &mut out)?;
        Ok((out, count))
    }
}

fn take_whole(rule: &PatternRule, taken: &mut TakenCounts) -> String {
    taken.add(&rule.name, 1);
    mask(&rule.name)
}
