//! `GET /v1/alert-rules/{id}`.

use super::{describe_rule, no_rule};
use crate::receiver_policy::PolicyExtension;
use crate::store::rules::AlertRule;
use crate::store::{AlertRuleId, rule_table};
use axum::extract::State;
use axum::{Extension, Json};
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, Path, Problem, TenantAdmin, problems};

problems!(Failures: InvalidParameter, NotFound);

/// Get one alert rule by its id
#[utoipa::path(get, path = "/v1/alert-rules/{id}", tag = "alerts", operation_id = "get_alert_rule",
    params(("id" = Uuid, Path, description = "The rule's id.")),
    responses((status = 200, description = "The rule.", body = AlertRule), Failures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_alert_rule(
    State(storage): State<Arc<Storage>>,
    Extension(policy): PolicyExtension,
    access: Access<TenantAdmin>,
    Path(id): Path<AlertRuleId>,
) -> Result<Json<AlertRule>, Problem> {
    let mut tx = storage.tenant(access.tenant()).await?;
    let found = rule_table::get(&mut tx, id, access.only_app()).await?;
    describe_rule(&policy, &mut tx, found.ok_or_else(no_rule)?).await.map(Json)
}
