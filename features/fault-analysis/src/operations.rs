//! The operations of fault analysis: the switches of a tenant.

use crate::{ANALYSIS, VARIABLES_ANALYSIS};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use unslide_api::feature::Keys;
use unslide_api::feature::OperationRouter;
use unslide_api::feature::Storage;
use unslide_api::feature::operation::{Access, JsonBody, Problem, TenantAdmin, problems, wait_announced};
use unslide_api::routes;
use unslide_store::audit;
use unslide_store::tenants::analyses;
use utoipa::ToSchema;

/// The reason for refusing a key that speaks for one app only.
const EVERY_APP: &str = "the switch applies to the reports of every app";

/// Returns the routes of this folder.
pub fn routes() -> OperationRouter {
    OperationRouter::new().routes(routes!(get_fault_analysis, set_fault_analysis))
}

/// The switches of the tenant.
#[derive(Debug, Serialize, ToSchema)]
struct FaultAnalysisSwitches {
    /// True if new revisions of reports get `symbolication.fault`.
    enabled: bool,
    /// True if new revisions of reports get `symbolication.variables`, and stored ones show it.
    variables: bool,
}

/// A change of the switches. A switch that is not named stays as it is.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct FaultAnalysisChange {
    /// True if new revisions of reports are to get `symbolication.fault`.
    #[schema(example = false)]
    enabled: Option<bool>,
    /// True if new revisions of reports are to get `symbolication.variables`: values of variables may be data of users.
    #[schema(example = false)]
    variables: Option<bool>,
}

/// The switches after a change.
#[derive(Debug, Serialize, ToSchema)]
struct ChangedFaultAnalysisSwitches {
    /// True if new revisions of reports get `symbolication.fault`.
    enabled: bool,
    /// True if new revisions of reports get `symbolication.variables`, and stored ones show it.
    variables: bool,
    /// True once the broker has the change, from which the workers learn it. False if that takes longer than this
    /// request waited; it will happen all the same.
    announced: bool,
}

problems!(GetFailures: InvalidParameter);
problems!(SetFailures: InvalidBody, IncompleteBody, BodyTimeout, TooLarge);

/// See the switches of fault analysis
///
/// Says whether reports of the tenant are analysed for what was wrong at the instruction of the crash, and whether they get
/// the values of the variables there. The analysis is on unless the tenant has turned it off; the values are off unless
/// the tenant has turned them on.
#[utoipa::path(get, path = "/v1/fault-analysis", tag = "fault-analysis", operation_id = "get_fault_analysis",
    responses((status = 200, description = "The switches.", body = FaultAnalysisSwitches), GetFailures),
    security(("key" = ["tenant:admin"])))]
async fn get_fault_analysis(
    State(storage): State<Arc<Storage>>,
    access: Access<TenantAdmin>,
) -> Result<Json<FaultAnalysisSwitches>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = storage.tenant(access.tenant()).await?;
    let switches = analyses::read_switches(&mut tx).await?;
    tx.rollback();
    let (enabled, variables) = (ANALYSIS.is_enabled(&switches), VARIABLES_ANALYSIS.is_enabled(&switches));
    Ok(Json(FaultAnalysisSwitches { enabled, variables }))
}

/// Turn parts of fault analysis on or off
///
/// Applies to reports that are symbolicated from now on. Once values of variables are off, no operation shows those of stored
/// revisions; a reprocess removes them, and adds what is on now.
#[utoipa::path(put, path = "/v1/fault-analysis", tag = "fault-analysis", operation_id = "set_fault_analysis",
    request_body = FaultAnalysisChange,
    responses((status = 200, description = "The switches as they are now.", body = ChangedFaultAnalysisSwitches), SetFailures),
    security(("key" = ["tenant:admin"])))]
async fn set_fault_analysis(
    State(keys): State<Arc<Keys>>,
    access: Access<TenantAdmin>,
    JsonBody(change): JsonBody<FaultAnalysisChange>,
) -> Result<Json<ChangedFaultAnalysisSwitches>, Problem> {
    access.require_every_app(EVERY_APP)?;
    let mut tx = keys.storage.tenant(access.tenant()).await?;
    let actor = access.principal.key_id.to_string();
    let mut announcement = None;
    for (analysis, position) in [(ANALYSIS, change.enabled), (VARIABLES_ANALYSIS, change.variables)] {
        let Some(enabled) = position else { continue };
        let set = analyses::switch_analysis(&mut tx, analysis.name, enabled).await?;
        announcement = Some(set.ok_or_else(|| Problem::internal("the tenant of a key is not there"))?);
        let detail = serde_json::json!({"enabled": enabled});
        audit::append_entry(&mut tx, &actor, "fault_analysis.set", analysis.name, &detail).await?;
    }
    let switches = analyses::read_switches(&mut tx).await?;
    tx.commit().await?;
    keys.cache.forget(access.tenant());
    let announced = match announcement {
        Some(announcement) => wait_announced(&keys.storage, access.tenant(), announcement).await?,
        None => true,
    };
    let (enabled, variables) = (ANALYSIS.is_enabled(&switches), VARIABLES_ANALYSIS.is_enabled(&switches));
    Ok(Json(ChangedFaultAnalysisSwitches { enabled, variables, announced }))
}
