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
    State(api): State<Api>,
    signed: SignedIn<TenantAdmin>,
    Query(state): Query<PageState>,
) -> Result<Response, Problem> {
    let query = PageQuery { limit: None, cursor: state.get_text("cursor") };
    let Json(found) = list_audit_log(State(api), signed.access, Query(query)).await?;
    render_html(&AuditLogPage {
        shell: Shell::for_viewer(signed.viewer, "audit-log", "Audit log"),
        entries: found.items,
        next: found.next_cursor.map(|cursor| state.at_cursor(AUDIT_LOG_PAGE, &[], &cursor)),
    })
}

fn facts(entry: &AuditEntry) -> String {
    let facts = entry.detail.as_object().into_iter().flatten();
    let fact =
        |(name, value): (&String, &Value)| format!("{}: {}", name.replace('_', " "), format_value(value));
    facts.map(fact).collect::<Vec<_>>().join("; ")
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
