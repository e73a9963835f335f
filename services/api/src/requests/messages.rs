//! The messages for parameters that libraries refuse, in our words.

use axum::extract::path::ErrorKind;

/// Characters of a client's text that a message repeats.
pub const MESSAGE_CHARS: usize = 100;

/// Returns the message for a path. It begins with the name of the parameter.
pub fn describe_path_error(error: &ErrorKind) -> String {
    match error {
        ErrorKind::DeserializeError { key, value, message } => {
            format!("{key}: {}", plain_reason(value, message))
        }
        ErrorKind::ParseErrorAtKey { key, value, .. } => format!("{key}: {}", not_a(value, "whole number")),
        ErrorKind::InvalidUtf8InPathParam { key } => format!("{key}: the text is not UTF-8"),
        ErrorKind::ParseError { value, .. } => not_a(value, "whole number"),
        ErrorKind::Message(message) => plain_reason("", message),
        _ => "the path has a part that cannot be read".to_owned(),
    }
}

/// Returns the message for a query, from that of the library. It begins with the name of the parameter.
pub fn describe_query_error(text: &str) -> String {
    let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(text);
    // Some versions name the parameter first.
    let (named, message) = match text.split_once(": ") {
        Some((name, rest)) if !name.contains([' ', '`']) => (name, rest),
        _ => ("", text),
    };
    let quoted = |after: &str| Some(message.strip_prefix(after)?.split('`').next().unwrap_or_default());
    if let Some(name) = quoted("unknown field `") {
        let known: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
        let known = if known.is_empty() {
            "there are none here".to_owned()
        } else {
            format!("there are {}", known.join(", "))
        };
        let name: String = name.chars().take(MESSAGE_CHARS).collect();
        return format!("{name}: no such parameter; {known}");
    }
    if let Some(name) = quoted("missing field `") {
        return format!("{name}: the parameter is missing");
    }
    if let Some(name) = quoted("duplicate field `") {
        return format!("{name}: the parameter is there twice");
    }
    let reason = plain_reason("", message);
    if named.is_empty() { reason } else { format!("{named}: {reason}") }
}

/// Returns why a value was refused: in our words if a library said it.
pub fn plain_reason(value: &str, message: &str) -> String {
    let message = message.strip_prefix("UUID parsing failed: ").unwrap_or(message);
    let is_of_uuid = ["invalid character: ", "invalid length: ", "invalid group", "invalid number of groups"];
    if is_of_uuid.iter().any(|begin| message.starts_with(begin)) || message == "failed to parse a UUID" {
        return not_a(value, "id, such as 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10");
    }
    match message {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            not_a(value, "whole number")
        }
        "number too large to fit in target type" => "the number is too large".to_owned(),
        "number too small to fit in target type" => "the number is too small".to_owned(),
        "provided string was not `true` or `false`" => not_a(value, "value of true or false"),
        other => other.to_owned(),
    }
}

fn not_a(value: &str, what: &str) -> String {
    let shown: String = value.chars().take(MESSAGE_CHARS).collect();
    let article = if what.starts_with('i') { "an" } else { "a" };
    if shown.is_empty() {
        format!("not {article} {what}")
    } else {
        format!("{shown:?} is not {article} {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::input::parse_parameter;
    use axum::extract::Query;
    use serde::Deserialize;
    use unslide_store::Uuid;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors matter")]
    struct Parameters {
        q: String,
        limit: Option<u32>,
        fatal: Option<bool>,
    }

    #[test]
    fn a_query_is_refused_in_our_words() {
        for (query, message) in [
            ("q=a&foo=1", "foo: no such parameter; there are q, limit, fatal"),
            ("limit=1", "q: the parameter is missing"),
            ("q=a&q=b", "q: the parameter is there twice"),
            ("q=a&limit=many", "limit: not a whole number"),
            ("q=a&limit=5000000000", "limit: the number is too large"),
            ("q=a&fatal=1", "fatal: not a value of true or false"),
        ] {
            let uri = format!("http://a/?{query}").parse().unwrap();
            let error = Query::<Parameters>::try_from_uri(&uri).unwrap_err();
            assert_eq!(describe_query_error(&error.body_text()), message, "{query}");
        }
    }

    #[test]
    fn an_id_is_refused_in_our_words() {
        let refused = parse_parameter::<Uuid>("rule", "CAFE-7XRV").unwrap_err();
        let message = "rule: \"CAFE-7XRV\" is not an id, such as 5a9e21d4-0c7b-4e0f-9b1e-6f2c8d4a7b10";
        assert_eq!(refused.detail(), Some(message));
        let refused = Uuid::parse_str("x").unwrap_err().to_string();
        assert!(plain_reason("x", &refused).starts_with("\"x\" is not an id"), "{refused}");
    }
}
