//! `GET /v1/public-keys/{id}`: a public key with its text.

use super::{check_id, no_key};
use crate::store::{self, IngestKey};
use axum::Json;
use axum::extract::State;
use unslide_api::feature::operation::{Access, Api, Path, Problem, TenantAdmin, problems};

problems!(Failures: InvalidParameter, NotFound);

/// Get a public key
///
/// With its text, as an app carries it.
#[utoipa::path(get, path = "/v1/public-keys/{id}", tag = "ingest", operation_id = "get_public_key",
    params(("id" = String, Path, description = "The key's id: 8 hexadecimal digits.", max_length = 64)),
    responses((status = 200, description = "The key.", body = IngestKey), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_public_key(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    Path(id): Path<String>,
) -> Result<Json<IngestKey>, Problem> {
    check_id(&id)?;
    let mut tx = api.tenant(access.tenant()).await?;
    let key = store::get_key(&mut tx, &id, access.only_app()).await?;
    key.map(Json).ok_or_else(no_key)
}
