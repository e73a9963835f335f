//! Addresses within the console.

use form_urlencoded::Serializer;
use std::fmt::Display;

/// Writes a path with the parameters that have a value.
pub fn build_link(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut query = Serializer::new(String::new());
    for (name, value) in parameters {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            query.append_pair(name, value);
        }
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// Encodes a text as one segment of a path.
pub fn encode_segment(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// Returns the path of the page of an app's session.
pub fn session_path(app: &str, id: &str) -> String {
    build_link(&format!("/console/sessions/{}", encode_segment(id)), &[("app", Some(app))])
}

/// Returns the path of a group's page.
pub fn group_path(id: impl Display) -> String {
    format!("/console/groups/{id}")
}

/// Returns true for an address of the console without a host, which is safe to return to after a sign-in.
pub fn is_local(address: &str) -> bool {
    let rest = address.strip_prefix("/console");
    // Browsers resolve dots in a path, even if they are escaped.
    let path = address.split('?').next().unwrap_or_default().to_ascii_lowercase().replace("%2e", ".");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
        && address.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        && !address.contains("//")
        && !path.split('/').any(|segment| matches!(segment, "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_only_parameters_with_a_value() {
        let pairs = [("app", Some("a&b=c")), ("version", None), ("q", Some(""))];
        assert_eq!(build_link("/console/groups", &pairs), "/console/groups?app=a%26b%3Dc");
        assert_eq!(build_link("/console", &[]), "/console");
        assert_eq!(encode_segment("a b/ä?"), "a%20b%2F%C3%A4%3F");
    }

    #[test]
    fn only_addresses_of_the_console_are_led_back_to() {
        for local in ["/console", "/console?days=7", "/console/groups/1?a=%0A", "/console/groups?q=/../a"] {
            assert!(is_local(local), "{local}");
        }
        for foreign in [
            "",
            "/",
            "/docs",
            "//evil.example",
            "/console//evil.example",
            "/console/../docs",
            "/console/%2E%2e/docs",
            "/console/./..",
            "/consoles",
            "https://evil.example/console",
            "/console\\evil",
            "/console\r\nSet-Cookie: a=b",
            "/console@evil.example",
            "/console/\u{202e}",
        ] {
            assert!(!is_local(foreign), "{foreign}");
        }
    }
}
