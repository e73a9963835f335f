//! Flags of a session: the app's own keys at its begin, read by the rules for those of reports, so that both can be compared.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use unslide_report::{ReadLimits, Report};

/// The maximum number of flags that are kept of a session.
const FLAGS_LIMIT: usize = 32;
/// The maximum size of a value in bytes. A name has at most 64, as that of an own key.
const VALUE_BYTES_LIMIT: usize = 64;

/// Names of flags with their values.
pub type SessionFlags = BTreeMap<String, String>;

/// Reads the first flags that have a short name and a short value. Objects in them are read as `object.member`, and members with a
/// usual name of a user's id are left out.
pub fn read_flags(flags: &Map<String, Value>) -> SessionFlags {
    let document = json!({"user": flags}).to_string();
    let limits = ReadLimits::default();
    let Ok(report) = Report::read(document.as_bytes(), &limits) else { return SessionFlags::new() };
    let (.., keys) = report.read_state();
    let short = keys.into_iter().filter(|key| key.value.len() <= VALUE_BYTES_LIMIT);
    short.take(FLAGS_LIMIT).map(|key| (key.name, key.value)).collect()
}

/// Returns true if some of these flags are left out.
pub fn has_unread_flags(flags: &Map<String, Value>) -> bool {
    let count = |value: &Value| value.as_object().map_or(1, Map::len);
    flags.values().map(count).sum::<usize>() > read_flags(flags).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(flags: &Value) -> (Vec<String>, bool) {
        let flags = flags.as_object().unwrap();
        let lines = read_flags(flags).into_iter().map(|(name, value)| format!("{name}={value}"));
        (lines.collect(), has_unread_flags(flags))
    }

    #[test]
    fn flags_are_texts_numbers_and_booleans_as_own_keys_are() {
        let flags =
            json!({"checkout_v2": true, "plan": "pro", "step": 1.0, "off": false, "flags": {"cart": "b"}});
        let lines = ["checkout_v2=true", "flags.cart=b", "off=false", "plan=pro", "step=1"];
        assert_eq!(read(&flags), (lines.map(str::to_owned).to_vec(), false));
        assert_eq!(read(&json!({})), (Vec::new(), false));
    }

    /// Proves: bounded-input
    #[test]
    fn long_odd_and_further_flags_and_ids_of_users_are_left_out() {
        let long = "x".repeat(65);
        for odd in [
            json!({"a": long}),
            json!({long.as_str(): "a"}),
            json!({"a": []}),
            json!({"a": null}),
            json!({"a": ""}),
            json!({"": "a"}),
            json!({"a": {"b": {"c": 1}}}),
            json!({"user_id": "robin", "email": "robin@example.com"}),
        ] {
            assert_eq!(read(&odd), (Vec::new(), true), "{odd}");
        }
        let many: Map<String, Value> =
            (0..40).map(|number| (format!("flag {number}"), Value::from(number))).collect();
        assert_eq!((read_flags(&many).len(), has_unread_flags(&many)), (FLAGS_LIMIT, true));
        assert_eq!(read(&json!({"a": "x\u{0}\n\u{202e}"})).0, [r"a=x\u{0}\n\u{202e}"]);
    }
}
