//! One item of a payload as JSON, such as a request or a launch. What cannot be read is left out, and its name is recorded, so
//! that one odd value never costs a device its other figures.

use super::name::is_countable;
use super::samples::UnreadKeys;
use serde_json::{Map, Value};

/// The most characters of a method, a protocol and an error code.
const WORD_CHARS: usize = 60;

/// The members of an item.
pub(super) struct SentItem<'j> {
    /// The name of the item's list, which is in front of the name of a member.
    list: &'static str,
    members: &'j Map<String, Value>,
}

impl<'j> SentItem<'j> {
    /// Returns `None` if the value is no object.
    pub(super) fn from_value(
        list: &'static str,
        value: &'j Value,
        unread: &mut UnreadKeys,
    ) -> Option<SentItem<'j>> {
        let members = value.as_object();
        if members.is_none() {
            unread.record(list);
        }
        members.map(|members| SentItem { list, members })
    }

    /// Returns a member. `null` is no value.
    pub(super) fn get(&self, key: &str) -> Option<&'j Value> {
        self.members.get(key).filter(|value| !value.is_null())
    }

    /// Reads a member. One that `read` does not understand is left out, and recorded.
    pub(super) fn read<T>(
        &self,
        key: &str,
        unread: &mut UnreadKeys,
        read: impl FnOnce(&'j Value) -> Option<T>,
    ) -> Option<T> {
        let found = read(self.get(key)?);
        if found.is_none() {
            self.record_unread(key, unread);
        }
        found
    }

    /// Reads a number that can be counted.
    pub(super) fn read_number(&self, key: &str, unread: &mut UnreadKeys) -> Option<f64> {
        self.read(key, unread, countable)
    }

    /// Records a member.
    pub(super) fn record_unread(&self, key: &str, unread: &mut UnreadKeys) {
        unread.record(&format!("{}.{key}", self.list));
    }
}

/// Returns a number that can be counted.
pub(super) fn countable(value: &Value) -> Option<f64> {
    value.as_f64().filter(|value| is_countable(*value))
}

/// Reads a count, also one that a bridge has written with a fraction of zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number within the range"
)]
pub(super) fn whole_count(value: &Value) -> Option<u32> {
    let number = value.as_f64()?;
    let is_count = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    is_count.then_some(number as u32)
}

/// Returns a word of a few plain characters, but not a mail address, a query or a text of another script.
pub(super) fn check_word(word: &str) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '/' | ':' | ' ');
    ((1..=WORD_CHARS).contains(&word.len()) && word.chars().all(is_plain)).then_some(word)
}
