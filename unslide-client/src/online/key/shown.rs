//! Keys of every kind as `unslide key` prints them, from the API or from the database.

use crate::prelude::*;
use unslide_cli::listing::item_text;

/// The kind of keys that have scopes.
pub const API_KIND: &str = "api";

/// The columns of `key list`.
const COLUMNS: [&str; 10] =
    ["ID", "KIND", "KEY", "STATE", "EXPIRES", "LAST USED", "MADE BY", "SCOPES", "APP", "NAME"];

/// Returns a key with its kind, its apps and its state at a time, from a record of the API or the database.
#[must_use]
pub fn describe_key(kind: &str, mut record: Value, now: &str) -> Value {
    record["kind"] = kind.into();
    if let Some(members) = record.as_object_mut() {
        if let Some(end) = members.remove("closed_at") {
            members.insert("revoked_at".to_owned(), end);
        }
        let app = members.remove("app");
        members.entry("apps").or_insert_with(|| app.into_iter().filter(Value::is_string).collect());
    }
    record["state"] = match record["expires_at"].as_str() {
        _ if record["revoked_at"].is_string() => "revoked",
        Some(end) if end <= now => "expired",
        _ if record["retired_at"].is_string() => "retired",
        _ => "in force",
    }
    .into();
    record
}

/// Prints keys as a table or as JSON.
///
/// # Errors
/// The keys cannot be written as JSON.
pub fn print_keys(keys: &[Value], as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(&keys)?;
        return Ok(Exit::Ready);
    }
    if keys.is_empty() {
        note!("the tenant has no key");
        return Ok(Exit::Ready);
    }
    let mut table = Table::new(&COLUMNS);
    keys.iter().for_each(|key| table.add_row(row(key)));
    table.print();
    Ok(Exit::Ready)
}

fn row(key: &Value) -> [String; 10] {
    let or = |name: &str, absent: &str| key[name].as_str().unwrap_or(absent).to_owned();
    let is_api = key["kind"] == API_KIND;
    [
        item_text(key, "id"),
        item_text(key, "kind"),
        if is_api { format!("unslide_{}_…", item_text(key, "prefix")) } else { "-".to_owned() },
        item_text(key, "state"),
        or("expires_at", "never"),
        or("last_used_at", "never"),
        or("made_by", if is_api { "the command line" } else { "-" }),
        join_texts(&key["scopes"]),
        describe_apps(key),
        item_text(key, "name"),
    ]
}

fn join_texts(texts: &Value) -> String {
    let texts = texts.as_array().into_iter().flatten();
    texts.filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

fn describe_apps(key: &Value) -> String {
    let apps = join_texts(&key["apps"]);
    if apps.is_empty() { "every app".to_owned() } else { apps }
}

/// Prints a key as text or as JSON.
///
/// # Errors
/// The key cannot be written as JSON.
pub fn print_key(key: &Value, as_json: bool) -> Outcome {
    if as_json {
        Console::get().print_json(key)?;
        return Ok(Exit::Ready);
    }
    let [id, kind, _, state, expires, last_used, _, scopes, app, name] = row(key);
    say!("{name}, {kind} key, {state}, for {app}");
    unslide_cli::print_facts(&[
        ("id", id),
        ("scopes", scopes),
        ("expires", expires),
        ("last used", last_used),
        ("text", item_text(key, "text")),
    ]);
    Ok(Exit::Ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_whether_it_is_in_force_whichever_kind_it_is() {
        let state = |record: Value| {
            let key = describe_key("public", record, "2026-11-20T09:00:00Z");
            item_text(&key, "state")
        };
        assert_eq!(state(json!({"revoked_at": "2026-11-20T09:00:00Z"})), "revoked");
        assert_eq!(state(json!({"closed_at": "2026-11-20T09:00:00Z", "state": "closed"})), "revoked");
        assert_eq!(state(json!({"expires_at": "2001-01-01T00:00:00Z"})), "expired");
        assert_eq!(state(json!({"retired_at": "2026-11-20T09:00:00Z", "state": "retired"})), "retired");
        assert_eq!(state(json!({"expires_at": null, "state": "active"})), "in force");
    }

    #[test]
    fn a_row_is_the_same_from_the_api_and_from_the_database() {
        let now = "2026-11-20T09:00:00Z";
        let api = json!({"id": "1", "name": "ci", "prefix": "k3mw7qzd", "app": "com.example.shop", "scopes": ["reports:read"]});
        let stored = json!({"id": "1", "kind": "api", "name": "ci", "prefix": "k3mw7qzd", "apps": ["com.example.shop"],
            "scopes": ["reports:read"]});
        let [shown, listed] = [api, stored].map(|record| row(&describe_key(API_KIND, record, now)));
        assert_eq!(shown, listed);
        assert_eq!(shown[2], "unslide_k3mw7qzd_…");
        let everywhere = describe_key("names", json!({"id": "2", "app": null}), now);
        assert_eq!(describe_apps(&everywhere), "every app");
    }
}
