//! `GET /v1/operator/quarantine/{id}`.

use crate::operations::prelude::*;
use unslide_store::Uuid;
use unslide_store::quarantine::{self, QuarantinedRecord};

problems!(Failures: InvalidParameter, NotFound);

/// Show a quarantined record
///
/// Shows its position in Kafka, why it could not be stored, and how its last replay ended.
#[utoipa::path(get, path = "/v1/operator/quarantine/{id}", tag = "quarantine",
    operation_id = "operator_get_quarantined",
    params(("id" = Uuid, Path, description = "The record's id.")),
    responses((status = 200, description = "The record.", body = QuarantinedRecord), Failures),
    security(("key" = ["operator"])))]
pub async fn operator_get_quarantined(
    State(api): State<Api>,
    access: Access<Operator>,
    Path(id): Path<Uuid>,
) -> Result<Json<QuarantinedRecord>, Problem> {
    let mut tx = api.tenant(access.tenant()).await?;
    let found = quarantine::get(&mut tx, id).await?;
    found.map(Json).ok_or_else(|| Problem::new(Kind::NotFound, "there is no such quarantined record"))
}
