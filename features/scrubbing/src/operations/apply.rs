//! `POST /v1/scrubbing/apply`: applies the rules to stored reports.

use super::{EVERY_APP, Scrubbing};
use crate::store::runs;
use axum::extract::State;
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{AcceptedResponse, Access, Problem, TenantAdmin, problems};
use unslide_store::audit;

problems!(Failures: );

/// Apply the rules of scrubbing to stored reports
///
/// A builder applies the rules that hold now to all stored reports, the oldest first, in the place where they are: bodies, titles,
/// search terms and messages lose what the rules take, and it cannot be had back. Reports keep their revisions and are not published
/// again. `GET /v1/scrubbing` shows how far it is. A run that is under way begins again.
#[utoipa::path(post, path = "/v1/scrubbing/apply", tag = "scrubbing", operation_id = "apply_scrubbing",
    responses((status = 202, description = "The run has begun.",
        headers(("location" = String, description = "The path that shows how far it is.")), body = Scrubbing), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn apply_scrubbing(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<AcceptedResponse<Scrubbing>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let actor = access.principal.key_id.to_string();
    let mut tx = storage.tenant(access.tenant()).await?;
    runs::start_run(&mut tx, &actor).await?;
    audit::append_entry(&mut tx, &actor, "scrubbing.apply", "stored reports", &json!({})).await?;
    let scrubbing = Scrubbing::load(&mut tx).await?;
    tx.commit().await?;
    Ok(AcceptedResponse { body: scrubbing, location: Some("/v1/scrubbing".to_owned()) })
}
