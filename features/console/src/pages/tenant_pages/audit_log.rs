//! `/console/audit-log`: who did what.

use crate::prelude::*;
use serde_json::Value;
use unslide_api::feature::operation::PageQuery;
use unslide_api::feature::operation::TenantAdmin;
use unslide_api::feature::site::list_audit_log;
use unslide_store::audit::AuditEntry;

const AUDIT_LOG_PAGE: &str = "/console/audit-log";

#[derive(Template)]
#[template(path = "console/pages/tenant_pages/audit_log.html", askama = escaping)]
struct AuditLogPage {
    shell: Shell,
    entries: Vec<AuditEntry>,
    next: Option<String>,
}

pub async fn render_page(
    State(storage): State<Arc<Storage>>,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let query = PageQuery { limit: None, cursor: state.get_text("cursor") };
    let Json(found) = list_audit_log(State(storage), signed.access, Query(query)).await?;
    render_html(&AuditLogPage {
        shell: Shell::for_viewer(signed.viewer, "audit-log", "Audit log"),
        entries: found.items,
        next: found.next_cursor.map(|cursor| state.at_cursor(AUDIT_LOG_PAGE, &[], &cursor)),
    })
}

/// Verbs of actions with their words in a sentence. A feature may have others.
const VERBS: [(&str, &str); 11] = [
    ("create", "created"),
    ("change", "changed"),
    ("delete", "deleted"),
    ("set", "set"),
    ("revoke", "revoked"),
    ("replay", "replayed"),
    ("reprocess", "symbolicated again"),
    ("backfill", "converted to the current format"),
    ("download", "downloaded"),
    ("read", "read"),
    ("erase", "to be erased"),
];

/// Describes an action, such as `key.create`: "Key created".
fn describe_action(action: &str) -> String {
    if action == "console.sign_in" {
        return "Signed in to the console".to_owned();
    }
    let (object, verb) = action.split_once('.').unwrap_or((action, ""));
    let known = VERBS.iter().find(|(name, _)| *name == verb);
    let words = format!("{object} {}", known.map_or(verb, |(_, words)| words)).replace('_', " ");
    let mut letters = words.trim().chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    first + letters.as_str()
}

/// Describes the details of an entry in one line.
fn describe_details(entry: &AuditEntry) -> String {
    let details = entry.detail.as_object().into_iter().flatten();
    let detail =
        |(name, value): (&String, &Value)| format!("{}: {}", name.replace('_', " "), format_value(value));
    details.map(detail).collect::<Vec<_>>().join("; ")
}

/// Formats a JSON value as a person would write it.
fn format_value(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(format_value).collect::<Vec<_>>().join(", "),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| {
                format!("{} {}", name.replace('_', " "), format_value(value))
            };
            members.iter().map(member).collect::<Vec<_>>().join(", ")
        }
        Value::Number(number) => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_action_is_described_as_a_person_would() {
        for (action, words) in [
            ("key.create", "Key created"),
            ("app_settings.change", "App settings changed"),
            ("reports.reprocess", "Reports symbolicated again"),
            ("console.sign_in", "Signed in to the console"),
            ("person.erased", "Person erased"),
            ("upload.not_stored", "Upload not stored"),
            ("unknown", "Unknown"),
        ] {
            assert_eq!(describe_action(action), words);
        }
    }

    #[test]
    fn a_detail_is_no_json() {
        let detail = json!({"scopes": ["reports:read", "symbols:write"], "keep_hangs": false, "limits": {"uploads": 5}});
        assert_eq!(format_value(&detail["scopes"]), "reports:read, symbols:write");
        assert_eq!(
            format_value(&detail),
            "keep hangs no, limits uploads 5, scopes reports:read, symbols:write"
        );
        assert_eq!(format_value(&Value::Null), "none");
    }
}
