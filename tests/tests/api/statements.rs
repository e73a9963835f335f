//! The statements of requests, by their texts: what is done beside a request has another text than the request's own.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Requests of the first measurement, and of the second at most.
const FIRST_TRIES: u32 = 2;
const MOST_TRIES: u32 = 8;

/// How often statements were sent, by their texts.
#[derive(Clone, Debug, Default)]
pub struct Statements(BTreeMap<Arc<str>, usize>);

impl Statements {
    /// The number of statements.
    pub fn count_all(&self) -> usize {
        self.0.values().sum()
    }

    /// Counts a statement that is sent.
    pub fn add(&mut self, text: &Arc<str>) {
        *self.0.entry(text.clone()).or_default() += 1;
    }

    /// What came after `before`.
    pub fn subtract(&self, before: &Statements) -> Statements {
        self.combine(before, usize::saturating_sub)
    }

    /// What both have: of each text the lower number.
    pub fn intersect(&self, other: &Statements) -> Statements {
        self.combine(other, usize::min)
    }

    /// What this has more of than `before`, as lines.
    pub fn grown_since(&self, before: &Statements) -> Vec<String> {
        let line = |(text, count): (Arc<str>, usize)| {
            let had = before.0.get(&text).copied().unwrap_or_default();
            format!("{had} and {}: {}", had + count, text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        self.subtract(before).0.into_iter().map(line).collect()
    }

    fn combine(&self, other: &Statements, number: impl Fn(usize, usize) -> usize) -> Statements {
        let both = |(text, count): (&Arc<str>, &usize)| {
            let number = number(*count, other.0.get(text).copied().unwrap_or_default());
            (number > 0).then(|| (text.clone(), number))
        };
        Statements(self.0.iter().filter_map(both).collect())
    }
}

/// The statements of a request: of each text the least of several requests, as something that is done beside requests, or
/// once, falls into some. A second measurement ends as soon as it has no text more often than the first.
pub struct Cost<'c> {
    before: Option<&'c Statements>,
    tries: u32,
    pub least: Statements,
}

impl<'c> Cost<'c> {
    pub fn new(before: Option<&'c Statements>) -> Cost<'c> {
        Cost { before, tries: 0, least: Statements::default() }
    }

    /// Returns the number of the next try, if there is to be one.
    pub fn next_try(&self) -> Option<u32> {
        let is_done = self.tries > 0
            && match self.before {
                None => self.tries == FIRST_TRIES,
                Some(before) => self.tries == MOST_TRIES || self.least.grown_since(before).is_empty(),
            };
        (!is_done).then_some(self.tries)
    }

    pub fn add(&mut self, sent: Statements) {
        self.least = if self.tries == 0 { sent } else { self.least.intersect(&sent) };
        self.tries += 1;
    }
}

#[test]
fn a_statement_that_is_sent_more_often_is_seen_beside_one_that_is_sent_less() {
    let sent = |counts: &[(&str, usize)]| {
        Statements(counts.iter().map(|(text, count)| (Arc::from(*text), *count)).collect())
    };
    let before = sent(&[("read the key", 1), ("read a row", 2)]);
    assert_eq!(sent(&[("read a row", 3)]).grown_since(&before), ["2 and 3: read a row"]);
    assert!(sent(&[("read a row", 2)]).grown_since(&before).is_empty());
    let beside = [sent(&[("read a row", 2), ("look", 1)]), sent(&[("read a row", 2), ("note", 1)])];
    assert_eq!(beside[0].count_all(), 3);
    assert!(beside[0].intersect(&beside[1]).grown_since(&before).is_empty(), "each falls into one request");
}
