//! `GET /v1/public-keys/{id}`: a public key with its text.

use super::{check_id, no_key};
use crate::store::{self, IngestKey, KeyToday, KeyVersion};
use axum::Json;
use axum::extract::State;
use serde::Serialize;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Path, Problem, TenantAdmin, problems};
use unslide_store::key_erasures::{KeyErasure, list_erasures};
use unslide_store::{Result, TenantTx};
use utoipa::ToSchema;

/// Versions of a key that are listed.
const LISTED_VERSIONS: i64 = 100;

/// A public key with the versions of apps that use it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PublicKeyDetail)]
pub struct IngestKeyDetail {
    /// The key with its text.
    #[serde(flatten)]
    pub key: IngestKey,
    /// Versions of apps that used the key in the last 30 days, those with the newest reports first.
    #[schema(max_items = 100)]
    pub versions: Vec<KeyVersion>,
    /// Reports of today, some of which would be lost if the key were closed.
    pub today: KeyToday,
    /// Erasures of what came with the key: those under way, then the newest.
    #[schema(max_items = 50)]
    pub erasures: Vec<KeyErasure>,
}

impl IngestKeyDetail {
    /// Reads the use of a key. With `app` only keys of this app alone are found.
    ///
    /// # Errors
    /// The database fails.
    pub async fn read_detail(
        tx: &mut TenantTx,
        id: &str,
        app: Option<&str>,
    ) -> Result<Option<IngestKeyDetail>> {
        let Some(key) = store::get_key(tx, id, app).await? else { return Ok(None) };
        let ids = std::slice::from_ref(&key.id);
        let versions = store::list_key_versions(tx, ids, LISTED_VERSIONS).await?;
        let today = store::read_today(tx, ids, app).await?.into_iter().next();
        let erasures = list_erasures(tx, ids).await?;
        Ok(today.map(|today| IngestKeyDetail { key, versions, today, erasures }))
    }
}

problems!(Failures: InvalidParameter, NotFound);

/// Get a public key
///
/// With its text, as an app carries it, and the versions of apps that still use it: to close the key loses their reports.
/// Of a key and day about 100 versions are counted.
#[utoipa::path(get, path = "/v1/public-keys/{id}", tag = "ingest", operation_id = "get_public_key",
    params(("id" = String, Path, description = "The key's id: 8 hexadecimal digits.", max_length = 64)),
    responses((status = 200, description = "The key.", body = IngestKeyDetail), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_public_key(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
) -> std::result::Result<Json<IngestKeyDetail>, Problem> {
    check_id(&id)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let detail = IngestKeyDetail::read_detail(&mut tx, &id, access.only_app()).await?;
    detail.map(Json).ok_or_else(no_key)
}
