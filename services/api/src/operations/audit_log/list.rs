//! `GET /v1/audit-log`.

use crate::operations::prelude::*;
use crate::requests::page::{position_by_time, time_and_id};
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
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<AuditEntry>>, Problem> {
    access.require_every_app("the audit log tells of all")?;
    let list = List::for_operation(access.tenant(), "list_audit_log", &());
    let after = page.read_cursor(list, time_and_id)?;
    let limit = page.check_limit()?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = audit::list_entries(&mut tx, after, limit + 1).await?;
    Ok(Json(Page::from_rows(found, limit, list, |last| position_by_time(last.at, last.id))))
}
