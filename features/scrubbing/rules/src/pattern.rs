//! One pattern and its matches.

use crate::config::{ReadyPattern, ScrubAction};
use crate::cut::cut_text;
use crate::ready::check_candidate;
use regex::Regex;
use std::ops::Range;

/// A compiled pattern and its action.
#[derive(Clone, Debug)]
pub struct PatternRule {
    pub name: String,
    pub expression: Regex,
    pub ready: Option<ReadyPattern>,
    pub action: ScrubAction,
}

/// The line has more matches than can be searched.
pub struct TooManyMatches;

impl PatternRule {
    /// Returns the ranges that the pattern takes, in their order.
    pub fn find_ranges(&self, text: &str, budget: &mut usize) -> Result<Vec<Range<usize>>, TooManyMatches> {
        let (mut ranges, mut from) = (Vec::new(), 0);
        while let Some(captures) = self.expression.captures_at(text, from) {
            // Ready patterns look a bounded way beyond a match.
            if self.ready.is_none() {
                *budget = budget.checked_sub(text.len() - from).ok_or(TooManyMatches)?;
            }
            let Some(whole) = captures.get(0) else { break };
            let checked = match self.ready {
                Some(ready) => {
                    let part = captures.iter().skip(1).flatten().next().unwrap_or(whole);
                    check_candidate(ready, text, part.range())
                }
                None => Some(whole.range()),
            };
            match checked {
                Some(range) => {
                    from = range.end;
                    ranges.push(range);
                }
                // Another candidate may begin inside of this one.
                None => {
                    let first = cut_text(text, whole.range()).chars().next();
                    from = whole.start() + first.map_or(1, char::len_utf8);
                }
            }
        }
        Ok(ranges)
    }
}
