//! `POST /v1/parquet-export/test`.

use super::EVERY_APP;
use crate::bucket::{BucketClient, BucketFailure, UNREACHABLE};
use crate::files::TEST_PATH;
use crate::{ParquetExportExtension, store};
use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use unslide_api::feature::Storage;
use unslide_api::feature::buckets::BucketTarget;
use unslide_api::feature::operation::{Access, Charge, Problem, TenantAdmin, problems};
use utoipa::ToSchema;

problems!(Failures: RateLimited);

/// Units of a test, as many as those of ten reports.
const TEST_UNITS: usize = 10;
/// Timeout of a test. Shorter than that of a request of the api.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

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
    let missing = || "There is no Parquet export: set it first.".to_owned();
    let tried = match row.ok_or_else(missing).and_then(|row| export.open_target(tenant, &row)) {
        Ok(target) => {
            let tried = tokio::time::timeout(TEST_TIMEOUT, try_bucket(&export.client, &target, at)).await;
            tried.unwrap_or_else(|_| Err(BucketFailure::new(UNREACHABLE)))
        }
        Err(problem) => Err(BucketFailure::new(problem)),
    };
    let (ok, status, answer) = match tried {
        Ok(()) => (true, None, "The bucket took an object and deleted it".to_owned()),
        Err(failure) => (false, failure.status, failure.text),
    };
    Ok(Json(ParquetExportTest { ok, path: TEST_PATH.to_owned(), status, answer }))
}

/// Writes an object and deletes it.
async fn try_bucket(
    client: &BucketClient,
    target: &BucketTarget,
    at: OffsetDateTime,
) -> Result<(), BucketFailure> {
    let body = b"A test of Unslide\n".to_vec();
    client.put_object(target, TEST_PATH, body, "text/plain", at).await?;
    client.delete_object(target, TEST_PATH, at).await
}
