//! `PUT /v1/parquet-export` sets the export of the tenant.

use super::{EVERY_APP, ShownExport};
use crate::ParquetExportExtension;
use crate::settings::PARQUET_EXPORT_SECTION;
use crate::store::{self, NewExportRow};
use crate::target::SEALING_KEY;
use crate::writing::begin_writing;
use axum::extract::State;
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use time::UtcOffset;
use unslide_api::feature::Storage;
use unslide_api::feature::buckets::BucketFields;
use unslide_api::feature::operation::{Access, JsonBody, Kind, Problem, TenantAdmin, problems};
use unslide_model::Secret;
use unslide_store::audit;
use utoipa::ToSchema;

problems!(Failures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// A Parquet export to be set.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewParquetExport {
    /// The URL of a service with the interface of S3; absent: that of AWS in the region.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 500, example = "https://storage.googleapis.com")]
    pub address: Option<Secret>,
    /// The bucket.
    #[schema(min_length = 1, max_length = 63, example = "lake")]
    pub bucket: String,
    /// The folder in the bucket with `reports/` and `manifests/`; absent: the bucket itself.
    #[serde(default)]
    #[schema(max_length = 500, example = "crashes")]
    pub prefix: Option<String>,
    /// The region that requests are signed for; `us-east-1` if absent.
    #[serde(default)]
    #[schema(max_length = 200, example = "eu-central-1")]
    pub region: Option<String>,
    /// The id of the access key.
    #[schema(min_length = 1, max_length = 200)]
    pub access_key: String,
    /// The secret of the access key. If absent, the one of the same key and bucket stays. It is stored encrypted and never shown.
    #[serde(default)]
    #[schema(value_type = Option<String>, max_length = 200)]
    pub secret_key: Option<Secret>,
    /// `true`: all days that are kept are written, now. Otherwise a new address begins with today, and the same one goes on.
    #[serde(default)]
    pub from_start: bool,
}

/// Set the Parquet export
///
/// Each day is written three hours after its end (UTC), app by app, and again when its reports have changed. The manifest of a day is
/// replaced at last, by one request. Another bucket or prefix begins again; files at the former one stay.
#[utoipa::path(put, path = "/v1/parquet-export", tag = "parquet-export", operation_id = "set_parquet_export",
    request_body = NewParquetExport,
    responses((status = 200, description = "The export is set.", body = ShownExport), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_parquet_export(
    State(storage): State<Arc<Storage>>,
    Extension(export): ParquetExportExtension,
    access: Access<TenantAdmin>,
    JsonBody(new): JsonBody<NewParquetExport>,
) -> Result<Json<ShownExport>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let wrong = |detail: String| Problem::new(Kind::InvalidBody, detail);
    let tenant = access.tenant();
    let Some(sealer) = &export.sealer else {
        return Err(wrong(format!("This service writes no Parquet files. The operator sets {SEALING_KEY}.")));
    };
    let mut tx = storage.tenant(tenant).await?;
    let known = store::lock_export(&mut tx).await?;
    let former = known.as_ref().and_then(|row| export.open_target(tenant, row).ok());
    let fields = BucketFields {
        address: new.address.as_ref(),
        bucket: Some(&new.bucket),
        prefix: new.prefix.as_deref(),
        region: new.region.as_deref(),
        access_key: Some(&new.access_key),
        secret_key: new.secret_key.as_ref(),
    };
    let target = fields.read_target(former.as_ref(), &export.client.receivers, PARQUET_EXPORT_SECTION);
    let target = target.map_err(wrong)?;
    if target.access_key.is_empty() {
        return Err(wrong("access_key: the id of a key that may write".to_owned()));
    }
    let shown_address = target.base_url();
    let first_day = if new.from_start {
        Some(export.find_kept_from(access.principal.limits.retention_days, tx.now()))
    } else {
        let is_moved = known.as_ref().is_none_or(|row| row.shown_address != shown_address);
        is_moved.then(|| tx.now().to_offset(UtcOffset::UTC).date())
    };
    let sealed_target = sealer.seal_target(tenant, &target).map_err(Problem::internal)?;
    let row = NewExportRow { shown_address, sealed_target, first_day };
    store::set_export(&mut tx, &row).await?;
    begin_writing(&mut tx).await?;
    let detail = json!({"address": row.shown_address, "from_start": new.from_start});
    let actor = access.principal.key_id.to_string();
    audit::append_entry(&mut tx, &actor, "parquet_export.set", "parquet export", &detail).await?;
    let waiting = store::count_waiting(&mut tx).await?;
    let row = store::get_export(&mut tx).await?.ok_or_else(|| Problem::internal("the export is gone"))?;
    tx.commit().await?;
    Ok(Json(ShownExport::from_row(row, waiting)))
}
