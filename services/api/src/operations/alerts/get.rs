//! `GET /v1/alert-rules/{id}`.

use super::{described, no_rule};
use crate::operations::prelude::*;
use unslide_store::Uuid;
use unslide_store::alerts::rules::{self, AlertRule};

problems!(Failures: InvalidParameter, NotFound);

/// Get an alert rule
#[utoipa::path(get, path = "/v1/alert-rules/{id}", tag = "alerts", operation_id = "get_alert_rule",
    params(("id" = Uuid, Path, description = "The rule's id.")),
    responses((status = 200, description = "The rule.", body = AlertRule), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_alert_rule(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    Path(id): Path<Uuid>,
) -> Result<Json<AlertRule>, Problem> {
    let mut tx = api.tenant(access.tenant()).await?;
    let found = rules::get(&mut tx, id, access.only_app()).await?;
    described(&api, &mut tx, found.ok_or_else(no_rule)?).await.map(Json)
}
