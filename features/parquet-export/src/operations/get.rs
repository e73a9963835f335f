//! `GET /v1/parquet-export` shows the export of the tenant.

use super::{EVERY_APP, ParquetExportSetting, ShownExport};
use crate::store;
use axum::Json;
use axum::extract::State;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Problem, TenantAdmin, problems};

problems!(Failures: );

/// Get the Parquet export
///
/// The bucket of the tenant without its credentials: which days are in it, how many wait to be written again, and why the last turn failed.
#[utoipa::path(get, path = "/v1/parquet-export", tag = "parquet-export", operation_id = "get_parquet_export",
    responses((status = 200, description = "The setting.", body = ParquetExportSetting), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_parquet_export(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<ParquetExportSetting>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let row = store::get_export(&mut tx).await?;
    let waiting = store::count_waiting(&mut tx).await?;
    Ok(Json(ParquetExportSetting { export: row.map(|row| ShownExport::from_row(row, waiting)) }))
}
