//! `POST /v1/alert-messages/{id}/send`.

use super::ALERT_UNITS;
use crate::store::{AlertMessageId, messages};
use axum::extract::State;
use http::StatusCode;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Charge, Kind, Path, Problem, TenantAdmin, problems};

problems!(Failures: InvalidParameter, NotFound, RateLimited);

/// Send an alert message again
///
/// Sends a message again with the same id, also one that was delivered or muted. It costs as many units as
/// 100 reports.
#[utoipa::path(post, path = "/v1/alert-messages/{id}/send", tag = "alerts", operation_id = "send_alert_again",
    params(("id" = Uuid, Path, description = "The message's id.")),
    responses((status = 204, description = "The message will be sent."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn send_alert_again(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    Path(id): Path<AlertMessageId>,
) -> Result<StatusCode, Problem> {
    Charge::for_reports(&storage.capacity, access.tenant(), access.principal.limits.units_per_second)?
        .charge_reports(ALERT_UNITS)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    if !messages::send_again(&mut tx, id, access.only_app()).await? {
        return Err(Problem::new(Kind::NotFound, "there is no such alert message"));
    }
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
