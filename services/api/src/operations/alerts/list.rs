//! `GET /v1/alert-rules`.

use crate::operations::prelude::*;
use unslide_store::alerts::rules::{self, AlertRule};

problems!(Failures:);

/// The rules of a tenant.
#[derive(Serialize, ToSchema)]
pub struct AlertRules {
    /// All of them, the oldest first.
    #[schema(max_items = 100)]
    pub items: Vec<AlertRule>,
}

/// List alert rules
///
/// Without their secrets. A key that speaks for one app sees the rules of that app.
#[utoipa::path(get, path = "/v1/alert-rules", tag = "alerts", operation_id = "list_alert_rules",
    responses((status = 200, description = "The rules.", body = AlertRules), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn list_alert_rules(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
) -> Result<Json<AlertRules>, Problem> {
    let mut tx = api.tenant(access.tenant()).await?;
    let items = rules::list(&mut tx, access.only_app()).await?;
    Ok(Json(AlertRules { items }))
}
