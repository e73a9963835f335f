//! `GET` and `PUT /v1/regression-rule`: when a resolved group comes back.

use crate::store::{self, RegressionRule};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Problem, TenantAdmin, problems};
use unslide_store::audit;
use utoipa::ToSchema;

/// The reason for which a key for one app is refused.
const EVERY_APP: &str = "the rule holds for all apps of a tenant";

/// When resolved groups of a tenant come back.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegressionSettings {
    /// `any_report`: with the first report that contradicts that the group is resolved. `not_fixed`: when its verdict says that it is
    /// not fixed, if its app has sessions; else as with `any_report`.
    pub rule: RegressionRule,
}

problems!(GetFailures: );
problems!(SetFailures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// Get the rule of regressions
///
/// Says when a resolved group comes back.
#[utoipa::path(get, path = "/v1/regression-rule", tag = "verdicts", operation_id = "get_regression_rule",
    responses((status = 200, description = "The rule.", body = RegressionSettings), GetFailures),
    security(("key" = ["tenant:admin"])))]
pub async fn get_regression_rule(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<RegressionSettings>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    Ok(Json(RegressionSettings { rule: store::read_rule(&mut tx).await? }))
}

/// Set the rule of regressions
///
/// Groups that wait for a verdict are looked at again under the new rule within seconds.
#[utoipa::path(put, path = "/v1/regression-rule", tag = "verdicts", operation_id = "set_regression_rule",
    request_body = RegressionSettings,
    responses((status = 200, description = "The rule.", body = RegressionSettings), SetFailures),
    security(("key" = ["tenant:admin"])))]
pub async fn set_regression_rule(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
    JsonBody(settings): JsonBody<RegressionSettings>,
) -> Result<Json<RegressionSettings>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    store::set_rule(&mut tx, settings.rule).await?;
    let actor = access.principal.key_id.to_string();
    let detail = json!({"rule": settings.rule});
    audit::append_entry(&mut tx, &actor, "regression_rule.set", "", &detail).await?;
    tx.commit().await?;
    Ok(Json(settings))
}
