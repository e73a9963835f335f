//! `DELETE /v1/reports/{id}`.

use super::get::VariantQuery;
use crate::operations::prelude::*;
use http::StatusCode;
use unslide_model::ReportId;
use unslide_store::{audit, reports};

problems!(Failures: InvalidParameter, NotFound);

/// Delete a report
///
/// The report disappears from lists and queries at once, and its bytes leave object storage within a day. The
/// service remembers its id: neither a copy of it nor a later revision brings it back.
#[utoipa::path(delete, path = "/v1/reports/{id}", tag = "reports", operation_id = "delete_report",
    params(("id" = String, Path, description = "The report's id."), VariantQuery),
    responses((status = 204, description = "The report is deleted."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn delete_report(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
    Query(query): Query<VariantQuery>,
) -> Result<StatusCode, Problem> {
    let id: ReportId = parse_parameter("id", &id)?;
    let variant = query.variant.unwrap_or(0);
    let app = access.principal.app.as_deref();
    let mut tx = storage.tenant(access.tenant()).await?;
    if !reports::delete_report(&mut tx, id, variant, app).await? {
        return Err(Problem::new(Kind::NotFound, "there is no such report"));
    }
    let actor = access.principal.key_id.to_string();
    let detail = serde_json::json!({"variant": variant});
    audit::append_entry(&mut tx, &actor, "report.delete", &id.to_string(), &detail).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
