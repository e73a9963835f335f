//! `/console/audit-log`: who did what.

use crate::prelude::*;
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
    facts.map(|(name, value)| format!("{name}: {}", format_value(value))).collect::<Vec<_>>().join(", ")
}

/// Formats a JSON value; a text has no quotation marks.
fn format_value(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
