//! `GET /v1/reprocess/{id}`.

use super::Reprocess;
use crate::operations::prelude::*;
use unslide_store::{Uuid, reprocess};

problems!(Failures: InvalidParameter, NotFound);

/// See how far a reprocess is
#[utoipa::path(get, path = "/v1/reprocess/{id}", tag = "reports", operation_id = "get_reprocess",
    params(("id" = Uuid, Path, description = "The reprocess's id.")),
    responses((status = 200, description = "The reprocess as it stands.", body = Reprocess), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_reprocess(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    Path(id): Path<Uuid>,
) -> Result<Json<Reprocess>, Problem> {
    let mut tx = api.tenant(access.tenant()).await?;
    let found = reprocess::get(&mut tx, id).await?;
    // A key for one app sees what is of that app alone.
    found
        .filter(|found| access.principal.app.is_none() || access.principal.app == found.wanted.app)
        .map(|found| Json(found.into()))
        .ok_or_else(|| Problem::new(Kind::NotFound, "there is no such reprocess"))
}
