//! `GET /v1/reprocess/{id}`.

use crate::operations::prelude::*;
use unslide_store::ReprocessId;
use unslide_store::reprocess::{self, ReprocessRun};

problems!(Failures: InvalidParameter, NotFound);

/// Get the progress of a reprocess
#[utoipa::path(get, path = "/v1/reprocess/{id}", tag = "reports", operation_id = "get_reprocess",
    params(("id" = Uuid, Path, description = "The reprocess's id.")),
    responses((status = 200, description = "The reprocess and its progress.", body = ReprocessRun), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_reprocess(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Path(id): Path<ReprocessId>,
) -> Result<Json<ReprocessRun>, Problem> {
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = reprocess::get(&mut tx, id).await?;
    // A key for one app sees only that app's reprocesses.
    found
        .filter(|found| access.principal.app.is_none() || access.principal.app == found.app)
        .map(Json)
        .ok_or_else(|| Problem::new(Kind::NotFound, "there is no such reprocess"))
}
