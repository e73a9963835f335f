//! `DELETE /v1/parquet-export` removes the export of the tenant.

use super::{EVERY_APP, ParquetExportSetting};
use crate::store;
use axum::Json;
use axum::extract::State;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};
use unslide_store::audit;

problems!(Failures: );

/// Remove the Parquet export
///
/// Its credentials are deleted, and nothing is written or deleted in the bucket any more. Files that are there stay, also those that were
/// replaced and not deleted yet.
#[utoipa::path(delete, path = "/v1/parquet-export", tag = "parquet-export", operation_id = "remove_parquet_export",
    responses((status = 200, description = "No export is set.", body = ParquetExportSetting), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn remove_parquet_export(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<ParquetExportSetting>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    store::lock_export(&mut tx).await?;
    if store::remove_export(&mut tx).await? {
        let actor = access.principal.key_id.to_string();
        audit::append_entry(&mut tx, &actor, "parquet_export.remove", "parquet export", &json!({})).await?;
    }
    tx.commit().await?;
    Ok(Json(ParquetExportSetting { export: None }))
}
