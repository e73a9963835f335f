//! The users that a report names.

use crate::{JsonValue, ReadLimits};
use memchr::memmem;

/// Objects within `user` that are looked through, one in the other.
const MOST_LEVELS: usize = 3;
/// Longer values are no ids.
const MOST_ID_BYTES: usize = 200;
/// Names of members that hold an id of a user, in lower case and without `_`, `-` and `.`.
const ID_MEMBERS: [&str; 11] = [
    "id",
    "uid",
    "userid",
    "useridentifier",
    "user",
    "username",
    "login",
    "email",
    "accountid",
    "customerid",
    "memberid",
];

/// Returns the ids in the member `user` of a report, each once, at most `limit`: numbers and texts of members with
/// one of the usual names, such as `id`, `user_id` or `email`.
#[must_use]
pub fn list_users(json: &[u8], limits: &ReadLimits, limit: usize) -> Vec<String> {
    let mut users = Vec::new();
    // Most reports name none: they are not read once more.
    if memmem::find(json, b"\"user\"").is_none() {
        return users;
    }
    let Ok((report, _)) = JsonValue::read(json, 0, limits) else { return users };
    let inner = report.get("recrash_report").and_then(|report| report.get("user"));
    for user in report.get("user").into_iter().chain(inner) {
        collect_ids(user, MOST_LEVELS, limit, &mut users);
    }
    users
}

fn collect_ids(object: JsonValue<'_>, levels: usize, limit: usize, users: &mut Vec<String>) {
    object.each_member(|name, value| {
        if users.len() >= limit {
            return;
        }
        if value.is_object() {
            if levels > 1 {
                collect_ids(value, levels - 1, limit, users);
            }
            return;
        }
        if !is_user_id(name) {
            return;
        }
        let id = match value.as_unsigned() {
            Some(number) => Some(number.to_string()),
            None => value.decode_string(),
        };
        if let Some(id) = id.filter(|id| !id.is_empty() && id.len() <= MOST_ID_BYTES)
            && !users.contains(&id)
        {
            users.push(id);
        }
    });
}

/// Returns true for names of members that hold an id of a user.
pub(crate) fn is_user_id(name: &[u8]) -> bool {
    let name = String::from_utf8_lossy(name).to_lowercase().replace(['_', '-', '.'], "");
    ID_MEMBERS.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(json: &str) -> Vec<String> {
        list_users(json.as_bytes(), &ReadLimits::default(), 8)
    }

    #[test]
    fn ids_of_users_are_found_under_the_usual_names() {
        assert_eq!(users(r#"{"user":{"id":"u-17","plan":"free"}}"#), ["u-17"]);
        assert_eq!(
            users(r#"{"user":{"User_ID":17,"profile":{"e-mail":"a@example.com"}}}"#),
            ["17", "a@example.com"]
        );
        assert_eq!(users(r#"{"user":{"id":"u","uid":"u"}}"#), ["u"]);
        assert_eq!(users(r#"{"recrash_report":{"user":{"id":"u-18"}}}"#), ["u-18"]);
        for none in [
            r#"{"system":{"id":"u"}}"#,
            r#"{"user":"u"}"#,
            r#"{"user":{"plan":"free","id":""}}"#,
            "{\"user\"",
            "[]",
        ] {
            assert!(users(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn ids_are_bounded_in_number_length_and_depth() {
        let many: Vec<String> = (0..20).map(|n| format!(r#""p{n}":{{"id":{n}}}"#)).collect();
        assert_eq!(users(&format!(r#"{{"user":{{{}}}}}"#, many.join(","))).len(), 8);
        assert!(users(&format!(r#"{{"user":{{"id":"{}"}}}}"#, "x".repeat(MOST_ID_BYTES + 1))).is_empty());
        assert!(users(r#"{"user":{"a":{"b":{"c":{"id":1}}}}}"#).is_empty());
    }
}
