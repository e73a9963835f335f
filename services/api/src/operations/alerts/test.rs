//! `POST /v1/alert-rules/{id}/test`.

use super::no_rule;
use crate::operations::prelude::*;
use http::StatusCode;
use unslide_store::Uuid;
use unslide_store::alerts::events::{AlertCause, raise_for};
use unslide_store::alerts::rules;

problems!(Failures: InvalidParameter, NotFound);

/// Send a test message
///
/// It is sent like any other message: `GET /v1/alert-messages` lists it with its outcome.
#[utoipa::path(post, path = "/v1/alert-rules/{id}/test", tag = "alerts", operation_id = "test_alert_rule",
    params(("id" = Uuid, Path, description = "The rule's id.")),
    responses((status = 204, description = "The message will be sent."), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn test_alert_rule(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    Path(id): Path<Uuid>,
) -> Result<StatusCode, Problem> {
    let mut tx = api.tenant(access.tenant()).await?;
    let rule = rules::get(&mut tx, id, access.only_app()).await?.ok_or_else(no_rule)?;
    let cause = AlertCause {
        cause: format!("test:{}", api.clock.now().unix_timestamp()),
        headline: format!("Test of the alert rule {}", rule.name),
        detail: "Nothing happened: somebody asked for this message.".to_owned(),
        app: rule.app.unwrap_or_default(),
        version: String::new(),
        path: "/console/alerts".to_owned(),
    };
    raise_for(&mut tx, id, &[cause]).await?;
    tx.commit().await?;
    Ok(StatusCode::NO_CONTENT)
}
