//! `GET /v1/audit-log`.

use crate::operations::prelude::*;
use crate::requests::page::{time_and_id, timed};
use unslide_store::audit::{self, AuditEntry};

problems!(Failures: InvalidParameter);

/// List the audit log
///
/// Lists the changes of the tenant's keys, uploads, rules and reports with their authors, the newest first.
/// Entries are never changed or removed. A key for one app may not read the log, because it covers all apps.
#[utoipa::path(get, path = "/v1/audit-log", tag = "keys", operation_id = "list_audit_log",
    params(PageQuery),
    responses((status = 200, description = "A page of entries.", body = Page<AuditEntry>), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_audit_log(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<AuditEntry>>, Problem> {
    access.of_every_app("the audit log tells of all")?;
    let list = List::of(access.tenant(), "list_audit_log", &());
    let after = page.after(list, time_and_id)?;
    let limit = page.limit()?;
    let mut tx = api.tenant(access.tenant()).await?;
    let found = audit::list(&mut tx, after, limit + 1).await?;
    Ok(Json(Page::of(found, limit, list, |last| timed(last.at, last.id))))
}
