//! `POST /v1/parquet-export/test`.

use super::{EVERY_APP, no_export};
use crate::bucket::BucketFailure;
use crate::files::TEST_PATH;
use crate::{ParquetExportExtension, store};
use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Charge, Problem, TenantAdmin, problems};
use utoipa::ToSchema;

problems!(Failures: NotFound, RateLimited);

/// Units of a test, as many as those of ten reports.
const TEST_UNITS: usize = 10;

/// A test of a bucket.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ParquetExportTest {
    /// True if the bucket took an object and deleted it.
    pub ok: bool,
    /// The path of the object behind the prefix.
    #[schema(example = "unslide-test")]
    pub path: String,
    /// The status of the answer that refused; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 403)]
    pub status: Option<u16>,
    /// What the answers mean, or why there is none.
    #[schema(example = "The bucket took an object and deleted it")]
    pub answer: String,
}

/// Test the Parquet export
///
/// Writes a small object behind the prefix and deletes it, and returns what the bucket answers.
#[utoipa::path(post, path = "/v1/parquet-export/test", tag = "parquet-export", operation_id = "test_parquet_export",
    responses((status = 200, description = "What the bucket answered.", body = ParquetExportTest), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn test_parquet_export(
    State(storage): State<Arc<Storage>>,
    Extension(export): ParquetExportExtension,
    access: Access<TenantAdmin>,
) -> Result<Json<ParquetExportTest>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let tenant = access.tenant();
    Charge::for_reports(&storage.capacity, tenant, access.principal.limits.units_per_second)?
        .charge_reports(TEST_UNITS)?;
    let mut tx = storage.tenant(tenant).await?;
    let (row, at) = (store::get_export(&mut tx).await?, tx.now());
    // The next step waits for the bucket, and must not hold a connection.
    tx.rollback();
    let row = row.ok_or_else(no_export)?;
    let tried = match export.open_target(tenant, &row) {
        Ok(target) => {
            let (client, body) = (&export.client, b"A test of Unslide\n".to_vec());
            match client.put_object(&target, TEST_PATH, body, "text/plain", at).await {
                Ok(()) => client.delete_object(&target, TEST_PATH, at).await,
                failed => failed,
            }
        }
        Err(problem) => Err(BucketFailure::new(problem)),
    };
    let (ok, status, answer) = match tried {
        Ok(()) => (true, None, "The bucket took an object and deleted it".to_owned()),
        Err(failure) => (false, failure.status, failure.text),
    };
    Ok(Json(ParquetExportTest { ok, path: TEST_PATH.to_owned(), status, answer }))
}
