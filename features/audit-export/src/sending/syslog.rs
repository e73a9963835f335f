//! Entries as messages of syslog: RFC 5424, counted by octets as RFC 5425 frames them.
//!
//! The structured data has the members of an entry, and the message all of it as JSON. `meta` has the number of RFC 5424, section 7.3.1.

use super::delivery::SentEntries;
use std::fmt::Write;
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};
use unslide_model::TenantId;
use unslide_store::audit::AuditEntry;

/// The priority: facility 13 (log audit), severity 5 (notice).
const PRIORITY: u8 = 13 * 8 + 5;
/// The name of the structured data. 32473 is the number for documents (RFC 5612): the product has none of its own.
const DATA_ID: &str = "audit@32473";
/// The most characters of the host's name, and of the kind of a message.
const HOST_LENGTH_LIMIT: usize = 255;
const KIND_LENGTH_LIMIT: usize = 32;
/// The highest number of a message, after which they begin again with 1.
const SEQUENCE_MAX: i64 = 2_147_483_647;

/// Writes entries as frames, one after the other.
pub fn write_frames(sent: &SentEntries<'_>, host_name: &str) -> String {
    let mut frames = String::new();
    for entry in sent.entries {
        let message = write_message(sent.tenant, entry, host_name);
        // A text takes any number of characters.
        let _ = write!(frames, "{} {message}", message.len());
    }
    frames
}

fn write_message(tenant: &TenantId, entry: &AuditEntry, host_name: &str) -> String {
    let mut data = String::new();
    let mut add = |name: &str, value: &str| {
        let _ = write!(data, " {name}=\"{}\"", escape_value(value));
    };
    add("id", &entry.id.to_string());
    if let Some(position) = entry.position {
        add("position", &position.to_string());
    }
    add("tenant", tenant.as_str());
    add("actor", &entry.actor);
    if let Some(name) = &entry.name {
        add("name", name);
    }
    add("action", &entry.action);
    add("subject", &entry.subject);
    let sequence = entry.position.map_or(1, |position| 1 + (position - 1).rem_euclid(SEQUENCE_MAX));
    format!(
        "<{PRIORITY}>1 {} {} unslide - {} [{DATA_ID}{data}][meta sequenceId=\"{sequence}\"] {}",
        format_time(entry.at),
        to_name(host_name, HOST_LENGTH_LIMIT),
        to_name(&entry.action, KIND_LENGTH_LIMIT),
        serde_json::json!(entry)
    )
}

/// Formats a time with at most six digits of a second.
fn format_time(at: OffsetDateTime) -> String {
    let at = at.to_offset(UtcOffset::UTC);
    let micros = at.replace_nanosecond(at.microsecond() * 1_000).unwrap_or(at);
    micros.format(&Rfc3339).unwrap_or_else(|_| "-".to_owned())
}

/// Returns the printable characters of a name; `-` if there are none.
fn to_name(text: &str, limit: usize) -> String {
    let name: String = text.chars().filter(char::is_ascii_graphic).take(limit).collect();
    if name.is_empty() { "-".to_owned() } else { name }
}

/// Escapes the value of a parameter. Line ends would be ends of a message for a server that does not count octets.
fn escape_value(value: &str) -> String {
    let mut escaped = String::new();
    for letter in value.chars() {
        match letter {
            '"' | '\\' | ']' => escaped.extend(['\\', letter]),
            _ if letter.is_control() => escaped.push(' '),
            _ => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use time::macros::datetime;
    use unslide_store::Uuid;

    fn entry(action: &str, subject: &str, position: Option<i64>) -> AuditEntry {
        AuditEntry {
            id: Uuid::from_u128(7),
            at: datetime!(2026-11-29 10:00:00.123456789 UTC),
            actor: "operator".to_owned(),
            name: None,
            action: action.to_owned(),
            subject: subject.to_owned(),
            detail: json!({"scopes": ["reports:read"]}),
            position,
        }
    }

    #[test]
    fn an_entry_is_a_message_of_rfc_5424() {
        let acme = TenantId::new("acme").unwrap();
        let message =
            write_message(&acme, &entry("key.create", "a \"b\" [c]\\\n", Some(41)), "crashes.example.com");
        let (header, json) = message.split_once(" {").unwrap();
        assert_eq!(
            header,
            "<109>1 2026-11-29T10:00:00.123456Z crashes.example.com unslide - key.create \
             [audit@32473 id=\"00000000-0000-0000-0000-000000000007\" position=\"41\" tenant=\"acme\" actor=\"operator\" \
             action=\"key.create\" subject=\"a \\\"b\\\" [c\\]\\\\ \"][meta sequenceId=\"41\"]"
        );
        let read: serde_json::Value = serde_json::from_str(&format!("{{{json}")).unwrap();
        assert_eq!(read["detail"]["scopes"], json!(["reports:read"]));
        assert!(!message.contains('\n'));
    }

    #[test]
    fn a_frame_counts_octets_and_names_are_bounded() {
        let acme = TenantId::new("acme").unwrap();
        let entries =
            [entry(&"ä long action".repeat(9), "große", None), entry("b", "c", Some(SEQUENCE_MAX + 1))];
        let sent = SentEntries { tenant: &acme, entries: &entries, at: OffsetDateTime::UNIX_EPOCH };
        let frames = write_frames(&sent, "");
        let mut rest = frames.as_bytes();
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let space = rest.iter().position(|byte| *byte == b' ').unwrap();
            let count: usize = std::str::from_utf8(&rest[..space]).unwrap().parse().unwrap();
            messages.push(String::from_utf8(rest[space + 1..space + 1 + count].to_vec()).unwrap());
            rest = &rest[space + 1 + count..];
        }
        assert_eq!(messages.len(), 2);
        let kind = messages[0].split(' ').nth(5).unwrap();
        assert_eq!((kind.len(), messages[0].split(' ').nth(2).unwrap()), (32, "-"));
        assert!(
            messages[0].contains("subject=\"große\"") && messages[1].contains("sequenceId=\"1\""),
            "{messages:?}"
        );
    }
}
