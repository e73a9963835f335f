//! The operations of fault analysis: the switch of a tenant.

use crate::SWITCH;
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use unslide_api::feature::operation::{
    Access, Api, JsonBody, Problem, TenantAdmin, problems, wait_announced,
};
use unslide_store::audit;
use unslide_store::tenants::analyses;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The reason for refusing a key that speaks for one app only.
const EVERY_APP: &str = "the switch applies to the reports of every app";

/// Returns the routes of this folder.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(get_fault_analysis, set_fault_analysis))
}

/// The switch of the tenant.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct FaultAnalysisSwitch {
    /// True if new revisions of reports get `symbolication.fault`.
    #[schema(example = false)]
    enabled: bool,
}

/// The switch after a change.
#[derive(Debug, Serialize, ToSchema)]
struct ChangedFaultAnalysisSwitch {
    /// True if new revisions of reports get `symbolication.fault`.
    enabled: bool,
    /// True once the broker has the change, from which the workers learn it. False if that takes longer than this
    /// request waited; it will happen all the same.
    announced: bool,
}

problems!(GetFailures: InvalidParameter);
problems!(SetFailures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// See the switch of fault analysis
///
/// Says whether reports of the tenant are analysed for what was wrong at the instruction of the crash. They are unless the
/// tenant has turned it off.
#[utoipa::path(get, path = "/v1/fault-analysis", tag = "fault-analysis", operation_id = "get_fault_analysis",
    responses((status = 200, description = "The switch.", body = FaultAnalysisSwitch), GetFailures),
    security(("key" = ["tenant:admin"])))]
async fn get_fault_analysis(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
) -> Result<Json<FaultAnalysisSwitch>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = api.tenant(access.tenant()).await?;
    let disabled = analyses::disabled_analyses(&mut tx).await?;
    tx.rollback();
    Ok(Json(FaultAnalysisSwitch { enabled: disabled.iter().all(|name| name != SWITCH) }))
}

/// Turn fault analysis on or off
///
/// Applies to reports that are symbolicated from now on. Stored revisions stay as they are; a reprocess replaces them.
#[utoipa::path(put, path = "/v1/fault-analysis", tag = "fault-analysis", operation_id = "set_fault_analysis",
    request_body = FaultAnalysisSwitch,
    responses((status = 200, description = "The switch as it is now.", body = ChangedFaultAnalysisSwitch), SetFailures),
    security(("key" = ["tenant:admin"])))]
async fn set_fault_analysis(
    State(api): State<Api>,
    access: Access<TenantAdmin>,
    JsonBody(FaultAnalysisSwitch { enabled }): JsonBody<FaultAnalysisSwitch>,
) -> Result<Json<ChangedFaultAnalysisSwitch>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = api.tenant(access.tenant()).await?;
    let announcement = analyses::set_enabled(&mut tx, SWITCH, enabled).await?;
    let announcement = announcement.ok_or_else(|| Problem::internal("the tenant of a key is not there"))?;
    let actor = access.principal.key_id.to_string();
    audit::append_entry(
        &mut tx,
        &actor,
        "fault_analysis.set",
        SWITCH,
        &serde_json::json!({"enabled": enabled}),
    )
    .await?;
    tx.commit().await?;
    api.key_cache.forget(access.tenant());
    let announced = wait_announced(&api, access.tenant(), announcement).await?;
    Ok(Json(ChangedFaultAnalysisSwitch { enabled, announced }))
}
