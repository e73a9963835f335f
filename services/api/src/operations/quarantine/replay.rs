//! `POST /v1/operator/quarantine/{id}/replay`.

use crate::operations::prelude::*;
use serde_json::json;
use unslide_store::quarantine::{self, QuarantinedRecord};
use unslide_store::{Uuid, audit};

problems!(Failures: InvalidParameter, NotFound, TenantSuspended);

/// Replay a quarantined record
///
/// Requests that the indexer reads the record again from its position in Kafka and stores it. The record's
/// `replay` has the outcome. A report that is stored already is not stored twice.
#[utoipa::path(post, path = "/v1/operator/quarantine/{id}/replay", tag = "quarantine",
    operation_id = "operator_replay_quarantined",
    params(("id" = Uuid, Path, description = "The record's id.")),
    responses((status = 202, description = "The replay is requested from the indexer.",
            headers(("location" = String, description = "The path of the record; its `replay` has the outcome.")), body = QuarantinedRecord), Failures),
    security(("key" = ["operator"])))]
pub async fn operator_replay_quarantined(
    State(api): State<Api>,
    access: Access<Operator>,
    Path(id): Path<Uuid>,
) -> Result<AcceptedResponse<QuarantinedRecord>, Problem> {
    let absent = || Problem::new(Kind::NotFound, "there is no such quarantined record");
    let by = access.principal.key_id.to_string();
    let mut tx = api.tenant(access.tenant()).await?;
    if !quarantine::request_replay(&mut tx, id, &by).await? {
        return Err(absent());
    }
    let found = quarantine::get(&mut tx, id).await?.ok_or_else(absent)?;
    let detail = json!({ "reason": found.reason, "of_tenant": found.tenant });
    audit::append(&mut tx, &by, "quarantine.replay", &id.to_string(), &detail).await?;
    tx.commit().await?;
    Ok(AcceptedResponse { body: found, location: Some(format!("/v1/operator/quarantine/{id}")) })
}
