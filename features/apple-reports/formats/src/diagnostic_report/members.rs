//! Members of MetricKit's JSON, with names in camel case as Apple writes them, or in snake case as other encoders do.

use super::notes::{Form, Notes};
use unslide_report::JsonValue;

/// The maximum size of a number in a text, in bytes.
const NUMBER_BYTES_LIMIT: usize = 40;

/// Returns true if a member has this name, in any case and with or without `_`.
pub fn is_name(name: &[u8], key: &str) -> bool {
    fn plain(name: &[u8]) -> impl Iterator<Item = u8> + '_ {
        name.iter().filter(|byte| **byte != b'_').map(u8::to_ascii_lowercase)
    }
    plain(name).eq(plain(key.as_bytes()))
}

/// Returns the last member of an object for each of these names, unless it is null.
pub fn find<'a, const N: usize>(object: JsonValue<'a>, keys: [&str; N]) -> [Option<JsonValue<'a>>; N] {
    let mut found = [None; N];
    object.each_member(|name, value| {
        let at = keys.iter().position(|key| is_name(name, key));
        if let Some(slot) = at.and_then(|at| found.get_mut(at)) {
            *slot = Some(value);
        }
    });
    found.map(|value| value.filter(|value| !value.is_null()))
}

/// Returns a member of an object.
pub fn get<'a>(object: JsonValue<'a>, key: &str) -> Option<JsonValue<'a>> {
    let [value] = find(object, [key]);
    value
}

/// Returns a text without the white space around it, unless it is empty.
pub fn text(value: Option<JsonValue<'_>>) -> Option<String> {
    let text = value?.decode_string()?.trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// Returns a text, or that of an object with its `rawValue`.
pub fn raw_text(value: Option<JsonValue<'_>>, notes: &mut Notes) -> Option<String> {
    let value = value?;
    if value.is_object() {
        notes.record_form(Form::RawValue);
        return text(get(value, "rawValue"));
    }
    text(Some(value))
}

/// Returns the 64 bits of a number, or of one in a decimal text or in one with `0x`.
pub fn bits(value: Option<JsonValue<'_>>) -> Option<u64> {
    let value = value?;
    if let Some(number) = value.as_number() {
        return number.to_bits();
    }
    let text = text(Some(value)).filter(|text| text.len() <= NUMBER_BYTES_LIMIT)?;
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Returns a UUID in lower case with dashes. Accepts any case, no dashes, and braces around it.
pub fn uuid(value: Option<JsonValue<'_>>) -> Option<String> {
    let text = value?.as_text().filter(|text| text.raw().len() <= NUMBER_BYTES_LIMIT)?.decode();
    let digits = text.trim().trim_start_matches('{').trim_end_matches('}').replace('-', "");
    if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let digits = digits.to_lowercase();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits.get(part).unwrap_or_default());
    Some(parts.join("-"))
}

/// Returns the JSON type of a value, with its article.
pub fn type_name(value: JsonValue<'_>) -> &'static str {
    match value.raw_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unslide_report::ReadLimits;

    fn read(json: &str) -> JsonValue<'_> {
        JsonValue::read(json.as_bytes(), 0, &ReadLimits::default()).unwrap().0
    }

    #[test]
    fn names_and_ids_are_found_in_any_style() {
        let id = "aaaaaaaa-bbbb-3ccc-8ddd-eeeeeeeeeeee";
        for json in [
            r#"{"binaryUUID":"AAAAAAAA-BBBB-3CCC-8DDD-EEEEEEEEEEEE"}"#,
            r#"{"binary_uuid":"{aaaaaaaabbbb3ccc8dddeeeeeeeeeeee}"}"#,
        ] {
            assert_eq!(uuid(get(read(json), "binaryUUID")).as_deref(), Some(id), "{json}");
        }
        assert_eq!(uuid(Some(read("\"7\""))), None);
    }

    #[test]
    fn all_64_bits_of_a_number_count() {
        for json in ["18446744073709551615", "\"18446744073709551615\"", "\"0xFFFFFFFFFFFFFFFF\"", "-1"] {
            assert_eq!(bits(Some(read(json))), Some(u64::MAX), "{json}");
        }
        assert_eq!(bits(Some(read("[]"))), None);
    }
}
