//! The keys of the app with short values, by which reports are filtered and counted.

use super::{ContextKey, is_shown_elsewhere};
use crate::json::{Number, Value};
use crate::report::summary::facts::PartFacts;
use crate::text::escape_line;
use crate::users::is_user_id;

/// The maximum number of keys.
const SCALAR_KEYS_LIMIT: usize = 50;
/// The maximum size of a key's name, in bytes.
const SCALAR_NAME_BYTES_LIMIT: usize = 64;
/// The maximum size of a key's value, in bytes.
const SCALAR_VALUE_BYTES_LIMIT: usize = 128;
/// The most bytes of a string in JSON for each byte of its text: `\u0041`.
const ESCAPE_BYTES: usize = 6;

/// Reads the first keys of `user` with a string, a number or a boolean, and those of objects directly in it as
/// `object.member`. Longer names and values are left out, not cut: a part of a value is another value.
///
/// Members that hold an id of a user are left out: what is stored of a person is a hash alone. `user_atcrash` takes
/// precedence, and the last of two equal names.
pub(super) fn read_scalar_keys(facts: &PartFacts<'_, '_>) -> Vec<ContextKey> {
    let mut found = ScalarKeys::default();
    for section in facts.user_sections() {
        found.earlier = found.keys.len();
        section.each_member(|name, value| {
            if is_shown_elsewhere(name) || name.len() > SCALAR_NAME_BYTES_LIMIT {
                return;
            }
            if !value.is_object() {
                found.add_member("", name, value);
                return;
            }
            let object = format!("{}.", String::from_utf8_lossy(name));
            value.each_member(|member, value| found.add_member(&object, member, value));
        });
    }
    found.keys
}

#[derive(Default)]
struct ScalarKeys {
    keys: Vec<ContextKey>,
    /// The number of keys of the sections that take precedence.
    earlier: usize,
}

impl ScalarKeys {
    fn add_member(&mut self, object: &str, name: &[u8], value: Value<'_>) {
        // Checked before texts are decoded: a name or a string may have the size of the report.
        if name.is_empty() || object.len() + name.len() > SCALAR_NAME_BYTES_LIMIT || is_user_id(name) {
            return;
        }
        let name = escape_line(&format!("{object}{}", String::from_utf8_lossy(name))).into_owned();
        let Some(value) = read_scalar(value).filter(|_| name.len() <= SCALAR_NAME_BYTES_LIMIT) else {
            return;
        };
        match self.keys.iter().position(|key| key.name == name) {
            Some(at) if at < self.earlier => {}
            Some(at) => self.keys[at].value = value,
            None if self.keys.len() == SCALAR_KEYS_LIMIT => {}
            None => self.keys.push(ContextKey { name, value }),
        }
    }
}

/// Returns a value as text. Equal numbers have one text, such as `1` for `1.0`.
fn read_scalar(value: Value<'_>) -> Option<String> {
    let text = match value.as_text() {
        Some(text) if text.raw().len() > SCALAR_VALUE_BYTES_LIMIT * ESCAPE_BYTES => None,
        Some(text) => Some(escape_line(&text.decode()).into_owned()),
        None if value.as_boolean().is_some() => value.as_boolean().map(|boolean| boolean.to_string()),
        None => match value.as_number()? {
            Number::Int { magnitude, negative: true } if magnitude > 0 => Some(format!("-{magnitude}")),
            Number::Int { magnitude, .. } => Some(magnitude.to_string()),
            Number::Float(0.0) => Some("0".to_owned()),
            Number::Float(number) => number.is_finite().then(|| number.to_string()),
        },
    };
    text.filter(|text| (1..=SCALAR_VALUE_BYTES_LIMIT).contains(&text.len()))
}
